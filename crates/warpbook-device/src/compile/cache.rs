//! Stores compiled kernels on disk.
//!
//! Each file is named after the hash of all its inputs, so no entry ever has to be invalidated. Files are written under
//! a temporary name and then renamed. If a file cannot be read, is truncated or was tampered with, the kernel is
//! compiled again.

use crate::compile::compiled::Compiled;
use crate::files::write_atomic_with_folder;
use sha2::{Digest, Sha256};
use std::path::PathBuf;

/// Version of the cache file's format.
const FORMAT: &str = "warpbook-cubin-2";

/// The folder of compiled kernels; `None` if there is none.
#[derive(Debug, Clone)]
pub(crate) struct Cache(Option<PathBuf>);

impl Cache {
    pub(crate) fn for_user() -> Self {
        Self(warpbook_record::cache_folder())
    }

    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self(None)
    }

    #[cfg(test)]
    pub(crate) fn at(folder: &std::path::Path) -> Self {
        Self(Some(folder.to_owned()))
    }

    /// Returns the cache file's name for these inputs.
    pub(crate) fn key<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
        let mut hash = Sha256::new();
        for part in std::iter::once(FORMAT).chain(parts) {
            // Hashing the length as well distinguishes ("ab", "c") from ("a", "bc").
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        hex(&hash.finalize())
    }

    pub(crate) fn read(&self, key: &str) -> Option<Compiled> {
        let bytes = std::fs::read(self.path(key)?).ok()?;
        let (sum, rest) = bytes.split_at_checked(32)?;
        if Sha256::digest(rest).as_slice() != sum {
            return None;
        }
        let (length, rest) = rest.split_at_checked(8)?;
        let length = usize::try_from(u64::from_le_bytes(length.try_into().ok()?)).ok()?;
        let (stats, cubin) = rest.split_at_checked(length)?;
        Some(Compiled { stats: serde_json::from_slice(stats).ok()?, cubin: cubin.to_vec(), from_cache: true })
    }

    /// Stores a compiled kernel. If the folder is not writable, the kernel is not cached, and the next start takes
    /// longer.
    pub(crate) fn write(&self, key: &str, compiled: &Compiled) {
        let Some(path) = self.path(key) else { return };
        let Ok(stats) = serde_json::to_vec(&compiled.stats) else { return };
        let mut body = (stats.len() as u64).to_le_bytes().to_vec();
        body.extend_from_slice(&stats);
        body.extend_from_slice(&compiled.cubin);
        let mut bytes = Sha256::digest(&body).to_vec();
        bytes.extend_from_slice(&body);
        let _ = write_atomic_with_folder(&path, &bytes);
    }

    fn path(&self, key: &str) -> Option<PathBuf> {
        Some(self.0.as_ref()?.join(format!("{key}.cubin")))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_record::KernelStats;

    fn compiled() -> Compiled {
        let stats = KernelStats { entry: "k".into(), registers: 7, ..KernelStats::default() };
        Compiled { cubin: vec![1, 2, 3], stats: vec![stats], from_cache: false }
    }

    #[test]
    fn what_was_written_is_read_and_what_was_damaged_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path());
        let key = Cache::key(["a", "b"]);
        assert!(cache.read(&key).is_none());
        cache.write(&key, &compiled());
        let read = cache.read(&key).unwrap();
        assert_eq!((read.cubin, read.stats[0].registers, read.from_cache), (vec![1, 2, 3], 7, true));

        let path = folder.path().join(format!("{key}.cubin"));
        let good = std::fs::read(&path).unwrap();
        for cut in 0..good.len() {
            std::fs::write(&path, &good[..cut]).unwrap();
            assert!(cache.read(&key).is_none(), "cut at {cut}");
        }
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            std::fs::write(&path, bad).unwrap();
            assert!(cache.read(&key).is_none(), "flipped at {at}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_no_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        // Because a file is in the folder's place, nothing can be created below it, even by root.
        Cache::at(&file).write("k", &compiled());
        assert!(Cache::at(&file).read("k").is_none());
        Cache(None).write("k", &compiled());
    }

    #[test]
    fn keys_tell_their_parts_apart() {
        assert_ne!(Cache::key(["ab", "c"]), Cache::key(["a", "bc"]));
        assert_ne!(Cache::key(["a"]), Cache::key(["a", ""]));
    }
}

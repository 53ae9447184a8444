//! Files that appear whole or not at all.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tells the temporary files of one process apart.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Writes a file under a temporary name in its folder and renames it, so that an older one stays whole until the new one is. The bytes are on
/// the disk before the name is.
///
/// # Errors
/// The system's: no such folder, no permission, a full disk. The temporary file is removed.
pub fn write_atomic(path: impl AsRef<Path>, bytes: &[u8]) -> std::io::Result<()> {
    let path = path.as_ref();
    let name = path.file_name().ok_or_else(|| std::io::Error::other("it names no file"))?;
    // Two processes, or two threads, may write the same file at once.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let part = path.with_file_name(format!(".{}.{}-{number}.part", name.to_string_lossy(), std::process::id()));
    let write = || {
        let mut file = std::fs::File::create(&part)?;
        file.write_all(bytes)?;
        // A full disk may show only here.
        file.sync_all()?;
        std::fs::rename(&part, path)
    };
    write().inspect_err(|_| {
        let _ = std::fs::remove_file(&part);
    })
}

/// Tries whether [`write_atomic_with_folder`] could write the file now; leaves nothing behind but its folder.
///
/// # Errors
/// As of [`write_atomic`], and where the path is a folder or anything else that is no file, which a rename would not replace or not bring back.
pub fn ensure_writable(path: impl AsRef<Path>) -> std::io::Result<()> {
    let path = path.as_ref();
    match std::fs::metadata(path) {
        Ok(m) if m.is_dir() => return Err(std::io::Error::other("it is a folder; name a file in it")),
        Ok(m) if !m.is_file() => return Err(std::io::Error::other("it is not a regular file")),
        _ => {}
    }
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = path.file_name().ok_or_else(|| std::io::Error::other("it names no file"))?;
    let probe = path.with_file_name(format!(".{}.{}-{number}.probe", name.to_string_lossy(), std::process::id()));
    let written = write_atomic_with_folder(&probe, &[0; 4096]);
    let _ = std::fs::remove_file(&probe);
    written
}

/// As [`write_atomic`]; makes the file's folder where it is not there.
///
/// # Errors
/// As of [`write_atomic`].
pub fn write_atomic_with_folder(path: impl AsRef<Path>, bytes: &[u8]) -> std::io::Result<()> {
    let path = path.as_ref();
    if let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)?;
    }
    write_atomic(path, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let all = std::fs::read_dir(folder).unwrap();
        all.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        write_atomic(&path, b"old and long").unwrap();
        write_atomic(&path, b"new").unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), names(folder.path())), (b"new".to_vec(), vec!["a.json".to_owned()]));
    }

    #[test]
    fn what_cannot_be_written_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let (file, taken) = (folder.path().join("file"), folder.path().join("taken"));
        write_atomic(&file, b"text").unwrap();
        std::fs::create_dir(&taken).unwrap();
        // A folder in the file's place, no folder for it, a file in its folder's place, and no name.
        assert!(write_atomic(&taken, b"x").is_err() && taken.is_dir());
        assert!(write_atomic(folder.path().join("none/a"), b"x").is_err());
        assert!(write_atomic_with_folder(file.join("a"), b"x").is_err());
        assert!(write_atomic("/", b"x").is_err());
        write_atomic_with_folder(folder.path().join("deep/er/a"), b"x").unwrap();
        let mut left = names(folder.path());
        left.sort();
        assert_eq!(left, ["deep", "file", "taken"]);
    }

    #[test]
    fn whether_a_file_can_be_written_is_known_before() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        write_atomic(&file, b"text").unwrap();
        assert!(ensure_writable(&file).is_ok() && ensure_writable(folder.path().join("new/one")).is_ok());
        assert_eq!((std::fs::read(&file).unwrap(), names(&folder.path().join("new"))), (b"text".to_vec(), vec![]));
        let refused = |path: &Path| ensure_writable(path).unwrap_err().to_string();
        assert!(refused(folder.path()).contains("is a folder"));
        refused(&file.join("below"));
        refused(Path::new("/"));
        #[cfg(unix)]
        assert!(refused(Path::new("/dev/null")).contains("not a regular file"));
        assert_eq!(names(folder.path()).len(), 2);
    }

    #[test]
    fn several_threads_may_write_the_same_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::thread::scope(|s| {
            for i in 0..8u8 {
                let path = &path;
                s.spawn(move || (0..20).for_each(|_| write_atomic(path, &[i; 5000]).unwrap()));
            }
        });
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes.len() == 5000 && bytes.iter().all(|b| *b == bytes[0]));
        assert_eq!(names(folder.path()), ["a"]);
    }
}

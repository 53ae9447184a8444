//! Reads files up to their expected length and compares them with the published hashes.

use crate::Origin;
use crate::error::{Error, Result};
use flate2::bufread::GzDecoder;
use md5::Md5;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// A reader that computes the SHA-256 of what is read.
pub(crate) struct Hashed<R> {
    inner: R,
    hash: Sha256,
}

impl<R: Read> Hashed<R> {
    fn new(inner: R) -> Self {
        Self { inner, hash: Sha256::new() }
    }

    /// Reads the rest of the file and returns the hash of the whole file.
    fn finish(mut self) -> std::io::Result<String> {
        std::io::copy(&mut self.inner, &mut HashWriter(&mut self.hash))?;
        Ok(hex(&self.hash.finalize()))
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let n = self.inner.read(to)?;
        self.hash.update(&to[..n]);
        Ok(n)
    }
}

struct HashWriter<'a>(&'a mut Sha256);

impl std::io::Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns the SHA-256 of a file as it is on disk, if it can be read.
pub(crate) fn sha256_of(path: &Path) -> Option<String> {
    Hashed::new(File::open(path).ok()?).finish().ok()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Returns the MD5 in lower-case hexadecimal. MD5 detects accidental damage, but not a deliberate forgery.
pub(crate) fn md5(bytes: &[u8]) -> String {
    hex(&Md5::digest(bytes))
}

/// The first bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The first bytes of file types that are often saved by mistake.
const OTHER_KINDS: [(&[u8], &str); 5] = [
    (b"PK\x03\x04", "a zip archive: unpack it"),
    (b"\xfd7zXZ\0", "packed by xz: unpack it"),
    (b"BZh", "packed by bzip2: unpack it"),
    (b"\x28\xb5\x2f\xfd", "packed by zstd: unpack it"),
    (b"version https://git-lfs", "a Git LFS pointer instead of the file: get the file with `git lfs pull`"),
];

/// Returns true if a file begins like a web page.
fn is_page(start: &[u8]) -> bool {
    let start = start.trim_ascii_start().to_ascii_lowercase();
    [&b"<!doctype html"[..], b"<html", b"<head"].iter().any(|begin| start.starts_with(begin))
}

/// A file that is being read. Any file that begins like a gzip file is unpacked, whatever its name, because browsers unpack files and keep their
/// names.
pub(crate) struct InputFile {
    path: PathBuf,
    stream: Stream,
    at: u64,
}

/// The bytes of a file on disk.
type Bytes = BufReader<Hashed<File>>;

enum Stream {
    Plain(Bytes),
    Gzip(Members),
}

/// A packed file: one or more concatenated gzip members, optionally followed by zeros, which tapes and some tools add to fill a block.
enum Members {
    /// A gzip member that is being unpacked.
    Packed(Box<GzDecoder<Bytes>>),
    /// The end of the file.
    Ended(Bytes),
    /// An error occurred between two members, and the file can no longer be read.
    Lost,
}

impl Members {
    /// Continues after the end of a gzip member.
    fn behind(mut bytes: Bytes) -> std::io::Result<Self> {
        let mut is_filled_up = false;
        loop {
            let next = bytes.fill_buf()?;
            match next.len() {
                0 => return Ok(Self::Ended(bytes)),
                n if next.iter().all(|b| *b == 0) => {
                    is_filled_up = true;
                    bytes.consume(n);
                }
                _ if next[0] == GZIP[0] && !is_filled_up => return Ok(Self::Packed(Box::new(GzDecoder::new(bytes)))),
                _ => return Err(std::io::Error::other("other data follow the packed ones")),
            }
        }
    }
}

impl Read for Members {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match std::mem::replace(self, Self::Lost) {
                Self::Packed(mut member) => match member.read(to)? {
                    0 if !to.is_empty() => *self = Self::behind(member.into_inner())?,
                    n => {
                        *self = Self::Packed(member);
                        return Ok(n);
                    }
                },
                Self::Ended(bytes) => {
                    *self = Self::Ended(bytes);
                    return Ok(0);
                }
                Self::Lost => return Err(std::io::Error::other("it was not read to its end")),
            }
        }
    }
}

impl InputFile {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let refuse = |why: String| Error::read(path, why);
        let file = File::open(path).map_err(|e| refuse(e.to_string()))?;
        let about = file.metadata().map_err(|e| refuse(e.to_string()))?;
        if !about.is_file() {
            return Err(refuse("it is not a regular file".into()));
        }
        let mut file = BufReader::with_capacity(1 << 16, Hashed::new(file));
        let start = file.fill_buf().map_err(|e| refuse(e.to_string()))?;
        if is_page(start) {
            return Err(refuse(
                "this is a web page, such as a login or an error page, and not the file itself. Download it again"
                    .into(),
            ));
        }
        if let Some((_, what)) = OTHER_KINDS.iter().find(|(begin, _)| start.starts_with(begin)) {
            return Err(refuse(format!("it is {what}")));
        }
        let stream = match start.starts_with(&GZIP) {
            true => Stream::Gzip(Members::Packed(Box::new(GzDecoder::new(file)))),
            false => Stream::Plain(file),
        };
        Ok(Self { path: path.to_owned(), stream, at: 0 })
    }

    /// Returns true if the file is unpacked while it is read.
    pub(crate) fn is_packed(&self) -> bool {
        matches!(self.stream, Stream::Gzip(_))
    }

    /// Returns an error that refuses the file, with the current offset.
    pub(crate) fn refuse<T>(&self, why: impl Into<String>) -> Result<T> {
        self.refuse_at(self.at, why)
    }

    pub(crate) fn refuse_at<T>(&self, offset: u64, why: impl Into<String>) -> Result<T> {
        Err(Error::format(&self.path, offset, why))
    }

    /// Reads the next `n` bytes; `what` names them in errors. The array grows only as bytes are read, so that a wrong length in a header allocates little.
    pub(crate) fn take_bytes(&mut self, n: usize, what: &str) -> Result<Vec<u8>> {
        const FIRST: usize = 1 << 20;
        let mut bytes = Vec::with_capacity(n.min(FIRST));
        let start = self.at;
        let read = Read::take(&mut *self, n as u64).read_to_end(&mut bytes);
        if let Err(e) = read {
            return self.refuse(format!("{what} cannot be unpacked ({e}). Download it again."));
        }
        if bytes.len() < n {
            return self.refuse(format!(
                "the file ends here, in {what}, but {n} bytes were expected from byte {start} on. Download it again."
            ));
        }
        Ok(bytes)
    }

    /// Checks that the file has ended, and returns the SHA-256 of the file as stored on disk.
    pub(crate) fn finish(mut self, what: &str) -> Result<String> {
        let mut one = [0];
        let end = self.at;
        match self.read(&mut one) {
            Ok(0) => {}
            Ok(_) => {
                return self
                    .refuse_at(end, format!("{what} should end here, but more bytes follow. Download it again."));
            }
            Err(e) => return self.refuse_at(end, format!("{what} cannot be unpacked ({e}). Download it again.")),
        }
        let file = match self.stream {
            Stream::Plain(file) => file,
            Stream::Gzip(Members::Ended(file)) => file,
            Stream::Gzip(Members::Packed(gz)) => gz.into_inner(),
            Stream::Gzip(Members::Lost) => return self.refuse_at(end, format!("{what} cannot be unpacked.")),
        };
        file.into_inner().finish().map_err(|e| Error::read(&self.path, e))
    }
}

impl Read for InputFile {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let n = match &mut self.stream {
            Stream::Plain(file) => file.read(to),
            Stream::Gzip(gz) => gz.read(to),
        }?;
        self.at += n as u64;
        Ok(n)
    }
}

/// The origin of a data set, derived from its files. The first file that differs from its published version decides.
pub(crate) struct Verdict(Origin);

impl Verdict {
    pub(crate) fn new() -> Self {
        Self(Origin::Original)
    }

    /// Records a file; `fits` says whether its hash is the published hash; it is `None` if no hash is published.
    pub(crate) fn note(&mut self, path: &Path, fits: Option<bool>) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let why = match fits {
            Some(true) => return,
            Some(false) => format!("not the original files: {name} differs from the published one"),
            None => format!("not verified as the original files: no hash of {name} is published"),
        };
        if self.0 == Origin::Original {
            self.0 = Origin::Modified { why };
        }
    }

    pub(crate) fn origin(self) -> Origin {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn md5_is_the_standard_s() {
        // This test vector is from RFC 1321.
        assert_eq!(md5(b"abc"), "900150983cd24fb0d6963f7d28e17f72");
    }

    #[test]
    fn packed_files_may_lie_behind_each_other_and_end_with_zeros() {
        use std::io::Write;
        let folder = tempfile::tempdir().unwrap();
        let packed = |text: &[u8]| {
            let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gz.write_all(text).unwrap();
            gz.finish().unwrap()
        };
        let read = |parts: &[&[u8]]| {
            let path = folder.path().join("packed");
            std::fs::write(&path, parts.concat()).unwrap();
            let mut source = InputFile::open(&path)?;
            let bytes = source.take_bytes(5, "letters")?;
            assert_eq!(source.finish("letters")?, sha256_of(&path).unwrap());
            Ok::<_, Error>(bytes)
        };
        let (abc, de, empty) = (packed(b"abc"), packed(b"de"), packed(b""));
        assert_eq!(read(&[&abc, &empty, &de]).unwrap(), b"abcde");
        assert_eq!(read(&[&abc, &de, &[0; 70_000]]).unwrap(), b"abcde");
        let why = |parts: &[&[u8]]| read(parts).unwrap_err().to_string();
        assert!(why(&[&abc, &de, b"more"]).contains("other data follow"), "{}", why(&[&abc, &de, b"more"]));
        assert!(why(&[&abc, &[0; 9], &de]).contains("other data follow"));
        assert!(why(&[&abc, &de[..de.len() - 3]]).contains("cannot be unpacked"));
        assert!(why(&[b"PK\x03\x04"]).contains("a zip archive"));
    }

    #[test]
    fn a_file_is_hashed_whole_however_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc");
        std::fs::write(&path, "abc").unwrap();
        let mut source = InputFile::open(&path).unwrap();
        assert_eq!(source.take_bytes(3, "letters").unwrap(), b"abc");
        // This test vector is from FIPS 180-2.
        assert_eq!(
            source.finish("letters").unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );

        let mut source = InputFile::open(&path).unwrap();
        source.take_bytes(2, "letters").unwrap();
        let error = source.finish("letters").unwrap_err().to_string();
        assert!(error.contains("byte 2: letters should end here"), "{error}");
        let error = InputFile::open(&path).unwrap().take_bytes(usize::MAX, "letters").unwrap_err().to_string();
        assert!(error.contains("byte 3: the file ends here, in letters"), "{error}");
        assert!(InputFile::open(folder.path()).is_err());
    }
}

//! Files that are read no further than they should be long, and compared with the published hashes.

use super::Origin;
use super::error::{Error, Result};
use flate2::read::MultiGzDecoder;
use md5::Md5;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The SHA-256 of what is read through it.
pub(super) struct Hashed<R> {
    inner: R,
    hash: Sha256,
}

impl<R: Read> Hashed<R> {
    fn new(inner: R) -> Self {
        Self { inner, hash: Sha256::new() }
    }

    /// Reads what is left and gives the hash of everything.
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

/// The SHA-256 of a file that can be read, as it lies there.
pub(super) fn sha256_of(path: &Path) -> Option<String> {
    Hashed::new(File::open(path).ok()?).finish().ok()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Returns the MD5 in lower-case hexadecimal. It detects a damaged file, not one made to deceive.
pub(super) fn md5(bytes: &[u8]) -> String {
    hex(&Md5::digest(bytes))
}

/// The bytes that a gzip file begins with.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Reports whether a file begins like a web page.
fn is_page(start: &[u8]) -> bool {
    let start = start.trim_ascii_start().to_ascii_lowercase();
    [&b"<!doctype html"[..], b"<html", b"<head"].iter().any(|begin| start.starts_with(begin))
}

/// A file that is being read, and unpacked if its first bytes are gzip's, whatever its name: browsers unpack files and keep their names.
pub(super) struct Source {
    path: PathBuf,
    stream: Stream,
    at: u64,
}

enum Stream {
    Plain(Hashed<BufReader<File>>),
    Gzip(Box<MultiGzDecoder<Hashed<BufReader<File>>>>),
}

impl Source {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let refuse = |why: String| Error::read(path, why);
        let file = File::open(path).map_err(|e| refuse(e.to_string()))?;
        let about = file.metadata().map_err(|e| refuse(e.to_string()))?;
        if !about.is_file() {
            return Err(refuse("it is not a regular file".into()));
        }
        let mut file = BufReader::with_capacity(1 << 16, file);
        let start = file.fill_buf().map_err(|e| refuse(e.to_string()))?;
        if is_page(start) {
            return Err(refuse(
                "this is a web page, which was saved in the file's place, such as a login or an error. Load the file in another way".into(),
            ));
        }
        let packed = start.starts_with(&GZIP);
        let file = Hashed::new(file);
        // A file may be several packed ones, one behind the other.
        let stream = if packed { Stream::Gzip(Box::new(MultiGzDecoder::new(file))) } else { Stream::Plain(file) };
        Ok(Self { path: path.to_owned(), stream, at: 0 })
    }

    /// Whether it is unpacked while it is read.
    pub(super) fn is_packed(&self) -> bool {
        matches!(self.stream, Stream::Gzip(_))
    }

    /// Refuses it, at where it has been read to.
    pub(super) fn refuse<T>(&self, why: impl Into<String>) -> Result<T> {
        self.refuse_at(self.at, why)
    }

    pub(super) fn refuse_at<T>(&self, offset: u64, why: impl Into<String>) -> Result<T> {
        Err(Error::format(&self.path, offset, why))
    }

    /// The next `n` bytes, which are `what`. The array grows with what is really there.
    pub(super) fn take_bytes(&mut self, n: usize, what: &str) -> Result<Vec<u8>> {
        const FIRST: usize = 1 << 20;
        let mut bytes = Vec::with_capacity(n.min(FIRST));
        let start = self.at;
        let read = Read::take(&mut *self, n as u64).read_to_end(&mut bytes);
        if let Err(e) = read {
            return self.refuse(format!("{what} cannot be unpacked ({e}). Load the file again."));
        }
        if bytes.len() < n {
            return self.refuse(format!(
                "the file ends here, in {what}, which begin at byte {start} and should have {n} bytes. Load it again."
            ));
        }
        Ok(bytes)
    }

    /// Makes sure that nothing follows, and gives the SHA-256 of the file as it is on disk.
    pub(super) fn finish(mut self, what: &str) -> Result<String> {
        let mut one = [0];
        let end = self.at;
        match self.read(&mut one) {
            Ok(0) => {}
            Ok(_) => {
                return self.refuse_at(end, format!("{what} should end here, and more follows. Load the file again."));
            }
            Err(e) => return self.refuse_at(end, format!("{what} cannot be unpacked ({e}). Load the file again.")),
        }
        let file = match self.stream {
            Stream::Plain(file) => file,
            Stream::Gzip(gz) => gz.into_inner(),
        };
        file.finish().map_err(|e| Error::read(&self.path, e))
    }
}

impl Read for Source {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let n = match &mut self.stream {
            Stream::Plain(file) => file.read(to),
            Stream::Gzip(gz) => gz.read(to),
        }?;
        self.at += n as u64;
        Ok(n)
    }
}

/// What is known of the files of a set: the first that is not as it was published decides.
pub(super) struct Verdict(Origin);

impl Verdict {
    pub(super) fn new() -> Self {
        Self(Origin::Original)
    }

    /// Notes a file: whether its hash is the published one, or `None` where none is published.
    pub(super) fn note(&mut self, path: &Path, fits: Option<bool>) {
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

    pub(super) fn origin(self) -> Origin {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn md5_is_the_standard_s() {
        // RFC 1321.
        assert_eq!(md5(b"abc"), "900150983cd24fb0d6963f7d28e17f72");
    }

    #[test]
    fn a_file_is_hashed_whole_however_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc");
        std::fs::write(&path, "abc").unwrap();
        let mut source = Source::open(&path).unwrap();
        assert_eq!(source.take_bytes(3, "letters").unwrap(), b"abc");
        // FIPS 180-2.
        assert_eq!(
            source.finish("letters").unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );

        let mut source = Source::open(&path).unwrap();
        source.take_bytes(2, "letters").unwrap();
        let error = source.finish("letters").unwrap_err().to_string();
        assert!(error.contains("byte 2: letters should end here"), "{error}");
        let error = Source::open(&path).unwrap().take_bytes(usize::MAX, "letters").unwrap_err().to_string();
        assert!(error.contains("byte 3: the file ends here, in letters"), "{error}");
        assert!(Source::open(folder.path()).is_err());
    }
}

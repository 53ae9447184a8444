//! Reads a kernel's source file, and the headers that it includes from its folder.

use crate::files::read_file;
use std::path::{Path, PathBuf};
use warpbook_kernels::{Include, includes};
use warpbook_record::Header;

/// Largest size of a source in bytes.
const LONGEST: u64 = 16 << 20;

/// Reads a kernel's source (CUDA C++ in UTF-8) and the headers in its folder that it includes.
///
/// # Errors
/// Returns an error if a file cannot be read or is not UTF-8; the message names the file and the line.
pub fn read_kernel(path: &Path) -> Result<(String, Vec<Header>), String> {
    let text = text_of(path)?;
    let headers = headers(path, &text)?;
    Ok((text, headers))
}

/// Reads a file's text without the byte order mark that some editors add.
fn text_of(path: &Path) -> Result<String, String> {
    let failed = |why: String| format!("{} cannot be read: {why}", path.display());
    let unreadable = |e: std::io::Error| failed(format!("{e}."));
    let bytes = read_file(path, LONGEST).map_err(unreadable)?;
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(failed("it is UTF-16. Save it as UTF-8.".into()));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(e) => {
            let line = 1 + bytes[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count();
            Err(failed(format!(
                "line {line} is not valid UTF-8 (the file may be in Latin-1 or GBK). Save the file as UTF-8."
            )))
        }
    }
}

/// Returns the headers in a file's folder that its text includes in quotes, directly or indirectly.
fn headers(file: &Path, text: &str) -> Result<Vec<Header>, String> {
    let mut found: Vec<Header> = Vec::new();
    let mut texts: Vec<(PathBuf, String)> = vec![(file.to_owned(), text.to_owned())];
    while let Some((file, text)) = texts.pop() {
        for include in includes(&text) {
            let Include::Quoted(name) = include else { continue };
            let path = file.with_file_name(name);
            if Path::new(name).is_absolute() || !path.is_file() || found.iter().any(|h| h.path == name) {
                continue;
            }
            let text = text_of(&path)?;
            found.push(Header { path: name.to_owned(), text: text.clone() });
            texts.push((path, text));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_brings_the_headers_next_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        write("k.cu", b"\xef\xbb\xbf#include \"mine.cuh\"\n# include \"sub/a.cuh\"\n#include \"matmul/gemm.cuh\"");
        write("mine.cuh", b"#include <sub/never.cuh>");
        write("sub/a.cuh", b"#include \"b.cuh\"");
        write("sub/b.cuh", b"// b");
        let (text, headers) = read_kernel(&folder.path().join("k.cu")).unwrap();
        assert!(text.starts_with("#include"), "without the mark");
        let mut names: Vec<&str> = headers.iter().map(|h| &*h.path).collect();
        names.sort_unstable();
        assert_eq!(names, ["b.cuh", "mine.cuh", "sub/a.cuh"]);
    }

    #[test]
    fn what_is_no_text_is_refused_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("k.cu");
        let refused = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            read_kernel(&path).unwrap_err()
        };
        assert!(refused(b"// a\n// b\n// gr\xf6\xdfe\n").contains("line 3 is not valid UTF-8"));
        assert!(refused(b"\xff\xfe/\0").contains("it is UTF-16"));
        #[cfg(unix)]
        assert!(read_kernel(Path::new("/dev/zero")).unwrap_err().contains("longer than 16777216 bytes"));
    }
}

//! The page that `cargo xtask lab` serves next to the notebooks, and links that open a record in it.

use crate::Result;
use std::path::{Path, PathBuf};
use warpbook_record::Run;

/// The environment variable that contains the page's address, which ends in a slash; `cargo xtask lab` sets it for
/// notebooks.
const ADDRESS: &str = "WARPBOOK_LAB_PAGE";
/// The environment variable that contains the path of the folder whose records the page serves below `records/`.
const FOLDER: &str = "WARPBOOK_LAB_FOLDER";

/// Writes a record like [`crate::write_record`]. If `cargo xtask lab` serves the page, prints a link that opens the
/// record in it. Without the page, or for a file outside the repository, it prints nothing.
///
/// # Errors
/// See [`crate::write_record`].
pub fn write_and_link(run: &Run, path: impl AsRef<Path>) -> Result<PathBuf> {
    let path = crate::write_record(run, path)?;
    let page = std::env::var(ADDRESS).ok().zip(std::env::var_os(FOLDER));
    if let Some(link) = page.and_then(|(address, folder)| link(&address, Path::new(&folder), &path)) {
        println!("Open it in the page: {link}");
    }
    Ok(path)
}

/// Returns the address of the page that opens a record, if the page serves the record's file.
fn link(address: &str, folder: &Path, file: &Path) -> Option<String> {
    let (folder, file) = (folder.canonicalize().ok()?, file.canonicalize().ok()?);
    let inside = file.strip_prefix(folder).ok()?.to_str()?;
    // Names that begin with a dot and files other than JSON are not served.
    if inside.split('/').any(|part| part.starts_with('.')) || !inside.ends_with(".json") {
        return None;
    }
    // The record's address is encoded twice: on its own, and as part of the link.
    Some(format!("{address}?src={}", encoded(&format!("records/{}", encoded(inside)))))
}

/// Percent-encodes a text as part of an address, except slashes.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out += &format!("%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_below_the_folder_has_a_link() {
        let tmp = tempfile::tempdir().unwrap();
        let folder = tmp.path().join("lab");
        std::fs::create_dir_all(folder.join("target/.hidden")).unwrap();
        let check = |name: &str, expect: Option<&str>| {
            let file = folder.join(name);
            std::fs::write(&file, "{}").unwrap();
            let found = link("http://127.0.0.1:8000/", &folder, &file);
            assert_eq!(found.as_deref(), expect, "{name}");
        };
        check("target/mine.json", Some("http://127.0.0.1:8000/?src=records/target/mine.json"));
        // Notebooks use paths of this form.
        check("target/../mine.json", Some("http://127.0.0.1:8000/?src=records/mine.json"));
        check("a b#1.json", Some("http://127.0.0.1:8000/?src=records/a%2520b%25231.json"));
        check("mine.txt", None);
        check("target/.hidden/mine.json", None);
        check("../mine.json", None);
        assert_eq!(link("http://127.0.0.1:8000/", &folder, &folder.join("missing.json")), None);
        assert_eq!(link("http://127.0.0.1:8000/", &tmp.path().join("none"), &folder.join("mine.json")), None);
    }
}

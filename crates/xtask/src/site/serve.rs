//! A local web server for a folder, with the records of another folder.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use warpbook_record::{MAX_BYTES, Run};
use warpbook_site::{Found, Port, Site, percent_decode};

/// The path below which the other folder's records are served.
const RECORDS: &str = "/records";

/// Serves a folder on 127.0.0.1 until the site is dropped, at the first free port from `port` on; 0 takes any free
/// port.
pub fn folder(folder: &Path, port: u16) -> Result<Site> {
    start(folder, None, port)
}

/// Serves a folder and, below `records/`, the records of another folder, each by its path, for links from notebooks.
pub fn with_records(folder: &Path, records: &Path, port: u16) -> Result<Site> {
    start(folder, Some(records), port)
}

fn start(folder: &Path, records: Option<&Path>, port: u16) -> Result<Site> {
    let whole = |f: &Path| f.canonicalize().with_context(|| format!("{} cannot be served", f.display()));
    let (root, records) = (whole(folder)?, records.map(whole).transpose()?);
    let port = Port::free(port)?;
    let number = port.number;
    Site::start(port, move |path| {
        let below = path.strip_prefix(RECORDS).filter(|below| below.starts_with('/'));
        if let Some((records, below)) = records.as_ref().zip(below) {
            return Ok(Found { body: record(records, below)?, mime: "application/json", etag: None });
        }
        let file = find(&root, path)?;
        let body = fs::read(&file).map_err(|_| 404_u16)?;
        Ok(Found { body, mime: mime(&file), etag: None })
    })
    .with_context(|| format!("port {number} cannot be served"))
}

/// Returns the first free port from `port` on.
pub fn free_port(port: u16) -> Result<u16> {
    Ok(Port::free(port)?.number)
}

/// Returns the record named by a URL's path; 404 for any other file.
fn record(root: &Path, path: &str) -> Result<Vec<u8>, u16> {
    let file = find(root, path)?;
    let is_small = fs::metadata(&file).is_ok_and(|m| m.len() <= MAX_BYTES as u64);
    if !is_small || file.extension().is_none_or(|e| e != "json") {
        return Err(404);
    }
    let body = fs::read(&file).map_err(|_| 404_u16)?;
    Run::from_json(&body).map_err(|_| 404_u16)?;
    Ok(body)
}

/// Returns the file named by a URL's path, or the status that refuses it.
fn find(root: &Path, path: &str) -> Result<PathBuf, u16> {
    if path == "/favicon.ico" {
        return Err(204);
    }
    let mut path = root.join(relative(path).ok_or(404_u16)?);
    if path.is_dir() {
        path.push("index.html");
    }
    let path = path.canonicalize().map_err(|_| 404_u16)?;
    // A symbolic link may lead out of the folder.
    let inside = path.starts_with(root) && fs::metadata(&path).is_ok_and(|m| m.is_file());
    if inside { Ok(path) } else { Err(404) }
}

/// Returns the relative path named by a URL's path; `None` for one that could leave the root or names a hidden file.
fn relative(path: &str) -> Option<PathBuf> {
    let path = percent_decode(path.strip_prefix('/')?)?;
    let mut safe = PathBuf::new();
    for part in path.split('/') {
        if part.starts_with('.') || part.contains(['\\', '\0', ':']) {
            return None;
        }
        safe.push(part);
    }
    Some(safe)
}

/// Returns the MIME type of a file.
fn mime(path: &Path) -> &'static str {
    match path.extension().and_then(|e| e.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("wasm") => "application/wasm",
        Some("css") => "text/css; charset=utf-8",
        Some("json") => "application/json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("csv") => "text/csv; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::write_atomic;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    #[test]
    fn paths_stay_below_the_root() {
        let good = |url: &str, expect: &str| assert_eq!(relative(url), Some(PathBuf::from(expect)), "{url}");
        good("/", "");
        good("/data/a%20b.json", "data/a b.json");
        good("/a//b", "a/b");
        for bad in
            ["/../x", "/a/../../x", "/%2e%2e/x", "/..%2fx", "/a/.git", "/a\\..\\x", "/%00", "/%zz", "/%e", "no-slash"]
        {
            assert_eq!(relative(bad), None, "{bad}");
        }
        // After decoding, an absolute path would replace the root.
        assert!(relative("/%2fetc/passwd").is_none_or(|p| p.is_relative()));
    }

    #[test]
    fn links_out_of_the_folder_are_refused() {
        let tmp = tempfile::tempdir().unwrap();
        let root = tmp.path().canonicalize().unwrap();
        let site = root.join("site");
        write_atomic(&site.join("index.html"), "x").unwrap();
        write_atomic(&root.join("secret"), "x").unwrap();
        std::os::unix::fs::symlink(root.join("secret"), site.join("link")).unwrap();
        assert_eq!(find(&site, "/"), Ok(site.join("index.html")));
        assert_eq!(find(&site, "/index.html"), Ok(site.join("index.html")));
        assert_eq!(find(&site, "/link"), Err(404));
        assert_eq!(find(&site, "/none"), Err(404));
    }

    /// Returns a site's response.
    fn get(site: &Site, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", site.port)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\r\n", site.port).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn records_of_a_notebook_are_served_and_nothing_else_of_their_folder() {
        const RECORD: &str = include_str!("../../../../web/tests/softmax.json");
        let tmp = tempfile::tempdir().unwrap();
        let (page, root) = (tmp.path().join("page"), tmp.path().join("repository"));
        write_atomic(&page.join("index.html"), "the page").unwrap();
        write_atomic(&root.join("target/a b#1.json"), RECORD).unwrap();
        write_atomic(&root.join("target/.hidden/mine.json"), RECORD).unwrap();
        write_atomic(&root.join("settings.json"), "{\"token\": \"secret\"}").unwrap();
        write_atomic(&root.join("record.txt"), RECORD).unwrap();
        write_atomic(&tmp.path().join("outside.json"), RECORD).unwrap();
        std::os::unix::fs::symlink(tmp.path().join("outside.json"), root.join("link.json")).unwrap();
        let site = with_records(&page, &root, 0).unwrap();
        assert!(get(&site, "/").ends_with("the page"));
        // The page fetches this address for the link printed by a notebook's `write_record`.
        let found = get(&site, "/records/target/a%20b%231.json");
        assert!(found.starts_with("HTTP/1.1 200") && found.contains("application/json") && found.ends_with(RECORD));
        for refused in [
            "/records/settings.json",
            "/records/record.txt",
            "/records/target/.hidden/mine.json",
            "/records/../outside.json",
            "/records/%2e%2e/outside.json",
            "/records/link.json",
            "/records/",
            "/records",
            "/recordstarget/a%20b%231.json",
        ] {
            assert!(get(&site, refused).starts_with("HTTP/1.1 404"), "{refused}");
        }
        assert!(get(&folder(&page, 0).unwrap(), "/records/target/a%20b%231.json").starts_with("HTTP/1.1 404"));
    }

    #[test]
    fn a_file_comes_as_what_it_is() {
        let tmp = tempfile::tempdir().unwrap();
        write_atomic(&tmp.path().join("a.wasm"), "wasm!").unwrap();
        let site = folder(tmp.path(), 0).unwrap();
        let text = get(&site, "/a.wasm");
        assert!(
            text.starts_with("HTTP/1.1 200") && text.contains("application/wasm") && text.ends_with("wasm!"),
            "{text}"
        );
    }
}

//! A folder as a web site on this machine only.

use anyhow::{Context, Result, bail};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use tiny_http::{Header, Method, Request, Response, Server};

const WORKERS: usize = 4;

/// A site that is served until it is dropped.
pub struct Site {
    server: Arc<Server>,
    workers: Vec<JoinHandle<()>>,
    /// Its port on 127.0.0.1.
    pub port: u16,
}

impl Site {
    /// Serves a folder on 127.0.0.1 at the first free port from `port` on; at any free one for 0.
    pub fn serve(folder: &Path, port: u16) -> Result<Self> {
        let root = folder.canonicalize().with_context(|| format!("{} cannot be served", folder.display()))?;
        let listener = free_listener(port)?;
        let port = listener.local_addr()?.port();
        let server = Server::from_listener(listener, None);
        let server = Arc::new(server.map_err(|e| anyhow::anyhow!("port {port} cannot be served: {e}"))?);
        let workers = (0..WORKERS)
            .map(|_| {
                let (server, root) = (Arc::clone(&server), root.clone());
                // `unblock` makes each `recv` fail once, which ends its loop.
                thread::spawn(move || {
                    while let Ok(request) = server.recv() {
                        answer(&root, port, request);
                    }
                })
            })
            .collect();
        Ok(Self { server, workers, port })
    }

    /// Its address, with a slash at the end.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for _ in &self.workers {
            self.server.unblock();
        }
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}

/// Listens on the first free port from `port` on.
fn free_listener(port: u16) -> Result<TcpListener> {
    for candidate in port..=port.saturating_add(100) {
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, candidate)) {
            return Ok(listener);
        }
    }
    bail!("no port from {port} to {} is free on 127.0.0.1", port.saturating_add(100))
}

/// The first free port from `port` on.
pub fn free_port(port: u16) -> Result<u16> {
    Ok(free_listener(port)?.local_addr()?.port())
}

fn answer(root: &Path, port: u16, request: Request) {
    let host = request.headers().iter().find(|h| h.field.equiv("Host")).map(|h| h.value.to_string());
    // A browser that stops reading is no concern of the others.
    let _ = match find(root, port, request.method(), host.as_deref(), request.url()) {
        Ok(path) => match File::open(&path) {
            Ok(file) => request.respond(
                Response::from_file(file)
                    .with_header(header("Content-Type", mime(&path)))
                    .with_header(header("Cache-Control", "no-cache"))
                    .with_header(header("X-Content-Type-Options", "nosniff")),
            ),
            Err(_) => request.respond(Response::empty(404)),
        },
        Err(status) => request.respond(Response::empty(status)),
    };
}

fn header(field: &str, value: &str) -> Header {
    Header::from_bytes(field, value).expect("fixed ASCII text is a header")
}

/// The file that a request may have, or the status that refuses it.
fn find(root: &Path, port: u16, method: &Method, host: Option<&str>, url: &str) -> Result<PathBuf, u16> {
    // Another site's name that was made to point here must not read from here.
    let local = |h: &str| h == format!("127.0.0.1:{port}") || h == format!("localhost:{port}");
    if !host.is_some_and(local) {
        return Err(403);
    }
    if !matches!(method, Method::Get | Method::Head) {
        return Err(405);
    }
    if url == "/favicon.ico" {
        return Err(204);
    }
    let mut path = root.join(relative(url).ok_or(404_u16)?);
    if path.is_dir() {
        path.push("index.html");
    }
    let path = path.canonicalize().map_err(|_| 404_u16)?;
    // A link may lead out of the folder.
    let inside = path.starts_with(root) && fs::metadata(&path).is_ok_and(|m| m.is_file());
    if inside { Ok(path) } else { Err(404) }
}

/// The path below the root that a URL names; `None` for one that could leave it or names a hidden file.
fn relative(url: &str) -> Option<PathBuf> {
    let path = url.split(['?', '#']).next()?.strip_prefix('/')?;
    let path = percent_decode(path)?;
    let mut safe = PathBuf::new();
    for part in path.split('/') {
        if part.starts_with('.') || part.contains(['\\', '\0', ':']) {
            return None;
        }
        safe.push(part);
    }
    Some(safe)
}

/// The text of a URL's path; `None` for one with a percent sign that no two digits follow, or that is not UTF-8.
fn percent_decode(text: &str) -> Option<String> {
    let is_code = |t: &str| t.as_bytes().get(..2).is_some_and(|d| d.iter().all(u8::is_ascii_hexdigit));
    if !text.split('%').skip(1).all(is_code) {
        return None;
    }
    percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned)
}

/// The MIME type by which a browser takes a file.
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
        good("/data/a%20b.json?src=../x", "data/a b.json");
        good("/a//b", "a/b");
        for bad in
            ["/../x", "/a/../../x", "/%2e%2e/x", "/..%2fx", "/a/.git", "/a\\..\\x", "/%00", "/%zz", "/%e", "no-slash"]
        {
            assert_eq!(relative(bad), None, "{bad}");
        }
        // An absolute path after decoding would replace the root.
        assert!(relative("/%2fetc/passwd").is_none_or(|p| p.is_relative()));
    }

    #[test]
    fn other_names_other_methods_and_links_are_refused() {
        let tmp = tempfile::tempdir().unwrap();
        let root = tmp.path().canonicalize().unwrap();
        let site = root.join("site");
        write_atomic(&site.join("index.html"), "x").unwrap();
        write_atomic(&root.join("secret"), "x").unwrap();
        std::os::unix::fs::symlink(root.join("secret"), site.join("link")).unwrap();
        let ask = |method: Method, host: &str, url: &str| find(&site, 80, &method, Some(host), url);
        assert_eq!(ask(Method::Get, "127.0.0.1:80", "/"), Ok(site.join("index.html")));
        assert_eq!(ask(Method::Get, "localhost:80", "/index.html"), Ok(site.join("index.html")));
        assert_eq!(ask(Method::Get, "evil.example:80", "/"), Err(403));
        assert_eq!(find(&site, 80, &Method::Get, None, "/"), Err(403));
        assert_eq!(ask(Method::Post, "localhost:80", "/"), Err(405));
        assert_eq!(ask(Method::Get, "localhost:80", "/link"), Err(404));
        assert_eq!(ask(Method::Get, "localhost:80", "/none"), Err(404));
    }

    #[test]
    fn a_busy_port_gives_way_and_a_dropped_site_frees_its_own() {
        let tmp = tempfile::tempdir().unwrap();
        write_atomic(&tmp.path().join("a.wasm"), "wasm!").unwrap();
        let first = Site::serve(tmp.path(), 0).unwrap();
        let second = Site::serve(tmp.path(), first.port).unwrap();
        assert!(second.port > first.port);
        let mut stream = TcpStream::connect(("127.0.0.1", second.port)).unwrap();
        write!(stream, "GET /a.wasm HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\r\n", second.port).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(
            text.starts_with("HTTP/1.1 200") && text.contains("application/wasm") && text.ends_with("wasm!"),
            "{text}"
        );
        let port = second.port;
        drop(second);
        // A separate thread closes the listener.
        let freed = (0..100).any(|_| {
            thread::sleep(std::time::Duration::from_millis(20));
            TcpListener::bind(("127.0.0.1", port)).is_ok()
        });
        assert!(freed, "port {port} is still held");
    }
}

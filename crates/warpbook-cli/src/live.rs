//! `warpbook view --live`: the viewer and the records as a web site for this machine only, which follows the files while they are written.

use crate::failure::Failure;
use crate::output::{complain, say};
use crate::shelf::{Record, files, unique_name};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::HashMap;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;
use tiny_http::{Header, Method, Request, Response, Server};
use warpbook::read_record;

const WORKERS: usize = 3;

/// The site, not yet answering.
pub struct Live {
    server: Arc<Server>,
    port: u16,
    page: String,
    shelf: Mutex<Shelf>,
}

impl Live {
    /// Takes the first free port from `port` on. The page is the viewer as [`crate::viewer::Viewer::live`] gives it.
    pub fn new(page: String, named: &[PathBuf], port: u16) -> Result<Self, Failure> {
        let listener = (port..=port.saturating_add(100)).find_map(|p| TcpListener::bind((Ipv4Addr::LOCALHOST, p)).ok());
        let failed =
            |why: String| Failure::usage(format!("No page can be served on 127.0.0.1: {why}. Choose another --port."));
        let listener =
            listener.ok_or_else(|| failed(format!("no port from {port} to {} is free", port.saturating_add(100))))?;
        let port = listener.local_addr().map_err(|e| failed(e.to_string()))?.port();
        let server = Server::from_listener(listener, None).map_err(|e| failed(e.to_string()))?;
        let mut shelf = Shelf { named: named.to_vec(), ..Shelf::default() };
        shelf.refresh();
        Ok(Self { server: Arc::new(server), port, page, shelf: Mutex::new(shelf) })
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Answers until the program is ended.
    pub fn serve(&self) {
        std::thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(|| {
                    while let Ok(request) = self.server.recv() {
                        self.answer(request);
                    }
                });
            }
        });
    }

    fn answer(&self, request: Request) {
        let of = |name: &'static str| {
            let found = request.headers().iter().find(|h| h.field.equiv(name));
            found.map(|h| h.value.to_string())
        };
        let (host, known) = (of("Host"), of("If-None-Match"));
        let found = match refuse(self.port, request.method(), host.as_deref()) {
            Some(status) => Err(status),
            None => self.find(request.url()),
        };
        // A browser that stops reading is no concern of the others.
        let _ = match found {
            Err(status) => request.respond(Response::empty(status)),
            Ok(Found { tag, .. }) if known.is_some_and(|k| k == tag) => {
                request.respond(Response::empty(304).with_header(header("ETag", &tag)))
            }
            Ok(Found { text, mime, tag }) => request.respond(
                // With its length, so that the page can refuse what is too long before it is read.
                Response::from_data(text)
                    .with_chunked_threshold(usize::MAX)
                    .with_header(header("Content-Type", mime))
                    .with_header(header("ETag", &tag))
                    .with_header(header("Cache-Control", "no-cache"))
                    .with_header(header("X-Content-Type-Options", "nosniff"))
                    .with_header(header("Referrer-Policy", "no-referrer")),
            ),
        };
    }

    /// What a request may have, or the status that refuses it.
    fn find(&self, url: &str) -> Result<Found, u16> {
        let path = url.split(['?', '#']).next().unwrap_or_default();
        match path {
            "/" | "/index.html" => return Ok(Found::new(self.page.clone(), "text/html; charset=utf-8")),
            "/favicon.ico" => return Err(204),
            _ => {}
        }
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        if path == "/data/index.json" {
            shelf.refresh();
            return Ok(Found::new(shelf.index().to_string(), "application/json"));
        }
        let name = path.strip_prefix("/data/").and_then(percent_decode).ok_or(404_u16)?;
        let shown = shelf.shown.iter().find(|s| s.name == name).ok_or(404_u16)?;
        Ok(Found::new(shown.text.clone(), "application/json"))
    }
}

/// A status where a request is none of a browser's on this machine: another site's name that was made to point here must not read from here.
fn refuse(port: u16, method: &Method, host: Option<&str>) -> Option<u16> {
    let local = |h: &str| h == format!("127.0.0.1:{port}") || h == format!("localhost:{port}");
    if !host.is_some_and(local) {
        Some(403)
    } else if !matches!(method, Method::Get | Method::Head) {
        Some(405)
    } else {
        None
    }
}

/// An answer.
struct Found {
    text: String,
    mime: &'static str,
    tag: String,
}

impl Found {
    fn new(text: String, mime: &'static str) -> Self {
        Self { tag: format!("\"{}\"", mark(&text)), text, mime }
    }
}

/// The same for the same text.
fn mark(text: &str) -> String {
    Sha256::digest(text).iter().take(12).map(|b| format!("{b:02x}")).collect()
}

fn header(field: &str, value: &str) -> Header {
    Header::from_bytes(field, value).expect("fixed ASCII text is a header")
}

/// The records, as their files were last seen.
#[derive(Default)]
struct Shelf {
    named: Vec<PathBuf>,
    shown: Vec<Shown>,
    /// When each file was last read, and what was said of it.
    seen: HashMap<PathBuf, Stamp>,
    said: HashMap<PathBuf, String>,
}

type Stamp = Option<(SystemTime, u64)>;

struct Shown {
    path: PathBuf,
    name: String,
    /// The record, as it was last whole.
    text: String,
    entry: Value,
}

impl Shelf {
    /// Reads what has changed. A file that is not there yet is waited for; of one that cannot be read what it held before stays.
    fn refresh(&mut self) {
        let mut all = Vec::new();
        for named in &self.named {
            match files(std::slice::from_ref(named)) {
                Ok(found) => all.extend(found),
                // An empty folder: its records are still to come.
                Err(why) => complain_once(&mut self.said, named, why.sentence),
            }
        }
        for path in all {
            let stamp = std::fs::metadata(&path).ok().and_then(|m| Some((m.modified().ok()?, m.len())));
            if self.seen.get(&path) != Some(&stamp) {
                self.seen.insert(path.clone(), stamp);
                self.read(&path, stamp.is_some());
            }
        }
    }

    fn read(&mut self, path: &Path, exists: bool) {
        if !exists {
            complain_once(
                &mut self.said,
                path,
                format!("{} is not there yet; it is shown as soon as it is.", path.display()),
            );
            return;
        }
        let run = match read_record(path) {
            Ok(run) => run,
            Err(why) => return complain_once(&mut self.said, path, why.to_string()),
        };
        self.said.remove(path);
        let place = self.shown.iter().position(|s| s.path == path);
        let name = match place {
            Some(i) => self.shown[i].name.clone(),
            None => unique_name(path, self.shown.iter().map(|s| &*s.name)),
        };
        let Ok(text) = run.to_json() else { return };
        let record = Record { name, run };
        let mut entry = record.entry();
        entry["mark"] = mark(&text).into();
        let shown = Shown { path: path.to_owned(), name: record.name, text, entry };
        match place {
            Some(i) => self.shown[i] = shown,
            None => self.shown.push(shown),
        }
    }

    fn index(&self) -> Value {
        json!({ "records": self.shown.iter().map(|s| &s.entry).collect::<Vec<_>>() })
    }
}

fn complain_once(said: &mut HashMap<PathBuf, String>, path: &Path, sentence: String) {
    if said.get(path) != Some(&sentence) {
        complain(&sentence);
        said.insert(path.to_owned(), sentence);
    }
}

/// The text of a URL's path; `None` for one with a percent sign that no two digits follow, or that is not UTF-8.
fn percent_decode(text: &str) -> Option<String> {
    let is_code = |t: &str| t.as_bytes().get(..2).is_some_and(|d| d.iter().all(u8::is_ascii_hexdigit));
    if !text.split('%').skip(1).all(is_code) {
        return None;
    }
    percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned)
}

/// Says where the page is.
pub fn announce(live: &Live) {
    say(&format!("{}\nThe page follows the files while they are written. Ctrl-C ends it.", live.url()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_may_read() {
        let ask = |method: Method, host: Option<&str>| refuse(80, &method, host);
        assert_eq!(ask(Method::Get, Some("127.0.0.1:80")), None);
        assert_eq!(ask(Method::Head, Some("localhost:80")), None);
        assert_eq!(ask(Method::Get, Some("evil.example:80")), Some(403));
        assert_eq!(ask(Method::Get, None), Some(403));
        assert_eq!(ask(Method::Post, Some("localhost:80")), Some(405));
    }

    #[test]
    fn names_are_decoded() {
        assert_eq!(percent_decode("a%20b.json").as_deref(), Some("a b.json"));
        for bad in ["%", "%z1", "%+1", "%ff", "%e", "%é"] {
            assert_eq!(percent_decode(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_answer_is_marked_by_its_text() {
        let tag = |text: &str| Found::new(text.into(), "text/plain").tag;
        assert_eq!(tag("a"), tag("a"));
        assert_ne!(tag("a"), tag("b"));
        assert!(tag("a").starts_with('"') && tag("a").len() == 26);
    }
}

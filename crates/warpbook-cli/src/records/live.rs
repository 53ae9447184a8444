//! The server of `warpbook view --live`: a local web site with the viewer and the records, which follows the files as
//! they are written.

use super::read::{Record, files, unique_name};
use crate::failure::Failure;
use crate::output::{say, warn};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;
use warpbook::read_record;
use warpbook_site::{Found, Port, Site, percent_decode};

/// A web site that does not answer requests yet.
pub struct Live {
    port: Port,
    page: String,
    records: Mutex<LiveRecords>,
}

impl Live {
    /// Creates the site on the first free port, starting at `port`; `page` comes from
    /// [`Viewer::live`](super::viewer::Viewer::live).
    pub fn new(page: String, named: &[PathBuf], port: u16) -> Result<Self, Failure> {
        let port = Port::free(port).map_err(failed)?;
        let mut records = LiveRecords { named: named.to_vec(), ..LiveRecords::default() };
        records.refresh();
        Ok(Self { port, page, records: Mutex::new(records) })
    }

    /// Returns the address of the page.
    pub fn url(&self) -> String {
        self.port.url()
    }

    /// Answers requests until the program ends.
    pub fn serve(self) -> Result<(), Failure> {
        let Self { port, page, records } = self;
        Site::start(port, move |path| find(&page, &records, path)).map_err(failed)?.wait();
        Ok(())
    }
}

fn failed(why: io::Error) -> Failure {
    Failure::usage(format!("No page can be served on 127.0.0.1: {why}. Choose another --port."))
}

/// Returns the content for a URL's path, or the status if there is none.
fn find(page: &str, records: &Mutex<LiveRecords>, path: &str) -> Result<Found, u16> {
    match path {
        "/" | "/index.html" => return Ok(found(page.to_owned(), "text/html; charset=utf-8")),
        "/favicon.ico" => return Err(204),
        _ => {}
    }
    let mut records = records.lock().unwrap_or_else(PoisonError::into_inner);
    if path == "/data/index.json" {
        records.refresh();
        return Ok(found(records.index().to_string(), "application/json"));
    }
    let name = path.strip_prefix("/data/").and_then(percent_decode).ok_or(404_u16)?;
    let shown = records.shown.iter().find(|s| s.name == name).ok_or(404_u16)?;
    Ok(found(shown.text.clone(), "application/json"))
}

fn found(text: String, mime: &'static str) -> Found {
    Found { etag: Some(etag(&text)), body: text.into_bytes(), mime }
}

/// Returns a tag that identifies a version of a text; equal texts have equal tags.
fn etag(text: &str) -> String {
    Sha256::digest(text).iter().take(12).map(|b| format!("{b:02x}")).collect()
}

/// The records in the last known state of their files.
#[derive(Default)]
struct LiveRecords {
    named: Vec<PathBuf>,
    shown: Vec<Shown>,
    /// Last state of each file that was read; below, the last warning about each file.
    seen: HashMap<PathBuf, Stamp>,
    warned: HashMap<PathBuf, String>,
}

type Stamp = Option<(SystemTime, u64)>;

struct Shown {
    path: PathBuf,
    name: String,
    /// The text of the record when the file was last complete.
    text: String,
    entry: Value,
}

impl LiveRecords {
    /// Reads the changed files. A missing file may still appear; a file that is unreadable now keeps its last contents.
    fn refresh(&mut self) {
        let mut all = Vec::new();
        for named in &self.named {
            match files(std::slice::from_ref(named)) {
                Ok(found) => all.extend(found),
                // An empty folder only causes a warning, since records may be written to it later.
                Err(why) => warn_once(&mut self.warned, named, why.sentence),
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
            warn_once(
                &mut self.warned,
                path,
                format!("{} does not exist yet; it will be shown once it does.", path.display()),
            );
            return;
        }
        let run = match read_record(path) {
            Ok(run) => run,
            Err(why) => return warn_once(&mut self.warned, path, why.to_string()),
        };
        self.warned.remove(path);
        let place = self.shown.iter().position(|s| s.path == path);
        let name = match place {
            Some(i) => self.shown[i].name.clone(),
            None => unique_name(path, self.shown.iter().map(|s| &*s.name)),
        };
        let Ok(text) = run.to_json() else { return };
        let record = Record { name, run };
        let mut entry = record.entry();
        entry["mark"] = etag(&text).into();
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

fn warn_once(warned: &mut HashMap<PathBuf, String>, path: &Path, sentence: String) {
    if warned.get(path) != Some(&sentence) {
        warn(&sentence);
        warned.insert(path.to_owned(), sentence);
    }
}

/// Prints the page's address.
pub fn announce(live: &Live) {
    say(&format!("{}\nThe page follows the files while they are written. Ctrl-C ends it.", live.url()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_an_etag_of_its_text() {
        let etag = |text: &str| found(text.into(), "text/plain").etag.unwrap();
        assert_eq!(etag("a"), etag("a"));
        assert_ne!(etag("a"), etag("b"));
        assert_eq!(etag("a").len(), 24);
    }
}

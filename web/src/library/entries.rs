//! The records that the page knows: its own, the records at the link's addresses, and the records opened from disk.

use super::open::{MAX_TEXT, MAX_TITLE, Opened, tidy};
use super::origin::{Beside, Index, IndexEntry, file_name};
use crate::address::key_of;
use crate::record::facts::author;
use std::rc::Rc;
use warpbook_record::Run;

/// The source of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A file in `data/` that comes with the page.
    Bundled(String),
    /// An address that the link names.
    Address(String),
    /// The reader's disk, or the clipboard.
    Disk,
    /// A link's fragment, which may contain anything its author wrote.
    Fragment,
}

/// The loading state of a record.
#[derive(Debug, Clone)]
pub enum State {
    /// Only the record's name is known.
    Unread,
    /// The record is being read.
    Reading,
    /// The record was read.
    Open(Rc<Opened>),
    /// The record could not be read; an alert says why.
    Failed,
}

/// A record in the page's list.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The record's unique name in the page's address.
    pub key: String,
    /// The record's file name.
    pub name: String,
    /// The record's title, if known.
    pub title: String,
    /// The experiment's name, if known.
    pub experiment: String,
    /// One line that says what the experiment computes, if known.
    pub computes: String,
    /// The record's headline, if known.
    pub headline: String,
    /// Cells for a table of records: four for a pair, three for a training to an accuracy, else none.
    pub cells: Vec<String>,
    /// The bars of the record's ladder as heights from 0 to 1, if known.
    pub ladder: Vec<f64>,
    /// The device's name, if known.
    pub device: String,
    /// The author, if known.
    pub author: String,
    /// The time when the run started, if known.
    pub created: String,
    /// The source of the record.
    pub origin: Origin,
    /// The loading state of the record.
    pub state: State,
    /// The published record shown next to this one on the overview.
    pub beside: Option<Beside>,
    /// `true` if the record belongs to the project, not to a user.
    pub is_published: bool,
    /// The server's tag of the content's version; empty if the record never changes.
    pub etag: String,
}

impl Entry {
    /// Returns the record if it was read.
    pub fn run(&self) -> Option<&Run> {
        self.opened().map(|o| &o.run)
    }

    /// Returns the opened file if it was read.
    pub fn opened(&self) -> Option<&Opened> {
        match &self.state {
            State::Open(opened) => Some(opened),
            _ => None,
        }
    }

    fn unread(key: String, name: String, origin: Origin) -> Self {
        let none = String::new;
        let (title, experiment, computes, headline) = (none(), none(), none(), none());
        let (device, author, created) = (none(), none(), none());
        let (cells, ladder, state, etag) = (Vec::new(), Vec::new(), State::Unread, none());
        Self {
            key,
            name,
            title,
            experiment,
            computes,
            headline,
            cells,
            ladder,
            device,
            author,
            created,
            origin,
            state,
            beside: None,
            is_published: false,
            etag,
        }
    }

    fn of_index(r: IndexEntry) -> Self {
        Self {
            title: tidy(if r.title.trim().is_empty() { &r.experiment } else { &r.title }, MAX_TITLE),
            experiment: r.experiment,
            computes: tidy(&r.computes, MAX_TEXT),
            headline: tidy(&r.headline, MAX_TEXT),
            cells: r.cells.iter().map(|c| tidy(c, MAX_TEXT)).collect(),
            ladder: r.ladder,
            device: tidy(&r.device, MAX_TITLE),
            author: tidy(&r.author.unwrap_or_default(), MAX_TITLE),
            created: r.created,
            beside: r.beside,
            is_published: r.published,
            etag: r.etag,
            ..Self::unread(r.file.clone(), r.file.clone(), Origin::Bundled(r.file))
        }
    }

    fn fill(&mut self, opened: Rc<Opened>) {
        let run = &opened.run;
        self.title = if run.title.trim().is_empty() { run.experiment.clone() } else { run.title.clone() };
        self.device.clone_from(&run.environment.device.name);
        self.author = author(run).unwrap_or_default().to_owned();
        self.created.clone_from(&run.created);
        self.experiment.clone_from(&run.experiment);
        (self.headline, self.ladder, self.cells) = warpbook_charts::record_summary(run);
        self.state = State::Open(opened);
    }
}

/// The page's list of records.
#[derive(Debug, Default)]
pub struct Library {
    /// The records in the list's order.
    pub entries: Vec<Entry>,
}

impl Library {
    /// Returns the record with this key.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.key == key)
    }

    /// Returns the record with this key, to change it.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|e| e.key == key)
    }

    /// Returns the line that says what a record's experiment computes, taken from another entry if this one lacks it;
    /// empty if none has it.
    pub fn computes<'a>(&'a self, entry: &'a Entry) -> &'a str {
        let other = self.entries.iter().find(|e| e.experiment == entry.experiment && !e.computes.is_empty());
        other.filter(|_| entry.computes.is_empty()).unwrap_or(entry).computes.as_str()
    }

    /// Adds the records that come with the page, before all others.
    pub fn add_index(&mut self, index: Index) {
        let bundled = index.records.into_iter().map(Entry::of_index);
        let fresh: Vec<_> = bundled.filter(|e| self.get(&e.key).is_none()).collect();
        self.entries.splice(0..0, fresh);
    }

    /// Replaces the index by a newer one; returns the keys of open records that have changed. Their old contents stay
    /// until they are read again.
    pub fn renew(&mut self, index: Index) -> Vec<String> {
        let mut changed = Vec::new();
        let mut fresh = Vec::new();
        for new in index.records.into_iter().map(Entry::of_index) {
            match self.get_mut(&new.key) {
                None => fresh.push(new),
                Some(old) if old.etag != new.etag => {
                    old.etag = new.etag;
                    match old.state {
                        State::Open(_) | State::Reading => changed.push(new.key),
                        State::Unread | State::Failed => old.state = State::Unread,
                    }
                }
                Some(_) => {}
            }
        }
        let bundled = self.entries.iter().take_while(|e| matches!(e.origin, Origin::Bundled(_))).count();
        self.entries.splice(bundled..bundled, fresh);
        changed
    }

    /// Adds a record at an address; returns its key.
    pub fn add_address(&mut self, address: &str) -> String {
        let key = key_of(address);
        if self.get(&key).is_none() {
            let name = file_name(address).to_owned();
            self.entries.push(Entry::unread(key.clone(), name, Origin::Address(address.to_owned())));
        }
        key
    }

    /// Returns the key of a record from disk, which stays the same after a reload.
    pub fn key_on_disk(hash: u64) -> String {
        format!("disk-{hash:016x}")
    }

    /// Adds a record read from disk; returns its key, or the key of an identical record in the list.
    pub fn add_read(&mut self, name: &str, opened: Rc<Opened>) -> String {
        self.add_opened(Self::key_on_disk(opened.hash), name, Origin::Disk, opened)
    }

    /// Adds a record carried by a link; returns its key, or the key of an identical record in the list.
    pub fn add_carried(&mut self, name: &str, opened: Rc<Opened>) -> String {
        self.add_opened(format!("link-{:016x}", opened.hash), name, Origin::Fragment, opened)
    }

    fn add_opened(&mut self, key: String, name: &str, origin: Origin, opened: Rc<Opened>) -> String {
        let same = |e: &&Entry| matches!(&e.state, State::Open(o) if o.hash == opened.hash);
        if let Some(entry) = self.entries.iter().find(same) {
            return entry.key.clone();
        }
        let mut entry = Entry::unread(key.clone(), name.to_owned(), origin);
        entry.fill(opened);
        self.entries.push(entry);
        key
    }

    /// Returns the number of records opened from disk.
    pub fn count_on_disk(&self) -> usize {
        self.entries.iter().filter(|e| e.origin == Origin::Disk).count()
    }

    /// Stores the result of loading a record.
    pub fn finish(&mut self, key: &str, result: Option<Rc<Opened>>) {
        if let Some(entry) = self.get_mut(key) {
            match result {
                Some(opened) => entry.fill(opened),
                None => entry.state = State::Failed,
            }
        }
    }

    /// Allows another attempt at a record that could not be read.
    pub fn retry(&mut self, key: &str) {
        if let Some(entry) = self.get_mut(key).filter(|e| matches!(e.state, State::Failed)) {
            entry.state = State::Unread;
        }
    }

    /// Removes a record that the reader opened.
    pub fn close(&mut self, key: &str) {
        self.entries.retain(|e| e.key != key || matches!(e.origin, Origin::Bundled(_)));
    }

    /// Returns the record to show: the record with the key; without a key, the first of the link's records that did not
    /// fail; or, if the link names none, the first of all. If a requested record failed, nothing replaces it.
    pub fn chosen(&self, key: Option<&str>) -> Option<&Entry> {
        let usable = |e: &&Entry| !matches!(e.state, State::Failed);
        if let Some(entry) = key.and_then(|k| self.get(k)) {
            return Some(entry).filter(usable);
        }
        let mut named = self.entries.iter().filter(|e| matches!(e.origin, Origin::Address(_))).peekable();
        if named.peek().is_some() { named.find(usable) } else { self.entries.iter().find(usable) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::open::open_hashed;
    use crate::testing::sample;

    fn opened(title: &str) -> Rc<Opened> {
        let mut value = sample();
        value["title"] = title.into();
        open_hashed(value.to_string().as_bytes()).unwrap()
    }

    fn index(files: &[&str]) -> Index {
        let records: Vec<_> = files.iter().map(|f| serde_json::json!({ "file": f })).collect();
        Index::parse(&serde_json::json!({ "records": records }).to_string()).unwrap()
    }

    #[test]
    fn the_record_to_show_is_the_keys_or_the_links_or_the_first() {
        let mut library = Library::default();
        assert!(library.chosen(None).is_none());
        library.add_index(index(&["a.json", "b.json"]));
        let chosen = |l: &Library, key: Option<&str>| l.chosen(key).map(|e| e.key.clone()).unwrap_or_default();
        assert_eq!(chosen(&library, None), "a.json");
        assert_eq!(chosen(&library, Some("b.json")), "b.json");
        assert_eq!(chosen(&library, Some("gone")), "a.json");
        let key = library.add_address("https://example.org/c.json");
        assert_eq!(chosen(&library, None), key);
        library.finish(&key, None);
        assert_eq!(chosen(&library, None), "", "no other record takes its place");
        assert_eq!(chosen(&library, Some(&key)), "");
        assert_eq!(chosen(&library, Some("a.json")), "a.json");
    }

    #[test]
    fn the_same_record_is_opened_once() {
        let mut library = Library::default();
        let first = library.add_read("x.json", opened("one"));
        assert_eq!(library.add_read("y.json", opened("one")), first);
        let second = library.add_read("y.json", opened(" "));
        assert_ne!(first, second);
        assert_eq!(library.get(&second).unwrap().title, "regression");
        assert_eq!(library.get(&second).unwrap().author, "Ada");
        library.close(&first);
        assert!(library.get(&first).is_none() && library.get(&second).is_some());
    }

    #[test]
    fn a_record_that_is_written_anew_is_read_anew_and_shown_meanwhile() {
        let entry = |file: &str, etag: &str| format!(r#"{{"file":"{file}","mark":"{etag}"}}"#);
        let index = |entries: &[String]| Index::parse(&format!(r#"{{"records":[{}]}}"#, entries.join(","))).unwrap();
        let mut library = Library::default();
        library.add_index(index(&[entry("a.json", "1"), entry("b.json", "1")]));
        library.add_read("x.json", opened("mine"));
        library.finish("a.json", Some(opened("one")));
        assert!(library.renew(index(&[entry("a.json", "1"), entry("b.json", "1")])).is_empty());
        let new = index(&[entry("a.json", "2"), entry("b.json", "2"), entry("c.json", "1")]);
        assert_eq!(library.renew(new), ["a.json"], "what was not read yet is read when it is asked for");
        assert!(library.get("a.json").unwrap().run().is_some());
        let names: Vec<&str> = library.entries.iter().map(|e| e.name.as_str()).collect();
        assert_eq!(names, ["a.json", "b.json", "c.json", "x.json"]);
    }

    #[test]
    fn what_a_link_carried_is_told_from_the_same_file_on_disk() {
        let mut library = Library::default();
        let key = library.add_carried("x.json", opened("one"));
        assert!(key.starts_with("link-") && library.get(&key).unwrap().origin == Origin::Fragment);
        assert_eq!((library.add_read("y.json", opened("one")), library.count_on_disk()), (key, 0));
        let disk = library.add_read("z.json", opened("two"));
        assert_eq!((disk, library.count_on_disk()), (Library::key_on_disk(opened("two").hash), 1));
    }

    #[test]
    fn bundled_records_stay_and_stand_first() {
        let mut library = Library::default();
        library.add_read("x.json", opened("one"));
        library.add_index(index(&["a.json"]));
        library.add_index(index(&["a.json"]));
        assert_eq!(library.entries.len(), 2);
        assert_eq!(library.entries[0].key, "a.json");
        library.close("a.json");
        assert!(library.get("a.json").is_some());
    }
}

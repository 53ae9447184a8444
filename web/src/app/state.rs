//! The page's state.

use super::messages::OpenedFrom;
use super::notices::Notices;
use super::sheets::Sheets;
use crate::address::{About, Link, ProblemChoice};
use crate::library::{Entry, Filter, Library, Origin};
use crate::record::Tab;
use crate::report::Report;
use gloo_events::EventListener;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use warpbook_charts::{Options, Rungs};
use warpbook_record::Run;

/// The id of the page's heading, which has the focus once a reader came to another view.
pub const HEADING: &str = "heading";

/// Where a finger went down on a rung's panel, if it is down.
pub type SwipeStart = Rc<Cell<Option<(f64, f64)>>>;

/// Where the reader was before a rung's panel was opened.
pub struct RungOrigin {
    /// The part that was shown.
    pub tab: Option<Tab>,
    /// The problem that was shown.
    pub problem: Option<ProblemChoice>,
    /// What had the focus.
    pub from: OpenedFrom,
    /// How far the page was scrolled down.
    pub scrolled: f64,
}

/// The server of a page whose records may change.
#[derive(Debug, Default)]
pub struct Live {
    /// Whether the page has one.
    pub on: bool,
    /// Whether it does not answer any more.
    pub lost: bool,
    /// The mark of the index that it sent last.
    pub(super) mark: String,
}

/// How far the page has come with reading.
#[derive(Debug, Default)]
pub struct Loading {
    /// The number of reads under way, including the index.
    pub pending: usize,
    /// `true` if the index has arrived.
    pub index_came: bool,
    /// `true` if the records that the browser kept have arrived.
    pub kept_came: bool,
    /// `true` if the record in the link has arrived, or there is none.
    pub carried_came: bool,
    /// How many files were dropped last, and how many of them were read.
    pub dropped: (usize, usize),
    /// How many bytes the browser keeps.
    pub kept_bytes: usize,
    /// Addresses of folders, whose records are in the list.
    pub folders: Vec<String>,
    /// The texts of the records that the page has in itself, by their files.
    pub embedded: BTreeMap<String, String>,
}

/// The page.
pub struct App {
    /// What is shown.
    pub link: Link,
    /// The records.
    pub library: Library,
    /// Which of all records are shown.
    pub filter: Filter,
    /// How the tables are sorted, searched and unfolded.
    pub sheets: Sheets,
    /// What the reader is told.
    pub notices: Notices,
    /// Addresses on other sites that the link names and the reader was not yet asked about, each with its host.
    pub foreign: Vec<(String, String)>,
    /// The finger on a rung's panel.
    pub swipe: SwipeStart,
    /// `true` if the page is dark.
    pub dark: bool,
    /// `true` while files are held over the page.
    pub hover: bool,
    /// The page's server, where its records may change.
    pub live: Live,
    /// The reader's report.
    pub report: Report,
    /// The keys of records from disk that this browser does not keep.
    pub not_kept: Vec<String>,
    /// `true` if the reader was told that the browser does not keep the report.
    pub(super) report_is_not_kept: bool,
    /// Where the reader was before a rung's panel was opened.
    pub(super) came_from: Option<RungOrigin>,
    /// How far the page has come with reading.
    pub(super) loading: Loading,
    /// How wide charts are, in CSS pixels.
    pub(super) width: u32,
    /// `true` once everything that the page began with was read.
    pub(super) ready: bool,
    /// `true` if the reader went to another view, whose heading is still to be shown.
    pub(super) arriving: bool,
    /// `true` if the names in the address that the page was opened with are still to be checked.
    pub(super) is_link_new: bool,
    /// The record and the tab that were last scrolled into sight.
    pub(super) revealed: (Option<String>, Option<Tab>),
    /// What the page hears of the window, for as long as it is there.
    pub(super) _listeners: Vec<EventListener>,
}

impl App {
    /// Returns `true` while something is being read.
    pub fn busy(&self) -> bool {
        self.loading.pending > 0
    }

    /// Returns `true` if all records are shown, and there are several.
    pub fn shows_all(&self) -> bool {
        self.link.shows_all() && self.library.entries.len() > 1
    }

    /// The record that is shown.
    pub fn chosen(&self) -> Option<&Entry> {
        if self.shows_all() || self.link.is_apart() {
            return None;
        }
        let asked = self.link.record.as_deref();
        // While the reader is asked about a record in the link, no other record takes its place.
        let is_meant =
            |e: &&Entry| self.foreign.is_empty() || Some(&*e.key) == asked || matches!(e.origin, Origin::Address(_));
        self.library.chosen(asked).filter(is_meant)
    }

    /// Returns `true` if only a question about a record in the link is shown.
    pub fn only_asks(&self) -> bool {
        !self.foreign.is_empty() && !self.shows_all() && !self.link.is_apart() && self.chosen().is_none()
    }

    /// The subject of the page.
    pub(super) fn about(&self) -> About {
        if self.shows_all() {
            return About::Records;
        }
        self.link.about(self.chosen().map(|e| e.key.clone()))
    }

    /// The records that are ticked and read, in the list's order.
    pub fn ticked(&self) -> Vec<(&Entry, &Run)> {
        let ticked = self.library.entries.iter().filter(|e| self.link.ticked.contains(&e.key));
        ticked.filter_map(|e| Some((e, e.run()?))).collect()
    }

    /// The options of charts: the room that they have, and the window and lines that the link names.
    pub fn options(&self) -> Options {
        let picked = self.link.picked.clone();
        let rungs = if self.sheets.is_unfolded("ladder") { Rungs::Marked } else { Rungs::Story };
        Options { window: self.link.window, picked, rungs, ..Options::of_width(self.width) }
    }

    /// What a step back of the history leads away from.
    pub(super) fn place(&self) -> (Link, bool) {
        let Link { record, tab, rung, board, report, .. } = self.link.clone();
        (Link { record, tab, rung, board, report, ..Link::default() }, self.shows_all())
    }

    /// The records of the class board: people's, and apart from them the published ones, which people's are compared with.
    pub fn on_board(&self) -> Vec<&Entry> {
        self.library.entries.iter().filter(|e| !(self.link.opened_only && e.is_published)).collect()
    }
}

//! The page's state.

use super::messages::OpenedFrom;
use super::notices::Notices;
use super::sheets::Sheets;
use crate::address::{About, Link, ProblemChoice};
use crate::library::class::Class;
use crate::library::{Entry, Filter, Library, Origin};
use crate::record::Tab;
use crate::report::Report;
use gloo_events::EventListener;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use warpbook_charts::{Options, Rungs};
use warpbook_record::Run;

/// The id of the page's heading, which gets the focus after the reader changes the view.
pub const HEADING: &str = "heading";

/// The place where a finger touched a rung's panel, while the finger is down.
pub type SwipeStart = Rc<Cell<Option<(f64, f64)>>>;

/// The view before a rung's panel was opened.
pub struct RungOrigin {
    /// The tab that was shown.
    pub tab: Option<Tab>,
    /// The problem that was shown.
    pub problem: Option<ProblemChoice>,
    /// The element that had the focus.
    pub from: OpenedFrom,
    /// The scroll position in CSS pixels.
    pub scrolled: f64,
}

/// The state of a server whose records may change.
#[derive(Debug, Default)]
pub struct Live {
    /// `true` if the page comes from a server whose records may change.
    pub on: bool,
    /// `true` if the server no longer answers.
    pub lost: bool,
    /// The server's tag of the last index.
    pub(super) etag: String,
}

/// The progress of loading records.
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
    /// The number of files in the last drop, and how many of them were read.
    pub dropped: (usize, usize),
    /// The bytes that the browser keeps.
    pub kept_bytes: usize,
    /// Addresses of folders whose records are in the list.
    pub folders: Vec<String>,
    /// The texts of the records embedded in the page, by file.
    pub embedded: BTreeMap<String, String>,
}

/// The page's state.
pub struct App {
    /// The view, as the address describes it.
    pub link: Link,
    /// The records that the page knows.
    pub library: Library,
    /// The progress files of a class.
    pub class: Class,
    /// The filter of the overview.
    pub filter: Filter,
    /// The state of the tables: sorting, search, unfolding.
    pub sheets: Sheets,
    /// The notices that are shown.
    pub notices: Notices,
    /// Addresses on other sites that still need the reader's permission, each with its host.
    pub foreign: Vec<(String, String)>,
    /// The start of a swipe on a rung's panel.
    pub swipe: SwipeStart,
    /// `true` if the page is dark.
    pub dark: bool,
    /// `true` while files are dragged over the page.
    pub hover: bool,
    /// The server of a page whose records may change.
    pub live: Live,
    /// The reader's report.
    pub report: Report,
    /// The keys of records from disk that this browser could not keep.
    pub not_kept: Vec<String>,
    /// `true` if the reader was told that the browser does not keep the report.
    pub(super) report_is_not_kept: bool,
    /// The view before a rung's panel was opened.
    pub(super) came_from: Option<RungOrigin>,
    /// The progress of loading records.
    pub(super) loading: Loading,
    /// The width of charts in CSS pixels.
    pub(super) width: u32,
    /// `true` once everything needed at the start was read.
    pub(super) ready: bool,
    /// `true` if the view has changed and its heading does not have the focus yet.
    pub(super) arriving: bool,
    /// `true` if the names in the address that the page was opened with are still to be checked.
    pub(super) is_link_new: bool,
    /// The record and the tab last scrolled into sight.
    pub(super) revealed: (Option<String>, Option<Tab>),
    /// The listeners on the window, kept as long as the app lives.
    pub(super) _listeners: Vec<EventListener>,
}

impl App {
    /// Returns `true` while the page reads anything.
    pub fn busy(&self) -> bool {
        self.loading.pending > 0
    }

    /// Returns `true` if all records are shown, and there are several.
    pub fn shows_all(&self) -> bool {
        self.link.shows_all() && self.library.entries.len() > 1
    }

    /// Returns the record that is shown.
    pub fn chosen(&self) -> Option<&Entry> {
        if self.shows_all() || self.link.is_apart() {
            return None;
        }
        let asked = self.link.record.as_deref();
        // While the page asks whether to open a linked record, no other record takes its place.
        let is_meant =
            |e: &&Entry| self.foreign.is_empty() || Some(&*e.key) == asked || matches!(e.origin, Origin::Address(_));
        self.library.chosen(asked).filter(is_meant)
    }

    /// Returns `true` if the page shows only the question about a linked record.
    pub fn only_asks(&self) -> bool {
        !self.foreign.is_empty() && !self.shows_all() && !self.link.is_apart() && self.chosen().is_none()
    }

    /// Returns the page's subject.
    pub(super) fn about(&self) -> About {
        if self.shows_all() {
            return About::Records;
        }
        self.link.about(self.chosen().map(|e| e.key.clone()))
    }

    /// Returns the records that are ticked and read, in the list's order.
    pub fn ticked(&self) -> Vec<(&Entry, &Run)> {
        let ticked = self.library.entries.iter().filter(|e| self.link.ticked.contains(&e.key));
        ticked.filter_map(|e| Some((e, e.run()?))).collect()
    }

    /// Returns the options for charts: their width, and the link's window and highlighted lines.
    pub fn options(&self) -> Options {
        let picked = self.link.picked.clone();
        let rungs = if self.sheets.is_unfolded("ladder") { Rungs::Marked } else { Rungs::Story };
        Options { window: self.link.window, picked, rungs, ..Options::of_width(self.width) }
    }

    /// Returns the part of the state whose changes add a step to the browser's history.
    pub(super) fn place(&self) -> (Link, bool) {
        let Link { record, tab, rung, board, report, .. } = self.link.clone();
        (Link { record, tab, rung, board, report, ..Link::default() }, self.shows_all())
    }

    /// Returns the records on the class board, including the published ones, which are shown for comparison.
    pub fn on_board(&self) -> Vec<&Entry> {
        self.library.entries.iter().filter(|e| !(self.link.opened_only && e.is_published)).collect()
    }
}

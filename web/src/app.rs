//! The page's state, and what changes it.

pub mod climb;
mod live;
pub mod report;
pub mod sources;

use crate::browser;
use crate::filter::Filter;
use crate::library::{Entry, Library, Origin, State};
use crate::link::{About, Choice, Link, Tab};
use crate::open::{Opened, open_marked};
use crate::origin::{self, Embedded, Index, check_address, foreign_host};
use crate::report::Report;
use crate::sheet::Sort;
use crate::trace::Shown;
use crate::view;
use gloo_events::{EventListener, EventListenerOptions};
use std::collections::BTreeMap;
use warpbook_charts::{Options, Window};
use warpbook_record::{Quantity, Run};
use wasm_bindgen::JsCast;
use web_sys::DragEvent;
use yew::{Callback, Component, Context, Html};

/// What may happen.
pub enum Msg {
    /// The index of the page's records is there.
    Index(Result<Index, String>),
    /// A record of the list was read.
    Read(String, Result<Box<Opened>, String>),
    /// Open this record of another site, or leave it out.
    Permit(String, bool),
    /// The record of that address is a folder's index, of records at these.
    Folder(String, Vec<String>),
    /// A record that is shown was read again.
    Renewed(String, sources::Reading),
    /// The page's server has answered.
    Live(Result<Option<(String, String)>, ()>),
    /// Of records from disk, the clipboard or the link.
    Opened(sources::Act),
    /// Of the reader's report.
    Report(report::Act),
    /// Show all records.
    Overview,
    /// Show the class board, at this task.
    Board(String),
    /// Leave the page's own records out of the board, or no longer.
    OpenedOnly(bool),
    /// Show these of all records.
    Filter(Filter),
    /// Show this record.
    Select(String),
    /// Forget this record.
    Close(String),
    /// Compare this record, or no longer.
    Tick(String, bool),
    /// Call this record so in comparisons.
    Label(String, String),
    /// Hold the other ticked records against this one.
    First(String),
    /// Show what is not comparable, or no longer.
    Anyway(bool),
    /// Normalise comparisons to what nobody changed, or no longer.
    Normalise(bool),
    /// Show this part.
    Show(Tab),
    /// Show this problem.
    Problem(Choice),
    /// Draw this in ladder and sweep.
    Quantity(Quantity),
    /// Show this part of the plot, or all of it.
    Zoom(Option<Window>),
    /// This of a timeline is shown.
    Traced(Shown),
    /// Let the line of this rung stand out of a sweep, or no longer.
    Pick(String, bool),
    /// Charts have so much room, in CSS pixels.
    Width(u32),
    /// Show this rung in the panel.
    Rung(String),
    /// Of a rung's panel.
    Climb(climb::Act),
    /// A column's heading of a sheet was pressed.
    Sort(&'static str, usize),
    /// Show only the rows of a sheet that have this text.
    Search(&'static str, String),
    /// Show all rows of a sheet.
    Unfold(&'static str),
    /// Put this onto the clipboard; the first says what it is.
    Copy(&'static str, String),
    /// Say this to screen readers.
    Say(String),
    /// Say this to everybody.
    Alert(String),
    /// Change between light and dark.
    Theme,
    /// The system changed between light and dark.
    SystemTheme,
    /// Files are held over the page (`true`), or have left it.
    Hover(bool),
    /// The history was stepped through.
    Popped,
    /// An alert was read.
    Dismiss(usize),
}

/// The page.
pub struct App {
    /// What is shown.
    pub link: Link,
    /// The records.
    pub library: Library,
    /// Which of all records are shown.
    pub filter: Filter,
    /// The orders of the sheets, by their names.
    pub sorts: Vec<(&'static str, Sort)>,
    /// The text that is searched for in each sheet, by the sheet's name.
    pub searches: Vec<(&'static str, String)>,
    /// The sheets that show all of their rows.
    pub unfolded: Vec<&'static str>,
    /// Addresses on other sites that the link names and the reader was not yet asked about, each with its host.
    pub foreign: Vec<(String, String)>,
    /// Sentences that the reader must see, with their numbers.
    pub alerts: Vec<(usize, String)>,
    /// The finger on a rung's panel.
    pub swipe: view::Begun,
    /// What was last said to screen readers.
    pub said: String,
    /// `true` if that answers a press, so that everybody sees it.
    pub told: bool,
    /// `true` if the page is dark.
    pub dark: bool,
    /// `true` while files are held over the page.
    pub hover: bool,
    /// The page's server, where its records may change.
    pub live: live::Live,
    /// The reader's report.
    pub report: Report,
    report_is_not_kept: bool,
    /// Where the reader was before a rung's panel was opened.
    came_from: Option<climb::Place>,
    /// How many files were dropped last, and how many of them were read.
    dropped: (usize, usize),
    kept_bytes: usize,
    /// The keys of records from disk that this browser does not keep.
    pub not_kept: Vec<String>,
    /// `true` once the index, the records that the browser kept, and the records in the link have arrived.
    index_came: bool,
    kept_came: bool,
    carried_came: bool,
    /// Addresses of folders, whose records are in the list.
    folders: Vec<String>,
    /// How wide charts are, in CSS pixels.
    width: u32,
    embedded: BTreeMap<String, String>,
    alerts_given: usize,
    /// The number of reads under way, including the index.
    pending: usize,
    ready: bool,
    /// `true` if the reader went to another view, whose heading is still to be shown.
    arriving: bool,
    /// `true` if the names in the address that the page was opened with are still to be checked.
    is_link_new: bool,
    /// The record and the tab that were last scrolled into sight.
    revealed: (Option<String>, Option<Tab>),
    _listeners: Vec<EventListener>,
}

impl App {
    /// Returns `true` while something is being read.
    pub fn busy(&self) -> bool {
        self.pending > 0
    }

    /// Returns `true` if all records are shown, and there are several.
    pub fn shows_all(&self) -> bool {
        self.link.shows_all() && self.library.entries.len() > 1
    }

    /// How a sheet is sorted, if it is.
    pub fn sort_of(&self, sheet: &str) -> Option<Sort> {
        self.sorts.iter().find(|s| s.0 == sheet).map(|s| s.1)
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
    fn about(&self) -> About {
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

    /// How charts are drawn: as wide as there is room, and what the link says.
    pub fn options(&self) -> Options {
        let picked = self.link.picked.clone();
        Options { window: self.link.window, picked, ..Options::of_width(self.width) }
    }

    /// What a step back of the history leads away from.
    fn place(&self) -> (Link, bool) {
        let Link { record, tab, rung, board, report, .. } = self.link.clone();
        (Link { record, tab, rung, board, report, ..Link::default() }, self.shows_all())
    }

    /// The records of the class board: people's, and apart from them the published ones, which people's are compared with.
    pub fn on_board(&self) -> Vec<&Entry> {
        self.library.entries.iter().filter(|e| !(self.link.opened_only && e.is_published)).collect()
    }

    fn alert(&mut self, text: String) {
        self.alerts_given += 1;
        // The latest are the ones that matter.
        if self.alerts.len() >= 5 {
            self.alerts.remove(0);
        }
        self.alerts.push((self.alerts_given, text));
    }

    /// Begins to read what is shown or ticked and not yet read.
    fn read_wanted(&mut self, ctx: &Context<Self>) {
        let mut wanted: Vec<String> = self.link.ticked.clone();
        wanted.extend(self.chosen().map(|e| e.key.clone()));
        if self.link.board.is_some() {
            wanted.extend(self.on_board().iter().map(|e| e.key.clone()));
        }
        for key in wanted {
            self.read(ctx, &key);
        }
    }

    fn read(&mut self, ctx: &Context<Self>, key: &str) {
        let Some(entry) = self.library.get_mut(key).filter(|e| matches!(e.state, State::Unread)) else {
            return;
        };
        let (name, key) = (entry.name.clone(), key.to_owned());
        let address = match &entry.origin {
            Origin::Bundled(file) => format!("data/{}", js_sys::encode_uri_component(file)),
            Origin::Address(address) => address.clone(),
            Origin::Disk | Origin::Fragment => return,
        };
        let own = match &entry.origin {
            Origin::Bundled(file) => self.embedded.get(file).cloned(),
            _ => None,
        };
        entry.state = State::Reading;
        self.pending += 1;
        self.said = format!("Reading {name}.");
        ctx.link().send_future(async move {
            browser::pause().await;
            let bytes = match own {
                Some(text) => Ok(text.into_bytes()),
                None => match check_address(&address) {
                    Ok(address) => browser::fetch(&origin::fetched(address)).await,
                    Err(why) => Err(why),
                },
            };
            if let Some(records) = bytes.as_ref().ok().and_then(|b| origin::folder(&origin::fetched(&address), b)) {
                return Msg::Folder(key, records);
            }
            let result = bytes.and_then(|b| open_marked(&b));
            Msg::Read(key, result.map_err(|why| format!("{name} was not opened: {why}")))
        });
    }

    /// Takes up the addresses of the link.
    fn follow_link(&mut self, ctx: &Context<Self>) {
        for address in self.link.sources.clone() {
            let is_known = self.library.get(&Library::key_of(&address)).is_some() || self.folders.contains(&address);
            match foreign_host(&address, &browser::site()).filter(|_| !is_known) {
                Some(host) => {
                    if !self.foreign.iter().any(|(known, _)| *known == address) {
                        self.foreign.push((address, host));
                    }
                }
                None if self.folders.contains(&address) => {}
                None => self.read_address(ctx, &address),
            }
        }
    }

    fn read_address(&mut self, ctx: &Context<Self>, address: &str) {
        let key = self.library.add_address(address);
        self.read(ctx, &key);
    }

    fn begin(&mut self, ctx: &Context<Self>) {
        self.follow_link(ctx);
        self.link.compare_sources();
        self.carried_came = crate::fragment::parse(&browser::fragment()).is_none();
        self.begin_sources(ctx);
        self.pending += 1;
        match browser::embedded().map(|text| Embedded::parse(&text)) {
            Some(Ok(embedded)) if embedded.live => self.begin_live(ctx),
            Some(embedded) => {
                let index = embedded.map(|e| {
                    self.embedded = e.records;
                    e.index
                });
                ctx.link().send_message(Msg::Index(index));
            }
            None => ctx.link().send_future(async {
                Msg::Index(match browser::fetch("data/index.json").await {
                    Ok(bytes) => Index::parse(&String::from_utf8_lossy(&bytes)),
                    Err(why) => Err(format!("The list of this page's own records was not read: {why}")),
                })
            }),
        }
    }

    fn change(&mut self, ctx: &Context<Self>, msg: Msg) -> bool {
        if matches!(msg, Msg::Select(_) | Msg::Show(_) | Msg::Problem(_) | Msg::Quantity(_)) {
            // Other axes.
            self.link.window = None;
            self.link.traced = Shown::default();
        }
        match msg {
            Msg::Index(index) => {
                self.pending -= 1;
                match index {
                    Ok(index) => {
                        self.begin_with_class(&index);
                        self.library.add_index(index);
                    }
                    Err(why) => self.alert(why),
                }
                self.index_came = true;
                self.check_link();
            }
            Msg::Read(key, result) => {
                self.pending -= 1;
                let (run, why) = split(result);
                self.library.finish(&key, run);
                self.say_what_came(&key, why);
            }
            Msg::Permit(address, yes) => {
                self.foreign.retain(|(known, _)| *known != address);
                if yes {
                    self.read_address(ctx, &address);
                } else {
                    let key = Library::key_of(&address);
                    self.link.sources.retain(|s| *s != address);
                    self.link.ticked.retain(|k| *k != key);
                }
            }
            Msg::Folder(key, records) => self.open_folder(ctx, &key, records),
            Msg::Renewed(key, reading) => match reading {
                Ok(opened) => self.library.finish(&key, Some(*opened)),
                Err(why) => self.alert(format!("{key} has changed and was not opened again: {why}")),
            },
            Msg::Live(answer) => return self.answered(ctx, answer),
            Msg::Opened(act) => return self.source(ctx, act),
            Msg::Report(act) => self.report(act),
            Msg::Board(task) => self.link.show_board(task),
            Msg::OpenedOnly(on) => self.link.opened_only = on,
            Msg::Overview => self.link.show_all(),
            Msg::Filter(filter) => self.filter = filter,
            Msg::Select(key) => {
                self.link.overview = false;
                self.link.leave_apart();
                self.library.retry(&key);
                // Another record's columns may be others.
                self.sorts.clear();
                self.searches.clear();
                self.unfolded.clear();
                self.came_from = None;
                self.link.record = Some(key);
            }
            Msg::Close(key) => self.close(&key),
            Msg::Tick(key, on) => {
                self.link.ticked.retain(|k| *k != key);
                if on {
                    self.link.ticked.push(key);
                    if self.link.ticked.len() == 2 {
                        self.link.tab = Some(Tab::Compare);
                        self.link.overview = false;
                    }
                }
            }
            Msg::Label(key, label) => self.link.label(key, &label),
            Msg::First(key) => {
                self.link.ticked.retain(|k| *k != key);
                self.link.ticked.insert(0, key);
            }
            Msg::Anyway(on) => self.link.anyway = on,
            Msg::Normalise(on) => self.link.normalised = on,
            Msg::Show(tab) => {
                self.link.tab = Some(tab);
                self.came_from = None;
            }
            Msg::Problem(choice) => self.link.problem = Some(choice),
            Msg::Quantity(quantity) => self.link.quantity = Some(quantity),
            Msg::Zoom(window) => self.link.window = window,
            Msg::Traced(shown) => self.link.traced = shown,
            Msg::Pick(rung, on) => {
                self.link.picked.retain(|r| *r != rung);
                self.link.picked.extend(on.then_some(rung));
            }
            Msg::Width(width) => {
                let changed = self.width != width;
                self.width = width;
                return changed;
            }
            Msg::Rung(rung) => self.link.rung = Some(rung),
            Msg::Climb(act) => return self.climb(act),
            Msg::Sort(sheet, column) => {
                let sort = Sort::pressed(self.sort_of(sheet), column);
                self.sorts.retain(|s| s.0 != sheet);
                self.sorts.extend(sort.map(|sort| (sheet, sort)));
            }
            Msg::Search(sheet, text) => {
                self.searches.retain(|s| s.0 != sheet);
                self.searches.push((sheet, text));
            }
            Msg::Unfold(sheet) => self.unfolded.push(sheet),
            Msg::Copy(what, text) => ctx.link().send_future(async move {
                Msg::Say(if browser::copy(&text).await {
                    format!("Copied {what}.")
                } else {
                    format!("The browser does not let this page copy {what}; select it and copy it by keyboard.")
                })
            }),
            Msg::Say(text) => (self.said, self.told) = (text, true),
            Msg::Alert(text) => self.alert(text),
            Msg::Theme => {
                self.dark = !self.dark;
                browser::set_theme(self.dark, true);
            }
            Msg::SystemTheme => {
                self.dark = browser::dark();
                browser::set_theme(self.dark, false);
            }
            Msg::Hover(over) => {
                let changed = self.hover != over;
                self.hover = over;
                return changed;
            }
            Msg::Popped => {
                self.link = Link::parse(&browser::query());
                self.came_from = None;
                self.follow_link(ctx);
            }
            Msg::Dismiss(number) => self.alerts.retain(|(n, _)| *n != number),
        }
        true
    }

    /// The records at these addresses take the place of the folder's index.
    fn open_folder(&mut self, ctx: &Context<Self>, key: &str, records: Vec<String>) {
        self.pending -= 1;
        let address = key.strip_prefix('@').unwrap_or(key).to_owned();
        self.library.close(key);
        self.link.ticked.retain(|k| k != key);
        if records.is_empty() {
            self.alert(format!("{address} is the index of a folder, and names no record."));
            return;
        }
        let is_alone = self.link.record.is_none() && self.link.tab.is_none() && self.link.ticked.is_empty();
        let several = records.len() > 1;
        if is_alone && several && !self.link.is_apart() && !self.link.overview {
            match records.len() > warpbook_charts::MAX_RECORDS {
                true => self.link.show_board(String::new()),
                false => self.link.show_all(),
            }
        }
        for record in records {
            self.read_address(ctx, &record);
        }
        self.folders.push(address);
    }

    /// Once everything has come that a link may name: says what it names in vain.
    fn check_link(&mut self) {
        if !(self.index_came && self.kept_came && self.carried_came) {
            return;
        }
        let is_asked = |key: &str| self.foreign.iter().any(|(address, _)| Library::key_of(address) == *key);
        // A folder's records come after its index.
        let may_come = |key: &str| is_asked(key) || (self.busy() && key.starts_with('@'));
        let is_missing = |key: &String| self.library.get(key).is_none() && !may_come(key);
        let shown = self.link.record.clone().filter(is_missing);
        let missing: Vec<String> = self.link.ticked.iter().filter(|key| is_missing(key)).cloned().collect();
        self.link.ticked.retain(|key| !missing.contains(key));
        if let Some(key) = shown {
            self.alert(format!("The link shows a record that is not on this page ({key}){}.", why_missing(&key)));
            self.link.record = None;
        }
        for key in missing {
            self.alert(format!("The link compares a record that is not on this page ({key}){}.", why_missing(&key)));
        }
    }

    /// Removes from the address what the shown record does not have, and says so if a link named it.
    fn check_names(&mut self) {
        let first = self.link.ticked.first().filter(|_| self.link.compares());
        let Some(key) = first.cloned().or_else(|| self.chosen().map(|e| e.key.clone())) else { return };
        let Some(run) = self.library.get(&key).and_then(Entry::run) else { return };
        let wrong = self.link.forget_unknown(run);
        // A choice that the reader made for another record may not exist in this one: only names from a link are reported.
        if std::mem::take(&mut self.is_link_new) {
            wrong.into_iter().for_each(|why| self.alert(why));
        }
    }

    /// A file or a server with the records of several people begins with their board, where its address names nothing else.
    fn begin_with_class(&mut self, index: &Index) {
        let is_asked = self.link.overview || !self.link.ticked.is_empty() || !self.link.shows_all();
        if !is_asked && index.has_several_authors() {
            self.link.show_board(String::new());
        }
    }

    fn say_what_came(&mut self, key: &str, why: Option<String>) {
        match (self.library.get(key), why) {
            (_, Some(why)) => {
                self.said.clear();
                self.alert(why);
            }
            (Some(entry), None) => self.said = format!("{} is open: {}, {}.", entry.name, entry.title, entry.device),
            (None, None) => {}
        }
    }
}

/// Why a record that a link names is not on the page, for the end of a sentence.
fn why_missing(key: &str) -> &'static str {
    match key.split('-').next() {
        Some("disk") => ": it was opened from a disk and never left it",
        Some("link") => ": it was in another link",
        _ => "",
    }
}

fn split(result: Result<Box<Opened>, String>) -> (Option<Opened>, Option<String>) {
    match result {
        Ok(opened) => (Some(*opened), None),
        Err(why) => (None, Some(why)),
    }
}

impl Component for App {
    type Message = Msg;
    type Properties = ();

    fn create(ctx: &Context<Self>) -> Self {
        let dark = browser::dark();
        browser::set_theme(dark, false);
        let mut app = Self {
            link: Link::parse(&browser::query()),
            library: Library::default(),
            filter: Filter::default(),
            sorts: Vec::new(),
            searches: Vec::new(),
            unfolded: Vec::new(),
            foreign: Vec::new(),
            alerts: Vec::new(),
            swipe: view::Begun::default(),
            said: String::new(),
            told: false,
            dark,
            hover: false,
            live: live::Live::default(),
            report: report::kept(),
            report_is_not_kept: false,
            came_from: None,
            dropped: (0, 0),
            kept_bytes: 0,
            not_kept: Vec::new(),
            index_came: false,
            kept_came: false,
            carried_came: true,
            folders: Vec::new(),
            width: browser::chart_width(),
            embedded: BTreeMap::new(),
            alerts_given: 0,
            pending: 0,
            ready: false,
            arriving: false,
            is_link_new: true,
            revealed: (None, None),
            _listeners: listeners(&ctx.link().callback(|msg| msg)),
        };
        app.begin(ctx);
        app
    }

    fn update(&mut self, ctx: &Context<Self>, msg: Msg) -> bool {
        // The page's own beginnings are not steps that a reader would want to go back to.
        let by_reader = self.ready && !matches!(msg, Msg::Index(_) | Msg::Read(..) | Msg::Live(_) | Msg::Renewed(..));
        let popped = matches!(msg, Msg::Popped);
        let (before, about) = (self.place(), self.about());
        // What was told is over with the next that the reader does.
        self.told &= matches!(msg, Msg::Live(_) | Msg::Renewed(..) | Msg::Hover(_));
        let render = self.change(ctx, msg);
        self.read_wanted(ctx);
        self.check_names();
        self.arriving |= by_reader && !popped && about != self.about();
        if !popped {
            let moved = before != self.place();
            browser::set_query(&self.link.query(), by_reader && moved);
        }
        render
    }

    fn view(&self, ctx: &Context<Self>) -> Html {
        view::page(self, &ctx.link().callback(|msg| msg))
    }

    fn rendered(&mut self, ctx: &Context<Self>, _: bool) {
        if self.width != browser::chart_width() {
            ctx.link().send_message(Msg::Width(browser::chart_width()));
        }
        let title =
            self.chosen().filter(|e| e.run().is_some()).map(|e| format!("{}, {} – Warpbook", e.title, e.device));
        let apart = match &self.link {
            link if link.board.is_some() => "Class board – Warpbook",
            link if link.report => "Report – Warpbook",
            link if link.compares() => "Comparison – Warpbook",
            _ => "Warpbook",
        };
        browser::set_title(title.as_deref().unwrap_or(apart));
        let shown = (self.chosen().filter(|e| e.run().is_some()).map(|e| e.key.clone()), self.link.tab);
        if self.revealed != shown {
            self.revealed = shown;
            browser::reveal("[role=tab][aria-selected=true]");
            browser::reveal(".record.current");
        }
        // A record's heading comes once it is read.
        if self.arriving && browser::is_there(view::HEADING) {
            self.arriving = false;
            browser::scroll(0.0);
            browser::focus(view::HEADING);
        }
        if !self.ready && self.pending == 0 {
            self.ready = true;
            browser::mark(browser::document().body(), "data-warpbook-ready", "");
        }
    }
}

/// Those of the whole window: a file may be dropped anywhere, and the browser would otherwise leave the page for it.
fn listeners(send: &Callback<Msg>) -> Vec<EventListener> {
    let window = browser::window();
    let active = EventListenerOptions::enable_prevent_default();
    let on = |name: &'static str, act: fn(&Callback<Msg>, &DragEvent)| {
        let send = send.clone();
        EventListener::new_with_options(&window, name, active, move |event| {
            let event: &DragEvent = event.unchecked_ref();
            // What is dragged inside the page, as a selected text, is not for it.
            let types = event.data_transfer().map(|d| d.types());
            if types.is_some_and(|t| t.includes(&"Files".into(), 0)) {
                event.prevent_default();
                act(&send, event);
            }
        })
    };
    let mut all = vec![
        on("dragenter", |send, _| send.emit(Msg::Hover(true))),
        on("dragover", |send, _| send.emit(Msg::Hover(true))),
        on("dragleave", |send, event| {
            if event.related_target().is_none() {
                send.emit(Msg::Hover(false));
            }
        }),
        on("drop", |send, event| {
            send.emit(Msg::Hover(false));
            if let Some(files) = event.data_transfer().and_then(|d| d.files()) {
                send.emit(Msg::Opened(sources::Act::Files(browser::files(&files))));
            }
        }),
    ];
    all.push(climb::keys(send));
    let to = send.clone();
    all.push(EventListener::new(&window, "resize", move |_| to.emit(Msg::Width(browser::chart_width()))));
    let to = send.clone();
    all.push(EventListener::new(&window, "popstate", move |_| to.emit(Msg::Popped)));
    let to = send.clone();
    all.push(EventListener::new(&window, "hashchange", move |_| to.emit(Msg::Opened(sources::Act::Fragment))));
    let to = send.clone();
    all.push(EventListener::new(&window, "paste", move |event| {
        if let Some(text) = browser::pasted(event) {
            to.emit(Msg::Opened(sources::Act::Paste(text)));
        }
    }));
    if let Ok(Some(media)) = window.match_media("(prefers-color-scheme: dark)") {
        let to = send.clone();
        all.push(EventListener::new(&media, "change", move |_| {
            if !browser::theme_was_chosen() {
                to.emit(Msg::SystemTheme);
            }
        }));
    }
    all
}

//! Loads the page's own records and the records at the link's addresses.

use crate::address::{fragment, key_of};
use crate::app::messages::{LibraryMsg, Msg};
use crate::app::state::App;
use crate::browser;
use crate::library::open::open_hashed;
use crate::library::origin::{self, Embedded, Index, check_address, foreign_host};
use crate::library::{Origin, State};
use yew::Context;

impl App {
    pub(in crate::app) fn begin_reading(&mut self, ctx: &Context<Self>) {
        self.follow_link(ctx);
        self.link.compare_sources();
        self.loading.carried_came = fragment::parse(&browser::fragment()).is_none();
        self.begin_sources(ctx);
        self.loading.pending += 1;
        match browser::embedded().map(|text| Embedded::parse(&text)) {
            Some(Ok(embedded)) if embedded.live => self.begin_live(ctx),
            Some(embedded) => {
                let index = embedded.map(|e| {
                    self.loading.embedded = e.records;
                    e.index
                });
                ctx.link().send_message(Msg::Library(LibraryMsg::Index(index)));
            }
            None => ctx.link().send_future(async {
                Msg::Library(LibraryMsg::Index(match browser::fetch("data/index.json").await {
                    Ok(bytes) => Index::parse(&String::from_utf8_lossy(&bytes)),
                    Err(why) => Err(format!("The list of this page's own records was not read: {why}")),
                }))
            }),
        }
    }

    /// Handles a message about records of the page or of an address; returns whether the page must be redrawn.
    pub(in crate::app) fn update_library(&mut self, ctx: &Context<Self>, msg: LibraryMsg) -> bool {
        match msg {
            LibraryMsg::Index(index) => {
                self.loading.pending -= 1;
                match index {
                    Ok(index) => {
                        self.begin_with_class(&index);
                        self.library.add_index(index);
                    }
                    Err(why) => self.notices.alert(why),
                }
                self.loading.index_came = true;
                self.check_link();
            }
            LibraryMsg::Read(key, result) => {
                self.loading.pending -= 1;
                self.library.finish(&key, result.as_ref().ok().cloned());
                self.say_what_came(&key, result.err());
            }
            LibraryMsg::Permit(address, yes) => {
                self.foreign.retain(|(known, _)| *known != address);
                if yes {
                    self.read_address(ctx, &address);
                } else {
                    let key = key_of(&address);
                    self.link.sources.retain(|s| *s != address);
                    self.link.ticked.retain(|k| *k != key);
                }
            }
            LibraryMsg::Folder(key, records) => self.open_folder(ctx, &key, records),
            LibraryMsg::Renewed(key, reading) => match reading {
                Ok(opened) => self.library.finish(&key, Some(opened)),
                Err(why) => self.notices.alert(format!("{key} has changed and was not opened again: {why}")),
            },
            LibraryMsg::Live(answer) => return self.answered(ctx, answer),
            LibraryMsg::Close(key) => self.close(&key),
        }
        true
    }

    /// Starts reading every record that is shown or ticked and not yet read.
    pub(in crate::app) fn read_wanted(&mut self, ctx: &Context<Self>) {
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
            Origin::Bundled(file) => self.loading.embedded.get(file).cloned(),
            _ => None,
        };
        entry.state = State::Reading;
        self.loading.pending += 1;
        self.notices.said = format!("Reading {name}.");
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
                return Msg::Library(LibraryMsg::Folder(key, records));
            }
            let result = bytes.and_then(|b| open_hashed(&b));
            Msg::Library(LibraryMsg::Read(key, result.map_err(|why| format!("{name} was not opened: {why}"))))
        });
    }

    /// Reads the records at the link's addresses, or asks the reader about records on other sites.
    pub(in crate::app) fn follow_link(&mut self, ctx: &Context<Self>) {
        for address in self.link.sources.clone() {
            let is_known = self.library.get(&key_of(&address)).is_some() || self.loading.folders.contains(&address);
            match foreign_host(&address, &browser::site()).filter(|_| !is_known) {
                Some(host) => {
                    if !self.foreign.iter().any(|(known, _)| *known == address) {
                        self.foreign.push((address, host));
                    }
                }
                None if self.loading.folders.contains(&address) => {}
                None => self.read_address(ctx, &address),
            }
        }
    }

    fn read_address(&mut self, ctx: &Context<Self>, address: &str) {
        let key = self.library.add_address(address);
        self.read(ctx, &key);
    }

    /// Replaces the address of a folder's index with the addresses of the folder's records in the link.
    fn open_folder(&mut self, ctx: &Context<Self>, key: &str, records: Vec<String>) {
        self.loading.pending -= 1;
        let address = key.strip_prefix('@').unwrap_or(key).to_owned();
        self.library.close(key);
        self.link.ticked.retain(|k| k != key);
        if records.is_empty() {
            self.notices.alert(format!("{address} is the index of a folder, and names no record."));
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
        self.loading.folders.push(address);
    }

    /// Opens the class board if the index has records of several people and the address names no view.
    fn begin_with_class(&mut self, index: &Index) {
        let is_asked = self.link.overview || !self.link.ticked.is_empty() || !self.link.shows_all();
        if !is_asked && index.has_several_authors() {
            self.link.show_board(String::new());
        }
    }

    pub(in crate::app) fn say_what_came(&mut self, key: &str, why: Option<String>) {
        match (self.library.get(key), why) {
            (_, Some(why)) => {
                self.notices.said.clear();
                self.notices.alert(why);
            }
            (Some(entry), None) => {
                self.notices.said = format!("{} is open: {}, {}.", entry.name, entry.title, entry.device)
            }
            (None, None) => {}
        }
    }
}

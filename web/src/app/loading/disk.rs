//! Records from the reader's disk, the clipboard and the link's fragment, and the copies that the browser keeps.

use crate::address::fragment;
use crate::app::messages::{DiskMsg, Msg, NoticeMsg, OpenResult};
use crate::app::state::App;
use crate::browser::{self, store};
use crate::library::class::{is_progress, open_progress};
use crate::library::open::{Opened, open_hashed};
use crate::library::{Library, Origin};
use std::rc::Rc;
use warpbook_charts::MAX_RECORDS;
use warpbook_charts::words::counted;
use warpbook_record::Progress;
use wasm_bindgen_futures::spawn_local;
use web_sys::File;
use yew::Context;
use yew::html::Scope;

/// The maximum number of files that the page opens at once.
const MAX_FILES: usize = 200;
/// If more records are dropped than can be compared, the page is redrawn after each batch of this size.
const DRAWN_EVERY: usize = 10;
/// The maximum number of bytes of a file that the browser keeps; larger ones would slow down the next start.
const MAX_KEPT: usize = 16 << 20;
/// The maximum number of bytes that the browser keeps in all.
const MAX_KEPT_IN_ALL: usize = 96 << 20;

impl App {
    /// Starts reading the records that the browser kept, and the record in the link.
    pub(in crate::app) fn begin_sources(&mut self, ctx: &Context<Self>) {
        self.loading.pending += 1;
        ctx.link().send_future(async {
            let mut read = Vec::new();
            for kept in store::all().await {
                let record = open_hashed(&kept.bytes).map_err(|why| not_opened(&kept.name, &why));
                read.push((kept.name, record, kept.bytes.len()));
            }
            Msg::Disk(DiskMsg::Kept(read))
        });
        self.read_fragment(ctx);
    }

    /// Handles a message about records from the disk, the clipboard or a link; returns whether the page must be redrawn.
    pub(in crate::app) fn update_disk(&mut self, ctx: &Context<Self>, msg: DiskMsg) -> bool {
        match msg {
            DiskMsg::Files(files) => self.read_files(ctx, files),
            DiskMsg::Paste(text) => self.read_text(ctx, text),
            DiskMsg::Read(name, reading, bytes) => {
                self.show_read(ctx, &name, reading, bytes);
                let (of, read) = self.loading.dropped;
                return of <= MAX_RECORDS || read == 1 || read >= of || read.is_multiple_of(DRAWN_EVERY);
            }
            DiskMsg::Progress(name, reading) => self.show_progress(&name, reading),
            DiskMsg::Kept(all) => self.take_kept(all),
            DiskMsg::NotKept(key, name) => {
                // If the browser keeps nothing, one alert for all records is enough.
                if self.not_kept.is_empty() {
                    self.notices.alert(format!(
                        "{name} is open, but this browser cannot keep it: open it again after a reload."
                    ));
                }
                if !self.not_kept.contains(&key) {
                    self.not_kept.push(key);
                }
            }
            DiskMsg::Forget => self.forget(),
            DiskMsg::Fragment => self.read_fragment(ctx),
            DiskMsg::Carried(reading) => self.show_carried(reading),
            DiskMsg::CopyCarrying => self.copy_carrying(ctx),
        }
        true
    }

    fn read_files(&mut self, ctx: &Context<Self>, files: Vec<File>) {
        let count = files.len();
        if count > MAX_FILES {
            self.notices.alert(format!(
                "{count} files are more than this page opens at once: the first {MAX_FILES} are opened."
            ));
        }
        let count = count.min(MAX_FILES);
        self.loading.dropped = (count, 0);
        self.loading.pending += count;
        if let Some(first) = files.first() {
            self.notices.said = format!("Reading {}.", first.name());
        }
        let send = ctx.link().clone();
        // Files are read one after the other, so that the list shows them in their order.
        spawn_local(async move {
            browser::pause().await;
            for file in files.into_iter().take(count) {
                let name = file.name();
                send.send_message(match browser::read_file(&file).await {
                    Ok(bytes) => opened(&send, name, bytes),
                    Err(why) => Msg::Disk(DiskMsg::Read(name.clone(), Err(not_opened(&name, &why)), 0)),
                });
            }
        });
    }

    fn read_text(&mut self, ctx: &Context<Self>, text: String) {
        // Text without a leading brace or bracket was copied for another purpose.
        if !text.trim_start_matches('\u{feff}').trim_start().starts_with(['{', '[']) {
            let said = "The pasted text is not a record: a record is JSON text that begins with a brace.";
            return self.notices.tell(said);
        }
        self.loading.pending += 1;
        self.loading.dropped = (1, 0);
        let send = ctx.link().clone();
        spawn_local(async move {
            browser::pause().await;
            send.send_message(opened(&send, "pasted.json".into(), text.trim().as_bytes().to_vec()));
        });
    }

    /// Adds a person to the class and shows the board.
    fn show_progress(&mut self, name: &str, reading: Result<Rc<Progress>, String>) {
        self.loading.pending -= 1;
        self.loading.dropped.1 += 1;
        match reading.and_then(|progress| self.class.add(Rc::unwrap_or_clone(progress))) {
            Ok(()) if self.link.board.is_none() => self.link.show_board(String::new()),
            Ok(()) => {}
            Err(why) => self.notices.alert(not_opened(name, &why)),
        }
        let learners = counted(self.class.people().len(), "learner");
        self.notices.said = format!("The class has {learners}.");
    }

    /// Adds a file that was read. Each of a few records is shown at once; with many, the reader first sees the board.
    fn show_read(&mut self, ctx: &Context<Self>, name: &str, reading: OpenResult, bytes: usize) {
        self.loading.pending -= 1;
        self.loading.dropped.1 += 1;
        let (opened, why) = (reading.as_ref().ok().cloned(), reading.err());
        let hash = opened.as_ref().map(|o| o.hash);
        let known = self.library.count_on_disk();
        let key = opened.map(|opened| self.library.add_read(name, opened));
        if self.library.count_on_disk() > known {
            self.keep_size(ctx, name, hash.unwrap_or_default(), bytes);
        }
        self.say_what_came(key.as_deref().unwrap_or_default(), why);
        let (of, read) = self.loading.dropped;
        let Some(key) = key else { return };
        if of == 1 {
            self.link.leave_apart();
            (self.link.record, self.link.overview) = (Some(key), false);
        } else if read == 1 && of <= MAX_RECORDS && !self.link.is_apart() {
            self.link.show_all();
        } else if read == 1 && of > MAX_RECORDS && self.link.board.is_none() {
            // More records than a comparison can show are treated as a class.
            self.link.show_board(String::new());
        }
    }

    /// Counts the bytes that the browser keeps, and tells the reader which records it cannot keep.
    fn keep_size(&mut self, ctx: &Context<Self>, name: &str, hash: u64, bytes: usize) {
        if bytes <= MAX_KEPT && self.loading.kept_bytes + bytes <= MAX_KEPT_IN_ALL {
            self.loading.kept_bytes += bytes;
            return;
        }
        let (name, key) = (name.to_owned(), Library::key_on_disk(hash));
        ctx.link().send_future(async move {
            store::forget(&key).await;
            Msg::Disk(DiskMsg::NotKept(key, name))
        });
    }

    fn take_kept(&mut self, all: Vec<(String, OpenResult, usize)>) {
        self.loading.pending -= 1;
        for (name, reading, bytes) in all {
            // A newer version of the page may refuse a record that an older one kept.
            match reading {
                Ok(opened) => drop(self.library.add_read(&name, opened)),
                Err(why) => self.notices.alert(why),
            }
            self.loading.kept_bytes += bytes;
        }
        self.loading.kept_came = true;
        self.check_link();
    }

    fn forget(&mut self) {
        let keys: Vec<String> =
            self.library.entries.iter().filter(|e| e.origin == Origin::Disk).map(|e| e.key.clone()).collect();
        let count = keys.len();
        for key in keys {
            self.close(&key);
        }
        self.loading.kept_bytes = 0;
        self.notices.said = format!("{} forgotten.", counted(count, "record"));
        spawn_local(store::forget_all());
    }

    /// Closes a record and deletes its kept copy.
    pub(in crate::app) fn close(&mut self, key: &str) {
        match self.library.get(key).map(|e| &e.origin) {
            Some(Origin::Disk) => {
                let key = key.to_owned();
                spawn_local(async move { store::forget(&key).await });
            }
            Some(Origin::Fragment) => browser::drop_fragment(),
            _ => {}
        }
        self.library.close(key);
        self.not_kept.retain(|k| k != key);
        self.link.ticked.retain(|k| k != key);
        self.link.record = self.link.record.take().filter(|k| k != key);
        self.link.sources.retain(|address| key.strip_prefix('@') != Some(address));
    }

    fn read_fragment(&mut self, ctx: &Context<Self>) {
        let Some(carried) = fragment::parse(&browser::fragment()) else { return };
        self.loading.pending += 1;
        ctx.link().send_future(async move {
            let read = async {
                let carried = carried?;
                let bytes = browser::unpack(&carried.packed).await?;
                Ok((carried.name, open_hashed(&bytes)?))
            };
            let reading = read.await.map_err(|why: String| format!("The record in the link was not opened: {why}"));
            Msg::Disk(DiskMsg::Carried(reading))
        });
    }

    fn show_carried(&mut self, reading: Result<(String, Rc<Opened>), String>) {
        self.loading.pending -= 1;
        match reading {
            Ok((name, opened)) => {
                let key = self.library.add_carried(&name, opened);
                self.say_what_came(&key, None);
                // If the link already names a view, such as a comparison with this record, that view stays.
                if self.link.record.is_none() && self.link.ticked.is_empty() && !self.link.is_apart() {
                    (self.link.record, self.link.overview) = (Some(key), false);
                }
            }
            Err(why) => self.notices.alert(why),
        }
        self.loading.carried_came = true;
        self.check_link();
    }

    fn copy_carrying(&mut self, ctx: &Context<Self>) {
        let Some((entry, opened)) = self.chosen().and_then(|e| Some((e, e.opened()?))) else {
            self.notices.alert("Open a record first: the link carries it.".into());
            return;
        };
        // White space is removed to keep the link short.
        let Some(text) = opened.text.as_deref().map(fragment::compact) else {
            return self.notices.alert(fragment::too_large("its file is too long"));
        };
        let page = {
            // Keys of this visit's records mean nothing to others, so the link names only the carried record.
            let mut link = self.link.clone();
            (link.record, link.sources, link.overview) = (None, Vec::new(), false);
            link.ticked.clear();
            format!("{}{}", browser::place(), link.query())
        };
        let name = entry.name.clone();
        let local = if browser::is_local() {
            " It begins with an address that only your machine has: put the published page's in its place."
        } else {
            ""
        };
        ctx.link().send_future(async move {
            let link = match browser::pack(text.as_bytes()).await {
                Ok(packed) => fragment::link(&page, &name, &packed),
                Err(why) => Err(why),
            };
            match link {
                Ok((link, more)) if browser::copy(&link).await => {
                    Msg::say(format!("Copied a link of {} characters with the record inside.{more}{local}", link.len()))
                }
                Ok(_) => Msg::Notice(NoticeMsg::Alert("The browser does not let this page copy the link.".into())),
                Err(why) => Msg::Notice(NoticeMsg::Alert(why)),
            }
        });
    }
}

/// Parses a file's content and asks the browser to keep it if it is a record.
fn opened(send: &Scope<App>, name: String, bytes: Vec<u8>) -> Msg {
    if is_progress(&bytes) {
        return Msg::Disk(DiskMsg::Progress(name, open_progress(&bytes).map(Rc::new)));
    }
    let reading = open_hashed(&bytes).map_err(|why| not_opened(&name, &why));
    let size = bytes.len();
    if let Ok(opened) = &reading
        && size <= MAX_KEPT
    {
        let (key, name, send) = (Library::key_on_disk(opened.hash), name.clone(), send.clone());
        // The record is shown before it is written, since writing may take a while.
        spawn_local(async move {
            if !store::keep(&key, &name, &bytes).await {
                send.send_message(Msg::Disk(DiskMsg::NotKept(key, name)));
            }
        });
    }
    Msg::Disk(DiskMsg::Read(name, reading, size))
}

fn not_opened(name: &str, why: &str) -> String {
    format!("{name} was not opened: {why}")
}

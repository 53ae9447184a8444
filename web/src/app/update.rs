//! Message handling: the message's handler runs first, then the address, the loading of records and the focus are
//! updated.

use super::messages::{LibraryMsg, Msg, WindowMsg};
use super::notices::Notices;
use super::report;
use super::sheets::Sheets;
use super::state::{App, Live, Loading, SwipeStart};
use super::window::listeners;
use crate::address::Link;
use crate::browser;
use crate::library::class::Class;
use crate::library::{Filter, Library};
use yew::Context;

impl App {
    /// Creates the state from the page's address.
    pub fn begin(ctx: &Context<Self>) -> Self {
        let dark = browser::dark();
        browser::set_theme(dark, false);
        let mut app = Self {
            link: Link::parse(&browser::query()),
            library: Library::default(),
            class: Class::default(),
            filter: Filter::default(),
            sheets: Sheets::default(),
            notices: Notices::default(),
            foreign: Vec::new(),
            swipe: SwipeStart::default(),
            dark,
            hover: false,
            live: Live::default(),
            report: report::kept(),
            not_kept: Vec::new(),
            report_is_not_kept: false,
            came_from: None,
            loading: Loading::default(),
            width: browser::chart_width(),
            ready: false,
            arriving: false,
            is_link_new: true,
            revealed: (None, None),
            _listeners: listeners(&ctx.link().callback(|msg| msg)),
        };
        app.begin_reading(ctx);
        app
    }

    /// Handles a message; returns whether the page must be redrawn.
    pub fn answer(&mut self, ctx: &Context<Self>, msg: Msg) -> bool {
        use LibraryMsg::{Index, Live, Read, Renewed};
        // A record that the page loads by itself adds no step to the history.
        let by_page = matches!(msg, Msg::Library(Index(_) | Read(..) | Live(_) | Renewed(..)));
        let by_reader = self.ready && !by_page;
        let popped = matches!(msg, Msg::Window(WindowMsg::Popped));
        let (before, about) = (self.place(), self.about());
        // The reader's next action removes the last notice.
        self.notices.told &= matches!(msg, Msg::Library(Live(_) | Renewed(..)) | Msg::Window(WindowMsg::Hover(_)));
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

    fn change(&mut self, ctx: &Context<Self>, msg: Msg) -> bool {
        match msg {
            Msg::Library(msg) => return self.update_library(ctx, msg),
            Msg::Disk(msg) => return self.update_disk(ctx, msg),
            Msg::View(msg) => self.update_view(msg),
            Msg::Class(msg) => self.update_class(msg),
            Msg::Compare(msg) => self.update_comparison(msg),
            Msg::Chart(msg) => self.update_charts(msg),
            Msg::Rung(msg) => return self.update_rung(msg),
            Msg::Sheet(msg) => self.sheets.update(msg),
            Msg::Report(msg) => self.update_report(msg),
            Msg::Notice(msg) => self.notices.update(&ctx.link().callback(|msg| msg), msg),
            Msg::Window(msg) => return self.update_window(ctx, msg),
        }
        true
    }
}

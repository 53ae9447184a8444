//! Messages from the browser's window: size, history, theme, dropped files and keys.

use super::messages::{DiskMsg, Msg, RungMsg, WindowMsg};
use super::rung_panel::HEADING as RUNG_HEADING;
use super::state::{App, HEADING};
use crate::address::Link;
use crate::browser;
use gloo_events::{EventListener, EventListenerOptions};
use wasm_bindgen::JsCast;
use web_sys::{DragEvent, KeyboardEvent};
use yew::{Callback, Context};

impl App {
    /// Handles a message about the window; returns whether the page must be redrawn.
    pub(super) fn update_window(&mut self, ctx: &Context<Self>, msg: WindowMsg) -> bool {
        match msg {
            WindowMsg::Width(width) => return std::mem::replace(&mut self.width, width) != width,
            WindowMsg::Hover(over) => return std::mem::replace(&mut self.hover, over) != over,
            WindowMsg::Theme => {
                self.dark = !self.dark;
                browser::set_theme(self.dark, true);
            }
            WindowMsg::SystemTheme => {
                self.dark = browser::dark();
                browser::set_theme(self.dark, false);
            }
            WindowMsg::Popped => {
                self.link = Link::parse(&browser::query());
                self.came_from = None;
                self.follow_link(ctx);
            }
        }
        true
    }

    /// Sets the window's title, then scrolls and moves the focus as the last message requires.
    pub fn after_render(&mut self, ctx: &Context<Self>) {
        if self.width != browser::chart_width() {
            ctx.link().send_message(Msg::Window(WindowMsg::Width(browser::chart_width())));
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
        // A record's heading appears only once the record is read.
        if self.arriving && browser::is_there(HEADING) {
            self.arriving = false;
            browser::scroll(0.0);
            browser::focus(HEADING);
        }
        if !self.ready && self.loading.pending == 0 {
            self.ready = true;
            browser::set_attribute(browser::document().body(), "data-warpbook-ready", "");
        }
    }
}

/// Returns listeners on the whole window. Without them, a file dropped anywhere would make the browser leave the page.
pub(super) fn listeners(send: &Callback<Msg>) -> Vec<EventListener> {
    let window = browser::window();
    let active = EventListenerOptions::enable_prevent_default();
    let on = |name: &'static str, act: fn(&Callback<Msg>, &DragEvent)| {
        let send = send.clone();
        EventListener::new_with_options(&window, name, active, move |event| {
            let event: &DragEvent = event.unchecked_ref();
            // Drags of page content, such as selected text, are ignored.
            let types = event.data_transfer().map(|d| d.types());
            if types.is_some_and(|t| t.includes(&"Files".into(), 0)) {
                event.prevent_default();
                act(&send, event);
            }
        })
    };
    let mut all = vec![
        on("dragenter", |send, _| send.emit(Msg::Window(WindowMsg::Hover(true)))),
        on("dragover", |send, _| send.emit(Msg::Window(WindowMsg::Hover(true)))),
        on("dragleave", |send, event| {
            if event.related_target().is_none() {
                send.emit(Msg::Window(WindowMsg::Hover(false)));
            }
        }),
        on("drop", |send, event| {
            send.emit(Msg::Window(WindowMsg::Hover(false)));
            if let Some(files) = event.data_transfer().and_then(|d| d.files()) {
                send.emit(Msg::Disk(DiskMsg::Files(browser::files(&files))));
            }
        }),
    ];
    all.push(rung_keys(send));
    let to = send.clone();
    all.push(EventListener::new(&window, "resize", move |_| {
        to.emit(Msg::Window(WindowMsg::Width(browser::chart_width())))
    }));
    let to = send.clone();
    all.push(EventListener::new(&window, "popstate", move |_| to.emit(Msg::Window(WindowMsg::Popped))));
    let to = send.clone();
    all.push(EventListener::new(&window, "hashchange", move |_| to.emit(Msg::Disk(DiskMsg::Fragment))));
    let to = send.clone();
    all.push(EventListener::new(&window, "paste", move |event| {
        if let Some(text) = browser::pasted(event) {
            to.emit(Msg::Disk(DiskMsg::Paste(text)));
        }
    }));
    if let Ok(Some(media)) = window.match_media("(prefers-color-scheme: dark)") {
        let to = send.clone();
        all.push(EventListener::new(&media, "change", move |_| {
            if !browser::theme_was_chosen() {
                to.emit(Msg::Window(WindowMsg::SystemTheme));
            }
        }));
    }
    all
}

/// Returns a listener for the keys of a rung's panel, which work whatever element has the focus.
fn rung_keys(send: &Callback<Msg>) -> EventListener {
    let send = send.clone();
    let active = EventListenerOptions::enable_prevent_default();
    EventListener::new_with_options(&browser::window(), "keydown", active, move |event| {
        let Some(event) = event.dyn_ref::<KeyboardEvent>() else { return };
        // Typing a bracket requires Alt, or Ctrl and Alt, on some keyboards.
        let is_command = event.meta_key() || (event.ctrl_key() && !event.alt_key());
        if event.default_prevented() || is_command || browser::is_field(event) || !browser::is_there(RUNG_HEADING) {
            return;
        }
        let act = match event.key().as_str() {
            "[" => RungMsg::Step(-1),
            "]" => RungMsg::Step(1),
            "Escape" => RungMsg::Leave,
            _ => return,
        };
        event.prevent_default();
        send.emit(Msg::Rung(act));
    })
}

//! The way along a ladder: a rung's panel is opened from wherever the reader is, and leads back there.

use super::{App, Msg};
use crate::browser;
use crate::climb;
use crate::link::{Choice, Tab};
use crate::view;
use gloo_events::{EventListener, EventListenerOptions};
use warpbook_record::{Problem, Run};
use wasm_bindgen::JsCast;
use wasm_bindgen_futures::spawn_local;
use web_sys::KeyboardEvent;
use yew::Callback;

/// The id of the panel's heading, which has the focus once it is open.
pub const HEADING: &str = "rung-heading";

/// What may happen.
pub enum Act {
    /// Show this rung, at the problem of that label where it is not empty; the reader comes from there.
    Open(String, String, From),
    /// Show the rung that lies so many steps further.
    Step(isize),
    /// Show the whole source, or what changed.
    Whole(bool),
    /// Go back to where the reader came from.
    Leave,
}

/// What had the focus before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From {
    /// The element of this id.
    Id(String),
    /// The mark of this number among those of the page.
    Mark(usize),
}

/// Where the reader was.
pub struct Place {
    tab: Option<Tab>,
    problem: Option<Choice>,
    from: From,
    scrolled: f64,
}

impl App {
    /// The record whose rung's panel is shown, and the problem.
    fn climbing(&self) -> Option<(&Run, Option<&Problem>)> {
        let run = self.chosen()?.run().filter(|_| self.link.tab == Some(Tab::Source))?;
        Some((run, self.link.problem_of(run)))
    }

    /// Does it; gives whether anything changed.
    pub(super) fn climb(&mut self, act: Act) -> bool {
        match act {
            Act::Open(rung, problem, from) => self.open_rung(rung, &problem, from),
            Act::Whole(whole) => self.link.whole = whole,
            Act::Step(by) => {
                let Some((run, problem)) = self.climbing() else { return false };
                let shown = climb::shown(run, problem, self.link.rung.as_deref());
                let next = shown.and_then(|now| climb::neighbour(run, problem, &now.id, by)).map(|r| r.id.to_string());
                let Some(next) = next else { return false };
                self.link.rung = Some(next);
            }
            Act::Leave => {
                let Some((run, problem)) = self.climbing() else { return false };
                let shown = climb::shown(run, problem, self.link.rung.as_deref()).map(|r| r.id.to_string());
                self.leave_rung(shown.unwrap_or_default());
            }
        }
        true
    }

    fn open_rung(&mut self, rung: String, problem: &str, from: From) {
        // Marks of a board are of several records.
        let Some(run) = self.chosen().and_then(|e| e.run()) else { return };
        let named = run.problems().into_iter().find(|p| !problem.is_empty() && p.label == problem);
        let named = named.map(|p| Choice::Id(p.id.clone()));
        if self.link.tab != Some(Tab::Source) {
            let (tab, problem) = (self.link.tab, self.link.problem.clone());
            self.came_from = Some(Place { tab, problem, from, scrolled: browser::scrolled() });
        }
        if let Some(named) = named {
            self.link.problem = Some(named);
        }
        (self.link.rung, self.link.tab) = (Some(rung), Some(Tab::Source));
        spawn_local(async {
            browser::pause().await;
            browser::scroll_to(".tabs");
            browser::focus(HEADING);
        });
    }

    /// Without a place to go back to: to the first part, at the rung's mark.
    fn leave_rung(&mut self, rung: String) {
        self.link.rung = None;
        let Some(place) = self.came_from.take() else {
            self.link.tab = None;
            return spawn_local(async move {
                browser::pause().await;
                if !view::focus_mark(|mark| mark.rung == rung) {
                    browser::focus("panel");
                }
            });
        };
        (self.link.tab, self.link.problem) = (place.tab, place.problem);
        spawn_local(async move {
            browser::pause().await;
            browser::scroll(place.scrolled);
            let found = match &place.from {
                From::Id(id) => browser::focus(id),
                From::Mark(nth) => view::focus_mark(|mark| mark.nth == *nth),
            };
            if !found {
                browser::focus("panel");
            }
        });
    }
}

/// The keys of the panel, wherever the focus is while it is shown.
pub(super) fn keys(send: &Callback<Msg>) -> EventListener {
    let send = send.clone();
    let active = EventListenerOptions::enable_prevent_default();
    EventListener::new_with_options(&browser::window(), "keydown", active, move |event| {
        let Some(event) = event.dyn_ref::<KeyboardEvent>() else { return };
        // A bracket takes Alt, or both, on some keyboards.
        let is_command = event.meta_key() || (event.ctrl_key() && !event.alt_key());
        if event.default_prevented() || is_command || browser::is_field(event) || !browser::is_there(HEADING) {
            return;
        }
        let act = match event.key().as_str() {
            "[" => Act::Step(-1),
            "]" => Act::Step(1),
            "Escape" => Act::Leave,
            _ => return,
        };
        event.prevent_default();
        send.emit(Msg::Climb(act));
    })
}

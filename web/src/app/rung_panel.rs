//! Messages about a rung's panel: opening it from any view, stepping along the ladder, and going back.

use super::messages::{OpenedFrom, RungMsg};
use super::state::{App, RungOrigin};
use crate::address::ProblemChoice;
use crate::browser::{self, marks};
use crate::record::{Tab, rungs};
use warpbook_record::{Problem, Run};
use wasm_bindgen_futures::spawn_local;

/// The id of the panel's heading, which gets the focus when the panel opens.
pub const HEADING: &str = "rung-heading";

impl App {
    /// Returns the record and the problem of the ladder that the panel steps along.
    fn shown_ladder(&self) -> Option<(&Run, Option<&Problem>)> {
        let run = self.chosen()?.run().filter(|_| self.link.tab == Some(Tab::Source))?;
        Some((run, self.link.problem_of(run)))
    }

    /// Handles a message about a rung's panel; returns whether anything changed.
    pub(super) fn update_rung(&mut self, msg: RungMsg) -> bool {
        match msg {
            RungMsg::Show(rung) => self.link.rung = Some(rung),
            RungMsg::Open(rung, problem, from) => self.open_rung(rung, &problem, from),
            RungMsg::Whole(whole) => self.link.whole = whole,
            RungMsg::Step(by) => {
                let Some((run, problem)) = self.shown_ladder() else { return false };
                let shown = rungs::shown(run, problem, self.link.rung.as_deref());
                let next = shown.and_then(|now| rungs::neighbour(run, problem, &now.id, by)).map(|r| r.id.to_string());
                let Some(next) = next else { return false };
                self.link.rung = Some(next);
            }
            RungMsg::Leave => {
                let Some((run, problem)) = self.shown_ladder() else { return false };
                let shown = rungs::shown(run, problem, self.link.rung.as_deref()).map(|r| r.id.to_string());
                self.leave_rung(shown.unwrap_or_default());
            }
        }
        true
    }

    fn open_rung(&mut self, rung: String, problem: &str, from: OpenedFrom) {
        // The marks of a board come from several records.
        let Some(run) = self.chosen().and_then(|e| e.run()) else { return };
        let named = run.problems().into_iter().find(|p| !problem.is_empty() && p.label == problem);
        let named = named.map(|p| ProblemChoice::Id(p.id.clone()));
        if self.link.tab != Some(Tab::Source) {
            let (tab, problem) = (self.link.tab, self.link.problem.clone());
            self.came_from = Some(RungOrigin { tab, problem, from, scrolled: browser::scrolled() });
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

    /// Returns to the view before the panel, or else to the rung's mark in the first tab.
    fn leave_rung(&mut self, rung: String) {
        self.link.rung = None;
        let Some(place) = self.came_from.take() else {
            self.link.tab = None;
            return spawn_local(async move {
                browser::pause().await;
                if !marks::focus_mark(|mark| mark.rung == rung) {
                    browser::focus("panel");
                }
            });
        };
        (self.link.tab, self.link.problem) = (place.tab, place.problem);
        spawn_local(async move {
            browser::pause().await;
            browser::scroll(place.scrolled);
            let found = match &place.from {
                OpenedFrom::Id(id) => browser::focus(id),
                OpenedFrom::Mark(nth) => marks::focus_mark(|mark| mark.nth == *nth),
            };
            if !found {
                browser::focus("panel");
            }
        });
    }
}

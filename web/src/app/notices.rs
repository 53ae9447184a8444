//! Notices to the reader: alerts for everybody, and sentences for screen readers.

use super::messages::{Msg, NoticeMsg};
use crate::browser;
use wasm_bindgen_futures::spawn_local;
use yew::Callback;

/// The maximum number of alerts shown; older alerts are dropped.
const MAX_ALERTS: usize = 5;

/// The current notices.
#[derive(Debug, Default)]
pub struct Notices {
    /// Alerts with their numbers.
    pub alerts: Vec<(usize, String)>,
    /// The last sentence for screen readers.
    pub said: String,
    /// `true` if the sentence is a response to a press, in which case everybody sees it.
    pub told: bool,
    alerts_given: usize,
}

impl Notices {
    /// Shows an alert until the reader dismisses it.
    pub fn alert(&mut self, text: String) {
        self.alerts_given += 1;
        if self.alerts.len() >= MAX_ALERTS {
            self.alerts.remove(0);
        }
        self.alerts.push((self.alerts_given, text));
    }

    /// Makes screen readers announce a sentence, and shows it until the reader's next action.
    pub fn tell(&mut self, text: impl Into<String>) {
        (self.said, self.told) = (text.into(), true);
    }

    /// Handles a message about notices.
    pub(super) fn update(&mut self, send: &Callback<Msg>, msg: NoticeMsg) {
        match msg {
            NoticeMsg::Copy(what, text) => {
                let send = send.clone();
                spawn_local(async move {
                    send.emit(Msg::say(if browser::copy(&text).await {
                        format!("Copied {what}.")
                    } else {
                        format!("The browser does not let this page copy {what}; select it and copy it by keyboard.")
                    }));
                });
            }
            NoticeMsg::Say(text) => self.tell(text),
            NoticeMsg::Alert(text) => self.alert(text),
            NoticeMsg::Dismiss(number) => self.alerts.retain(|(n, _)| *n != number),
        }
    }
}

//! Messages about the comparison: its records, their labels and its options.

use super::messages::CompareMsg;
use super::state::App;
use crate::record::Tab;

impl App {
    /// Handles a message about the comparison.
    pub(super) fn update_comparison(&mut self, msg: CompareMsg) {
        match msg {
            CompareMsg::Tick(key, on) => {
                self.link.ticked.retain(|k| *k != key);
                if on {
                    self.link.ticked.push(key);
                    if self.link.ticked.len() == 2 {
                        self.link.tab = Some(Tab::Compare);
                        self.link.overview = false;
                    }
                }
            }
            CompareMsg::Label(key, label) => self.link.label(key, &label),
            CompareMsg::First(key) => {
                self.link.ticked.retain(|k| *k != key);
                self.link.ticked.insert(0, key);
            }
            CompareMsg::Anyway(on) => self.link.anyway = on,
            CompareMsg::Normalise(on) => self.link.normalised = on,
        }
    }
}

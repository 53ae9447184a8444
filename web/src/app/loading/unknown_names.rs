//! Removes from the address the names that do not exist, and tells the reader about them.

use crate::address::key_of;
use crate::app::state::App;
use crate::library::Entry;

impl App {
    /// Reports missing records to the reader once every record that a link may name has arrived.
    pub(in crate::app) fn check_link(&mut self) {
        if !(self.loading.index_came && self.loading.kept_came && self.loading.carried_came) {
            return;
        }
        let is_asked = |key: &str| self.foreign.iter().any(|(address, _)| key_of(address) == *key);
        // A folder's records arrive after its index.
        let may_come = |key: &str| is_asked(key) || (self.busy() && key.starts_with('@'));
        let is_missing = |key: &String| self.library.get(key).is_none() && !may_come(key);
        let shown = self.link.record.clone().filter(is_missing);
        let missing: Vec<String> = self.link.ticked.iter().filter(|key| is_missing(key)).cloned().collect();
        self.link.ticked.retain(|key| !missing.contains(key));
        if let Some(key) = shown {
            self.notices
                .alert(format!("The link shows a record that is not on this page ({key}){}.", why_missing(&key)));
            self.link.record = None;
        }
        for key in missing {
            self.notices
                .alert(format!("The link compares a record that is not on this page ({key}){}.", why_missing(&key)));
        }
    }

    /// Removes from the address the names that the shown record does not have, and reports names that came with a link.
    pub(in crate::app) fn check_names(&mut self) {
        let first = self.link.ticked.first().filter(|_| self.link.compares());
        let Some(key) = first.cloned().or_else(|| self.chosen().map(|e| e.key.clone())) else { return };
        let Some(run) = self.library.get(&key).and_then(Entry::run) else { return };
        let wrong = self.link.forget_unknown(run);
        // A choice made for another record may not exist in this one, so only names from a link are reported.
        if std::mem::take(&mut self.is_link_new) {
            wrong.into_iter().for_each(|why| self.notices.alert(why));
        }
    }
}

/// Returns the reason why a linked record is not on the page, as the end of a sentence.
fn why_missing(key: &str) -> &'static str {
    match key.split('-').next() {
        Some("disk") => ": it was opened from a disk and never left it",
        Some("link") => ": it was in another link",
        _ => "",
    }
}

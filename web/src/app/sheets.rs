//! Sorting, searching and unfolding of the page's tables.

use super::messages::SheetMsg;
use crate::tables::Sort;

/// The state of the page's tables, by the name of the table.
#[derive(Debug, Default)]
pub struct Sheets {
    sorts: Vec<(&'static str, Sort)>,
    searches: Vec<(&'static str, String)>,
    unfolded: Vec<&'static str>,
}

impl Sheets {
    /// Returns a table's sorting, if it is sorted.
    pub fn sort_of(&self, sheet: &str) -> Option<Sort> {
        self.sorts.iter().find(|s| s.0 == sheet).map(|s| s.1)
    }

    /// Returns a table's search text; empty if nothing is searched for.
    pub fn search_in(&self, sheet: &str) -> &str {
        self.searches.iter().find(|s| s.0 == sheet).map_or("", |s| &s.1)
    }

    /// Returns `true` if a table shows all of its rows.
    pub fn is_unfolded(&self, sheet: &str) -> bool {
        self.unfolded.contains(&sheet)
    }

    /// Handles a message about a table.
    pub(super) fn update(&mut self, msg: SheetMsg) {
        match msg {
            SheetMsg::Sort(sheet, column) => {
                let sort = Sort::pressed(self.sort_of(sheet), column);
                self.sorts.retain(|s| s.0 != sheet);
                self.sorts.extend(sort.map(|sort| (sheet, sort)));
            }
            SheetMsg::Search(sheet, text) => {
                self.searches.retain(|s| s.0 != sheet);
                self.searches.push((sheet, text));
            }
            SheetMsg::Unfold(sheet) => self.unfolded.push(sheet),
        }
    }
}

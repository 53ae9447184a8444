//! Hardware counters as tables.

use super::Show;
use super::html::{note, printable, scroll};
use crate::profile::HardwareCounters;
pub(super) use warpbook_charts::COUNTERS_MEANING as MEANING;
use warpbook_charts::{Table, counters};
use warpbook_record::Run;

/// Kernels that are shown.
const ROWS: usize = 10;

impl HardwareCounters {
    /// The ten kernels that took longest.
    #[must_use]
    pub fn table(&self) -> Table {
        counters(&self.kernels, ROWS)
    }

    fn remarks(&self) -> Vec<String> {
        let counted = format!("Counted by {}.", self.source.trim_end_matches('.'));
        [counted, MEANING.to_owned()].into_iter().chain(self.notes.iter().cloned()).collect()
    }
}

impl Show for HardwareCounters {
    fn html(&self) -> String {
        scroll(&self.table()) + &self.remarks().iter().map(|r| note(r)).collect::<String>()
    }

    fn text(&self) -> String {
        let remarks: Vec<String> = self.remarks().iter().map(|r| printable(r)).collect();
        format!("{}\n\n{}", self.table().text(), remarks.join("\n\n"))
    }
}

/// The counters of each rung that has some, under its name.
pub(super) fn of_rungs(run: &Run) -> Vec<(String, Table)> {
    let counted = run.profiled.iter().filter(|p| !p.counters.is_empty());
    let heading = |rung: &str| run.rung(rung).map_or_else(|| rung.to_owned(), |r| r.title.to_string());
    counted
        .map(|p| (format!("{}, {}: hardware counters", heading(&p.rung), p.problem.label), counters(&p.counters, ROWS)))
        .collect()
}

//! Hardware counters as tables.

use super::Show;
use super::html::{note, printable, scroll};
use crate::profile::HardwareCounters;
use warpbook_charts::{Table, counted_by, counters};
use warpbook_record::{Profiled, Run};

/// Kernels that are shown.
const ROWS: usize = 10;

impl HardwareCounters {
    /// The ten kernels that took longest.
    #[must_use]
    pub fn table(&self) -> Table {
        counters(&self.kernels, ROWS)
    }

    fn remarks(&self) -> Vec<String> {
        [counted_by([&*self.source])].into_iter().chain(self.notes.iter().cloned()).collect()
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

fn counted_rungs(run: &Run) -> impl Iterator<Item = &Profiled> {
    run.profiled.iter().filter(|p| !p.counters.is_empty())
}

/// What counted a record's rungs, and what its columns mean.
pub(super) fn meaning(run: &Run) -> String {
    counted_by(counted_rungs(run).map(|p| &*p.source))
}

/// The counters of each rung that has some, under its name.
pub(super) fn of_rungs(run: &Run) -> Vec<(String, Table)> {
    let counted = counted_rungs(run);
    let heading = |rung: &str| run.rung(rung).map_or_else(|| rung.to_owned(), |r| r.title.to_string());
    counted
        .map(|p| (format!("{}, {}: hardware counters", heading(&p.rung), p.problem.label), counters(&p.counters, ROWS)))
        .collect()
}

//! The display of hardware counters as tables.

use crate::display::Show;
use crate::display::html::{note, printable, scroll};
use warpbook_charts::{Table, counted_by, counters};
use warpbook_lab::profile::HardwareCounters;
use warpbook_record::{Profiled, Run};

/// Number of kernels to show.
const ROWS: usize = 10;

impl Show for HardwareCounters {
    fn html(&self) -> String {
        scroll(&self.table()) + &self.remarks().iter().map(|r| note(r)).collect::<String>()
    }

    fn text(&self) -> String {
        printable(&HardwareCounters::text(self))
    }
}

fn counted_rungs(run: &Run) -> impl Iterator<Item = &Profiled> {
    run.profiled.iter().filter(|p| !p.counters.is_empty())
}

/// Returns a note on the source of a record's counters and the meaning of the columns.
pub(crate) fn meaning(run: &Run) -> String {
    counted_by(counted_rungs(run).map(|p| &*p.source))
}

/// Returns the counters of each rung that has any, with the rung's name.
pub(crate) fn of_rungs(run: &Run) -> Vec<(String, Table)> {
    let counted = counted_rungs(run);
    let heading = |rung: &str| run.rung(rung).map_or_else(|| rung.to_owned(), |r| r.title.to_string());
    counted
        .map(|p| (format!("{}, {}: hardware counters", heading(&p.rung), p.problem.label), counters(&p.counters, ROWS)))
        .collect()
}

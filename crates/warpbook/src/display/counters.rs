//! Hardware counters as tables.

use super::html::{note, printable, scroll, table};
use super::{Show, figures};
use crate::profile::HardwareCounters;
use crate::profile::counters::{
    CONFLICTS, DRAM_READ, DRAM_WRITTEN, ISSUE, L2, L2_HITS, LOADS, STORES, TENSOR, TIME, WARPS, WAVEFRONTS,
    sectors_a_request, stalls,
};
use warpbook_charts::Table;
use warpbook_record::{KernelCounters, Run};

/// Kernels that are shown.
const ROWS: usize = 10;

/// The kernels that took longest first.
pub(super) fn counters_table(kernels: &[KernelCounters]) -> Table {
    let mut sorted: Vec<&KernelCounters> = kernels.iter().collect();
    let time = |k: &KernelCounters| k.value(TIME).unwrap_or(0.0);
    sorted.sort_by(|a, b| time(b).total_cmp(&time(a)));
    let percent = |k: &KernelCounters, metric| k.value(metric).map(|v| figures::percent(v / 100.0)).unwrap_or_default();
    let bytes = |v: Option<f64>| v.map(|v| figures::bytes(v.max(0.0) as u64)).unwrap_or_default();
    let number = |v: Option<f64>| v.map(|v| format!("{v:.2}")).unwrap_or_default();
    let row = |k: &&KernelCounters| {
        let conflicts = k.sum(&CONFLICTS).zip(k.value(WAVEFRONTS)).filter(|(_, all)| *all > 0.0);
        let waits: Vec<String> =
            stalls(k).iter().take(2).filter(|s| s.1 > 0.0).map(|(name, warps)| format!("{name} {warps:.2}")).collect();
        let rate = k.sum(&[DRAM_READ, DRAM_WRITTEN]).zip(k.value(TIME)).filter(|(_, ns)| *ns > 0.0);
        [
            k.kernel.clone(),
            k.value(TIME).map(|ns| figures::time(ns / 1e3)).unwrap_or_default(),
            bytes(k.value(DRAM_READ)),
            bytes(k.value(DRAM_WRITTEN)),
            rate.map(|(bytes, ns)| figures::bandwidth(bytes / ns * 1e9)).unwrap_or_default(),
            bytes(k.value(L2)),
            percent(k, L2_HITS),
            number(sectors_a_request(k, LOADS)),
            number(sectors_a_request(k, STORES)),
            conflicts.map(|(conflicts, all)| figures::percent(conflicts / all)).unwrap_or_default(),
            percent(k, ISSUE),
            percent(k, WARPS),
            percent(k, TENSOR),
            waits.join(", "),
        ]
    };
    table(
        [
            "kernel",
            "time",
            "DRAM read",
            "DRAM written",
            "DRAM",
            "L2",
            "L2 hits",
            "sectors a load",
            "sectors a store",
            "bank conflicts",
            "issue slots",
            "warps",
            "tensor pipe",
            "warps wait for",
        ],
        sorted.iter().take(ROWS).map(row).collect(),
    )
}

/// What the columns mean.
pub(super) const MEANING: &str = "Times are longer than without counters, whose clocks may differ. Sectors have 32 bytes: 4 a request are 128 bytes in a row. Bank \
    conflicts: the share of shared memory's wavefronts that they add. Issue slots: cycles in which a scheduler issues. Warps: of those that a multiprocessor can \
    hold. Warps wait for: how many of a scheduler wait for it while an instruction is issued, the two largest reasons.";

impl HardwareCounters {
    /// The ten kernels that took longest.
    #[must_use]
    pub fn table(&self) -> Table {
        counters_table(&self.kernels)
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
        .map(|p| (format!("{}, {}: hardware counters", heading(&p.rung), p.problem.label), counters_table(&p.counters)))
        .collect()
}

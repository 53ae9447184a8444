//! Hardware counters as a table with one row for each kernel.

use crate::draw::Table;
use crate::draw::text::words::{bandwidth, bytes, percent, rate, time, versions};
use warpbook_record::KernelCounters;
use warpbook_record::counters::metric::{DRAM, ISSUE, L2, L2_HITS, LANES, LOADS, STORES, TENSOR, TIME, WARPS};

/// Explains the columns of [`counters`].
pub const COUNTERS_MEANING: &str = "Times are longer than without counters, whose clocks may differ. FLOP/s: operations in fp32 and of the tensor cores. Sectors have \
    32 bytes: 4 a request are 128 bytes in a row. Bank conflicts: the share of shared memory's wavefronts that they add. Issue slots: cycles in which a scheduler \
    issues. Lanes: threads of a warp that execute an instruction, of 32. Warps: of those that a multiprocessor can hold. Warps wait for: cycles that the warps of a \
    scheduler spend waiting for it, added up, per instruction that it issues, the two largest reasons.";

/// Names the sources of the counters, each once, and explains the columns of [`counters`].
#[must_use]
pub fn counted_by<'s>(sources: impl IntoIterator<Item = &'s str>) -> String {
    let mut all: Vec<&str> = Vec::new();
    for source in sources.into_iter().map(|s| s.trim_end_matches('.')) {
        if !all.contains(&source) {
            all.push(source);
        }
    }
    format!("Counted by {}. {COUNTERS_MEANING}", versions(&all.join("; ")))
}

/// A counter of a kernel: its column, its number for files, and its text for readers.
#[derive(Debug, Clone, PartialEq)]
pub struct Counter {
    /// Heading of the column on a page.
    pub heading: &'static str,
    /// Heading of the column in a file, with the unit of [`Counter::number`].
    pub in_file: &'static str,
    /// The number, if it was counted.
    pub number: Option<f64>,
    /// Text for readers, with a unit; empty if it was not counted.
    pub text: String,
    /// True if the column contains words instead of numbers.
    pub in_words: bool,
}

/// Heading, heading in a file, number and its formatter.
type Figure<'a> = (&'static str, &'static str, Option<f64>, &'a dyn Fn(f64) -> String);

/// Returns the figures of a kernel, with the same columns for each. The last figure is in words: the stall reasons of the kernel's warps.
#[must_use]
pub fn counters_of(kernel: &KernelCounters) -> Vec<Counter> {
    let value = |metric| kernel.value(metric);
    let share = |metric| value(metric).map(|percent| percent / 100.0);
    let size = |v: f64| bytes(v.max(0.0) as u64);
    let ratio = |v: f64| format!("{v:.2}");
    let rows: [Figure<'_>; 14] = [
        ("time", "time (µs)", value(TIME).map(|ns| ns / 1e3), &time),
        ("FLOP/s", "FLOP/s", kernel.per_s(kernel.flops().map(|f| f.0)).filter(|v| *v > 0.0), &rate),
        ("DRAM read", "DRAM read (bytes)", value(DRAM[0]), &size),
        ("DRAM written", "DRAM written (bytes)", value(DRAM[1]), &size),
        ("DRAM", "DRAM (bytes/s)", kernel.per_s(kernel.sum(&DRAM)), &bandwidth),
        ("L2", "L2 (bytes)", value(L2), &size),
        ("L2 hits", "L2 hits (share)", share(L2_HITS), &percent),
        ("sectors a load", "sectors a load", kernel.ratio(LOADS), &ratio),
        ("sectors a store", "sectors a store", kernel.ratio(STORES), &ratio),
        ("bank conflicts", "bank conflicts (share)", kernel.bank_conflicts(), &percent),
        ("issue slots", "issue slots (share)", share(ISSUE), &percent),
        ("lanes", "lanes (threads of a warp)", value(LANES), &ratio),
        ("warps", "warps (share)", share(WARPS), &percent),
        ("tensor pipe", "tensor pipe (share)", share(TENSOR), &percent),
    ];
    let figure = |(heading, in_file, number, text): Figure<'_>| Counter {
        heading,
        in_file,
        number,
        text: number.map(text).unwrap_or_default(),
        in_words: false,
    };
    let mut all: Vec<Counter> = rows.into_iter().map(figure).collect();
    let waits = kernel.stalls().into_iter().take(2).filter(|s| s.1 > 0.0);
    let text = waits.map(|(name, warps)| format!("{name} {warps:.2}")).collect::<Vec<_>>().join(", ");
    all.push(Counter { heading: "warps wait for", in_file: "warps wait for", number: None, text, in_words: true });
    all
}

/// Returns a table of the kernels, the longest first, at most `most` of them.
#[must_use]
pub fn counters(kernels: &[KernelCounters], most: usize) -> Table {
    let mut table = Table::default();
    for kernel in longest(kernels).into_iter().take(most) {
        let all = counters_of(kernel);
        if table.headers.is_empty() {
            table = Table::new(std::iter::once("kernel").chain(all.iter().map(|c| c.heading)));
        }
        table.push(std::iter::once(kernel.kernel.clone()).chain(all.into_iter().map(|c| c.text)));
    }
    table
}

fn longest(kernels: &[KernelCounters]) -> Vec<&KernelCounters> {
    let mut sorted: Vec<&KernelCounters> = kernels.iter().collect();
    let time = |k: &KernelCounters| k.value(TIME).unwrap_or(0.0);
    sorted.sort_by(|a, b| time(b).total_cmp(&time(a)));
    sorted
}

/// Returns the texts of some columns of [`counters_of`], selected by heading, in the order of `headings`.
#[must_use]
pub fn counters_under(headings: &[&str], kernel: &KernelCounters) -> Vec<String> {
    let all = counters_of(kernel);
    let text = |heading: &&str| all.iter().find(|c| c.heading == *heading).map(|c| c.text.clone());
    headings.iter().map(|heading| text(heading).unwrap_or_else(|| format!("no column is called {heading}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_record::CounterValue;
    use warpbook_record::counters::metric::{CONFLICTS, FP32, TENSOR_OPS, WAVEFRONTS};

    fn kernel(name: &str, values: &[(&str, f64)]) -> KernelCounters {
        let value = |(metric, value): &(&str, f64)| CounterValue { metric: (*metric).to_owned(), value: *value };
        KernelCounters { kernel: name.into(), grid: Vec::new(), values: values.iter().map(value).collect() }
    }

    #[test]
    fn kernels_have_rates_and_those_that_took_longest_are_first() {
        let axpy = [
            (TIME, 2000.0),
            (DRAM[0], 4096.0),
            (DRAM[1], 1024.0),
            (LOADS[0], 80.0),
            (LOADS[1], 10.0),
            (CONFLICTS[0], 6.0),
            (CONFLICTS[1], 2.0),
            (WAVEFRONTS, 16.0),
            (FP32[0].0, 0.0),
            (FP32[1].0, 0.0),
            (FP32[2].0, 1e6),
            ("smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio", 5.5),
        ];
        let gemm = [(TIME, 9000.0), (TENSOR, 80.0), (TENSOR_OPS[0].0, 9e9), (DRAM[0], f64::NAN)];
        let all = [kernel("axpy", &axpy), kernel("gemm", &gemm), kernel("short", &[])];
        let table = counters(&all, 2);
        assert_eq!(table.rows.iter().map(|r| r[0].as_str()).collect::<Vec<_>>(), ["gemm", "axpy"]);
        let cell = |row: usize, heading: &str| {
            let at = table.headers.iter().position(|h| h == heading).unwrap();
            table.rows[row][at].as_str()
        };
        assert_eq!(["FLOP/s", "tensor pipe", "DRAM read"].map(|h| cell(0, h)), ["1000 TFLOP/s", "80 %", ""]);
        assert_eq!(["FLOP/s", "DRAM", "sectors a load"].map(|h| cell(1, h)), ["1.00 TFLOP/s", "2.56 GB/s", "8.00"]);
        assert_eq!([cell(1, "bank conflicts"), cell(1, "warps wait for")], ["50 %", "long scoreboard 5.50"]);
        assert_eq!(counters_of(&all[1])[1].number, Some(1e15));
        assert!(counters(&[], 10).rows.is_empty());
        let asked = ["sectors a load", "L2", "DRAM", "time", "heat"];
        assert_eq!(counters_under(&asked, &all[0]), ["8.00", "", "2.56 GB/s", "2.00 µs", "no column is called heat"]);
    }

    #[test]
    fn each_source_is_said_once() {
        let note = counted_by(["CUPTI 13, 9 passes.", "CUPTI 13, 9 passes", "CUPTI 13, 10 passes"]);
        assert_eq!(note, format!("Counted by CUPTI 13, 9 passes; CUPTI 13, 10 passes. {COUNTERS_MEANING}"));
        assert!(counted_by(["CUPTI 130001"]).starts_with("Counted by CUPTI 13.0.1. "));
    }
}

//! Hardware counters of both halves of a pair from the optimisation guide, side by side, and the latencies of a GPU's memories.

use super::guide::{label, of_a_gpu};
use super::{table, title};
use crate::prelude::*;
use warpbook_charts::{Table, counted_by, counters, counters_under, draw};
use warpbook_device::register_latency;
use warpbook_experiments::Pair;
use warpbook_record::{DeviceInfo, KernelCounters, Profiled};

/// Start of the note in a record which says that no hardware counters were read.
const WITHOUT: &str = "Hardware counters: ";
/// Maximum number of kernels shown for a rung, starting with the longest.
const KERNELS: usize = 4;
/// Heading of the chart of latencies.
const HEADING: &str = "How long an input takes, by where it is";

/// Reads the hardware counters of a pair's rungs if the reason for their ratio is inside a kernel. If the counters cannot be read, the record says why.
pub(super) fn count(lab: &Lab, pair: &Guide, run: &mut Run) {
    if pair.plan(None).is_ok_and(|plan| plan.uncounted.is_some()) || lab.device().cuda().is_none() {
        return;
    }
    match lab.count_rungs(pair, run) {
        Ok((found, notes)) => {
            run.profiled.extend(found);
            run.notes.extend(notes);
        }
        Err(why) => run.notes.push(format!("{WITHOUT}{why}")),
    }
}

/// Returns the hardware counters that show why one half of a pair is faster, with a row for each kernel of each rung and a note on the counting. If there are
/// none, returns the reason. Returns `None` for a pair whose reason is not inside a kernel.
pub(super) fn counted(run: &Run) -> Option<Panel> {
    let columns = Pair::of_record(&run.experiment)?.counters;
    if columns.is_empty() {
        return None;
    }
    let counted: Vec<_> = run.profiled.iter().filter(|p| !p.counters.is_empty()).collect();
    let Some(first) = counted.first() else {
        let why = run.notes.iter().find_map(|note| note.strip_prefix(WITHOUT))?;
        return Some(Panel::column([&format!("There are no hardware counters here: {why}")]));
    };
    let mut rows = Vec::new();
    for p in &counted {
        let all = counters(&p.counters, KERNELS);
        let value = |row: &[String], heading: &&str| {
            all.headers.iter().position(|h| h == heading).map(|at| row[at].clone()).unwrap_or_default()
        };
        for row in &all.rows {
            let shown = columns.iter().map(|heading| value(row, heading));
            rows.push([title(run, &p.rung).to_owned(), row[0].clone()].into_iter().chain(shown).collect());
        }
    }
    let headers: Vec<&str> = ["rung", "kernel"].into_iter().chain(columns.iter().copied()).collect();
    let table: Table = table(&headers, rows);
    let heading = format!("What the hardware counted, {}:", first.problem.label);
    let meaning = counted_by(counted.iter().map(|p| &*p.source));
    Some(Panel::column([&heading, &table, &meaning]))
}

/// Reads the hardware counters of an experiment's rungs that are in a record, and returns them with notes.
///
/// # Errors
/// If there is no GPU, or its counters cannot be read; the message says what is missing.
pub(super) fn rungs_counted(
    lab: &Lab,
    experiment: &dyn Experiment,
    measured: &Run,
) -> Result<(Vec<Profiled>, Vec<String>)> {
    match lab.device().cuda() {
        Some(_) => lab.count_rungs(experiment, measured),
        // Without a GPU this call returns an error that says what is needed.
        None => lab.counters(|| Ok(())).map(|_| (Vec::new(), Vec::new())),
    }
}

/// Shows the hardware counters of each kernel in the last epoch of a regression's descents. If counters cannot be read, the panel says what is missing.
///
/// # Errors
/// If a descent cannot be run.
pub fn counters_of_an_epoch(lab: &Lab, descent: &Regression) -> Result<Panel> {
    const COLUMNS: [&str; 7] = ["time", "DRAM read", "DRAM written", "DRAM", "L2", "L2 hits", "warps wait for"];
    let counted = match lab.device().cuda() {
        Some(_) => rungs_counted(lab, descent, &lab.run(descent)?),
        None => lab.counters(|| Ok(())).map(|_| (Vec::new(), Vec::new())),
    };
    let (rungs, notes) = match counted {
        Ok(found) => found,
        Err(why) => return Ok(Panel::column([&why.to_string()])),
    };
    let kernels = rungs.iter().flat_map(|rung| last_of_each(&rung.counters).into_iter().map(move |k| (rung, k)));
    let row = |(rung, kernel): (&Profiled, &KernelCounters)| {
        [rung.rung.clone(), kernel.kernel.clone()].into_iter().chain(counters_under(&COLUMNS, kernel)).collect()
    };
    let rows = kernels.map(row).collect();
    let by = rungs.first().map(|r| format!("Counted by {}.", r.source));
    let by = by.unwrap_or_else(|| "None of these rungs was measured here.".to_owned());
    Ok(Panel::column([&table(&[&["rung", "kernel"][..], &COLUMNS[..]].concat(), rows), &by, &notes]))
}

/// Returns the last launch of each kernel, which belongs to the last epoch.
fn last_of_each(kernels: &[KernelCounters]) -> Vec<&KernelCounters> {
    let mut last: Vec<&KernelCounters> = Vec::new();
    for kernel in kernels {
        match last.iter_mut().find(|k| k.kernel == kernel.kernel) {
            Some(earlier) => *earlier = kernel,
            None => last.push(kernel),
        }
    }
    last
}

/// Shows the latencies of registers, shared memory, L1, L2 and DRAM as bars. The latency of registers is measured by a chain of multiply-adds. The latencies of
/// the memories come from the record of the pair `memory-latency`, in which a time in milliseconds equals a latency in nanoseconds per load. Without a GPU the
/// latencies come from the published record, which lacks the latency of registers. If there is no published record either, a sentence says so.
///
/// # Errors
/// If the device reports an error, or the record has no pointer chase on a GPU.
pub fn latencies(lab: &Lab, walks: &Run) -> Result<Panel> {
    let Some(device) = lab.device().cuda() else {
        let record = of_a_gpu(walks);
        let Some(label) = label(&record) else {
            return Ok(Panel::column([&"The levels of a GPU's memory are measured on a GPU, and this lab has none."]));
        };
        let device = &record.environment.device;
        let chart = draw().latencies(&memories(&record, device), [HEADING, &device.name])?;
        let said = "The latency of a register is not part of that record: a chain of multiply-adds in your GPU would measure it.";
        return Ok(Panel::column([label, &chart, &said]));
    };
    let (cycles, registers) = register_latency(device)?;
    let levels = [&[("a register", registers)][..], &memories(walks, device.info())].concat();
    let chart = draw().latencies(&levels, [HEADING, &device.info().name])?;
    let said = format!(
        "A multiply-add takes {cycles:.1} cycles until the next one can use its result, at {:.2} GHz.",
        cycles / registers
    );
    Ok(Panel::column([&chart, &said]))
}

/// Returns the latencies of a GPU's memories in nanoseconds, from the pointer chases in a record; NaN for a memory without a suitable chase.
pub(super) fn memories(walks: &Run, device: &DeviceInfo) -> [(&'static str, f64); 4] {
    let kib = |rung: &str, least: u64, most: u64| {
        let fits = |p: &&Problem| (least..=most).contains(&p.size());
        let us = walks
            .problems()
            .into_iter()
            .filter(fits)
            .find_map(|p| walks.measurement(rung, p).filter(|m| m.is_valid())?.median_us());
        us.map_or(f64::NAN, |us| us / 1e3)
    };
    let l2_kib = device.l2_bytes.unwrap_or(4 << 20) / 1024;
    [
        ("shared memory", kib("03_shared_memory", 1, 128)),
        ("L1", kib("01_one_chain", 1, 64)),
        // This array is far larger than L1, and fits into the nearer half of L2.
        ("L2", kib("01_one_chain", 1024, l2_kib / 4)),
        ("DRAM", kib("01_one_chain", 4 * l2_kib, u64::MAX)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_charts::{Counter, counters_of};
    use warpbook_experiments::guide::PAIRS;
    use warpbook_record::CounterValue;

    fn kernel(values: &[(&str, f64)]) -> KernelCounters {
        let value = |(metric, value): &(&str, f64)| CounterValue { metric: (*metric).to_owned(), value: *value };
        KernelCounters { kernel: "strided".into(), grid: Vec::new(), values: values.iter().map(value).collect() }
    }

    #[test]
    fn pairs_name_halves_and_counters_that_there_are() {
        let headings: Vec<&str> = counters_of(&kernel(&[])).iter().map(|c: &Counter| c.heading).collect();
        for pair in PAIRS {
            let rungs = Experiment::rungs(&Guide::pair(pair.name).unwrap());
            let ids: Vec<String> = rungs.into_iter().filter(|r| !r.is_cpu()).map(|r| r.id.into()).collect();
            for half in pair.compared {
                assert!(ids.iter().any(|id| id == half), "{}: {half} of {ids:?}", pair.name);
            }
            assert_ne!(pair.compared[0], pair.compared[1], "{}", pair.name);
            for counter in pair.counters {
                assert!(headings.contains(counter), "{}: {counter} of {headings:?}", pair.name);
            }
        }
    }

    #[test]
    fn the_last_launch_of_a_kernel_is_the_last_epoch_s() {
        let launch = |name: &str, value: f64| KernelCounters { kernel: name.into(), ..kernel(&[("m", value)]) };
        let all = [launch("pass", 1.0), launch("update", 2.0), launch("pass", 3.0)];
        let last: Vec<f64> = last_of_each(&all).iter().map(|k| k.values[0].value).collect();
        assert_eq!(last, [3.0, 2.0]);
        let lab = Lab::open("cpu").unwrap();
        assert!(counters_of_an_epoch(&lab, &Regression::new()).unwrap().text().contains("CUDA device"));
    }

    #[test]
    fn counters_are_shown_by_rung_or_what_is_missing() {
        let lab = Lab::on(Choice::Cpu).unwrap().with_bench(Bench { samples: 3, budget_s: 0.05, ..Bench::quick() });
        let mut run = lab.run(&Guide::pair("coalescing").unwrap().quick()).unwrap();
        assert!(counted(&run).is_none(), "nothing is to be said on a CPU");
        run.notes.push(format!("{WITHOUT}only administrators may read them"));
        assert!(counted(&run).unwrap().text().contains("no hardware counters here: only administrators"));
        let counters = vec![kernel(&[
            ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", 320.0),
            ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", 10.0),
        ])];
        let problem = run.main_problem().unwrap().clone();
        run.profiled.push(Profiled { counters, ..Profiled::new("01_strided", problem, "a test") });
        let text = counted(&run).unwrap().text();
        assert!(text.contains("Strided") && text.contains("sectors a load") && text.contains("32.00"), "{text}");
        let of_no_pair = Run { experiment: "regression".into(), ..run };
        assert!(latencies(&lab, &of_no_pair).unwrap().text().contains("measured on a GPU"));
    }
}

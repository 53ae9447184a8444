//! Hardware counters of the rungs of the matrix product, and of edited rungs.

use super::{Guesses, only, table, wgmma_counters};
use crate::figures;
use crate::lesson::counted::rungs_counted;
use crate::prelude::*;
use warpbook_charts::counters_under;
use warpbook_record::counters::metric;
use warpbook_record::{KernelCounters, MemoryLevel, Profiled};

/// Shows hardware counters of some rungs, and compares a guess of how many sectors a load of the first rung touches with the count. If counters cannot be read,
/// it says what is missing.
#[must_use]
pub fn sectors_of_rungs(
    lab: &Lab,
    product: &Matmul,
    measured: &Run,
    guesses: &mut Guesses,
    guess: impl Into<Option<f64>>,
) -> Panel {
    const COLUMNS: [&str; 7] = ["time", "sectors a load", "L2", "L2 hits", "issue slots", "warps", "warps wait for"];
    let (rungs, notes) = match rungs_counted(lab, product, measured) {
        Ok(found) => found,
        Err(why) => return Panel::column([&why.to_string()]),
    };
    let rows = rows(&rungs, measured, |_, kernel| counters_under(&COLUMNS, kernel));
    let sectors = rungs.first().and_then(|r| r.counters.first()).and_then(|k| k.ratio(metric::LOADS));
    let what =
        rungs.first().map_or_else(|| "A load".to_owned(), |r| format!("A load of {} touches", titled(measured, r)));
    let judged = guesses.number(&what, "sectors", guess, sectors);
    Panel::column([&judged, &table(&[&["rung"][..], &COLUMNS[..]].concat(), rows), &source(&rungs), &notes])
}

/// Shows how many bytes L2 delivered to some rungs, as counted by the hardware and from the source, and their stall reasons. The last row is the kernel that
/// measures the ceiling of `wgmma`. If counters cannot be read, it says what is missing.
#[must_use]
pub fn l2_of_rungs(lab: &Lab, product: &Matmul, measured: &Run, problem: &Problem) -> Panel {
    const COLUMNS: [&str; 4] = ["L2 hits", "bank conflicts", "issue slots", "tensor pipe"];
    let (rungs, mut notes) = match rungs_counted(lab, product, measured) {
        Ok(found) => found,
        Err(why) => return Panel::column([&why.to_string()]),
    };
    // A row shows the three largest stall reasons, and the stall reason called `gmma`.
    let counts = |kernel: &KernelCounters| {
        let mut row = counters_under(&COLUMNS, kernel);
        let stalls: Vec<(String, f64)> = kernel.stalls();
        let largest: Vec<String> = stalls.iter().take(3).map(|(name, cycles)| format!("{name} {cycles:.2}")).collect();
        row.push(largest.join(", "));
        let gmma = stalls.iter().find(|stall| stall.0 == "gmma");
        row.push(gmma.map_or_else(|| "not counted".to_owned(), |stall| format!("{:.2}", stall.1)));
        row
    };
    let mut rows = rows(&rungs, measured, |rung, kernel| {
        bytes_of_l2(measured, problem, &rung.rung, kernel).into_iter().chain(counts(kernel)).collect()
    });
    match wgmma_counters(lab, Dtype::Bf16) {
        Ok(Some(alone)) => {
            for kernel in &alone.kernels {
                let [bytes, _, _] = bytes_of_l2(measured, problem, "", kernel);
                let first = ["wgmma alone".to_owned(), bytes, String::new(), String::new()];
                rows.push(first.into_iter().chain(counts(kernel)).collect());
            }
        }
        Ok(None) => notes.push("This GPU has no wgmma, so there is no kernel of its ceiling.".to_owned()),
        Err(why) => notes.push(format!("The kernel of the ceiling was not counted: {why}")),
    }
    let l2 = ["rung", "L2, by hardware", "L2, by the count", "of L2's ceiling"];
    let headers = [&l2[..], &COLUMNS[..], &["warps wait for", "gmma"][..]].concat();
    Panel::column([&table(&headers, rows), &source(&rungs), &notes])
}

/// Shows hardware counters of rung 02, unchanged and with its loop unrolled by some factors. `kernel` makes the edit for a factor, and `tried` has the attempts
/// in the order of `factors`. If counters cannot be read, it says what is missing.
#[must_use]
pub fn counters_of_factors(
    lab: &Lab,
    story: &Run,
    tried: &[Attempt],
    factors: &[u32],
    kernel: impl Fn(u32) -> Result<LiveKernel>,
) -> Panel {
    // Without a GPU this call returns an error that says what is needed.
    if lab.device().cuda().is_none() {
        return Panel::column([&lab.counters(|| Ok(())).map_or_else(|why| why.to_string(), |_| String::new())]);
    }
    let all = match counted_factors(lab, story, tried, factors, kernel) {
        Ok(all) => all,
        Err(why) => return Panel::column([&why.to_string()]),
    };
    const COLUMNS: [&str; 6] = ["time", "sectors a load", "L2", "L2 hits", "issue slots", "warps"];
    let waits = |kernel: &KernelCounters| {
        ["long_scoreboard", "lg_throttle"]
            .map(|reason| waited_us(kernel, reason).map(figures::time).unwrap_or_default())
    };
    let row = |(name, kernel): &(String, KernelCounters)| {
        [name.clone()].into_iter().chain(counters_under(&COLUMNS, kernel)).chain(waits(kernel)).collect()
    };
    let headers = [&["loop"][..], &COLUMNS[..], &["on long scoreboard", "on lg throttle"][..]].concat();
    let of_8 = all.iter().find(|(name, _)| name == "factor 8");
    let said = of_8.and_then(|(_, now)| changed(&all[0].1, now));
    let said = said.unwrap_or_else(|| "Not all of these figures were counted.".to_owned());
    Panel::column([&said, &table(&headers, all.iter().map(row).collect())])
}

/// Returns the counters of the unchanged rung 02 and of the attempts with factors of 4 and more, each with a name.
fn counted_factors(
    lab: &Lab,
    story: &Run,
    tried: &[Attempt],
    factors: &[u32],
    kernel: impl Fn(u32) -> Result<LiveKernel>,
) -> Result<Vec<(String, KernelCounters)>> {
    let mut all = vec![("as it is".to_owned(), counted_as_coalesced(lab, &only(story, &["02_coalesced"]))?)];
    for (factor, attempt) in factors.iter().zip(tried).filter(|(factor, _)| **factor >= 4) {
        let run = in_place_of_coalesced(&kernel(*factor)?, attempt);
        all.push((format!("factor {factor}"), counted_as_coalesced(lab, &run)?));
    }
    Ok(all)
}

/// Returns the hardware counters of rung 02, or of a kernel in its place.
fn counted_as_coalesced(lab: &Lab, measured: &Run) -> Result<KernelCounters> {
    let product = Matmul::new().dtypes([Dtype::F32]).rungs(["02_coalesced"]).transfers(false);
    let (rungs, notes) = lab.count_rungs(&product, measured)?;
    let kernel = rungs.into_iter().next().and_then(|rung| rung.counters.into_iter().next());
    kernel.ok_or_else(|| Error::Setting(format!("Nothing was counted. {}", notes.join(" "))))
}

/// Returns an attempt's record with the attempt in place of its rung, since counters are read only for rungs.
fn in_place_of_coalesced(live: &LiveKernel, attempt: &Attempt) -> Run {
    let mut run = attempt.run().clone();
    run.measurements.retain(|m| m.rung == live.id());
    run.measurements.iter_mut().for_each(|m| m.rung = "02_coalesced".to_owned());
    run.rungs = vec![Rung { id: "02_coalesced".into(), variant_of: None, ..live.rung() }];
    run
}

/// Returns how much of a kernel's time its warps spend in a stall reason, in microseconds, based on the reason's share of all warp states.
fn waited_us(kernel: &KernelCounters, reason: &str) -> Option<f64> {
    let [before, after] = metric::STALL;
    let states = kernel.values.iter().filter(|v| v.metric.starts_with(before) && v.metric.ends_with(after));
    let all: f64 = states.map(|v| v.value).sum();
    Some(kernel.value(&format!("{before}{reason}{after}"))? / all * kernel.value(metric::TIME)? / 1e3)
}

/// Describes what a factor of 8 changed.
fn changed(was: &KernelCounters, now: &KernelCounters) -> Option<String> {
    let grown = |of: &dyn Fn(&KernelCounters) -> Option<f64>| Some(figures::times(of(now)? / of(was)?));
    let longer = |reason: &str| Some(figures::time_difference(waited_us(now, reason)? - waited_us(was, reason)?));
    Some(format!(
        "With a factor of 8 the kernel takes {} the time of the rung as it is: {} the sectors for a load, {} the bytes from L2, about {} the \
         instructions; time on long scoreboard {}, on lg throttle {}.",
        grown(&|k| k.value(metric::TIME))?,
        grown(&|k| k.ratio(metric::LOADS))?,
        grown(&|k| k.value(metric::L2))?,
        grown(&|k| Some(k.value(metric::ISSUE)? * k.value(metric::TIME)?))?,
        longer("long_scoreboard")?,
        longer("lg_throttle")?,
    ))
}

/// Returns the bytes that L2 delivered to a kernel as counted by the hardware and as counted from the source, and their share of L2's ceiling over the time
/// measured without counters.
fn bytes_of_l2(run: &Run, problem: &Problem, rung: &str, kernel: &KernelCounters) -> [String; 3] {
    let measured = run.measurement(rung, problem);
    let traffic = measured.and_then(|m| m.traffic.iter().find(|t| t.level == MemoryLevel::L2));
    let bytes = kernel.value(metric::L2);
    let seconds = measured.and_then(|m| m.median_us()).map(|us| us / 1e6);
    let ceiling = run.peaks.level(MemoryLevel::L2).map(|p| p.bytes_per_s());
    let share = bytes.zip(seconds).zip(ceiling).map(|((bytes, s), ceiling)| figures::percent(bytes / s / ceiling));
    [bytes.map(|b| figures::bytes(b as u64)), traffic.map(|t| figures::bytes(t.bytes)), share]
        .map(Option::unwrap_or_default)
}

fn titled(run: &Run, rung: &Profiled) -> String {
    run.rung(&rung.rung).map_or_else(|| rung.rung.clone(), |r| r.title.to_string())
}

/// Makes a row for each kernel of each rung; a row begins with the rung's title.
fn rows(
    rungs: &[Profiled],
    measured: &Run,
    of_kernel: impl Fn(&Profiled, &KernelCounters) -> Vec<String>,
) -> Vec<Vec<String>> {
    let kernels = rungs.iter().flat_map(|rung| rung.counters.iter().map(move |kernel| (rung, kernel)));
    kernels
        .map(|(rung, kernel)| [titled(measured, rung)].into_iter().chain(of_kernel(rung, kernel)).collect())
        .collect()
}

/// Says which source the counters come from.
fn source(rungs: &[Profiled]) -> String {
    rungs.first().map_or("None of these rungs was measured here.".to_owned(), |r| format!("Counted by {}.", r.source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_record::CounterValue;

    #[test]
    fn without_a_gpu_counters_say_what_they_need() {
        let lab = Lab::open("cpu").unwrap();
        let product = Matmul::new().shapes([(64, 64, 64)]).dtypes([Dtype::F32]).rungs(["cpu_naive"]).transfers(false);
        let run = lab.run(&product).unwrap();
        let text = sectors_of_rungs(&lab, &product, &run, &mut Guesses::new(""), 4.0).text();
        assert!(text.contains("CUDA device"), "{text}");
        assert!(l2_of_rungs(&lab, &product, &run, run.main_problem().unwrap()).text().contains("CUDA device"));
        let kernel = |_: u32| LiveKernel::for_rung("02_coalesced");
        assert!(counters_of_factors(&lab, &run, &[], &[], kernel).text().contains("CUDA device"));
    }

    #[test]
    fn a_stall_has_its_share_of_the_time() {
        let [before, after] = metric::STALL;
        let value = |metric: String, value: f64| CounterValue { metric, value };
        let values = vec![
            value(format!("{before}long_scoreboard{after}"), 3.0),
            value(format!("{before}barrier{after}"), 1.0),
            value(metric::TIME.to_owned(), 8000.0),
        ];
        let kernel = KernelCounters { kernel: "k".into(), grid: Vec::new(), values };
        assert_eq!(waited_us(&kernel, "long_scoreboard"), Some(6.0));
        assert_eq!(waited_us(&kernel, "lg_throttle"), None);
    }
}

//! Shared parts of the optimisation guide's lessons: they measure a pair, show the results, and compare them with a guess.

mod published;

pub use super::counted::latencies;
use super::counted::{count, counted};
use super::{Guesses, guessed, quoted};
use crate::figures;
use crate::prelude::*;
pub use published::of_a_gpu;
pub(super) use published::{label, published, record_of_an_h200};
use warpbook_charts::power_in_words;
use warpbook_experiments::Pair;
use warpbook_experiments::guide::said;
use warpbook_record::Profiled;

/// Returns a sentence for the top of a lesson that says where the pairs are measured.
#[must_use]
pub fn place(lab: &Lab) -> String {
    let name = &lab.device().info().name;
    if lab.device().cuda().is_some() {
        return format!("All pairs are measured here, on {name}.");
    }
    let small = format!("There is no GPU in this lab: it runs on the CPU ({name}).");
    match PAIRS.first().and_then(|pair| published(pair.record)) {
        Some(record) => format!(
            "{small} A pair that a CPU can run is measured here, at small sizes, and shown next to the published record of {}. All other figures of pairs \
             come from published records, and say so.",
            record.environment.device.name
        ),
        None => format!(
            "{small} Sizes are small. Of each pair you see the halves that a CPU can run; halves for a GPU are compiled and listed, with the reason why \
             they were skipped."
        ),
    }
}

/// Measures a pair of the guide here: all sizes on a GPU, with hardware counters if the reason is inside a kernel, or only small sizes on a CPU. A pair needs a
/// GPU if a CPU can run fewer than two of its halves; without a GPU the published record is returned, if there is one, with a note that says so.
///
/// # Errors
/// If there is no pair of that name, or [`Lab::run`] returns an error.
pub fn measured(lab: &Lab, name: &str) -> Result<Run> {
    let pair = Guide::pair(name)?;
    if lab.device().cuda().is_none() {
        let halves = Experiment::rungs(&pair).iter().filter(|rung| rung.is_cpu()).count();
        return match published(&pair.plan(None)?.name).filter(|_| halves < 2) {
            Some(record) => Ok(record),
            None => lab.run(&pair.quick()),
        };
    }
    let mut run = lab.run(&pair)?;
    count(lab, &pair, &mut run);
    Ok(run)
}

impl Guesses {
    /// Shows a pair next to the guess of how many times as long one rung takes as another at a size, given as (slow, fast, size). The panel has a sentence with
    /// the ratio and the guess, the ladder at that size with the guess marked on the later of the two rungs, the ratio with its reason, and all sizes. If that
    /// size was not measured, as on a CPU, the ladder shows the record's main problem.
    ///
    /// For a record from a CPU, the published record of a GPU is shown too, and a guess about rungs that only a GPU can run is compared with the published
    /// record. Figures that were not measured here are labelled. For a record from another GPU than the published one, the panel begins with the published
    /// figure.
    pub fn pair(&mut self, run: &Run, asked: (&str, &str, u64), guess: impl Into<Option<f64>>) -> Panel {
        let guess = guess.into();
        let on_cpu = |id: &str| run.rung(id).is_some_and(Rung::is_cpu);
        match (published::beside(run), label(run)) {
            (Some(gpu), _) if on_cpu(asked.0) && on_cpu(asked.1) => {
                self.answer(run, asked, guess).and(&published::overview(&gpu))
            }
            (Some(gpu), _) => self.pair(&gpu, asked, guess).and(&published::overview(run)),
            (None, Some(label)) => Panel::column([label, &self.answer(run, asked, guess)]),
            (None, None) => match published_figure(run, asked) {
                Some(figure) => Panel::column([&figure, &self.answer(run, asked, guess)]),
                None => self.answer(run, asked, guess),
            },
        }
    }

    /// Returns the answer from one record alone.
    fn answer(&mut self, run: &Run, (slow, fast, size): (&str, &str, u64), guess: Option<f64>) -> Panel {
        let Some(problem) = run.problems().into_iter().find(|p| p.size() == size).or(run.main_problem()) else {
            return Panel::column([&format!("{}: nothing was measured.", run.title)]);
        };
        let all: Vec<&str> = run.rungs.iter().map(|r| &*r.id).collect();
        // A half that costs time to save something else comes after the half that it is compared with.
        let at = |id: &str| all.iter().position(|rung| *rung == id);
        let (mut panel, ladder) = match at(slow) > at(fast) {
            true => (
                Panel::column([&self.longer(run, problem, slow, fast, guess)]),
                guessed(run, problem, (slow, fast), guess.map(|guess| 1.0 / guess), &all),
            ),
            false => (
                Panel::column([&self.faster(run, problem, fast, slow, guess)]),
                guessed(run, problem, (fast, slow), guess, &all),
            ),
        };
        panel = match ladder {
            Ok(ladder) => panel.and(&ladder),
            Err(why) => panel.and(&why.to_string()),
        };
        panel = panel.and(&said(run, problem, (slow, fast)));
        if let Some(counted) = counted(run) {
            panel = panel.and(&counted);
        }
        panel.and(&draw().sweep(&[run]))
    }
}

/// Returns the published ratio of a pair, if it was measured on another device than this record.
fn published_figure(run: &Run, (slow, fast, size): (&str, &str, u64)) -> Option<String> {
    let record = published(&run.experiment)?;
    let device = &record.environment.device.name;
    if *device == run.environment.device.name {
        return None;
    }
    let problem = record.problems().into_iter().find(|p| p.size() == size)?;
    let median_us = |id: &str| record.measurement(id, problem).filter(|m| m.is_valid())?.median_us();
    let ratio = figures::times(median_us(slow)? / median_us(fast)?);
    let [slow, fast] = [slow, fast].map(|id| quoted(&record, id));
    Some(format!("Published, on an {device}: {slow} takes {ratio} as long as {fast}."))
}

/// Returns the ratio of the peak device memory of two rungs at a size; `None` if it was not counted.
#[must_use]
pub fn memory_ratio(run: &Run, larger: &str, smaller: &str, size: u64) -> Option<f64> {
    let problem = run.problems().into_iter().find(|p| p.size() == size)?;
    let bytes = |rung: &str| run.measurement(rung, problem).filter(|m| m.is_valid())?.peak_bytes;
    Some(bytes(larger)? as f64 / bytes(smaller)? as f64)
}

/// Returns what to expect on a smaller GPU, which is based on reasoning and not on a measurement.
///
/// # Errors
/// If there is no pair of that name.
pub fn elsewhere(name: &str) -> Result<String> {
    let pair = Pair::named(name).map_err(Error::Setting)?;
    // The texts begin like "Smaller: ..." or "About the same: ...".
    let mut said = pair.on_a_smaller_gpu.chars();
    let first = said.next().map(|c| c.to_lowercase().to_string()).unwrap_or_default();
    Ok(format!("On a smaller GPU (reasoned, not measured) the ratio would be {first}{}", said.as_str()))
}

/// Shows clock rates and power over time from the record of a pair. Without a GPU the data come from the published record, and the panel says so.
#[must_use]
pub fn power(run: &Run) -> Panel {
    recorded(run, |run| {
        let problem = run.main_problem()?;
        let said = power_in_words(run, problem);
        (!said.is_empty()).then(|| {
            Panel::column([&said.join(" ")]).and(&draw().clocks(run, problem)).and(&draw().power(run, problem))
        })
    })
}

/// Shows the work of host and GPU in two steps of a training whose images come from the host: first when each step waits for its images, then when they are
/// loaded ahead. The data come from the record of the pair, or, without a GPU, from the published record; the panel then says so.
#[must_use]
pub fn loading(run: &Run) -> Panel {
    recorded(run, |run| {
        let (problem, rungs) = (run.main_problem()?, &run.descriptor.compared);
        let rungs: Vec<&str> = rungs.iter().map(String::as_str).collect();
        draw().timelines(run, problem, &rungs).ok().map(|chart| Panel::column([&chart]))
    })
}

/// Shows the device memory used by arrays over time, for each rung for which the record of a pair has this data. Without a GPU the data come from the published
/// record, and the panel says so.
#[must_use]
pub fn memory_over_time(run: &Run) -> Panel {
    recorded(run, |run| {
        let chart = |p: &Profiled| {
            let until = run.spans_of(&p.rung, &p.problem).iter().map(|s| s.end_us()).fold(0.0, f64::max);
            let title = run.rung(&p.rung).map_or(p.rung.as_str(), |rung| &*rung.title);
            draw().memory(p, until, [title, &p.problem.label]).ok()
        };
        let all: Vec<Chart> = run.profiled.iter().filter_map(chart).collect();
        (!all.is_empty()).then(|| all.iter().fold(Panel::column([]), |panel, chart| panel.and(chart)))
    })
}

/// Returns a part of the record that was measured on a GPU, with its origin. If the record lacks that part, returns the record's notes, which say why.
fn recorded(run: &Run, part: impl Fn(&Run) -> Option<Panel>) -> Panel {
    let run = of_a_gpu(run);
    let shown = part(&run).unwrap_or_else(|| {
        let why = format!("The record has nothing of it over time. {}", run.notes.join(" "));
        Panel::column([&why.trim_end()])
    });
    match label(&run) {
        Some(label) => Panel::column([label]).and(&shown),
        None => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_device::Choice;
    use warpbook_record::{DeviceKind, MemoryAt, PowerAt, Span};

    /// Returns a pair's record as a GPU would have made it, with recordings over time.
    fn of_gpu(pair: &str) -> Run {
        let lab = Lab::on(Choice::Cpu).unwrap().with_bench(Bench { samples: 3, budget_s: 0.05, ..Bench::quick() });
        let mut run = lab.run(&Guide::pair(pair).unwrap().quick()).unwrap();
        run.environment.device.kind = DeviceKind::Cuda;
        run
    }

    /// Text that each chart of a page contains once.
    const SVG: &str = "data:image/svg+xml";

    fn profiled(run: &Run, rung: &str) -> Profiled {
        Profiled::new(rung, run.main_problem().unwrap().clone(), "a test")
    }

    #[test]
    fn a_record_s_clocks_and_watts_are_shown() {
        let mut run = of_gpu("power");
        assert!(power(&run).page("").contains("nothing of it over time"));
        let reading = |i: u32| PowerAt {
            at_us: f64::from(i) * 5e4,
            sm_mhz: Some(1400 + i),
            watts: Some(690.0),
            limit_watts: Some(700.0),
            capped: true,
            flops: u64::from(i) * 30_000_000_000_000,
        };
        let read = Profiled { power: (0..40).map(reading).collect(), ..profiled(&run, "01_gaussian") };
        run.profiled.push(read);
        let page = power(&run).page("");
        assert!(page.contains("Gaussian numbers, in the second half: 600 TFLOP/s, 1430 MHz, 690 W"), "{page}");
        assert_eq!(page.matches(SVG).count(), 2);
    }

    #[test]
    fn a_record_s_timeline_and_memory_are_shown() {
        let mut run = of_gpu("loader");
        assert!(loading(&run).page("").contains("nothing of it over time"));
        let problem = run.main_problem().unwrap().clone();
        for rung in ["01_synchronous", "04_prefetched"] {
            run.spans.push(Span {
                rung: rung.into(),
                problem: problem.clone(),
                name: "load and queue".into(),
                operation: String::new(),
                stream: "host".into(),
                start_us: 1.0,
                duration_us: 40.0,
                bytes: None,
                correlation: None,
            });
        }
        let page = loading(&run).page("");
        assert!(page.contains("Load, copy, train, wait: 1 range of the host"), "{page}");
        assert!(page.contains("Page-locked, four threads: 1 range of the host"), "{page}");

        let mut run = of_gpu("allocation");
        assert!(memory_over_time(&run).page("").contains("nothing of it over time"));
        let at = |at_us, allocated_bytes| MemoryAt {
            at_us,
            allocated_bytes,
            pool_allocated_bytes: 0,
            pool_reserved_bytes: 0,
        };
        let held = Profiled { memory: vec![at(0.0, 0), at(9.0, 1 << 20)], ..profiled(&run, "02_pool") };
        run.profiled.push(held);
        let page = memory_over_time(&run).page("");
        assert!(
            page.contains("“From a pool”: 1 MiB of device memory at most") && page.matches(SVG).count() == 1,
            "{page}"
        );
    }

    #[test]
    fn without_a_gpu_the_published_record_is_shown() {
        let lab = Lab::on(Choice::Cpu).unwrap().with_bench(Bench { samples: 3, budget_s: 0.05, ..Bench::quick() });
        let run = lab.run(&Guide::pair("power").unwrap().quick()).unwrap();
        for panel in [power(&run), loading(&run), memory_over_time(&run)] {
            assert!(panel.page("").contains("the published record data/results/guide-power-h200.json"));
        }
    }

    #[test]
    fn a_gpu_s_record_has_what_its_ways_did_over_time() {
        if warpbook_device::testing::gpu("a_gpu_s_record_has_what_its_ways_did_over_time").is_none() {
            return;
        }
        let lab = Lab::on(Choice::Best).unwrap().with_bench(Bench { samples: 3, budget_s: 0.05, ..Bench::quick() });
        let run_pair = |pair: &str| lab.run(&Guide::pair(pair).unwrap().quick()).unwrap();
        let run = run_pair("power");
        let page = power(&run).page("");
        if run.notes.iter().any(|n| n.contains("NVML")) {
            assert!(page.contains("is not installed"), "{page}");
        } else {
            assert!(page.contains("TFLOP/s") && page.matches(SVG).count() == 2, "{:?}", run.notes);
            let read: Vec<&str> = run.profiled.iter().filter(|p| p.power.len() > 4).map(|p| &*p.rung).collect();
            assert_eq!(read, ["01_gaussian", "02_zeros"]);
        }
        let run = run_pair("loader");
        let problem = run.main_problem().unwrap();
        for rung in ["01_synchronous", "04_prefetched"] {
            let spans = run.spans_of(rung, problem);
            assert!(
                spans.iter().any(|s| s.stream == "host") && spans.iter().any(|s| s.stream != "host"),
                "{rung}: {:?}",
                run.notes
            );
        }
        assert!(loading(&run).page("").contains(SVG));
        let run = run_pair("allocation");
        let main = run.main_problem().unwrap();
        let held = |rung: &str| &run.profiled_of(rung, main).unwrap().memory;
        // The driver gives each of ten arrays a segment of its own; a pool takes all ten from one segment.
        let segments =
            |rung: &str| held(rung).windows(2).filter(|w| w[0].pool_reserved_bytes < w[1].pool_reserved_bytes).count();
        let arrays = |rung: &str| {
            held(rung).windows(2).filter(|w| w[0].pool_allocated_bytes < w[1].pool_allocated_bytes).count()
        };
        assert_eq!(["01_driver", "02_pool"].map(|r| (segments(r), arrays(r))), [(10, 10), (1, 10)]);
        for rung in ["01_driver", "02_pool"] {
            let (first, last) = (held(rung)[0], *held(rung).last().unwrap());
            assert_eq!(first.allocated_bytes, last.allocated_bytes, "{rung} gives back what it held");
            let of_matrices: Vec<_> = run.profiled.iter().filter(|p| p.rung == rung && p.problem != *main).collect();
            let [matrices] = of_matrices[..] else { panic!("{rung}: {} with matrices", of_matrices.len()) };
            let most = matrices.memory.iter().map(|m| m.pool_allocated_bytes).max().unwrap();
            assert!((3 * 4 * 512 * 512..8 * 4 * 512 * 512).contains(&most), "{rung}: {most}");
            assert_eq!(run.spans_of(rung, &matrices.problem).len(), 8, "a span for each step");
        }
        assert_eq!(run.main_problem().map(|p| p.size()), Some(1 << 18), "the matrices are no size of the pair");
        assert_eq!(memory_over_time(&run).page("").matches(SVG).count(), 4);
    }

    #[test]
    fn a_guess_is_compared_with_the_record() {
        let lab = Lab::on(Choice::Cpu).unwrap().with_bench(Bench { samples: 3, budget_s: 0.05, ..Bench::quick() });
        assert!(place(&lab).contains("no GPU in this lab"));
        let run = measured(&lab, "coalescing").unwrap();
        let mut guesses = Guesses::new("");
        let asked = ("cpu_lines_apart", "cpu_in_order", 32);
        let untouched = guesses.pair(&run, asked, None).page("");
        assert!(untouched.contains("You made no guess.") && !untouched.contains("your guess for "), "{untouched}");
        assert!(guesses.all().is_empty());
        let page = guesses.pair(&run, asked, 2.0).page("");
        assert!(page.contains("You guessed 2.00×") && page.contains("your guess for "), "{page}");
        assert_eq!(guesses.all().len(), 1);
        assert_eq!(page.matches(SVG).count(), 4, "a ladder and a sweep, and those of the published record");
        let unmeasured = guesses.answer(&run, ("01_strided", "02_coalesced", 5), Some(2.0)).page("");
        assert!(
            unmeasured.contains("not both measured here") && !unmeasured.contains("your guess for"),
            "{unmeasured}"
        );
        let mut elsewhere_measured = of_a_gpu(&run);
        elsewhere_measured.notes.clear();
        assert_eq!(published_figure(&elsewhere_measured, ("01_strided", "02_coalesced", 32)), None);
        elsewhere_measured.environment.device.name = "Another GPU".into();
        let figure = published_figure(&elsewhere_measured, ("01_strided", "02_coalesced", 32)).unwrap();
        assert!(figure.starts_with("Published, on an NVIDIA H200: “Strided” takes "), "{figure}");
        assert_eq!(memory_ratio(&run, "cpu_lines_apart", "cpu_in_order", 32), None, "nobody counted");
        assert!(page.contains("With 32 words between neighbours") && page.contains("as fast as “"), "{page}");
        assert!(
            elsewhere("coalescing")
                .unwrap()
                .starts_with("On a smaller GPU (reasoned, not measured) the ratio would be about the same")
        );
        assert!(elsewhere("coalesing").unwrap_err().to_string().contains("coalescing"));
    }
}

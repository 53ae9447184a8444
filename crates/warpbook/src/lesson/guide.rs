//! What the lessons of the optimisation guide share: a pair measured here, shown, and held against a guess.

mod published;

pub use super::counted::latencies;
use super::counted::{count, counted};
use super::{guessed, your_guess, your_guess_of_time};
use crate::charts::{Curve, Scale, curves};
use crate::device::{CudaDevice, PowerReading, power_reading};
use crate::guide::{Load, profiled, said};
use crate::prelude::*;
pub use published::{judged_accuracy, judged_memory, judged_warps, of_a_gpu};
pub(super) use published::{label, published};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two readings of a GPU's clock and power.
const INTERVAL: Duration = Duration::from_millis(50);
/// Idle time between two loads, so that the second does not begin with what the first one left of the power budget.
const PAUSE: Duration = Duration::from_millis(1500);

/// Where the pairs are measured, in a sentence for the top of a lesson.
#[must_use]
pub fn place(lab: &Lab) -> String {
    let name = &lab.device().info().name;
    if lab.device().cuda().is_some() {
        return format!("All pairs are measured here, on {name}.");
    }
    let small = format!("There is no GPU in this lab: it runs on the CPU ({name}).");
    match PAIRS.first().and_then(|pair| Guide::pair(pair.name).ok()).and_then(|pair| published(pair.name())) {
        Some(record) => format!(
            "{small} A pair that a CPU can run is measured here, at small sizes, and shown next to the published record of {}. All other figures of pairs \
             are those of the published records, and say so.",
            record.environment.device.name
        ),
        None => format!(
            "{small} Sizes are small. Of each pair you see the halves that a CPU can run; those of the GPU are compiled and listed, with the reason why \
             they were skipped."
        ),
    }
}

/// A pair of the guide, measured here: all of its sizes on a GPU, with hardware counters where the reason is inside a kernel, and small ones on a
/// CPU. A pair of which a CPU can run fewer than two halves needs a GPU: without one this is the published record, if there is one, and a note in it
/// says so.
///
/// # Errors
/// There is no pair of that name; as of [`Lab::run`].
pub fn measured(lab: &Lab, name: &str) -> Result<Run> {
    let pair = Guide::pair(name)?;
    if lab.device().cuda().is_none() {
        let halves = Experiment::rungs(&pair).iter().filter(|rung| rung.is_cpu()).count();
        return match published(pair.name()).filter(|_| halves < 2) {
            Some(record) => Ok(record),
            None => lab.run(&pair.quick()),
        };
    }
    let mut run = lab.run(&pair)?;
    count(lab, &pair, &mut run);
    Ok(run)
}

/// A pair next to the guess that one rung takes so many times as long as another at a size, (slow, fast, size): the guess and the measured ratio in a
/// sentence, the ladder at that size with the guess as a mark of the later of the two rungs, the ratio with its reason, and all sizes. Where that size
/// was not measured, as on a CPU, the ladder is that of the record's main problem.
///
/// Next to a CPU's record is the published one of a GPU; a guess about rungs that only a GPU has is held against that one. Figures that were not
/// measured here say so.
#[must_use]
pub fn answered(run: &Run, asked: (&str, &str, u64), guess: f64) -> Panel {
    let on_cpu = |id: &str| run.rung(id).is_some_and(Rung::is_cpu);
    match (published::beside(run), label(run)) {
        (Some(gpu), _) if on_cpu(asked.0) && on_cpu(asked.1) => {
            answer(run, asked, guess).and(&published::overview(&gpu))
        }
        (Some(gpu), _) => answered(&gpu, asked, guess).and(&published::overview(run)),
        (None, Some(label)) => Panel::column([label, &answer(run, asked, guess)]),
        (None, None) => answer(run, asked, guess),
    }
}

/// The same of one record alone.
fn answer(run: &Run, (slow, fast, size): (&str, &str, u64), guess: f64) -> Panel {
    let Some(problem) = run.problems().into_iter().find(|p| p.size() == size).or(run.main_problem()) else {
        return Panel::column([&format!("{}: nothing was measured.", run.title)]);
    };
    let all: Vec<&str> = run.rungs.iter().map(|r| &*r.id).collect();
    // What costs time to save something else comes after what it is compared with.
    let at = |id: &str| all.iter().position(|rung| *rung == id);
    let (mut panel, ladder) = match at(slow) > at(fast) {
        true => (
            Panel::column([&your_guess_of_time(run, problem, slow, fast, guess)]),
            guessed(run, problem, (slow, fast), 1.0 / guess, &all),
        ),
        false => (
            Panel::column([&your_guess(run, problem, fast, slow, guess)]),
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
    panel.and(&sweep(&[run]))
}

/// The most bytes of the device's memory that a rung held over those of another at a size; `None` where they were not counted.
#[must_use]
pub fn memory_ratio(run: &Run, larger: &str, smaller: &str, size: u64) -> Option<f64> {
    let problem = run.problems().into_iter().find(|p| p.size() == size)?;
    let bytes = |rung: &str| run.measurement(rung, problem).filter(|m| m.is_valid())?.peak_bytes;
    Some(bytes(larger)? as f64 / bytes(smaller)? as f64)
}

/// A guess next to what was measured.
#[must_use]
pub fn judged(guess: f64, measured: Option<f64>) -> String {
    match measured {
        Some(ratio) => format!("You guessed {guess:.1} times; measured: {ratio:.2} times."),
        None => format!("You guessed {guess:.1} times. It was not measured here: that half needs a GPU."),
    }
}

/// What is to be expected on a smaller GPU: reasoning, not a measurement.
///
/// # Errors
/// There is no pair of that name.
pub fn elsewhere(name: &str) -> Result<String> {
    let pair = Pair::named(name).map_err(Error::Setting)?;
    // "Smaller: ...", "About the same: ..."
    let mut said = pair.on_a_smaller_gpu.chars();
    let first = said.next().map(|c| c.to_lowercase().to_string()).unwrap_or_default();
    Ok(format!("On a smaller GPU (reasoned, not measured) the ratio would be {first}{}", said.as_str()))
}

/// Clock and power while a GPU did one thing, by the seconds since it began.
struct Watched {
    name: &'static str,
    readings: Vec<(f64, PowerReading)>,
    /// In the second half.
    flops_per_s: f64,
}

/// Clocks and watts over time while the GPU multiplies matrices of `[n][n]` in bf16, of Gaussian numbers and then of zeros, for so many seconds each.
///
/// # Errors
/// The matrices do not fit into its memory; the device's.
pub fn power(lab: &Lab, n: u32, seconds: f64) -> Result<Panel> {
    let Some(device) = lab.device().cuda() else {
        return Ok(Panel::column([&"Clocks and watts are those of a GPU, and this lab has none."]));
    };
    let Some(uuid) = device.uuid().filter(|uuid| power_reading(uuid).is_some()) else {
        let why = "NVML, which knows clocks and watts, is not installed or does not know this GPU. It comes with NVIDIA's driver.";
        return Ok(Panel::column([&why]));
    };
    let seconds = if seconds.is_finite() { seconds.clamp(0.1, 60.0) } else { 3.0 };
    let mut all = Vec::new();
    for (name, of_zeros) in [("Gaussian numbers", false), ("zeros", true)] {
        let load = Load::new(device, n, of_zeros)?;
        std::thread::sleep(PAUSE);
        all.push(watched(name, &load, uuid, Duration::from_secs_f64(seconds))?);
    }
    Ok(power_panel(device, n, &all)?)
}

fn watched(name: &'static str, load: &Load, uuid: &str, time: Duration) -> Result<Watched> {
    let (begun, is_over) = (Instant::now(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut readings = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                readings.extend(power_reading(uuid).map(|reading| (begun.elapsed().as_secs_f64(), reading)));
                std::thread::sleep(INTERVAL);
            }
            readings
        });
        let (mut flops, mut half) = (0, None);
        let mut ran = Ok(());
        while ran.is_ok() && begun.elapsed() < time {
            ran = load.run().map(|more| flops += more);
            if half.is_none() && begun.elapsed() >= time / 2 {
                half = Some((begun.elapsed(), flops));
            }
        }
        // All of it where one run took longer than that.
        let (since, before) = half.filter(|(_, before)| *before < flops).unwrap_or_default();
        let flops_per_s = (flops - before) as f64 / (begun.elapsed() - since).as_secs_f64();
        // The reader ends also where the load failed.
        is_over.store(true, Ordering::Relaxed);
        let readings = reader.join().unwrap_or_default();
        ran.map(|()| Watched { name, readings, flops_per_s })
    })
}

fn power_panel(device: &CudaDevice, n: u32, all: &[Watched]) -> std::result::Result<Panel, crate::charts::ChartError> {
    power_panel_of(&device.info().name, n, all)
}

fn power_panel_of(gpu: &str, n: u32, all: &[Watched]) -> std::result::Result<Panel, crate::charts::ChartError> {
    let limit = all.iter().flat_map(|w| &w.readings).find_map(|(_, r)| r.limit_watts);
    let curve = |w: &Watched, of: fn(&PowerReading) -> Option<f64>| {
        Curve::new(w.name, w.readings.iter().filter_map(|(at, r)| Some((*at, of(r)?))))
    };
    let clocks: Vec<Curve> = all.iter().map(|w| curve(w, |r| r.sm_mhz.map(f64::from))).collect();
    let mut watts: Vec<Curve> = all.iter().map(|w| curve(w, |r| r.watts)).collect();
    let end = all.iter().flat_map(|w| &w.readings).map(|(at, _)| *at).fold(0.0, f64::max);
    watts.extend(limit.map(|limit| Curve::new("power cap", [(0.0, limit), (end, limit)])));
    let product = format!("{gpu}, products of {n} x {n} in bf16");
    let axis = ("seconds since the products began", Scale::Linear);
    let said: Vec<String> = all.iter().map(Watched::sentence).collect();
    let said = format!(
        "{} {}",
        said.join(" "),
        limit.map_or("NVML does not tell the power cap.".into(), |limit| format!("The power cap is {limit:.0} W."))
    );
    let clock = curves(["Clock of the SMs", &product], axis, ("MHz", Scale::Linear), &clocks)?;
    let power = curves(["Power", &product], axis, ("W", Scale::Linear), &watts)?;
    Ok(Panel::column([&said]).and(&clock).and(&power))
}

impl Watched {
    /// What it came to, by the second half of its readings.
    fn sentence(&self) -> String {
        let late = &self.readings[self.readings.len() / 2..];
        let mean = |of: fn(&PowerReading) -> Option<f64>| {
            let values: Vec<f64> = late.iter().filter_map(|(_, r)| of(r)).collect();
            if values.is_empty() { f64::NAN } else { values.iter().sum::<f64>() / values.len() as f64 }
        };
        let capped = late.iter().filter(|(_, r)| r.capped).count();
        format!(
            "Of {}, in the second half: {:.0} TFLOP/s at {:.0} MHz and {:.0} W; NVML reported that the power cap slowed the clocks in {capped} of {} readings.",
            self.name,
            self.flops_per_s / 1e12,
            mean(|r| r.sm_mhz.map(f64::from)),
            mean(|r| r.watts),
            late.len()
        )
    }
}

/// What host and GPU do in two steps of a training whose images come from the host, with this batch: each waited for, and loaded ahead. Without CUPTI
/// there is no timeline of the GPU, and a sentence says so.
///
/// # Errors
/// The device's; the batch does not fit into its memory.
pub fn loading(lab: &Lab, batch: usize) -> Result<Panel> {
    let Some(device) = lab.device().cuda() else {
        return Ok(Panel::column([&"The overlap of copies and steps is one of a GPU, and this lab has none."]));
    };
    let mut panel = Panel::column([]);
    for (name, ahead) in [("Loaded, copied, trained, waited for:", false), ("Loaded while the GPU trains:", true)] {
        let run = profiled(lab, device, batch, ahead)?.record(lab);
        let by = run.notes.first().cloned().unwrap_or_default();
        panel = panel.and(&format!("{name} {by}"));
        panel = match run.main_problem().or(run.problems.first()) {
            Some(problem) => panel.and(&timeline(&run, problem)),
            None => panel.and(&"Nothing was recorded."),
        };
    }
    Ok(panel)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Choice;

    #[test]
    fn clocks_and_watts_are_drawn_over_time() {
        let reading = |i: u32, watts: f64, capped| PowerReading {
            sm_mhz: Some(1400 + i),
            watts: Some(watts),
            limit_watts: Some(700.0),
            capped,
        };
        let of = |name, watts, capped| Watched {
            name,
            readings: (0..40).map(|i| (f64::from(i) / 20.0, reading(i, watts, capped))).collect(),
            flops_per_s: 6e14,
        };
        let all = [of("Gaussian numbers", 690.0, true), of("zeros", 400.0, false)];
        let page = power_panel_of("a GPU", 8192, &all).unwrap().page("power");
        for said in [
            "600 TFLOP/s at 1430 MHz and 690 W",
            "clocks in 20 of 20 readings",
            "clocks in 0 of 20",
            "power cap is 700 W",
        ] {
            assert!(page.contains(said), "{said}");
        }
        assert_eq!(page.matches("<svg").count(), 2);
        let nothing = Watched { name: "zeros", readings: Vec::new(), flops_per_s: 0.0 };
        assert!(power_panel_of("a GPU", 1, &[nothing]).is_err());
    }

    #[test]
    fn without_a_gpu_a_sentence_says_so() {
        let lab = Lab::on(Choice::Cpu).unwrap();
        assert!(power(&lab, 64, 0.1).unwrap().page("").contains("this lab has none"));
        assert!(loading(&lab, 8).unwrap().page("").contains("this lab has none"));
    }

    #[test]
    fn a_gpu_s_clocks_and_overlap_are_shown() {
        if crate::device::testing::gpu("a_gpu_s_clocks_and_overlap_are_shown").is_none() {
            return;
        }
        let lab = Lab::on(Choice::Best).unwrap();
        let page = power(&lab, 1024, 0.5).unwrap().page("");
        assert!(page.contains("TFLOP/s at") && page.matches("<svg").count() == 2, "{page}");
        let page = loading(&lab, 32).unwrap().page("");
        assert!(page.contains("Recorded by"), "{page}");
        println!("{}", page.len());
    }

    #[test]
    fn a_guess_is_held_against_the_record() {
        let lab = Lab::on(Choice::Cpu).unwrap().with_bench(Bench { samples: 3, budget_s: 0.05, ..Bench::quick() });
        assert!(place(&lab).contains("no GPU in this lab"));
        let run = measured(&lab, "coalescing").unwrap();
        assert_eq!(judged(2.0, Some(3.0)), "You guessed 2.0 times; measured: 3.00 times.");
        let page = answered(&run, ("cpu_lines_apart", "cpu_in_order", 32), 2.0).page("");
        assert!(page.contains("Your guess: ") && page.contains("your guess for "), "{page}");
        assert_eq!(page.matches("<svg").count(), 4, "a ladder and a sweep, and those of the published record");
        let unmeasured = answer(&run, ("01_strided", "02_coalesced", 5), 2.0).page("");
        assert!(
            unmeasured.contains("not both measured here") && !unmeasured.contains("your guess for"),
            "{unmeasured}"
        );
        assert!(judged(2.0, None).contains("needs a GPU"));
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

//! Times in the first lessons: measured on a GPU, or taken from a published record in the emulator, which measures no times.

use super::{Guesses, guess_in_words};
use crate::figures;
use crate::lesson::guide::{measured, published, record_of_an_h200};
use crate::lesson::{at, quoted, title, valid};
use crate::prelude::*;
use warpbook_charts::{ChartError, Curve, Scale};
use warpbook_record::{Answer, MemoryLevel};

/// Times the launch of a kernel on the lab's GPU, in microseconds; `None` in the emulator, which has no times.
///
/// # Errors
/// If the launch fails or the device reports an error.
pub fn time(lab: &Lab, stream: &Stream, launch: impl FnMut() -> warpbook_device::Result<()>) -> Result<Option<f64>> {
    let Some(device) = lab.device().gpu() else { return Ok(None) };
    let samples = lab.bench().cuda(device, stream, Some(lab.watch()), None, launch)?;
    Ok(Some(samples.median_us()))
}

/// Returns the day of a record in words, such as "26 November 2026".
fn day(run: &Run) -> String {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let date = run.created.split('T').next().unwrap_or_default();
    let parts: Vec<usize> = date.split('-').filter_map(|part| part.parse().ok()).collect();
    match parts[..] {
        [year, month, day] if (1..=12).contains(&month) => format!("{day} {} {year}", MONTHS[month - 1]),
        _ => date.to_owned(),
    }
}

/// Says where the figures of a published record come from.
pub(super) fn origin(run: &Run) -> String {
    format!("the published record of {}, measured on {}", run.environment.device.name, day(run))
}

/// Shows two ways to do the same work, (slow, fast, size), from a pair of the optimisation guide, with the published times of an H200 and, if there is a GPU,
/// its times. A guess of the second way's speed-up is compared with these times and kept. Without a guess, the panel says how to make one.
///
/// # Errors
/// If there is no pair of that name, or [`Lab::run`] returns an error.
pub fn pair(
    lab: &Lab,
    guesses: &mut Guesses,
    name: &str,
    (slow, fast, size): (&str, &str, u64),
    guess: Option<f64>,
) -> Result<Panel> {
    let record = Guide::pair(name)?.plan(None)?.name;
    let here = if lab.device().gpu().is_some() { Some(measured(lab, name)?) } else { None };
    let there = published(&record);
    let mut panel = Panel::column([]);
    if let Some(there) = &there {
        panel = panel.and(&format!("From {}: {}", origin(there), ratio(there, (slow, fast, size)).1));
    }
    if let Some(here) = &here {
        panel = panel.and(&format!("Here, on {}: {}", here.environment.device.name, ratio(here, (slow, fast, size)).1));
    }
    let Some(shown) = here.or(there) else {
        return Ok(panel.and(&"There is no GPU in this lab, and no published record of this pair in the repository."));
    };
    let measured = ratio(&shown, (slow, fast, size)).0;
    if let Some(guess) = guess.filter(|guess| guess.is_finite() && *guess > 0.0) {
        let what = format!("{} is so many times as fast as {}", title(&shown, fast), title(&shown, slow));
        guesses.keep(&what, Answer::Number(guess), measured.map(Answer::Number));
    }
    panel = panel.and(&guess_in_words(guess, measured, "fast"));
    let Some(problem) = shown.problems().into_iter().find(|p| p.size() == size) else { return Ok(panel) };
    let mut part = at(&shown, problem);
    part.rungs.retain(|rung| !rung.is_cpu());
    part.measurements.retain(|m| part.rungs.iter().any(|rung| rung.id == m.rung));
    Ok(panel.and(&draw().ladder(&part, problem, Quantity::Time)))
}

/// Returns the speed-up of the second rung over the first at a size, and a sentence with both times.
fn ratio(run: &Run, (slow, fast, size): (&str, &str, u64)) -> (Option<f64>, String) {
    let problem = run.problems().into_iter().find(|p| p.size() == size);
    let us = |id: &str| valid(run, id, problem?)?.median_us();
    match us(slow).zip(us(fast)) {
        Some((old, new)) => {
            let ratio = old / new;
            let (old, new, times) = (figures::time(old), figures::time(new), figures::times(ratio));
            let [slow, fast] = [slow, fast].map(|id| quoted(run, id));
            (Some(ratio), format!("{slow} takes {old}, {fast} takes {new}: {times} as fast."))
        }
        None => (None, "they were not both measured at this size.".into()),
    }
}

/// Ceilings of a device: how many bytes its memory can move per second, and how many operations it can perform per second.
#[derive(Debug, Clone, PartialEq)]
pub struct Roof {
    /// Origin of the ceilings: a device's name, and the day of the measurement if it was not made here.
    pub of: String,
    /// Bytes per second that a plain copy moves, counting both reads and writes.
    pub bytes_per_s: f64,
    /// Operations in fp32 per second.
    pub flops_per_s: f64,
    is_here: bool,
}

/// Returns the ceilings of the lab's GPU, which take some seconds to measure. In the emulator, returns the ceilings from the published record of an H200.
///
/// # Errors
/// If the device reports an error, or a lab with the emulator finds no published record.
pub fn roof_of(lab: &Lab) -> Result<Roof> {
    let (of, peaks) = match lab.device().gpu() {
        Some(device) => (device.info().name.clone(), lab.peaks()?),
        None => {
            let record = record_of("regression")?;
            (origin(&record), record.peaks)
        }
    };
    let copies = peaks.level_for(MemoryLevel::Dram, 1.0 / 3.0).map(warpbook_record::BandwidthPeak::bytes_per_s);
    let flops = peaks.arithmetic(Dtype::F32).map(warpbook_record::ComputePeak::flops_per_s);
    let (Some(bytes_per_s), Some(flops_per_s)) = (copies, flops) else {
        return Err(Error::Setting(format!("No ceilings of {of} were measured.")));
    };
    Ok(Roof { of, bytes_per_s, flops_per_s, is_here: lab.device().gpu().is_some() })
}

/// Returns a published record of an H200, by the name of its experiment.
fn record_of(name: &str) -> Result<Run> {
    let found = record_of_an_h200(name).map(|(run, _)| run);
    let missing = format!("data/results/{name}-h200.json was not found: start the notebook inside of the repository.");
    found.ok_or(Error::Setting(missing))
}

/// Work of a kernel: its name, operations and bytes, and the microseconds that it took.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    name: String,
    flops: f64,
    bytes: f64,
    us: f64,
}

impl Roof {
    /// Returns the least time in microseconds for this number of operations and bytes.
    #[must_use]
    pub fn least_us(&self, flops: u64, bytes: u64) -> f64 {
        1e6 * (bytes as f64 / self.bytes_per_s).max(flops as f64 / self.flops_per_s)
    }

    /// Compares a prediction in microseconds with the least time for this number of operations and bytes, and keeps it among the guesses.
    #[must_use]
    pub fn judge(&self, guesses: &mut Guesses, predicted_us: Option<f64>, flops: u64, bytes: u64) -> String {
        let least = self.least_us(flops, bytes);
        if let Some(us) = predicted_us.filter(|us| us.is_finite() && *us > 0.0) {
            let what = format!("Least time of {} in microseconds, by the measured ceilings", figures::bytes(bytes));
            guesses.keep(&what, Answer::Number(us), Some(Answer::Number(least)));
        }
        let why = format!(
            "{} at {} take {} ({}).",
            figures::bytes(bytes),
            figures::bandwidth(self.bytes_per_s),
            figures::time(least),
            self.of
        );
        match predicted_us {
            None => "Nothing is predicted yet: write Some(...) with your microseconds, and run the cell again.".into(),
            Some(us) if (us / least - 1.0).abs() <= 0.1 => format!("Right. {why}"),
            Some(us) => format!("You predicted {}. {why}", figures::time(us)),
        }
    }

    /// Draws the roof with a kernel's point, and says what share of its least time the kernel reaches. The emulator measures no times, so it draws the point of
    /// the most similar kernel with a published time, `y[i] = 2 * x[i]`, and the sentence says so.
    ///
    /// # Errors
    /// If the chart cannot be drawn.
    pub fn point(&self, name: &str, flops: u64, bytes: u64, us: Option<f64>) -> Result<Panel, ChartError> {
        let measured = us.map(|us| Point { name: name.into(), flops: flops as f64, bytes: bytes as f64, us });
        let (points, said) = match measured {
            Some(point) => {
                let share = self.least_us(flops, bytes) / point.us;
                let (us, share) = (figures::time(point.us), figures::percent(share));
                (vec![point], format!("{name} took {us} on {}: {share} of what the roof allows.", self.of))
            }
            None if self.is_here => {
                let said = format!("{name} was not timed: a kernel is timed only once its result is right.");
                return Ok(Panel::column([&said, &self.chart(&[])?]));
            }
            None => not_timed(name),
        };
        Ok(Panel::column([&said, &self.chart(&points)?]))
    }

    fn chart(&self, points: &[Point]) -> Result<Chart, ChartError> {
        let ridge = self.flops_per_s / self.bytes_per_s;
        let height = |intensity: f64| (intensity * self.bytes_per_s).min(self.flops_per_s) / 1e9;
        let line = [1.0 / 16.0, ridge, 256.0].map(|intensity| (intensity, height(intensity)));
        let roof = Curve::new("the roof: memory, then arithmetic", line);
        let point = |p: &Point| Curve::new(&*p.name, [(p.flops / p.bytes, p.flops / p.us / 1e3)]);
        let all: Vec<Curve> = std::iter::once(roof).chain(points.iter().map(point)).collect();
        let title = "Work with few operations a byte is limited by memory";
        draw().curves([title, &self.of], ("FLOP per byte", Scale::Log), ("GFLOP/s", Scale::Log), &all)
    }
}

/// Returns the point to draw for a kernel that was not timed, and a sentence about that point.
fn not_timed(name: &str) -> (Vec<Point>, String) {
    let nothing = || (Vec::new(), format!("{name} was not timed: the emulator has no times."));
    let Some(record) = published("guide-vector-loads") else { return nothing() };
    let Some(problem) = record.problems().into_iter().max_by_key(|problem| problem.size()) else { return nothing() };
    let Some(us) = valid(&record, "01_words", problem).and_then(|m| m.median_us()) else { return nothing() };
    let n = problem.size() as f64;
    let said = format!(
        "{name} was not timed: the emulator has no times. The point shows `y[i] = 2 * x[i]`, the most similar kernel with a published time: 1 operation for \
         8 bytes, {} for {} elements, from {}.",
        figures::time(us),
        figures::scale(n),
        origin(&record)
    );
    (vec![Point { name: "y[i] = 2 x[i], published".into(), flops: n, bytes: 8.0 * n, us }], said)
}

impl Show for Roof {
    fn html(&self) -> String {
        self.text().html()
    }

    fn text(&self) -> String {
        let whose = if self.is_here { "Measured here, on" } else { "There is no GPU in this lab. From" };
        format!(
            "{whose} {}: memory moves {}, counted as bytes read plus bytes written by a plain copy; arithmetic in fp32 reaches {}. So a kernel can do {} operations \
             in the time of one byte.",
            self.of,
            figures::bandwidth(self.bytes_per_s),
            figures::rate(self.flops_per_s),
            figures::significant(self.flops_per_s / self.bytes_per_s, 2)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns true if a text names the day of a published record, as in "measured on 29 November 2026".
    fn is_dated(text: &str) -> bool {
        let day = text.split_once("NVIDIA H200, measured on ").map_or("", |(_, day)| day);
        let words: Vec<&str> = day.split([' ', '.', ':']).take(3).collect();
        let number = |word: &str| word.parse().unwrap_or(0);
        matches!(words[..], [day, month, year] if (1..=31).contains(&number(day)) && month.len() > 2 && number(year) > 2025)
    }

    #[test]
    fn without_a_gpu_a_pair_shows_the_published_times_with_their_day_and_judges_a_guess() {
        let lab = Lab::open("emulator").unwrap();
        let asked = ("01_strided", "02_coalesced", 32);
        let mut guesses = Guesses::new("01_memory_access");
        let shown = pair(&lab, &mut guesses, "coalescing", asked, None).unwrap().text();
        assert!(is_dated(&shown) && shown.contains("No guess"), "{shown}");
        assert!(guesses.all().is_empty());
        let judged = pair(&lab, &mut guesses, "coalescing", asked, Some(32.0)).unwrap().text();
        assert_eq!(guesses.all().len(), 1);
        assert!(judged.contains("too high") && !judged.contains("CPU"), "{judged}");
    }

    #[test]
    fn a_prediction_is_compared_with_bytes_over_bandwidth() {
        let lab = Lab::open("emulator").unwrap();
        let roof = roof_of(&lab).unwrap();
        assert!(roof.text().contains("published record of NVIDIA H200"), "{}", roof.text());
        let n = 1 << 26;
        let least = roof.least_us(2 * n, 12 * n);
        assert!((least - 12.0 * n as f64 / roof.bytes_per_s * 1e6).abs() < 1e-9);
        let mut guesses = Guesses::new("00_hello_gpu");
        let mut judged = |us| roof.judge(&mut guesses, us, 2 * n, 12 * n);
        assert!(judged(Some(least * 1.05)).starts_with("Right."));
        assert!(judged(Some(least * 2.0)).starts_with("You predicted"));
        assert!(judged(None).contains("Some(...)"));
        let _ = judged(Some(f64::NAN));
        let (kept, answer) = (guesses.all(), Some(Answer::Number(least)));
        assert_eq!((kept.len(), &kept[0].guess, &kept[0].measured), (1, &Answer::Number(least * 2.0), &answer));
        let shown = roof.point("SAXPY", 2 * n, 12 * n, None).unwrap().text();
        assert!(shown.contains("was not timed") && is_dated(&shown), "{shown}");
        let shown = roof.point("SAXPY", 2 * n, 12 * n, Some(2.0 * least)).unwrap().text();
        assert!(shown.contains("50 %"), "{shown}");
    }

    #[test]
    fn nothing_is_timed_in_the_emulator() {
        let lab = Lab::open("emulator").unwrap();
        let device = lab.device().cuda().unwrap();
        let stream = device.stream().unwrap();
        assert_eq!(time(&lab, &stream, || Ok(())).unwrap(), None);
    }
}

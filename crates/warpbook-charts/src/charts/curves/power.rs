//! A device's clock and power over time, while several rungs run one after another.

use crate::charts::curves::{Curve, Scale};
use crate::draw::text::words::counted;
use crate::draw::{Chart, ChartError, Options};
use crate::record::{device, heading, joined, label, names};
use warpbook_record::{PowerAt, Problem, Profiled, Run};

/// Maximum number of readings drawn for each rung.
const MOST: usize = 4000;

impl Options {
    /// Draws the SM clock over time, with one line for each rung that has readings for the problem.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if there are no readings.
    pub fn clocks(&self, run: &Run, problem: &Problem) -> Result<Chart, ChartError> {
        let lines: Vec<Curve> = read(run, problem).map(|p| line(run, p, |r| r.sm_mhz.map(f64::from))).collect();
        drawn(self, run, problem, ("clock of the SMs", "MHz"), &lines)
    }

    /// Draws the power over time, with one line for each rung that has readings for the problem, and the power cap.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if there are no readings.
    pub fn power(&self, run: &Run, problem: &Problem) -> Result<Chart, ChartError> {
        let mut lines: Vec<Curve> = read(run, problem).map(|p| line(run, p, |r| r.watts)).collect();
        let end = lines.iter().flat_map(|l| &l.points).map(|(at, _)| *at).fold(0.0, f64::max);
        lines.extend(
            cap(run, problem).filter(|_| end > 0.0).map(|cap| Curve::new("power cap", [(0.0, cap), (end, cap)])),
        );
        drawn(self, run, problem, ("power", "W"), &lines)
    }
}

/// Describes the steady state of each rung in a sentence, from the second half of its readings, and adds a sentence
/// about the power cap. Returns an empty list if the record has no readings for the problem.
#[must_use]
pub fn power_in_words(run: &Run, problem: &Problem) -> Vec<String> {
    let sentence = |p: &Profiled| {
        let settled = p.settled()?;
        let figures = [
            settled.flops_per_s.map(|rate| format!("{:.0} TFLOP/s", rate / 1e12)),
            settled.sm_mhz.map(|mhz| format!("{mhz:.0} MHz")),
            settled.watts.map(|watts| format!("{watts:.0} W")),
        ];
        let figures: Vec<String> = figures.into_iter().flatten().collect();
        let capped = format!(
            "the driver reported in {} of {} that the power cap held the clocks down",
            settled.capped,
            counted(settled.readings, "reading")
        );
        let all: Vec<String> = figures.into_iter().chain([capped]).collect();
        Some(format!("{}, in the second half: {}.", names(run, &p.rung).0, all.join(", ")))
    };
    let mut all: Vec<String> = read(run, problem).filter_map(sentence).collect();
    if !all.is_empty() {
        let cap = cap(run, problem);
        all.push(cap.map_or("The power cap is not known.".into(), |watts| format!("The power cap is {watts:.0} W.")));
    }
    all
}

/// Returns the profiles that have readings for a problem.
fn read<'r>(run: &'r Run, problem: &'r Problem) -> impl Iterator<Item = &'r Profiled> {
    run.profiled.iter().filter(move |p| p.problem == *problem && p.power.len() > 1)
}

fn cap(run: &Run, problem: &Problem) -> Option<f64> {
    read(run, problem).flat_map(|p| &p.power).find_map(|r| r.limit_watts)
}

fn line(run: &Run, of: &Profiled, value: fn(&PowerAt) -> Option<f64>) -> Curve {
    let points = of.power.iter().take(MOST).filter_map(|r| Some((r.at_us / 1e6, value(r)?)));
    Curve::new(names(run, &of.rung).0, points)
}

fn drawn(
    options: &Options,
    run: &Run,
    problem: &Problem,
    (what, unit): (&str, &str),
    lines: &[Curve],
) -> Result<Chart, ChartError> {
    let head = [&*format!("{}: {what}", heading(run)), &*joined([device(run), label(problem)])];
    options.curves(head, ("seconds from the first run", Scale::Linear), (unit, Scale::Linear), lines)
}

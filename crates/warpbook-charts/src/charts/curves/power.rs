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
        drawn(self, run, problem, ("clock of the SMs", "MHz"), &lines, clock_claim(&lines))
    }

    /// Draws the power over time, with one line for each rung that has readings for the problem, and the power cap.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if there are no readings.
    pub fn power(&self, run: &Run, problem: &Problem) -> Result<Chart, ChartError> {
        let mut lines: Vec<Curve> = read(run, problem).map(|p| line(run, p, |r| r.watts)).collect();
        let claim = power_claim(&lines);
        let end = lines.iter().flat_map(|l| &l.points).map(|(at, _)| *at).fold(0.0, f64::max);
        lines.extend(
            cap(run, problem).filter(|_| end > 0.0).map(|cap| Curve::new("power cap", [(0.0, cap), (end, cap)])),
        );
        drawn(self, run, problem, ("power", "W"), &lines, claim)
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
            "the power cap limited the clocks in {} of {}, as the driver reports",
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
    claim: Option<String>,
) -> Result<Chart, ChartError> {
    let topic = format!("{}: {what}", heading(run));
    let subtitle = joined([&topic, &device(run), &label(problem)]);
    let head = [&**claim.as_ref().unwrap_or(&topic), &*subtitle];
    options.curves(head, ("seconds from the first run", Scale::Linear), (unit, Scale::Linear), lines)
}

/// Returns the mean of the values that can be drawn; `None` if there are none.
fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the readings of a line that can be drawn.
fn values(line: &Curve) -> Vec<f64> {
    line.points.iter().filter(|p| p.0.is_finite() && p.1.is_finite()).map(|p| p.1).collect()
}

/// Returns the finding about the power: which rung draws the most on average, and which the least. A single rung has its
/// highest reading instead.
fn power_claim(lines: &[Curve]) -> Option<String> {
    let figures = |line: &'_ Curve| {
        let all = values(line);
        Some((mean(&all)?.round(), all.into_iter().fold(0.0, f64::max), line.name.clone()))
    };
    let mut all: Vec<(f64, f64, String)> = lines.iter().filter_map(figures).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (watts, peak, name) = all.first()?;
    let (least, _, other) = all.last()?;
    Some(match all.len() {
        1 => format!("“{name}” draws {watts} W on average, {peak:.0} W at most"),
        n if watts == least => format!("All {n} rungs draw {watts} W on average"),
        _ => format!("“{name}” draws the most power, {watts} W on average; “{other}” draws {least} W"),
    })
}

/// Returns the finding about the clock: how it changes from the first reading to the mean of the second half, or for
/// several rungs the lowest and the highest of these means.
fn clock_claim(lines: &[Curve]) -> Option<String> {
    let figures = |line: &'_ Curve| {
        let all = values(line);
        Some((mean(&all[all.len() / 2..])?, *all.first()?, line.name.clone()))
    };
    let mut all: Vec<(f64, f64, String)> = lines.iter().filter_map(figures).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (low, first, name) = all.first()?;
    let (high, _, other) = all.last()?;
    // Readings of one clock differ by less than this share.
    let differ = |a: f64, b: f64| (a - b).abs() > 0.01 * b;
    Some(match all.len() {
        1 if !differ(*low, *first) => format!("“{name}”: the clock stays at {low:.0} MHz"),
        1 => {
            let way = if low < first { "falls" } else { "rises" };
            format!("“{name}”: the clock {way} from {first:.0} to {low:.0} MHz")
        }
        n if !differ(*high, *low) => format!("The clock of all {n} rungs settles at {low:.0} MHz"),
        _ => format!("The clock settles at {low:.0} MHz with “{name}”, at {high:.0} MHz with “{other}”"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(all: &[&[f64]]) -> Vec<Curve> {
        let points = |values: &[f64]| values.iter().enumerate().map(|(i, v)| (i as f64, *v)).collect::<Vec<_>>();
        all.iter().zip('A'..).map(|(values, name)| Curve::new(name, points(values))).collect()
    }

    #[test]
    fn a_title_has_the_average_power() {
        let check = |all: &[&[f64]], expect: Option<&str>| assert_eq!(power_claim(&lines(all)).as_deref(), expect);
        check(&[&[600.0, 700.0, f64::NAN, 536.0]], Some("“A” draws 612 W on average, 700 W at most"));
        check(&[&[300.0]], Some("“A” draws 300 W on average, 300 W at most"));
        let apart = "“B” draws the most power, 690 W on average; “A” draws 400 W";
        check(&[&[400.0, 400.0], &[680.0, 700.0], &[], &[500.0]], Some(apart));
        check(&[&[400.0], &[399.8]], Some("All 2 rungs draw 400 W on average"));
        check(&[&[], &[f64::NAN]], None);
    }

    #[test]
    fn a_title_has_the_change_of_the_clock() {
        let check = |all: &[&[f64]], expect: Option<&str>| assert_eq!(clock_claim(&lines(all)).as_deref(), expect);
        check(&[&[1980.0, 1900.0, 1750.0, 1760.0]], Some("“A”: the clock falls from 1980 to 1755 MHz"));
        check(&[&[345.0, 1980.0]], Some("“A”: the clock rises from 345 to 1980 MHz"));
        check(&[&[1980.0, 1985.0]], Some("“A”: the clock stays at 1985 MHz"));
        check(&[&[1980.0]], Some("“A”: the clock stays at 1980 MHz"));
        let apart = "The clock settles at 1430 MHz with “B”, at 1980 MHz with “A”";
        check(&[&[1980.0, 1980.0], &[1980.0, 1430.0], &[f64::NAN]], Some(apart));
        check(&[&[1980.0], &[1975.0]], Some("The clock of all 2 rungs settles at 1975 MHz"));
        check(&[&[]], None);
    }
}

use crate::canvas::{Frame, MARKERS, Paint, Stroke};
use crate::common::{
    Family, MAX_ENTRIES, cache, comparable, debug_note, device, devices, family, heading, joined, medians, name, tags,
    usable, verdict,
};
use crate::lines::{Lines, Series};
use crate::palette::SERIES;
use crate::svg::DASHES;
use crate::ticks::Axis;
use crate::units::{bandwidth, count, counted, plain, significant, time, time_tick};
use crate::{Chart, ChartError, Table};
use warpbook_record::{Measurement, MemoryLevel, Problem, Run};

/// Time over size on logarithmic axes, one line a rung, with what the measured ceilings of memory and cache would take.
///
/// Several records are drawn together where they were timed alike, each with dashes of its own and its device's name.
///
/// # Errors
/// [`ChartError::NothingToDraw`] with fewer than two sizes; [`ChartError::NotComparable`] where experiments, timing
/// policies or the work differ.
pub fn sweep(runs: &[&Run]) -> Result<Chart, ChartError> {
    Sweep::new(runs, false)?.draw()
}

/// Effective bandwidth over size on a logarithmic axis of sizes, one line a rung, with the measured ceilings.
///
/// # Errors
/// As [`sweep`].
pub fn sweep_bandwidth(runs: &[&Run]) -> Result<Chart, ChartError> {
    Sweep::new(runs, true)?.draw()
}

struct Line<'a> {
    run: usize,
    rung: &'a str,
    points: Vec<(f64, &'a Measurement, f64)>,
}

struct Sweep<'a> {
    runs: &'a [&'a Run],
    tags: Vec<String>,
    family: Family,
    bandwidth: bool,
    /// In the rungs' order, record by record.
    lines: Vec<Line<'a>>,
    /// Valid measurements of other work than the sweep's.
    left_out: usize,
}

impl<'a> Sweep<'a> {
    fn new(runs: &'a [&'a Run], bandwidth: bool) -> Result<Self, ChartError> {
        comparable(runs)?;
        let mut of: Option<Family> = None;
        for run in runs {
            let Some(family) = main_family(run) else { continue };
            if let Some(difference) = of.and_then(|f| f.difference(&family)) {
                return Err(ChartError::NotComparable(format!("The records did different work: {difference}.")));
            }
            of = Some(family);
        }
        let Some(of) = of else {
            return Err(ChartError::NothingToDraw("The record has no valid measurement to draw over sizes.".into()));
        };
        let mut sweep = Self { runs, tags: tags(runs), family: of, bandwidth, lines: Vec::new(), left_out: 0 };
        for (i, run) in runs.iter().enumerate() {
            sweep.add(i, run);
        }
        let mut sizes: Vec<u64> = sweep.points().map(|(_, m, _)| m.problem.size()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        match sizes.len() {
            0 => Err(ChartError::NothingToDraw("The record has no valid measurement to draw over sizes.".into())),
            1 => Err(ChartError::NothingToDraw(format!(
                "A sweep needs at least two sizes; there is only {} points.",
                count(sizes[0] as f64)
            ))),
            _ => Ok(sweep),
        }
    }

    fn add(&mut self, index: usize, run: &'a Run) {
        let first = self.lines.len();
        for m in &run.measurements {
            let Ok(us) = verdict(run, m) else { continue };
            if family(&m.problem) != Some(self.family) || m.problem.size() == 0 {
                self.left_out += 1;
                continue;
            }
            let at = self.lines[first..].iter().position(|l| l.rung == m.rung).map(|i| first + i);
            let at = at.unwrap_or_else(|| {
                self.lines.push(Line { run: index, rung: &m.rung, points: Vec::new() });
                self.lines.len() - 1
            });
            let size = m.problem.size() as f64;
            // Of two measurements of the same work the first counts, as in a ladder.
            if !self.lines[at].points.iter().any(|p| p.0 == size) {
                self.lines[at].points.push((size, m, us));
            }
        }
        for line in &mut self.lines[first..] {
            line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        let place = |l: &Line<'_>| run.rungs.iter().position(|r| r.id == l.rung).unwrap_or(usize::MAX);
        self.lines[first..].sort_by_key(place);
    }

    fn points(&self) -> impl Iterator<Item = &(f64, &'a Measurement, f64)> {
        self.lines.iter().flat_map(|l| &l.points)
    }

    fn value(&self, problem: &Problem, us: f64) -> f64 {
        if self.bandwidth { problem.bytes() as f64 / (us * 1e-6) } else { us }
    }

    /// Colours and markers are the rungs', dashes the records'.
    fn series(&self) -> Vec<Series> {
        let mut rungs: Vec<&str> = Vec::new();
        let mut out = Vec::new();
        for line in self.lines.iter().take(MAX_ENTRIES) {
            let number = rungs.iter().position(|r| *r == line.rung).unwrap_or_else(|| {
                rungs.push(line.rung);
                rungs.len() - 1
            });
            let name = name(self.runs[line.run], line.rung);
            let label = if self.runs.len() > 1 { vec![name, self.tags[line.run].clone()] } else { vec![name] };
            let dash = (line.run % DASHES.len()) as u32;
            out.push(Series {
                label,
                names: 1,
                points: line.points.iter().map(|(x, m, us)| (*x, self.value(&m.problem, *us))).collect(),
                stroke: Stroke::dashed(Paint::solid(SERIES[number % SERIES.len()]), 2.0, dash),
                marker: Some(MARKERS[number % MARKERS.len()]),
                broken: None,
            });
        }
        for (i, run) in self.runs.iter().enumerate() {
            // The ceilings of a device that several records share are drawn once.
            if !self.runs[..i].iter().any(|r| device(r) == device(run)) {
                out.extend(self.guides(i, run));
            }
        }
        out
    }

    /// What memory would take at every size, and the cache at those that stay in it.
    fn guides(&self, index: usize, run: &Run) -> Vec<Series> {
        let mut problems: Vec<&Problem> = self.points().map(|(_, m, _)| &m.problem).collect();
        problems.sort_by_key(|p| p.size());
        problems.dedup_by_key(|p| p.size());
        let mut out = Vec::new();
        for (level, dash) in [(MemoryLevel::Dram, 1), (MemoryLevel::L2, 2)] {
            let Some(peak) = run.peaks.level(level) else { continue };
            let rate = peak.bytes_per_s();
            let fits = |p: &Problem| level == MemoryLevel::Dram || run.ceiling(p).is_some_and(|c| c.level == level);
            let points: Vec<(f64, f64)> = problems
                .iter()
                .filter(|p| fits(p))
                .filter_map(|p| Some((p, usable(Some(p.bytes() as f64 / rate * 1e6))?)))
                .map(|(p, us)| (p.size() as f64, self.value(p, us)))
                .collect();
            if points.len() < 2 {
                continue;
            }
            let of = if self.devices_differ() { format!(" of {}", self.tags[index]) } else { String::new() };
            out.push(Series {
                label: vec![format!("{} ceiling{of}", level.label()), format!("measured, {}", bandwidth(rate))],
                names: 1,
                points,
                stroke: Stroke::dashed(Paint::MUTED, 1.4, dash),
                marker: None,
                broken: None,
            });
        }
        out
    }

    fn devices_differ(&self) -> bool {
        self.runs.iter().any(|r| device(r) != device(self.runs[0]))
    }

    fn draw(self) -> Result<Chart, ChartError> {
        let series = self.series();
        let xs = self.points().map(|p| p.0);
        let ys = series.iter().flat_map(|s| &s.points).map(|p| p.1);
        let x = Axis::log(xs, 0.06);
        let (y, y_tick, y_caption): (_, fn(f64) -> String, _) = if self.bandwidth {
            let high = ys.fold(0.0, f64::max);
            (Axis::from_zero([high * 1.04]), |v| plain(v / 1e9), "effective bandwidth in GB/s, higher is better")
        } else {
            (Axis::log(ys, 0.08), time_tick, "time, lower is better; logarithmic scale")
        };
        Lines {
            series,
            x,
            y,
            x_tick: count,
            y_tick,
            x_caption: "points; logarithmic scale".into(),
            y_caption: y_caption.into(),
            frame: self.frame(),
        }
        .draw()
    }

    fn frame(&self) -> Frame {
        let first = self.runs[0];
        let what = if self.bandwidth { "effective bandwidth over size" } else { "time over size" };
        let devices = devices(self.runs);
        let title = format!("{}: {what}", heading(first));
        let medians = medians(self.points().map(|p| p.1));
        let subtitle = joined([devices.clone(), self.family.label(), medians, cache(first).to_owned()]);
        let mut notes = Vec::new();
        if self.devices_differ() {
            notes.push(format!("The records are of different devices: {devices}."));
        }
        if self.left_out > 0 {
            let what = counted(self.left_out, "measurement");
            notes.push(format!("Drawn is the work of {}; {what} of other work left out.", self.family.label()));
        }
        let drawn = self.lines.iter().flat_map(|l| l.points.iter().map(|p| (self.runs[l.run], p.1)));
        notes.extend(debug_note(drawn));
        if self.lines.len() > MAX_ENTRIES {
            notes.push(format!("{} of {} lines are drawn; the table has all.", MAX_ENTRIES, self.lines.len()));
        }
        Frame { title, subtitle, description: self.description(what, &devices), notes, table: self.table() }
    }

    fn description(&self, what: &str, devices: &str) -> String {
        let sizes = self.points().map(|p| p.0);
        let (low, high) = sizes.fold((f64::MAX, 0.0), |(a, b): (f64, f64), s| (a.min(s), b.max(s)));
        let at_largest = self.lines.iter().filter_map(|l| Some((l, l.points.last().filter(|p| p.0 == high)?)));
        let best = at_largest.min_by(|a, b| a.1.2.total_cmp(&b.1.2)).map_or(String::new(), |(l, p)| {
            let name = name(self.runs[l.run], l.rung);
            let us = p.2;
            let shown = if self.bandwidth { bandwidth(self.value(&p.1.problem, us)) } else { time(us) };
            format!("; at the largest size {name} is fastest with {shown}")
        });
        format!(
            "Lines of the {what} from {} to {} points of {} on {devices}{best}.",
            count(low),
            count(high),
            counted(self.lines.len(), "rung"),
        )
    }

    fn table(&self) -> Table {
        let several = self.runs.len() > 1;
        let record = several.then_some("record");
        let headers = ["rung", "points", "time (ms)", "MAD (ms)", "effective GB/s", "% of ceiling"];
        let mut table = Table::new(record.into_iter().chain(headers));
        for line in &self.lines {
            let run = self.runs[line.run];
            for (_, m, us) in &line.points {
                let fraction = run.ceiling(&m.problem).filter(|_| run.on_device(m)).and_then(|c| m.fraction_of(c));
                let cells = [
                    m.rung.clone(),
                    m.problem.size().to_string(),
                    significant(us / 1e3, 5),
                    m.mad_us().map(|d| significant(d / 1e3, 2)).unwrap_or_default(),
                    significant(m.problem.bytes() as f64 / (us * 1e-6) / 1e9, 4),
                    fraction.map(|f| significant(f * 100.0, 3)).unwrap_or_default(),
                ];
                table.push(several.then(|| self.tags[line.run].clone()).into_iter().chain(cells));
            }
        }
        table
    }
}

/// The work of most valid measurements, the first of equals.
fn main_family(run: &Run) -> Option<Family> {
    let mut counts: Vec<(Family, usize)> = Vec::new();
    for m in run.measurements.iter().filter(|m| m.problem.size() > 0 && verdict(run, m).is_ok()) {
        let Some(of) = family(&m.problem) else { continue };
        match counts.iter_mut().find(|c| c.0 == of) {
            Some(c) => c.1 += 1,
            None => counts.push((of, 1)),
        }
    }
    counts.into_iter().rev().max_by_key(|c| c.1).map(|c| c.0)
}

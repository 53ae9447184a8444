use crate::canvas::{Font, Frame, MARKERS, Marker, Paint, Stroke};
use crate::common::{
    Family, MAX_ENTRIES, cache, comparable, debug_note, device, devices, family, heading, is_external, joined, medians,
    name, tags, usable, verdict,
};
use crate::lines::{Guide, Lines, Series};
use crate::palette::{GREYS, Rgb, SERIES};
use crate::svg::DASHES;
use crate::text;
use crate::ticks::Axis;
use crate::words::{bandwidth, bandwidth_tick, count, counted, plain, significant, time, time_tick};
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

/// The guides of more devices would hide the lines.
const MAX_GUIDES: usize = 8;

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
            let Some(family) = main_of(run).and_then(family) else { continue };
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
        let main = main_of(run);
        for m in &run.measurements {
            let Ok(us) = verdict(run, m) else { continue };
            let alike = main.is_some_and(|p| p.same_but_for_size(&m.problem));
            if !alike || family(&m.problem) != Some(self.family) || m.problem.size() == 0 {
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

    /// Colours and markers are the rungs', dashes the records'; other frameworks are grey, and dashed by rung.
    fn series(&self) -> Vec<Series> {
        let external = |l: &Line<'_>| is_external(self.runs[l.run], l.rung);
        let shown: Vec<&Line<'_>> = self.lines.iter().take(MAX_ENTRIES).collect();
        // The last of the colours is a grey.
        let colors = if shown.iter().any(|l| external(l)) { &SERIES[..SERIES.len() - 1] } else { &SERIES[..] };
        let (mut ours, mut theirs): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
        let mut out = Vec::new();
        for line in shown {
            let grey = external(line);
            let rungs = if grey { &mut theirs } else { &mut ours };
            let number = rungs.iter().position(|r| *r == line.rung).unwrap_or_else(|| {
                rungs.push(line.rung);
                rungs.len() - 1
            });
            let name = name(self.runs[line.run], line.rung);
            let label = if self.runs.len() > 1 { vec![name, self.tags[line.run].clone()] } else { vec![name] };
            let (stroke, marker) = if grey { grey_look(number, line.run) } else { look(number, line.run, colors) };
            out.push(Series {
                label,
                names: 1,
                points: line.points.iter().map(|(x, m, us)| (*x, self.value(&m.problem, *us))).collect(),
                stroke,
                marker: Some(marker),
                broken: None,
            });
        }
        out
    }

    /// What each measured level of memory would take for reading x and y every epoch, at the sizes that it can hold.
    fn guides(&self) -> Vec<Guide> {
        let mut problems: Vec<&Problem> = self.points().map(|(_, m, _)| &m.problem).collect();
        problems.sort_by_key(|p| p.size());
        problems.dedup_by_key(|p| p.size());
        let mut out = Vec::new();
        for (i, run) in self.runs.iter().enumerate() {
            // The ceilings of a device that several records share are drawn once.
            if self.runs[..i].iter().any(|r| device(r) == device(run)) {
                continue;
            }
            let of = if self.devices_differ() { format!(" of {}", self.tags[i]) } else { String::new() };
            let of = text::elide(&of, 110.0, Font::SMALL.size, false);
            for level in [MemoryLevel::Dram, MemoryLevel::L2, MemoryLevel::Shared, MemoryLevel::Registers] {
                let Some(rate) = run.peaks.level(level).and_then(|p| usable(Some(p.bytes_per_s()))) else { continue };
                let ends = problems.iter().filter(|p| holds(run, level, p)).filter_map(|p| {
                    let us = usable(Some(p.bytes() as f64 / rate * 1e6))?;
                    Some((p.size() as f64, self.value(p, us)))
                });
                let ends: Vec<(f64, f64)> = ends.collect();
                if let ([first, .., last], true) = (ends.as_slice(), out.len() < MAX_GUIDES) {
                    out.push(Guide {
                        name: format!("{}{of}: {}", level.label(), bandwidth(rate)),
                        ends: [*first, *last],
                    });
                }
            }
        }
        out
    }

    /// Whether a linear axis would press what the ceilings bound into its lowest quarter.
    fn far_above_ceilings(&self, bytes_per_s: f64) -> bool {
        let of = |run: &Run, level| run.peaks.level(level).map_or(0.0, warpbook_record::BandwidthPeak::bytes_per_s);
        let levels = [MemoryLevel::Dram, MemoryLevel::L2];
        let ceiling = self.runs.iter().flat_map(|r| levels.map(|l| of(r, l))).fold(0.0, f64::max);
        ceiling > 0.0 && bytes_per_s > 4.0 * ceiling
    }

    fn devices_differ(&self) -> bool {
        self.runs.iter().any(|r| device(r) != device(self.runs[0]))
    }

    fn draw(self) -> Result<Chart, ChartError> {
        let (series, guides) = (self.series(), self.guides());
        let xs = self.points().map(|p| p.0);
        let ys: Vec<f64> = series.iter().flat_map(|s| &s.points).map(|p| p.1).collect();
        let x = Axis::log(xs, 0.06);
        // The guides of memory and cache are what lines are held against; what is far from all lines is not shown.
        let held = guides.iter().map(|g| g.ends[0].1).filter(|v| self.bandwidth && *v < 4.0 * high(&ys));
        let all: Vec<f64> = ys.iter().copied().chain(held).collect();
        let (y, y_tick, y_caption): (_, fn(f64) -> String, _) = match self.bandwidth {
            true if self.far_above_ceilings(high(&ys)) => {
                (Axis::log(all, 0.08), bandwidth_tick, "effective bandwidth, higher is better; logarithmic scale")
            }
            true => (
                Axis::from_zero([high(&all) * 1.04]),
                |v| plain(v / 1e9),
                "effective bandwidth in GB/s, higher is better",
            ),
            // Some of the way to the guides, and no line in a corner.
            false => (
                Axis::log(ys.iter().copied().chain(low_guide(&guides, &ys)), 0.08),
                time_tick,
                "time, lower is better; logarithmic scale",
            ),
        };
        Lines {
            series,
            guides,
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
        let guides: Vec<String> = self.guides().into_iter().map(|g| g.name).collect();
        if !guides.is_empty() {
            let what = if self.bandwidth {
                "the measured bandwidth"
            } else {
                "reading x and y every epoch at the measured bandwidth"
            };
            notes.push(format!(
                "Dotted: {what} of a level of memory, at the sizes that it holds ({}).",
                guides.join(", ")
            ));
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
        let headers = ["rung", "points", "time (ms)", "MAD (ms)", "effective GB/s", "% of ceiling", "bound by"];
        let mut table = Table::new(record.into_iter().chain(headers));
        for line in &self.lines {
            let run = self.runs[line.run];
            for (_, m, us) in &line.points {
                let fraction = run.fraction_of_ceiling(m).filter(|f| f.is_finite());
                let cells = [
                    m.rung.clone(),
                    m.problem.size().to_string(),
                    significant(us / 1e3, 5),
                    m.mad_us().map(|d| significant(d / 1e3, 2)).unwrap_or_default(),
                    significant(m.problem.bytes() as f64 / (us * 1e-6) / 1e9, 4),
                    fraction.map(|f| significant(f * 100.0, 3)).unwrap_or_default(),
                    fraction.and(run.bound(m)).map_or("", |b| b.label()).to_owned(),
                ];
                table.push(several.then(|| self.tags[line.run].clone()).into_iter().chain(cells));
            }
        }
        table
    }
}

/// The least time of the slowest guide, or a quarter of the lines' least if that is more.
fn low_guide(guides: &[Guide], values: &[f64]) -> Option<f64> {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    Some(guides.first()?.ends[0].1.max(low / 4.0))
}

fn high(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// Whether a level of memory holds what a problem reads every epoch. The multiprocessors hold it in registers and shared
/// memory together.
fn holds(run: &Run, level: MemoryLevel, problem: &Problem) -> bool {
    let device = &run.environment.device;
    match level {
        MemoryLevel::Dram => true,
        MemoryLevel::L2 => run.ceiling(problem).is_some_and(|c| c.level == level),
        _ => {
            let registers = device.registers_per_multiprocessor.map(|n| n.saturating_mul(4));
            let each = device.shared_bytes_per_multiprocessor.zip(registers).map(|(a, b)| a.saturating_add(b));
            let all = each.map(|b| b.saturating_mul(u64::from(device.multiprocessors)));
            all.is_none_or(|b| problem.working_set_bytes() <= b)
        }
    }
}

/// Of the numberth rung of ours in a record.
fn look(number: usize, record: usize, colors: &[Rgb]) -> (Stroke, Marker) {
    let dash = (record % DASHES.len()) as u32;
    // Where the colours begin again the markers do not.
    let again = if colors.len() == MARKERS.len() { number / MARKERS.len() } else { 0 };
    let stroke = Stroke::dashed(Paint::solid(colors[number % colors.len()]), 2.0, dash);
    (stroke, MARKERS[(number + again) % MARKERS.len()])
}

/// Of the numberth rung of other frameworks.
fn grey_look(number: usize, record: usize) -> (Stroke, Marker) {
    let dash = 1 + (number + record) % (DASHES.len() - 1);
    let stroke = Stroke::dashed(Paint::solid(GREYS[number % GREYS.len()]), 1.6, dash as u32);
    (stroke, MARKERS[number % MARKERS.len()])
}

/// The problem that the sweep is of: the record's main one, or that of most valid measurements where the main has none.
fn main_of(run: &Run) -> Option<&Problem> {
    let valid = |p: &Problem| run.measurements.iter().filter(|m| m.problem == *p && verdict(run, m).is_ok()).count();
    let of_size = |p: &&Problem| p.size() > 0 && family(p).is_some();
    let main = run.main_problem().filter(of_size).filter(|p| valid(p) > 0);
    main.or_else(|| run.problems().into_iter().filter(of_size).filter(|p| valid(p) > 0).rev().max_by_key(|p| valid(p)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_of_a_records_lines_look_alike() {
        for colors in [&SERIES[..], &SERIES[..SERIES.len() - 1]] {
            let all: Vec<_> = (0..48).map(|n| look(n, 0, colors)).collect();
            assert!((1..all.len()).all(|i| !all[..i].contains(&all[i])));
        }
        let greys: Vec<_> = (0..24).map(|n| grey_look(n, 0)).collect();
        assert!((1..greys.len()).all(|i| !greys[..i].contains(&greys[i])));
        assert!(greys.iter().all(|(stroke, _)| stroke.dash > 0));
    }
}

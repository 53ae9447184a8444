use crate::canvas::{Font, Frame, MARKERS, Marker, Paint, Stroke};
use crate::common::{
    Family, MAX_ENTRIES, arithmetic_peak, cache, comparable, debug_note, device, devices, family, heading, is_external,
    is_library, joined, medians, name, tags, usable, verdict,
};
use crate::lines::{Guide, Lines, Series};
use crate::palette::{GREYS, PURPLE, Rgb, SERIES};
use crate::svg::DASHES;
use crate::text::{self, clean};
use crate::ticks::Axis;
use crate::words::{
    bandwidth, bandwidth_tick, count, counted, listed, plain, rate, rate_tick, rate_unit, significant, time, time_tick,
};
use crate::{Chart, ChartError, Table};
use warpbook_record::{Dtype, Measurement, MemoryLevel, Problem, Run};

/// Time over size on logarithmic axes, one line a rung, with what the measured ceilings of memory and cache would take; of
/// matrix products also that of arithmetic.
///
/// Several records are drawn together where they were timed alike, each with dashes of its own and its device's name.
///
/// # Errors
/// [`ChartError::NothingToDraw`] with fewer than two sizes; [`ChartError::NotComparable`] where experiments, timing
/// policies or the work differ.
pub fn sweep(runs: &[&Run]) -> Result<Chart, ChartError> {
    Sweep::new(runs, Over::Time, None, None)?.draw()
}

/// Effective bandwidth over size on a logarithmic axis of sizes, one line a rung, with the measured ceilings.
///
/// # Errors
/// As [`sweep`].
pub fn sweep_bandwidth(runs: &[&Run]) -> Result<Chart, ChartError> {
    Sweep::new(runs, Over::Bandwidth, None, None)?.draw()
}

/// Operations a second over size on a logarithmic axis of sizes, one line a rung, with the measured peak of arithmetic:
/// matrix products of cubes of one type, over their edge.
///
/// Without a type it is that of the record's main problem. Where `rungs` names some, only these are drawn, and the libraries
/// that they are held against; libraries are dashed.
///
/// # Errors
/// As [`sweep`]; [`ChartError::NothingToDraw`] also where none of the named rungs has a figure.
pub fn sweep_throughput(runs: &[&Run], dtype: Option<Dtype>, rungs: Option<&[&str]>) -> Result<Chart, ChartError> {
    Sweep::new(runs, Over::Throughput, dtype, rungs)?.draw()
}

/// What stands over the sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    Time,
    Bandwidth,
    Throughput,
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
    over: Over,
    /// Ids of the rungs that are drawn; `None` is all.
    chosen: Option<&'a [&'a str]>,
    /// In the rungs' order, record by record.
    lines: Vec<Line<'a>>,
    /// Valid measurements of other work than the sweep's.
    left_out: usize,
}

impl<'a> Sweep<'a> {
    fn new(
        runs: &'a [&'a Run],
        over: Over,
        dtype: Option<Dtype>,
        chosen: Option<&'a [&'a str]>,
    ) -> Result<Self, ChartError> {
        let nothing = |why: String| Err(ChartError::NothingToDraw(why));
        comparable(runs)?;
        let mut of: Option<Family> = None;
        for run in runs {
            let Some(family) = main_of(run, dtype).and_then(family) else { continue };
            if let Some(difference) = of.and_then(|f| f.difference(&family)) {
                return Err(ChartError::NotComparable(format!("The records did different work: {difference}.")));
            }
            of = Some(family);
        }
        let Some(family) = of else {
            let of = dtype.map_or(String::new(), |d| format!(" of {}", d.label()));
            return nothing(format!("The record has no valid measurement{of} to draw over sizes."));
        };
        let mut sweep = Self { runs, tags: tags(runs), family, over, chosen, lines: Vec::new(), left_out: 0 };
        for (i, run) in runs.iter().enumerate() {
            sweep.add(i, run, dtype);
        }
        if let Some(ids) = chosen
            && sweep.lines.iter().all(|l| is_library(runs[l.run], l.rung))
        {
            let ids: Vec<String> = ids.iter().take(MAX_ENTRIES).map(|id| clean(id)).collect();
            return nothing(format!(
                "None of these rungs has a valid measurement to draw over sizes: {}.",
                listed(&ids)
            ));
        }
        let mut sizes: Vec<u64> = sweep.points().map(|(_, m, _)| m.problem.size()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        match sizes.len() {
            0 => nothing("The record has no valid measurement to draw over sizes.".into()),
            1 => nothing(format!("A sweep needs at least two sizes; there is only {}.", sweep.family.size(sizes[0]))),
            _ => Ok(sweep),
        }
    }

    fn add(&mut self, index: usize, run: &'a Run, dtype: Option<Dtype>) {
        let first = self.lines.len();
        let main = main_of(run, dtype);
        for m in &run.measurements {
            if self.chosen.is_some_and(|ids| !ids.contains(&m.rung.as_str())) && !is_library(run, &m.rung) {
                continue;
            }
            let Ok(us) = verdict(run, m) else { continue };
            let alike = main.is_some_and(|p| p.same_but_for_size(&m.problem));
            if !alike || family(&m.problem).as_ref() != Some(&self.family) || m.problem.size() == 0 {
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

    /// The shown value of a time that all of the work takes.
    fn value(&self, problem: &Problem, us: f64) -> f64 {
        match self.over {
            Over::Time => us,
            Over::Bandwidth => problem.bytes() as f64 / (us * 1e-6),
            Over::Throughput => problem.flops() as f64 / (us * 1e-6),
        }
    }

    /// The shown value of a rung's time; its operations may be fewer than the work's.
    fn value_of(&self, m: &Measurement, us: f64) -> f64 {
        match self.over {
            Over::Throughput => m.operations() as f64 / (us * 1e-6),
            _ => self.value(&m.problem, us),
        }
    }

    /// A value in words.
    fn shown(&self, value: f64) -> String {
        match self.over {
            Over::Time => time(value),
            Over::Bandwidth => bandwidth(value),
            Over::Throughput => rate(value),
        }
    }

    /// Colours and markers are the rungs', dashes the records'; other frameworks are grey, libraries have a colour of their
    /// own, and both are dashed by rung.
    fn series(&self) -> Vec<Series> {
        let external = |l: &Line<'_>| is_external(self.runs[l.run], l.rung);
        let library = |l: &Line<'_>| is_library(self.runs[l.run], l.rung);
        let shown: Vec<&Line<'_>> = self.lines.iter().take(MAX_ENTRIES).collect();
        // The last of the colours is a grey.
        let (greys, libraries) = (shown.iter().any(|l| external(l)), shown.iter().any(|l| library(l)));
        let mut colors = SERIES[..SERIES.len() - usize::from(greys)].to_vec();
        colors.retain(|c| !(libraries && *c == PURPLE));
        let mut rungs: [Vec<&str>; 3] = Default::default();
        let mut out = Vec::new();
        for line in shown {
            let kind = if external(line) { 1 } else { usize::from(library(line)) * 2 };
            let rungs = &mut rungs[kind];
            let number = rungs.iter().position(|r| *r == line.rung).unwrap_or_else(|| {
                rungs.push(line.rung);
                rungs.len() - 1
            });
            let name = name(self.runs[line.run], line.rung);
            let label = if self.runs.len() > 1 { vec![name, self.tags[line.run].clone()] } else { vec![name] };
            let (stroke, marker) = match kind {
                0 => look(number, line.run, &colors),
                1 => dashed_look(number, line.run, GREYS[number % GREYS.len()]),
                _ => dashed_look(number, line.run, PURPLE),
            };
            out.push(Series {
                label,
                names: 1,
                points: line.points.iter().map(|(x, m, us)| (*x, self.value_of(m, *us))).collect(),
                stroke,
                marker: Some(marker),
                broken: None,
            });
        }
        out
    }

    /// The levels of memory whose ceilings are drawn. A product keeps little of what it reads in registers or shared memory; and
    /// over edges its operations a second at a bandwidth are no straight line.
    fn levels(&self) -> &'static [MemoryLevel] {
        match self.over {
            Over::Throughput if self.family.is_product() => &[],
            _ if self.family.is_product() => &[MemoryLevel::Dram, MemoryLevel::L2],
            _ => &[MemoryLevel::Dram, MemoryLevel::L2, MemoryLevel::Shared, MemoryLevel::Registers],
        }
    }

    /// What each measured level of memory would take for reading x and y every epoch, at the sizes that it can hold, and what
    /// the operations would take.
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
            let with_arithmetic = self.over == Over::Throughput || self.over == Over::Time && self.family.is_product();
            let dtype = problems.first().and_then(|p| p.dtype()).filter(|_| with_arithmetic);
            if let Some((dtype, peak)) = dtype.and_then(|d| Some((d, arithmetic_peak(run, d)?))) {
                let ends = problems.iter().filter_map(|p| {
                    let us = usable(Some(p.flops() as f64 / peak * 1e6))?;
                    Some((p.size() as f64, self.value(p, us)))
                });
                let ends: Vec<(f64, f64)> = ends.collect();
                if let ([first, .., last], true) = (ends.as_slice(), out.len() < MAX_GUIDES) {
                    let name = format!("{} arithmetic{of}: {}", dtype.label(), rate(peak));
                    out.push(Guide { name, ends: [*first, *last] });
                }
            }
            for &level in self.levels() {
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
    fn far_above_ceilings(&self, value: f64) -> bool {
        if self.over == Over::Throughput {
            let highest = self.guides().iter().map(|g| g.ends[0].1).fold(0.0, f64::max);
            return highest > 0.0 && value > 4.0 * highest;
        }
        let of = |run: &Run, level| run.peaks.level(level).map_or(0.0, warpbook_record::BandwidthPeak::bytes_per_s);
        let levels = [MemoryLevel::Dram, MemoryLevel::L2];
        let ceiling = self.runs.iter().flat_map(|r| levels.map(|l| of(r, l))).fold(0.0, f64::max);
        ceiling > 0.0 && value > 4.0 * ceiling
    }

    fn devices_differ(&self) -> bool {
        self.runs.iter().any(|r| device(r) != device(self.runs[0]))
    }

    fn draw(self) -> Result<Chart, ChartError> {
        let (series, guides) = (self.series(), self.guides());
        let xs = self.points().map(|p| p.0);
        let ys: Vec<f64> = series.iter().flat_map(|s| &s.points).map(|p| p.1).collect();
        let product = self.family.is_product();
        let x = if product { Axis::doubling(xs, 0.03) } else { Axis::log(xs, 0.06) };
        // The guides of memory and cache are what lines are held against; what is far from all lines is not shown.
        let held = guides.iter().map(|g| g.ends[0].1).filter(|v| self.over != Over::Time && *v < 4.0 * high(&ys));
        let all: Vec<f64> = ys.iter().copied().chain(held).collect();
        let (y, y_tick, y_caption): (_, fn(f64) -> String, _) = match self.over {
            Over::Bandwidth if self.far_above_ceilings(high(&ys)) => {
                (Axis::log(all, 0.08), bandwidth_tick, "effective bandwidth, higher is better; logarithmic scale")
            }
            Over::Bandwidth => (
                Axis::from_zero([high(&all) * 1.04]),
                |v| plain(v / 1e9),
                "effective bandwidth in GB/s, higher is better",
            ),
            Over::Throughput if self.far_above_ceilings(high(&ys)) => {
                (Axis::log(all, 0.08), rate_tick, "operations a second, higher is better; logarithmic scale")
            }
            Over::Throughput => {
                let axis = Axis::from_zero([high(&all) * 1.04]);
                match rate_unit(high(&all)).1 {
                    "TFLOP/s" => (axis, |v| plain(v / 1e12), "TFLOP/s, higher is better"),
                    "GFLOP/s" => (axis, |v| plain(v / 1e9), "GFLOP/s, higher is better"),
                    _ => (axis, |v| plain(v / 1e6), "MFLOP/s, higher is better"),
                }
            }
            // Some of the way to the guides, and no line in a corner.
            Over::Time => (
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
            x_tick: if product { plain } else { count },
            y_tick,
            x_caption: if product { "m = n = k; logarithmic scale" } else { "points; logarithmic scale" }.into(),
            y_caption: y_caption.into(),
            frame: self.frame(),
        }
        .draw()
    }

    fn frame(&self) -> Frame {
        let first = self.runs[0];
        let what = match self.over {
            Over::Time => "time over size",
            Over::Bandwidth => "effective bandwidth over size",
            Over::Throughput => "operations a second over size",
        };
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
            let work = if self.family.is_product() { "of cubes of" } else { "of" };
            notes.push(format!("Drawn is the work {work} {}; {what} of other work left out.", self.family.label()));
        }
        let guides: Vec<String> = self.guides().into_iter().map(|g| g.name).collect();
        if !guides.is_empty() {
            let guides = guides.join(", ");
            let reading = match self.over {
                _ if self.family.is_product() => "reading A and B and writing C once",
                _ => "reading x and y every epoch",
            };
            notes.push(match self.over {
                Over::Bandwidth => {
                    format!("Dotted: the measured bandwidth of a level of memory, at the sizes that it holds ({guides}).")
                }
                Over::Time if self.family.is_product() => {
                    format!("Dotted: the operations at the measured peak, and {reading} at the measured bandwidth ({guides}).")
                }
                Over::Time => format!(
                    "Dotted: {reading} at the measured bandwidth of a level of memory, at the sizes that it holds ({guides})."
                ),
                Over::Throughput if self.family.is_product() => format!("Dotted: the measured peak ({guides})."),
                Over::Throughput => {
                    format!("Dotted: the measured peak, and what {reading} at a measured bandwidth allows ({guides}).")
                }
            });
        }
        let drawn_ids: Vec<&str> = self.lines.iter().map(|l| l.rung).collect();
        let missing = self.chosen.unwrap_or_default().iter().filter(|id| !drawn_ids.contains(*id));
        let missing: Vec<String> = missing.take(MAX_ENTRIES).map(|id| clean(id)).collect();
        if !missing.is_empty() {
            notes.push(format!("Without a valid figure: {}.", listed(&missing)));
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
            let shown = self.shown(self.value_of(p.1, us));
            format!("; at the largest size {name} is fastest with {shown}")
        });
        let (low, high) = match self.family.is_product() {
            true => (self.family.size(low as u64), self.family.size(high as u64)),
            false => (count(low), self.family.size(high as u64)),
        };
        format!("Lines of the {what} from {low} to {high} of {} on {devices}{best}.", counted(self.lines.len(), "rung"))
    }

    fn table(&self) -> Table {
        let several = self.runs.len() > 1;
        let record = several.then_some("record");
        let size = if self.family.is_product() { "edge" } else { "points" };
        let in_flops = match self.over {
            Over::Time => self.family.is_product(),
            Over::Bandwidth => false,
            Over::Throughput => true,
        };
        let rate = if in_flops { "TFLOP/s" } else { "effective GB/s" };
        let headers = ["rung", size, "time (ms)", "MAD (ms)", rate, "% of ceiling", "bound by"];
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
                    match in_flops {
                        true => significant(m.operations() as f64 / (us * 1e-6) / 1e12, 4),
                        false => significant(m.problem.bytes() as f64 / (us * 1e-6) / 1e9, 4),
                    },
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
    // Where both would begin again the markers go on by one.
    let both = (1..).map(|n| n * MARKERS.len()).find(|n| n.is_multiple_of(colors.len())).unwrap_or(usize::MAX);
    let again = number / both;
    let stroke = Stroke::dashed(Paint::solid(colors[number % colors.len()]), 2.0, dash);
    (stroke, MARKERS[(number + again) % MARKERS.len()])
}

/// Of the numberth rung of other frameworks, or of libraries.
fn dashed_look(number: usize, record: usize, color: Rgb) -> (Stroke, Marker) {
    let dash = 1 + (number + record) % (DASHES.len() - 1);
    let stroke = Stroke::dashed(Paint::solid(color), 1.6, dash as u32);
    (stroke, MARKERS[number % MARKERS.len()])
}

/// The problem that the sweep is of: the record's main one, or that of most valid measurements where the main has none or is
/// not of the type that is asked for.
fn main_of(run: &Run, dtype: Option<Dtype>) -> Option<&Problem> {
    let valid = |p: &Problem| run.measurements.iter().filter(|m| m.problem == *p && verdict(run, m).is_ok()).count();
    let of_type = |p: &Problem| dtype.is_none() || p.dtype() == dtype;
    let of_size = |p: &&Problem| p.size() > 0 && of_type(p) && family(p).is_some_and(|f| f.has_sizes());
    let main = run.main_problem().filter(of_size).filter(|p| valid(p) > 0);
    main.or_else(|| run.problems().into_iter().filter(of_size).filter(|p| valid(p) > 0).rev().max_by_key(|p| valid(p)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_of_a_records_lines_look_alike() {
        for colors in [&SERIES[..], &SERIES[..SERIES.len() - 1], &SERIES[..SERIES.len() - 2]] {
            let all: Vec<_> = (0..48).map(|n| look(n, 0, colors)).collect();
            assert!((1..all.len()).all(|i| !all[..i].contains(&all[i])));
        }
        let greys: Vec<_> = (0..24).map(|n| dashed_look(n, 0, GREYS[n % GREYS.len()])).collect();
        assert!((1..greys.len()).all(|i| !greys[..i].contains(&greys[i])));
        assert!(greys.iter().all(|(stroke, _)| stroke.dash > 0));
    }
}

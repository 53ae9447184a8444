use crate::canvas::{Font, Frame, Marker, Paint, Stroke};
use crate::common::{
    MAX_ENTRIES, arithmetic_name, debug_note, device, devices, difference_of_lines, heading, is_library, joined, l2,
    line_label, medians, name, of_gpus, pass, policy_note, size_label, size_number, timing_note, usable, verdict,
};
use crate::comparison::{record_labels, same_meaning};
use crate::facts::{Facts, shared_samples};
use crate::headline::{claim_of_memory, least_memory};
use crate::ladder::LOG_FROM;
use crate::lines::{Guide, Lines, Series};
use crate::measure::{Measure, OF_PEAK_MEMORY};
use crate::options::Options;
use crate::palette::{GREY, Kind};
use crate::text::{self, clean};
use crate::ticks::Axis;
use crate::words::{bandwidth, count, counted, listed, rate, significant, whole};
use crate::{Chart, ChartError, Quantity, Table};
use warpbook_record::{Baseline, Dtype, Measurement, MemoryLevel, Problem, Run};

mod look;

use look::{dashed_look, look, notes_of_lines};

/// Time over size on logarithmic axes, one line a rung, with what the measured ceilings would take: [`sweep_of`] of
/// [`Quantity::Time`] along the line of the record's main problem.
///
/// # Errors
/// As [`sweep_of`].
pub fn sweep(runs: &[&Run]) -> Result<Chart, ChartError> {
    sweep_of(runs, Quantity::Time, None, None)
}

/// Effective bandwidth over size, with the measured ceilings: [`sweep_of`] of [`Quantity::Bandwidth`] along the line of the record's
/// main problem.
///
/// # Errors
/// As [`sweep_of`].
pub fn sweep_bandwidth(runs: &[&Run]) -> Result<Chart, ChartError> {
    sweep_of(runs, Quantity::Bandwidth, None, None)
}

/// FLOP/s over size, with the measured peak of arithmetic: as [`sweep_of`] of [`Quantity::Throughput`], but along the line of the
/// record's main problem of a type. Without a type it is that of its main problem.
///
/// # Errors
/// As [`sweep_of`].
pub fn sweep_throughput(runs: &[&Run], dtype: Option<Dtype>, rungs: Option<&[&str]>) -> Result<Chart, ChartError> {
    let along = dtype.map_or(Along::Main, Along::Dtype);
    Sweep::new(&Options::default(), runs, Quantity::Throughput, along, rungs)?.draw()
}

/// A quantity over size on a logarithmic axis of sizes, one line a rung, with what the measured ceilings allow at the sizes that a
/// level of memory holds.
///
/// Drawn are the problems on one line of a sweep: that of the problem `line`, or of the record's main problem. Where `rungs` names
/// some, only these are drawn, and the GPU libraries that they are compared with; libraries are dashed. Of more than eight rungs that
/// nobody named a few stand out: the fastest at some size, the baseline, the fastest library and framework, and
/// [`Options::picked`]; the others are grey. Sizes at which rows begin at other alignments than at most are dots. Several records are drawn
/// together, each with dashes and a name that tells it apart; a remark says what of their timing differs.
///
/// # Errors
/// [`ChartError::NothingToDraw`] with fewer than two sizes, without what the quantity is made of, or where none of the named rungs
/// has a figure; [`ChartError::NotComparable`] where experiments or the lines of the records' main problems differ.
pub fn sweep_of(
    runs: &[&Run],
    quantity: Quantity,
    line: Option<&Problem>,
    rungs: Option<&[&str]>,
) -> Result<Chart, ChartError> {
    sweep_with(&Options::default(), runs, quantity, line, rungs)
}

pub(crate) fn sweep_with(
    options: &Options,
    runs: &[&Run],
    quantity: Quantity,
    line: Option<&Problem>,
    rungs: Option<&[&str]>,
) -> Result<Chart, ChartError> {
    Sweep::new(options, runs, quantity, line.map_or(Along::Main, Along::Of), rungs)?.draw()
}

/// [`sweep_of`] several records under short names of the caller's.
///
/// # Errors
/// As [`sweep_of`].
pub fn sweep_labelled(
    runs: &[&Run],
    labels: &[String],
    quantity: Quantity,
    line: Option<&Problem>,
) -> Result<Chart, ChartError> {
    labelled_with(&Options::default(), runs, labels, quantity, line)
}

pub(crate) fn labelled_with(
    options: &Options,
    runs: &[&Run],
    labels: &[String],
    quantity: Quantity,
    line: Option<&Problem>,
) -> Result<Chart, ChartError> {
    let mut sweep = Sweep::new(options, runs, quantity, line.map_or(Along::Main, Along::Of), None)?;
    sweep.tags.iter_mut().zip(labels).for_each(|(tag, label)| *tag = clean(label));
    sweep.draw()
}

/// Which line of a sweep is drawn.
#[derive(Debug, Clone, Copy)]
enum Along<'a> {
    /// That of the main problem.
    Main,
    /// That of the main problem of a type.
    Dtype(Dtype),
    /// That of a problem.
    Of(&'a Problem),
}

impl Along<'_> {
    fn includes(self, problem: &Problem) -> bool {
        match self {
            _ if problem.size() == 0 => false,
            Self::Main => true,
            Self::Dtype(dtype) => problem.dtype == dtype,
            Self::Of(other) => other.same_line(problem),
        }
    }

    /// As in " of bf16".
    fn of(self) -> String {
        match self {
            Self::Main => String::new(),
            Self::Dtype(dtype) => format!(" of {}", dtype.label()),
            Self::Of(problem) => format!(" of {}", line_label(problem)),
        }
    }
}

/// The guides of more devices would hide the lines.
const MAX_GUIDES: usize = 8;
/// Of more rungs than these some stand out.
const FEW: usize = 8;
/// Of rungs that are the fastest at some size at most so many stand out.
const MOST_WINNERS: usize = 3;
/// So many times the time of the fastest are as fast as it, for a title.
const TIE: f64 = 1.01;
/// Sizes that are multiples of this have rows of one alignment for every kernel and type.
const ALIGNED: u64 = 64;

struct Line<'a> {
    run: usize,
    rung: &'a str,
    points: Vec<(f64, &'a Measurement, f64)>,
}

struct Sweep<'a> {
    options: &'a Options,
    runs: &'a [&'a Run],
    tags: Vec<String>,
    /// A problem on the line that is drawn.
    main: &'a Problem,
    measure: Measure,
    /// Ids of the rungs that are drawn; `None` is all.
    chosen: Option<&'a [&'a str]>,
    /// In the rungs' order, record by record.
    lines: Vec<Line<'a>>,
    /// Valid measurements of other work than the sweep's.
    left_out: usize,
}

impl<'a> Sweep<'a> {
    fn new(
        options: &'a Options,
        runs: &'a [&'a Run],
        quantity: Quantity,
        along: Along<'_>,
        chosen: Option<&'a [&'a str]>,
    ) -> Result<Self, ChartError> {
        let nothing = |why: String| Err(ChartError::NothingToDraw(why));
        same_meaning(runs)?;
        let mains: Vec<Option<&Problem>> = runs.iter().map(|r| main_of(r, along)).collect();
        let Some(main) = mains.iter().flatten().copied().next() else {
            return nothing(format!("The record has no valid measurement{} to draw over sizes.", along.of()));
        };
        if let Some(difference) = mains.iter().flatten().find_map(|p| difference_of_lines(main, p)) {
            return Err(ChartError::NotComparable(format!("The records did different work: {difference}.")));
        }
        let measure = Measure::new(runs[0], quantity);
        if let Some(why) = measure.lacking(runs[0], main) {
            return nothing(why);
        }
        let mut sweep =
            Self { options, runs, tags: record_labels(runs), main, measure, chosen, lines: Vec::new(), left_out: 0 };
        for (i, (run, main)) in runs.iter().zip(mains).enumerate() {
            sweep.add(i, run, main);
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
        match sweep.problems().as_slice() {
            [] => nothing("The record has no valid measurement to draw over sizes.".into()),
            [one] => nothing(format!("A sweep needs at least two sizes; there is only {}.", size_label(runs[0], one))),
            _ => Ok(sweep),
        }
    }

    fn add(&mut self, index: usize, run: &'a Run, main: Option<&Problem>) {
        let first = self.lines.len();
        let on_line = main.map_or_else(Vec::new, |main| problems_along(run, main));
        for m in &run.measurements {
            if self.chosen.is_some_and(|ids| !ids.contains(&m.rung.as_str())) && !is_library(run, &m.rung) {
                continue;
            }
            let Ok(us) = self.measure.verdict(run, m) else { continue };
            if !on_line.contains(&&m.problem) {
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
        self.lines[first..].sort_by_cached_key(place);
    }

    /// One for each size that has a point, from the smallest on.
    fn problems(&self) -> Vec<&'a Problem> {
        let mut all: Vec<&Problem> = self.points().map(|(_, m, _)| &m.problem).collect();
        all.sort_by_key(|p| p.size());
        all.dedup_by_key(|p| p.size());
        all
    }

    fn points(&self) -> impl Iterator<Item = &(f64, &'a Measurement, f64)> {
        self.lines.iter().flat_map(|l| &l.points)
    }

    /// The shown value of a time that all of the work takes.
    fn value(&self, run: &Run, problem: &Problem, us: f64) -> f64 {
        self.measure.of_work(problem, us, self.baseline_us(run, problem))
    }

    fn value_of(&self, run: &Run, m: &Measurement, us: f64) -> f64 {
        self.measure.of(m, us, self.baseline_us(run, &m.problem))
    }

    fn facts(&self, run: &Run, m: &Measurement, us: f64) -> Facts {
        let value = self.measure.text(self.value_of(run, m, us));
        // The rung is the line's, and what else the problem is the chart's.
        let short = clean(&m.problem.short);
        let problem = if short.is_empty() { size_label(run, &m.problem) } else { short };
        Facts { rung: String::new(), problem, ..self.measure.facts(m, value) }
    }

    /// The time that speed-ups are over, where these are drawn.
    fn baseline_us(&self, run: &Run, problem: &Problem) -> Option<f64> {
        let wanted = self.measure.quantity == Quantity::SpeedUp;
        run.baseline(problem).filter(|_| wanted).and_then(Measurement::median_us)
    }

    /// What speed-ups are over: one rung's name, or the rule where it is not the same rung at all sizes.
    fn baseline_name(&self) -> String {
        let each = self.lines.iter().flat_map(|l| l.points.iter().map(|p| (self.runs[l.run], &p.1.problem)));
        let mut names = each.filter_map(|(run, p)| run.baseline(p).map(|m| name(run, &m.rung)));
        let first = names.next();
        match first.filter(|first| names.all(|n| n == *first)) {
            Some(name) => name,
            None if self.runs[0].descriptor.baseline == Baseline::FastestLibrary => "the fastest library".into(),
            None => "each size's first valid rung".into(),
        }
    }

    /// The rungs whose lines stand out, in the order of the lines; all where they are few, or were named.
    fn standing_out(&self) -> Vec<&'a str> {
        let mut rungs: Vec<&str> = Vec::new();
        for line in &self.lines {
            if !rungs.contains(&line.rung) {
                rungs.push(line.rung);
            }
        }
        if rungs.len() <= FEW || self.chosen.is_some() {
            return rungs;
        }
        let mut kept: Vec<&str> = self.winners(0.0).into_iter().take(MOST_WINNERS).map(|w| w.0).collect();
        let main = self.problems().into_iter().rfind(|p| self.runs[0].main_problem() == Some(*p));
        let at = main.or(self.problems().last().copied()).unwrap_or(self.main);
        for run in self.runs {
            let framework = run.fastest_of(at, |r| r.framework().is_some());
            let of = [framework.map(|f| f.0), run.fastest_library(at).map(|l| l.0), run.baseline(at)];
            kept.extend(of.into_iter().flatten().map(|m| m.rung.as_str()));
            kept.extend(run.fastest_kernels(at).map(|(m, _)| m.rung.as_str()));
        }
        rungs.retain(|r| kept.contains(r) || self.options.picked.iter().any(|p| p == r));
        rungs
    }

    /// What is little of the best: its time, or its bytes.
    fn cost(&self, (_, m, us): &(f64, &Measurement, f64)) -> f64 {
        if self.measure.is_timed() { *us } else { self.measure.of(m, *us, None) }
    }

    /// The rungs that are the fastest at some size, or hold the least memory, of those that do all of the work, with the number of these sizes;
    /// the most often first. A size does not count where the next one takes at most so many times as long.
    fn winners(&self, tie: f64) -> Vec<(&'a str, usize)> {
        let mut won: Vec<(&str, usize)> = Vec::new();
        for problem in self.problems() {
            let at = self.lines.iter().flat_map(|l| l.points.iter().map(move |p| (l.rung, p)));
            let at = at.filter(|(_, (size, m, _))| *size == problem.size() as f64 && !m.does_less());
            let mut times: Vec<(&str, f64)> = at.map(|(rung, p)| (rung, self.cost(p))).collect();
            times.sort_by(|a, b| a.1.total_cmp(&b.1));
            let Some((rung, us)) = times.first().copied() else { continue };
            if times.get(1).is_some_and(|next| next.1 <= us * tie) {
                continue;
            }
            match won.iter_mut().find(|w| w.0 == rung) {
                Some(w) => w.1 += 1,
                None => won.push((rung, 1)),
            }
        }
        won.sort_by_key(|w| std::cmp::Reverse(w.1));
        won
    }

    /// The numbers of a line's points that are not joined: of matrix products on an axis that doubles, sizes of another alignment than most.
    fn apart(&self, line: &Line<'_>) -> Vec<usize> {
        // Only where a size is the length of a row.
        if self.main.count("k") != Some(self.main.size()) {
            return Vec::new();
        }
        let odd = |size: f64| !(size as u64).is_multiple_of(ALIGNED);
        let count = line.points.iter().filter(|p| odd(p.0)).count();
        if !self.runs[0].descriptor.axis.doubling || 2 * count > line.points.len() {
            return Vec::new();
        }
        (0..line.points.len()).filter(|i| odd(line.points[*i].0)).collect()
    }

    /// Colours are those of what runs a rung, a tone and a marker each; dashes tell records apart, and what is no kernel of the ladder.
    fn series(&self) -> Vec<Series> {
        let out_standing = self.standing_out();
        let shown: Vec<&Line<'_>> = self.lines.iter().take(MAX_ENTRIES).collect();
        let mut rungs: Vec<(Kind, &str)> = Vec::new();
        let mut out = Vec::new();
        for line in shown {
            let run = self.runs[line.run];
            let kind = Kind::of(run, line.rung);
            let is_rest = !out_standing.contains(&line.rung);
            if !is_rest && !rungs.contains(&(kind, line.rung)) {
                rungs.push((kind, line.rung));
            }
            let number = rungs.iter().filter(|r| r.0 == kind).position(|r| r.1 == line.rung).unwrap_or(0);
            let name = name(run, line.rung);
            let label = if self.runs.len() > 1 { vec![name, self.tags[line.run].clone()] } else { vec![name] };
            let (stroke, marker) = match kind {
                _ if is_rest => (Stroke::new(Paint::faded(GREY, 0.45), 1.0), Marker::Dot),
                Kind::Kernels => look(number, line.run, kind.tones()),
                _ => dashed_look(number, line.run, kind.tones()),
            };
            let mut each: Vec<Facts> = line.points.iter().map(|(_, m, us)| self.facts(run, m, *us)).collect();
            out.push(Series {
                label,
                names: 1,
                points: line.points.iter().map(|(x, m, us)| (*x, self.value_of(run, m, *us))).collect(),
                stroke,
                marker: Some(marker),
                scattered: false,
                apart: self.apart(line),
                is_rest,
                broken: None,
                facts: Facts { rung: line.rung.to_owned(), samples: shared_samples(&mut each), ..Facts::default() },
                each,
            });
        }
        out
    }

    /// What the operations would take at the measured peak of arithmetic, where that says something: of FLOP/s, and where it bounds
    /// the work at some size; and what moving the problem's least bytes would take at each measured level of memory, at the sizes
    /// that it holds. What is no straight line on the chart is left out.
    fn guides(&self) -> Vec<Guide> {
        let problems = self.problems();
        let mut out = Vec::new();
        if !self.measure.is_timed() {
            return out;
        }
        for (i, run) in self.runs.iter().enumerate() {
            // The ceilings of a device that several records share are drawn once.
            if self.runs[..i].iter().any(|r| device(r) == device(run)) {
                continue;
            }
            let of = if self.devices_differ() { format!(" of {}", self.tags[i]) } else { String::new() };
            let of = text::elide(&of, 110.0, Font::SMALL.size, false);
            let mut add = |name: String, us: &dyn Fn(&Problem) -> Option<f64>| {
                let points =
                    problems.iter().filter_map(|p| Some((p.size() as f64, self.value(run, p, usable(us(p))?))));
                let points: Vec<(f64, f64)> = points.collect();
                if let ([first, .., last], true) = (points.as_slice(), out.len() < MAX_GUIDES)
                    && self.is_straight(&points)
                {
                    out.push(Guide { name, ends: [*first, *last] });
                }
            };
            let bounds = |p: &&Problem| run.least_time(p).is_some_and(|b| b.level.is_none());
            let arithmetic = run.arithmetic(self.main);
            let gpus = run.gpus_at(self.main);
            let all = |one: f64| usable(Some(one * f64::from(gpus)));
            if let Some((peak, dtype)) = arithmetic.and_then(|p| Some((all(p.flops_per_s())?, p.dtype)))
                && (self.measure.quantity == Quantity::Throughput || problems.iter().any(bounds))
            {
                let name = format!("{}{}{of}: {}", arithmetic_name(dtype), of_gpus(gpus), rate(peak));
                add(name, &|p| Some(p.flops as f64 / peak * 1e6));
            }
            for &level in &run.descriptor.levels {
                let peak = run.peaks.level_for(level, self.main.written_part());
                let Some(rate) = peak.and_then(|p| all(p.bytes_per_s())) else { continue };
                let level_name = level.label_on(run.environment.device.kind);
                let name = format!("{level_name}{}{of}: {}", of_gpus(gpus), bandwidth(rate));
                add(name, &|p| holds(run, level, p).then(|| p.bytes as f64 / rate * 1e6));
            }
        }
        out
    }

    /// Whether a guide is a straight line: on the two logarithmic axes of times, or level, as the axis of another quantity may be
    /// linear.
    fn is_straight(&self, points: &[(f64, f64)]) -> bool {
        let ([(x0, y0), .., (x1, y1)], over) = (points, self.measure.quantity) else { return false };
        points.iter().all(|(x, y)| {
            let along = (x / x0).ln() / (x1 / x0).ln();
            let on_line = if over == Quantity::Time { y0 * (y1 / y0).powf(along) } else { *y0 };
            (y / on_line - 1.0).abs() <= 0.1
        })
    }

    /// Whether a linear axis would press what the ceilings bound, or the lower values, into its lowest part.
    fn is_far(&self, values: &[f64], guides: &[Guide]) -> bool {
        let far_above = |ceiling: f64| ceiling > 0.0 && high(values) > 4.0 * ceiling;
        match self.measure.quantity {
            Quantity::Time => true,
            Quantity::Throughput => far_above(guides.iter().map(|g| g.ends[0].1).fold(0.0, f64::max)),
            Quantity::Bandwidth => {
                let written = self.main.written_part();
                let of = |run: &Run, l| {
                    run.peaks.level_for(l, written).map_or(0.0, warpbook_record::BandwidthPeak::bytes_per_s)
                };
                let levels = [MemoryLevel::Dram, MemoryLevel::L2];
                far_above(self.runs.iter().flat_map(|r| levels.map(|l| of(r, l))).fold(0.0, f64::max))
            }
            Quantity::SpeedUp | Quantity::ItemRate | Quantity::PeakMemory => {
                high(values) > LOG_FROM * values.iter().copied().fold(f64::INFINITY, f64::min)
            }
        }
    }

    fn devices_differ(&self) -> bool {
        self.runs.iter().any(|r| device(r) != device(self.runs[0]))
    }

    /// The axis of values, whether it is logarithmic, and the largest value that it is made for.
    fn y_axis(&self, series: &[Series], guides: &[Guide]) -> (Axis, bool, f64) {
        let ys: Vec<f64> = series.iter().flat_map(|s| &s.points).map(|p| p.1).collect();
        let over_time = self.measure.quantity == Quantity::Time;
        // The guides of DRAM and L2 are what lines are held against; what is far from all lines is not shown.
        let held = guides.iter().map(|g| g.ends[0].1).filter(|v| !over_time && *v < 4.0 * high(&ys));
        let all: Vec<f64> = ys.iter().copied().chain(held).collect();
        let log = self.is_far(&ys, guides);
        let y = match log {
            // Some of the way to the guides, and no line in a corner.
            true if !self.measure.is_timed() => Axis::doubling(all.iter().copied(), 0.08),
            false if !self.measure.is_timed() => Axis::from_zero([high(&all) * 1.04]).binary(),
            true if over_time => Axis::log(ys.iter().copied().chain(low_guide(guides, &ys)), 0.08),
            true => Axis::log(all.iter().copied(), 0.08),
            false => Axis::from_zero([high(&all) * 1.04]),
        };
        let y = match self.options.window {
            Some(w) => y.between(w.y),
            None => y,
        };
        (y, log, high(&all))
    }

    fn draw(self) -> Result<Chart, ChartError> {
        let (series, guides) = (self.series(), self.guides());
        let axis = &self.runs[0].descriptor.axis;
        let xs = self.points().map(|p| p.0);
        let x = if axis.doubling { Axis::doubling(xs, 0.03) } else { Axis::log(xs, 0.06) };
        let (y, log, highest) = self.y_axis(&series, &guides);
        let (caption, y_tick) = self.measure.axis(highest, log);
        let x = match self.options.window {
            Some(w) => x.between(w.x),
            None => x,
        };
        let frame = self.frame(&series, guides.iter().filter(|g| g.is_seen(&x, &y)), log);
        let relative = match self.measure.quantity {
            Quantity::SpeedUp => format!(" over {}", self.baseline_name()),
            _ => String::new(),
        };
        let direction = if self.measure.less_is_better() { "lower" } else { "higher" };
        let scale = if log { "; logarithmic scale" } else { "" };
        Lines {
            series,
            guides,
            zoom: true,
            x,
            y,
            x_tick: if axis.doubling { whole } else { count },
            y_tick,
            x_caption: format!("{}; logarithmic scale", axis_caption(self.runs[0])),
            y_caption: format!("{caption}{relative}, {direction} is better{scale}"),
            frame,
        }
        .draw()
    }

    fn frame<'g>(&self, series: &[Series], seen: impl Iterator<Item = &'g Guide>, log: bool) -> Frame {
        let first = self.runs[0];
        let what = format!("{} over size", self.measure.name());
        let devices = devices(self.runs);
        let title = self.claim().unwrap_or_else(|| format!("{}: {what}", heading(first)));
        let timed = self.measure.is_timed();
        let medians = if timed { medians(self.points().map(|p| p.1)) } else { String::new() };
        let l2 = if timed { l2(first).to_owned() } else { String::new() };
        // A record of a single line may name it as itself.
        let line = Some(line_label(self.main)).filter(|line| *line != heading(first)).unwrap_or_default();
        // The axis of sizes always is logarithmic.
        let axes = if log { "both axes logarithmic" } else { "" };
        let of = format!("{}: {what}", heading(first));
        let subtitle = joined([of, devices.clone(), line.clone(), medians, l2, axes.to_owned()]);
        let mut notes = Vec::new();
        if self.devices_differ() {
            notes.push(format!("The records are of different devices: {devices}."));
        }
        notes.extend(timing_note(self.runs, self.main));
        if self.left_out > 0 {
            let what = counted(self.left_out, "measurement");
            notes.push(format!("Drawn is the sweep of {line}; {what} of other work left out."));
        }
        notes.extend(notes_of_lines(series));
        notes.extend(self.note_of_guides(seen));
        match timed {
            true => notes.extend(policy_note(first, false)),
            false => notes.push(OF_PEAK_MEMORY.to_owned()),
        }
        notes.extend(self.note_of_uncounted());
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
        let width = self.options.px();
        Frame { width, title, subtitle, description: self.description(&what, &devices), notes, table: self.table() }
    }

    /// Who is the fastest at most sizes, as "Stores overlapped is the fastest at 5 of 7 sizes", or takes how much of the baseline's memory at the
    /// largest; of several records nothing.
    fn claim(&self) -> Option<String> {
        if !self.measure.is_timed() {
            let largest = self.problems().last().copied().filter(|_| self.runs.len() == 1)?;
            let claim = claim_of_memory(self.runs[0], largest, |id| self.lines.iter().any(|l| l.rung == id))?;
            return Some(format!("{claim} at {}", size_label(self.runs[0], largest)));
        }
        let (rung, sizes) = self.winners(TIE).into_iter().next().filter(|_| self.runs.len() == 1)?;
        let (name, all) = (name(self.runs[0], rung), self.problems().len());
        let of = if self.chosen.is_some() { " of those drawn" } else { "" };
        Some(match sizes == all {
            true => format!("{name} is the fastest{of} at all {all} sizes"),
            false => format!("{name} is the fastest{of} at {sizes} of {all} sizes"),
        })
    }

    /// Who has a time and no such figure.
    fn note_of_uncounted(&self) -> Option<String> {
        let problems = self.problems();
        let mut names: Vec<String> = Vec::new();
        for (run, m) in self.runs.iter().flat_map(|run| run.measurements.iter().map(move |m| (*run, m))) {
            let is_chosen = self.chosen.is_none_or(|ids| ids.contains(&m.rung.as_str()));
            let lacks = verdict(run, m).is_ok() && self.measure.verdict(run, m).is_err();
            if is_chosen && lacks && problems.contains(&&m.problem) && !names.contains(&name(run, &m.rung)) {
                names.push(name(run, &m.rung));
            }
        }
        names.truncate(MAX_ENTRIES);
        (!names.is_empty()).then(|| format!("Not counted: {}.", listed(&names)))
    }

    /// What the dotted lines are that are seen.
    fn note_of_guides<'g>(&self, seen: impl Iterator<Item = &'g Guide>) -> Option<String> {
        let guides: Vec<&str> = seen.map(|g| &*g.name).collect();
        let names = guides.join(", ");
        let each = if self.main.passes > 1 { format!("once per {}", pass(self.runs[0])) } else { "once".into() };
        let moving = format!("moving inputs and results {each}");
        let arithmetic = arithmetic_name(self.main.dtype);
        let of_arithmetic = guides.iter().filter(|g| g.starts_with(&arithmetic)).count();
        let of_memory = guides.len() - of_arithmetic;
        let sizes = "at the sizes that it holds";
        let what = match self.measure.quantity {
            _ if guides.is_empty() => return None,
            Quantity::Bandwidth if of_arithmetic == 0 => {
                format!("the measured bandwidth of a level of memory, {sizes}")
            }
            Quantity::Time if of_arithmetic == 0 => {
                format!("{moving} at the measured bandwidth of a level of memory, {sizes}")
            }
            Quantity::Time => {
                format!(
                    "the operations at the measured peak, and {moving} at the measured bandwidth of a level of memory"
                )
            }
            Quantity::Throughput if of_memory == 0 => "the measured peak".into(),
            Quantity::Throughput => format!("the measured peak, and what {moving} at a measured bandwidth allows"),
            _ => "what the measured ceilings allow".into(),
        };
        Some(format!("Dotted: {what} ({names})."))
    }

    fn description(&self, what: &str, devices: &str) -> String {
        let first = self.runs[0];
        let problems = self.problems();
        let (low, high) = match problems.as_slice() {
            [low, .., high] => (*low, *high),
            _ => (self.main, self.main),
        };
        // Of what is drawn.
        let at_largest = self.runs.iter().enumerate().filter_map(|(i, run)| {
            let lines = || self.lines.iter().filter(move |l| l.run == i);
            let at = |l: &Line<'a>| l.points.iter().find(|p| p.0 == high.size() as f64).map(|p| &p.1.problem);
            let (problem, is_drawn) = (lines().find_map(at)?, |id: &str| lines().any(|l| l.rung == id));
            let (m, us) = match self.measure.is_timed() {
                true => run.fastest_of(problem, |r| is_drawn(&r.id))?,
                false => least_memory(run, problem, is_drawn)?,
            };
            Some((*run, m, us))
        });
        let best = at_largest.min_by(|a, b| a.2.total_cmp(&b.2)).map_or(String::new(), |(run, m, us)| {
            let shown = self.measure.text(self.value_of(run, m, us));
            let best = if self.measure.is_timed() { "is fastest with" } else { "takes the least with" };
            format!("; at the largest size {} {best} {shown}", name(run, &m.rung))
        });
        let has_unit = !clean(&first.descriptor.axis.unit).is_empty();
        let from = if has_unit { size_number(first, low.size()) } else { size_label(first, low) };
        format!(
            "Lines of the {what} from {from} to {} of {} on {devices}{best}.",
            size_label(first, high),
            counted(self.lines.len(), "rung")
        )
    }

    fn table(&self) -> Table {
        let several = self.runs.len() > 1;
        let record = several.then(|| "record".to_owned());
        let shown = self.measure.or_rate(self.runs[0]);
        let (rate, unit) = shown.in_file();
        // What is no rate has a column of its own.
        let own =
            matches!(self.measure.quantity, Quantity::SpeedUp | Quantity::PeakMemory).then(|| self.measure.in_file());
        let headers = ["rung".to_owned(), axis_caption(self.runs[0]), "time (ms)".into(), "MAD (ms)".into(), rate];
        let bound = ["% of bound".to_owned(), "bound by".into()];
        let mut table = Table::new(record.into_iter().chain(headers).chain(bound).chain(own.clone().map(|o| o.0)));
        for line in &self.lines {
            let run = self.runs[line.run];
            for (_, m, us) in &line.points {
                let fraction = run.fraction_of_bound(m).filter(|f| f.is_finite());
                let value = Some(shown.of(m, *us, None) / unit).filter(|v| *v > 0.0);
                let cells = [
                    m.rung.clone(),
                    m.problem.size().to_string(),
                    significant(us / 1e3, 5),
                    m.mad_us().map(|d| significant(d / 1e3, 2)).unwrap_or_default(),
                    value.map(|v| significant(v, 4)).unwrap_or_default(),
                    fraction.map(|f| significant(f * 100.0, 3)).unwrap_or_default(),
                    fraction.and(run.bound(m)).map_or("", |b| b.label()).to_owned(),
                ];
                let over = own.as_ref().map(|(_, unit)| significant(self.value_of(run, m, *us) / unit, 4));
                table.push(several.then(|| self.tags[line.run].clone()).into_iter().chain(cells).chain(over));
            }
        }
        table
    }
}

/// What the sizes are, as "points".
fn axis_caption(run: &Run) -> String {
    let caption = clean(&run.descriptor.axis.caption);
    if caption.is_empty() { "size".into() } else { caption }
}

/// The problems of a record on the line of one of them, one for each size: of several of one size that which differs from it in
/// fewest of its sizes and settings, as the learning rate.
fn problems_along<'a>(run: &'a Run, main: &Problem) -> Vec<&'a Problem> {
    let differing = |p: &Problem| p.sizes.iter().filter(|s| !main.sizes.contains(s)).count();
    let mut out: Vec<&Problem> = Vec::new();
    for p in run.problems().into_iter().filter(|p| p.size() > 0 && p.same_line(main)) {
        match out.iter_mut().find(|o| o.size() == p.size()) {
            Some(other) if differing(p) < differing(other) => *other = p,
            Some(_) => {}
            None => out.push(p),
        }
    }
    out
}

/// The least time of the slowest guide, or a quarter of the lines' least if that is more.
fn low_guide(guides: &[Guide], values: &[f64]) -> Option<f64> {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    Some(guides.first()?.ends[0].1.max(low / 4.0))
}

fn high(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// Whether a level of memory holds what a problem reads in each pass. Registers and shared memory of all SMs hold it together.
fn holds(run: &Run, level: MemoryLevel, problem: &Problem) -> bool {
    let device = &run.environment.device;
    match level {
        MemoryLevel::Dram => true,
        MemoryLevel::L2 => run.ceiling(problem).is_some_and(|c| c.level == level),
        _ => {
            let registers = device.registers_per_multiprocessor.map(|n| n.saturating_mul(4));
            let each = device.shared_bytes_per_multiprocessor.zip(registers).map(|(a, b)| a.saturating_add(b));
            let all = each.map(|b| b.saturating_mul(u64::from(device.multiprocessors)));
            all.is_none_or(|b| problem.working_set_bytes <= b)
        }
    }
}

/// The problem whose line is drawn: the record's main one, or that of most valid measurements where the main has none or lies on
/// another line than is asked for.
fn main_of<'a>(run: &'a Run, along: Along<'_>) -> Option<&'a Problem> {
    let valid = |p: &Problem| run.measurements.iter().filter(|m| m.problem == *p && verdict(run, m).is_ok()).count();
    let drawn = |p: &&Problem| along.includes(p) && valid(p) > 0;
    let main = run.main_problem().filter(drawn);
    main.or_else(|| run.problems().into_iter().filter(drawn).rev().max_by_key(|p| valid(p)))
}

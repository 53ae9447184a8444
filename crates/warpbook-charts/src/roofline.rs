mod kernels;
mod points;

pub use kernels::kernel_roofline;
pub(crate) use kernels::kernel_roofline_with;
pub use kernels::kernel_rungs;
pub use points::{RoofLine, RoofPoint, RooflinePoints, roofline_points};

use crate::canvas::{At, Canvas, Drawn, Font, Frame, MARGIN, Marker, Paint, Stroke};
use crate::common::{
    MAX_ENTRIES, arithmetic_name, bound, device, heading, joined, l2, label, medians, name, names, of_bound,
    policy_note, usable, verdict,
};
use crate::facts::Facts;
use crate::labels::{Along, Area, PointLabel, Room, Xy};
use crate::options::{Options, is_narrow};
use crate::palette::{Kind, Rgb};
use crate::text::{self, clean};
use crate::ticks::{Axis, plot_words};
use crate::words::{bandwidth, counted, listed, percent, plain, rate, rate_tick, significant};
use crate::{Chart, ChartError, Table};
use warpbook_record::{Bound, Dtype, LadderRow, Measurement, MemoryLevel, Problem, Run, Runner};

/// FLOP/s over FLOP/byte on logarithmic axes: each rung of kernels below the measured roof of the level of memory that it works
/// from, all roofs ending at the highest of the measured peaks of arithmetic: those with the problem's type and with the types of the points.
/// If fp32 is not among these and its peak is lower, as next to tensor cores, its peak is drawn too, for rungs without tensor cores.
///
/// A rung's level is the one that bounds it, or, if arithmetic does, the one where it moves the most bytes. Rungs whose bytes were not counted are
/// left out, and named. Points are numbered from the fastest on, and named next to the plot, or below a narrow one.
///
/// # Errors
/// [`ChartError::NothingToDraw`] where the record has no measurement of the problem, no measured bandwidth, or no valid
/// rung of the device whose bytes were counted.
pub fn roofline(run: &Run, problem: &Problem) -> Result<Chart, ChartError> {
    roofline_with(&Options::default(), run, problem)
}

pub(crate) fn roofline_with(options: &Options, run: &Run, problem: &Problem) -> Result<Chart, ChartError> {
    let mut roofs = match roofs_and_points(options, run, problem) {
        Ok(roofs) => roofs,
        // A profile has no rung with a figure: its operations are the points.
        Err(why) => return kernel_roofline_with(options, run, problem, None).map_err(|_| why),
    };
    roofs.points.sort_by(|a, b| b.flops_per_s().total_cmp(&a.flops_per_s()));
    roofs.draw()
}

/// What is drawn of a problem; errors as [`roofline`].
fn roofs_and_points<'a>(options: &'a Options, run: &'a Run, problem: &'a Problem) -> Result<Roofs<'a>, ChartError> {
    let nothing = |why: String| Err(ChartError::NothingToDraw(why));
    let rows = run.ladder(problem);
    if rows.is_empty() {
        return nothing(format!("The record has no measurement of {}.", label(problem)));
    }
    let roofs = roofs(run, problem);
    if roofs.is_empty() {
        return nothing("No bandwidth of a level of memory was measured for the record, so it has no roofline.".into());
    }
    let mut points = Vec::new();
    let mut uncounted = Vec::new();
    let mut invalid = 0;
    for row in rows.iter().filter(|r| run.on_device(r.measurement)) {
        match point(run, row) {
            Some(p) => points.push(p),
            None if verdict(run, row.measurement).is_err() => invalid += 1,
            None => uncounted.push(name(run, &row.measurement.rung)),
        }
    }
    if points.is_empty() {
        return nothing(format!(
            "No valid rung of {} has its bytes counted at {}, so there is nothing to draw below its roofs.",
            device(run),
            label(problem)
        ));
    }
    let mut all = Roofs {
        options,
        run,
        problem,
        roofs,
        dtypes: vec![problem.dtype],
        peaks: Vec::new(),
        lower: false,
        points,
        uncounted,
        invalid,
        noun: "rung",
        of_rung: String::new(),
    };
    all.set_peaks();
    Ok(all)
}

/// The measured ceiling of a level of memory.
struct Roof {
    level: MemoryLevel,
    bytes_per_s: f64,
    datasheet: Option<f64>,
}

/// The ceiling of arithmetic with elements of a type.
struct Peak {
    dtype: Dtype,
    flops_per_s: f64,
    datasheet: Option<f64>,
}

struct Point<'a> {
    measurement: &'a Measurement,
    us: f64,
    level: MemoryLevel,
    /// The bytes moved at that level.
    bytes: u64,
    bound: Option<(Bound, f64)>,
}

/// From the fastest to the slowest.
fn roofs(run: &Run, problem: &Problem) -> Vec<Roof> {
    let mut out: Vec<Roof> = Vec::new();
    for level in run.peaks.bandwidth.iter().map(|p| p.level) {
        let Some(p) = run.peaks.level_for(level, problem.written_part()) else { continue };
        let Some(bytes_per_s) = usable(Some(p.bytes_per_s())) else { continue };
        // If a level has two, the first counts, as for a bound.
        if out.iter().all(|r| r.level != p.level) {
            out.push(Roof { level: p.level, bytes_per_s, datasheet: usable(p.datasheet_bytes_per_s) });
        }
    }
    out.sort_by(|a, b| b.bytes_per_s.total_cmp(&a.bytes_per_s));
    out.truncate(MAX_ENTRIES);
    out
}

fn peak(run: &Run, dtype: Dtype) -> Option<Peak> {
    let p = run.peaks.compute.iter().find(|p| p.dtype == dtype)?;
    let flops_per_s = usable(Some(p.flops_per_s()))?;
    Some(Peak { dtype, flops_per_s, datasheet: usable(p.datasheet_flops_per_s) })
}

impl Peak {
    fn name(&self) -> String {
        arithmetic_name(self.dtype)
    }
}

/// `None` for a rung without a valid time or counted bytes, and for another framework's.
fn point<'a>(run: &Run, row: &LadderRow<'a>) -> Option<Point<'a>> {
    let m = row.measurement;
    let us = verdict(run, m).ok()?;
    let elsewhere = matches!(row.rung.map(|r| &r.runner), Some(Runner::External(_) | Runner::Cpu(_)));
    if elsewhere || m.operations() == 0 || run.repeats_a_rung(m) {
        return None;
    }
    let bounded = run.bound(m);
    let most = m.traffic.iter().filter(|t| t.bytes > 0).max_by_key(|t| t.bytes)?.level;
    let level = bounded.and_then(|b| b.level).unwrap_or(most);
    let bytes = m.traffic.iter().find(|t| t.level == level && t.bytes > 0)?.bytes;
    Some(Point { measurement: m, us, level, bytes, bound: bound(run, row) })
}

impl Point<'_> {
    /// The operations of one GPU, if there are several: the roofs are for one GPU.
    fn operations(&self) -> f64 {
        self.measurement.operations() as f64 / f64::from(self.measurement.gpus())
    }

    /// The bytes of one GPU; on the link the bytes of all, which every GPU waits for.
    fn bytes(&self) -> f64 {
        let gpus = if self.level == MemoryLevel::Link { 1 } else { self.measurement.gpus() };
        self.bytes as f64 / f64::from(gpus)
    }

    fn intensity(&self) -> f64 {
        self.operations() / self.bytes()
    }

    fn flops_per_s(&self) -> f64 {
        self.operations() / (self.us * 1e-6)
    }

    /// As in "62 % of shared memory's bound".
    fn of_bound(&self) -> Option<String> {
        self.bound.map(|(b, f)| of_bound(&b, f))
    }
}

struct Roofs<'a> {
    options: &'a Options,
    run: &'a Run,
    problem: &'a Problem,
    roofs: Vec<Roof>,
    /// The types that the work is done in.
    dtypes: Vec<Dtype>,
    /// Their measured peaks, the highest first: that is where the roofs of memory end.
    peaks: Vec<Peak>,
    /// `true` if `peaks` also has the lower peak of fp32, which some rungs use instead of tensor cores.
    lower: bool,
    points: Vec<Point<'a>>,
    /// Titles of valid rungs whose bytes were not counted.
    uncounted: Vec<String>,
    invalid: usize,
    /// The noun for a point: "rung" or "kernel".
    noun: &'static str,
    /// The rung that all points belong to; empty if the points are rungs.
    of_rung: String,
}

const X_CAPTION: &str = "FLOP/byte of the rung's level of memory; logarithmic scale";
const HEIGHT: f64 = 430.0;
const NARROW_HEIGHT: f64 = 300.0;
const NAME: Font = Font { paint: Paint::INK, ..Font::SMALL };
const KEY_LINE: f64 = 17.0;
/// The longest name of a key.
const KEY: f64 = 215.0;
/// Number and marker before a name.
const SAMPLE: f64 = 38.0;

/// Where plot and keys are.
struct Place {
    plot: Area,
    /// Left and top of the keys, from the plot's top.
    keys: Xy,
    /// What names may take.
    room: f64,
    /// The height of all of it.
    height: f64,
}

struct Layout {
    lines: Vec<((Xy, Xy), Facts)>,
    along: Vec<(String, Along)>,
    points: Vec<Dot>,
    /// Lines without a name and points without a number.
    unnamed: usize,
}

/// A point as it is drawn.
struct Dot {
    at: Xy,
    shape: Marker,
    color: Rgb,
    facts: Facts,
    number: String,
    label: Option<PointLabel>,
    /// As "Persistent · 87 %".
    name: String,
    /// Why it is beyond its bound, in lines; of most empty.
    remark: Vec<String>,
}

impl Dot {
    fn key_height(&self) -> f64 {
        KEY_LINE + self.remark.len() as f64 * 15.0 + if self.remark.is_empty() { 0.0 } else { 4.0 }
    }
}

impl Roofs<'_> {
    /// Adds the types of the points, and the peaks of all types.
    fn set_peaks(&mut self) {
        for dtype in self.points.iter().map(|p| p.measurement.arithmetic_type()) {
            if !self.dtypes.contains(&dtype) {
                self.dtypes.push(dtype);
            }
        }
        self.peaks = self.dtypes.iter().filter_map(|dtype| peak(self.run, *dtype)).collect();
        let highest = self.peaks.iter().map(|p| p.flops_per_s).fold(0.0, f64::max);
        let fp32 = peak(self.run, Dtype::F32).filter(|_| !self.dtypes.contains(&Dtype::F32));
        let fp32 = fp32.filter(|p| self.peaks.is_empty() || p.flops_per_s < highest);
        self.lower = fp32.is_some();
        self.peaks.extend(fp32);
        self.peaks.sort_by(|a, b| b.flops_per_s.total_cmp(&a.flops_per_s));
    }

    fn axes(&self) -> (Axis, Axis) {
        let xs: Vec<f64> = self.points.iter().map(Point::intensity).collect();
        let ys: Vec<f64> = self.points.iter().map(Point::flops_per_s).collect();
        let low = |v: &[f64]| v.iter().copied().fold(f64::INFINITY, f64::min);
        let high = |v: &[f64]| v.iter().copied().fold(0.0, f64::max);
        let (mut left, mut right) = (low(&xs) / 1.8, high(&xs) * 10.0);
        let top = match self.peaks.first() {
            Some(p) => {
                let ridges: Vec<f64> = self.roofs.iter().map(|r| p.flops_per_s / r.bytes_per_s).collect();
                // So that a piece of the steepest roof is seen, and the peak to the right of the flattest.
                (left, right) = (left.min(low(&ridges) / 7.0), right.max(high(&ridges) * 4.0));
                p.flops_per_s.max(high(&ys)) * 1.6
            }
            None => self.roofs.iter().map(|r| r.bytes_per_s * right).fold(high(&ys), f64::max),
        };
        let bottom = self.peaks.iter().skip(1).map(|p| p.flops_per_s * 0.7).fold(low(&ys) / 2.0, f64::min);
        let (x, y) = (Axis::log([left, right], 0.0), Axis::log([bottom, top], 0.0));
        let ticks = if is_narrow(self.options.px()) { 4 } else { 7 };
        match self.options.window {
            Some(w) => (x.between(w.x).with_ticks(ticks), y.between(w.y).with_ticks(7)),
            None => (x.with_ticks(ticks), y.with_ticks(7)),
        }
    }

    fn draw(self) -> Result<Chart, ChartError> {
        let (x, y) = self.axes();
        let width = self.options.px();
        let narrow = is_narrow(width);
        let y_labels = y.ticks.iter().map(|t| Font::SMALL.width(&rate_tick(*t))).fold(0.0, f64::max);
        let left = MARGIN + y_labels.clamp(20.0, 110.0) + 8.0;
        let names = self.points.iter().map(|p| NAME.width(&self.key(p))).fold(60.0, f64::max).min(KEY);
        let right = if narrow { width - MARGIN } else { width - MARGIN - names - SAMPLE - 14.0 };
        let room = if narrow { width - 2.0 * MARGIN - SAMPLE } else { names };
        let height = if narrow { NARROW_HEIGHT } else { HEIGHT };
        let plot = Area { left, right, top: 0.0, bottom: height };
        let layout = self.layout((&x, &y), plot, room);
        let listed: f64 = layout.points.iter().map(Dot::key_height).sum();
        let caption = text::wrap(X_CAPTION, right - left, Font::SMALL.size, false, 2).len() as f64 * 16.0;
        let keys = if narrow { (MARGIN, height + 36.0 + caption) } else { (right + 14.0, 8.0) };
        let height = if narrow { keys.1 + listed } else { (height + 24.0 + caption).max(keys.1 + listed) };
        let place = Place { plot, keys, room, height };
        let shapes = self.shapes(&layout, width);
        let above = 22.0 + shapes.len() as f64 * 18.0;
        self.frame(layout.unnamed).draw(above + place.height, |canvas, top| {
            draw_shapes(canvas, &shapes, top + 26.0)?;
            draw_axes(canvas, (&x, &y), &place.plot, (top, top + above))?;
            self.draw_layout(canvas, &layout, top + above)?;
            draw_keys(canvas, &layout.points, &place, top + above)
        })
    }

    /// A point as the keys have it: its name and the share of its bound.
    fn key(&self, p: &Point<'_>) -> String {
        let title = text::elide(&name(self.run, &p.measurement.rung), 165.0, NAME.size, false);
        p.bound.map_or_else(|| title.clone(), |(_, f)| format!("{title} · {}", percent(f)))
    }

    /// The levels of memory of the points that are seen, each with its marker, broken into lines with their places.
    fn shapes(&self, layout: &Layout, width: f64) -> Vec<Vec<(Marker, String, f64)>> {
        let mut seen: Vec<&str> = Vec::new();
        let mut lines: Vec<Vec<(Marker, String, f64)>> = Vec::new();
        let mut x = f64::INFINITY;
        for (series, shape) in layout.points.iter().map(|d| (d.facts.series.as_str(), d.shape)) {
            if seen.contains(&series) {
                continue;
            }
            seen.push(series);
            let entry = format!("works from {series}");
            let room = 16.0 + Font::NOTE.width(&entry) + 16.0;
            if x + room > width - MARGIN {
                lines.push(Vec::new());
                x = MARGIN;
            }
            if let Some(line) = lines.last_mut() {
                line.push((shape, series.to_owned(), x));
            }
            x += room;
        }
        lines
    }

    /// Where roofs, points and their names are, from the plot's top.
    fn layout(&self, (x, y): (&Axis, &Axis), plot: Area, names: f64) -> Layout {
        let place = |(a, b): Xy| (x.place_beyond(a, plot.left, plot.right), y.place_beyond(b, plot.bottom, plot.top));
        let mut room = Room::new(plot);
        let mut lines = Vec::new();
        for peak in &self.peaks {
            let begin = self.roofs.first().map_or(x.low(), |r| peak.flops_per_s / r.bytes_per_s);
            let line = (place((begin, peak.flops_per_s)), place((x.high(), peak.flops_per_s)));
            let text = format!("{}: {}", peak.name(), rate(peak.flops_per_s));
            lines.extend(plot.clip(line).map(|seen| (seen, Facts::reference(text))));
        }
        for roof in &self.roofs {
            let end = self.peaks.first().map_or(x.high(), |p| p.flops_per_s / roof.bytes_per_s);
            let begin = x.low().min(end) / 10.0;
            let line = (place((begin, begin * roof.bytes_per_s)), place((end, end * roof.bytes_per_s)));
            let text = format!("{}: {}", roof.level.label(), bandwidth(roof.bytes_per_s));
            let facts = Facts { series: roof.level.label().into(), ..Facts::reference(text) };
            lines.extend(plot.clip(line).map(|seen| (seen, facts)));
        }
        let drawn = self.points.iter().take(MAX_ENTRIES).enumerate();
        let drawn: Vec<(usize, &Point<'_>, Xy)> =
            drawn.map(|(i, p)| (i, p, place((p.intensity(), p.flops_per_s())))).filter(|d| plot.has(d.2)).collect();
        lines.iter().for_each(|((a, b), _)| room.line(&[*a, *b]));
        drawn.iter().for_each(|(_, _, at)| room.marker(*at));
        let mut along = Vec::new();
        for (line, facts) in &lines {
            // The name alone where there is no room for the figure.
            let short = facts.value.split(':').next().unwrap_or_default().to_owned();
            let found = [facts.value.clone(), short]
                .into_iter()
                .find_map(|text| Some((room.along(*line, NAME.width(&text), 1.0)?, text)));
            along.extend(found.map(|(at, text)| (text, at)));
        }
        let mut dot = |(i, p, at): &(usize, &Point<'_>, Xy)| {
            let number = (i + 1).to_string();
            Dot {
                at: *at,
                shape: shape(p.level),
                color: Kind::of(self.run, &p.measurement.rung).color(),
                facts: self.facts(p),
                label: room.point_label(*at, NAME.width(&number)),
                number,
                name: self.key(p),
                remark: text::wrap(&self.beyond(p), names, Font::SMALL.size, false, 5),
            }
        };
        let points: Vec<Dot> = drawn.iter().map(&mut dot).collect();
        let unnamed = lines.len() - along.len() + points.iter().filter(|d| d.label.is_none()).count();
        Layout { lines, along, points, unnamed }
    }

    /// Why a point is beyond its bound, where it is.
    fn beyond(&self, p: &Point<'_>) -> String {
        let Some((of, _)) = p.bound.filter(|(_, share)| *share > 1.0) else { return String::new() };
        let why = clean(&self.run.descriptor.above_bound);
        match why.is_empty() || of.level.is_none() {
            true => "above the measured ceilings, which are no limit of the device".into(),
            false => format!("above 100 %: {}", why.trim_end_matches('.')),
        }
    }

    fn facts(&self, p: &Point<'_>) -> Facts {
        let share = p.of_bound().map_or(String::new(), |text| format!(" · {text}"));
        let dtype = match self.dtypes.len() {
            0 | 1 => String::new(),
            _ => format!(" of {}", p.measurement.arithmetic_type().label()),
        };
        let value = format!("{}{dtype} at {} FLOP/byte{share}", rate(p.flops_per_s()), significant(p.intensity(), 3));
        Facts {
            name: names(self.run, &p.measurement.rung).0,
            problem: String::new(),
            series: p.level.label().into(),
            ..Facts::measured(p.measurement, value)
        }
    }

    fn draw_layout(&self, canvas: &Canvas<'_>, layout: &Layout, top: f64) -> Drawn {
        let down = |(x, y): Xy| (x, y + top);
        for ((a, b), facts) in &layout.lines {
            canvas.marked(facts, || canvas.line(&[down(*a), down(*b)], Stroke::new(Paint::MUTED, 1.5)))?;
        }
        for dot in &layout.points {
            if let Some(end) = dot.label.and_then(|l| l.leader) {
                canvas.line(&[down(dot.at), down(end)], Stroke::new(Paint { alpha: 0.45, ..Paint::INK }, 0.8))?;
            }
        }
        canvas.marked(&Facts::of_problem(self.problem), || {
            // The fastest on top.
            for dot in layout.points.iter().rev() {
                canvas.marked(&dot.facts, || canvas.marker(dot.shape, down(dot.at), Paint::solid(dot.color)))?;
            }
            Ok(())
        })?;
        for (text, at) in &layout.along {
            canvas.turned(text, down(at.middle), at.degrees, NAME)?;
        }
        for dot in &layout.points {
            if let Some(label) = dot.label {
                canvas.text(&dot.number, down(label.left), At::Left, NAME)?;
            }
        }
        Ok(())
    }

    fn frame(&self, unnamed: usize) -> Frame {
        let run = self.run;
        let medians = medians(self.points.iter().map(|p| p.measurement));
        let mut notes = vec![
            "Numbers: from the fastest on. A point has the marker of the level of memory that it works from, and lies below that \
             level's roof. %: of its bound, the least time that its own bytes and operations allow."
                .to_owned(),
        ];
        notes.extend(policy_note(run, false));
        if self.points.iter().any(|p| p.measurement.gpus() > 1) {
            notes.push(
                "Of rungs on several GPUs, FLOP/s and FLOP/byte are those of each GPU, as the roofs are; all bytes of the link \
                 count, as they cross the one of the first GPU."
                    .into(),
            );
        }
        if !self.uncounted.is_empty() {
            let shown: Vec<String> = self.uncounted.iter().take(MAX_ENTRIES).cloned().collect();
            notes.push(format!("Left out, as their bytes were not counted: {}.", listed(&shown)));
        }
        if self.invalid > 0 {
            notes.push(format!("{} without a valid figure; the ladder says why.", counted(self.invalid, "rung")));
        }
        let unknown = self.dtypes.iter().filter(|dtype| self.peaks.iter().all(|p| p.dtype != **dtype));
        notes.extend(unknown.map(|dtype| format!("The peak of {} was not measured.", arithmetic_name(*dtype))));
        if self.dtypes.len() > 1 {
            notes.push("A point lies below the peak of its own type of arithmetic, which its figures name.".into());
        }
        if self.lower {
            notes.push(format!("The peak of {} is that of rungs without tensor cores.", arithmetic_name(Dtype::F32)));
        }
        if self.points.len() > MAX_ENTRIES {
            notes.push(format!("{} of {} points are drawn; the table has all.", MAX_ENTRIES, self.points.len()));
        }
        if unnamed > 0 {
            notes.push(format!("{} found no room; the table has all.", counted(unnamed, "name")));
        }
        Frame {
            width: self.options.px(),
            title: self.claim().unwrap_or_else(|| format!("{}: roofline", heading(run))),
            subtitle: joined([
                format!("{}: roofline", heading(run)),
                self.of_rung.clone(),
                device(run),
                label(self.problem),
                medians,
                l2(run).to_owned(),
            ]),
            description: self.description(),
            notes,
            table: self.table(),
        }
    }

    /// How near the fastest comes to its bound.
    fn claim(&self) -> Option<String> {
        let of_all = |p: &&Point<'_>| !p.measurement.does_less() && p.bound.is_some();
        let fastest = self.points.iter().filter(of_all).min_by(|a, b| a.us.total_cmp(&b.us))?;
        let (bound, share) = fastest.bound?;
        let name = name(self.run, &fastest.measurement.rung);
        Some(match share {
            s if s > 1.0 => format!("{name} is beyond the measured bound, at {}", of_bound(&bound, s)),
            s if s >= 0.8 => format!("{name} is near its limit, at {}", of_bound(&bound, s)),
            s => format!("{name} has room left, at {}", of_bound(&bound, s)),
        })
    }

    fn description(&self) -> String {
        let run = self.run;
        let mut roofs: Vec<String> =
            self.roofs.iter().map(|r| format!("{} {}", r.level.label(), bandwidth(r.bytes_per_s))).collect();
        roofs.extend(self.peaks.iter().map(|p| format!("{} {}", p.name(), rate(p.flops_per_s))));
        let fastest = self.points.iter().max_by(|a, b| a.flops_per_s().total_cmp(&b.flops_per_s()));
        let nearest = self.points.iter().filter_map(|p| Some((p, p.bound?.1))).max_by(|a, b| a.1.total_cmp(&b.1));
        let fastest = fastest.map_or(String::new(), |p| {
            format!("; {} reaches the most FLOP/s, {}", name(run, &p.measurement.rung), rate(p.flops_per_s()))
        });
        let nearest = nearest.and_then(|(p, _)| {
            Some(format!("; nearest to its roof is {} with {}", name(run, &p.measurement.rung), p.of_bound()?))
        });
        format!(
            "Points of {} on {}, {}, by FLOP/byte and FLOP/s, below the measured roofs of {}{fastest}{}.",
            counted(self.points.len(), self.noun),
            device(run),
            label(self.problem),
            listed(&roofs),
            nearest.unwrap_or_default()
        )
    }

    fn table(&self) -> Table {
        let first = format!("roof or {}", self.noun);
        let mut table = Table::new([
            first.as_str(),
            "title",
            "level",
            "bytes moved there",
            "FLOP",
            "FLOP/byte",
            "GFLOP/s",
            "GB/s",
            "least time (ms)",
            "time (ms)",
            "% of bound",
            "bound by",
            "datasheet",
            "arithmetic",
        ]);
        let flops = self.peaks.first().map(|p| p.flops_per_s);
        let digits = |v: Option<f64>, n| v.map(|v| significant(v, n)).unwrap_or_default();
        for r in &self.roofs {
            let mut cells = vec![String::new(); 14];
            cells[0] = "roof".into();
            cells[1] = format!("{}, measured", r.level.label());
            cells[2] = r.level.label().into();
            cells[5] = digits(flops.map(|f| f / r.bytes_per_s), 4);
            cells[6] = digits(flops.map(|f| f / 1e9), 4);
            cells[7] = significant(r.bytes_per_s / 1e9, 4);
            cells[12] = r.datasheet.map(bandwidth).unwrap_or_default();
            table.push(cells);
        }
        for p in &self.peaks {
            let mut cells = vec![String::new(); 14];
            cells[0] = "roof".into();
            cells[1] = format!("{}, measured", p.name());
            cells[6] = significant(p.flops_per_s / 1e9, 4);
            cells[12] = p.datasheet.map(rate).unwrap_or_default();
            table.push(cells);
        }
        for p in &self.points {
            let m = p.measurement;
            table.push([
                m.rung.clone(),
                names(self.run, &m.rung).0,
                p.level.label().to_owned(),
                p.bytes.to_string(),
                m.operations().to_string(),
                significant(p.intensity(), 4),
                significant(p.flops_per_s() / 1e9, 4),
                significant(p.bytes as f64 / (p.us * 1e-6) / 1e9, 4),
                digits(p.bound.map(|(b, _)| b.us / 1e3), 4),
                significant(p.us / 1e3, 5),
                digits(p.bound.map(|(_, f)| f * 100.0), 3),
                p.bound.map_or("", |(b, _)| b.label()).to_owned(),
                String::new(),
                m.arithmetic_type().label().to_owned(),
            ]);
        }
        table
    }
}

/// The marker of rungs that work from a level.
fn shape(level: MemoryLevel) -> Marker {
    match level {
        MemoryLevel::Registers => Marker::Diamond,
        MemoryLevel::Shared => Marker::Triangle,
        MemoryLevel::L2 => Marker::Disc,
        MemoryLevel::Dram => Marker::Square,
        MemoryLevel::Link => Marker::Cross,
        _ => Marker::Plus,
    }
}

/// The legend of the markers.
fn draw_shapes(canvas: &Canvas<'_>, lines: &[Vec<(Marker, String, f64)>], top: f64) -> Drawn {
    for (i, line) in lines.iter().enumerate() {
        let y = top + i as f64 * 18.0;
        for (shape, series, x) in line {
            canvas.marked(&Facts::legend(series), || {
                canvas.marker(*shape, (x + 5.0, y), Paint::MUTED)?;
                canvas.text(&format!("works from {series}"), (x + 16.0, y), At::Left, Font::NOTE)
            })?;
        }
    }
    Ok(())
}

/// Numbers, markers and names, and why a point is where it should not be.
fn draw_keys(canvas: &Canvas<'_>, dots: &[Dot], place: &Place, top: f64) -> Drawn {
    let (left, mut y) = (place.keys.0, place.keys.1 + top);
    for dot in dots {
        canvas.text(&dot.number, (left + 16.0, y), At::Right, NAME)?;
        canvas.marker(dot.shape, (left + 26.0, y), Paint::solid(dot.color))?;
        canvas.elided(&dot.name, place.room, (left + SAMPLE, y), At::Left, NAME)?;
        for (n, line) in dot.remark.iter().enumerate() {
            canvas.text(line, (left + SAMPLE, y + 15.0 * (n + 1) as f64), At::Left, Font::SMALL)?;
        }
        y += dot.key_height();
    }
    Ok(())
}

fn draw_axes(canvas: &Canvas<'_>, (x, y): (&Axis, &Axis), plot: &Area, (caption_at, top): (f64, f64)) -> Drawn {
    let plot = &Area { top: top + plot.top, bottom: top + plot.bottom, ..*plot };
    let caption = "FLOP/s, higher is better; logarithmic scale";
    canvas.elided(caption, canvas.width() - 2.0 * MARGIN, (MARGIN, caption_at + 6.0), At::Left, Font::SMALL)?;
    for t in &y.ticks {
        let at = y.place(*t, plot.bottom, plot.top);
        canvas.line(&[(plot.left, at), (plot.right, at)], Stroke::new(Paint::FAINT, 1.0))?;
        canvas.text(&rate_tick(*t), (plot.left - 7.0, at), At::Right, Font::SMALL)?;
    }
    for t in &x.ticks {
        let at = x.place(*t, plot.left, plot.right);
        canvas.line(&[(at, plot.top), (at, plot.bottom + 4.0)], Stroke::new(Paint::FAINT, 1.0))?;
        let half = Font::SMALL.width(&plain(*t)) / 2.0;
        let at = at.min(canvas.width() - half - 2.0);
        canvas.text(&plain(*t), (at, plot.bottom + 13.0), At::Middle, Font::SMALL)?;
    }
    let words = plot_words((x, y), [plot.left, plot.top, plot.right, plot.bottom]);
    canvas.marked(&Facts { plot: words, ..Facts::default() }, || {
        canvas.line(&[(plot.left, plot.bottom), (plot.right, plot.bottom)], Stroke::new(Paint::MUTED, 1.0))
    })?;
    let at = (plot.left, plot.bottom + 30.0);
    canvas.wrapped(X_CAPTION, plot.right - plot.left, 2, at, Font::SMALL)
}

mod points;

pub use points::{RoofLine, RoofPoint, RooflinePoints, roofline_points};

use crate::canvas::{At, Canvas, Drawn, Font, Frame, MARGIN, Marker, Paint, Stroke, WIDTH};
use crate::common::{
    MAX_ENTRIES, above_bound, arithmetic_name, bound, device, heading, joined, l2, label, medians, name, names,
    of_bound, usable, verdict,
};
use crate::facts::Facts;
use crate::labels::{Along, Area, PointLabel, Room, Xy};
use crate::palette::{AMBER, BLUE, GREEN, PURPLE, Rgb, VERMILLION};
use crate::text;
use crate::ticks::Axis;
use crate::words::{bandwidth, counted, listed, percent, plain, rate, rate_tick, significant};
use crate::{Chart, ChartError, Table};
use warpbook_record::{Bound, Dtype, LadderRow, Measurement, MemoryLevel, Problem, Run, Runner};

/// FLOP/s over FLOP/byte on logarithmic axes: each rung of kernels below the measured roof of the level of memory that it works
/// from, all roofs ending at the measured peak of arithmetic with the problem's type. Where that is above the measured peak of
/// fp32, as on tensor cores, the latter is drawn too: it is that of rungs without them.
///
/// A rung's level is the one that bounds it, or the one that it moves most bytes at where arithmetic does. Rungs whose
/// bytes were not counted are left out, and named.
///
/// # Errors
/// [`ChartError::NothingToDraw`] where the record has no measurement of the problem, no measured bandwidth, or no valid
/// rung of the device whose bytes were counted.
pub fn roofline(run: &Run, problem: &Problem) -> Result<Chart, ChartError> {
    roofs_and_points(run, problem)?.draw()
}

/// What is drawn of a problem; errors as [`roofline`].
fn roofs_and_points<'a>(run: &'a Run, problem: &'a Problem) -> Result<Roofs<'a>, ChartError> {
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
    let dtype = problem.dtype;
    let peak_of_type = peak(run, dtype);
    let is_lower = |fp32: &Peak| peak_of_type.as_ref().is_none_or(|p| p.flops_per_s > fp32.flops_per_s);
    let lower = peak(run, Dtype::F32).filter(|fp32| dtype != Dtype::F32 && is_lower(fp32));
    if points.is_empty() {
        return nothing(format!(
            "No valid rung of {} has its bytes counted at {}, so there is nothing to draw below its roofs.",
            device(run),
            label(problem)
        ));
    }
    Ok(Roofs { run, problem, roofs, dtype, peak: peak_of_type, lower, points, uncounted, invalid })
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
    /// Moved at that level.
    bytes: u64,
    bound: Option<(Bound, f64)>,
}

/// From the fastest to the slowest.
fn roofs(run: &Run, problem: &Problem) -> Vec<Roof> {
    let mut out: Vec<Roof> = Vec::new();
    for level in run.peaks.bandwidth.iter().map(|p| p.level) {
        let Some(p) = run.peaks.level_for(level, problem.written_part()) else { continue };
        let Some(bytes_per_s) = usable(Some(p.bytes_per_s())) else { continue };
        // Of two of a level the first counts, as for a bound.
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

/// `None` of a rung without a valid time or counted bytes, and of another framework's.
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
    fn intensity(&self) -> f64 {
        self.measurement.operations() as f64 / self.bytes as f64
    }

    fn flops_per_s(&self) -> f64 {
        self.measurement.operations() as f64 / (self.us * 1e-6)
    }

    /// As in "62 % of shared memory's bound".
    fn of_bound(&self) -> Option<String> {
        self.bound.map(|(b, f)| of_bound(&b, f))
    }
}

struct Roofs<'a> {
    run: &'a Run,
    problem: &'a Problem,
    roofs: Vec<Roof>,
    /// The type that the work is done in.
    dtype: Dtype,
    /// Where the roofs end.
    peak: Option<Peak>,
    /// The peak of other units that some rungs use.
    lower: Option<Peak>,
    points: Vec<Point<'a>>,
    /// Titles of valid rungs whose bytes were not counted.
    uncounted: Vec<String>,
    invalid: usize,
}

const HEIGHT: f64 = 430.0;
const NAME: Font = Font { paint: Paint::INK, ..Font::SMALL };

struct Layout {
    lines: Vec<(Paint, (Xy, Xy), Facts)>,
    along: Vec<(String, Facts, Along)>,
    points: Vec<(Xy, Rgb, Facts)>,
    point_labels: Vec<(Xy, String, PointLabel)>,
    /// Lines and points without a name.
    unnamed: usize,
}

impl Roofs<'_> {
    fn peaks(&self) -> impl Iterator<Item = &Peak> {
        self.peak.iter().chain(&self.lower)
    }

    fn axes(&self) -> (Axis, Axis) {
        let xs: Vec<f64> = self.points.iter().map(Point::intensity).collect();
        let ys: Vec<f64> = self.points.iter().map(Point::flops_per_s).collect();
        let low = |v: &[f64]| v.iter().copied().fold(f64::INFINITY, f64::min);
        let high = |v: &[f64]| v.iter().copied().fold(0.0, f64::max);
        let (mut left, mut right) = (low(&xs) / 1.8, high(&xs) * 10.0);
        let top = match &self.peak {
            Some(p) => {
                let ridges: Vec<f64> = self.roofs.iter().map(|r| p.flops_per_s / r.bytes_per_s).collect();
                // So that a piece of the steepest roof is seen, and the peak to the right of the flattest.
                (left, right) = (left.min(low(&ridges) / 7.0), right.max(high(&ridges) * 4.0));
                p.flops_per_s.max(high(&ys)) * 1.6
            }
            None => self.roofs.iter().map(|r| r.bytes_per_s * right).fold(high(&ys), f64::max),
        };
        let bottom = self.lower.as_ref().map_or(f64::INFINITY, |p| p.flops_per_s * 0.7).min(low(&ys) / 2.0);
        (Axis::log([left, right], 0.0).with_ticks(8), Axis::log([bottom, top], 0.0).with_ticks(7))
    }

    fn draw(self) -> Result<Chart, ChartError> {
        let (x, y) = self.axes();
        let y_labels = y.ticks.iter().map(|t| Font::SMALL.width(&rate_tick(*t))).fold(0.0, f64::max);
        let left = MARGIN + y_labels.clamp(20.0, 110.0) + 8.0;
        let plot = Area { left, right: WIDTH - MARGIN, top: 0.0, bottom: HEIGHT };
        let layout = self.layout((&x, &y), plot);
        self.frame(layout.unnamed).draw(22.0 + HEIGHT + 40.0, |canvas, top| {
            draw_axes(canvas, (&x, &y), &plot, top)?;
            self.draw_layout(canvas, &layout, top + 22.0)
        })
    }

    /// Where roofs, points and their names are, from the plot's top.
    fn layout(&self, (x, y): (&Axis, &Axis), plot: Area) -> Layout {
        let place = |(a, b): Xy| (x.place_beyond(a, plot.left, plot.right), y.place_beyond(b, plot.bottom, plot.top));
        let mut room = Room::new(plot);
        let mut lines = Vec::new();
        for peak in self.peaks() {
            let begin = self.roofs.first().map_or(x.low(), |r| peak.flops_per_s / r.bytes_per_s);
            let line = (place((begin, peak.flops_per_s)), place((x.high(), peak.flops_per_s)));
            let text = format!("{}: {}", peak.name(), rate(peak.flops_per_s));
            lines.extend(plot.clip(line).map(|seen| (Paint::MUTED, seen, Facts::reference(text))));
        }
        for roof in &self.roofs {
            let end = self.peak.as_ref().map_or(x.high(), |p| p.flops_per_s / roof.bytes_per_s);
            let begin = x.low().min(end) / 10.0;
            let line = (place((begin, begin * roof.bytes_per_s)), place((end, end * roof.bytes_per_s)));
            let text = format!("{}: {}", roof.level.label(), bandwidth(roof.bytes_per_s));
            let facts = Facts { series: roof.level.label().into(), ..Facts::reference(text) };
            lines.extend(plot.clip(line).map(|seen| (Paint::solid(color(roof.level)), seen, facts)));
        }
        let drawn = &self.points[..self.points.len().min(MAX_ENTRIES)];
        let places: Vec<Xy> = drawn.iter().map(|p| place((p.intensity(), p.flops_per_s()))).collect();
        lines.iter().for_each(|(_, (a, b), _)| room.line(&[*a, *b]));
        places.iter().for_each(|p| room.marker(*p));
        let mut along = Vec::new();
        for (_, line, facts) in &lines {
            let at = room.along(*line, NAME.width(&facts.value), 1.0);
            along.extend(at.map(|at| (facts.value.clone(), Facts::legend(&facts.series), at)));
        }
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_by(|a, b| places[*a].1.total_cmp(&places[*b].1).then(a.cmp(b)));
        let mut point_labels = Vec::new();
        for i in order {
            let p = &drawn[i];
            let title = text::elide(&name(self.run, &p.measurement.rung), 190.0, NAME.size, false);
            let text = match p.bound {
                Some((_, f)) => format!("{title} · {}", percent(f)),
                None => title,
            };
            point_labels.extend(room.point_label(places[i], NAME.width(&text)).map(|at| (places[i], text, at)));
        }
        let unnamed = lines.len() + places.len() - along.len() - point_labels.len();
        let points = places.into_iter().zip(drawn).map(|(at, p)| (at, color(p.level), self.facts(p))).collect();
        Layout { lines, along, point_labels, points, unnamed }
    }

    fn facts(&self, p: &Point<'_>) -> Facts {
        let share = p.of_bound().map_or(String::new(), |text| format!(" · {text}"));
        let value = format!("{} at {} FLOP/byte{share}", rate(p.flops_per_s()), significant(p.intensity(), 3));
        Facts {
            name: names(self.run, &p.measurement.rung).0,
            problem: String::new(),
            series: p.level.label().into(),
            ..Facts::measured(p.measurement, value)
        }
    }

    fn draw_layout(&self, canvas: &Canvas<'_>, layout: &Layout, top: f64) -> Drawn {
        let down = |(x, y): Xy| (x, y + top);
        for (paint, (a, b), facts) in &layout.lines {
            canvas.marked(facts, || canvas.line(&[down(*a), down(*b)], Stroke::new(*paint, 2.0)))?;
        }
        for (point, _, at) in &layout.point_labels {
            if let Some(end) = at.leader {
                canvas.line(&[down(*point), down(end)], Stroke::new(Paint { alpha: 0.45, ..Paint::INK }, 0.8))?;
            }
        }
        canvas.marked(&Facts::of_problem(self.problem), || {
            for (at, color, facts) in &layout.points {
                canvas.marked(facts, || canvas.marker(Marker::Disc, down(*at), Paint::solid(*color)))?;
            }
            Ok(())
        })?;
        for (text, facts, at) in &layout.along {
            canvas.marked(facts, || canvas.turned(text, down(at.middle), at.degrees, NAME))?;
        }
        for (_, text, at) in &layout.point_labels {
            canvas.text(text, down(at.left), At::Left, NAME)?;
        }
        Ok(())
    }

    fn frame(&self, unnamed: usize) -> Frame {
        let run = self.run;
        let medians = medians(self.points.iter().map(|p| p.measurement));
        let mut notes = vec![
            "Each point has the colour of the level of memory that it works from, and lies below that level's roof. %: of \
             its bound, the least time that its own bytes and operations allow."
                .to_owned(),
        ];
        notes.extend(above_bound(run, self.points.iter().filter_map(|p| p.bound)));
        if !self.uncounted.is_empty() {
            let shown: Vec<String> = self.uncounted.iter().take(MAX_ENTRIES).cloned().collect();
            notes.push(format!("Left out, as their bytes were not counted: {}.", listed(&shown)));
        }
        if self.invalid > 0 {
            notes.push(format!("{} without a valid figure; the ladder says why.", counted(self.invalid, "rung")));
        }
        if self.peak.is_none() {
            notes.push(format!("The peak of {} was not measured.", arithmetic_name(self.dtype)));
        }
        if let Some(p) = &self.lower {
            notes.push(format!("The peak of {} is that of rungs without tensor cores.", p.name()));
        }
        if self.points.len() > MAX_ENTRIES {
            notes.push(format!("{} of {} points are drawn; the table has all.", MAX_ENTRIES, self.points.len()));
        }
        if unnamed > 0 {
            notes.push(format!("{} found no room; the table has all.", counted(unnamed, "name")));
        }
        Frame {
            title: format!("{}: roofline", heading(run)),
            subtitle: joined([device(run), label(self.problem), medians, l2(run).to_owned()]),
            description: self.description(),
            notes,
            table: self.table(),
        }
    }

    fn description(&self) -> String {
        let run = self.run;
        let mut roofs: Vec<String> =
            self.roofs.iter().map(|r| format!("{} {}", r.level.label(), bandwidth(r.bytes_per_s))).collect();
        roofs.extend(self.peaks().map(|p| format!("{} {}", p.name(), rate(p.flops_per_s))));
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
            counted(self.points.len(), "rung"),
            device(run),
            label(self.problem),
            listed(&roofs),
            nearest.unwrap_or_default()
        )
    }

    fn table(&self) -> Table {
        let mut table = Table::new([
            "roof or rung",
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
        ]);
        let flops = self.peak.as_ref().map(|p| p.flops_per_s);
        let digits = |v: Option<f64>, n| v.map(|v| significant(v, n)).unwrap_or_default();
        for r in &self.roofs {
            let mut cells = vec![String::new(); 13];
            cells[0] = "roof".into();
            cells[1] = format!("{}, measured", r.level.label());
            cells[2] = r.level.label().into();
            cells[5] = digits(flops.map(|f| f / r.bytes_per_s), 4);
            cells[6] = digits(flops.map(|f| f / 1e9), 4);
            cells[7] = significant(r.bytes_per_s / 1e9, 4);
            cells[12] = r.datasheet.map(bandwidth).unwrap_or_default();
            table.push(cells);
        }
        for p in self.peaks() {
            let mut cells = vec![String::new(); 13];
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
            ]);
        }
        table
    }
}

fn color(level: MemoryLevel) -> Rgb {
    match level {
        MemoryLevel::Registers => PURPLE,
        MemoryLevel::Shared => VERMILLION,
        MemoryLevel::L2 => GREEN,
        MemoryLevel::Dram => BLUE,
        _ => AMBER,
    }
}

fn draw_axes(canvas: &Canvas<'_>, (x, y): (&Axis, &Axis), plot: &Area, top: f64) -> Drawn {
    let plot = &Area { top: top + 22.0, bottom: top + 22.0 + HEIGHT, ..*plot };
    let caption = "FLOP/s, higher is better; logarithmic scale";
    canvas.elided(caption, WIDTH - 2.0 * MARGIN, (MARGIN, top + 6.0), At::Left, Font::SMALL)?;
    for t in &y.ticks {
        let at = y.place(*t, plot.bottom, plot.top);
        canvas.line(&[(plot.left, at), (plot.right, at)], Stroke::new(Paint::FAINT, 1.0))?;
        canvas.text(&rate_tick(*t), (plot.left - 7.0, at), At::Right, Font::SMALL)?;
    }
    for t in &x.ticks {
        let at = x.place(*t, plot.left, plot.right);
        canvas.line(&[(at, plot.top), (at, plot.bottom + 4.0)], Stroke::new(Paint::FAINT, 1.0))?;
        canvas.text(&plain(*t), (at, plot.bottom + 13.0), At::Middle, Font::SMALL)?;
    }
    canvas.line(&[(plot.left, plot.bottom), (plot.right, plot.bottom)], Stroke::new(Paint::MUTED, 1.0))?;
    let caption = "FLOP/byte of the rung's level of memory; logarithmic scale";
    let at = (plot.left, plot.bottom + 30.0);
    canvas.elided(caption, plot.right - plot.left, at, At::Left, Font::SMALL)
}

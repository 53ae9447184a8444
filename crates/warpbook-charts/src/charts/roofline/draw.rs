//! Drawing of roofs and points, and of the legend with their names.

use super::{RooflinePoint, Roofs};
use crate::draw::text;
use crate::draw::text::words::{bandwidth, percent, plain, rate, rate_tick, significant};
use crate::draw::{
    Along, Area, At, Axis, Canvas, Chart, ChartError, Drawn, Font, MARGIN, MAX_ENTRIES, MarkData, Marker, Paint,
    PointLabel, Rgb, Room, Stroke, Xy, clean, is_narrow, plot_words,
};
use crate::record::{RunnerKind, name, names};
use warpbook_record::MemoryLevel;

const X_CAPTION: &str = "FLOP/byte of the rung's level of memory; logarithmic scale";
const HEIGHT: f64 = 430.0;
const NARROW_HEIGHT: f64 = 300.0;
const NAME: Font = Font { paint: Paint::INK, ..Font::SMALL };
const KEY_LINE: f64 = 17.0;
/// Width of the longest name in the legend.
const KEY: f64 = 215.0;
/// Width of the number and the marker before a name.
const SAMPLE: f64 = 38.0;

/// Positions of the plot and the legend.
struct Positions {
    plot: Area,
    /// Left and top of the legend, relative to the plot's top.
    keys: Xy,
    /// Width available for names.
    room: f64,
    /// Total height of plot and legend.
    height: f64,
}

struct RooflineLayout {
    lines: Vec<((Xy, Xy), MarkData)>,
    along: Vec<(String, Along)>,
    points: Vec<PlacedPoint>,
    /// Number of lines without a name and points without a number.
    unnamed: usize,
}

/// A point with its position, marker and texts.
struct PlacedPoint {
    at: Xy,
    shape: Marker,
    color: Rgb,
    data: MarkData,
    number: String,
    label: Option<PointLabel>,
    /// Name, such as "Persistent · 87 %".
    name: String,
    /// Reason why the point exceeds its bound, in lines; usually empty.
    remark: Vec<String>,
}

impl PlacedPoint {
    fn key_height(&self) -> f64 {
        KEY_LINE + self.remark.len() as f64 * 15.0 + if self.remark.is_empty() { 0.0 } else { 4.0 }
    }
}

impl Roofs<'_> {
    pub(super) fn draw(self) -> Result<Chart, ChartError> {
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
        let listed: f64 = layout.points.iter().map(PlacedPoint::key_height).sum();
        let caption = text::wrap(X_CAPTION, right - left, Font::SMALL.size, false, 2).len() as f64 * 16.0;
        let keys = if narrow { (MARGIN, height + 36.0 + caption) } else { (right + 14.0, 8.0) };
        let height = if narrow { keys.1 + listed } else { (height + 24.0 + caption).max(keys.1 + listed) };
        let place = Positions { plot, keys, room, height };
        let shapes = self.shapes(&layout, width);
        let above = 22.0 + shapes.len() as f64 * 18.0;
        self.frame(layout.unnamed).draw(above + place.height, |canvas, top| {
            draw_shapes(canvas, &shapes, top + 26.0)?;
            draw_axes(canvas, (&x, &y), &place.plot, (top, top + above))?;
            self.draw_layout(canvas, &layout, top + above)?;
            draw_keys(canvas, &layout.points, &place, top + above)
        })
    }

    /// Returns the text of a point in the legend: its name and its share of the bound.
    fn key(&self, p: &RooflinePoint<'_>) -> String {
        let title = text::elide(&name(self.run, &p.measurement.rung), 165.0, NAME.size, false);
        p.bound.map_or_else(|| title.clone(), |(_, f)| format!("{title} · {}", percent(f)))
    }

    /// Returns the legend of the markers: the memory levels of the visible points, broken into lines with positions.
    fn shapes(&self, layout: &RooflineLayout, width: f64) -> Vec<Vec<(Marker, String, f64)>> {
        let mut seen: Vec<&str> = Vec::new();
        let mut lines: Vec<Vec<(Marker, String, f64)>> = Vec::new();
        let mut x = f64::INFINITY;
        for (series, shape) in layout.points.iter().map(|d| (d.data.series.as_str(), d.shape)) {
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

    /// Places roofs, points and their names, relative to the plot's top.
    fn layout(&self, (x, y): (&Axis, &Axis), plot: Area, names: f64) -> RooflineLayout {
        let place = |(a, b): Xy| (x.place_beyond(a, plot.left, plot.right), y.place_beyond(b, plot.bottom, plot.top));
        let mut room = Room::new(plot);
        let mut lines = Vec::new();
        for peak in &self.peaks {
            let begin = self.roofs.first().map_or(x.low(), |r| peak.flops_per_s / r.bytes_per_s);
            let line = (place((begin, peak.flops_per_s)), place((x.high(), peak.flops_per_s)));
            let text = format!("{}: {}", peak.name(), rate(peak.flops_per_s));
            lines.extend(plot.clip(line).map(|seen| (seen, MarkData::reference(text))));
        }
        for roof in &self.roofs {
            let end = self.peaks.first().map_or(x.high(), |p| p.flops_per_s / roof.bytes_per_s);
            let begin = x.low().min(end) / 10.0;
            let line = (place((begin, begin * roof.bytes_per_s)), place((end, end * roof.bytes_per_s)));
            let text = format!("{}: {}", roof.level.label(), bandwidth(roof.bytes_per_s));
            let data = MarkData { series: roof.level.label().into(), ..MarkData::reference(text) };
            lines.extend(plot.clip(line).map(|seen| (seen, data)));
        }
        let drawn = self.points.iter().take(MAX_ENTRIES).enumerate();
        let drawn: Vec<(usize, &RooflinePoint<'_>, Xy)> =
            drawn.map(|(i, p)| (i, p, place((p.intensity(), p.flops_per_s())))).filter(|d| plot.has(d.2)).collect();
        lines.iter().for_each(|((a, b), _)| room.line(&[*a, *b]));
        drawn.iter().for_each(|(_, _, at)| room.marker(*at));
        let mut along = Vec::new();
        for (line, data) in &lines {
            // Uses the name alone if the full label won't fit.
            let short = data.value.split(':').next().unwrap_or_default().to_owned();
            let found = [data.value.clone(), short]
                .into_iter()
                .find_map(|text| Some((room.along(*line, NAME.width(&text), 1.0)?, text)));
            along.extend(found.map(|(at, text)| (text, at)));
        }
        let mut dot = |(i, p, at): &(usize, &RooflinePoint<'_>, Xy)| {
            let number = (i + 1).to_string();
            PlacedPoint {
                at: *at,
                shape: shape(p.level),
                color: RunnerKind::of_rung(self.run, &p.measurement.rung).color(),
                data: self.data(p),
                label: room.point_label(*at, NAME.width(&number)),
                number,
                name: self.key(p),
                remark: text::wrap(&self.beyond(p), names, Font::SMALL.size, false, 5),
            }
        };
        let points: Vec<PlacedPoint> = drawn.iter().map(&mut dot).collect();
        let unnamed = lines.len() - along.len() + points.iter().filter(|d| d.label.is_none()).count();
        RooflineLayout { lines, along, points, unnamed }
    }

    /// Returns the reason why a point exceeds its bound, if it does.
    fn beyond(&self, p: &RooflinePoint<'_>) -> String {
        let Some((of, _)) = p.bound.filter(|(_, share)| *share > 1.0) else { return String::new() };
        let why = clean(&self.run.descriptor.above_bound);
        match why.is_empty() || of.level.is_none() {
            true => "above the measured ceilings, which the device can exceed".into(),
            false => format!("above 100 %: {}", why.trim_end_matches('.')),
        }
    }

    fn data(&self, p: &RooflinePoint<'_>) -> MarkData {
        let share = p.of_bound().map_or(String::new(), |text| format!(" · {text}"));
        let dtype = match self.dtypes.len() {
            0 | 1 => String::new(),
            _ => format!(" of {}", p.measurement.arithmetic_type().label()),
        };
        let value = format!("{}{dtype} at {} FLOP/byte{share}", rate(p.flops_per_s()), significant(p.intensity(), 3));
        MarkData {
            name: names(self.run, &p.measurement.rung).0,
            problem: String::new(),
            series: p.level.label().into(),
            ..MarkData::measured(p.measurement, value)
        }
    }

    fn draw_layout(&self, canvas: &Canvas<'_>, layout: &RooflineLayout, top: f64) -> Drawn {
        let down = |(x, y): Xy| (x, y + top);
        for ((a, b), data) in &layout.lines {
            canvas.marked(data, || canvas.line(&[down(*a), down(*b)], Stroke::new(Paint::MUTED, 1.5)))?;
        }
        for dot in &layout.points {
            if let Some(end) = dot.label.and_then(|l| l.leader) {
                canvas.line(&[down(dot.at), down(end)], Stroke::new(Paint { alpha: 0.45, ..Paint::INK }, 0.8))?;
            }
        }
        canvas.marked(&MarkData::of_problem(self.problem), || {
            // The fastest point is drawn last, on top of the others.
            for dot in layout.points.iter().rev() {
                canvas.marked(&dot.data, || canvas.marker(dot.shape, down(dot.at), Paint::solid(dot.color)))?;
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
}

/// Returns the marker of rungs bounded by a memory level.
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

/// Draws the legend of the markers.
fn draw_shapes(canvas: &Canvas<'_>, lines: &[Vec<(Marker, String, f64)>], top: f64) -> Drawn {
    for (i, line) in lines.iter().enumerate() {
        let y = top + i as f64 * 18.0;
        for (shape, series, x) in line {
            canvas.marked(&MarkData::legend(series), || {
                canvas.marker(*shape, (x + 5.0, y), Paint::MUTED)?;
                canvas.text(&format!("works from {series}"), (x + 16.0, y), At::Left, Font::NOTE)
            })?;
        }
    }
    Ok(())
}

/// Draws numbers, markers and names, and the reason why a point exceeds its bound.
fn draw_keys(canvas: &Canvas<'_>, dots: &[PlacedPoint], place: &Positions, top: f64) -> Drawn {
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
        let at = y.position(*t, plot.bottom, plot.top);
        canvas.line(&[(plot.left, at), (plot.right, at)], Stroke::new(Paint::FAINT, 1.0))?;
        canvas.text(&rate_tick(*t), (plot.left - 7.0, at), At::Right, Font::SMALL)?;
    }
    for t in &x.ticks {
        let at = x.position(*t, plot.left, plot.right);
        canvas.line(&[(at, plot.top), (at, plot.bottom + 4.0)], Stroke::new(Paint::FAINT, 1.0))?;
        let half = Font::SMALL.width(&plain(*t)) / 2.0;
        let at = at.min(canvas.width() - half - 2.0);
        canvas.text(&plain(*t), (at, plot.bottom + 13.0), At::Middle, Font::SMALL)?;
    }
    let words = plot_words((x, y), [plot.left, plot.top, plot.right, plot.bottom]);
    canvas.marked(&MarkData { plot: words, ..MarkData::default() }, || {
        canvas.line(&[(plot.left, plot.bottom), (plot.right, plot.bottom)], Stroke::new(Paint::MUTED, 1.0))
    })?;
    let at = (plot.left, plot.bottom + 30.0);
    canvas.wrapped(X_CAPTION, plot.right - plot.left, 2, at, Font::SMALL)
}

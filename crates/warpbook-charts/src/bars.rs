//! Horizontal bars: one row each, its name to the left and its value at its end.

use crate::canvas::{At, Canvas, Drawn, Font, Frame, MARGIN, Marker, Paint, Stroke, WIDTH, line_height};
use crate::facts::{Facts, shared_problem};
use crate::palette::Rgb;
use crate::text;
use crate::ticks::Axis;
use crate::{Chart, ChartError};

pub(crate) struct Bar {
    pub(crate) value: f64,
    /// Ends of the whisker.
    pub(crate) spread: Option<(f64, f64)>,
    /// Shown at its end.
    pub(crate) label: String,
    /// Shown small below the label; empty of most.
    pub(crate) note: String,
    pub(crate) color: Rgb,
    /// Whether it is drawn as an outline, as sums are.
    pub(crate) hollow: bool,
    /// What it consists of, from its beginning on, each in its own colour; empty for most.
    pub(crate) parts: Vec<Segment>,
    /// What it says of itself; of one with parts these do.
    pub(crate) facts: Facts,
}

/// A part of a bar.
pub(crate) struct Segment {
    pub(crate) value: f64,
    pub(crate) color: Rgb,
    pub(crate) facts: Facts,
}

#[expect(clippy::large_enum_variant, reason = "a chart has some dozens of rows at most")]
pub(crate) enum Content {
    Bar(Bar),
    /// Why there is no bar.
    Reason(String),
    /// A heading of the rows below, with a remark to its right.
    Heading(String),
}

pub(crate) struct Row {
    pub(crate) name: String,
    /// Shown small below the name.
    pub(crate) id: String,
    pub(crate) content: Content,
}

/// A value that all bars are held against.
pub(crate) struct Mark {
    pub(crate) value: f64,
    pub(crate) label: String,
    /// Whether its line is a solid one: what was reached, not what might be.
    pub(crate) solid: bool,
    /// What it says of itself.
    pub(crate) facts: Facts,
}

pub(crate) struct Bars {
    pub(crate) frame: Frame,
    pub(crate) rows: Vec<Row>,
    /// `None` where no row has a bar.
    pub(crate) axis: Option<Axis>,
    /// Where the bars begin; `None` at the axis' low end.
    pub(crate) base: Option<f64>,
    pub(crate) tick: fn(f64) -> String,
    pub(crate) caption: String,
    pub(crate) marks: Vec<Mark>,
    pub(crate) legend: Vec<(Rgb, String)>,
}

/// From the end of a bar to its label.
const GAP: f64 = 7.0;
const LEGEND_LINE: f64 = 20.0;
/// The height of a mark's label.
const MARK_LINE: f64 = 20.0;

/// Where things are, left to right.
struct Layout {
    /// Where bars begin.
    left: f64,
    /// Where the axis ends.
    right: f64,
    legend: Vec<Vec<(Rgb, String, f64)>>,
}

impl Bars {
    pub(crate) fn draw(mut self) -> Result<Chart, ChartError> {
        let layout = self.layout();
        let shared = self.shared();
        let dots = self.dots();
        if let Some(axis) = self.axis.take() {
            self.axis = Some(axis.with_ticks(((layout.right - layout.left) / 68.0) as usize));
        }
        let legend = layout.legend.len() as f64 * LEGEND_LINE;
        let mark = self.marks.len() as f64 * MARK_LINE;
        let rows: f64 = self.rows.iter().map(Row::height).sum();
        let axis = if self.axis.is_some() { 40.0 } else { 4.0 };
        let Self { frame, rows: all, axis: scale, base, tick, caption, marks, legend: _ } = self;
        frame.draw(legend + mark + rows + axis, |canvas, top| {
            draw_legend(canvas, &layout.legend, top)?;
            let top = top + legend;
            let first = top + mark;
            let Some(axis) = scale else {
                return draw_rows(canvas, &all, &layout, first, None);
            };
            let x = |v: f64| axis.place(v, layout.left, layout.right);
            let blocks = blocks(&all, first);
            draw_axis(canvas, &axis, &layout, &blocks, tick, &caption)?;
            let zero = x(base.unwrap_or(axis.low()));
            for (from, to) in &blocks {
                canvas.line(&[(zero, *from), (zero, *to)], Stroke::new(Paint::MUTED, 1.0))?;
            }
            canvas.marked(&shared, || {
                draw_bars(canvas, &all, first, (zero, dots), x)?;
                draw_marks(canvas, marks, &all, (top, first), x)
            })?;
            draw_rows(canvas, &all, &layout, first, Some(&|bar: &Bar| label_at(bar, zero, x)))
        })
    }

    /// What all marks have in common.
    fn shared(&mut self) -> Facts {
        let bars = self.rows.iter_mut().filter_map(|r| match &mut r.content {
            Content::Bar(bar) => Some(bar),
            _ => None,
        });
        let of_bars = bars.flat_map(|bar| bar.parts.iter_mut().map(|p| &mut p.facts).chain([&mut bar.facts]));
        shared_problem(of_bars.chain(self.marks.iter_mut().map(|m| &mut m.facts)))
    }

    /// Whether values are dots: on a logarithmic axis that begins anywhere lengths mean nothing.
    fn dots(&self) -> bool {
        self.base.is_none() && self.axis.as_ref().is_some_and(Axis::is_log)
    }

    fn layout(&self) -> Layout {
        let widest = self.rows.iter().map(|r| r.name_width()).fold(0.0, f64::max);
        let left = MARGIN + widest.clamp(60.0, 200.0) + 10.0;
        let most = WIDTH - MARGIN - 14.0 - left;
        // The longest axis that leaves every label its room.
        let mut length = most;
        if let Some(axis) = &self.axis {
            let base = axis.place(self.base.unwrap_or(axis.low()), 0.0, 1000.0) / 1000.0;
            for bar in self.rows.iter().filter_map(Row::bar) {
                let end = |v: f64| axis.place(v, 0.0, 1000.0) / 1000.0;
                let end = end(bar.value).max(bar.spread.map_or(0.0, |s| end(s.1))).max(base);
                // And a pixel against rounding.
                let room = WIDTH - MARGIN - left - GAP - bar.label_width() - 1.0;
                length = length.min(room / end.max(1e-3));
            }
        }
        let right = left + length.clamp(most * 0.3, most);
        Layout { left, right, legend: legend_lines(&self.legend) }
    }
}

impl Bar {
    fn label_width(&self) -> f64 {
        Font::BODY.width(&self.label).max(Font::SMALL.width(&self.note))
    }
}

impl Row {
    fn bar(&self) -> Option<&Bar> {
        match &self.content {
            Content::Bar(b) => Some(b),
            _ => None,
        }
    }

    fn height(&self) -> f64 {
        match &self.content {
            Content::Heading(_) => 30.0,
            Content::Bar(bar) if !bar.note.is_empty() => 38.0,
            _ if !self.id.is_empty() => 38.0,
            Content::Reason(why) if text::width(why, Font::NOTE.size, false) > 400.0 => 38.0,
            _ => 25.0,
        }
    }

    fn name_width(&self) -> f64 {
        match &self.content {
            Content::Heading(_) => 0.0,
            _ => Font::BODY.width(&self.name).max(Font::SMALL.width(&self.id)),
        }
    }
}

/// With the top and the height of each.
fn placed(rows: &[Row], first: f64) -> impl Iterator<Item = (&Row, f64, f64)> {
    let mut y = first;
    rows.iter().map(move |row| {
        let height = row.height();
        y += height;
        (row, y - height, height)
    })
}

/// Tops and bottoms of the rows between headings.
fn blocks(rows: &[Row], first: f64) -> Vec<(f64, f64)> {
    let mut out: Vec<(f64, f64)> = Vec::new();
    for (row, y, height) in placed(rows, first) {
        match out.last_mut() {
            _ if matches!(row.content, Content::Heading(_)) => {}
            Some(last) if last.1 == y => last.1 = y + height,
            _ => out.push((y, y + height)),
        }
    }
    out
}

fn draw_axis(
    canvas: &Canvas<'_>,
    axis: &Axis,
    layout: &Layout,
    blocks: &[(f64, f64)],
    tick: fn(f64) -> String,
    caption: &str,
) -> Drawn {
    let bottom = blocks.last().map_or(0.0, |b| b.1);
    for t in &axis.ticks {
        let x = axis.place(*t, layout.left, layout.right);
        for (from, to) in blocks {
            let to = if *to == bottom { bottom + 4.0 } else { *to };
            canvas.line(&[(x, *from), (x, to)], Stroke::new(Paint::FAINT, 1.0))?;
        }
        canvas.text(&tick(*t), (x, bottom + 13.0), At::Middle, Font::SMALL)?;
    }
    canvas.elided(caption, WIDTH - MARGIN - layout.left, (layout.left, bottom + 30.0), At::Left, Font::SMALL)
}

fn draw_bars(
    canvas: &Canvas<'_>,
    rows: &[Row],
    first: f64,
    (zero, dots): (f64, bool),
    x: impl Fn(f64) -> f64,
) -> Drawn {
    for (row, y, height) in placed(rows, first) {
        let Some(bar) = row.bar() else { continue };
        let half = if row.id.is_empty() { 8.0 } else { 10.0 };
        let middle = y + height / 2.0;
        let facts = if bar.parts.is_empty() { bar.facts.clone() } else { Facts::default() };
        canvas.marked(&facts, || {
            if dots {
                draw_dot(canvas, bar, (zero, x(bar.value)), middle)?;
            } else {
                draw_bar(canvas, bar, zero, (middle - half, middle + half), &x)?;
            }
            // A shorter one would hide the dot.
            draw_whisker(canvas, bar, middle, if dots { 12.0 } else { 3.0 }, &x)
        })?;
    }
    Ok(())
}

fn draw_bar(canvas: &Canvas<'_>, bar: &Bar, zero: f64, y: (f64, f64), x: impl Fn(f64) -> f64) -> Drawn {
    let end = x(bar.value);
    // What is there is seen.
    let end = if (end - zero).abs() < 1.5 { zero + 1.5 } else { end };
    let (from, to) = (zero.min(end), zero.max(end));
    if bar.hollow {
        canvas.rect((from, to), y, Paint::faded(bar.color, 0.18))?;
        let corners = [(from, y.0), (to, y.0), (to, y.1), (from, y.1), (from, y.0)];
        return canvas.line(&corners, Stroke::new(Paint::solid(bar.color), 1.2));
    }
    if bar.parts.is_empty() {
        return canvas.rect((from, to), y, Paint::solid(bar.color));
    }
    let mut sum = 0.0;
    for part in &bar.parts {
        let begin = x(sum);
        sum += part.value;
        // What is there is seen, also between two that are longer.
        let to = x(sum).max(begin + 1.5);
        canvas.marked(&part.facts, || canvas.rect((begin, to), y, Paint::solid(part.color)))?;
    }
    Ok(())
}

/// A dot at the value, and what leads the eye to it from the name.
fn draw_dot(canvas: &Canvas<'_>, bar: &Bar, (zero, at): (f64, f64), middle: f64) -> Drawn {
    canvas.line(&[(zero, middle), (at, middle)], Stroke::dashed(Paint::faded(bar.color, 0.5), 1.0, 2))?;
    let shape = if bar.hollow { Marker::Ring } else { Marker::Disc };
    canvas.marker(shape, (at, middle), Paint::solid(bar.color))
}

fn draw_whisker(canvas: &Canvas<'_>, bar: &Bar, middle: f64, least: f64, x: impl Fn(f64) -> f64) -> Drawn {
    let Some((low, high)) = bar.spread.map(|(a, b)| (x(a), x(b))).filter(|(a, b)| b - a >= least) else {
        return Ok(());
    };
    let stroke = Stroke::new(Paint::INK, 1.3);
    canvas.line(&[(low, middle), (high, middle)], stroke)?;
    for end in [low, high] {
        canvas.line(&[(end, middle - 4.0), (end, middle + 4.0)], stroke)?;
    }
    Ok(())
}

/// Where a bar's label begins.
fn label_at(bar: &Bar, zero: f64, x: impl Fn(f64) -> f64) -> f64 {
    x(bar.value).max(bar.spread.map_or(zero, |s| x(s.1))).max(zero + 1.5) + GAP
}

/// Marks with a label each, the rightmost on top: the lines of those above pass next to the labels below.
fn draw_marks(
    canvas: &Canvas<'_>,
    mut marks: Vec<Mark>,
    rows: &[Row],
    (top, first): (f64, f64),
    x: impl Fn(f64) -> f64,
) -> Drawn {
    marks.sort_by(|a, b| x(b.value).total_cmp(&x(a.value)));
    let mut end = WIDTH - MARGIN;
    for (i, mark) in marks.iter().enumerate() {
        let at = x(mark.value);
        let y = top + i as f64 * MARK_LINE;
        let width = Font::SMALL.width(&mark.label);
        let centred = at - width / 2.0;
        let (left, room) = match () {
            () if i == 0 || width <= end - MARGIN => {
                let left = centred.min(end - width).max(MARGIN);
                (left, end - left)
            }
            // Right of the lines above, where there is more room.
            () => {
                let from = x(marks[0].value) + 6.0;
                if WIDTH - MARGIN - from > end - MARGIN {
                    (from, WIDTH - MARGIN - from)
                } else {
                    (MARGIN, end - MARGIN)
                }
            }
        };
        canvas.marked(&mark.facts, || {
            canvas.elided(&mark.label, room, (left, y + 8.0), At::Left, Font::SMALL)?;
            draw_mark(canvas, mark, rows, (y + 16.0, first), &x)
        })?;
        end = at - 6.0;
    }
    Ok(())
}

/// The line of a mark, left out where a label is in its way.
fn draw_mark(
    canvas: &Canvas<'_>,
    mark: &Mark,
    rows: &[Row],
    (top, first): (f64, f64),
    x: impl Fn(f64) -> f64,
) -> Drawn {
    let at = x(mark.value);
    let zero = x(f64::NEG_INFINITY);
    let stroke = if mark.solid { Stroke::new(Paint::INK, 1.2) } else { Stroke::dashed(Paint::INK, 1.5, 1) };
    let mut begun = top;
    let mut end = first;
    for (row, y, height) in placed(rows, first) {
        let blocked = match &row.content {
            Content::Heading(note) => {
                at - 4.0 < MARGIN + Font::HEADING.width(&row.name) + 12.0 + Font::NOTE.width(note)
            }
            Content::Reason(why) => at - 4.0 < zero + GAP + Font::NOTE.width(why).min(WIDTH - MARGIN - zero - GAP),
            Content::Bar(bar) => {
                let from = label_at(bar, zero, &x);
                (from - 3.0..from + bar.label_width() + 3.0).contains(&at)
            }
        };
        if blocked {
            if y > begun {
                canvas.line(&[(at, begun), (at, y)], stroke)?;
            }
            begun = y + height;
        }
        end = y + height;
    }
    if end > begun {
        canvas.line(&[(at, begun), (at, end)], stroke)?;
    }
    Ok(())
}

type LabelAt<'a> = &'a dyn Fn(&Bar) -> f64;

/// Names, labels and reasons.
fn draw_rows(canvas: &Canvas<'_>, rows: &[Row], layout: &Layout, first: f64, label_at: Option<LabelAt<'_>>) -> Drawn {
    for (row, y, height) in placed(rows, first) {
        let middle = y + height / 2.0;
        if let Content::Heading(note) = &row.content {
            let middle = y + height - 12.0;
            let room = WIDTH - 2.0 * MARGIN - Font::NOTE.width(note).min(300.0) - 12.0;
            canvas.elided(&row.name, room, (MARGIN, middle), At::Left, Font::HEADING)?;
            let at = MARGIN + Font::HEADING.width(&row.name).min(room) + 10.0;
            canvas.elided(note, WIDTH - MARGIN - at, (at, middle), At::Left, Font::NOTE)?;
            continue;
        }
        let room = layout.left - MARGIN - 10.0;
        let end = layout.left - 10.0;
        if row.id.is_empty() {
            canvas.elided(&row.name, room, (end, middle), At::Right, Font::BODY)?;
        } else {
            canvas.elided(&row.name, room, (end, middle - 7.0), At::Right, Font::BODY)?;
            canvas.elided(&row.id, room, (end, middle + 8.5), At::Right, Font::SMALL)?;
        }
        match &row.content {
            Content::Reason(why) => {
                let at = layout.left + GAP;
                let lines = text::wrap(why, WIDTH - MARGIN - at, Font::NOTE.size, false, 2).len().max(1);
                let up = (lines - 1) as f64 * line_height(Font::NOTE) / 2.0;
                canvas.wrapped(why, WIDTH - MARGIN - at, 2, (at, middle - up), Font::NOTE)?;
            }
            Content::Bar(bar) => {
                let at = label_at.map_or(layout.left + GAP, |f| f(bar));
                let room = WIDTH - MARGIN - at;
                if bar.note.is_empty() {
                    canvas.elided(&bar.label, room, (at, middle), At::Left, Font::BODY)?;
                } else {
                    canvas.elided(&bar.label, room, (at, middle - 7.0), At::Left, Font::BODY)?;
                    canvas.elided(&bar.note, room, (at, middle + 8.5), At::Left, Font::SMALL)?;
                }
            }
            Content::Heading(_) => {}
        }
    }
    Ok(())
}

/// The entries broken into lines, each with its place.
fn legend_lines(entries: &[(Rgb, String)]) -> Vec<Vec<(Rgb, String, f64)>> {
    let mut lines: Vec<Vec<(Rgb, String, f64)>> = Vec::new();
    let mut x = f64::INFINITY;
    for (color, name) in entries {
        let width = 16.0 + Font::NOTE.width(name).min(300.0) + 18.0;
        if x + width > WIDTH - MARGIN {
            lines.push(Vec::new());
            x = MARGIN;
        }
        if let Some(line) = lines.last_mut() {
            line.push((*color, name.clone(), x));
        }
        x += width;
    }
    lines
}

fn draw_legend(canvas: &Canvas<'_>, lines: &[Vec<(Rgb, String, f64)>], top: f64) -> Drawn {
    for (i, line) in lines.iter().enumerate() {
        let y = top + i as f64 * LEGEND_LINE + 7.0;
        for (color, name, x) in line {
            canvas.marked(&Facts::legend(name), || {
                canvas.rect((*x, x + 11.0), (y - 5.5, y + 5.5), Paint::solid(*color))?;
                canvas.elided(name, 300.0, (x + 16.0, y), At::Left, Font::NOTE)
            })?;
        }
    }
    Ok(())
}

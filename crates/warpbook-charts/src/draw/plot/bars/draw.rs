//! Drawing of bars, their names and their reference lines.

use super::{BEHIND, Bar, BarLayout, BarRow, Bars, Content, GAP, LEGEND_LINE, MARK_LINE, REMARK_LINES, ReferenceLine};
use crate::draw::canvas::{At, Canvas, Drawn, Font, MARGIN, Marker, Paint, Stroke, line_height};
use crate::draw::chart::{Chart, ChartError};
use crate::draw::mark_data::MarkData;
use crate::draw::plot::ticks::Axis;
use crate::draw::text;

impl Bars {
    pub(crate) fn draw(mut self) -> Result<Chart, ChartError> {
        let layout = self.layout();
        let shared = self.shared();
        let dots = self.dots();
        if let Some(axis) = self.axis.take() {
            let room = layout.right - layout.left;
            // Every decade has a tick unless the labels would touch.
            let decades = if axis.is_log() { (axis.high() / axis.low()).log10() } else { 0.0 };
            let widest = axis.ticks.iter().map(|t| Font::SMALL.width(&(self.tick)(*t))).fold(24.0, f64::max);
            let fits = decades * (widest + 4.0) <= room;
            let wanted = if fits { (room / 54.0).max(decades.floor() + 1.0) } else { room / 54.0 };
            self.axis = Some(axis.with_ticks(wanted as usize));
        }
        let legend = layout.legend.len() as f64 * LEGEND_LINE;
        let mark = self.reference_lines.iter().map(|m| label_height(m, &layout)).sum::<f64>();
        let mark = if layout.narrow && mark > 0.0 { mark + 8.0 } else { mark };
        let rows: f64 = self.rows.iter().map(|r| layout.height(r)).sum();
        let caption_lines = text::wrap(&self.caption, layout.width - MARGIN - layout.left, 12.0, false, 3).len();
        let axis = if self.axis.is_some() { 24.0 + caption_lines as f64 * 16.0 } else { 4.0 };
        let Self { frame, rows: all, axis: scale, base, tick, caption, reference_lines, legend: _ } = self;
        frame.draw(legend + mark + rows + axis, |canvas, top| {
            draw_legend(canvas, &layout, top)?;
            let top = top + legend;
            let first = top + mark;
            let Some(axis) = scale else {
                return draw_rows(canvas, &all, &layout, first, None);
            };
            let x = |v: f64| axis.position(v, layout.left, layout.right);
            let blocks = layout.blocks(&all, first);
            draw_axis(canvas, &axis, &layout, &blocks, tick, &caption)?;
            let zero = x(base.unwrap_or(axis.low()));
            for (from, to) in &blocks {
                canvas.line(&[(zero, *from), (zero, *to)], Stroke::new(Paint::MUTED, 1.0))?;
            }
            canvas.marked(&shared, || {
                draw_bars(canvas, &all, &layout, (first, zero, dots), x)?;
                match layout.narrow {
                    true => draw_stacked_lines(canvas, &reference_lines, (&all, &layout), (top, first), x),
                    false => draw_lines(canvas, reference_lines, (&all, &layout), (top, first), x),
                }
            })?;
            let label_at = |bar: &Bar| layout.column.unwrap_or_else(|| label_at(bar, zero, x));
            draw_rows(canvas, &all, &layout, first, Some(&label_at))
        })
    }
}

/// Returns the height of a reference line's label.
fn label_height(mark: &ReferenceLine, layout: &BarLayout) -> f64 {
    match layout.narrow {
        false => MARK_LINE,
        true => stacked_line(mark, layout).len() as f64 * 16.0 + 4.0,
    }
}

fn stacked_line(mark: &ReferenceLine, layout: &BarLayout) -> Vec<String> {
    text::wrap(&mark.label, layout.room() - 22.0, Font::SMALL.size, false, 2)
}

fn draw_axis(
    canvas: &Canvas<'_>,
    axis: &Axis,
    layout: &BarLayout,
    blocks: &[(f64, f64)],
    tick: fn(f64) -> String,
    caption: &str,
) -> Drawn {
    let bottom = blocks.last().map_or(0.0, |b| b.1);
    for t in axis.minor() {
        let x = axis.position(t, layout.left, layout.right);
        canvas.line(&[(x, bottom - 3.0), (x, bottom + 3.0)], Stroke::new(Paint::FAINT, 1.0))?;
    }
    for t in &axis.ticks {
        let x = axis.position(*t, layout.left, layout.right);
        for (from, to) in blocks {
            let to = if *to == bottom { bottom + 4.0 } else { *to };
            canvas.line(&[(x, *from), (x, to)], Stroke::new(Paint::FAINT, 1.0))?;
        }
        let text = tick(*t);
        // The bars of a narrow chart start at its border, so a label must not cross it.
        let half = Font::SMALL.width(&text) / 2.0;
        let at = x.clamp(half + 2.0, layout.width - half - 2.0);
        canvas.text(&text, (at, bottom + 13.0), At::Middle, Font::SMALL)?;
    }
    canvas.wrapped(caption, layout.width - MARGIN - layout.left, 3, (layout.left, bottom + 30.0), Font::SMALL)
}

fn draw_bars(
    canvas: &Canvas<'_>,
    rows: &[BarRow],
    layout: &BarLayout,
    (first, zero, dots): (f64, f64, bool),
    x: impl Fn(f64) -> f64,
) -> Drawn {
    for (row, y, _) in layout.placed(rows, first) {
        let Some(bar) = row.bar() else { continue };
        let ends = layout.bar(row, bar, y);
        let middle = f64::midpoint(ends.0, ends.1);
        if bar.data.is_best {
            canvas.rect(
                (2.0, layout.width - 2.0),
                (y + 1.0, y + layout.height(row) - 1.0),
                Paint::faded(bar.color, 0.14),
            )?;
        }
        let data = if bar.parts.is_empty() { bar.data.clone() } else { MarkData::default() };
        canvas.marked(&data, || {
            if dots {
                draw_dot(canvas, bar, (zero, x(bar.value)), middle)?;
            } else {
                draw_bar(canvas, bar, zero, ends, &x)?;
            }
            // A shorter whisker would disappear behind the dot.
            draw_whisker(canvas, bar, middle, if dots { 12.0 } else { 3.0 }, &x)
        })?;
    }
    Ok(())
}

fn draw_bar(canvas: &Canvas<'_>, bar: &Bar, zero: f64, y: (f64, f64), x: impl Fn(f64) -> f64) -> Drawn {
    let end = x(bar.value);
    // Even the shortest bar stays visible.
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
        // Even a short part between two longer ones stays visible.
        let to = x(sum).max(begin + 1.5);
        canvas.marked(&part.data, || canvas.rect((begin, to), y, Paint::solid(part.color)))?;
    }
    Ok(())
}

/// Draws a dot at the value, and a guiding line from the name.
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

/// Returns the left end of a bar's label.
fn label_at(bar: &Bar, zero: f64, x: impl Fn(f64) -> f64) -> f64 {
    x(bar.value).max(bar.spread.map_or(zero, |s| x(s.1))).max(zero + 1.5) + GAP
}

/// Lists the reference lines above the bars, each with a sample of its line.
fn draw_stacked_lines(
    canvas: &Canvas<'_>,
    lines: &[ReferenceLine],
    (rows, layout): (&[BarRow], &BarLayout),
    (top, first): (f64, f64),
    x: impl Fn(f64) -> f64,
) -> Drawn {
    let mut y = top;
    for mark in lines {
        canvas.marked(&mark.data, || {
            canvas.line(&[(MARGIN + 7.0, y), (MARGIN + 7.0, y + 15.0)], stroke(mark, 1.0))?;
            canvas.wrapped(&mark.label, layout.room() - 22.0, 2, (MARGIN + 22.0, y + 8.0), Font::SMALL)?;
            draw_mark(canvas, mark, (rows, layout), (first, first), &x)
        })?;
        y += label_height(mark, layout);
    }
    Ok(())
}

fn stroke(mark: &ReferenceLine, alpha: f64) -> Stroke {
    let paint = Paint { alpha, ..Paint::INK };
    if mark.solid { Stroke::new(paint, 1.2) } else { Stroke::dashed(paint, 1.5, 1) }
}

/// Draws reference lines with one label each, the label of the rightmost line on top, so that the lines of upper labels pass
/// beside the lower labels.
fn draw_lines(
    canvas: &Canvas<'_>,
    mut lines: Vec<ReferenceLine>,
    (rows, layout): (&[BarRow], &BarLayout),
    (top, first): (f64, f64),
    x: impl Fn(f64) -> f64,
) -> Drawn {
    lines.sort_by(|a, b| x(b.value).total_cmp(&x(a.value)));
    let border = layout.width - MARGIN;
    let mut end = border;
    for (i, mark) in lines.iter().enumerate() {
        let at = x(mark.value);
        let y = top + i as f64 * MARK_LINE;
        let width = Font::SMALL.width(&mark.label);
        let centred = at - width / 2.0;
        let (left, room) = match () {
            () if i == 0 || width <= end - MARGIN => {
                let left = centred.min(end - width).max(MARGIN);
                (left, end - left)
            }
            // If neither side has room, the label is to the right of the lines above it.
            () => {
                let from = x(lines[0].value) + 6.0;
                if border - from > end - MARGIN { (from, border - from) } else { (MARGIN, end - MARGIN) }
            }
        };
        canvas.marked(&mark.data, || {
            canvas.elided(&mark.label, room, (left, y + 8.0), At::Left, Font::SMALL)?;
            draw_mark(canvas, mark, (rows, layout), (y + 16.0, first), &x)
        })?;
        end = at - 6.0;
    }
    Ok(())
}

/// Draws a reference line, fainter behind text.
fn draw_mark(
    canvas: &Canvas<'_>,
    mark: &ReferenceLine,
    (rows, layout): (&[BarRow], &BarLayout),
    (top, first): (f64, f64),
    x: impl Fn(f64) -> f64,
) -> Drawn {
    let at = x(mark.value);
    let line = |from: f64, to: f64, alpha: f64| match to > from {
        true => canvas.line(&[(at, from), (at, to)], stroke(mark, alpha)),
        false => Ok(()),
    };
    let mut begun = top;
    for (row, y, height) in layout.placed(rows, first) {
        let clear = match &row.content {
            Content::Heading(_) | Content::Reason(_) => None,
            Content::Bar(bar) if layout.narrow => {
                let (from, to) = layout.bar(row, bar, y);
                Some((from - 2.0, to + 2.0))
            }
            Content::Bar(bar) if bar.remark.is_empty() => Some((y, y + height)),
            Content::Bar(_) => Some((y, y + layout.own_height(row) - 1.0)),
        };
        if clear == Some((y, y + height)) {
            continue;
        }
        let (from, to) = clear.unwrap_or((y, y));
        if from > y || clear.is_none() {
            line(begun, y, 1.0)?;
            line(y, from, BEHIND)?;
            begun = from;
        }
        line(begun, to, 1.0)?;
        line(to, y + height, BEHIND)?;
        begun = y + height;
    }
    let end = first + rows.iter().map(|r| layout.height(r)).sum::<f64>();
    line(begun, end, 1.0)
}

type LabelAt<'a> = &'a dyn Fn(&Bar) -> f64;

/// Draws the names, labels and reasons of all rows.
fn draw_rows(
    canvas: &Canvas<'_>,
    rows: &[BarRow],
    layout: &BarLayout,
    first: f64,
    label_at: Option<LabelAt<'_>>,
) -> Drawn {
    for (row, y, _) in layout.placed(rows, first) {
        let own = layout.own_height(row);
        match &row.content {
            Content::Heading(note) => draw_heading(canvas, row, note, (y, own), layout)?,
            _ if layout.narrow => draw_stacked(canvas, row, y, layout)?,
            _ => draw_row(canvas, row, (y, own), layout, label_at)?,
        }
        if let Some(bar) = row.bar().filter(|b| !b.remark.is_empty()) {
            let left = layout.left + if layout.narrow { 0.0 } else { GAP };
            let at = (left, y + own + line_height(Font::SMALL) / 2.0 - 3.0);
            canvas.wrapped(&bar.remark, layout.width - MARGIN - left, REMARK_LINES, at, Font::SMALL)?;
        }
    }
    Ok(())
}

fn draw_heading(canvas: &Canvas<'_>, row: &BarRow, note: &str, (y, height): (f64, f64), layout: &BarLayout) -> Drawn {
    let middle = y + height - 12.0;
    if height > 40.0 {
        canvas.elided(&row.name, layout.room(), (MARGIN, middle - 17.0), At::Left, Font::HEADING)?;
        return canvas.elided(note, layout.room(), (MARGIN, middle), At::Left, Font::NOTE);
    }
    let room = layout.room() - Font::NOTE.width(note).min(300.0) - 12.0;
    canvas.elided(&row.name, room, (MARGIN, middle), At::Left, Font::HEADING)?;
    let at = MARGIN + Font::HEADING.width(&row.name).min(room) + 10.0;
    canvas.elided(note, layout.width - MARGIN - at, (at, middle), At::Left, Font::NOTE)
}

/// Draws the name to the left, and the label or reason to the right.
fn draw_row(
    canvas: &Canvas<'_>,
    row: &BarRow,
    (y, height): (f64, f64),
    layout: &BarLayout,
    label_at: Option<LabelAt<'_>>,
) -> Drawn {
    let middle = y + height / 2.0;
    let room = layout.left - MARGIN - 10.0;
    let end = layout.left - 10.0;
    if row.id.is_empty() {
        canvas.elided(&row.name, room, (end, middle), At::Right, row.font())?;
    } else {
        canvas.elided(&row.name, room, (end, middle - 7.0), At::Right, row.font())?;
        canvas.elided(&row.id, room, (end, middle + 8.5), At::Right, Font::SMALL)?;
    }
    match &row.content {
        Content::Reason(why) => {
            let at = layout.left + GAP;
            let room = layout.width - MARGIN - at;
            let up = (layout.reason(why, room) - 1.0) * line_height(Font::NOTE) / 2.0;
            canvas.wrapped(why, room, 2, (at, middle - up), Font::NOTE)
        }
        Content::Bar(bar) => {
            let at = label_at.map_or(layout.left + GAP, |f| f(bar));
            let room = layout.width - MARGIN - at;
            if bar.note.is_empty() {
                return canvas.elided(&bar.label, room, (at, middle), At::Left, Font::BODY);
            }
            canvas.elided(&bar.label, room, (at, middle - 7.0), At::Left, Font::BODY)?;
            canvas.elided(&bar.note, room, (at, middle + 8.5), At::Left, Font::SMALL)
        }
        Content::Heading(_) => Ok(()),
    }
}

/// Draws the name, the label and the note, one below the other, above the bar.
fn draw_stacked(canvas: &Canvas<'_>, row: &BarRow, y: f64, layout: &BarLayout) -> Drawn {
    let room = layout.room();
    match &row.content {
        Content::Bar(bar) => {
            let mut line = y + 8.0;
            if layout.share_a_line(row, bar) {
                canvas.text(&row.name, (MARGIN, line), At::Left, row.font())?;
                canvas.text(&bar.label, (layout.width - MARGIN, line), At::Right, Font::BODY)?;
            } else {
                canvas.elided(&row.name, room, (MARGIN, line), At::Left, row.font())?;
                line += 17.0;
                canvas.elided(&bar.label, room, (MARGIN, line), At::Left, Font::BODY)?;
            }
            match bar.note.is_empty() {
                true => Ok(()),
                false => canvas.elided(&bar.note, room, (MARGIN, line + 16.0), At::Left, Font::SMALL),
            }
        }
        Content::Reason(why) => {
            canvas.elided(&row.name, room, (MARGIN, y + 8.0), At::Left, Font::BODY)?;
            canvas.wrapped(why, room, 3, (MARGIN, y + 24.0), Font::NOTE)
        }
        Content::Heading(_) => Ok(()),
    }
}

fn draw_legend(canvas: &Canvas<'_>, layout: &BarLayout, top: f64) -> Drawn {
    for (i, line) in layout.legend.iter().enumerate() {
        let y = top + i as f64 * LEGEND_LINE + 7.0;
        for (color, name, x) in line {
            canvas.marked(&MarkData::legend(name), || {
                canvas.rect((*x, x + 11.0), (y - 5.5, y + 5.5), Paint::solid(*color))?;
                canvas.elided(name, 300.0, (x + 16.0, y), At::Left, Font::NOTE)
            })?;
        }
    }
    Ok(())
}

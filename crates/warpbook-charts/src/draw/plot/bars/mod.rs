//! Horizontal bars: one for each row, with the name to the left and the value at its end, or in a column of values if
//! there are reference lines. On a narrow chart, names and values are above the bars.

mod draw;

use crate::draw::canvas::{Font, MARGIN, line_height};
use crate::draw::colour::Rgb;
use crate::draw::frame::Frame;
use crate::draw::mark_data::{MarkData, shared_problem};
use crate::draw::options::is_narrow;
use crate::draw::plot::ticks::Axis;
use crate::draw::text;

pub(crate) struct Bar {
    pub(crate) value: f64,
    /// Ends of the whisker.
    pub(crate) spread: Option<(f64, f64)>,
    /// Label at the end of the bar.
    pub(crate) label: String,
    /// Small text below the label; usually empty.
    pub(crate) note: String,
    /// Remark below the label and the note; usually empty.
    pub(crate) remark: String,
    pub(crate) color: Rgb,
    /// True if the bar is an outline, as for sums.
    pub(crate) hollow: bool,
    /// Parts from the start of the bar, each in its own colour; usually empty.
    pub(crate) parts: Vec<Segment>,
    /// Data of the bar's mark; parts have their own.
    pub(crate) data: MarkData,
}

/// A part of a bar.
pub(crate) struct Segment {
    pub(crate) value: f64,
    pub(crate) color: Rgb,
    pub(crate) data: MarkData,
}

#[expect(clippy::large_enum_variant, reason = "a chart has some dozens of rows at most")]
pub(crate) enum Content {
    Bar(Bar),
    /// Reason why there is no bar.
    Reason(String),
    /// Heading of the rows below, with a remark to its right.
    Heading(String),
}

pub(crate) struct BarRow {
    pub(crate) name: String,
    /// Small text below the name.
    pub(crate) id: String,
    pub(crate) content: Content,
}

/// A value that all bars are compared with.
pub(crate) struct ReferenceLine {
    pub(crate) value: f64,
    pub(crate) label: String,
    /// True for a solid line: a value that was measured, not a bound.
    pub(crate) solid: bool,
    pub(crate) data: MarkData,
}

pub(crate) struct Bars {
    pub(crate) frame: Frame,
    pub(crate) rows: Vec<BarRow>,
    /// Axis; `None` if no row has a bar.
    pub(crate) axis: Option<Axis>,
    /// Value at which bars start; `None` for the axis's low end.
    pub(crate) base: Option<f64>,
    pub(crate) tick: fn(f64) -> String,
    pub(crate) caption: String,
    pub(crate) reference_lines: Vec<ReferenceLine>,
    pub(crate) legend: Vec<(Rgb, String)>,
}

/// Gap from the end of a bar to its label.
const GAP: f64 = 7.0;
const LEGEND_LINE: f64 = 20.0;
/// Height of a reference line's label.
const MARK_LINE: f64 = 20.0;
/// Height of a bar in a narrow chart.
const THIN: f64 = 12.0;
/// Opacity of a reference line where it passes behind a text.
const BEHIND: f64 = 0.22;
/// Maximum number of lines of a remark.
const REMARK_LINES: usize = 3;

/// Horizontal positions in a chart of bars, from left to right.
struct BarLayout {
    width: f64,
    /// True if names and values are above the bars.
    narrow: bool,
    /// Left end of bars.
    left: f64,
    /// Right end of the axis.
    right: f64,
    /// Left end of the column of values, if there is one.
    column: Option<f64>,
    legend: Vec<Vec<(Rgb, String, f64)>>,
}

impl BarLayout {
    /// Returns the width between the borders of the chart.
    fn room(&self) -> f64 {
        self.width - 2.0 * MARGIN
    }

    /// Returns the height of a bar's remark.
    fn remark(&self, bar: &Bar) -> f64 {
        let room = self.width - MARGIN - self.left - if self.narrow { 0.0 } else { GAP };
        let lines = text::wrap(&bar.remark, room, Font::SMALL.size, false, REMARK_LINES).len() as f64;
        lines * line_height(Font::SMALL) + if lines > 0.0 { 6.0 } else { 0.0 }
    }

    /// Returns true if the name and the value share a line in a narrow chart.
    fn share_a_line(&self, row: &BarRow, bar: &Bar) -> bool {
        row.font().width(&row.name) + Font::BODY.width(&bar.label) + 12.0 <= self.room()
    }

    /// Returns the height of a row without its remark.
    fn own_height(&self, row: &BarRow) -> f64 {
        let wide = |text: &str| text::width(text, Font::NOTE.size, false);
        match &row.content {
            Content::Heading(note)
                if self.narrow && wide(note) + Font::HEADING.width(&row.name) > self.room() - 12.0 =>
            {
                46.0
            }
            Content::Heading(_) => 30.0,
            Content::Bar(bar) if self.narrow => self.above(row, bar) + THIN + 10.0,
            Content::Reason(why) if self.narrow => 24.0 + self.reason(why, self.room()) * line_height(Font::NOTE),
            Content::Bar(bar) if !bar.note.is_empty() => 38.0,
            _ if !row.id.is_empty() => 38.0,
            Content::Reason(why) if wide(why) > 400.0 => 38.0,
            _ => 25.0,
        }
    }

    /// Returns the height of the text of a reason.
    fn reason(&self, why: &str, room: f64) -> f64 {
        text::wrap(why, room, Font::NOTE.size, false, 2 + usize::from(self.narrow)).len().max(1) as f64
    }

    /// Returns the height of the name, the value and the note above a bar of a narrow chart.
    fn above(&self, row: &BarRow, bar: &Bar) -> f64 {
        let lines = if self.share_a_line(row, bar) { 1.0 } else { 2.0 };
        lines * 17.0 + if bar.note.is_empty() { 2.0 } else { 17.0 }
    }

    fn height(&self, row: &BarRow) -> f64 {
        self.own_height(row) + row.bar().map_or(0.0, |bar| self.remark(bar))
    }

    /// Returns the top and bottom of a bar whose row starts at y.
    fn bar(&self, row: &BarRow, bar: &Bar, y: f64) -> (f64, f64) {
        if self.narrow {
            let top = y + self.above(row, bar);
            return (top, top + THIN);
        }
        let half = if row.id.is_empty() { 8.0 } else { 10.0 };
        let middle = y + self.own_height(row) / 2.0;
        (middle - half, middle + half)
    }

    /// Returns the rows with the top and the height of each.
    fn placed<'r>(&self, rows: &'r [BarRow], first: f64) -> impl Iterator<Item = (&'r BarRow, f64, f64)> {
        let mut y = first;
        rows.iter().map(move |row| {
            let height = self.height(row);
            y += height;
            (row, y - height, height)
        })
    }

    /// Returns the top and bottom of each block of rows between headings.
    fn blocks(&self, rows: &[BarRow], first: f64) -> Vec<(f64, f64)> {
        let mut out: Vec<(f64, f64)> = Vec::new();
        for (row, y, height) in self.placed(rows, first) {
            match out.last_mut() {
                _ if matches!(row.content, Content::Heading(_)) => {}
                Some(last) if last.1 == y => last.1 = y + height,
                _ => out.push((y, y + height)),
            }
        }
        out
    }
}

impl Bars {
    /// Returns the data that all marks share.
    fn shared(&mut self) -> MarkData {
        let bars = self.rows.iter_mut().filter_map(|r| match &mut r.content {
            Content::Bar(bar) => Some(bar),
            _ => None,
        });
        let of_bars = bars.flat_map(|bar| bar.parts.iter_mut().map(|p| &mut p.data).chain([&mut bar.data]));
        shared_problem(of_bars.chain(self.reference_lines.iter_mut().map(|m| &mut m.data)))
    }

    /// Returns true if values are drawn as dots: on a logarithmic axis without a base, lengths mean nothing.
    fn dots(&self) -> bool {
        self.base.is_none() && self.axis.as_ref().is_some_and(Axis::is_log)
    }

    fn layout(&self) -> BarLayout {
        let width = self.frame.width;
        let legend = legend_lines(&self.legend, width);
        if is_narrow(width) {
            return BarLayout { width, narrow: true, left: MARGIN, right: width - MARGIN - 10.0, column: None, legend };
        }
        let widest = self.rows.iter().map(|r| r.name_width()).fold(0.0, f64::max);
        let left = MARGIN + widest.clamp(60.0, 240.0) + 10.0;
        let most = width - MARGIN - 14.0 - left;
        let bars = || self.rows.iter().filter_map(BarRow::bar);
        // Labels in their own column do not cross the marks.
        if !self.reference_lines.is_empty() && self.axis.is_some() {
            let room = bars().map(Bar::label_width).fold(0.0, f64::max) + GAP + 8.0;
            let right = left + (most - room + 14.0).clamp(most * 0.3, most);
            return BarLayout { width, narrow: false, left, right, column: Some(right + GAP + 7.0), legend };
        }
        // Finds the longest axis that leaves room for every label.
        let mut length = most;
        if let Some(axis) = &self.axis {
            let base = axis.position(self.base.unwrap_or(axis.low()), 0.0, 1000.0) / 1000.0;
            for bar in bars() {
                let end = |v: f64| axis.position(v, 0.0, 1000.0) / 1000.0;
                let end = end(bar.value).max(bar.spread.map_or(0.0, |s| end(s.1))).max(base);
                // One pixel is reserved for rounding.
                let room = width - MARGIN - left - GAP - bar.label_width() - 1.0;
                length = length.min(room / end.max(1e-3));
            }
        }
        let right = left + length.clamp(most * 0.3, most);
        BarLayout { width, narrow: false, left, right, column: None, legend }
    }
}

impl Bar {
    fn label_width(&self) -> f64 {
        Font::BODY.width(&self.label).max(Font::SMALL.width(&self.note))
    }
}

impl BarRow {
    fn bar(&self) -> Option<&Bar> {
        match &self.content {
            Content::Bar(b) => Some(b),
            _ => None,
        }
    }

    /// Returns the font of the name, which is bold for the fastest rung.
    fn font(&self) -> Font {
        if self.bar().is_some_and(|b| b.data.is_best) { Font::HEADING } else { Font::BODY }
    }

    fn name_width(&self) -> f64 {
        match &self.content {
            Content::Heading(_) => 0.0,
            _ => self.font().width(&self.name).max(Font::SMALL.width(&self.id)),
        }
    }
}

/// Breaks the legend into lines, with positions.
fn legend_lines(entries: &[(Rgb, String)], border: f64) -> Vec<Vec<(Rgb, String, f64)>> {
    let mut lines: Vec<Vec<(Rgb, String, f64)>> = Vec::new();
    let mut x = f64::INFINITY;
    for (color, name) in entries {
        let width = 16.0 + Font::NOTE.width(name).min(300.0) + 18.0;
        if x + width > border - MARGIN {
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

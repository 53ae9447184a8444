//! Diagrams by code: which elements of which tile somebody reads, what goes where, and what runs at the same time.
//!
//! A [`Diagram`] is rows of parts, left to right: a [`Matrix`] with shaded elements, a [`Product`] of three of them, a [`Sign`]
//! between two, a [`Timeline`]. Sizes are CSS pixels; what is too wide is made narrower.
//!
//! ```
//! use warpbook_charts::diagram::{Diagram, Matrix, Sign};
//!
//! let chart = Diagram::new("A warp's read")
//!     .describe("The 32 lanes of a warp read the first row of a matrix, one line of 128 bytes.")
//!     .put(Matrix::new("A", 8, 32).cell(9.0, 9.0).shade(0..1, 0..32, 0, "read at once"))
//!     .put(Sign::arrow("one line"))
//!     .put(Matrix::new("registers", 1, 32).cell(6.0, 12.0).shade(0..1, 0..32, 0, ""))
//!     .draw()?;
//! assert!(chart.svg.as_str().contains("read at once"));
//! # Ok::<(), warpbook_charts::ChartError>(())
//! ```

use crate::canvas::{At, Canvas, Drawn, Font, Frame, MARGIN, Paint, Stroke, WIDTH};
use crate::palette::{Rgb, SERIES};
use crate::text::clean;
use crate::{Chart, ChartError, Table};
use std::ops::Range;

/// For what is read or written; text is readable on it.
const STRONG: f64 = 0.6;
/// The same where nothing is written on it, and it may be a few pixels only.
const STRONGEST: f64 = 0.9;
/// For what belongs to it, less prominent.
const WEAK: f64 = 0.22;
/// Between two parts of a row.
const GAP: f64 = 12.0;
const LEGEND_LINE: f64 = 19.0;
const NAME: Font = Font { size: 12.0, bold: true, paint: Paint::INK };
const CELL: Font = Font { size: 10.0, bold: false, paint: Paint::INK };
/// No matrix is made narrower than this to make room for its neighbours.
const LEAST: f64 = 40.0;
/// No side of a drawn matrix is longer than this.
const MAX_SIDE: f64 = 640.0;
/// More shaded ranges, texts or spans than these are not drawn.
const MAX_MARKS: usize = 4096;
/// A function is not asked about rows and columns beyond these.
const MAX_ASKED: usize = 512;

fn color(tone: usize) -> Rgb {
    SERIES[tone % SERIES.len()]
}

fn paint(key: &Key, written: bool) -> Paint {
    let alpha = match (key.strong, written) {
        (false, _) => WEAK,
        (true, true) => STRONG,
        (true, false) => STRONGEST,
    };
    Paint::faded(color(key.tone), alpha)
}

/// An entry of the legend.
#[derive(Debug, Clone, PartialEq)]
struct Key {
    tone: usize,
    strong: bool,
    label: String,
}

/// A shaded range of a matrix.
#[derive(Debug, Clone, PartialEq)]
struct Shade {
    rows: Range<usize>,
    columns: Range<usize>,
    key: Key,
}

/// A matrix of so many rows and columns, some of them shaded.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    name: String,
    rows: usize,
    columns: usize,
    cell: (f64, f64),
    shades: Vec<Shade>,
    frames: Vec<(Range<usize>, Range<usize>)>,
    texts: Vec<(usize, usize, String)>,
    at_rows: Vec<(usize, String)>,
    at_columns: Vec<(usize, String)>,
    rule: (usize, usize),
    caption: String,
}

impl Matrix {
    /// One of that name; its elements are squares of 8 pixels.
    #[must_use]
    pub fn new(name: &str, rows: usize, columns: usize) -> Self {
        Self {
            name: clean(name),
            rows: rows.max(1),
            columns: columns.max(1),
            cell: (8.0, 8.0),
            shades: Vec::new(),
            frames: Vec::new(),
            texts: Vec::new(),
            at_rows: Vec::new(),
            at_columns: Vec::new(),
            rule: (0, 0),
            caption: String::new(),
        }
    }

    /// Width and height of an element in pixels.
    #[must_use]
    pub fn cell(mut self, width: f64, height: f64) -> Self {
        let side = |v: f64, n: usize| if v.is_finite() && v > 0.0 { v } else { 8.0 }.min(MAX_SIDE / n as f64);
        self.cell = (side(width, self.columns), side(height, self.rows));
        self
    }

    /// Shades elements in one of eight tones, with a label for the legend, or none.
    #[must_use]
    pub fn shade(self, rows: Range<usize>, columns: Range<usize>, tone: usize, label: &str) -> Self {
        self.shaded(rows, columns, tone, true, label)
    }

    /// The same lightly, for what is less prominent.
    #[must_use]
    pub fn tint(self, rows: Range<usize>, columns: Range<usize>, tone: usize, label: &str) -> Self {
        self.shaded(rows, columns, tone, false, label)
    }

    fn shaded(mut self, rows: Range<usize>, columns: Range<usize>, tone: usize, strong: bool, label: &str) -> Self {
        if let (Some(rows), Some(columns)) = (within(rows, self.rows), within(columns, self.columns)) {
            self.shades.push(Shade { rows, columns, key: Key { tone, strong, label: clean(label) } });
        }
        self
    }

    /// Shades each element that a function gives a tone, with one label for all.
    #[must_use]
    pub fn fill(mut self, label: &str, tone: impl Fn(usize, usize) -> Option<usize>) -> Self {
        for row in 0..self.rows.min(MAX_ASKED) {
            for column in 0..self.columns.min(MAX_ASKED) {
                if let Some(tone) = tone(row, column) {
                    self = self.shade(row..row + 1, column..column + 1, tone, label);
                }
                if self.shades.len() > MAX_MARKS {
                    return self;
                }
            }
        }
        self
    }

    /// Draws a frame around elements.
    #[must_use]
    pub fn frame(mut self, rows: Range<usize>, columns: Range<usize>) -> Self {
        if let (Some(rows), Some(columns)) = (within(rows, self.rows), within(columns, self.columns)) {
            self.frames.push((rows, columns));
        }
        self
    }

    /// Writes into an element what a function says of it, where it says something.
    #[must_use]
    pub fn write(mut self, text: impl Fn(usize, usize) -> String) -> Self {
        for row in 0..self.rows.min(MAX_ASKED) {
            for column in 0..self.columns.min(MAX_ASKED) {
                let text = clean(&text(row, column));
                if !text.is_empty() {
                    self.texts.push((row, column, text));
                }
                if self.texts.len() > MAX_MARKS {
                    return self;
                }
            }
        }
        self
    }

    /// Names a row, to its left.
    #[must_use]
    pub fn at_row(mut self, row: usize, text: &str) -> Self {
        self.at_rows.push((row.min(self.rows - 1), clean(text)));
        self
    }

    /// Names a column, above it.
    #[must_use]
    pub fn at_column(mut self, column: usize, text: &str) -> Self {
        self.at_columns.push((column.min(self.columns - 1), clean(text)));
        self
    }

    /// Draws a line after so many rows and so many columns, again and again; 0 is never.
    #[must_use]
    pub fn rule(mut self, rows: usize, columns: usize) -> Self {
        self.rule = (rows, columns);
        self
    }

    /// A remark below it.
    #[must_use]
    pub fn caption(mut self, text: &str) -> Self {
        self.caption = clean(text);
        self
    }

    fn width(&self) -> f64 {
        self.columns as f64 * self.cell.0
    }

    fn height(&self) -> f64 {
        self.rows as f64 * self.cell.1
    }

    fn names_width(&self) -> f64 {
        let widest = self.at_rows.iter().map(|(_, t)| Font::SMALL.width(t)).fold(0.0, f64::max);
        if widest > 0.0 { widest.min(120.0) + 6.0 } else { 0.0 }
    }

    fn above(&self) -> f64 {
        let names = if self.at_columns.is_empty() { 0.0 } else { 14.0 };
        let name = if self.name.is_empty() { 2.0 } else { 20.0 };
        names + name
    }

    fn scaled(&mut self, by: f64) {
        self.cell.0 *= by;
        // Squares stay squares.
        self.cell.1 *= by;
    }

    /// Elements only, from a top left corner on.
    fn draw_elements(&self, canvas: &Canvas<'_>, (left, top): (f64, f64)) -> Drawn {
        let x = |column: usize| left + column as f64 * self.cell.0;
        let y = |row: usize| top + row as f64 * self.cell.1;
        let (right, bottom) = (left + self.width(), top + self.height());
        for s in self.shades.iter().take(MAX_MARKS) {
            let (from, to) = ((x(s.columns.start), x(s.columns.end)), (y(s.rows.start), y(s.rows.end)));
            canvas.rect(from, to, paint(&s.key, !self.texts.is_empty()))?;
        }
        let rules = |every: usize, count: usize, stroke: Stroke, across: bool| -> Drawn {
            for at in (every..count).step_by(every.max(1)).take_while(|_| every > 0) {
                let line = if across { [(left, y(at)), (right, y(at))] } else { [(x(at), top), (x(at), bottom)] };
                canvas.line(&line, stroke)?;
            }
            Ok(())
        };
        let (faint, rule) = (Stroke::new(Paint::FAINT, 0.8), Stroke::new(Paint { alpha: 0.4, ..Paint::INK }, 0.9));
        // Finer grids would be grey.
        rules(usize::from(self.cell.1 >= 4.0), self.rows, faint, true)?;
        rules(usize::from(self.cell.0 >= 4.0), self.columns, faint, false)?;
        let coarse = |every: usize, side: f64| if every as f64 * side >= 3.0 { every } else { 0 };
        rules(coarse(self.rule.0, self.cell.1), self.rows, rule, true)?;
        rules(coarse(self.rule.1, self.cell.0), self.columns, rule, false)?;
        let outline = |canvas: &Canvas<'_>, x: (f64, f64), y: (f64, f64), stroke| {
            canvas.line(&[(x.0, y.0), (x.1, y.0), (x.1, y.1), (x.0, y.1), (x.0, y.0)], stroke)
        };
        outline(canvas, (left, right), (top, bottom), Stroke::new(Paint::MUTED, 1.0))?;
        for (rows, columns) in self.frames.iter().take(MAX_MARKS) {
            let stroke = Stroke::new(Paint::INK, 1.6);
            outline(canvas, (x(columns.start), x(columns.end)), (y(rows.start), y(rows.end)), stroke)?;
        }
        if self.cell.1 >= 11.0 && self.cell.0 >= 10.0 {
            for (row, column, text) in self.texts.iter().take(MAX_MARKS) {
                let at = (x(*column) + self.cell.0 / 2.0, y(*row) + self.cell.1 / 2.0);
                canvas.elided(text, self.cell.0, at, At::Middle, CELL)?;
            }
        }
        for (row, text) in spaced(&self.at_rows, self.cell.1, 11.0) {
            let at = (left - 5.0, y(row) + self.cell.1 / 2.0);
            canvas.elided(text, 120.0, at, At::Right, Font::SMALL)?;
        }
        let widest = self.at_columns.iter().map(|(_, t)| Font::SMALL.width(t)).fold(0.0, f64::max);
        for (column, text) in spaced(&self.at_columns, self.cell.0, widest + 2.0) {
            // Not beyond the sides, where the names of other matrices are.
            let half = (Font::SMALL.width(text) / 2.0).min(self.width() / 2.0);
            let at = (x(column) + self.cell.0 / 2.0).min(right - half).max(left + half);
            canvas.elided(text, self.width(), (at, top - 8.0), At::Middle, Font::SMALL)?;
        }
        Ok(())
    }
}

/// Of the names of rows or columns, those that have room, in their order.
fn spaced(names: &[(usize, String)], cell: f64, room: f64) -> impl Iterator<Item = (usize, &str)> {
    let mut sorted: Vec<(usize, &str)> = names.iter().map(|(at, t)| (*at, t.as_str())).collect();
    sorted.sort_by_key(|n| n.0);
    let mut last: Option<usize> = None;
    sorted.into_iter().filter(move |(at, _)| {
        let free = last.is_none_or(|l| (at - l) as f64 * cell >= room);
        if free {
            last = Some(*at);
        }
        free
    })
}

/// What of a range lies below a count.
fn within(range: Range<usize>, count: usize) -> Option<Range<usize>> {
    let range = range.start..range.end.min(count);
    (range.start < range.end).then_some(range)
}

/// A product c = a b, drawn so that the rows of a are those of c and the columns of b those of c.
#[derive(Debug, Clone, PartialEq)]
pub struct Product {
    a: Matrix,
    b: Matrix,
    c: Matrix,
}

impl Product {
    /// The three; a's rows are as high as c's, and b's columns as wide.
    #[must_use]
    pub fn new(mut a: Matrix, mut b: Matrix, c: Matrix) -> Self {
        (a.cell.1, b.cell.0) = (c.cell.1, c.cell.0);
        Self { a, b, c }
    }

    fn a_width(&self) -> f64 {
        self.a.names_width() + self.a.width().max(NAME.width(&self.a.name).min(150.0))
    }

    fn above(&self) -> f64 {
        self.b.above() + self.b.height() + GAP_OF_PRODUCT
    }

    fn draw(&self, canvas: &Canvas<'_>, (left, top): (f64, f64)) -> Drawn {
        let middle = left + self.a_width() + GAP_OF_PRODUCT;
        let (b_top, c_top) = (top + self.b.above(), top + self.above());
        let room = WIDTH - MARGIN - middle;
        canvas.elided(&self.b.name, room, (middle, top + 8.0), At::Left, NAME)?;
        self.b.draw_elements(canvas, (middle, b_top))?;
        let a_left = middle - GAP_OF_PRODUCT - self.a.width();
        let name_right = middle - GAP_OF_PRODUCT;
        canvas.elided(&self.a.name, self.a_width(), (name_right, c_top - 10.0), At::Right, NAME)?;
        self.a.draw_elements(canvas, (a_left, c_top))?;
        self.c.draw_elements(canvas, (middle, c_top))?;
        let below = c_top + self.c.height() + 11.0;
        canvas.elided(&self.c.name, room, (middle, below), At::Left, NAME)?;
        canvas.elided(&self.c.caption, room, (middle, below + 15.0), At::Left, Font::SMALL)
    }
}

const GAP_OF_PRODUCT: f64 = 7.0;

/// A sign between two parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Sign {
    text: String,
    arrow: bool,
}

impl Sign {
    /// A sign as "×" or "=".
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { text: clean(text), arrow: false }
    }

    /// An arrow to the right with words above it.
    #[must_use]
    pub fn arrow(text: &str) -> Self {
        Self { text: clean(text), arrow: true }
    }

    fn lines(&self) -> Vec<String> {
        crate::text::wrap(&self.text, 92.0, Font::SMALL.size, false, 5)
    }

    fn width(&self) -> f64 {
        if !self.arrow {
            return Font::HEADING.width(&self.text).clamp(12.0, 100.0);
        }
        self.lines().iter().map(|l| Font::SMALL.width(l)).fold(34.0, f64::max)
    }

    fn half_height(&self) -> f64 {
        if self.arrow { self.lines().len() as f64 * 14.0 + 8.0 } else { 9.0 }
    }

    fn draw(&self, canvas: &Canvas<'_>, left: f64, middle: f64) -> Drawn {
        let (width, centre) = (self.width(), left + self.width() / 2.0);
        if !self.arrow {
            return canvas.elided(&self.text, 100.0, (centre, middle), At::Middle, Font::HEADING);
        }
        let lines = self.lines();
        for (i, line) in lines.iter().enumerate() {
            let y = middle - 12.0 - (lines.len() - 1 - i) as f64 * 14.0;
            canvas.text(line, (centre, y), At::Middle, Font::SMALL)?;
        }
        draw_arrow(canvas, (centre - width.min(60.0) / 2.0, middle), (centre + width.min(60.0) / 2.0, middle))
    }
}

fn draw_arrow(canvas: &Canvas<'_>, from: (f64, f64), to: (f64, f64)) -> Drawn {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx.hypot(dy);
    if length < 1.0 {
        return Ok(());
    }
    let (ux, uy) = (dx / length, dy / length);
    let stroke = Stroke::new(Paint::MUTED, 1.2);
    canvas.line(&[from, to], stroke)?;
    let barb = |side: f64| (to.0 - 5.0 * ux - side * 3.0 * uy, to.1 - 5.0 * uy + side * 3.0 * ux);
    canvas.line(&[barb(1.0), to, barb(-1.0)], stroke)
}

/// What happens when, lane below lane, from left to right. Times have no unit.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timeline {
    lanes: Vec<String>,
    spans: Vec<Span>,
    links: Vec<((usize, f64), (usize, f64))>,
    /// Where its axis ends at least.
    until: f64,
    /// The room for the lanes' names, which a diagram's timelines share.
    names: f64,
}

#[derive(Debug, Clone, PartialEq)]
struct Span {
    lane: usize,
    from: f64,
    to: f64,
    text: String,
    key: Key,
}

impl Timeline {
    /// One with these lanes, from top to bottom.
    #[must_use]
    pub fn new(lanes: &[&str]) -> Self {
        let lanes: Vec<String> = lanes.iter().take(64).map(|l| clean(l)).collect();
        let names = lanes.iter().map(|l| Font::NOTE.width(l)).fold(30.0, f64::max).min(170.0);
        Self { lanes, names, ..Self::default() }
    }

    /// Its axis goes on to this time, so that two of them have one scale.
    #[must_use]
    pub fn until(mut self, time: f64) -> Self {
        self.until = if (0.0..=1e9).contains(&time) { time } else { 0.0 };
        self
    }

    /// Something in a lane (counted from 0) from one time to another, with a text in it and a label for the legend, or none.
    #[must_use]
    pub fn span(self, lane: usize, times: (f64, f64), tone: usize, text: &str, label: &str) -> Self {
        self.add(lane, times, text, Key { tone, strong: true, label: clean(label) })
    }

    /// The same lightly, as for waiting.
    #[must_use]
    pub fn wait(self, lane: usize, times: (f64, f64), tone: usize, text: &str, label: &str) -> Self {
        self.add(lane, times, text, Key { tone, strong: false, label: clean(label) })
    }

    fn add(mut self, lane: usize, (from, to): (f64, f64), text: &str, key: Key) -> Self {
        let fine = |t: f64| (0.0..=1e9).contains(&t);
        if lane < self.lanes.len() && fine(from) && fine(to) && from < to && self.spans.len() < MAX_MARKS {
            self.spans.push(Span { lane, from, to, text: clean(text), key });
        }
        self
    }

    /// An arrow from one lane's time to another's: what the second waits for.
    #[must_use]
    pub fn link(mut self, from: (usize, f64), to: (usize, f64)) -> Self {
        let fine = |(lane, t): (usize, f64)| lane < self.lanes.len() && (0.0..=1e9).contains(&t);
        if fine(from) && fine(to) && self.links.len() < MAX_MARKS {
            self.links.push((from, to));
        }
        self
    }

    fn height(&self) -> f64 {
        self.lanes.len() as f64 * LANE + 20.0
    }

    fn draw(&self, canvas: &Canvas<'_>, left: f64, top: f64) -> Drawn {
        let names = self.names;
        let begin = left + names + 10.0;
        let end = self.spans.iter().map(|s| s.to).fold(self.until, f64::max).max(1e-9);
        let x = |t: f64| begin + t.min(end) / end * (WIDTH - MARGIN - begin);
        let y = |lane: usize| top + lane as f64 * LANE;
        for (i, lane) in self.lanes.iter().enumerate() {
            let middle = y(i) + LANE / 2.0;
            canvas.elided(lane, names, (begin - 10.0, middle), At::Right, Font { paint: Paint::INK, ..Font::NOTE })?;
            canvas.line(&[(begin, middle), (WIDTH - MARGIN, middle)], Stroke::new(Paint::FAINT, 1.0))?;
        }
        for s in &self.spans {
            // A hair apart from the next.
            let (from, to) = (x(s.from) + 0.4, (x(s.to) - 0.4).max(x(s.from) + 0.8));
            let (upper, lower) = (y(s.lane) + 3.0, y(s.lane) + LANE - 3.0);
            canvas.rect((from, to), (upper, lower), paint(&s.key, true))?;
            let room = to - from - 2.0;
            if CELL.width(&s.text) <= room || room > 30.0 {
                canvas.elided(
                    &s.text,
                    room,
                    (f64::midpoint(from, to), f64::midpoint(upper, lower)),
                    At::Middle,
                    CELL,
                )?;
            }
        }
        for ((a, from), (b, to)) in &self.links {
            let edge = |lane: usize, other: usize| y(lane) + if other > lane { LANE - 3.0 } else { 3.0 };
            draw_arrow(canvas, (x(*from), edge(*a, *b)), (x(*to), edge(*b, *a)))?;
        }
        let bottom = y(self.lanes.len()) + 4.0;
        draw_arrow(canvas, (begin, bottom), (WIDTH - MARGIN, bottom))?;
        canvas.text("time", (WIDTH - MARGIN, bottom + 10.0), At::Right, Font::SMALL)
    }
}

const LANE: f64 = 26.0;

/// A part of a diagram.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Part {
    /// A matrix.
    Matrix(Matrix),
    /// Three matrices.
    Product(Box<Product>),
    /// A sign or an arrow.
    Sign(Sign),
    /// A timeline, as wide as the diagram.
    Timeline(Timeline),
}

impl From<Matrix> for Part {
    fn from(part: Matrix) -> Self {
        Self::Matrix(part)
    }
}

impl From<Product> for Part {
    fn from(part: Product) -> Self {
        Self::Product(Box::new(part))
    }
}

impl From<Sign> for Part {
    fn from(part: Sign) -> Self {
        Self::Sign(part)
    }
}

impl From<Timeline> for Part {
    fn from(part: Timeline) -> Self {
        Self::Timeline(part)
    }
}

impl Part {
    fn matrices(&mut self) -> Vec<&mut Matrix> {
        match self {
            Self::Matrix(m) => vec![m],
            Self::Product(p) => vec![&mut p.a, &mut p.b, &mut p.c],
            Self::Sign(_) | Self::Timeline(_) => Vec::new(),
        }
    }

    /// What is shaded, each with whether there are texts on it.
    fn keys(&self) -> Vec<(&Key, bool)> {
        let of = |m: &'_ Matrix| !m.texts.is_empty();
        match self {
            Self::Matrix(m) => m.shades.iter().map(|s| (&s.key, of(m))).collect(),
            Self::Product(p) => {
                [&p.a, &p.b, &p.c].into_iter().flat_map(|m| m.shades.iter().map(move |s| (&s.key, of(m)))).collect()
            }
            Self::Timeline(t) => t.spans.iter().map(|s| (&s.key, true)).collect(),
            Self::Sign(_) => Vec::new(),
        }
    }

    /// Of its width that which grows with its elements, and the rest.
    fn widths(&self) -> (f64, f64) {
        match self {
            Self::Matrix(m) => {
                let texts = NAME.width(&m.name).max(Font::SMALL.width(&m.caption)).min(200.0);
                (m.width(), m.names_width() + (texts - m.width()).max(0.0))
            }
            Self::Product(p) => {
                let texts = NAME.width(&p.b.name).max(NAME.width(&p.c.name)).max(Font::SMALL.width(&p.c.caption));
                let more = (texts.min(330.0) - p.c.width()).max(0.0);
                (p.a.width() + p.c.width(), p.a_width() - p.a.width() + GAP_OF_PRODUCT + more)
            }
            Self::Sign(s) => (0.0, s.width()),
            Self::Timeline(_) => (0.0, WIDTH - 2.0 * MARGIN),
        }
    }

    /// Its width where its matrices are as narrow as they get.
    fn least_width(&self) -> f64 {
        let mut narrow = self.clone();
        let (growing, _) = narrow.widths();
        if growing > LEAST {
            narrow.matrices().into_iter().for_each(|m| m.scaled(LEAST / growing));
        }
        let (growing, fixed) = narrow.widths();
        growing + fixed
    }

    /// What it takes above and below its middle.
    fn heights(&self) -> (f64, f64) {
        match self {
            Self::Matrix(m) => {
                let caption = if m.caption.is_empty() { 2.0 } else { 18.0 };
                (m.above() + m.height() / 2.0, m.height() / 2.0 + caption)
            }
            Self::Product(p) => {
                let caption = if p.c.caption.is_empty() { 0.0 } else { 15.0 };
                (p.above() + p.c.height() / 2.0, p.c.height() / 2.0 + 20.0 + caption)
            }
            Self::Sign(s) => (s.half_height(), 9.0),
            Self::Timeline(t) => (t.height() / 2.0, t.height() / 2.0),
        }
    }

    fn draw(&self, canvas: &Canvas<'_>, left: f64, middle: f64, width: f64) -> Drawn {
        let top = middle - self.heights().0;
        match self {
            Self::Matrix(m) => {
                let x = left + m.names_width();
                let room = width - m.names_width();
                canvas.elided(&m.name, room, (x, top + 8.0), At::Left, NAME)?;
                m.draw_elements(canvas, (x, top + m.above()))?;
                let below = top + m.above() + m.height() + 10.0;
                canvas.elided(&m.caption, room, (x, below), At::Left, Font::SMALL)
            }
            Self::Product(p) => p.draw(canvas, (left, top)),
            Self::Sign(s) => s.draw(canvas, left, middle),
            Self::Timeline(t) => t.draw(canvas, left, top),
        }
    }
}

/// Parts side by side, and the heading above them.
#[derive(Debug, Clone, PartialEq, Default)]
struct Row {
    heading: String,
    parts: Vec<Part>,
}

impl Row {
    /// Begins another row wherever names and signs alone leave matrices no room.
    fn broken(self) -> Vec<Self> {
        let mut out = vec![Self { heading: self.heading, parts: Vec::new() }];
        let mut x = 0.0;
        for part in self.parts {
            let least = part.least_width();
            if x > 0.0 && x + GAP + least > WIDTH - 2.0 * MARGIN {
                out.push(Self::default());
                x = 0.0;
            }
            x += least + if x > 0.0 { GAP } else { 0.0 };
            if let Some(row) = out.last_mut() {
                row.parts.push(part);
            }
        }
        out
    }

    /// Makes it as narrow as the diagram is.
    fn fit(&mut self) {
        let gaps = self.parts.len().saturating_sub(1) as f64 * GAP;
        for _ in 0..3 {
            let (growing, fixed) =
                self.parts.iter().map(Part::widths).fold((0.0, 0.0), |(a, b): (f64, f64), (g, f)| (a + g, b + f));
            let room = (WIDTH - 2.0 * MARGIN - gaps - fixed).max(40.0);
            if growing > room {
                self.parts.iter_mut().flat_map(Part::matrices).for_each(|m| m.scaled(room / growing));
            }
        }
    }

    fn heights(&self) -> (f64, f64) {
        self.parts
            .iter()
            .map(Part::heights)
            .fold((0.0, 0.0), |(a, b): (f64, f64), (above, below)| (a.max(above), b.max(below)))
    }

    fn height(&self) -> f64 {
        let heading = if self.heading.is_empty() { 0.0 } else { 24.0 };
        let (above, below) = self.heights();
        heading + above + below + 10.0
    }
}

/// A drawing of rows of parts, with a legend of what is shaded.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagram {
    title: String,
    subtitle: String,
    description: String,
    notes: Vec<String>,
    rows: Vec<Row>,
    table: Table,
}

impl Diagram {
    /// An empty one.
    #[must_use]
    pub fn new(title: &str) -> Self {
        Self {
            title: clean(title),
            subtitle: String::new(),
            description: String::new(),
            notes: Vec::new(),
            rows: vec![Row::default()],
            table: Table::default(),
        }
    }

    /// A line below the title.
    #[must_use]
    pub fn subtitle(mut self, text: &str) -> Self {
        self.subtitle = clean(text);
        self
    }

    /// What it shows, in one sentence, for those who do not see it.
    #[must_use]
    pub fn describe(mut self, text: &str) -> Self {
        self.description = clean(text);
        self
    }

    /// A remark below the picture.
    #[must_use]
    pub fn note(mut self, text: &str) -> Self {
        self.notes.push(clean(text));
        self
    }

    /// What is put from now on is in a new row below this heading, which may be empty.
    #[must_use]
    pub fn row(mut self, heading: &str) -> Self {
        let heading = clean(heading);
        match self.rows.last_mut() {
            Some(last) if last.parts.is_empty() => last.heading = heading,
            _ => self.rows.push(Row { heading, parts: Vec::new() }),
        }
        self
    }

    /// Puts a part to the right of the last one.
    #[must_use]
    pub fn put(mut self, part: impl Into<Part>) -> Self {
        if let Some(row) = self.rows.last_mut() {
            row.parts.push(part.into());
        }
        self
    }

    /// The headers of the table behind it.
    #[must_use]
    pub fn table<H: Into<String>>(mut self, headers: impl IntoIterator<Item = H>) -> Self {
        self.table = Table::new(headers);
        self
    }

    /// A row of that table; cells beyond its headers are dropped, missing ones are empty.
    #[must_use]
    pub fn figures<C: AsRef<str>>(mut self, cells: impl IntoIterator<Item = C>) -> Self {
        let count = self.table.headers.len();
        let mut cells: Vec<String> = cells.into_iter().take(count).map(|c| c.as_ref().to_owned()).collect();
        cells.resize(count, String::new());
        self.table.push(cells);
        self
    }

    /// Labels with their tones, in the order of their first use.
    fn legend(&self) -> Vec<(Key, bool)> {
        let mut keys: Vec<(Key, bool)> = Vec::new();
        for (key, written) in self.rows.iter().flat_map(|r| &r.parts).flat_map(Part::keys) {
            if !key.label.is_empty() && keys.iter().all(|k| k.0 != *key) && keys.len() < 48 {
                keys.push((key.clone(), written));
            }
        }
        keys
    }

    /// The picture.
    ///
    /// # Errors
    /// [`ChartError::NothingToDraw`] where nothing was put into it.
    pub fn draw(mut self) -> Result<Chart, ChartError> {
        self.rows.retain(|r| !r.parts.is_empty());
        if self.rows.is_empty() {
            return Err(ChartError::NothingToDraw("The diagram has no parts.".into()));
        }
        self.rows = self.rows.into_iter().flat_map(Row::broken).collect();
        self.rows.iter_mut().for_each(Row::fit);
        let mut timelines: Vec<&mut Timeline> = self
            .rows
            .iter_mut()
            .flat_map(|r| &mut r.parts)
            .filter_map(|p| if let Part::Timeline(t) = p { Some(t) } else { None })
            .collect();
        let names = timelines.iter().map(|t| t.names).fold(0.0, f64::max);
        timelines.iter_mut().for_each(|t| t.names = names);
        let legend = legend_lines(&self.legend());
        let legend_height = legend.len() as f64 * LEGEND_LINE + if legend.is_empty() { 0.0 } else { 6.0 };
        let height = legend_height + self.rows.iter().map(Row::height).sum::<f64>();
        let Self { mut title, subtitle, mut description, notes, rows, table } = self;
        // A picture without a name is none to those who do not see it.
        if title.is_empty() {
            title = "Diagram".into();
        }
        if description.is_empty() {
            description = format!("A diagram: {title}.");
        }
        Frame { title, subtitle, description, notes, table }.draw(height, |canvas, top| {
            for (i, line) in legend.iter().enumerate() {
                let y = top + i as f64 * LEGEND_LINE + 7.0;
                for ((key, written), x) in line {
                    canvas.rect((*x, x + 14.0), (y - 5.5, y + 5.5), paint(key, *written))?;
                    canvas.elided(&key.label, 400.0, (x + 19.0, y), At::Left, Font::NOTE)?;
                }
            }
            let mut y = top + legend_height;
            for row in &rows {
                let mut middle = y + row.heights().0;
                if !row.heading.is_empty() {
                    canvas.elided(&row.heading, WIDTH - 2.0 * MARGIN, (MARGIN, y + 9.0), At::Left, Font::BODY)?;
                    middle += 24.0;
                }
                let mut x = MARGIN;
                for part in &row.parts {
                    let (growing, fixed) = part.widths();
                    part.draw(canvas, x, middle, growing + fixed)?;
                    x += growing + fixed + GAP;
                }
                y += row.height();
            }
            Ok(())
        })
    }
}

/// The entries broken into lines, each with its place.
fn legend_lines(keys: &[(Key, bool)]) -> Vec<Vec<((Key, bool), f64)>> {
    let mut lines: Vec<Vec<((Key, bool), f64)>> = Vec::new();
    let mut x = f64::INFINITY;
    for key in keys {
        let width = 19.0 + Font::NOTE.width(&key.0.label).min(400.0) + 18.0;
        if x + width > WIDTH - MARGIN {
            lines.push(Vec::new());
            x = MARGIN;
        }
        if let Some(line) = lines.last_mut() {
            line.push((key.clone(), x));
        }
        x += width;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::palette::{blended, contrast};

    #[test]
    fn texts_read_on_every_tone() {
        for tone in 0..SERIES.len() {
            for (ink, paper) in [((0x1f, 0x23, 0x28), (0xff, 0xff, 0xff)), ((0xe6, 0xe6, 0xe6), (0x16, 0x18, 0x1c))] {
                let shown = blended(color(tone), STRONG, paper);
                assert!(contrast(ink, shown) >= 4.5, "{tone} on {shown:?}: {}", contrast(ink, shown));
            }
        }
    }

    #[test]
    fn rows_are_as_wide_as_the_diagram() {
        let wide = || Matrix::new("A", 4, 40).cell(16.0, 16.0);
        let mut row = Row { heading: String::new(), parts: vec![wide().into(), Sign::new("×").into(), wide().into()] };
        row.fit();
        let width: f64 = row.parts.iter().map(|p| p.widths().0 + p.widths().1).sum::<f64>() + 2.0 * GAP;
        assert!(width <= WIDTH - 2.0 * MARGIN + 1e-6, "{width}");
    }

    #[test]
    fn what_lies_outside_is_not_shaded() {
        let m = Matrix::new("A", 2, 2).shade(5..6, 0..1, 0, "x").shade(1..9, 0..9, 1, "y");
        assert_eq!(m.shades.len(), 1);
        assert_eq!((m.shades[0].rows.clone(), m.shades[0].columns.clone()), (1..2, 0..2));
        assert_eq!(Diagram::new("t").draw(), Err(ChartError::NothingToDraw("The diagram has no parts.".into())));
    }
}

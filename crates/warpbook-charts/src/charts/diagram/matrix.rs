//! A matrix with shaded elements.

use super::style::{CELL, Key, MAX_ASKED, MAX_MARKS, MAX_SIDE, paint};
use crate::draw::{At, Canvas, Drawn, Font, Paint, Stroke, clean};
use std::ops::Range;

/// A shaded range of a matrix.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shade {
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
    pub(super) key: Key,
}

/// A matrix of rows and columns, with some elements shaded.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    pub(super) name: String,
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) cell: (f64, f64),
    pub(super) shades: Vec<Shade>,
    pub(super) frames: Vec<(Range<usize>, Range<usize>)>,
    pub(super) texts: Vec<(usize, usize, String)>,
    pub(super) at_rows: Vec<(usize, String)>,
    pub(super) at_columns: Vec<(usize, String)>,
    pub(super) rule: (usize, usize),
    pub(super) caption: String,
}

impl Matrix {
    /// Makes a matrix with this name; its elements are squares of 8 pixels.
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

    /// Sets the width and the height of an element in pixels.
    #[must_use]
    pub fn cell(mut self, width: f64, height: f64) -> Self {
        let side = |v: f64, n: usize| if v.is_finite() && v > 0.0 { v } else { 8.0 }.min(MAX_SIDE / n as f64);
        self.cell = (side(width, self.columns), side(height, self.rows));
        self
    }

    /// Shades elements in one of eight tones, with a label for the legend; an empty label adds no entry to the legend.
    #[must_use]
    pub fn shade(self, rows: Range<usize>, columns: Range<usize>, tone: usize, label: &str) -> Self {
        self.shaded(rows, columns, tone, true, label)
    }

    /// Shades elements like [`Matrix::shade`], but lightly.
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

    /// Shades every element for which the function returns a tone, with one label for all.
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

    /// Writes text into elements: a function returns each element's text, which may be empty.
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

    /// Writes a name to the left of a row.
    #[must_use]
    pub fn at_row(mut self, row: usize, text: &str) -> Self {
        self.at_rows.push((row.min(self.rows - 1), clean(text)));
        self
    }

    /// Writes a name above a column.
    #[must_use]
    pub fn at_column(mut self, column: usize, text: &str) -> Self {
        self.at_columns.push((column.min(self.columns - 1), clean(text)));
        self
    }

    /// Draws a line after every `rows` rows and every `columns` columns; 0 draws none.
    #[must_use]
    pub fn rule(mut self, rows: usize, columns: usize) -> Self {
        self.rule = (rows, columns);
        self
    }

    /// Sets the caption below the matrix.
    #[must_use]
    pub fn caption(mut self, text: &str) -> Self {
        self.caption = clean(text);
        self
    }

    pub(super) fn width(&self) -> f64 {
        self.columns as f64 * self.cell.0
    }

    pub(super) fn height(&self) -> f64 {
        self.rows as f64 * self.cell.1
    }

    pub(super) fn names_width(&self) -> f64 {
        let widest = self.at_rows.iter().map(|(_, t)| Font::SMALL.width(t)).fold(0.0, f64::max);
        if widest > 0.0 { widest.min(120.0) + 6.0 } else { 0.0 }
    }

    pub(super) fn above(&self) -> f64 {
        let names = if self.at_columns.is_empty() { 0.0 } else { 14.0 };
        let name = if self.name.is_empty() { 2.0 } else { 20.0 };
        names + name
    }

    pub(super) fn scaled(&mut self, by: f64) {
        self.cell.0 *= by;
        // Narrowing keeps square elements square.
        self.cell.1 *= by;
    }

    /// Draws only the elements, with their top left corner at the given position.
    pub(super) fn draw_elements(&self, canvas: &Canvas<'_>, (left, top): (f64, f64)) -> Drawn {
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
        // A finer grid would look like a grey area.
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
            // The caption stays within the matrix's width, since names of its neighbours may follow.
            let half = (Font::SMALL.width(text) / 2.0).min(self.width() / 2.0);
            let at = (x(column) + self.cell.0 / 2.0).min(right - half).max(left + half);
            canvas.elided(text, self.width(), (at, top - 8.0), At::Middle, Font::SMALL)?;
        }
        Ok(())
    }
}

/// Returns, in order, the names of rows or columns that fit.
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

/// Clips a range to `0..count`; `None` if nothing is left.
fn within(range: Range<usize>, count: usize) -> Option<Range<usize>> {
    let range = range.start..range.end.min(count);
    (range.start < range.end).then_some(range)
}

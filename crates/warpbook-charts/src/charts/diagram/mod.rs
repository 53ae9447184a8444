//! Diagrams drawn by code: which elements of which tile are read, where data goes, and what runs at the same time.
//!
//! A [`Diagram`] consists of rows of parts, from left to right: a [`Matrix`] with shaded elements, a [`Product`] of three matrices, a [`Sign`] between two
//! parts, or a [`Timeline`]. Sizes are in CSS pixels; parts that are too wide are made narrower.
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

mod matrix;
mod part;
mod product;
mod sign;
mod style;
mod timeline;

use crate::draw::{At, Chart, ChartError, Font, Frame, MARGIN, Table, WIDTH, clean};
pub use matrix::Matrix;
pub use part::DiagramPart;
use part::PartRow;
pub use product::Product;
pub use sign::Sign;
use style::{GAP, Key, paint};
pub use timeline::Timeline;

const LEGEND_LINE: f64 = 19.0;

/// A drawing of rows of parts, with a legend of its shades.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagram {
    title: String,
    subtitle: String,
    description: String,
    notes: Vec<String>,
    rows: Vec<PartRow>,
    table: Table,
}

impl Diagram {
    /// Makes an empty diagram.
    #[must_use]
    pub fn new(title: &str) -> Self {
        Self {
            title: clean(title),
            subtitle: String::new(),
            description: String::new(),
            notes: Vec::new(),
            rows: vec![PartRow::default()],
            table: Table::default(),
        }
    }

    /// Sets the line of text below the title.
    #[must_use]
    pub fn subtitle(mut self, text: &str) -> Self {
        self.subtitle = clean(text);
        self
    }

    /// Sets the description for screen readers, in one sentence.
    #[must_use]
    pub fn describe(mut self, text: &str) -> Self {
        self.description = clean(text);
        self
    }

    /// Adds a remark below the picture.
    #[must_use]
    pub fn note(mut self, text: &str) -> Self {
        self.notes.push(clean(text));
        self
    }

    /// Starts a new row below this heading, which may be empty.
    #[must_use]
    pub fn row(mut self, heading: &str) -> Self {
        let heading = clean(heading);
        match self.rows.last_mut() {
            Some(last) if last.parts.is_empty() => last.heading = heading,
            _ => self.rows.push(PartRow { heading, parts: Vec::new() }),
        }
        self
    }

    /// Adds a part to the right of the last one.
    #[must_use]
    pub fn put(mut self, part: impl Into<DiagramPart>) -> Self {
        if let Some(row) = self.rows.last_mut() {
            row.parts.push(part.into());
        }
        self
    }

    /// Sets the headers of the table that accompanies the picture.
    #[must_use]
    pub fn table<H: Into<String>>(mut self, headers: impl IntoIterator<Item = H>) -> Self {
        self.table = Table::new(headers);
        self
    }

    /// Adds a row to the table of [`Diagram::table`]; cells beyond the last header are dropped, and missing cells are empty.
    #[must_use]
    pub fn figures<C: AsRef<str>>(mut self, cells: impl IntoIterator<Item = C>) -> Self {
        let count = self.table.headers.len();
        let mut cells: Vec<String> = cells.into_iter().take(count).map(|c| c.as_ref().to_owned()).collect();
        cells.resize(count, String::new());
        self.table.push(cells);
        self
    }

    /// Returns the entries of the legend, which are labels with their tones, in the order of their first use.
    fn legend(&self) -> Vec<(Key, bool)> {
        let mut keys: Vec<(Key, bool)> = Vec::new();
        for (key, written) in self.rows.iter().flat_map(|r| &r.parts).flat_map(DiagramPart::keys) {
            if !key.label.is_empty() && keys.iter().all(|k| k.0 != *key) && keys.len() < 48 {
                keys.push((key.clone(), written));
            }
        }
        keys
    }

    /// Draws the picture.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if nothing was added.
    pub fn draw(mut self) -> Result<Chart, ChartError> {
        self.rows.retain(|r| !r.parts.is_empty());
        if self.rows.is_empty() {
            return Err(ChartError::NothingToDraw("The diagram has no parts.".into()));
        }
        self.rows = self.rows.into_iter().flat_map(PartRow::broken).collect();
        self.rows.iter_mut().for_each(PartRow::fit);
        let mut timelines: Vec<&mut Timeline> = self
            .rows
            .iter_mut()
            .flat_map(|r| &mut r.parts)
            .filter_map(|p| if let DiagramPart::Timeline(t) = p { Some(t) } else { None })
            .collect();
        let names = timelines.iter().map(|t| t.names).fold(0.0, f64::max);
        timelines.iter_mut().for_each(|t| t.names = names);
        let legend = legend_lines(&self.legend());
        let legend_height = legend.len() as f64 * LEGEND_LINE + if legend.is_empty() { 0.0 } else { 6.0 };
        let height = legend_height + self.rows.iter().map(PartRow::height).sum::<f64>();
        let Self { mut title, subtitle, mut description, notes, rows, table } = self;
        // Screen readers ignore a picture without a name.
        if title.is_empty() {
            title = "Diagram".into();
        }
        if description.is_empty() {
            description = format!("A diagram: {title}.");
        }
        Frame { width: WIDTH, title, subtitle, description, notes, table }.draw(height, |canvas, top| {
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

/// Breaks the entries of the legend into lines and gives each entry its position.
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
    use super::style::{STRONG, color};
    use super::*;
    use crate::draw::colour::{SERIES, blended, contrast};

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
        let mut row =
            PartRow { heading: String::new(), parts: vec![wide().into(), Sign::new("×").into(), wide().into()] };
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

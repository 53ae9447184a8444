//! The parts of a diagram's row, and how they are fitted into its width.

use super::matrix::Matrix;
use super::product::{GAP_OF_PRODUCT, Product};
use super::sign::Sign;
use super::style::{GAP, Key, LEAST, NAME};
use super::timeline::Timeline;
use crate::draw::{At, Canvas, Drawn, Font, MARGIN, WIDTH};

/// A part of a diagram.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum DiagramPart {
    /// A single matrix.
    Matrix(Matrix),
    /// The three matrices of a product.
    Product(Box<Product>),
    /// A sign or an arrow.
    Sign(Sign),
    /// A timeline, as wide as the diagram.
    Timeline(Timeline),
}

impl From<Matrix> for DiagramPart {
    fn from(part: Matrix) -> Self {
        Self::Matrix(part)
    }
}

impl From<Product> for DiagramPart {
    fn from(part: Product) -> Self {
        Self::Product(Box::new(part))
    }
}

impl From<Sign> for DiagramPart {
    fn from(part: Sign) -> Self {
        Self::Sign(part)
    }
}

impl From<Timeline> for DiagramPart {
    fn from(part: Timeline) -> Self {
        Self::Timeline(part)
    }
}

impl DiagramPart {
    pub(super) fn matrices(&mut self) -> Vec<&mut Matrix> {
        match self {
            Self::Matrix(m) => vec![m],
            Self::Product(p) => vec![&mut p.a, &mut p.b, &mut p.c],
            Self::Sign(_) | Self::Timeline(_) => Vec::new(),
        }
    }

    /// Returns the legend entries of the part's shades, each with a flag that is true if text is written on the shade.
    pub(super) fn keys(&self) -> Vec<(&Key, bool)> {
        let has_texts = |m: &'_ Matrix| !m.texts.is_empty();
        match self {
            Self::Matrix(m) => m.shades.iter().map(|s| (&s.key, has_texts(m))).collect(),
            Self::Product(p) => [&p.a, &p.b, &p.c]
                .into_iter()
                .flat_map(|m| m.shades.iter().map(move |s| (&s.key, has_texts(m))))
                .collect(),
            Self::Timeline(t) => t.spans.iter().map(|s| (&s.key, true)).collect(),
            Self::Sign(_) => Vec::new(),
        }
    }

    /// Returns the part's width as two summands: the width that scales with its elements, and the rest.
    pub(super) fn widths(&self) -> (f64, f64) {
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

    /// Returns the part's width when its matrices are as narrow as possible.
    pub(super) fn least_width(&self) -> f64 {
        let mut narrow = self.clone();
        let (growing, _) = narrow.widths();
        if growing > LEAST {
            narrow.matrices().into_iter().for_each(|m| m.scaled(LEAST / growing));
        }
        let (growing, fixed) = narrow.widths();
        growing + fixed
    }

    /// Returns how far the part extends above and below its middle.
    pub(super) fn heights(&self) -> (f64, f64) {
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

    pub(super) fn draw(&self, canvas: &Canvas<'_>, left: f64, middle: f64, width: f64) -> Drawn {
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

/// A row of parts side by side, with the heading above them.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct PartRow {
    pub(super) heading: String,
    pub(super) parts: Vec<DiagramPart>,
}

impl PartRow {
    /// Starts a new row wherever names and signs leave no room for the matrices.
    pub(super) fn broken(self) -> Vec<Self> {
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

    /// Narrows the row to fit the width of the diagram.
    pub(super) fn fit(&mut self) {
        let gaps = self.parts.len().saturating_sub(1) as f64 * GAP;
        for _ in 0..3 {
            let (growing, fixed) = self
                .parts
                .iter()
                .map(DiagramPart::widths)
                .fold((0.0, 0.0), |(a, b): (f64, f64), (g, f)| (a + g, b + f));
            let room = (WIDTH - 2.0 * MARGIN - gaps - fixed).max(40.0);
            if growing > room {
                self.parts.iter_mut().flat_map(DiagramPart::matrices).for_each(|m| m.scaled(room / growing));
            }
        }
    }

    pub(super) fn heights(&self) -> (f64, f64) {
        self.parts
            .iter()
            .map(DiagramPart::heights)
            .fold((0.0, 0.0), |(a, b): (f64, f64), (above, below)| (a.max(above), b.max(below)))
    }

    pub(super) fn height(&self) -> f64 {
        let heading = if self.heading.is_empty() { 0.0 } else { 24.0 };
        let (above, below) = self.heights();
        heading + above + below + 10.0
    }
}

//! Signs and arrows between the parts of a diagram.

use crate::draw::{At, Canvas, Drawn, Font, Paint, Stroke, clean};

/// A sign between two parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Sign {
    text: String,
    arrow: bool,
}

impl Sign {
    /// Makes a sign such as "×" or "=".
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { text: clean(text), arrow: false }
    }

    /// Makes an arrow to the right with words above it.
    #[must_use]
    pub fn arrow(text: &str) -> Self {
        Self { text: clean(text), arrow: true }
    }

    fn lines(&self) -> Vec<String> {
        crate::draw::text::wrap(&self.text, 92.0, Font::SMALL.size, false, 5)
    }

    pub(super) fn width(&self) -> f64 {
        if !self.arrow {
            return Font::HEADING.width(&self.text).clamp(12.0, 100.0);
        }
        self.lines().iter().map(|l| Font::SMALL.width(l)).fold(34.0, f64::max)
    }

    pub(super) fn half_height(&self) -> f64 {
        if self.arrow { self.lines().len() as f64 * 14.0 + 8.0 } else { 9.0 }
    }

    pub(super) fn draw(&self, canvas: &Canvas<'_>, left: f64, middle: f64) -> Drawn {
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

pub(super) fn draw_arrow(canvas: &Canvas<'_>, from: (f64, f64), to: (f64, f64)) -> Drawn {
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

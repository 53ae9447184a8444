//! Options of drawing that are independent of the chart's contents.

/// Width below which charts have a phone's layout: rows are stacked, labels are above their bars and keys below their plots.
const NARROW: u32 = 560;

/// The visible part of a sweep or a roofline, in its axes' units.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// Range of the horizontal axis.
    pub x: (f64, f64),
    /// Range of the vertical axis.
    pub y: (f64, f64),
}

impl Window {
    /// Makes a window with ordered ends; `None` if these are not positive and finite, or too close together.
    #[must_use]
    pub fn new(x: (f64, f64), y: (f64, f64)) -> Option<Self> {
        let ordered = |(a, b): (f64, f64)| (a.min(b), a.max(b));
        let fine = |(a, b): (f64, f64)| a.is_finite() && b.is_finite() && a >= 0.0 && b > a && b - a > 1e-6 * b;
        let window = Self { x: ordered(x), y: ordered(y) };
        (fine(window.x) && fine(window.y)).then_some(window)
    }
}

/// A reader's guess of a time, which a ladder marks.
#[derive(Debug, Clone, PartialEq)]
pub struct Guess {
    /// Time in microseconds; a guess that is not a positive, finite number is not drawn.
    pub us: f64,
    /// Label, such as "your guess".
    pub label: String,
}

/// Choice of the rungs that a ladder draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rungs {
    /// All rungs.
    #[default]
    All,
    /// All rungs, with the fastest marked.
    Marked,
    /// About eight of the most important rungs, with the fastest marked: the first, the best references, the largest
    /// steps and the fastest. A rung measured in both fp16 and bf16 has one row.
    Story,
}

/// Settings for drawing a chart: width, visible part and highlighted lines. [`Options::default`] is the layout of notebooks. Charts of the same record with
/// equal options have equal bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Width in CSS pixels, within [`Options::WIDTHS`]; below 560 the layout is a phone's.
    pub width: u32,
    /// Visible part of a sweep or a roofline; `None` shows all of it.
    pub window: Option<Window>,
    /// Ids of rungs whose lines are highlighted in a sweep of many rungs.
    pub picked: Vec<String>,
    /// A reader's guess, marked in a ladder.
    pub guess: Option<Guess>,
    /// Choice of the rungs that a ladder draws.
    pub rungs: Rungs,
    /// True for a picture stored in a notebook: an X-ray has fewer lanes, and each warp is one mark.
    pub light: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { width: 720, window: None, picked: Vec::new(), guess: None, rungs: Rungs::All, light: false }
    }
}

impl Options {
    /// The supported widths in CSS pixels.
    pub const WIDTHS: std::ops::RangeInclusive<u32> = 280..=1200;

    /// Returns the options for a phone, 360 CSS pixels wide.
    #[must_use]
    pub fn phone() -> Self {
        Self::of_width(360)
    }

    /// Returns the options for a width, clamped to [`Options::WIDTHS`].
    #[must_use]
    pub fn of_width(width: u32) -> Self {
        Self { width: width.clamp(*Self::WIDTHS.start(), *Self::WIDTHS.end()), ..Self::default() }
    }

    /// Returns the options, changed to draw fewer marks; see [`Options::light`](#structfield.light).
    #[must_use]
    pub fn lighter(self) -> Self {
        Self { light: true, ..self }
    }

    pub(crate) fn px(&self) -> f64 {
        f64::from(self.width.clamp(*Self::WIDTHS.start(), *Self::WIDTHS.end()))
    }
}

pub(crate) fn is_narrow(width: f64) -> bool {
    width < f64::from(NARROW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_ends_in_order() {
        let window = Window::new((4.0, 1.0), (1.0, 2.0)).unwrap();
        assert_eq!(window.x, (1.0, 4.0));
        for bad in [f64::NAN, f64::INFINITY, -1.0, 2.0] {
            assert_eq!(Window::new((1.0, 4.0), (bad, 2.0)), None, "{bad}");
        }
    }
}

//! How a chart is drawn, apart from what it shows.

/// Narrower charts have a phone's layout: rows are stacked, labels are above their bars and keys below their plots.
const NARROW: u32 = 560;

/// The part of a sweep or a roofline that is shown, in its axes' units.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// From and to, along the horizontal axis.
    pub x: (f64, f64),
    /// From and to, along the vertical one.
    pub y: (f64, f64),
}

impl Window {
    /// One with ends in order; `None` where they are no positive, finite numbers, or too close to each other to be told apart.
    #[must_use]
    pub fn new(x: (f64, f64), y: (f64, f64)) -> Option<Self> {
        let ordered = |(a, b): (f64, f64)| (a.min(b), a.max(b));
        let fine = |(a, b): (f64, f64)| a.is_finite() && b.is_finite() && a >= 0.0 && b > a && b - a > 1e-6 * b;
        let window = Self { x: ordered(x), y: ordered(y) };
        (fine(window.x) && fine(window.y)).then_some(window)
    }
}

/// A time that a reader expected, which a ladder marks.
#[derive(Debug, Clone, PartialEq)]
pub struct Guess {
    /// In microseconds; one that is no positive, finite number is not drawn.
    pub us: f64,
    /// Whose it is, as "your guess".
    pub label: String,
}

/// How a chart is drawn: its width, what of it, and which lines stand out. [`Options::default`] is that of a notebook, and of the functions
/// that take none. The same record and options give the same bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// In CSS pixels, within [`Options::WIDTHS`]; below 560 with a phone's layout.
    pub width: u32,
    /// What of a sweep or a roofline is shown; all of it where this is `None`.
    pub window: Option<Window>,
    /// Ids of rungs whose lines stand out of a sweep of many.
    pub picked: Vec<String>,
    /// What a reader expected, marked in a ladder.
    pub guess: Option<Guess>,
    /// True for a picture that is stored in a notebook: an X-ray has fewer lanes, and each warp is one mark.
    pub light: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { width: 720, window: None, picked: Vec::new(), guess: None, light: false }
    }
}

impl Options {
    /// The widths that charts are drawn at.
    pub const WIDTHS: std::ops::RangeInclusive<u32> = 280..=1200;

    /// Those of a phone, 360 CSS pixels wide.
    #[must_use]
    pub fn phone() -> Self {
        Self::of_width(360)
    }

    /// A width, moved into [`Options::WIDTHS`].
    #[must_use]
    pub fn of_width(width: u32) -> Self {
        Self { width: width.clamp(*Self::WIDTHS.start(), *Self::WIDTHS.end()), ..Self::default() }
    }

    /// Draws fewer marks, see [`Options::light`](#structfield.light).
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

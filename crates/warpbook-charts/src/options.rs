//! How a chart is drawn, apart from what it shows.

use crate::{Chart, ChartError, Quantity};
use warpbook_record::{ChartKind, Dtype, Problem, Profiled, Run, Xray};

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
}

impl Default for Options {
    fn default() -> Self {
        Self { width: 720, window: None, picked: Vec::new(), guess: None }
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

    pub(crate) fn px(&self) -> f64 {
        f64::from(self.width.clamp(*Self::WIDTHS.start(), *Self::WIDTHS.end()))
    }

    /// [`crate::chart`] with these, but for [`ChartKind::Timeline`], which has one width: see [`crate::timeline`].
    ///
    /// # Errors
    /// As [`crate::chart`]; [`ChartError::NothingToDraw`] of a timeline.
    pub fn chart(&self, run: &Run, problem: &Problem, kind: ChartKind) -> Result<Chart, ChartError> {
        crate::of_kind(self, run, problem, kind)
    }

    /// [`crate::ladder`] with these.
    ///
    /// # Errors
    /// As [`crate::ladder`].
    pub fn ladder(&self, run: &Run, problem: &Problem, quantity: Quantity) -> Result<Chart, ChartError> {
        crate::ladder::ladder_with(self, run, problem, quantity)
    }

    /// [`crate::sweep_of`] with these.
    ///
    /// # Errors
    /// As [`crate::sweep_of`].
    pub fn sweep_of(
        &self,
        runs: &[&Run],
        quantity: Quantity,
        line: Option<&Problem>,
        rungs: Option<&[&str]>,
    ) -> Result<Chart, ChartError> {
        crate::sweep::sweep_with(self, runs, quantity, line, rungs)
    }

    /// [`crate::sweep_labelled`] with these.
    ///
    /// # Errors
    /// As [`crate::sweep_labelled`].
    pub fn sweep_labelled(
        &self,
        runs: &[&Run],
        labels: &[String],
        quantity: Quantity,
        line: Option<&Problem>,
    ) -> Result<Chart, ChartError> {
        crate::sweep::labelled_with(self, runs, labels, quantity, line)
    }

    /// [`crate::roofline`] with these.
    ///
    /// # Errors
    /// As [`crate::roofline`].
    pub fn roofline(&self, run: &Run, problem: &Problem) -> Result<Chart, ChartError> {
        crate::roofline::roofline_with(self, run, problem)
    }

    /// Draws [`crate::kernel_roofline`] with these options, for all rungs or for one, by its id.
    ///
    /// # Errors
    /// Like [`crate::kernel_roofline`]; also if the rung has no kernel to draw.
    pub fn kernel_roofline(&self, run: &Run, problem: &Problem, rung: Option<&str>) -> Result<Chart, ChartError> {
        crate::roofline::kernel_roofline_with(self, run, problem, rung)
    }

    /// [`crate::memory`] with these.
    ///
    /// # Errors
    /// As [`crate::memory`].
    pub fn memory(&self, profiled: &Profiled, until_us: f64, head: [&str; 2]) -> Result<Chart, ChartError> {
        crate::memory::memory_with(self, profiled, until_us, head)
    }

    /// [`crate::clocks`] with these.
    ///
    /// # Errors
    /// As [`crate::clocks`].
    pub fn clocks(&self, run: &Run, problem: &Problem) -> Result<Chart, ChartError> {
        crate::power::clocks_with(self, run, problem)
    }

    /// [`crate::power`] with these.
    ///
    /// # Errors
    /// As [`crate::power`].
    pub fn power(&self, run: &Run, problem: &Problem) -> Result<Chart, ChartError> {
        crate::power::power_with(self, run, problem)
    }

    /// [`crate::latencies`] with these.
    ///
    /// # Errors
    /// As [`crate::latencies`].
    pub fn latencies(&self, levels: &[(&str, f64)], head: [&str; 2]) -> Result<Chart, ChartError> {
        crate::latencies::latencies_with(self, levels, head)
    }

    /// One X-ray of a record, drawn as [`crate::xray`] does, with these.
    ///
    /// # Errors
    /// [`ChartError::NothingToDraw`] where it has no block with a time.
    pub fn xray(&self, run: &Run, xray: &Xray) -> Result<Chart, ChartError> {
        crate::xray::xray_of(self, run, xray)
    }

    /// [`crate::shapes`] with these.
    ///
    /// # Errors
    /// As [`crate::shapes`].
    pub fn shapes(&self, run: &Run, dtype: Dtype) -> Result<Chart, ChartError> {
        crate::shapes::shapes_with(self, run, dtype)
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

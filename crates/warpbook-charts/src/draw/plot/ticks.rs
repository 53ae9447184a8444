//! Axes and their ticks. plotters loses labels on logarithmic axes that are far from 0 (its issue 654), so this module places ticks itself and represents a
//! logarithmic axis as a linear axis of exponents.

use plotters::coord::ranged1d::Ranged;
use plotters::coord::types::RangedCoordf64;

/// An axis from `low` to `high`, linear or logarithmic.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    log: bool,
    /// True if ticks are at powers of two, as for edges of matrices; on a linear axis at multiples of a power of two,
    /// as for memory.
    doubling: bool,
    /// True if a linear axis has ticks at whole numbers only, as for epochs.
    whole: bool,
    low: f64,
    high: f64,
    pub(crate) ticks: Vec<f64>,
}

/// Describes a plot for a page that zooms it: its left, top, right and bottom in CSS pixels, then for the horizontal and the vertical axis the low
/// end, the high end and "log" or "linear", separated by spaces.
pub(crate) fn plot_words((x, y): (&Axis, &Axis), [left, top, right, bottom]: [f64; 4]) -> String {
    let axis = |a: &Axis| format!("{:e} {:e} {}", a.low, a.high, if a.log { "log" } else { "linear" });
    format!("{left:.1} {top:.1} {right:.1} {bottom:.1} {} {}", axis(x), axis(y))
}

/// The axis is logarithmic if the longest bar is at least this many times as long as the shortest.
pub(crate) const LOG_FROM: f64 = 20.0;

/// Returns the caption of an axis of times, which mentions bars if they start at zero and dots otherwise.
pub(crate) fn less_is_better(log: bool) -> &'static str {
    if log { ", left is better; logarithmic scale" } else { ", shorter is better" }
}

/// Largest value with exact logarithms and steps; values beyond it are drawn at the border.
const LIMIT: f64 = 1e200;

impl Axis {
    /// Makes a linear axis from zero with room for these values.
    pub(crate) fn from_zero(values: impl IntoIterator<Item = f64>) -> Self {
        let high = finite(values).fold(0.0, f64::max);
        let high = if high > 0.0 { high.clamp(1.0 / LIMIT, LIMIT) } else { 1.0 };
        Self { log: false, doubling: false, whole: false, low: 0.0, high, ticks: Vec::new() }.with_ticks(5)
    }

    /// Makes a linear axis around these values.
    pub(crate) fn around(values: impl IntoIterator<Item = f64>) -> Self {
        let (low, high) = range(values).unwrap_or((0.0, 1.0));
        let (low, high) = (low.clamp(-LIMIT, LIMIT), high.clamp(-LIMIT, LIMIT));
        // A single value gets a tenth of itself on both sides.
        let pad = if high > low { (high - low) * 0.05 } else { (high.abs() * 0.1).max(1e-9) };
        let (low, high) = (low - pad, high + pad);
        Self { log: false, doubling: false, whole: false, low, high, ticks: Vec::new() }.with_ticks(5)
    }

    /// Makes a logarithmic axis around these values, with `room` decades on both sides; values that are not above zero are left out.
    pub(crate) fn log(values: impl IntoIterator<Item = f64>, room: f64) -> Self {
        let (low, high) = range(values.into_iter().filter(|v| *v > 0.0)).unwrap_or((1.0, 10.0));
        let place = |v: f64| v.clamp(1.0 / LIMIT, LIMIT).log10();
        let (mut low, mut high) = (place(low) - room, place(high) + room);
        if high - low < 0.4 {
            // An axis shorter than a tick is widened, so that it has one.
            let middle = f64::midpoint(low, high);
            (low, high) = (middle - 0.35, middle + 0.35);
        }
        let (low, high) = (10f64.powf(low), 10f64.powf(high));
        Self { log: true, doubling: false, whole: false, low, high, ticks: Vec::new() }.with_ticks(8)
    }

    /// Makes a logarithmic axis with ticks at powers of two.
    pub(crate) fn doubling(values: impl IntoIterator<Item = f64>, room: f64) -> Self {
        Self { doubling: true, ..Self::log(values, room) }.with_ticks(8)
    }

    /// Returns the linear axis with ticks at whole numbers.
    pub(crate) fn whole(self) -> Self {
        let wanted = self.ticks.len();
        Self { whole: true, ..self }.with_ticks(wanted)
    }

    /// Returns the linear axis with ticks at multiples of a power of two.
    pub(crate) fn binary(self) -> Self {
        Self { doubling: true, ..self }.with_ticks(5)
    }

    /// Makes a logarithmic axis that starts at the decade below the values, for bars.
    pub(crate) fn from_decade(values: impl IntoIterator<Item = f64>) -> Self {
        let mut axis = Self::log(values, 0.02);
        axis.low = 10f64.powf(axis.low.log10().floor());
        axis.with_ticks(8)
    }

    /// Returns the axis with about `wanted` ticks.
    pub(crate) fn with_ticks(mut self, wanted: usize) -> Self {
        self.ticks = match () {
            () if self.doubling && self.log => doubling_ticks(self.low, self.high, wanted),
            () if self.doubling => binary_ticks(self.low, self.high, wanted),
            () if self.log => log_ticks(self.low, self.high, wanted),
            () => linear_ticks(self.low, self.high, wanted),
        };
        if self.whole && self.ticks.iter().any(|t| t.fract() == 0.0) {
            self.ticks.retain(|t| t.fract() == 0.0);
        }
        self
    }

    /// Returns the minor ticks of a logarithmic axis: the powers of ten and two to nine times each. If the axis spans
    /// more than a dozen decades, these are only the powers.
    pub(crate) fn minor(&self) -> Vec<f64> {
        if !self.log || self.doubling {
            return Vec::new();
        }
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let most = if last - first > 12 { 1 } else { 9 };
        let all = (first..=last).flat_map(|e| (1..=most).map(move |m| f64::from(m) * 10f64.powi(e)));
        all.filter(|v| (self.low..=self.high).contains(v)).collect()
    }

    /// Returns the axis with other ends.
    pub(crate) fn between(self, (low, high): (f64, f64)) -> Self {
        let low = if self.log { low.max(high * 1e-12).max(1.0 / LIMIT) } else { low };
        Self { low, high: high.min(LIMIT), ..self }.with_ticks(6)
    }

    pub(crate) fn is_log(&self) -> bool {
        self.log
    }

    pub(crate) fn low(&self) -> f64 {
        self.low
    }

    pub(crate) fn high(&self) -> f64 {
        self.high
    }

    /// Returns the position of a positive value, which may lie beyond the axis's ends, for lines that leave the plot.
    pub(crate) fn place_beyond(&self, v: f64, from: f64, to: f64) -> f64 {
        let v = if v.is_nan() { self.low } else { v.clamp(1.0 / LIMIT, LIMIT) };
        let (v, low, high) =
            if self.log { (v.log10(), self.low.log10(), self.high.log10()) } else { (v, self.low, self.high) };
        from + (v - low) / (high - low) * (to - from)
    }

    /// Returns the position of a value between two positions of the canvas; values beyond the axis are at its ends.
    pub(crate) fn position(&self, v: f64, from: f64, to: f64) -> f64 {
        let v = if v.is_nan() { self.low } else { v.clamp(self.low, self.high) };
        let (v, low, high) =
            if self.log { (v.log10(), self.low.log10(), self.high.log10()) } else { (v, self.low, self.high) };
        // Positions are in hundredths of a pixel, since plotters maps to whole numbers.
        let map = |x: f64| (x * 100.0).round() as i32;
        f64::from(RangedCoordf64::from(low..high).map(&v, (map(from), map(to)))) / 100.0
    }
}

fn finite(values: impl IntoIterator<Item = f64>) -> impl Iterator<Item = f64> {
    values.into_iter().filter(|v| v.is_finite())
}

fn range(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    finite(values).fold(None, |r, v| Some(r.map_or((v, v), |(a, b): (f64, f64)| (a.min(v), b.max(v)))))
}

/// Returns multiples of 1, 2 or 5 times a power of ten between two values, at most about `wanted`.
pub(crate) fn linear_ticks(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let span = high - low;
    if !(span > 0.0 && span.is_finite()) {
        return vec![low];
    }
    let rough = span / wanted.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= rough * 0.999).unwrap_or(10.0 * power);
    multiples(low, high, step)
}

/// Returns multiples of a power of two between two values, at most about `wanted`.
fn binary_ticks(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let span = high - low;
    if !(span > 0.0 && span.is_finite()) {
        return vec![low];
    }
    multiples(low, high, 2f64.powf((span / wanted.max(1) as f64 * 0.999).log2().ceil()))
}

fn multiples(low: f64, high: f64, step: f64) -> Vec<f64> {
    let first = (low / step - 1e-9).ceil();
    let count = ((high / step + 1e-9).floor() - first).clamp(0.0, 50.0) as usize;
    // `+ 0.0` turns a negative zero into zero.
    (0..=count).map(|i| (first + i as f64) * step + 0.0).collect()
}

/// Returns ticks of a logarithmic axis: 1-2-5 in each decade if there is room, else every decade, every second, every
/// third and so on.
fn log_ticks(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let within = |v: &f64| *v >= low * (1.0 - 1e-9) && *v <= high * (1.0 + 1e-9);
    let ticks_with = |mantissas: &[f64], every: usize| -> Vec<f64> {
        (first..=last)
            .filter(|e| e.rem_euclid(every as i32) == 0)
            .flat_map(|e| mantissas.iter().map(move |m| m * 10f64.powi(e)))
            .filter(within)
            .collect()
    };
    let fine = ticks_with(&[1.0, 2.0, 5.0], 1);
    if fine.len() <= wanted {
        return fine;
    }
    (1..=400).map(|every| ticks_with(&[1.0], every)).find(|t| t.len() <= wanted).unwrap_or_default()
}

/// Returns ticks at powers of two: every one, every second, every third and so on.
fn doubling_ticks(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let (first, last) = (low.log2().ceil() as i32, high.log2().floor() as i32);
    let every_nth = |every: usize| -> Vec<f64> { (first..=last).step_by(every).map(|e| 2f64.powi(e)).collect() };
    let found = (1..=1400).map(every_nth).find(|t| t.len() <= wanted.max(1)).unwrap_or_default();
    // If no power of two lies between the ends, the ticks are decimal.
    if found.is_empty() { log_ticks(low, high, wanted) } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_edges_are_powers_of_two() {
        assert_eq!(doubling_ticks(250.0, 5000.0, 8), [256.0, 512.0, 1024.0, 2048.0, 4096.0]);
        assert_eq!(doubling_ticks(250.0, 20_000.0, 4), [256.0, 1024.0, 4096.0, 16384.0]);
        assert_eq!(doubling_ticks(2.5, 3.5, 4), log_ticks(2.5, 3.5, 4));
        assert!(doubling_ticks(1e-200, 1e200, 8).len() <= 8);
    }

    #[test]
    fn linear_ticks_are_round() {
        let check = |low, high, n, expect: &[f64]| {
            let got = linear_ticks(low, high, n);
            assert_eq!(got.len(), expect.len(), "{got:?}");
            assert!(got.iter().zip(expect).all(|(a, b)| (a - b).abs() < 1e-12 * b.abs().max(1.0)), "{got:?}");
        };
        check(0.0, 10.0, 5, &[0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        check(0.0, 4617.0, 5, &[0.0, 1000.0, 2000.0, 3000.0, 4000.0]);
        check(-0.3, 0.3, 4, &[-0.2, 0.0, 0.2]);
        check(1.0, 1.0, 4, &[1.0]);
    }

    #[test]
    fn ticks_of_memory_are_multiples_of_powers_of_two() {
        let mib = |high: f64| {
            Axis::from_zero([high * 1_048_576.0]).binary().ticks.iter().map(|t| t / 1_048_576.0).collect::<Vec<_>>()
        };
        assert_eq!(mib(592.0), [0.0, 128.0, 256.0, 384.0, 512.0]);
        assert_eq!(mib(2100.0), [0.0, 512.0, 1024.0, 1536.0, 2048.0]);
        assert_eq!(mib(1280.0), [0.0, 256.0, 512.0, 768.0, 1024.0, 1280.0]);
        assert_eq!(Axis::from_zero([0.3]).binary().with_ticks(2).ticks, [0.0, 0.25]);
    }

    #[test]
    fn ticks_of_epochs_are_whole() {
        assert_eq!(Axis::from_zero([3.0]).whole().with_ticks(8).ticks, [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(Axis::from_zero([1.0]).whole().with_ticks(8).ticks, [0.0, 1.0]);
        assert_eq!(Axis::from_zero([20.0]).whole().with_ticks(5).ticks, [0.0, 5.0, 10.0, 15.0, 20.0]);
        assert!(!Axis::from_zero([0.3]).whole().ticks.is_empty());
    }

    #[test]
    fn log_ticks_are_readable_far_from_zero() {
        let check = |low: f64, high: f64, n, expect: &[f64]| {
            let got = log_ticks(low, high, n);
            assert_eq!(got.len(), expect.len(), "{got:?}");
            assert!(got.iter().zip(expect).all(|(a, b)| (a / b - 1.0).abs() < 1e-9), "{got:?}");
        };
        check(1e5, 2e8, 12, &[1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 2e7, 5e7, 1e8, 2e8]);
        check(1e5, 2e8, 6, &[1e5, 1e6, 1e7, 1e8]);
        check(1e-4, 1e7, 6, &[1e-4, 1e-2, 1.0, 1e2, 1e4, 1e6]);
        check(3.0, 8.0, 6, &[5.0]);
        assert!(log_ticks(1e-200, 1e200, 8).len() <= 8);
    }

    #[test]
    fn every_axis_has_ticks_whatever_the_values() {
        let odd = [0.0, -1.0, 1e-300, 1e300, f64::NAN, f64::INFINITY, f64::MAX, f64::MIN, 1.0, 1.000_000_000_1];
        for a in odd {
            for b in odd {
                let axes = [Axis::from_zero([a, b]), Axis::around([a, b]), Axis::log([a, b], 0.1)];
                for axis in axes.into_iter().chain([
                    Axis::from_decade([a, b]),
                    Axis::doubling([a, b], 0.1),
                    Axis::from_zero([a, b]).binary(),
                ]) {
                    assert!(!axis.ticks.is_empty(), "{axis:?}");
                    assert!(axis.ticks.iter().all(|t| t.is_finite()), "{axis:?}");
                    for v in odd {
                        let p = axis.position(v, 10.0, 500.0);
                        assert!((10.0..=500.0).contains(&p), "{v} at {p} of {axis:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn lines_go_on_beyond_an_axis() {
        let axis = Axis::log([1.0, 100.0], 0.0);
        assert!((axis.place_beyond(1000.0, 0.0, 200.0) - 300.0).abs() < 1e-9);
        assert!((axis.place_beyond(0.1, 200.0, 0.0) - 300.0).abs() < 1e-9);
        assert!(
            axis.place_beyond(f64::NAN, 0.0, 200.0).is_finite() && axis.place_beyond(f64::MAX, 0.0, 1.0).is_finite()
        );
    }

    #[test]
    fn places_are_proportional() {
        let axis = Axis::from_zero([100.0]);
        assert!((axis.position(50.0, 0.0, 200.0) - 100.0).abs() < 0.02);
        let axis = Axis::log([1.0, 100.0], 0.0);
        assert!((axis.position(10.0, 0.0, 200.0) - 100.0).abs() < 0.02);
        assert!((axis.position(10.0, 200.0, 0.0) - 100.0).abs() < 0.02);
    }
}

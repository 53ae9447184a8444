//! Zooming of plots: the window after a brush, a key or a button, and its text in an address.

use warpbook_charts::Window;

/// One key press moves an axis by this share of its length.
const STEP: f64 = 0.2;
/// A brush narrower than this along an axis, in CSS pixels, selects the whole axis.
const THIN: f64 = 10.0;

/// An axis of a plot.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Axis {
    low: f64,
    high: f64,
    log: bool,
}

impl Axis {
    /// Returns the value at a share of the axis's length.
    fn at(self, share: f64) -> f64 {
        match self.log {
            true => self.low * (self.high / self.low).powf(share),
            // Linear axes do not go below zero.
            false => (self.low + (self.high - self.low) * share).max(0.0),
        }
    }
}

/// A plot's position in its drawing and its axes: the `data-plot` attribute of `warpbook-charts`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plot {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
    x: Axis,
    y: Axis,
}

impl Plot {
    /// Parses the attribute; returns `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        let at = |i: usize| words.get(i).and_then(|word| word.parse::<f64>().ok()).filter(|v| v.is_finite());
        let axis = |i: usize| {
            let axis = Axis { low: at(i)?, high: at(i + 1)?, log: *words.get(i + 2)? == "log" };
            (axis.high > axis.low && (!axis.log || axis.low > 0.0)).then_some(axis)
        };
        let plot = Self { left: at(0)?, top: at(1)?, right: at(2)?, bottom: at(3)?, x: axis(4)?, y: axis(7)? };
        (words.len() == 10 && plot.right > plot.left && plot.bottom > plot.top).then_some(plot)
    }

    /// Returns `true` if a point of the drawing, in CSS pixels, is inside the plot.
    pub fn has(&self, (x, y): (f64, f64)) -> bool {
        (self.left..=self.right).contains(&x) && (self.top..=self.bottom).contains(&y)
    }

    /// Returns the window that a brush between two points selects; `None` for a press without a drag.
    pub fn brushed(&self, a: (f64, f64), b: (f64, f64)) -> Option<Window> {
        let wide = (a.0 - b.0).abs() >= THIN;
        let high = (a.1 - b.1).abs() >= THIN;
        if !wide && !high {
            return None;
        }
        let along = |v: f64| (v.clamp(self.left, self.right) - self.left) / (self.right - self.left);
        let up = |v: f64| (self.bottom - v.clamp(self.top, self.bottom)) / (self.bottom - self.top);
        let x = if wide { (along(a.0), along(b.0)) } else { (0.0, 1.0) };
        let y = if high { (up(a.1), up(b.1)) } else { (0.0, 1.0) };
        self.window(x, y)
    }

    fn window(&self, x: (f64, f64), y: (f64, f64)) -> Option<Window> {
        Window::new((self.x.at(x.0), self.x.at(x.1)), (self.y.at(y.0), self.y.at(y.1)))
    }

    /// Zooms one step in or out around the middle.
    pub fn nearer(&self, nearer: bool) -> Option<Window> {
        let by = if nearer { STEP } else { -STEP / (1.0 - 2.0 * STEP) };
        self.window((by, 1.0 - by), (by, 1.0 - by))
    }

    /// Moves the window by steps to the right and up; negative values go left and down.
    pub fn moved(&self, right: f64, up: f64) -> Option<Window> {
        self.window((right * STEP, 1.0 + right * STEP), (up * STEP, 1.0 + up * STEP))
    }

    /// Returns the window after a key press; `Some(None)` shows the whole plot.
    pub fn key(&self, key: &str, shift: bool) -> Option<Option<Window>> {
        match (key, shift) {
            ("+" | "=", _) => self.nearer(true).map(Some),
            ("-" | "_", _) => self.nearer(false).map(Some),
            ("0", false) => Some(None),
            ("ArrowRight", true) => self.moved(1.0, 0.0).map(Some),
            ("ArrowLeft", true) => self.moved(-1.0, 0.0).map(Some),
            ("ArrowUp", true) => self.moved(0.0, 1.0).map(Some),
            ("ArrowDown", true) => self.moved(0.0, -1.0).map(Some),
            _ => None,
        }
    }
}

/// Formats a window for an address: "256..4096,1e11..1e15".
pub fn window_text(window: &Window) -> String {
    let short = |v: f64| {
        // Four digits resolve less than a pixel.
        let rounded: f64 = format!("{v:.3e}").parse().unwrap_or(v);
        if (1e-3..1e7).contains(&rounded) { format!("{rounded}") } else { format!("{rounded:e}") }
    };
    let range = |(a, b): (f64, f64)| format!("{}..{}", short(a), short(b));
    format!("{},{}", range(window.x), range(window.y))
}

/// Undoes [`window_text`].
pub fn parse_window(text: &str) -> Option<Window> {
    let range = |text: &str| {
        let (a, b) = text.split_once("..")?;
        Some((a.parse::<f64>().ok()?, b.parse::<f64>().ok()?))
    };
    let (x, y) = text.split_once(',')?;
    Window::new(range(x)?, range(y)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "50.0 80.0 450.0 380.0 1e2 1e4 log 0e0 8e2 linear";

    #[test]
    fn a_brush_becomes_a_window() {
        let plot = Plot::parse(TEXT).unwrap();
        let near = |a: (f64, f64), b: (f64, f64)| (a.0 / b.0 - 1.0).abs() < 1e-9 && (a.1 / b.1 - 1.0).abs() < 1e-9;
        let window = plot.brushed((250.0, 380.0 - 75.0), (450.0, 380.0 - 150.0)).unwrap();
        assert!(near(window.x, (1e3, 1e4)) && near(window.y, (200.0, 400.0)), "{window:?}");
        let only_x = plot.brushed((250.0, 100.0), (900.0, 104.0)).unwrap();
        assert!(near(only_x.x, (1e3, 1e4)) && only_x.y == (0.0, 800.0), "{only_x:?}");
        assert_eq!(plot.brushed((250.0, 100.0), (252.0, 104.0)), None);
        assert!(plot.has((50.0, 80.0)) && !plot.has((49.0, 80.0)));
    }

    #[test]
    fn keys_go_nearer_and_back() {
        let plot = Plot::parse(TEXT).unwrap();
        let nearer = plot.key("+", true).unwrap().unwrap();
        assert!(nearer.x.0 > 100.0 && nearer.x.1 < 1e4 && nearer.y == (160.0, 640.0), "{nearer:?}");
        let right = plot.key("ArrowRight", true).unwrap().unwrap();
        assert!(right.x.0 > 100.0 && right.x.1 > 1e4 && right.y == (0.0, 800.0), "{right:?}");
        assert_eq!(plot.key("0", false), Some(None));
        assert_eq!(plot.key("ArrowRight", false), None, "among the marks");
    }

    #[test]
    fn a_window_survives_the_address() {
        let window = Window::new((256.0, 4096.0), (1e11, 1.5e15)).unwrap();
        assert_eq!(window_text(&window), "256..4096,1e11..1.5e15");
        assert_eq!(parse_window(&window_text(&window)), Some(window));
        for bad in ["", "1..2", "1..2,3", "a..b,c..d", "1..1,1..2", "NaN..2,1..2", "-1..2,1..2", "1..inf,1..2"] {
            assert_eq!(parse_window(bad), None, "{bad}");
        }
        for bad in ["", "1 2 3", &TEXT.replace("1e2", "0"), &TEXT.replace("450.0", "NaN"), &format!("{TEXT} 1")] {
            assert_eq!(Plot::parse(bad), None, "{bad}");
        }
    }
}

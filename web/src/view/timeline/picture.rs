//! Drawing a timeline on a canvas.

use crate::browser;
use crate::plot::trace::{Lane, Sight, Trace};
use crate::text::search::folded;
use warpbook_charts::words;
use wasm_bindgen::JsCast;
use web_sys::{CanvasRenderingContext2d, HtmlCanvasElement};

/// The height of a lane, in CSS pixels.
pub const LANE: f64 = 34.0;
/// The height of the axis, in CSS pixels.
pub const AXIS: f64 = 24.0;
/// The width of the column of the lanes' names: the smallest and the largest in CSS pixels, and the largest share of the canvas.
pub const NAMES: (f64, f64, f64) = (56.0, 150.0, 0.28);
/// The gap between a name and its lane.
const NAME_GAP: f64 = 8.0;
/// The height of one line of a name, in CSS pixels.
const NAME_LINE: f64 = 14.0;
/// The colours of operation kinds, the same as those of a chart's series; the last colour is for all remaining kinds.
pub const TONES: [&str; 8] = ["#2a7fc4", "#d55e00", "#00966c", "#b9629b", "#b8860b", "#2b95a8", "#96705b", "#80868c"];

/// The contents of a drawing.
pub struct Picture<'a> {
    /// The lanes and their bars.
    pub trace: &'a Trace,
    /// The visible interval.
    pub sight: Sight,
    /// The selected interval in microseconds.
    pub selected: Option<(f64, f64)>,
    /// Bars whose text does not contain this are drawn pale.
    pub wanted: &'a str,
}

impl Picture<'_> {
    /// Draws the timeline; returns the width of the lanes' names in CSS pixels, or `None` if the browser has no canvas.
    pub fn draw(&self, canvas: &HtmlCanvasElement) -> Option<f64> {
        let paper: CanvasRenderingContext2d = canvas.get_context("2d").ok().flatten()?.dyn_into().ok()?;
        let scale = browser::window().device_pixel_ratio().clamp(1.0, 3.0);
        let (width, height) = (f64::from(canvas.client_width()), f64::from(canvas.client_height()));
        canvas.set_width((width * scale) as u32);
        canvas.set_height((height * scale) as u32);
        let _ = paper.scale(scale, scale);
        let ink = browser::ink(canvas);
        paper.set_font("12px system-ui, sans-serif");
        paper.set_text_baseline("middle");
        let wide = |text: &str| paper.measure_text(text).map_or(0.0, |m| m.width());
        let widest = self.trace.lanes.iter().map(|l| wide(&l.name)).fold(0.0, f64::max) + NAME_GAP;
        let names = widest.clamp(NAMES.0, NAMES.1.min(width * NAMES.2).max(NAMES.0));
        self.draw_axis(&paper, names, (width, height), &ink);
        for (i, lane) in self.trace.lanes.iter().enumerate() {
            let y = AXIS + LANE * i as f64;
            paper.set_fill_style_str(&ink);
            paper.set_global_alpha(0.85);
            let lines = in_lines(&lane.name, names - NAME_GAP, wide);
            for (n, line) in lines.iter().enumerate() {
                let down = (n as f64 - (lines.len() - 1) as f64 / 2.0) * NAME_LINE;
                let _ = paper.fill_text(line, 2.0, y + LANE / 2.0 + down);
            }
            self.draw_lane(&paper, names, lane, (y + 4.0, LANE - 8.0), width);
        }
        if let Some((from, to)) = self.selected {
            let x = |t: f64| names + (t - self.sight.from) / (self.sight.to - self.sight.from) * (width - names);
            let (a, b) = (x(from).clamp(names, width), x(to).clamp(names, width));
            paper.set_global_alpha(0.15);
            paper.set_fill_style_str(&ink);
            paper.fill_rect(a, AXIS, (b - a).max(1.0), height - AXIS);
        }
        paper.set_global_alpha(1.0);
        Some(names)
    }

    fn draw_axis(&self, paper: &CanvasRenderingContext2d, names: f64, (width, height): (f64, f64), ink: &str) {
        let span = self.sight.to - self.sight.from;
        let wanted = ((width - names) / 110.0).max(1.0);
        let power = 10f64.powf((span / wanted).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| span / s <= wanted).unwrap_or(span);
        paper.set_fill_style_str(ink);
        let first = (self.sight.from / step).ceil();
        for i in 0..=(wanted as i32 + 1) {
            let time = (first + f64::from(i)) * step;
            let x = names + (time - self.sight.from) / span * (width - names);
            if x > width {
                break;
            }
            paper.set_global_alpha(0.15);
            paper.fill_rect(x, AXIS - 4.0, 1.0, height);
            paper.set_global_alpha(0.85);
            let text = if time == 0.0 { "0".to_owned() } else { words::time(time) };
            let _ = paper.fill_text(&text, (x + 3.0).min(width - 50.0), AXIS / 2.0);
        }
    }

    /// Draws a lane's bars; bars that share a pixel are drawn as one.
    fn draw_lane(
        &self,
        paper: &CanvasRenderingContext2d,
        names: f64,
        lane: &Lane,
        (y, height): (f64, f64),
        width: f64,
    ) {
        let Sight { from, to } = self.sight;
        let per_us = (width - names) / (to - from);
        let wanted = folded(self.wanted.trim());
        let (mut drawn_to, mut look) = (f64::MIN, (usize::MAX, 2.0));
        for bar in lane.between((from, to)) {
            let left = (names + (bar.from - from) * per_us).max(names);
            let right = (names + (bar.to - from) * per_us).min(width);
            if right < left || right.max(left + 1.0) <= drawn_to + 0.5 {
                continue;
            }
            let is_wanted = wanted.is_empty() || bar.has(&wanted);
            let now = (bar.tone, if is_wanted { 1.0 } else { 0.15 });
            if now != look {
                paper.set_fill_style_str(TONES[bar.tone.min(TONES.len() - 1)]);
                paper.set_global_alpha(now.1);
                look = now;
            }
            let room = right - left;
            paper.fill_rect(left, y, (room - 0.5).max(1.0), height);
            drawn_to = right.max(left + 1.0);
            if room > 44.0 && is_wanted {
                paper.set_fill_style_str("#fff");
                let shown: String = bar.title().chars().take((room / 6.6) as usize).collect();
                let _ = paper.fill_text_with_max_width(&shown, left + 4.0, y + height / 2.0, room - 8.0);
                look = (usize::MAX, 2.0);
            }
        }
        paper.set_global_alpha(1.0);
    }
}

/// Breaks a name into one or two lines between words; a name without room ends in an ellipsis.
fn in_lines(name: &str, room: f64, wide: impl Fn(&str) -> f64) -> Vec<String> {
    let fits = |text: &str| wide(text) <= room;
    let words: Vec<&str> = name.split(' ').collect();
    let at = (1..=words.len()).rev().find(|n| fits(&words[..*n].join(" "))).unwrap_or(1);
    let lines = [words[..at].join(" "), words[at..].join(" ")];
    let elided = |line: String| {
        if fits(&line) {
            return line;
        }
        let count = line.chars().count();
        let cut = |n: usize| line.chars().take(n).collect::<String>() + "…";
        (1..count).rev().map(cut).find(|l| fits(l)).unwrap_or_else(|| cut(1))
    };
    lines.into_iter().filter(|l| !l.is_empty()).map(elided).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_lanes_are_broken_and_not_squeezed() {
        let lines = |name: &str, room: usize| in_lines(name, room as f64, |t| t.chars().count() as f64);
        assert_eq!(lines("stream 7", 12), ["stream 7"]);
        assert_eq!(lines("rank 0 communication", 14), ["rank 0", "communication"]);
        assert_eq!(lines("rank 0 communication of all", 14), ["rank 0", "communication…"]);
        assert_eq!(lines("communication", 6), ["commu…"]);
    }
}

//! Timelines: spans of time in lanes.

use super::sign::draw_arrow;
use super::style::{CELL, Key, MAX_MARKS, paint};
use crate::draw::text::words::time_tick;
use crate::draw::{At, Axis, Canvas, Drawn, Font, MARGIN, Paint, Stroke, WIDTH, clean};

/// Spans from left to right, in lanes one below the other. Times have no unit unless [`Timeline::in_microseconds`] gives them one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timeline {
    pub(super) lanes: Vec<String>,
    pub(super) spans: Vec<Span>,
    pub(super) links: Vec<((usize, f64), (usize, f64))>,
    /// The axis ends at this time or later.
    pub(super) until: f64,
    /// Width reserved for the lanes' names, the same for all timelines of a diagram.
    pub(super) names: f64,
    /// True if times are microseconds; the axis then has ticks.
    pub(super) in_us: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Span {
    pub(super) lane: usize,
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) text: String,
    pub(super) key: Key,
}

impl Timeline {
    /// Makes a timeline with these lanes, from top to bottom.
    #[must_use]
    pub fn new(lanes: &[&str]) -> Self {
        let lanes: Vec<String> = lanes.iter().take(64).map(|l| clean(l)).collect();
        let names = lanes.iter().map(|l| Font::NOTE.width(l)).fold(30.0, f64::max).min(170.0);
        Self { lanes, names, ..Self::default() }
    }

    /// Extends the axis to this time, so that two timelines can have the same scale.
    #[must_use]
    pub fn until(mut self, time: f64) -> Self {
        self.until = if (0.0..=1e9).contains(&time) { time } else { 0.0 };
        self
    }

    /// Declares that times are in microseconds, which gives the axis ticks.
    #[must_use]
    pub fn in_microseconds(self) -> Self {
        Self { in_us: true, ..self }
    }

    /// Adds a span to a lane (counted from 0), with a text inside it and a label for the legend; either may be empty.
    #[must_use]
    pub fn span(self, lane: usize, times: (f64, f64), tone: usize, text: &str, label: &str) -> Self {
        self.add(lane, times, text, Key { tone, strong: true, label: clean(label) })
    }

    /// Adds a span like [`Timeline::span`], but shaded lightly, as for waiting.
    #[must_use]
    pub fn wait(self, lane: usize, times: (f64, f64), tone: usize, text: &str, label: &str) -> Self {
        self.add(lane, times, text, Key { tone, strong: false, label: clean(label) })
    }

    fn add(mut self, lane: usize, (from, to): (f64, f64), text: &str, key: Key) -> Self {
        let fine = |t: f64| (0.0..=1e9).contains(&t);
        if lane < self.lanes.len() && fine(from) && fine(to) && from < to && self.spans.len() < MAX_MARKS {
            self.spans.push(Span { lane, from, to, text: clean(text), key });
        }
        self
    }

    /// Adds an arrow from a time on one lane to the time on another lane at which the other lane stops waiting for it.
    #[must_use]
    pub fn link(mut self, from: (usize, f64), to: (usize, f64)) -> Self {
        let fine = |(lane, t): (usize, f64)| lane < self.lanes.len() && (0.0..=1e9).contains(&t);
        if fine(from) && fine(to) && self.links.len() < MAX_MARKS {
            self.links.push((from, to));
        }
        self
    }

    pub(super) fn height(&self) -> f64 {
        self.lanes.len() as f64 * LANE + 20.0
    }

    pub(super) fn draw(&self, canvas: &Canvas<'_>, left: f64, top: f64) -> Drawn {
        let names = self.names;
        let begin = left + names + 10.0;
        let end = self.spans.iter().map(|s| s.to).fold(self.until, f64::max).max(1e-9);
        let x = |t: f64| begin + t.min(end) / end * (WIDTH - MARGIN - begin);
        let y = |lane: usize| top + lane as f64 * LANE;
        for (i, lane) in self.lanes.iter().enumerate() {
            let middle = y(i) + LANE / 2.0;
            canvas.elided(lane, names, (begin - 10.0, middle), At::Right, Font { paint: Paint::INK, ..Font::NOTE })?;
            canvas.line(&[(begin, middle), (WIDTH - MARGIN, middle)], Stroke::new(Paint::FAINT, 1.0))?;
        }
        for s in &self.spans {
            // Leaves a small gap between neighbouring spans.
            let (from, to) = (x(s.from) + 0.4, (x(s.to) - 0.4).max(x(s.from) + 0.8));
            let (upper, lower) = (y(s.lane) + 3.0, y(s.lane) + LANE - 3.0);
            canvas.rect((from, to), (upper, lower), paint(&s.key, true))?;
            let room = to - from - 2.0;
            if CELL.width(&s.text) <= room || room > 30.0 {
                canvas.elided(
                    &s.text,
                    room,
                    (f64::midpoint(from, to), f64::midpoint(upper, lower)),
                    At::Middle,
                    CELL,
                )?;
            }
        }
        for ((a, from), (b, to)) in &self.links {
            let edge = |lane: usize, other: usize| y(lane) + if other > lane { LANE - 3.0 } else { 3.0 };
            draw_arrow(canvas, (x(*from), edge(*a, *b)), (x(*to), edge(*b, *a)))?;
        }
        let bottom = y(self.lanes.len()) + 4.0;
        draw_arrow(canvas, (begin, bottom), (WIDTH - MARGIN, bottom))?;
        if !self.in_us {
            return canvas.text("time", (WIDTH - MARGIN, bottom + 10.0), At::Right, Font::SMALL);
        }
        for t in Axis::from_zero([end]).ticks {
            let anchor = match x(t) {
                at if at < begin + 20.0 => At::Left,
                at if at > WIDTH - MARGIN - 20.0 => At::Right,
                _ => At::Middle,
            };
            canvas.line(&[(x(t), bottom - 3.0), (x(t), bottom + 3.0)], Stroke::new(Paint::MUTED, 1.0))?;
            canvas.text(&time_tick(t), (x(t), bottom + 11.0), anchor, Font::SMALL)?;
        }
        Ok(())
    }
}

const LANE: f64 = 26.0;

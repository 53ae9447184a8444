//! Sizes, tones and limits of diagrams.

use crate::draw::{Font, Paint, Rgb, SERIES};

/// For what is read or written; text is readable on it.
pub(super) const STRONG: f64 = 0.6;
/// The same where nothing is written on it, and it may be a few pixels only.
const STRONGEST: f64 = 0.9;
/// For what belongs to it, less prominent.
const WEAK: f64 = 0.22;
/// Between two parts of a row.
pub(super) const GAP: f64 = 12.0;
pub(super) const NAME: Font = Font { size: 12.0, bold: true, paint: Paint::INK };
pub(super) const CELL: Font = Font { size: 12.0, bold: false, paint: Paint::INK };
/// No matrix is made narrower than this to make room for its neighbours.
pub(super) const LEAST: f64 = 40.0;
/// No side of a drawn matrix is longer than this.
pub(super) const MAX_SIDE: f64 = 640.0;
/// More shaded ranges, texts or spans than these are not drawn.
pub(super) const MAX_MARKS: usize = 4096;
/// A function is not asked about rows and columns beyond these.
pub(super) const MAX_ASKED: usize = 512;

pub(super) fn color(tone: usize) -> Rgb {
    SERIES[tone % SERIES.len()]
}

pub(super) fn paint(key: &Key, written: bool) -> Paint {
    let alpha = match (key.strong, written) {
        (false, _) => WEAK,
        (true, true) => STRONG,
        (true, false) => STRONGEST,
    };
    Paint::faded(color(key.tone), alpha)
}

/// An entry of the legend.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Key {
    pub(super) tone: usize,
    pub(super) strong: bool,
    pub(super) label: String,
}

//! Sizes, tones and limits of diagrams.

use crate::draw::{Font, Paint, Rgb, SERIES};

/// Opacity of elements that are read or written, low enough for text on them to be readable.
pub(super) const STRONG: f64 = 0.6;
/// Opacity of elements without text, which may be only a few pixels in size.
const STRONGEST: f64 = 0.9;
/// Opacity of elements that are less prominent.
const WEAK: f64 = 0.22;
/// Gap between two parts of a row.
pub(super) const GAP: f64 = 12.0;
pub(super) const NAME: Font = Font { size: 12.0, bold: true, paint: Paint::INK };
pub(super) const CELL: Font = Font { size: 12.0, bold: false, paint: Paint::INK };
/// Smallest width to which a matrix is narrowed to make room for its neighbours.
pub(super) const LEAST: f64 = 40.0;
/// Longest side of a drawn matrix.
pub(super) const MAX_SIDE: f64 = 640.0;
/// Maximum number of shaded ranges, texts and spans that are drawn.
pub(super) const MAX_MARKS: usize = 4096;
/// Maximum number of rows, and of columns, for which a caller's function is called.
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

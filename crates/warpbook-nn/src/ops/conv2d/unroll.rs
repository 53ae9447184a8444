//! Converts windows to rows of a matrix, `[oh ow][kh][kw][channels]` (im2col), and back.
//!
//! Source: Chellapilla, Puri and Simard, "High performance convolutional neural networks for document processing", IWFHR 2006.

use super::Geometry;
use crate::ops::window::Axis;

/// The positions of windows in images.
#[derive(Clone, Copy)]
pub(super) struct WindowPositions {
    axes: [Axis; 2],
    channels: usize,
    oh: usize,
    ow: usize,
    /// Number of elements of a window.
    pub len: usize,
}

/// A piece of a window that is also contiguous in the image.
struct Run {
    window: usize,
    image: usize,
    len: usize,
}

impl WindowPositions {
    pub fn new(geometry: &Geometry, (oh, ow): (usize, usize)) -> Self {
        Self { axes: geometry.axes(), channels: geometry.channels, oh, ow, len: geometry.window() }
    }

    /// Returns the pieces of a window that lie inside its image; `pixel` is the output pixel, counted over all images.
    #[inline]
    fn runs(self, pixel: usize) -> impl Iterator<Item = Run> {
        let Self { axes: [vertical, horizontal], channels, oh, ow, .. } = self;
        let (row, column) = (pixel / ow, pixel % ow);
        let (image, row) = (row / oh, row % oh);
        let (v, h) = (vertical.taps(row), horizontal.taps(column));
        let (from, len) = (h.inside.start * channels, h.inside.len() * channels);
        let top = image * vertical.size + v.first;
        let skipped = v.inside.start;
        v.inside.map(move |i| Run {
            window: i * horizontal.window * channels + from,
            image: ((top + i - skipped) * horizontal.size + h.first) * channels,
            len,
        })
    }

    /// Writes the windows of the output pixels starting at `first` into the rows of `out`, with zeros for the padding.
    pub fn unroll(self, x: &[f32], first: usize, out: &mut [f32]) {
        for (row, pixel) in out.chunks_exact_mut(self.len).zip(first..) {
            let mut written = 0;
            for Run { window, image, len } in self.runs(pixel) {
                row[written..window].fill(0.0);
                copy(&mut row[window..][..len], &x[image..][..len]);
                written = window + len;
            }
            row[written..].fill(0.0);
        }
    }

    /// Adds the rows of `rows` to the elements of x that [`WindowPositions::unroll`] would have read. `dx` begins with the image of pixel 0.
    pub fn fold(self, rows: &[f32], first: usize, dx: &mut [f32]) {
        for (row, pixel) in rows.chunks_exact(self.len).zip(first..) {
            for Run { window, image, len } in self.runs(pixel) {
                let (row, dx) = (&row[window..][..len], &mut dx[image..][..len]);
                dx.iter_mut().zip(row).for_each(|(dx, value)| *dx += value);
            }
        }
    }
}

/// Copies elements: short runs, as in windows over one to three channels, with moves, and other runs with a call to `memcpy`.
#[inline(always)]
fn copy(to: &mut [f32], from: &[f32]) {
    match to.len() {
        1 => moves::<1>(to, from),
        3 => moves::<3>(to, from),
        5 => moves::<5>(to, from),
        7 => moves::<7>(to, from),
        9 => moves::<9>(to, from),
        _ => to.copy_from_slice(from),
    }
}

#[inline(always)]
fn moves<const N: usize>(to: &mut [f32], from: &[f32]) {
    if let Some((to, from)) = to.first_chunk_mut::<N>().zip(from.first_chunk::<N>()) {
        *to = *from;
    }
}

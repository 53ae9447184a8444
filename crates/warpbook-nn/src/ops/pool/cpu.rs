//! Pooling on the CPU: rows of the output in parallel in the forward pass, images in parallel in the backward pass, where windows may
//! overlap.

use super::PoolGeometry;
use crate::ops::error::Result;
use crate::ops::window::Axis;
use rayon::prelude::*;
use warpbook_data::parallel::chunks;

/// The elements of one row of the output or of one image, and their strides.
#[derive(Clone, Copy)]
struct Walk {
    axes: [Axis; 2],
    channels: usize,
    oh: usize,
    ow: usize,
}

impl Walk {
    fn new(g: &PoolGeometry, (oh, ow): (usize, usize)) -> Self {
        Self { axes: g.axes(), channels: g.channels, oh, ow }
    }

    /// Returns the elements of an output's window that lie in the image, for the output at (row, column): their indices in the window, and the
    /// indices in the image at which their channels begin.
    fn window(self, row: usize, column: usize) -> impl Iterator<Item = (usize, usize)> {
        let Self { axes: [vertical, horizontal], channels, .. } = self;
        let (v, h) = (vertical.taps(row), horizontal.taps(column));
        v.inside.zip(v.first..).flat_map(move |(i, y)| {
            let place = move |x: usize| (y * horizontal.size + x) * channels;
            h.inside.clone().zip(h.first..).map(move |(j, x)| (i * horizontal.window + j, place(x)))
        })
    }

    fn image_len(self) -> usize {
        self.axes[0].size * self.axes[1].size * self.channels
    }

    fn row_len(self) -> usize {
        self.ow * self.channels
    }

    /// Returns the image from which a row of the output, counted over all images, is computed, and the row's number within that image's
    /// output.
    fn source(self, x: &[f32], row: usize) -> (&[f32], usize) {
        (&x[row / self.oh * self.image_len()..][..self.image_len()], row % self.oh)
    }
}

/// Computes the maxima y and their indices in the windows, both `[batch][oh][ow][channels]`. Among equal values the first in row order
/// counts; a NaN is the maximum, and the last NaN gives the index, as in PyTorch. The results are not read.
///
/// # Errors
/// Returns the same errors as [`PoolGeometry::output`], and an error if a slice has the wrong length, or a window has more than 256 elements.
pub fn max_forward(g: &PoolGeometry, x: &[f32], y: &mut [f32], index: &mut [u8]) -> Result<()> {
    let walk = Walk::new(g, g.check(("x", x.len()), ("y", y.len()))?);
    g.check_index(index.len(), y.len())?;
    let rows = y.par_chunks_mut(walk.row_len()).zip(index.par_chunks_mut(walk.row_len()));
    rows.enumerate().for_each(|(row, (y, index))| {
        let (image, row) = walk.source(x, row);
        let pixels = y.chunks_exact_mut(g.channels).zip(index.chunks_exact_mut(g.channels));
        for (column, (y, index)) in pixels.enumerate() {
            let mut window = walk.window(row, column);
            let Some((first, place)) = window.next() else { continue };
            y.copy_from_slice(&image[place..][..g.channels]);
            index.fill(first as u8);
            for (element, place) in window {
                larger(&image[place..][..g.channels], element as u8, y, index);
            }
        }
    });
    Ok(())
}

/// Replaces values and their indices where x is larger or NaN.
fn larger(x: &[f32], element: u8, y: &mut [f32], index: &mut [u8]) {
    for ((x, y), index) in x.iter().zip(y).zip(index) {
        let take = *x > *y || x.is_nan();
        *y = if take { *x } else { *y };
        *index = if take { element } else { *index };
    }
}

/// Computes dx, adding dy to the elements that the index of [`max_forward`] selects. dx is not read.
///
/// # Errors
/// See [`max_forward`].
pub fn max_backward(g: &PoolGeometry, index: &[u8], dy: &[f32], dx: &mut [f32]) -> Result<()> {
    let walk = Walk::new(g, g.check(("dx", dx.len()), ("dy", dy.len()))?);
    g.check_index(index.len(), dy.len())?;
    let output_len = walk.oh * walk.row_len();
    chunks(dx, walk.image_len(), &|image, dx| {
        let (dy, index) = (&dy[image * output_len..][..output_len], &index[image * output_len..][..output_len]);
        dx.fill(0.0);
        let pixels = dy.chunks_exact(g.channels).zip(index.chunks_exact(g.channels));
        for (pixel, (dy, index)) in pixels.enumerate() {
            for (element, place) in walk.window(pixel / walk.ow, pixel % walk.ow) {
                let dx = &mut dx[place..][..g.channels];
                for ((dx, dy), index) in dx.iter_mut().zip(dy).zip(index) {
                    *dx += if usize::from(*index) == element { *dy } else { 0.0 };
                }
            }
        }
    });
    Ok(())
}

/// Computes y, the sums over the windows divided by their size, padding included. y is not read.
///
/// # Errors
/// Returns the same errors as [`PoolGeometry::output`], and an error if a slice has the wrong length.
pub fn average_forward(g: &PoolGeometry, x: &[f32], y: &mut [f32]) -> Result<()> {
    let walk = Walk::new(g, g.check(("x", x.len()), ("y", y.len()))?);
    let size = (g.size[0] * g.size[1]) as f32;
    chunks(y, walk.row_len(), &|row, y| {
        let (image, row) = walk.source(x, row);
        for (column, y) in y.chunks_exact_mut(g.channels).enumerate() {
            y.fill(0.0);
            for (_, place) in walk.window(row, column) {
                y.iter_mut().zip(&image[place..]).for_each(|(y, x)| *y += x);
            }
            y.iter_mut().for_each(|y| *y /= size);
        }
    });
    Ok(())
}

/// Computes dx: each element of a window gets an equal share of dy. dx is not read.
///
/// # Errors
/// See [`average_forward`].
pub fn average_backward(g: &PoolGeometry, dy: &[f32], dx: &mut [f32]) -> Result<()> {
    let walk = Walk::new(g, g.check(("dx", dx.len()), ("dy", dy.len()))?);
    let size = (g.size[0] * g.size[1]) as f32;
    let output_len = walk.oh * walk.row_len();
    chunks(dx, walk.image_len(), &|image, dx| {
        let dy = &dy[image * output_len..][..output_len];
        dx.fill(0.0);
        for (pixel, dy) in dy.chunks_exact(g.channels).enumerate() {
            for (_, place) in walk.window(pixel / walk.ow, pixel % walk.ow) {
                dx[place..].iter_mut().zip(dy).for_each(|(dx, dy)| *dx += dy / size);
            }
        }
    });
    Ok(())
}

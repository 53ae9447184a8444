//! The CPU body.

use super::Dropout;
use crate::ops::error::Result;
use crate::ops::parallel::CHUNK;
use rayon::prelude::*;

/// y = x where the mask keeps it, scaled, else 0. y is not read.
///
/// # Errors
/// The probability is out of range, or the slices differ in length.
pub fn forward(d: &Dropout, x: &[f32], y: &mut [f32]) -> Result<()> {
    d.check(("x", x.len()), ("y", y.len()))?;
    masked(d, x, y);
    Ok(())
}

/// dx of dy, by the same mask. dx is not read.
///
/// # Errors
/// As of [`forward`].
pub fn backward(d: &Dropout, dy: &[f32], dx: &mut [f32]) -> Result<()> {
    d.check(("dy", dy.len()), ("dx", dx.len()))?;
    masked(d, dy, dx);
    Ok(())
}

fn masked(d: &Dropout, from: &[f32], to: &mut [f32]) {
    const { assert!(CHUNK.is_multiple_of(4), "whole Philox blocks in a task") };
    let (threshold, scale) = (d.threshold(), d.scale());
    to.par_chunks_mut(CHUNK).zip(from.par_chunks(CHUNK)).enumerate().for_each(|(chunk, (to, from))| {
        let blocks = (chunk * CHUNK / 4) as u64..;
        for ((to, from), block) in to.chunks_mut(4).zip(from.chunks(4)).zip(blocks) {
            for ((to, from), word) in to.iter_mut().zip(from).zip(d.words(block)) {
                *to = if word >= threshold { from * scale } else { 0.0 };
            }
        }
    });
}

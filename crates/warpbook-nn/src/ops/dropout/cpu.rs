//! Dropout on the CPU.

use super::Dropout;
use crate::ops::error::Result;
use pulp::{Arch, Simd, WithSimd};
use warpbook_data::parallel::{CHUNK, chunks};
use warpbook_data::philox::{blocks, philox4x32_4};

/// Computes y = scale x where the mask keeps the element, else 0. y is not read.
///
/// # Errors
/// If the probability is out of range, or the slices differ in length.
pub fn forward(d: &Dropout, x: &[f32], y: &mut [f32]) -> Result<()> {
    forward_from(d, 0, x, y)
}

/// Like [`forward`], but for a part of a batch: `first` elements of the batch come before x.
///
/// # Errors
/// See [`forward`].
pub fn forward_from(d: &Dropout, first: u64, x: &[f32], y: &mut [f32]) -> Result<()> {
    d.check(("x", x.len()), ("y", y.len()))?;
    masked(d, first, x, y);
    Ok(())
}

/// Computes dx from dy with the forward pass's mask. dx is not read.
///
/// # Errors
/// See [`forward`].
pub fn backward(d: &Dropout, dy: &[f32], dx: &mut [f32]) -> Result<()> {
    backward_from(d, 0, dy, dx)
}

/// Like [`backward`], but for a part of a batch: `first` elements of the batch come before dy.
///
/// # Errors
/// See [`forward`].
pub fn backward_from(d: &Dropout, first: u64, dy: &[f32], dx: &mut [f32]) -> Result<()> {
    d.check(("dy", dy.len()), ("dx", dx.len()))?;
    masked(d, first, dy, dx);
    Ok(())
}

fn masked(d: &Dropout, first: u64, from: &[f32], to: &mut [f32]) {
    const { assert!(CHUNK.is_multiple_of(4), "whole Philox blocks in a task") };
    // Elements before the first whole Philox block are computed one by one.
    let (begun, odd) = (first / 4, (first % 4) as usize);
    let head = if odd == 0 { 0 } else { (4 - odd).min(to.len()) };
    for (i, (to, from)) in to.iter_mut().zip(from).take(head).enumerate() {
        let [layer, step] = d.counter();
        let word = philox4x32_4(d.seed, [begun as u32, (begun >> 32) as u32, layer, step])[odd + i];
        *to = if word >= d.threshold() { from * d.scale() } else { 0.0 };
    }
    let (from, to, begun) = (&from[head..], &mut to[head..], first.div_ceil(4));
    let arch = Arch::new();
    chunks(to, CHUNK, &|chunk, to| {
        let from = &from[chunk * CHUNK..][..to.len()];
        arch.dispatch(Chunk { dropout: d, first_block: begun + (chunk * CHUNK / 4) as u64, from, to });
    });
}

/// A range of elements that starts with element `4 first_block`. It is a struct because a closure would not be compiled with the CPU's
/// vector instructions.
struct Chunk<'a> {
    dropout: &'a Dropout,
    first_block: u64,
    from: &'a [f32],
    to: &'a mut [f32],
}

impl WithSimd for Chunk<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        /// Number of Philox blocks that are computed together.
        const BLOCKS: usize = 16;
        let (threshold, scale) = (self.dropout.threshold(), self.dropout.scale());
        let [layer, step] = self.dropout.counter();
        let groups = self.to.chunks_mut(4 * BLOCKS).zip(self.from.chunks(4 * BLOCKS));
        for ((to, from), group) in groups.zip(0u64..) {
            let block = |i: usize| self.first_block + group * BLOCKS as u64 + i as u64;
            let low = std::array::from_fn(|i| block(i) as u32);
            let high = std::array::from_fn(|i| (block(i) >> 32) as u32);
            let words = blocks::<BLOCKS>(self.dropout.seed, [low, high, [layer; BLOCKS], [step; BLOCKS]]);
            for (i, (to, from)) in to.iter_mut().zip(from).enumerate() {
                *to = if words[i % 4][i / 4 % BLOCKS] >= threshold { from * scale } else { 0.0 };
            }
        }
    }
}

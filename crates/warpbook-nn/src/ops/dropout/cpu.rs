//! The CPU body.

use super::Dropout;
use crate::ops::error::Result;
use crate::parallel::{CHUNK, chunks};
use crate::philox::blocks;
use pulp::{Arch, Simd, WithSimd};

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
    let arch = Arch::new();
    chunks(to, CHUNK, &|chunk, to| {
        let from = &from[chunk * CHUNK..][..to.len()];
        arch.dispatch(Chunk { dropout: d, first_block: (chunk * CHUNK / 4) as u64, from, to });
    });
}

/// Some elements, the first of which is element `4 first_block`. A type, as closures are not compiled for the CPU's vectors.
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
        /// Philox blocks at once.
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

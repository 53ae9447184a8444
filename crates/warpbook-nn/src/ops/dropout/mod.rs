//! Dropout: each element is kept with probability 1 - p and scaled by 1 / (1 - p), or set to zero.
//!
//! The mask is not stored. Element i takes word i mod 4 of the Philox block with the counter \[i / 4 low, i / 4 high, 0x64726f70 xor layer,
//! step\], so both passes draw the same mask, on the CPU and on a GPU.

pub mod cpu;
pub mod cuda;

use super::error::{Check, Result};

pub(crate) const OP: &str = "dropout";

/// Settings of a dropout layer at a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dropout {
    /// Key of the Philox random numbers.
    pub seed: u64,
    /// Index of the layer among the network's dropouts.
    pub layer: u32,
    /// Index of the training step, which selects the random numbers.
    pub step: u32,
    /// Probability that an element is dropped, from 0 to below 1.
    pub probability: f32,
}

impl Dropout {
    /// Returns the smallest random word that keeps an element: floor(p 2^32).
    #[must_use]
    pub fn threshold(&self) -> u32 {
        (f64::from(self.probability) * 4_294_967_296.0) as u32
    }

    /// Returns the factor of kept elements, 1 / (1 - p).
    #[must_use]
    pub fn scale(&self) -> f32 {
        (1.0 / (1.0 - f64::from(self.probability))) as f32
    }

    /// Returns the last two words of every counter of this layer and step; the first two are i / 4 for element i.
    #[must_use]
    pub fn counter(&self) -> [u32; 2] {
        const NAME: u32 = 0x6472_6f70;
        [NAME ^ self.layer, self.step]
    }

    pub(crate) fn check(&self, from: (&'static str, usize), to: (&'static str, usize)) -> Result<()> {
        let p = self.probability;
        Check(OP).value("the probability", p, (0.0..1.0).contains(&p), "from 0 to below 1")?;
        Check(OP).lengths(&[(to.0, to.1, &[from.1])])
    }
}

//! The collective operations of ranks.

use crate::{Aborter, Result};

/// The operation that combines the ranks' values in an all-reduce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduce {
    /// The sum of the values.
    Sum,
    /// The sum divided by the number of ranks.
    Mean,
}

/// The type in which values are sent. Sums are always computed in f32 and rounded to this type before each message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wire {
    /// Single precision: 4 bytes per value.
    #[default]
    F32,
    /// Half precision: 2 bytes per value, with 11 bits of precision and magnitudes up to 65504.
    F16,
    /// bfloat16: 2 bytes per value, with 8 bits of precision and the range of f32.
    Bf16,
}

impl Wire {
    /// Returns the number of bytes per value.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }
}

/// Operations that every rank must call in the same order, with arrays of equal length.
///
/// Results are bit-identical on every rank, and in every run with the same number of ranks, because the order of
/// additions depends only on the number of ranks and the length of the array.
///
/// Every method fails once a rank has failed, died, or not arrived within the time limit; the error names that rank.
pub trait Collective: Send + std::fmt::Debug {
    /// Returns the index of this rank, starting from 0.
    fn rank(&self) -> usize;

    /// Returns the number of ranks.
    fn world(&self) -> usize;

    /// Copies the values of rank `root` to all ranks.
    ///
    /// # Errors
    /// Returns an error if another rank is lost, or the ranks call different operations.
    fn broadcast(&mut self, values: &mut [f32], root: usize) -> Result<()>;

    /// Replaces the values by their sum or mean over the ranks, element by element.
    ///
    /// # Errors
    /// See [`Collective::broadcast`].
    fn all_reduce(&mut self, values: &mut [f32], reduce: Reduce, wire: Wire) -> Result<()>;

    /// Returns the byte strings of all ranks, in rank order. Their lengths may differ.
    ///
    /// # Errors
    /// See [`Collective::broadcast`].
    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>>;

    /// Waits until all ranks have called this function.
    ///
    /// # Errors
    /// See [`Collective::broadcast`].
    fn barrier(&mut self) -> Result<()> {
        self.all_gather(&[]).map(drop)
    }

    /// Ends the work of all ranks. Their operations then fail with an error that states this reason and this rank's
    /// number.
    fn abort(&self, why: &str);

    /// Returns a handle that can end the work from any thread, like [`Collective::abort`].
    fn aborter(&self) -> Aborter;

    /// Waits until all ranks have finished their work, and ends the group.
    ///
    /// # Errors
    /// Returns an error if a rank failed or died before it finished.
    fn finish(self: Box<Self>) -> Result<()>;

    /// Adds f64 numbers over the ranks, in rank order. This is meant for metrics.
    ///
    /// # Errors
    /// See [`Collective::broadcast`].
    fn sum_f64(&mut self, values: &[f64]) -> Result<Vec<f64>> {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let mut sums = vec![0.0; values.len()];
        for of_rank in self.all_gather(&bytes)? {
            let numbers = of_rank.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap_or_default()));
            sums.iter_mut().zip(numbers).for_each(|(sum, v)| *sum += v);
        }
        Ok(sums)
    }

    /// Returns the number that rank 0 passed, on all ranks.
    ///
    /// # Errors
    /// See [`Collective::broadcast`].
    fn of_first(&mut self, value: u64) -> Result<u64> {
        let all = self.all_gather(&value.to_le_bytes())?;
        Ok(all.first().and_then(|b| b.as_slice().try_into().ok()).map_or(value, u64::from_le_bytes))
    }
}

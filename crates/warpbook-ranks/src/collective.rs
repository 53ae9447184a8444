//! Collective operations of the ranks.

use crate::{Aborter, Result};

/// Operation of a reduction over the ranks' values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduce {
    /// Sum.
    Sum,
    /// Sum divided by the number of ranks.
    Mean,
}

/// Type in which values travel. Sums are in f32 in any case, and rounded before each message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wire {
    /// 4 bytes a value.
    #[default]
    F32,
    /// 2 bytes: 11 bits of precision, up to 65504.
    F16,
    /// 2 bytes: 8 bits of precision, the range of f32.
    Bf16,
}

impl Wire {
    /// Bytes of a value.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }
}

/// Operations that every rank must call in the same order, with arrays of the same length.
///
/// The result is the same bits on every rank, and on every run with the same number of ranks: sums are added in an order that follows from the
/// number of ranks and the length alone.
///
/// Every method fails once a rank has failed, died, or not come for longer than the time limit: the error then names that rank.
pub trait Collective: Send + std::fmt::Debug {
    /// This rank, from 0.
    fn rank(&self) -> usize;

    /// Number of ranks.
    fn world(&self) -> usize;

    /// Copies the values of rank `root` to all ranks.
    ///
    /// # Errors
    /// If another rank is lost, or the ranks do not call the same operation.
    fn broadcast(&mut self, values: &mut [f32], root: usize) -> Result<()>;

    /// Replaces the values by their sum or mean over the ranks, element by element.
    ///
    /// # Errors
    /// The errors of [`Collective::broadcast`].
    fn all_reduce(&mut self, values: &mut [f32], reduce: Reduce, wire: Wire) -> Result<()>;

    /// Returns the bytes of all ranks, in their order; the lengths may differ.
    ///
    /// # Errors
    /// The errors of [`Collective::broadcast`].
    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>>;

    /// Waits until all ranks are here.
    ///
    /// # Errors
    /// The errors of [`Collective::broadcast`].
    fn barrier(&mut self) -> Result<()> {
        self.all_gather(&[]).map(drop)
    }

    /// Ends the work of all ranks, whose operations then fail with this reason and this rank's number.
    fn abort(&self, why: &str);

    /// Returns a function that does the same as [`Collective::abort`] from any thread.
    fn aborter(&self) -> Aborter;

    /// Waits until all ranks have done their work, and ends the group.
    ///
    /// # Errors
    /// If a rank failed or died before it was done.
    fn finish(self: Box<Self>) -> Result<()>;

    /// Adds up f64 numbers over the ranks, in the order of the ranks: for metrics.
    ///
    /// # Errors
    /// The errors of [`Collective::broadcast`].
    fn sum_f64(&mut self, values: &[f64]) -> Result<Vec<f64>> {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let mut sums = vec![0.0; values.len()];
        for of_rank in self.all_gather(&bytes)? {
            let numbers = of_rank.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap_or_default()));
            sums.iter_mut().zip(numbers).for_each(|(sum, v)| *sum += v);
        }
        Ok(sums)
    }

    /// Returns rank 0's number on all ranks.
    ///
    /// # Errors
    /// The errors of [`Collective::broadcast`].
    fn of_first(&mut self, value: u64) -> Result<u64> {
        let all = self.all_gather(&value.to_le_bytes())?;
        Ok(all.first().and_then(|b| b.as_slice().try_into().ok()).map_or(value, u64::from_le_bytes))
    }
}

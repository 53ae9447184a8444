//! Data-parallel training: every rank has all weights and a part of each batch; gradients are summed over the ranks.
//!
//! The recipe's batch is the global batch. A rank takes consecutive samples of it ([`warpbook_ranks::shard`]), and its loss is weighted by
//! their share, so that the sum of the ranks' gradients is the gradient of the mean over the global batch. Dropout and augmentation draw random
//! numbers by the position in the global batch, so the numbers are the same as on a single rank.
//!
//! Gradients are sent in buckets during the backward pass, in the order in which this pass computes them. Source: Li et al., "PyTorch Distributed:
//! Experiences on Accelerating Data Parallel Training", VLDB 2020.

mod buckets;
mod exchange;
mod state;
mod team;
mod trace;

pub use buckets::{Bucket, plan_buckets};
pub(in crate::train) use exchange::Exchange;
pub(in crate::train) use team::Pending;
use team::Team;
pub(in crate::train) use trace::Trace;
pub use trace::{RankThread, RankWork};

use super::engine::{Broken, StepOutcome};
use super::{Score, TrainError};
use std::sync::Arc;
use std::time::Duration;
use warpbook_ranks::{Aborter, Collective, Shard, Wire};

/// Options of training on several ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RanksOptions {
    /// Type in which gradients are sent. With 16 bits a slow link needs half the time, but gradients are rounded; bf16 has the range of
    /// f32, while fp16 loses gradients below 6e-8 unless the loss is scaled.
    pub wire: Wire,
    /// Bytes of gradients, as sent, after which a bucket is sent: 25 MiB in PyTorch. Every bucket costs a message, so small buckets are
    /// expensive; with large buckets, less of the communication overlaps with the backward pass.
    pub bucket_bytes: usize,
    /// True if batch normalisation uses the statistics of the global batch; otherwise it uses the statistics of the rank's part. Running statistics
    /// are always the means over the ranks.
    pub synchronised_norm: bool,
}

/// Default size of a bucket in bytes, like PyTorch's `bucket_cap_mb`.
const BUCKET_BYTES: usize = 25 << 20;

impl Default for RanksOptions {
    /// Returns fp32, 25 MiB, and local statistics.
    fn default() -> Self {
        Self { wire: Wire::F32, bucket_bytes: BUCKET_BYTES, synchronised_norm: false }
    }
}

/// A rank of a training on several ranks. Clones refer to the same rank.
#[derive(Debug, Clone)]
pub struct Ranks {
    team: Arc<Team>,
    options: RanksOptions,
    trace: Trace,
}

impl Ranks {
    /// Creates a rank of a group whose members are connected.
    #[must_use]
    pub fn new(collective: Box<dyn Collective>, options: RanksOptions) -> Self {
        let trace = Trace::default();
        Self { team: Arc::new(Team::new(collective, trace.clone())), trace, options }
    }

    /// Returns the index of this rank, from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.team.rank()
    }

    /// Returns the number of ranks that train together.
    #[must_use]
    pub fn world(&self) -> usize {
        self.team.world()
    }

    /// Returns the options of the training.
    #[must_use]
    pub fn options(&self) -> RanksOptions {
        self.options
    }

    /// Returns the same rank with other options.
    #[must_use]
    pub fn with_options(&self, options: RanksOptions) -> Self {
        Self { options, ..self.clone() }
    }

    /// Returns a handle that ends the work of all ranks for a reason, from any thread.
    #[must_use]
    pub fn aborter(&self) -> Aborter {
        self.team.aborter()
    }

    /// Returns the reason why the work of all ranks has ended, if it has ended; waits at most `wait` for a reason.
    #[must_use]
    pub fn why_over(&self, wait: Duration) -> Option<String> {
        self.team.aborter().why_within(wait)
    }

    /// Waits until all ranks have finished, and ends the group. Later calls fail.
    ///
    /// # Errors
    /// If a rank failed or died before it was done.
    pub fn finish(&self) -> Result<(), TrainError> {
        self.team.finish()
    }

    /// Queues an operation of all ranks, which runs after all operations queued before.
    pub(in crate::train) fn queue<R: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut dyn Collective) -> warpbook_ranks::Result<R> + Send + 'static,
    ) -> Pending<R> {
        self.team.queue("metrics", operation)
    }

    /// Like [`Ranks::queue`], but records the operation under this name.
    pub(in crate::train) fn queue_named<R: Send + 'static>(
        &self,
        name: &str,
        operation: impl FnOnce(&mut dyn Collective) -> warpbook_ranks::Result<R> + Send + 'static,
    ) -> Pending<R> {
        self.team.queue(name, operation)
    }

    /// Starts recording this rank's work in steps on the CPU.
    pub fn record_work(&self) {
        self.trace.start();
    }

    /// Returns the work since [`Ranks::record_work`], and ends the recording.
    #[must_use]
    pub fn recorded_work(&self) -> Vec<RankWork> {
        self.trace.take()
    }

    pub(in crate::train) fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Gathers the bytes of all ranks, in the order of ranks.
    ///
    /// # Errors
    /// If a rank is lost.
    pub fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, TrainError> {
        let bytes = bytes.to_vec();
        self.queue(move |ranks| ranks.all_gather(&bytes)).wait()
    }

    /// Sums the values over the ranks, in the order of the ranks.
    pub(in crate::train) fn sums(&self, values: &[f64]) -> Result<Vec<f64>, TrainError> {
        let values = values.to_vec();
        self.queue(move |ranks| ranks.sum_f64(&values)).wait()
    }

    /// Returns, for each flag, true if it is true on any rank.
    pub(in crate::train) fn any(&self, flags: &[bool]) -> Result<Vec<bool>, TrainError> {
        let flags: Vec<f64> = flags.iter().map(|flag| f64::from(u8::from(*flag))).collect();
        Ok(self.sums(&flags)?.into_iter().map(|count| count > 0.0).collect())
    }

    /// Broadcasts rank 0's value.
    pub(in crate::train) fn broadcast_from_first(&self, value: u64) -> Result<u64, TrainError> {
        self.queue(move |ranks| ranks.of_first(value)).wait()
    }

    /// Combines the scores of all parts of a data set.
    pub(in crate::train) fn score(&self, own: Score) -> Result<Score, TrainError> {
        let sum = if own.of == 0 { 0.0 } else { own.loss * own.of as f64 };
        let sums = self.sums(&[sum, own.correct as f64, own.of as f64])?;
        Ok(Score { loss: sums[0] / sums[2].max(1.0), correct: sums[1] as usize, of: sums[2] as usize })
    }

    /// Combines the outcomes of the ranks' parts into the step's outcome over the global batch. If a loss is not finite, `layer` is called on
    /// the first rank with such a part, and all ranks get its answer.
    pub(in crate::train) fn outcome(
        &self,
        (loss, correct): (f64, usize),
        shard: &Shard,
        layer: impl FnOnce() -> Result<String, TrainError>,
    ) -> Result<Result<(f64, usize), Broken>, TrainError> {
        let counts = shard.len > 0;
        let mut bytes = (if counts { loss * shard.weight() } else { 0.0 }).to_le_bytes().to_vec();
        bytes.extend((if counts { correct as u64 } else { 0 }).to_le_bytes());
        let all = self.all_gather(&bytes)?;
        let word = |bytes: &[u8], at: usize| -> [u8; 8] {
            bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).unwrap_or_default()
        };
        let losses: Vec<f64> = all.iter().map(|b| f64::from_le_bytes(word(b, 0))).collect();
        let correct: u64 = all.iter().map(|b| u64::from_le_bytes(word(b, 8))).sum();
        let loss: f64 = losses.iter().sum();
        if loss.is_finite() {
            return Ok(Ok((loss, correct as usize)));
        }
        // A sum of finite numbers may overflow, in theory.
        let first = losses.iter().position(|l| !l.is_finite()).unwrap_or(0);
        let name = if first == self.rank() { layer()?.into_bytes() } else { Vec::new() };
        let named = self.all_gather(&name)?;
        let layer = String::from_utf8_lossy(&named[first]).into_owned();
        Ok(Err(Broken { loss, layer: format!("{layer} on rank {first}") }))
    }

    /// Like [`Ranks::outcome`], for all steps that a GPU has made together; `outcomes` belong to this rank's parts.
    pub(in crate::train) fn outcomes(
        &self,
        outcomes: &mut [StepOutcome],
        shards: &[Shard],
    ) -> Result<Option<(usize, usize)>, TrainError> {
        let mut own = Vec::with_capacity(2 * outcomes.len());
        for (outcome, shard) in outcomes.iter().zip(shards) {
            let counts = shard.len > 0;
            own.push(if counts { outcome.loss * shard.weight() } else { 0.0 });
            own.push(if counts { outcome.correct as f64 } else { 0.0 });
        }
        let bytes: Vec<u8> = own.iter().flat_map(|v| v.to_le_bytes()).collect();
        let all = self.all_gather(&bytes)?;
        let number = |rank: usize, at: usize| {
            let bytes = all[rank].get(8 * at..8 * at + 8).and_then(|b| b.try_into().ok());
            f64::from_le_bytes(bytes.unwrap_or_default())
        };
        let mut broken = None;
        for (i, outcome) in outcomes.iter_mut().enumerate() {
            outcome.loss = (0..all.len()).map(|rank| number(rank, 2 * i)).sum();
            outcome.correct = (0..all.len()).map(|rank| number(rank, 2 * i + 1)).sum::<f64>() as usize;
            if broken.is_none() && !outcome.loss.is_finite() {
                broken = Some((i, (0..all.len()).find(|rank| !number(*rank, 2 * i).is_finite()).unwrap_or(0)));
            }
        }
        Ok(broken)
    }
}

/// Writes "4 ranks".
impl std::fmt::Display for Ranks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ranks", self.world())
    }
}

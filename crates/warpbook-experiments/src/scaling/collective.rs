//! The time of an all-reduce between CPU ranks as a function of its length, with the collective that training uses.

use super::threads::together;
use std::time::Instant;
use warpbook_lab::{Error, Result};
use warpbook_nn::train::TrainError;
use warpbook_ranks::{Collective, Reduce, Wire};
use warpbook_record::stats;

/// Number of untimed and of timed all-reduces for each length.
const REPEATS: [usize; 2] = [2, 9];
/// Maximum size of an array in bytes.
const MOST: usize = 1 << 30;

/// The timing of an all-reduce with a given length.
#[derive(Debug, Clone, PartialEq)]
pub struct AllReduce {
    /// Number of ranks that take part.
    pub ranks: usize,
    /// Size in bytes of the f32 array on each rank.
    pub bytes: usize,
    /// Times of the slowest rank in microseconds.
    pub samples_us: Vec<f64>,
}

impl AllReduce {
    /// Returns the median time in microseconds.
    #[must_use]
    pub fn median_us(&self) -> f64 {
        stats::median(&self.samples_us).unwrap_or(f64::NAN)
    }

    /// Returns the bus bandwidth in bytes per second; see [`bus_bytes_per_s`].
    #[must_use]
    pub fn bus_bytes_per_s(&self) -> f64 {
        bus_bytes_per_s(self.ranks, self.bytes as f64, self.median_us())
    }
}

/// Returns the bus bandwidth of an all-reduce in bytes per second: the bytes that the busiest link must carry with any
/// algorithm, 2 (N - 1) / N times the size of the array, divided by the time. This can be compared with the bandwidth
/// of the link for any number of ranks. Source: the notes of NCCL's tests, doc/PERFORMANCE.md.
#[must_use]
pub fn bus_bytes_per_s(ranks: usize, bytes: f64, us: f64) -> f64 {
    let n = ranks as f64;
    2.0 * (n - 1.0) / n * bytes / (us * 1e-6)
}

/// Times all-reduces of arrays with these lengths in bytes, between ranks that are threads of this process. Every
/// result is checked.
///
/// # Errors
/// If there are fewer than two ranks, an array is too long, a rank is lost, or a sum is wrong.
pub fn all_reduce_on_threads(ranks: usize, lengths: &[usize]) -> Result<Vec<AllReduce>> {
    if !(2..=64).contains(&ranks) {
        return Err(Error::Setting(format!("An all-reduce needs 2 to 64 ranks, not {ranks}.")));
    }
    if let Some(bytes) = lengths.iter().find(|bytes| !(4..=MOST).contains(*bytes)) {
        return Err(Error::Setting(format!("An all-reduce needs arrays of 4 to {MOST} bytes, not {bytes}.")));
    }
    let work = |rank: usize, mut group: Box<dyn Collective>| {
        let lost = |e: warpbook_ranks::Error| Error::from(TrainError::from(e));
        let mut all = Vec::new();
        for bytes in lengths {
            let mut values = vec![0f32; bytes / 4];
            let mut samples = Vec::new();
            for repeat in 0..REPEATS[0] + REPEATS[1] {
                values.fill(rank as f32 + 1.0);
                group.barrier().map_err(lost)?;
                let begun = Instant::now();
                group.all_reduce(&mut values, Reduce::Sum, Wire::F32).map_err(lost)?;
                if repeat >= REPEATS[0] {
                    samples.push(begun.elapsed().as_secs_f64() * 1e6);
                }
            }
            let sum = (ranks * (ranks + 1) / 2) as f32;
            if values.iter().any(|v| *v != sum) {
                return Err(Error::Setting(format!(
                    "An all-reduce of {bytes} bytes gave a wrong sum; {sum} was expected."
                )));
            }
            all.push(samples);
        }
        group.finish().map_err(lost)?;
        Ok(all)
    };
    let of_ranks = together(ranks, 1, &work)?;
    let of_length = |(at, bytes): (usize, &usize)| {
        let samples = of_ranks[0][at].len();
        let slowest = |i: usize| of_ranks.iter().map(|all| all[at][i]).fold(0.0, f64::max);
        AllReduce { ranks, bytes: *bytes, samples_us: (0..samples).map(slowest).collect() }
    };
    Ok(lengths.iter().enumerate().map(of_length).collect())
}

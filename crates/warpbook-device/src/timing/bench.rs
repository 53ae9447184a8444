//! Measures how long a piece of work takes, on a device or on the CPU.

use crate::cuda::capture::Busy;
use crate::{Cancel, ClockWatch, CudaDevice, Result, Stream};
use std::time::Instant;
use warpbook_record::{Inputs, L2State, Policy, TimedBy, stats};

/// The project's only way to measure times: it warms up, and then takes samples until there are enough or the time budget is spent.
#[derive(Debug, Clone)]
pub struct Bench {
    /// Number of untimed repetitions before the first sample.
    pub warmup: u32,
    /// Largest number of samples.
    pub samples: u32,
    /// Time budget: no further sample begins once the samples have taken this many seconds in total. At least one sample is always taken.
    pub budget_s: f64,
    /// A region that is shorter than this many microseconds is repeated several times between two events, and the time is divided by the number of
    /// repetitions.
    pub batch_below_us: f64,
    /// Request to stop, which is checked between samples.
    pub cancel: Cancel,
}

impl Default for Bench {
    /// Returns a bench with three warm-up runs and up to 25 samples within two seconds.
    fn default() -> Self {
        Self { warmup: 3, samples: 25, budget_s: 2.0, batch_below_us: 50.0, cancel: Cancel::default() }
    }
}

/// The measured times of a region.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Samples {
    /// Times in microseconds, measured by CUDA events, or by the CPU's clock for work on the CPU.
    pub us: Vec<f64>,
    /// Times in microseconds, measured by the CPU's clock, including the launch and the final synchronisation.
    pub wall_us: Vec<f64>,
    /// Number of repetitions of the region within one sample.
    pub batch: u32,
}

impl Samples {
    /// Returns the median time in microseconds; NaN if there are no samples.
    #[must_use]
    pub fn median_us(&self) -> f64 {
        stats::median(&self.us).unwrap_or(f64::NAN)
    }
}

impl Bench {
    /// Returns a bench that takes only a short time, for a first impression.
    #[must_use]
    pub fn quick() -> Self {
        Self { warmup: 1, samples: 7, budget_s: 0.5, ..Self::default() }
    }

    /// Returns the measuring policy in the form that records use.
    #[must_use]
    pub fn policy(&self, on_gpu: bool, inputs: Inputs) -> Policy {
        Policy {
            timed_by: if on_gpu { TimedBy::CudaEvents } else { TimedBy::WallClock },
            l2: L2State::Warm,
            warmup: self.warmup,
            samples: self.samples,
            budget_s: self.budget_s,
            batch_below_us: self.batch_below_us,
            inputs,
        }
    }

    /// Times the work that `region` queues on the stream. `setup` is queued before each repetition and is not timed, so a region with a `setup` is never
    /// repeated within a sample.
    ///
    /// # Errors
    /// The errors of the closures, the driver's errors, and [`Error::Cancelled`](crate::Error::Cancelled).
    pub fn cuda(
        &self,
        device: &CudaDevice,
        stream: &Stream,
        watch: Option<&ClockWatch>,
        mut setup: Option<&mut dyn FnMut() -> Result<()>>,
        mut region: impl FnMut() -> Result<()>,
    ) -> Result<Samples> {
        let _busy = Busy::begin();
        let (start, end) = (device.event()?, device.event()?);
        let may_repeat = setup.is_none();
        let mut once = |batch: u32| -> Result<(f64, f64)> {
            if let Some(setup) = &mut setup {
                setup()?;
            }
            stream.synchronize()?;
            let clock = Instant::now();
            start.record(stream)?;
            for _ in 0..batch {
                region()?;
            }
            end.record(stream)?;
            stream.synchronize()?;
            let wall_us = clock.elapsed().as_secs_f64() * 1e6;
            let n = f64::from(batch);
            Ok((start.elapsed_us(&end)? / n, wall_us / n))
        };
        let mut last_us = 0.0;
        for _ in 0..self.warmup.max(1) {
            self.cancel.check()?;
            (last_us, _) = once(1)?;
        }
        let batch = if may_repeat { batch_for(last_us, self.batch_below_us) } else { 1 };
        self.collect(batch, watch, once)
    }

    /// Times several regions alternately: every round takes one sample of each, so that all regions run at the same clock frequencies. Regions shorter than
    /// the batching threshold are captured and replayed as a graph of several repetitions, so that launching is not timed.
    ///
    /// `budget_s` is the budget per region.
    ///
    /// # Errors
    /// The first error of a region, the driver's errors, and [`Error::Cancelled`](crate::Error::Cancelled).
    pub fn cuda_in_turn(
        &self,
        device: &CudaDevice,
        stream: &Stream,
        watch: Option<&ClockWatch>,
        regions: &[&dyn Fn() -> Result<()>],
    ) -> Result<Vec<Samples>> {
        let _busy = Busy::begin();
        let (start, end) = (device.event()?, device.event()?);
        let time = |work: &dyn Fn() -> Result<()>| -> Result<(f64, f64)> {
            stream.synchronize()?;
            let clock = Instant::now();
            start.record(stream)?;
            work()?;
            end.record(stream)?;
            stream.synchronize()?;
            Ok((start.elapsed_us(&end)?, clock.elapsed().as_secs_f64() * 1e6))
        };
        // For each region, the number of repetitions in a sample, and a graph of these repetitions if there are several.
        let mut prepared = Vec::new();
        for region in regions {
            let mut last_us = 0.0;
            for _ in 0..self.warmup.max(1) {
                self.cancel.check()?;
                (last_us, _) = time(region)?;
            }
            let batch = batch_for(last_us, self.batch_below_us);
            // SAFETY: the launches of a region stay valid as long as the region is borrowed, and the graph is dropped before the borrow ends.
            let graph = (batch > 1).then(|| unsafe { stream.capture(|| (0..batch).try_for_each(|_| region())) });
            prepared.push((batch, graph.transpose()?.map(|g| g.named("repetitions of a timed region"))));
        }
        let mut all: Vec<Samples> =
            prepared.iter().map(|(batch, _)| Samples { batch: *batch, ..Samples::default() }).collect();
        let begun = Instant::now();
        // The first launch of a graph is not counted, because it may include uploading the graph to the device.
        for round in 0..=self.samples.max(1) {
            for ((region, (batch, graph)), samples) in regions.iter().zip(&prepared).zip(&mut all) {
                self.cancel.check()?;
                let (us, wall_us) = match graph {
                    Some(graph) => time(&|| graph.launch(stream))?,
                    None if round == 0 => continue,
                    None => time(region)?,
                };
                if round > 0 {
                    samples.us.push(us / f64::from(*batch));
                    samples.wall_us.push(wall_us / f64::from(*batch));
                }
            }
            if let Some(watch) = watch {
                watch.read();
            }
            if round > 0 && begun.elapsed().as_secs_f64() >= self.budget_s * regions.len() as f64 {
                break;
            }
        }
        Ok(all)
    }

    /// Times `region` by the CPU's clock.
    ///
    /// # Errors
    /// The errors of the closure, and [`Error::Cancelled`](crate::Error::Cancelled).
    pub fn cpu(&self, region: impl FnMut() -> Result<()>) -> Result<Samples> {
        self.cpu_checked(None, region, || true)
    }

    /// Like [`Bench::cpu`], but runs `setup` untimed before each repetition, as in [`Bench::cuda`]. After the first repetition, `go_on` checks the result,
    /// also untimed; if it returns false, that repetition is the only sample.
    ///
    /// # Errors
    /// The errors of [`Bench::cpu`].
    pub fn cpu_checked(
        &self,
        mut setup: Option<&mut dyn FnMut() -> Result<()>>,
        mut region: impl FnMut() -> Result<()>,
        go_on: impl FnOnce() -> bool,
    ) -> Result<Samples> {
        let _busy = Busy::begin();
        let may_repeat = setup.is_none();
        let mut once = |batch: u32| -> Result<(f64, f64)> {
            if let Some(setup) = &mut setup {
                setup()?;
            }
            let clock = Instant::now();
            for _ in 0..batch {
                region()?;
            }
            let us = clock.elapsed().as_secs_f64() * 1e6 / f64::from(batch);
            Ok((us, us))
        };
        self.cancel.check()?;
        let first = once(1)?;
        // If one run takes the whole budget, no warm-up is affordable, and that run is the only sample.
        if !go_on() || first.0 * 1e-6 >= self.budget_s {
            return Ok(Samples { us: vec![first.0], wall_us: vec![first.1], batch: 1 });
        }
        let batch = if may_repeat { batch_for(first.0, self.batch_below_us) } else { 1 };
        self.collect(batch, None, once)
    }

    fn collect(
        &self,
        batch: u32,
        watch: Option<&ClockWatch>,
        mut once: impl FnMut(u32) -> Result<(f64, f64)>,
    ) -> Result<Samples> {
        let mut samples = Samples { batch, ..Samples::default() };
        let begun = Instant::now();
        for _ in 0..self.samples.max(1) {
            self.cancel.check()?;
            let (us, wall_us) = once(batch)?;
            samples.us.push(us);
            samples.wall_us.push(wall_us);
            if let Some(watch) = watch {
                watch.read();
            }
            if begun.elapsed().as_secs_f64() >= self.budget_s {
                break;
            }
        }
        Ok(samples)
    }
}

/// Returns the number of repetitions that makes a region of `us` microseconds twice as long as the threshold.
fn batch_for(us: f64, below_us: f64) -> u32 {
    if us >= below_us { 1 } else { (2.0 * below_us / us.max(0.1)).ceil().clamp(1.0, 1000.0) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_regions_are_repeated() {
        let check = |us, expect| assert_eq!(batch_for(us, 50.0), expect, "{us}");
        check(100.0, 1);
        check(50.0, 1);
        check(10.0, 10);
        check(0.0, 1000);
    }

    #[test]
    fn the_budget_ends_the_samples_and_one_is_always_taken() {
        let mut bench = Bench { samples: 1000, budget_s: 0.02, ..Bench::default() };
        let mut nap = || {
            std::thread::sleep(std::time::Duration::from_millis(5));
            Ok(())
        };
        let n = bench.cpu(&mut nap).unwrap().us.len();
        assert!((1..=10).contains(&n), "{n}");
        bench.budget_s = 0.0;
        assert_eq!(bench.cpu(&mut nap).unwrap().us.len(), 1);
    }

    #[test]
    fn a_setup_comes_before_each_repetition_and_is_not_timed() {
        let bench = Bench { samples: 3, ..Bench::default() };
        let (mut setups, mut runs) = (0, 0);
        let mut setup = || {
            setups += 1;
            std::thread::sleep(std::time::Duration::from_millis(20));
            Ok(())
        };
        let region = || {
            runs += 1;
            Ok(())
        };
        let samples = bench.cpu_checked(Some(&mut setup), region, || true).unwrap();
        // The first of the four runs is the warm-up. Without a setup, such a short region would be repeated within a sample.
        assert_eq!((setups, runs, samples.batch, samples.us.len()), (4, 4, 1, 3));
        assert!(samples.us.iter().all(|us| *us < 20e3), "{:?}", samples.us);
    }

    #[test]
    fn a_request_to_stop_is_heard() {
        let bench = Bench::default();
        bench.cancel.cancel();
        assert!(matches!(bench.cpu(|| Ok(())), Err(crate::Error::Cancelled)));
    }
}

//! Clock rate and power of a GPU under a constant load for a few seconds.

use super::Shown;
use crate::guide::made::product::Load;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use warpbook_device::{PowerReading, power_reading};
use warpbook_lab::activity::Timelines;
use warpbook_lab::{Error, Result};
use warpbook_record::{PowerAt, Profiled};

/// Interval between two readings of clock and power.
const INTERVAL: Duration = Duration::from_millis(50);
/// Idle time before each load, so that the previous load does not affect the power budget.
const PAUSE: Duration = Duration::from_millis(1500);
/// Duration of the measurement, in a full run and in a quick one.
const TIME: [Duration; 2] = [Duration::from_secs(3), Duration::from_millis(500)];

/// Records clock rate and power for each rung, which multiplies matrices of zeros or of Gaussian numbers.
pub(in crate::guide) fn record(shown: &Shown<'_>, rungs: &[(&'static str, bool)]) -> Result<Timelines> {
    let Some(uuid) = shown.device.uuid().filter(|uuid| power_reading(uuid).is_some()) else {
        let why = "Clocks and watts were not recorded: NVML, which knows them, is not installed or does not know this GPU. It comes with NVIDIA's driver.";
        return Ok(Timelines { notes: vec![why.into()], ..Timelines::default() });
    };
    let edge = u32::try_from(shown.work.n).map_err(|_| Error::Setting("The matrices are too large.".into()))?;
    shown.each(rungs, |rung, of_zeros| {
        let load = Load::new(shown.device, edge, of_zeros)?;
        std::thread::sleep(PAUSE);
        let power = watched(TIME[usize::from(shown.quick)], || load.run(), || power_reading(uuid))?;
        let source = format!("NVML, every {} ms", INTERVAL.as_millis());
        let profiled = Profiled { power, ..Profiled::new(rung, shown.problem.clone(), source) };
        Ok(Timelines { profiled: vec![profiled], ..Timelines::default() })
    })
}

/// Reads clock rate and power for `time` while a load runs repeatedly; each run returns its number of operations.
fn watched(
    time: Duration,
    mut run: impl FnMut() -> Result<u64>,
    read: impl Fn() -> Option<PowerReading> + Sync,
) -> Result<Vec<PowerAt>> {
    let (begun, is_over) = (Instant::now(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut readings = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let at_us = us(begun.elapsed());
                readings.extend(read().map(|reading| (at_us, reading)));
                std::thread::sleep(INTERVAL);
            }
            readings
        });
        let (mut done, mut flops) = (vec![(0.0, 0)], 0u64);
        let mut ran = Ok(());
        while ran.is_ok() && begun.elapsed() < time {
            ran = run().map(|more| {
                flops = flops.saturating_add(more);
                done.push((us(begun.elapsed()), flops));
            });
        }
        // The reading thread must also end if the load failed.
        is_over.store(true, Ordering::Relaxed);
        let readings = reader.join().unwrap_or_default();
        ran?;
        let end = done.last().map_or(0.0, |(at, _)| *at);
        let at = |(at_us, r): (f64, PowerReading)| PowerAt {
            at_us,
            sm_mhz: r.sm_mhz,
            watts: r.watts,
            limit_watts: r.limit_watts,
            capped: r.capped,
            flops: by_then(&done, at_us),
        };
        Ok(readings.into_iter().filter(|(at_us, _)| *at_us <= end).map(at).collect())
    })
}

fn us(time: Duration) -> f64 {
    time.as_micros() as f64
}

/// Returns the number of operations completed by a point in time; the operations of a run are spread evenly over its
/// duration.
fn by_then(done: &[(f64, u64)], at_us: f64) -> u64 {
    let next = done.partition_point(|(at, _)| *at <= at_us);
    let before = next.checked_sub(1).and_then(|i| done.get(i));
    match (before, done.get(next)) {
        (Some((from, flops)), Some((to, more))) => {
            flops + ((more - flops) as f64 * (at_us - from) / (to - from)).round() as u64
        }
        (Some((_, flops)), None) => *flops,
        (None, _) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn operations_are_spread_over_a_run() {
        let done = [(0.0, 0), (10.0, 100), (30.0, 400)];
        let at = |us| by_then(&done, us);
        assert_eq!([at(0.0), at(5.0), at(10.0), at(20.0), at(30.0), at(99.0)], [0, 50, 100, 250, 400, 400]);
        assert_eq!(by_then(&[], 5.0), 0);
    }

    #[test]
    fn readings_come_while_the_load_runs() {
        let ran = Cell::new(0u64);
        let load = || {
            ran.set(ran.get() + 1);
            std::thread::sleep(Duration::from_millis(5));
            Ok(1_000)
        };
        let reading = PowerReading { sm_mhz: Some(1980), watts: Some(321.5), limit_watts: Some(700.0), capped: true };
        let all = watched(Duration::from_millis(120), load, || Some(reading)).unwrap();
        assert!((2..=5).contains(&all.len()), "{all:?}");
        let first = &all[0];
        assert_eq!(
            (first.sm_mhz, first.watts, first.limit_watts, first.capped),
            (Some(1980), Some(321.5), Some(700.0), true)
        );
        assert!(all.windows(2).all(|w| w[0].at_us < w[1].at_us && w[0].flops < w[1].flops), "{all:?}");
        assert!(all.last().unwrap().flops <= 1_000 * ran.get());
        // Without NVML there are no readings, but an error of the load is still returned.
        assert_eq!(watched(Duration::from_millis(10), || Ok(1), || None).unwrap(), []);
        let failed = watched(Duration::from_secs(60), || Err(Error::Setting("gone".into())), || Some(reading));
        assert_eq!(failed.unwrap_err().to_string(), "gone");
    }
}

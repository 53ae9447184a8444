//! Times a frozen network on a single image and on large batches.

use crate::output::say;
use warpbook::device::Bench;
use warpbook::figures;
use warpbook::nn::infer::Frozen;
use warpbook::nn::train::{Place, TrainError};
use warpbook::record::stats;

/// Batch sizes for measuring throughput.
const BATCHES: [usize; 2] = [32, 256];
/// Seconds after which no further pass starts.
const BUDGET_S: f64 = 10.0;

/// Prints the time of a single image and the throughput of large batches, over this many passes.
pub fn measure(frozen: &Frozen, pixels: &[u8], passes: Option<u32>) -> Result<(), TrainError> {
    let Some(samples) = passes else { return Ok(()) };
    let bench = Bench { warmup: 1, samples, budget_s: BUDGET_S, batch_below_us: 0.0, ..Bench::default() };
    let time = |batch: usize| frozen.predictor(batch)?.time(&pixels.repeat(batch), &bench);
    let alone = time(1)?;
    // On the CPU, the device's clock and the host's clock are the same.
    let wall = match frozen.place() {
        Place::Cpu => String::new(),
        Place::Cuda(..) => format!(", {} with the launch and the wait", median(&alone.wall_us)),
    };
    say(&format!("an image alone: {}{wall} (median of {}), on {}", median(&alone.us), alone.us.len(), frozen.place()));
    for batch in BATCHES {
        let all = time(batch)?;
        let rate = 1e6 * batch as f64 / all.median_us();
        say(&format!("in batches of {batch}: {} images/s (median of {})", figures::count(rate.round()), all.us.len()));
    }
    Ok(())
}

fn median(us: &[f64]) -> String {
    figures::time(stats::median(us).unwrap_or(f64::NAN))
}

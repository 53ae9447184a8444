//! Lasting results of a training: its files, and the accuracy and latency of the frozen network.

use super::super::table;
use super::share;
use crate::figures;
use crate::prelude::nn::*;
use crate::prelude::*;
use std::path::Path;
use warpbook_charts::Table;
use warpbook_device::Samples;
use warpbook_nn::train::Score;

/// Says whether two lists of numbers have the same bits.
#[must_use]
pub fn same_bits(a: &[f32], b: &[f32]) -> String {
    if a.len() != b.len() {
        return format!("There are {} numbers and {}.", a.len(), b.len());
    }
    let pairs = || a.iter().zip(b);
    match pairs().filter(|(a, b)| a.to_bits() != b.to_bits()).count() {
        0 => format!("All {} numbers have the same bits.", a.len()),
        n => {
            let largest = pairs().map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max);
            format!("{n} of {} numbers differ, by at most {}.", a.len(), figures::number(largest))
        }
    }
}

/// Returns a table of scores, each with its name.
#[must_use]
pub fn scores(all: &[(&str, Score)]) -> Table {
    let row = |(name, score): &(&str, Score)| {
        vec![
            (*name).to_owned(),
            format!("{:.6}", score.loss),
            format!("{} of {}", score.correct, score.of),
            share(score.accuracy()),
        ]
    };
    table(&["network", "loss", "right", "accuracy"], all.iter().map(row).collect())
}

/// Returns a table of files with their size in bytes, in total and per weight of the network.
///
/// # Errors
/// If a file cannot be read.
pub fn files(all: &[(&str, &Path)], weights: usize) -> Result<Table> {
    let row = |(name, path): &(&str, &Path)| {
        let found = std::fs::metadata(path);
        let bytes = found.map_err(|e| Error::Setting(format!("{} cannot be read: {e}.", path.display())))?.len();
        let each = bytes as f64 / weights.max(1) as f64;
        Ok(vec![(*name).to_owned(), path.display().to_string(), figures::bytes(bytes), figures::number(each)])
    };
    let rows: Result<Vec<Vec<String>>> = all.iter().map(row).collect();
    Ok(table(&["file", "path", "size", "bytes for each weight"], rows?))
}

/// Measures the latency of frozen networks, each given with its name, for batches of a set's images. The latency is the time from pixels in host memory to
/// outputs in host memory.
///
/// # Errors
/// If the set has fewer images than a batch, its images do not fit the network, or the device reports an error.
pub fn latencies(frozen: &[(&str, &Frozen)], images: &Dataset, batches: &[usize], bench: &Bench) -> Result<Table> {
    let mut rows = Vec::new();
    for (name, network) in frozen {
        for batch in batches {
            if *batch == 0 || *batch > images.len() {
                let why = format!("A batch of {batch} cannot be taken from {} images.", images.len());
                return Err(Error::Setting(why));
            }
            let mut predictor = network.predictor(*batch)?;
            let times = predictor.time(&images.images()[..batch * images.pixels()], bench)?;
            rows.push(row_of(name, *batch, &times, predictor.bytes()));
        }
    }
    let headers = ["network", "batch", "on the device", "by the host's clock", "rate", "memory"];
    Ok(table(&headers, rows))
}

fn row_of(name: &str, batch: usize, times: &Samples, bytes: u64) -> Vec<String> {
    let host = Samples { us: times.wall_us.clone(), ..Samples::default() }.median_us();
    let on_device = times.median_us();
    // On the CPU only one clock is used, and the host's time is not finite.
    let host = if host.is_finite() { host } else { on_device };
    vec![
        name.to_owned(),
        batch.to_string(),
        figures::time(on_device),
        figures::time(host),
        figures::item_rate(batch as f64 / host * 1e6, "images"),
        figures::bytes(bytes),
    ]
}

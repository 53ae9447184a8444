//! Timing of several ways to bring batches to a GPU.

use super::super::{cell, recorded, table};
use super::augmented::of_step;
use super::epochs;
use crate::figures;
use crate::prelude::nn::*;
use crate::prelude::*;
use warpbook_charts::Table;
use warpbook_experiments::Trains;
use warpbook_nn::ops::augment;
use warpbook_nn::train::{Loader, Residency, TrainError};
use warpbook_record::stats;

/// A way to bring batches to a GPU and to read the losses back.
#[derive(Debug, Clone, PartialEq)]
pub struct Feeding {
    /// Name of this way of feeding the GPU, as shown in tables.
    pub name: String,
    /// Loader that brings the batches to the device.
    pub loader: Loader,
    /// Number of steps after which losses are read; `None` for as many as the device allows.
    pub read_every: Option<u64>,
}

impl Feeding {
    fn new(name: impl Into<String>, loader: Loader, read_every: Option<u64>) -> Self {
        Self { name: name.into(), loader, read_every }
    }
}

/// Returns the ways to compare, from a beginner's loop to data that never leave the device, with one change at a time. `workers` is the number of threads that
/// gather batches in the ways with several threads.
#[must_use]
pub fn feedings(workers: usize) -> Vec<Feeding> {
    let copied = |workers, pinned| Loader { resident: Residency::Off, workers, pinned };
    let several = format!("prefetched by {workers} workers");
    vec![
        Feeding::new("copied one by one, every loss read", copied(0, false), Some(1)),
        Feeding::new("copied one by one", copied(0, false), None),
        Feeding::new("prefetched, page-locked memory", copied(0, true), None),
        Feeding::new(several, copied(workers, true), None),
        Feeding::new("resident, every loss read", Loader { resident: Residency::On, ..Loader::default() }, Some(1)),
        Feeding::new("resident", Loader { resident: Residency::On, ..Loader::default() }, None),
    ]
}

/// Result of a training that got its batches in one of the ways.
#[derive(Debug, Clone, PartialEq)]
pub struct Fed {
    /// Name of this way of feeding the GPU, as shown in tables.
    pub name: String,
    /// Training images a second: the median over the epochs after the first.
    pub images_per_s: f64,
    /// Time of a step in microseconds, from the epochs after the first.
    pub step_us: f64,
    /// Losses of all steps.
    pub losses: Vec<f64>,
    /// Peak number of allocated bytes, if it was counted.
    pub peak_bytes: Option<u64>,
}

/// Returns the median time of an epoch in seconds. If there are several epochs, the first, which loads kernels and captures graphs, is left out.
pub(super) fn epoch_seconds(training: &TrainingRun) -> f64 {
    let seconds: Vec<f64> = epochs(training).iter().map(|e| e.seconds).collect();
    let later = if seconds.len() > 1 { &seconds[1..] } else { &seconds[..] };
    stats::median(later).unwrap_or(f64::NAN)
}

/// Trains with batches brought in this way, and times the epochs. The CPU reads the images in place, whatever the loader.
///
/// # Errors
/// If [`Session::run`](warpbook_experiments::Session::run) returns an error, or an error ended the training.
pub fn fed(lab: &Lab, recipe: &Recipe, splits: &Splits, precision: Precision, way: &Feeding) -> Result<Fed> {
    let mut session = lab.train(recipe.clone(), splits).precision(precision).loader(way.loader).log_every(1);
    if let Some(steps) = way.read_every {
        session = session.read_losses_every(steps);
    }
    let training = session.run()?;
    let seconds = epoch_seconds(&training);
    let record = recorded(training)?;
    let log = &record.train_logs[0];
    let steps = splits.train.len().div_ceil(recipe.batch);
    Ok(Fed {
        name: way.name.clone(),
        images_per_s: splits.train.len() as f64 / seconds,
        step_us: seconds / steps as f64 * 1e6,
        losses: log.losses.iter().map(|p| p.loss).collect(),
        peak_bytes: log.course.as_ref().and_then(|c| c.peak_allocated_bytes).filter(|_| lab.device().cuda().is_some()),
    })
}

/// Returns a table of all ways with their images per second, each compared with the first way.
#[must_use]
pub fn feeds(all: &[Fed]) -> Table {
    let row = |f: &Fed| {
        vec![
            f.name.clone(),
            cell(Some(f.step_us)),
            figures::item_rate(f.images_per_s, "images"),
            figures::times(f.images_per_s / all[0].images_per_s),
            f.peak_bytes.map(figures::bytes).unwrap_or_default(),
        ]
    };
    table(&["batches", "a step", "rate", "as fast as the first", "peak memory"], all.iter().map(row).collect())
}

/// Says whether all ways gave the same losses, bit by bit.
#[must_use]
pub fn same_losses(all: &[Fed]) -> String {
    let bits = |f: &Fed| f.losses.iter().map(|l| l.to_bits()).collect::<Vec<u64>>();
    let [first, others @ ..] = all else { return "Nothing was trained.".into() };
    let steps = figures::counted(first.losses.len(), "step");
    if others.is_empty() {
        return format!("There is one way only, so its losses in {steps} have none to be compared with.");
    }
    let other: Vec<String> = others.iter().filter(|f| bits(f) != bits(first)).map(|f| f.name.clone()).collect();
    match other.is_empty() {
        true => format!("All {} ways gave the same losses in {steps}, bit for bit.", all.len()),
        false => format!("The losses of these ways differ from those of the first: {}.", figures::listed(&other)),
    }
}

/// Measures how long the CPU takes, on all its threads, to gather the batches of a recipe: as bytes, and as augmented numbers for a network.
///
/// # Errors
/// If the images are not of the recipe's shape.
pub fn on_the_host(recipe: &Recipe, images: &Dataset) -> Result<Table> {
    recipe.validate(images.shape(), images.classes().len())?;
    let n = recipe.batch.min(images.len());
    let indices: Vec<u32> = (0..n as u32).map(|i| (i * 7919) % images.len() as u32).collect();
    let len = images.pixels();
    let mut bytes = vec![0u8; n * len];
    let copied = Bench::quick().cpu(|| {
        for (to, i) in bytes.chunks_exact_mut(len).zip(&indices) {
            to.copy_from_slice(images.image(*i as usize));
        }
        Ok(())
    })?;
    let a = of_step(recipe, images, 0);
    let mut numbers = vec![0f32; n * len];
    let mut failed = None;
    let augmented = Bench::quick().cpu(|| {
        failed = augment::cpu::gather(&a, images.images(), &indices, &mut numbers).err();
        Ok(())
    })?;
    if let Some(error) = failed {
        return Err(TrainError::from(error).into());
    }
    let row = |what: &str, us: f64, bytes: usize| {
        let rate = figures::item_rate(n as f64 / us * 1e6, "images");
        vec![what.to_owned(), figures::time(us), rate, figures::bytes(bytes as u64)]
    };
    Ok(table(
        &["the CPU prepares a batch", "time", "rate", "bytes to copy"],
        vec![
            row("gathered as u8, one thread", copied.median_us(), n * len),
            row("cropped, mirrored, as fp32, all threads", augmented.median_us(), 4 * n * len),
        ],
    ))
}

//! Effects of the batch size on the speed and the accuracy of a training.

use super::super::table;
use super::feeding::epoch_seconds;
use super::share;
use crate::figures;
use crate::prelude::nn::*;
use crate::prelude::*;
use warpbook_charts::{Chart, ChartError, Curve, Scale, Table, draw};
use warpbook_experiments::Sets;
use warpbook_experiments::Trains;

/// Result of one training in a sweep over batch sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct Swept {
    /// Number of images in a batch.
    pub batch: usize,
    /// True if the learning rate was scaled with the batch.
    pub scaled: bool,
    /// Learning rate.
    pub rate: f64,
    /// Number of steps in all epochs.
    pub steps: u64,
    /// Training images a second: the median over the epochs after the first.
    pub images_per_s: f64,
    /// Share of the test images classified correctly after the last epoch; `None` if an error ended the training earlier.
    pub accuracy: Option<f64>,
}

/// Trains a recipe with each batch size for the same number of epochs: once at the recipe's learning rate, and once at a rate proportional to the batch size,
/// which equals the recipe's rate at the recipe's batch size. Source of the proportional rule: Goyal et al., "Accurate, Large Minibatch SGD: Training ImageNet
/// in 1 Hour", 2017.
///
/// A training whose loss becomes infinite or NaN is a row without an accuracy.
///
/// # Errors
/// If [`Session::run`](warpbook_experiments::Session::run) returns an error.
pub fn sweep_batches<'a>(
    lab: &'a Lab,
    recipe: &Recipe,
    sets: impl Into<Sets<'a>>,
    precision: Precision,
    batches: &[usize],
) -> Result<Vec<Swept>> {
    let sets = sets.into();
    let mut all = Vec::new();
    for batch in batches {
        for scaled in [false, true] {
            let by = if scaled { *batch as f64 / recipe.batch as f64 } else { 1.0 };
            let rate = recipe.learning_rate * by;
            let recipe = Recipe { batch: *batch, learning_rate: rate, ..recipe.clone() };
            let training = lab.train(recipe, sets).precision(precision).run()?;
            let finished = training.error().is_none();
            let accuracy = training.last_epoch().and_then(|e| e.test).and_then(|right| right.accuracy());
            all.push(Swept {
                batch: *batch,
                scaled,
                rate,
                steps: training.log().course.as_ref().map_or(0, |c| c.made()),
                images_per_s: sets.train.len() as f64 / epoch_seconds(&training),
                accuracy: accuracy.filter(|_| finished),
            });
        }
    }
    Ok(all)
}

/// Returns the batch sizes of a sweep without duplicates.
fn sizes(all: &[Swept]) -> Vec<usize> {
    let mut sizes: Vec<usize> = all.iter().map(|s| s.batch).collect();
    sizes.dedup();
    sizes
}

fn find_training(all: &[Swept], batch: usize, scaled: bool) -> Option<&Swept> {
    all.iter().find(|s| (s.batch, s.scaled) == (batch, scaled))
}

/// Returns the images per second of the faster of the two trainings with this batch size, since the learning rate does not affect the speed.
fn rate_of(all: &[Swept], batch: usize) -> Option<f64> {
    let rates = all.iter().filter(|s| s.batch == batch).map(|s| s.images_per_s).filter(|r| r.is_finite());
    rates.max_by(f64::total_cmp)
}

/// Returns a table with a row for each batch size: steps, images per second, and the accuracy at both learning rates.
#[must_use]
pub fn batches(all: &[Swept]) -> Table {
    let row = |batch: usize| {
        let mut cells = vec![batch.to_string()];
        let longest = all.iter().filter(|s| s.batch == batch).map(|s| s.steps).max();
        cells.push(longest.map(|s| s.to_string()).unwrap_or_default());
        cells.push(rate_of(all, batch).map(|r| figures::item_rate(r, "images")).unwrap_or_default());
        for scaled in [false, true] {
            let trained = find_training(all, batch, scaled);
            cells.push(trained.map(|s| figures::short(s.rate)).unwrap_or_default());
            let right = trained.map(|s| s.accuracy.map_or_else(|| "diverged".to_owned(), share));
            cells.push(right.unwrap_or_default());
        }
        cells
    };
    let headers = ["batch", "steps", "rate", "learning rate", "right", "scaled learning rate", "right"];
    table(&headers, sizes(all).into_iter().map(row).collect())
}

/// Draws the accuracy over the batch size for both learning rates.
///
/// # Errors
/// If no training ended ([`ChartError::NothingToDraw`]).
pub fn accuracy_by_batch(all: &[Swept]) -> std::result::Result<Chart, ChartError> {
    let line = |name: &str, scaled: bool| {
        let trained = all.iter().filter(|s| s.scaled == scaled);
        Curve::new(name, trained.filter_map(|s| Some((s.batch as f64, 100.0 * s.accuracy?))))
    };
    let best = all.iter().filter_map(|s| Some((s.accuracy?, s.batch))).max_by(|a, b| a.0.total_cmp(&b.0));
    let title = best.map_or_else(String::new, |(most, at)| format!("A batch of {at} learns the most: {}", share(most)));
    draw().curves(
        [&title, "After the same number of epochs, on images that were held out"],
        ("batch", Scale::Doubling),
        ("accuracy in %", Scale::Linear),
        &[line("same learning rate", false), line("scaled with the batch", true)],
    )
}

/// Returns the title of a chart of (batch size, images a second): it compares the last batch size with the first.
pub(super) fn rate_title(points: &[(f64, f64)]) -> String {
    let [(small, slow), .., (large, fast)] = points else { return "Rate by batch".into() };
    format!("Training with batches of {large} is {} as fast as with batches of {small}", figures::times(fast / slow))
}

/// Draws the training images a second over the batch size.
///
/// # Errors
/// If nothing was measured ([`ChartError::NothingToDraw`]).
pub fn rate_by_batch(all: &[Swept]) -> std::result::Result<Chart, ChartError> {
    let rate = |batch: usize| Some((batch as f64, rate_of(all, batch)?));
    let points: Vec<(f64, f64)> = sizes(all).into_iter().filter_map(rate).collect();
    draw().curves(
        [&rate_title(&points), "Training images a second, evaluations not included"],
        ("batch", Scale::Doubling),
        ("images a second", Scale::Log),
        &[Curve::new("images a second", points)],
    )
}

/// Compares the largest batch with the smallest: how many more images it processes per second, and how much accuracy it loses.
#[must_use]
pub fn what_batches_cost(all: &[Swept]) -> String {
    let all_sizes = sizes(all);
    let (Some(small), Some(large)) = (all_sizes.first(), all_sizes.last()) else {
        return "Nothing was trained.".into();
    };
    let faster = rate_of(all, *small).zip(rate_of(all, *large)).map(|(a, b)| b / a);
    let best = all.iter().filter_map(|s| Some((s.accuracy?, s))).max_by(|a, b| a.0.total_cmp(&b.0));
    let (Some(faster), Some((most, at))) = (faster, best) else { return "No training reached its end.".into() };
    let cost = |scaled: bool| match find_training(all, *large, scaled).map(|s| s.accuracy) {
        Some(Some(accuracy)) => format!("{:.1} points below that", 100.0 * (most - accuracy)),
        Some(None) => "diverged".into(),
        None => "not trained".into(),
    };
    format!(
        "Batches of {large} pass through {} as fast as batches of {small}. The most was learnt at a batch of {} and a learning rate of {}: {}. \
         A batch of {large} is {} with the same learning rate, and {} with the scaled one.",
        figures::times(faster),
        at.batch,
        figures::short(at.rate),
        share(most),
        cost(false),
        cost(true)
    )
}

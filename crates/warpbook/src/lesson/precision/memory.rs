//! Memory of a training: its parts, and the batch that fits into a given amount.

use super::feed::T4_SOURCE;
use super::{Loop, cell, difference, rung_of, table, valid};
use crate::figures;
use crate::prelude::nn::*;
use crate::prelude::*;
use warpbook_charts::Table;
use warpbook_nn::train::{CudaOptions, PlannedMemory, Summary};

/// Peak bytes of the AMP recipe of [`T4_SOURCE`], in fp32 and with AMP.
const T4_RECIPE: [u64; 2] = [1_350_681_600, 1_577_232_384];

fn planned(recipe: &Recipe, precision: Precision, batch: usize) -> Summary {
    Summary::new(&recipe.network, batch, &recipe.optimizer, &CudaOptions::new(precision))
}

/// Returns a table of the parts of a recipe's planned memory in fp32 and in fp16, and of the difference.
#[must_use]
pub fn parts(recipe: &Recipe) -> Table {
    let [full, half] = [Precision::Fp32, Precision::AmpFp16].map(|p| planned(recipe, p, recipe.batch).memory);
    let row = |what: &str, of: fn(&PlannedMemory) -> u64| {
        let (full, half) = (of(&full), of(&half));
        let change = if full == half { String::new() } else { difference(full, half) };
        vec![what.to_owned(), figures::memory(full as f64), figures::memory(half as f64), change]
    };
    let rows = vec![
        row("weights in fp32", |m| m.weights),
        row("their copy in half", |m| m.half_copy),
        row("their gradients", |m| m.gradients),
        row("the optimiser's state", |m| m.state),
        row("activations and their gradients", |m| m.activations),
        row("all", PlannedMemory::total),
    ];
    table(&[&format!("{}, batch {}", recipe.name, recipe.batch), "fp32", "AMP, fp16", "difference"], rows)
}

/// Returns the smallest batch size at which AMP takes less memory than fp32, if the gradients of weights are kept in fp32, as in PyTorch.
///
/// AMP then adds a copy of the weights in half precision, whatever the batch size, and saves half of the activations of each sample.
#[must_use]
pub fn pays_from(recipe: &Recipe) -> Option<usize> {
    let saves = |batch: usize| {
        let [full, half] = [Precision::Fp32, Precision::AmpFp16].map(|p| planned(recipe, p, batch).memory);
        full.activations > half.activations + half.half_copy
    };
    let mut enough = (0..=24).map(|e| 1usize << e).find(|batch| saves(*batch))?;
    let mut too_few = enough / 2;
    while enough - too_few > 1 {
        let middle = usize::midpoint(too_few, enough);
        if saves(middle) { enough = middle } else { too_few = middle }
    }
    Some(enough)
}

/// Explains in a sentence why AMP takes more or less memory than fp32: the copy of the weights against the savings in activations.
#[must_use]
pub fn as_planned(recipe: &Recipe) -> String {
    let [full, half] = [Precision::Fp32, Precision::AmpFp16].map(|p| planned(recipe, p, recipe.batch).memory);
    let pays = match pays_from(recipe) {
        Some(batch) => format!("the copy pays off from a batch of {} on", figures::plain(batch as f64)),
        None => "the copy never pays off".into(),
    };
    format!(
        "{}: a copy of the weights in half takes {}, and at a batch of {} activations in half save {}. With gradients of weights in fp32, as \
         PyTorch keeps them, {pays}.",
        recipe.name,
        figures::memory(half.half_copy as f64),
        recipe.batch,
        figures::memory(full.activations.saturating_sub(half.activations) as f64),
    )
}

/// Returns a table of the peak memory in fp32 and in fp16 of every training that these records have in both, the project's and PyTorch's, and of the
/// AMP recipe on a T4. If several records have the same training, the first is shown.
#[must_use]
pub fn peaks(runs: &[&Run]) -> Table {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for run in runs {
        let ours = [Precision::Fp32, Precision::AmpFp16].map(|p| rung_of(run, p).unwrap_or_default());
        for problem in run.problems() {
            for (who, [full, half], data) in [
                ("Warpbook", ours, "with the data"),
                ("PyTorch", ["torch_fp32_gathered", "torch_amp_fp16_gathered"], "without the data"),
            ] {
                let bytes = |id: &str| valid(run, id, problem)?.peak_bytes;
                let Some((full, half)) = bytes(full).zip(bytes(half)) else { continue };
                let new = row(&problem.short, &format!("{who} on {}, {data}", run.environment.device.name), full, half);
                if rows.iter().all(|r| r[..2] != new[..2]) {
                    rows.push(new);
                }
            }
        }
    }
    rows.sort();
    let [full, half] = T4_RECIPE;
    rows.push(row("amp-recipe 512", &format!("{T4_SOURCE}, with the data"), full, half));
    table(&HEADERS, rows)
}

const HEADERS: [&str; 5] = ["training", "measured", "fp32", "AMP, fp16", "difference"];

fn row(what: &str, who: &str, full: u64, half: u64) -> Vec<String> {
    vec![
        what.to_owned(),
        who.to_owned(),
        figures::memory(full as f64),
        figures::memory(half as f64),
        difference(full, half),
    ]
}

/// Returns the largest batch whose training is planned to take at most this many bytes; `None` if not even one sample fits.
#[must_use]
pub fn largest_batch(recipe: &Recipe, precision: Precision, bytes: u64) -> Option<usize> {
    let fits = |batch: usize| planned(recipe, precision, batch).memory.total() <= bytes;
    let mut fitting = fits(1).then_some(1)?;
    let mut too_large = 2;
    while too_large < 1 << 30 && fits(too_large) {
        (fitting, too_large) = (too_large, 2 * too_large);
    }
    while too_large - fitting > 1 {
        let middle = usize::midpoint(fitting, too_large);
        if fits(middle) { fitting = middle } else { too_large = middle }
    }
    Some(fitting)
}

/// Returns a table of the largest batch size whose planned memory fits each budget in bytes, for each recipe and precision.
#[must_use]
pub fn largest_batches(recipes: &[Recipe], budgets: &[u64]) -> Table {
    let mut rows = Vec::new();
    for recipe in recipes {
        for bytes in budgets {
            let largest = |p| largest_batch(recipe, p, *bytes);
            let full = largest(Precision::Fp32);
            let mut row = vec![recipe.name.clone(), figures::bytes(*bytes)];
            let words = |n: Option<usize>| n.map_or_else(|| "none fits".into(), |n| figures::plain(n as f64));
            row.extend(
                [full, largest(Precision::Tf32), largest(Precision::AmpFp16), largest(Precision::AmpBf16)].map(words),
            );
            let more =
                full.zip(largest(Precision::AmpFp16)).map(|(full, half)| figures::times(half as f64 / full as f64));
            row.push(more.unwrap_or_default());
            rows.push(row);
        }
    }
    table(&["recipe", "memory", "fp32", "tf32", "AMP, fp16", "AMP, bf16", "fp16 over fp32"], rows)
}

/// Returns a table of the peak memory that trainings of this recipe took, next to the memory planned for their batch. A plan leaves out the images,
/// the batches in transit from a loader, and the workspaces of products.
#[must_use]
pub fn planned_and_measured(recipe: &Recipe, trained: &[Loop]) -> Table {
    let row = |l: &Loop| {
        let (planned, peak) = (planned(recipe, l.precision, l.batch).memory.total(), l.peak_bytes?);
        Some(vec![
            l.batch.to_string(),
            l.precision.to_string(),
            figures::memory(planned as f64),
            figures::memory(peak as f64),
            difference(planned, peak),
            cell(Some(l.step_us())),
            cell(Some(l.step_us() / l.batch as f64)),
            l.accuracy.map(|a| format!("{:.2} %", 100.0 * a)).unwrap_or_default(),
        ])
    };
    let headers =
        ["batch", "precision", "planned", "measured peak", "difference", "a step", "a sample", "test accuracy"];
    table(&headers, trained.iter().filter_map(row).collect())
}

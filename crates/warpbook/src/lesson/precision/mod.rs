//! Helpers of the lesson on mixed precision: gradients in fp16, the time and memory of AMP, and trainings that wait for their loader.

mod feed;
mod gains;
mod memory;

pub use super::training::{digits, side_by_side};
pub use super::{at, only, table, without};
pub use feed::{
    Feed, Loop, PyTorchLoops, Slowed, T4_WORKERS, brought, loops, next_to_pytorch, recorded_loops,
    recorded_pytorch_loops, room_for_a_loader, slow_loader, slowed, t4, t4_image, timed_loop,
};
pub use gains::amp_gains;
pub use half::{bf16, f16};
pub use memory::{as_planned, largest_batch, largest_batches, parts, pays_from, peaks, planned_and_measured};

use super::{cell, title, valid};
use crate::figures;
use crate::prelude::nn::*;
use crate::prelude::*;
use warpbook_charts::{Chart, ChartError, ExponentRow, FormatRange, Table, draw};
use warpbook_nn::network::Network;
use warpbook_nn::ops::augment::{self, Augment};
use warpbook_nn::train::{CpuEngine, CudaOptions, Mode, Target, Way};

/// Range of fp16 by the exponents of 2: half of the smallest subnormal number, 2^-24, is rounded to 0.
const FP16: FormatRange<'_> = FormatRange { name: "fp16", least: -25, normal: -14, largest: 15 };
/// Rungs of each precision: in the lesson and in the published ladder. The rungs differ from each other as little as possible.
const RUNGS: [(Precision, [&str; 2]); 4] = [
    (Precision::Fp32, ["fp32", "03_implicit_gemm"]),
    (Precision::Tf32, ["tf32", "05_nhwc"]),
    (Precision::AmpFp16, ["amp_fp16", "06_amp_fp16"]),
    (Precision::AmpBf16, ["amp_bf16", "06_amp_bf16"]),
];

/// Gradients of one step, unscaled, in fp32.
#[derive(Debug, Clone, PartialEq)]
pub struct Gradients {
    /// Mean loss of the batch.
    pub loss: f64,
    /// Number of images in the batch.
    pub batch: usize,
    /// Gradients of the operations' outputs that the backward pass hands from one operation to the next, by the operation's name.
    pub outputs: Vec<(String, Vec<f32>)>,
    /// Gradients of the parameters, by name.
    pub weights: Vec<(String, Vec<f32>)>,
}

/// Computes the gradients of a recipe's first step on the first images of a set, from its initial weights, on the CPU.
///
/// # Errors
/// If the images do not fit the network, or there is too little memory.
pub fn first_step(recipe: &Recipe, images: &Dataset) -> Result<Gradients> {
    recipe.validate(images.shape(), images.classes().len())?;
    step_from(recipe, images, &recipe.initial_weights(images)?)
}

/// Computes the gradients of a step from these weights, on the first images of a set and on the CPU.
///
/// # Errors
/// If the images do not fit the network, there is too little memory, or the weights belong to another network.
pub fn step_from(recipe: &Recipe, images: &Dataset, weights: &Weights) -> Result<Gradients> {
    recipe.validate(images.shape(), images.classes().len())?;
    let n = recipe.batch.min(images.len());
    let mut engine = CpuEngine::new(&recipe.network, n, weights, &recipe.optimizer)?;
    let as_they_are =
        Augment { seed: recipe.seed, ..Augment::normalise(images.shape(), &recipe.mean, &recipe.deviation) };
    let indices: Vec<u32> = (0..n as u32).collect();
    let gathered = augment::cpu::gather(&as_they_are, images.images(), &indices, engine.input(n));
    gathered.map_err(warpbook_nn::train::TrainError::from)?;
    engine.forward(n, Mode::Training { seed: recipe.seed, step: 0 })?;
    let loss = engine.backward(recipe.loss, Target::Labels(&images.labels()[..n]), n, 1.0)?;
    let gradients = engine.gradients()?;
    let named = gradients.specs().iter().zip(gradients.values());
    let weights = named.filter(|(spec, _)| spec.role.is_trained()).map(|(spec, g)| (spec.name.clone(), g.clone()));
    let gradient = |name: String| engine.output_gradient(&name, n).map(|g| (name, g.to_vec()));
    let outputs = products(&recipe.network).into_iter().filter_map(gradient).collect();
    Ok(Gradients { loss: loss.mean, batch: n, outputs, weights: weights.collect() })
}

/// Returns the names of convolutions and linear layers. A GPU keeps the gradients of their outputs in half precision.
fn products(network: &Network) -> Vec<String> {
    let names = network.summary(1).rows.into_iter().filter(|r| r.flops > 0);
    names.map(|r| r.name).collect()
}

/// Result of storing a number in fp16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Zero,
    Vanishes,
    LosesDigits,
    Kept,
    Overflows,
}

fn fate(value: f32) -> Fate {
    let half = f16::from_f32(value);
    match () {
        () if value == 0.0 => Fate::Zero,
        () if !half.is_finite() => Fate::Overflows,
        () if half.to_f32() == 0.0 => Fate::Vanishes,
        () if half.is_normal() => Fate::Kept,
        () => Fate::LosesDigits,
    }
}

impl Gradients {
    /// Returns all gradients of outputs, one after the other.
    fn all_outputs(&self) -> impl Iterator<Item = f32> + '_ {
        self.outputs.iter().flat_map(|(_, g)| g.iter().copied())
    }

    /// Returns the gradients that the network hands back from layer to layer, rounded to fp16 with the loss multiplied by `scale`. They are still multiplied by
    /// the scale, as [`GradScaler::unscale`](warpbook_nn::train::GradScaler::unscale) expects.
    #[must_use]
    pub fn in_fp16(&self, scale: f32) -> Vec<f32> {
        self.all_outputs().map(|g| f16::from_f32(g * scale).to_f32()).collect()
    }

    /// Returns the largest power of two that the loss may be multiplied by without an overflow in fp16.
    #[must_use]
    pub fn largest_scale(&self) -> f32 {
        let largest = self.all_outputs().map(f32::abs).fold(0.0, f32::max);
        let fits = |scale: &f32| fate(largest * scale) != Fate::Overflows;
        (0..=126).map(|e| 2f32.powi(e)).take_while(fits).last().unwrap_or(1.0)
    }
}

/// Writes a scale as a power of two, such as "2^16", if it is one.
#[must_use]
pub fn power(scale: f32) -> String {
    figures::power_of_two(f64::from(scale))
}

/// Returns the share of a step's non-zero gradients that have this fate in fp16 if the loss is multiplied by `scale`.
fn share(step: &Gradients, scale: f32, wanted: Fate) -> String {
    let fates: Vec<Fate> = step.all_outputs().filter(|g| *g != 0.0).map(|g| fate(g * scale)).collect();
    figures::percent(fates.iter().filter(|f| **f == wanted).count() as f64 / fates.len().max(1) as f64)
}

fn histograms(title: &str, rows: &[(String, &Gradients, f32)]) -> std::result::Result<Chart, ChartError> {
    let mut subtitle = String::new();
    if let Some((_, step, _)) = rows.first() {
        let names: Vec<String> = step.outputs.iter().map(|(name, _)| name.clone()).collect();
        subtitle = format!(
            "Gradients of the outputs of {} for {} images, those that are 0 left out",
            figures::listed(&names),
            step.batch
        );
    }
    let row = |(name, step, scale): &(String, &Gradients, f32)| {
        ExponentRow::from_values(name.clone(), step.all_outputs().map(|g| g * scale))
    };
    draw().exponents(title, &subtitle, &FP16, &rows.iter().map(row).collect::<Vec<_>>())
}

/// Draws the exponents of a step's gradients, unscaled and with the loss multiplied by `scale`, over the range of fp16.
///
/// # Errors
/// If all gradients are 0 ([`ChartError::NothingToDraw`]).
pub fn exponents(step: &Gradients, scale: f32) -> std::result::Result<Chart, ChartError> {
    let times = format!("times {}", power(scale));
    let title = format!(
        "fp16 has all digits of {} of the gradients as they are, and of {} {times}",
        share(step, 1.0, Fate::Kept),
        share(step, scale, Fate::Kept)
    );
    histograms(&title, &[("as they are".into(), step, 1.0), (times, step, scale)])
}

/// Draws the exponents of two steps' unscaled gradients, each with a name such as "the first step".
///
/// # Errors
/// If all gradients are 0 ([`ChartError::NothingToDraw`]).
pub fn earlier_and_later(
    (first, earlier): (&str, &Gradients),
    (then, later): (&str, &Gradients),
) -> std::result::Result<Chart, ChartError> {
    let title = format!(
        "Of the gradients that are not 0, fp16 turns {} into 0 in {first}, and {} {then}",
        share(earlier, 1.0, Fate::Vanishes),
        share(later, 1.0, Fate::Vanishes)
    );
    let label = |name: &str, step: &Gradients| {
        format!("{}: a loss of {}", figures::sentence_case(name), figures::number(step.loss))
    };
    histograms(&title, &[(label(first, earlier), earlier, 1.0), (label(then, later), later, 1.0)])
}

/// Returns a table of how fp16 represents each gradient of a step, unscaled and with the loss multiplied by `scale`.
#[must_use]
pub fn fates(step: &Gradients, scale: f32) -> Table {
    let mut rows = Vec::new();
    let outputs = step.outputs.iter().map(|(name, g)| (format!("output of {name}"), g));
    for (name, gradient) in outputs.chain(step.weights.iter().map(|(name, g)| (name.clone(), g))) {
        let mut row = vec![name, gradient.len().to_string()];
        let share = |n: usize, of: usize| if n == 0 { String::new() } else { figures::percent(n as f64 / of as f64) };
        let count = |scale: f32, wanted: Fate| gradient.iter().filter(|g| fate(**g * scale) == wanted).count();
        let zeros = count(1.0, Fate::Zero);
        let others = gradient.len() - zeros;
        row.push(share(zeros, gradient.len()));
        for scale in [1.0, scale] {
            row.extend([Fate::Vanishes, Fate::LosesDigits, Fate::Overflows].map(|f| share(count(scale, f), others)));
        }
        rows.push(row);
    }
    let times = format!("times {}: ", power(scale));
    let scaled = ["vanish", "fewer digits", "overflow"].map(|what| format!("{times}{what}"));
    let headers = ["gradient of", "numbers", "are 0", "vanish", "fewer digits", "overflow"];
    let headers: Vec<&str> = headers.into_iter().chain(scaled.iter().map(String::as_str)).collect();
    table(&headers, rows)
}

/// Returns a table of how fp16 represents a step's gradients at several scales of the loss: the shares that vanish and overflow, and the relative error of all
/// gradients together, which is the norm of the difference from fp32 over the norm in fp32.
#[must_use]
pub fn by_scale(step: &Gradients, scales: &[f32]) -> Table {
    let all: Vec<f32> = step.all_outputs().filter(|g| *g != 0.0).collect();
    let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|v| f64::from(v).powi(2)).sum::<f64>().sqrt();
    let own = norm(&mut all.iter().copied());
    let row = |scale: &f32| {
        let count = |wanted: Fate| all.iter().filter(|g| fate(**g * scale) == wanted).count() as f64 / all.len() as f64;
        let infinite = count(Fate::Overflows);
        let error = norm(&mut all.iter().map(|g| f16::from_f32(g * scale).to_f32() / scale - g)) / own;
        vec![
            power(*scale),
            figures::percent(count(Fate::Vanishes)),
            figures::percent(count(Fate::LosesDigits)),
            if infinite > 0.0 { figures::percent(infinite) } else { "none".into() },
            if infinite > 0.0 { "the step is skipped".into() } else { figures::number(error) },
        ]
    };
    table(&["loss times", "vanish", "fewer digits", "overflow", "relative error"], scales.iter().map(row).collect())
}

/// Returns a table of a scaler's attempts at a step, with the same gradients each time: the scale, and whether the step is made. The table is computed on the
/// CPU.
#[must_use]
pub fn attempts(step: &Gradients, scaler: &warpbook_nn::train::GradScaler, count: usize) -> Table {
    let (mut state, mut made, mut rows) = (scaler.start(), 0u64, Vec::new());
    for attempt in 1..=count {
        let mut gradients = step.in_fp16(state.scale);
        let infinite = gradients.iter().filter(|g| !g.is_finite()).count();
        let overflow = scaler.unscale(&state, &mut gradients);
        scaler.step(overflow, || made += 1);
        let next = scaler.update(state, overflow);
        let change = match next.scale {
            s if s < state.scale => "smaller",
            s if s > state.scale => "larger",
            _ => "",
        };
        rows.push(vec![
            attempt.to_string(),
            power(state.scale),
            infinite.to_string(),
            if overflow { "skipped".into() } else { format!("made ({made} so far)") },
            change.into(),
        ]);
        state = next;
    }
    table(&["attempt", "loss times", "infinite gradients", "step", "the scale becomes"], rows)
}

/// Returns a table that shows for each format whether adding each of these updates to a weight of 1 changes the weight.
#[must_use]
pub fn updates(of: &[f32]) -> Table {
    let row = |update: &f32| {
        let kept = |sum: f32| {
            if sum == 1.0 { "lost".to_owned() } else { format!("1 + {}", figures::number(f64::from(sum - 1.0))) }
        };
        let in_fp16 = f16::from_f32(1.0 + update).to_f32();
        let in_bf16 = bf16::from_f32(1.0 + update).to_f32();
        vec![figures::short(f64::from(*update)), kept(1.0 + update), kept(in_fp16), kept(in_bf16)]
    };
    table(&["1 + an update of", "in fp32", "in fp16", "in bf16"], of.iter().map(row).collect())
}

/// Says how the loss scale changed during a recorded training.
#[must_use]
pub fn scaled(run: &Run) -> String {
    let nothing = || "The record has no training.".to_owned();
    run.train_logs.first().map_or_else(nothing, super::training::scaling_of)
}

fn title_of(precision: Precision) -> &'static str {
    match precision {
        Precision::Fp32 => "fp32",
        Precision::Tf32 => "tf32",
        Precision::AmpFp16 => "AMP, fp16",
        Precision::AmpBf16 => "AMP, bf16",
    }
}

/// Returns one way of training for each precision, each the fastest that the engine has. The ways differ only in precision and in the second stream, which fp32
/// does not use.
#[must_use]
pub fn by_precision() -> Vec<Way> {
    let way = |(precision, [id, _]): (Precision, [&'static str; 2])| Way {
        id,
        title: title_of(precision),
        idea: "The fastest way of training in this precision: one graph, fused epilogues.",
        base: None,
        requires: precision.requires(),
        options: CudaOptions::new(precision),
    };
    RUNGS.map(way).to_vec()
}

/// Selects the rungs of an experiment with each precision, or the CPU's rung if there is no GPU.
#[must_use]
pub fn in_every_precision(training: Training, on_gpu: bool) -> Training {
    if !on_gpu {
        return training.rungs(["cpu_all_threads"]);
    }
    by_precision().into_iter().fold(training, Training::way).rungs(RUNGS.map(|(_, [id, _])| id))
}

/// Returns the rung of a precision in a record.
fn rung_of(run: &Run, precision: Precision) -> Option<&'static str> {
    let (_, ids) = RUNGS.into_iter().find(|(p, _)| *p == precision)?;
    ids.into_iter().find(|id| run.rung(id).is_some())
}

/// Returns one rung of the ladder for each precision, measured on this network and titled by its precision. The rungs use neither a graph nor fused epilogues,
/// and differ in little except the precision.
#[must_use]
pub fn of_ladder(run: &Run, network: Workload) -> Option<Run> {
    let problem = run.problems().into_iter().find(|p| p.text("network") == Some(network.name()))?;
    let ids: Vec<&str> = Precision::ALL.into_iter().filter_map(|p| rung_of(run, p)).collect();
    let mut part = only(&Run { main_problem: Some(problem.id.clone()), ..at(run, problem) }, &ids);
    for (precision, ids) in RUNGS {
        for rung in part.rungs.iter_mut().filter(|r| ids.contains(&&*r.id)) {
            rung.title = format!("{} ({})", title_of(precision), rung.id).into();
        }
    }
    Some(part)
}

/// Returns a table of time and peak memory of `steps` steps in every precision and at every batch of a record, compared with fp32.
#[must_use]
pub fn time_and_memory(run: &Run, steps: u64) -> Table {
    let mut rows = Vec::new();
    for problem in run.problems() {
        let mut ids: Vec<&str> = Precision::ALL.into_iter().filter_map(|p| rung_of(run, p)).collect();
        if ids.iter().all(|id| valid(run, id, problem).is_none()) {
            ids.push("cpu_all_threads");
        }
        let first = rung_of(run, Precision::Fp32).and_then(|id| valid(run, id, problem));
        for id in ids {
            let Some((m, us)) = valid(run, id, problem).and_then(|m| Some((m, m.median_us()?))) else { continue };
            let over = first.and_then(|f| f.median_us()).map(|was| figures::times(was / us));
            let more = first.and_then(|f| f.peak_bytes).zip(m.peak_bytes).map(|(was, now)| difference(was, now));
            rows.push(vec![
                figures::plain(problem.count("batch").unwrap_or(0) as f64),
                title(run, id).to_owned(),
                cell(Some(us)),
                cell(Some(us * steps as f64)),
                over.unwrap_or_default(),
                m.peak_bytes.map(|bytes| figures::memory(bytes as f64)).unwrap_or_default(),
                more.unwrap_or_default(),
            ]);
        }
    }
    let all = format!("{steps} steps");
    table(&["batch", "precision", "a step", &all, "as fast as fp32", "peak memory", "more than fp32"], rows)
}

/// Returns a difference such as "+96 MiB".
fn difference(was: u64, now: u64) -> String {
    let sign = if now < was { "−" } else { "+" };
    format!("{sign}{}", figures::memory(was.abs_diff(now) as f64))
}

#[cfg(test)]
mod tests;

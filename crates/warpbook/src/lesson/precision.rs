//! The same of mixed precision: what becomes of gradients in half, what AMP brings in time and memory, and what it does not.

mod feed;
mod memory;

pub use super::training::{digits, side_by_side};
pub use super::{at, only, table, without};
pub use feed::{
    Feed, Loop, Slowed, T4_WORKERS, brought, loops, room_for_a_loader, slow_loader, slowed, t4, t4_image, timed_loop,
};
pub use half::{bf16, f16};
pub use memory::{as_planned, largest_batch, largest_batches, parts, pays_from, peaks};

use super::{cell, title, valid};
use crate::charts::{Chart, ChartError, ExponentRow, FormatRange, Table, exponents as histogram};
use crate::figures;
use crate::nn::network::Network;
use crate::nn::ops::augment::{self, Augment};
use crate::nn::train::{CpuEngine, CudaOptions, Mode, Target, Way};
use crate::prelude::*;

/// fp16 by the exponents of 2: half of the smallest subnormal number, 2^-24, is rounded to 0.
const FP16: FormatRange<'_> = FormatRange { name: "fp16", least: -25, normal: -14, largest: 15 };
/// A precision's rung of the lesson, and that of the published ladder which differs from the others in as little as possible.
const RUNGS: [(Precision, [&str; 2]); 4] = [
    (Precision::Fp32, ["fp32", "03_implicit_gemm"]),
    (Precision::Tf32, ["tf32", "05_nhwc"]),
    (Precision::AmpFp16, ["amp_fp16", "06_amp_fp16"]),
    (Precision::AmpBf16, ["amp_bf16", "06_amp_bf16"]),
];

/// Gradients of one step, unscaled, in fp32.
#[derive(Debug, Clone, PartialEq)]
pub struct FirstStep {
    /// The mean loss of the batch.
    pub loss: f64,
    /// Images of the batch.
    pub batch: usize,
    /// The gradient of each operation's output that a backward pass hands on, by the operation's name.
    pub outputs: Vec<(String, Vec<f32>)>,
    /// The gradient of each parameter, by its name.
    pub weights: Vec<(String, Vec<f32>)>,
}

/// The gradients of a recipe's first step on the first images of a set, from its initial weights, on the CPU.
///
/// # Errors
/// The images do not fit the network, or memory.
pub fn first_step(recipe: &Recipe, images: &Dataset) -> Result<FirstStep> {
    recipe.validate(images.shape(), images.classes().len())?;
    let n = recipe.batch.min(images.len());
    let weights = recipe.initial_weights(images)?;
    let mut engine = CpuEngine::new(&recipe.network, n, &weights, &recipe.optimizer)?;
    let [channels, height, width] = images.shape();
    let as_they_are = Augment {
        channels,
        height,
        width,
        mean: &recipe.mean,
        deviation: &recipe.deviation,
        padding: 0,
        flip: false,
        reflect: false,
        epoch: None,
        view: None,
        seed: recipe.seed,
        step: 0,
    };
    let indices: Vec<u32> = (0..n as u32).collect();
    let gathered = augment::cpu::gather(&as_they_are, images.images(), &indices, engine.input(n));
    gathered.map_err(crate::nn::train::TrainError::from)?;
    engine.forward(n, Mode::Training { seed: recipe.seed, step: 0 })?;
    let loss = engine.backward(recipe.loss, Target::Labels(&images.labels()[..n]), n, 1.0)?;
    let gradients = engine.gradients()?;
    let named = gradients.specs().iter().zip(gradients.values());
    let weights = named.filter(|(spec, _)| spec.role.is_trained()).map(|(spec, g)| (spec.name.clone(), g.clone()));
    let of = |name: String| engine.output_gradient(&name, n).map(|g| (name, g.to_vec()));
    let outputs = products(&recipe.network).into_iter().filter_map(of).collect();
    Ok(FirstStep { loss: loss.mean, batch: n, outputs, weights: weights.collect() })
}

/// Convolutions and linear layers by their names: the gradient of what they write is what a GPU keeps in half.
fn products(network: &Network) -> Vec<String> {
    let names = network.summary(1).rows.into_iter().filter(|r| r.flops > 0);
    names.map(|r| r.name).collect()
}

/// What becomes of a number in fp16.
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

impl FirstStep {
    /// All gradients of outputs, one after the other.
    fn all_outputs(&self) -> impl Iterator<Item = f32> + '_ {
        self.outputs.iter().flat_map(|(_, g)| g.iter().copied())
    }

    /// The gradients that the network hands back from layer to layer, as fp16 would hold them after the loss was multiplied by `scale`: still
    /// times the scale, as [`GradScaler::unscale`](crate::nn::train::GradScaler::unscale) wants them.
    #[must_use]
    pub fn in_fp16(&self, scale: f32) -> Vec<f32> {
        self.all_outputs().map(|g| f16::from_f32(g * scale).to_f32()).collect()
    }

    /// The largest power of two that the loss may be multiplied by without an overflow in fp16.
    #[must_use]
    pub fn largest_scale(&self) -> f32 {
        let largest = self.all_outputs().map(f32::abs).fold(0.0, f32::max);
        let fits = |scale: &f32| fate(largest * scale) != Fate::Overflows;
        (0..=126).map(|e| 2f32.powi(e)).take_while(fits).last().unwrap_or(1.0)
    }
}

/// Scales are powers of two, mostly.
fn scale_word(scale: f32) -> String {
    let exponent = scale.log2();
    if exponent.fract() == 0.0 { format!("2^{exponent}") } else { figures::plain(f64::from(scale)) }
}

/// The exponents of a step's gradients, as they are and with the loss multiplied by `scale`, over the range of fp16.
///
/// # Errors
/// [`ChartError::NothingToDraw`] where all gradients are 0.
pub fn exponents(step: &FirstStep, scale: f32) -> std::result::Result<Chart, ChartError> {
    let row = |name: String, scale: f32| ExponentRow::of(name, step.all_outputs().map(|g| g * scale));
    let lost = |scale: f32| {
        let fates: Vec<Fate> = step.all_outputs().map(|g| fate(g * scale)).filter(|f| *f != Fate::Zero).collect();
        let lost = fates.iter().filter(|f| matches!(f, Fate::Vanishes | Fate::Overflows)).count();
        figures::percent(lost as f64 / fates.len().max(1) as f64)
    };
    let times = scale_word(scale);
    let title =
        format!("fp16 would lose {} of the gradients as they are, {} of them times {times}", lost(1.0), lost(scale));
    let subtitle = format!(
        "Gradients of the outputs of {}; the first step on {} images, those that are 0 left out",
        listed(step.outputs.iter().map(|(name, _)| name.as_str())),
        step.batch
    );
    histogram(&title, &subtitle, &FP16, &[row("as they are".into(), 1.0), row(format!("times {times}"), scale)])
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    super::listed(names.map(str::to_owned).collect())
}

/// What becomes of each gradient of a step in fp16, as it is and with the loss multiplied by `scale`.
#[must_use]
pub fn fates(step: &FirstStep, scale: f32) -> Table {
    let mut rows = Vec::new();
    let outputs = step.outputs.iter().map(|(name, g)| (format!("output of {name}"), g));
    for (name, gradient) in outputs.chain(step.weights.iter().map(|(name, g)| (name.clone(), g))) {
        let mut row = vec![name, figures::plain(gradient.len() as f64)];
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
    let times = format!("times {}: ", scale_word(scale));
    let scaled = ["vanish", "fewer digits", "overflow"].map(|what| format!("{times}{what}"));
    let headers = ["gradient of", "numbers", "are 0", "vanish", "fewer digits", "overflow"];
    let headers: Vec<&str> = headers.into_iter().chain(scaled.iter().map(String::as_str)).collect();
    table(&headers, rows)
}

/// What fp16 leaves of a step's gradients at several scales of the loss: what vanishes, what overflows, and how far what is left is from the
/// gradients in fp32, as the norm of the difference over their own.
#[must_use]
pub fn by_scale(step: &FirstStep, scales: &[f32]) -> Table {
    let all: Vec<f32> = step.all_outputs().filter(|g| *g != 0.0).collect();
    let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|v| f64::from(v).powi(2)).sum::<f64>().sqrt();
    let own = norm(&mut all.iter().copied());
    let row = |scale: &f32| {
        let count = |wanted: Fate| all.iter().filter(|g| fate(**g * scale) == wanted).count() as f64 / all.len() as f64;
        let infinite = count(Fate::Overflows);
        let error = norm(&mut all.iter().map(|g| f16::from_f32(g * scale).to_f32() / scale - g)) / own;
        vec![
            scale_word(*scale),
            figures::percent(count(Fate::Vanishes)),
            figures::percent(count(Fate::LosesDigits)),
            if infinite > 0.0 { figures::percent(infinite) } else { "none".into() },
            if infinite > 0.0 { "the step is skipped".into() } else { figures::number(error) },
        ]
    };
    table(&["loss times", "vanish", "fewer digits", "overflow", "relative error"], scales.iter().map(row).collect())
}

/// A training with fp16 on any machine would do this: what a scaler makes of the same gradients, attempt after attempt.
#[must_use]
pub fn attempts(step: &FirstStep, scaler: &crate::nn::train::GradScaler, count: usize) -> Table {
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
            scale_word(state.scale),
            infinite.to_string(),
            if overflow { "skipped".into() } else { format!("made, the {made}.") },
            change.into(),
        ]);
        state = next;
    }
    table(&["attempt", "loss times", "infinite gradients", "step", "the scale becomes"], rows)
}

/// Whether so small an update changes a weight of 1, in each format.
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

/// What became of the loss scale in a training's record.
#[must_use]
pub fn scaled(run: &Run) -> String {
    let nothing = || "The record has no training.".to_owned();
    run.train_logs.first().map_or_else(nothing, super::training::scaling_of)
}

/// One way of training for each precision, each the fastest that the engine has, so that nothing else differs.
#[must_use]
pub fn by_precision() -> Vec<Way> {
    let way = |(precision, [id, _]): (Precision, [&'static str; 2])| Way {
        id,
        title: match precision {
            Precision::Fp32 => "fp32",
            Precision::Tf32 => "tf32",
            Precision::AmpFp16 => "AMP, fp16",
            Precision::AmpBf16 => "AMP, bf16",
        },
        idea: "The fastest way of training in this precision: one graph, fused epilogues.",
        base: None,
        requires: precision.requires(),
        options: CudaOptions::new(precision),
    };
    RUNGS.map(way).to_vec()
}

/// The rungs of an experiment with each precision, and without a GPU the CPU.
#[must_use]
pub fn in_every_precision(training: Training, on_gpu: bool) -> Training {
    if !on_gpu {
        return training.rungs(["cpu_all_threads"]);
    }
    by_precision().into_iter().fold(training, Training::way).rungs(RUNGS.map(|(_, [id, _])| id))
}

/// The rung of a precision in a record.
fn rung_of(run: &Run, precision: Precision) -> Option<&'static str> {
    let (_, ids) = RUNGS.into_iter().find(|(p, _)| *p == precision)?;
    ids.into_iter().find(|id| run.rung(id).is_some())
}

/// The rungs of all precisions in a record.
#[must_use]
pub fn precisions_of(run: &Run) -> Vec<&'static str> {
    Precision::ALL.into_iter().filter_map(|p| rung_of(run, p)).collect()
}

/// Time and peak memory of `steps` steps in every precision and at every batch of a record, and how they compare with fp32.
#[must_use]
pub fn time_and_memory(run: &Run, steps: u64) -> Table {
    let mut rows = Vec::new();
    for problem in run.problems() {
        let mut ids = precisions_of(run);
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
                m.peak_bytes.map(figures::bytes).unwrap_or_default(),
                more.unwrap_or_default(),
            ]);
        }
    }
    let all = format!("{steps} steps");
    table(&["batch", "precision", "a step", &all, "as fast as fp32", "peak memory", "more than fp32"], rows)
}

/// As "+96 MiB".
fn difference(was: u64, now: u64) -> String {
    let sign = if now < was { "−" } else { "+" };
    format!("{sign}{}", figures::bytes(was.abs_diff(now)))
}

#[cfg(test)]
mod tests;

//! A training with its loader in the loop: the time of whole epochs, and the gain of AMP behind a slow loader.

use super::super::recorded;
use super::{cell, table};
use crate::figures;
use crate::prelude::experiment::*;
use crate::prelude::nn::*;
use crate::prelude::*;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};
use warpbook_charts::Table;
use warpbook_experiments::Trains;
pub use warpbook_experiments::training_loop::Feed;
use warpbook_experiments::training_loop::{Way, WholeLoop, place};
use warpbook_nn::train::{Ended, Event as Told, Flow, Loader, Residency};
use warpbook_record::{DeviceKind, Measurement};

/// Number of threads that prepare batches, here and in the loop on the T4.
pub const T4_WORKERS: usize = 2;
/// Number of batches that a worker may be ahead by, as PyTorch's loader prefetches.
const PREFETCHED: usize = 2;

/// Source of the T4's figures, which were not measured with this code.
pub(super) const T4_SOURCE: &str = "a public comparison of 2022 on a T4, PyTorch 1.11";

/// Figures of an MNIST CNN on a T4 with two loader workers in the loop, from [`T4_SOURCE`]: batch, precision, seconds for 20 epochs, peak megabytes.
const T4: [(u64, Precision, f64, f64); 3] = [
    (512, Precision::Fp32, 107.2, 417.0),
    (512, Precision::AmpFp16, 104.9, 175.0),
    (1024, Precision::AmpFp16, 100.5, 321.0),
];
const T4_IMAGES: f64 = 20.0 * 60_000.0;

/// Returns a table of the training loop on the T4, with the source of its figures.
#[must_use]
pub fn t4() -> Table {
    let row = |(batch, precision, seconds, megabytes): &(u64, Precision, f64, f64)| {
        vec![
            batch.to_string(),
            precision.to_string(),
            figures::time(seconds * 1e6),
            figures::bytes((megabytes * 1e6) as u64),
            figures::item_rate(T4_IMAGES / seconds, "images"),
            figures::times(T4[0].2 / seconds),
        ]
    };
    let epochs = format!("20 epochs ({T4_SOURCE})");
    let headers = ["batch", "precision", &epochs, "peak memory", "rate", "as fast as the first"];
    table(&headers, T4.iter().map(row).collect())
}

/// Returns the time per image of one loader worker on the T4, assuming that its workers alone limit the fp32 loop.
#[must_use]
pub fn t4_image() -> Duration {
    Duration::from_secs_f64(T4[0].2 / T4_IMAGES * T4_WORKERS as f64)
}

fn words(feed: Feed) -> &'static str {
    match feed {
        Feed::Resident => "images on the GPU",
        Feed::Loader => "loader, two workers",
        Feed::LoaderAndLosses => "loader, every loss read",
    }
}

/// Result of [`timed_loop`].
#[derive(Debug, Clone, PartialEq)]
pub struct Loop {
    /// Number of samples in a batch.
    pub batch: usize,
    /// Precision of the training.
    pub precision: Precision,
    /// The way in which the loop gets its batches.
    pub feed: Feed,
    /// Number of steps in all epochs.
    pub steps: u64,
    /// Seconds of all steps, without evaluations.
    pub seconds: f64,
    /// Peak number of bytes that were allocated on the GPU.
    pub peak_bytes: Option<u64>,
    /// Share of test images classified correctly at the end.
    pub accuracy: Option<f64>,
}

impl Loop {
    /// Returns the mean time of a step in microseconds.
    #[must_use]
    pub fn step_us(&self) -> f64 {
        self.seconds / self.steps as f64 * 1e6
    }
}

/// Trains the recipe with batches that two workers feed in this way, and times all steps, as `warpbook run loop` does. On the CPU all feeds are the same.
///
/// # Errors
/// If the lab's device does not compute in this precision, the recipe does not fit these images or the memory, or an error or the user ended a
/// training.
pub fn timed_loop(lab: &Lab, recipe: &Recipe, splits: &Splits, precision: Precision, feed: Feed) -> Result<Loop> {
    let place = place(lab, (precision, feed), T4_WORKERS)?;
    let reads = (feed == Feed::LoaderAndLosses).then_some(1);
    let mut whole = WholeLoop::new(&place, recipe.clone(), splits, reads)?;
    let clock = Instant::now();
    let ended = whole.run(&lab.cancel())?;
    let seconds = clock.elapsed().as_secs_f64();
    if ended != Ended::Finished {
        return Err(warpbook_device::Error::Cancelled.into());
    }
    let score = whole.test()?;
    Ok(Loop {
        batch: recipe.batch,
        precision,
        feed,
        steps: whole.steps(),
        seconds,
        peak_bytes: whole.peak_bytes(),
        accuracy: Some(score.accuracy()),
    })
}

/// Returns a table of the time, the memory and the test accuracy of each loop.
#[must_use]
pub fn loops(all: &[Loop]) -> Table {
    let row = |l: &Loop| {
        let first = all.iter().find(|o| o.feed == l.feed);
        vec![
            l.batch.to_string(),
            l.precision.to_string(),
            words(l.feed).into(),
            l.steps.to_string(),
            cell(Some(l.seconds * 1e6)),
            cell(Some(l.step_us())),
            first.map(|f| figures::times(f.seconds / l.seconds)).unwrap_or_default(),
            l.peak_bytes.map(figures::bytes).unwrap_or_default(),
            l.accuracy.map(|a| format!("{:.2} %", 100.0 * a)).unwrap_or_default(),
        ]
    };
    let headers = [
        "batch",
        "precision",
        "fed by",
        "steps",
        "all steps",
        "a step",
        "as fast as the first of this feed",
        "peak memory",
        "test accuracy",
    ];
    table(&headers, all.iter().map(row).collect())
}

/// Returns the loops in a record of `warpbook run loop` that have two workers: Warpbook's rungs, one feed after the other. If there was no GPU, the CPU's loop
/// is included.
#[must_use]
pub fn recorded_loops(run: &Run) -> Vec<Loop> {
    let on_cpu = run.environment.device.kind == DeviceKind::Cpu;
    let way = |rung: &Rung| match rung.runner {
        // On the CPU nothing is copied, and everything is read in place.
        Runner::Cpu(_) => on_cpu.then_some((Precision::Fp32, Feed::Resident)),
        _ => Way::by_id(&rung.id).map(|way| (way.precision, way.feed)),
    };
    loops_by(run, way)
}

/// Returns PyTorch's loops from a record of `warpbook run loop`; `None` if none were merged into it.
#[must_use]
pub fn recorded_pytorch_loops(run: &Run) -> Option<PyTorchLoops> {
    let way = |rung: &Rung| match rung.runner {
        Runner::External(_) => Way::by_id(rung.id.strip_prefix("torch_")?).map(|way| (way.precision, way.feed)),
        _ => None,
    };
    let loops = loops_by(run, way);
    let torch = run.rungs.iter().find_map(|rung| match &rung.runner {
        Runner::External(name) => name.strip_prefix("PyTorch ").map(str::to_owned),
        _ => None,
    })?;
    let epochs = run.problems().iter().find_map(|p| p.count("epochs"))?;
    (!loops.is_empty()).then(|| PyTorchLoops { torch, device: run.environment.device.name.clone(), epochs, loops })
}

/// Returns the valid rows of the rungs for which `way` returns a precision and a feed, one feed after the other.
fn loops_by(run: &Run, way: impl Fn(&Rung) -> Option<(Precision, Feed)>) -> Vec<Loop> {
    let read_loop = |m: &Measurement| {
        let (precision, feed) = way(run.rung(&m.rung)?)?;
        let p = &m.problem;
        let (images, batch, epochs) = (p.count("images")?, p.count("batch")?.max(1), p.count("epochs")?);
        (p.count("workers")? == T4_WORKERS as u64 && run.is_sound(m)).then_some(Loop {
            batch: usize::try_from(batch).ok()?,
            precision,
            feed,
            steps: epochs * images.div_ceil(batch),
            seconds: m.median_us()? * 1e-6,
            peak_bytes: m.peak_bytes,
            accuracy: m.accuracy().map(|(mean, _)| mean),
        })
    };
    let all: Vec<Loop> = run.measurements.iter().filter_map(read_loop).collect();
    Feed::ALL.into_iter().flat_map(|feed| all.iter().filter(move |l| l.feed == feed).cloned()).collect()
}

/// Training loops in PyTorch, read from a record.
#[derive(Debug, Clone, PartialEq)]
pub struct PyTorchLoops {
    /// Version of PyTorch.
    pub torch: String,
    /// Device of the measurements.
    pub device: String,
    /// Number of epochs of each training.
    pub epochs: u64,
    /// Loops that were measured.
    pub loops: Vec<Loop>,
}

/// Returns a table of Warpbook's loops next to PyTorch's with the same batch, precision and feed, for the same number of steps.
#[must_use]
pub fn next_to_pytorch(ours: &[Loop], theirs: &PyTorchLoops) -> Table {
    let row = |l: &Loop| {
        let same = |o: &&Loop| (o.batch, o.precision, o.feed, o.steps) == (l.batch, l.precision, l.feed, l.steps);
        let other = theirs.loops.iter().find(same)?;
        let bytes = |l: &Loop| l.peak_bytes.map(figures::bytes).unwrap_or_default();
        Some(vec![
            l.batch.to_string(),
            l.precision.to_string(),
            words(l.feed).into(),
            cell(Some(l.seconds * 1e6)),
            cell(Some(other.seconds * 1e6)),
            figures::times(other.seconds / l.seconds),
            bytes(l),
            bytes(other),
        ])
    };
    let pytorch = format!("PyTorch {}", theirs.torch);
    let headers =
        ["batch", "precision", "fed by", "Warpbook", &*pytorch, "as fast as PyTorch", "peak memory", "PyTorch's"];
    table(&headers, ours.iter().filter_map(row).collect())
}

/// States for each feed the ratio of the speed in fp16 to the speed in fp32, at the same batch size.
#[must_use]
pub fn brought(all: &[Loop]) -> String {
    let ratio = |feed: Feed| {
        let in_precision = |p: Precision| all.iter().find(|l| l.feed == feed && l.precision == p);
        let (full, half) = (in_precision(Precision::Fp32)?, in_precision(Precision::AmpFp16)?);
        (full.batch == half.batch)
            .then(|| format!("{} with {}", figures::times(full.seconds / half.seconds), words(feed)))
    };
    let said: Vec<String> = Feed::ALL.into_iter().filter_map(ratio).collect();
    if said.is_empty() {
        return "The CPU trains in fp32 only, so there is nothing to compare it with: fp16 needs a GPU.".into();
    }
    format!("AMP makes the loop this many times as fast: {}.", super::super::listed(said))
}

/// Returns a table of the longest time that each of two workers may take for an image before the loop waits for them, computed from a step with all images on
/// the GPU.
#[must_use]
pub fn room_for_a_loader(all: &[Loop]) -> Table {
    let row = |l: &Loop| {
        let most = l.step_us() / l.batch as f64 * T4_WORKERS as f64;
        vec![
            l.batch.to_string(),
            l.precision.to_string(),
            cell(Some(l.step_us())),
            cell(Some(most)),
            figures::times(t4_image().as_secs_f64() * 1e6 / most),
        ]
    };
    let headers = [
        "batch",
        "precision",
        "a step",
        "a worker may take for an image",
        "the T4's loop allows it this many times as long",
    ];
    table(&headers, all.iter().filter(|l| l.feed == Feed::Resident).map(row).collect())
}

/// Result of [`slow_loader`].
#[derive(Debug, Clone, PartialEq)]
pub struct Slowed {
    /// Number of samples in a batch.
    pub batch: usize,
    /// Precision of the training.
    pub precision: Precision,
    /// Time that a worker took for an image.
    pub image: Duration,
    /// Time of a step in microseconds, including waiting.
    pub step_us: f64,
    /// Time in microseconds that a step waits for the loader.
    pub waited_us: f64,
}

/// Times `steps` steps that wait for their batches. Each batch comes from a worker that spends `image` on every image, like a loader that decodes and converts
/// images one by one. All images are on the GPU, so a step waits for nothing else. The workers prefetch as PyTorch's do; the first steps, which use up the
/// prefetched batches, are not counted.
///
/// # Errors
/// If [`Session::start`](warpbook_experiments::Session::start) returns an error, an epoch has fewer steps, or an error ended a training.
pub fn slow_loader(
    lab: &Lab,
    recipe: &Recipe,
    splits: &Splits,
    precision: Precision,
    (image, steps): (Duration, u64),
) -> Result<Slowed> {
    let uncounted = (T4_WORKERS * (PREFETCHED + 1)) as u64;
    let last = uncounted + steps.max(1);
    let per_epoch = splits.train.len().div_ceil(recipe.batch.max(1)) as u64;
    if last >= per_epoch {
        return Err(Error::Setting(format!(
            "{last} steps do not fit into an epoch, which has {per_epoch}, and the evaluation after it would be timed with them. Choose fewer steps, or a smaller batch."
        )));
    }
    let batch = recipe.batch;
    let recipe = Recipe { steps: Some(last), ..recipe.clone() };
    let loader = Loader { resident: Residency::On, ..Loader::default() };
    let underway = lab.train(recipe, splits).precision(precision).loader(loader).read_losses_every(1).start()?;
    let (sender, batches) = sync_channel(T4_WORKERS * PREFETCHED);
    let (mut began, mut ended, mut waited) = (Instant::now(), Instant::now(), Duration::ZERO);
    let run = thread::scope(|scope| {
        for _ in 0..T4_WORKERS {
            let sender = sender.clone();
            scope.spawn(move || {
                loop {
                    thread::sleep(image * batch as u32);
                    if sender.send(()).is_err() {
                        // The training no longer takes batches.
                        break;
                    }
                }
            });
        }
        // `batches` is moved here, so that it is dropped when the training has ended, before this thread waits for the workers.
        let batches = batches;
        let _ = batches.recv();
        underway.finish(&mut |event| {
            let Told::Step { step, .. } = *event else { return Flow::Continue };
            ended = Instant::now();
            if step == uncounted {
                (began, waited) = (ended, Duration::ZERO);
            }
            if step < last {
                let _ = batches.recv();
                waited += ended.elapsed();
            }
            Flow::Continue
        })
    });
    recorded(run)?;
    let each = |time: Duration| time.as_secs_f64() * 1e6 / (last - uncounted) as f64;
    Ok(Slowed { batch, precision, image, step_us: each(ended - began), waited_us: each(waited) })
}

/// Returns a table of loops behind a slow loader, each compared with the first.
#[must_use]
pub fn slowed(all: &[Slowed]) -> Table {
    let row = |s: &Slowed| {
        let rate = |s: &Slowed| s.batch as f64 / s.step_us * 1e6;
        vec![
            s.batch.to_string(),
            s.precision.to_string(),
            cell(Some(s.image.as_secs_f64() * 1e6)),
            cell(Some(s.step_us)),
            figures::percent(s.waited_us / s.step_us),
            figures::item_rate(rate(s), "images"),
            figures::times(rate(s) / rate(&all[0])),
        ]
    };
    let headers = [
        "batch",
        "precision",
        "a worker takes for an image",
        "a step",
        "of it waiting",
        "rate",
        "as fast as the first",
    ];
    table(&headers, all.iter().map(row).collect())
}

//! A training with its loader in the loop: the time of whole epochs, and how much AMP helps behind a slow loader.

use super::super::recorded;
use super::{cell, table};
use crate::charts::Table;
use crate::figures;
use crate::nn::train::{Event as Told, Flow, Loader, Residency};
use crate::prelude::*;
use serde::Deserialize;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

/// Threads that prepare batches, here and in the loop on the T4.
pub const T4_WORKERS: usize = 2;
/// Batches that a worker may be ahead by, as PyTorch's loader prefetches.
const PREFETCHED: usize = 2;

/// An MNIST CNN on a T4 with the loader in the loop, two workers, measured elsewhere: batch, precision, seconds of 20 epochs, peak megabytes.
const T4: [(u64, Precision, f64, f64); 3] = [
    (512, Precision::Fp32, 107.2, 417.0),
    (512, Precision::AmpFp16, 104.9, 175.0),
    (1024, Precision::AmpFp16, 100.5, 321.0),
];
const T4_IMAGES: f64 = 20.0 * 60_000.0;

/// The loop on the T4, measured elsewhere.
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
    let headers =
        ["batch", "precision", "20 epochs on a T4, measured elsewhere", "peak memory", "rate", "as fast as the first"];
    table(&headers, T4.iter().map(row).collect())
}

/// The time that a worker of the T4's loop takes for an image if the loop in fp32 waits for nothing but its workers.
#[must_use]
pub fn t4_image() -> Duration {
    Duration::from_secs_f64(T4[0].2 / T4_IMAGES * T4_WORKERS as f64)
}

/// How a training's batches and losses pass between host and GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feed {
    /// All images are on the GPU; losses are read after many steps.
    Resident,
    /// Batches are gathered by two workers and copied one by one; losses are read after many steps.
    Loader,
    /// The same, and every loss is read before the next step begins.
    LoaderAndLosses,
}

impl Feed {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Resident, Self::Loader, Self::LoaderAndLosses];

    fn words(self) -> &'static str {
        match self {
            Self::Resident => "images on the GPU",
            Self::Loader => "loader, two workers",
            Self::LoaderAndLosses => "loader, every loss read",
        }
    }
}

/// The result of [`timed_loop`].
#[derive(Debug, Clone, PartialEq)]
pub struct Loop {
    /// Samples of a batch.
    pub batch: usize,
    /// The training's precision.
    pub precision: Precision,
    /// How it was fed.
    pub feed: Feed,
    /// Steps of all epochs.
    pub steps: u64,
    /// Seconds of all steps, evaluations not included.
    pub seconds: f64,
    /// The most bytes that were allocated on a GPU.
    pub peak_bytes: Option<u64>,
    /// The share of test images classified correctly at the end.
    pub accuracy: Option<f64>,
}

impl Loop {
    /// Microseconds of a step.
    #[must_use]
    pub fn step_us(&self) -> f64 {
        self.seconds / self.steps as f64 * 1e6
    }
}

/// Trains the recipe with batches fed in this way, and takes the time. On the CPU all feeds are the same.
///
/// On a GPU an epoch goes before, untimed: it compiles the kernels for this batch and for the shorter one at an epoch's end.
///
/// # Errors
/// Those of [`Session::run`](crate::Session::run); a training that an error ended.
pub fn timed_loop(lab: &Lab, recipe: &Recipe, splits: &Splits, precision: Precision, feed: Feed) -> Result<Loop> {
    let has_gpu = lab.device().cuda().is_some();
    let run = |epochs: u32| {
        let resident = if feed == Feed::Resident { Residency::On } else { Residency::Off };
        let loader = Loader { resident, workers: T4_WORKERS, ..Loader::default() };
        let session = lab.train(Recipe { epochs, ..recipe.clone() }, splits).precision(precision).loader(loader);
        recorded(if feed == Feed::LoaderAndLosses { session.read_losses_every(1) } else { session }.run()?)
    };
    if has_gpu {
        run(1)?;
    }
    let record = run(recipe.epochs)?;
    let course = record.train_logs[0].course.as_deref().cloned().unwrap_or_default();
    Ok(Loop {
        batch: recipe.batch,
        precision,
        feed,
        steps: course.made(),
        seconds: course.epochs.iter().map(|e| e.seconds).sum(),
        peak_bytes: course.peak_allocated_bytes.filter(|_| has_gpu),
        accuracy: course.epochs.last().and_then(|e| e.test).and_then(|r| r.accuracy()),
    })
}

/// The time, the memory and the test accuracy of each loop.
#[must_use]
pub fn loops(all: &[Loop]) -> Table {
    let row = |l: &Loop| {
        let first = all.iter().find(|o| o.feed == l.feed);
        vec![
            l.batch.to_string(),
            l.precision.to_string(),
            l.feed.words().into(),
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

/// The same loops in PyTorch, as `notebooks/pytorch/loader_loop.py` writes them.
#[derive(Debug, Clone, PartialEq)]
pub struct PyTorchLoops {
    /// PyTorch's version.
    pub torch: String,
    /// The device that it was measured on.
    pub device: String,
    /// Epochs of each training.
    pub epochs: u64,
    /// The loops.
    pub loops: Vec<Loop>,
}

#[derive(Deserialize)]
struct LoopsFile {
    format: u32,
    torch: String,
    device: String,
    epochs: u64,
    rows: Vec<LoopRow>,
}

#[derive(Deserialize)]
struct LoopRow {
    batch: usize,
    precision: String,
    feed: String,
    steps: u64,
    seconds: f64,
    peak_bytes: u64,
    accuracy: f64,
}

/// Reads the file that `notebooks/pytorch/loader_loop.py` wrote.
///
/// # Errors
/// The file is missing, damaged or of another format.
pub fn pytorch_loops(path: impl AsRef<Path>) -> Result<PyTorchLoops> {
    let path = path.as_ref();
    let refuse = |why: String| {
        let again = "python3 notebooks/pytorch/loader_loop.py --data DIR --out";
        Error::Setting(format!("{}: {why}. To measure it: {again} {0}", path.display()))
    };
    let text = std::fs::read_to_string(path).map_err(|e| refuse(format!("it cannot be read ({e})")))?;
    let file: LoopsFile = serde_json::from_str(&text).map_err(|e| refuse(format!("it is damaged ({e})")))?;
    if file.format != 1 {
        return Err(refuse(format!("it has format {}, and this version reads format 1", file.format)));
    }
    let row = |r: LoopRow| {
        let feed = match &*r.feed {
            "resident" => Some(Feed::Resident),
            "loader" => Some(Feed::Loader),
            "loader_and_losses" => Some(Feed::LoaderAndLosses),
            _ => None,
        };
        let precision = Precision::ALL.into_iter().find(|p| p.to_string() == r.precision);
        let is_measured = r.seconds.is_finite() && r.seconds > 0.0 && r.steps > 0;
        match (feed, precision) {
            (Some(feed), Some(precision)) if is_measured => Ok(Loop {
                batch: r.batch,
                precision,
                feed,
                steps: r.steps,
                seconds: r.seconds,
                peak_bytes: Some(r.peak_bytes).filter(|bytes| *bytes > 0),
                accuracy: Some(r.accuracy),
            }),
            _ => Err(refuse(format!("its row of {}, {} is not valid", r.precision, r.feed))),
        }
    };
    let loops = file.rows.into_iter().map(row).collect::<Result<_>>()?;
    Ok(PyTorchLoops { torch: file.torch, device: file.device, epochs: file.epochs, loops })
}

/// Our loops next to PyTorch's of the same batch, precision and feed, for the same number of steps.
#[must_use]
pub fn next_to_pytorch(ours: &[Loop], theirs: &PyTorchLoops) -> Table {
    let row = |l: &Loop| {
        let same = |o: &&Loop| (o.batch, o.precision, o.feed, o.steps) == (l.batch, l.precision, l.feed, l.steps);
        let other = theirs.loops.iter().find(same)?;
        let bytes = |l: &Loop| l.peak_bytes.map(figures::bytes).unwrap_or_default();
        Some(vec![
            l.batch.to_string(),
            l.precision.to_string(),
            l.feed.words().into(),
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

/// How many times as fast fp16 is as fp32 at the same batch, for each feed.
#[must_use]
pub fn brought(all: &[Loop]) -> String {
    let of = |feed: Feed| {
        let of = |p: Precision| all.iter().find(|l| l.feed == feed && l.precision == p);
        let (full, half) = (of(Precision::Fp32)?, of(Precision::AmpFp16)?);
        (full.batch == half.batch)
            .then(|| format!("{} with {}", figures::times(full.seconds / half.seconds), feed.words()))
    };
    let said: Vec<String> = Feed::ALL.into_iter().filter_map(of).collect();
    if said.is_empty() {
        return "The CPU trains in fp32 only, so there is nothing to compare it with: fp16 needs a GPU.".into();
    }
    format!("AMP makes the loop this many times as fast: {}.", super::super::listed(said))
}

/// How long each of two workers may take for an image before the loop waits for them, from its step with all images on the GPU.
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

/// The result of [`slow_loader`].
#[derive(Debug, Clone, PartialEq)]
pub struct Slowed {
    /// Samples of a batch.
    pub batch: usize,
    /// The training's precision.
    pub precision: Precision,
    /// The time that a worker took for an image.
    pub image: Duration,
    /// Microseconds of a step, waiting included.
    pub step_us: f64,
    /// Microseconds of a step spent waiting for the loader.
    pub waited_us: f64,
}

/// Times `steps` steps that wait for their batches. Each batch comes from a worker that spends `image` on every image, as a loader does that
/// decodes and converts images one by one. All images are on the GPU, so a step waits for nothing else. The workers prefetch as PyTorch's do;
/// the first steps, which use up the prefetched batches, are not counted.
///
/// # Errors
/// Those of [`Session::start`](crate::Session::start); an epoch has fewer steps; a training that an error ended.
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
                        // Nobody takes batches any more.
                        break;
                    }
                }
            });
        }
        // Moved here, so that it is dropped when the training has ended, before the workers are waited for.
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

/// Loops behind a slow loader, each compared with the first.
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

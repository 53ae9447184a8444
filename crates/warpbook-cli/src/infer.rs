//! `warpbook freeze`, `warpbook predict`, and `warpbook eval` of frozen networks.

use crate::args::{FreezeArgs, PredictArgs};
use crate::failure::{Failure, RUNG_FAILED};
use crate::output::{complain, one_line, say};
use crate::recipe::{Images, Plan};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use warpbook::figures;
use warpbook::nn::data::fit_image;
use warpbook::nn::infer::{Frozen, Prediction};
use warpbook::nn::train::TrainError;
use warpbook::nn::weights::Weights;

/// Images of the batch whose throughput is measured.
const BATCH: usize = 256;
/// No pass is begun after this.
const BUDGET: Duration = Duration::from_secs(10);

/// What a training error means for the program's exit code.
pub fn failure(error: TrainError) -> Failure {
    match error {
        TrainError::NotFinite(sentence) => Failure { code: RUNG_FAILED, sentence },
        error => Failure::usage(error.to_string()),
    }
}

/// Freezes a checkpoint.
pub fn freeze(args: &FreezeArgs) -> Result<ExitCode, Failure> {
    let same = args.weights.canonicalize().ok().zip(args.out.canonicalize().ok()).is_some_and(|(a, b)| a == b);
    if same {
        return Err(Failure::usage(format!(
            "{} is the checkpoint: a training could not go on from it. Name another --out.",
            args.out.display()
        )));
    }
    let plan = Plan::find(&args.recipe)?;
    let weights = Weights::load(&plan.recipe.network, &args.weights).map_err(|e| Failure::usage(e.to_string()))?;
    let classes = match plan.images.about() {
        Some(about) => about.classes.map(str::to_owned).to_vec(),
        None => plan.open(args.from.data.as_deref())?.train.classes().to_vec(),
    };
    let frozen = Frozen::new(&plan.recipe, &weights, &classes).map_err(failure)?.with_data(plan.images.name());
    frozen.save(&args.out).map_err(failure)?;
    let layers = [&plan.recipe.network, frozen.network()].map(|n| n.nodes().len());
    let bytes = std::fs::metadata(&args.out).map_or(0, |m| m.len());
    say(&format!(
        "{}: {} of {} operations left, {} parameters, {} in {}",
        frozen.recipe(),
        layers[1],
        layers[0],
        frozen.network().parameter_count(),
        figures::bytes(bytes),
        args.out.display()
    ));
    Ok(ExitCode::SUCCESS)
}

/// The loss and the accuracy of a frozen network, in words, with what the images are.
pub fn evaluate(file: &Path, data: Option<&Path>) -> Result<(String, warpbook::nn::train::Score), Failure> {
    let frozen = Frozen::load(file).map_err(failure)?;
    let images = frozen.data().map(Images::named).or_else(|| data.map(|d| Images::Folder(d.to_owned())));
    let images = images.ok_or_else(|| {
        Failure::usage(format!(
            "{} does not say what it was trained on: name a folder with --data DIR.",
            file.display()
        ))
    })?;
    let test = images.open(data, frozen.shape())?.test;
    let score = frozen.evaluate(&test).map_err(failure)?;
    Ok((test.note(), score))
}

/// Classifies images.
pub fn predict(args: &PredictArgs) -> Result<ExitCode, Failure> {
    let frozen = Frozen::load(&args.file).map_err(failure)?;
    let mut first = None;
    let mut failed = 0;
    for path in &args.images {
        let mut fitted = match fit_image(path, frozen.shape()) {
            Ok(fitted) => fitted,
            Err(why) => {
                complain(&why.to_string());
                failed += 1;
                continue;
            }
        };
        if args.invert {
            fitted.pixels.iter_mut().for_each(|p| *p = 255 - *p);
            fitted.note.push_str(", light and dark exchanged");
        }
        let predictions = frozen.predict(&fitted.pixels).map_err(failure)?;
        for prediction in &predictions {
            say(&format!("{}: {}", path.display(), words(&frozen, prediction, args.top)));
            say(&format!("  {}", fitted.note));
        }
        first.get_or_insert(fitted.pixels);
    }
    if let (Some(passes), Some(pixels)) = (args.repeat, first) {
        measure(&frozen, &pixels, passes).map_err(failure)?;
    }
    match failed {
        0 => Ok(ExitCode::SUCCESS),
        _ => Err(Failure::usage(format!("{failed} of {} images could not be read.", args.images.len()))),
    }
}

/// As "7 (98.3 %), then 1 (1.2 %), 9 (0.3 %)".
fn words(frozen: &Frozen, prediction: &Prediction, top: usize) -> String {
    let one = |(class, p): &(usize, f32)| {
        let name = frozen.classes().get(*class).map_or("?", String::as_str);
        format!("{} ({:.1} %)", one_line(name), 100.0 * p)
    };
    let all: Vec<String> = prediction.top(top.max(1)).iter().map(one).collect();
    match all.split_first() {
        Some((first, rest)) if !rest.is_empty() => format!("{first}, then {}", rest.join(", ")),
        _ => all.concat(),
    }
}

/// The time of an image alone, and the throughput of a large batch.
fn measure(frozen: &Frozen, pixels: &[u8], passes: u32) -> Result<(), TrainError> {
    let (alone, n) = median(frozen, pixels, 1, passes)?;
    say(&format!("an image alone: {} (median of {n})", figures::time(1e6 * alone)));
    let (batch, n) = median(frozen, pixels, BATCH, passes)?;
    let rate = BATCH as f64 / batch;
    say(&format!("in batches of {BATCH}: {} images/s (median of {n})", figures::number(rate)));
    Ok(())
}

/// The median of the seconds of so many passes, or as many as fit into the budget, after one that warms up.
fn median(frozen: &Frozen, pixels: &[u8], batch: usize, passes: u32) -> Result<(f64, usize), TrainError> {
    let images = pixels.repeat(batch);
    let mut predictor = frozen.predictor(batch)?;
    predictor.predict(&images)?;
    let (begun, mut seconds) = (Instant::now(), Vec::new());
    while seconds.is_empty() || (seconds.len() < passes as usize && begun.elapsed() < BUDGET) {
        let started = Instant::now();
        predictor.predict(&images)?;
        seconds.push(started.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    let n = seconds.len();
    Ok(((seconds[(n - 1) / 2] + seconds[n / 2]) / 2.0, n))
}

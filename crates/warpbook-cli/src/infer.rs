//! `warpbook freeze`, `warpbook predict`, and `warpbook eval` of frozen networks.

use crate::args::{EvalArgs, FreezeArgs, PredictArgs};
use crate::failure::{Failure, RUNG_FAILED};
use crate::output::{complain, one_line, say};
use crate::recipe::{Images, Plan, TrainedWeights, note_changes, open, recipe_file};
use crate::save::{Files, Kind};
use crate::train::words as words_of_score;
use std::path::Path;
use std::process::ExitCode;
use warpbook::device::{Bench, ensure_writable};
use warpbook::figures;
use warpbook::data::{Fit, Splits};
use warpbook::nn::infer::{Frozen, Prediction};
use warpbook::nn::train::{Place, TrainError};
use warpbook::record::stats;

/// Sizes of the batches whose throughput is measured.
const BATCHES: [usize; 2] = [32, 256];
/// Seconds after which no pass is begun.
const BUDGET_S: f64 = 10.0;
/// Images that a frozen network is tried with.
const TRIED: usize = 32;

/// What a training error means for the program's exit code.
pub fn failure(error: TrainError) -> Failure {
    match error {
        TrainError::NotFinite(sentence) => Failure { code: RUNG_FAILED, sentence },
        TrainError::Ranks(why) => why.into(),
        error => Failure::usage(error.to_string()),
    }
}

/// Freezes a checkpoint.
pub fn freeze(args: &FreezeArgs) -> Result<ExitCode, Failure> {
    let data = args.from.data.as_deref();
    let weights = args.weights.as_deref().unwrap_or(Path::new(&args.recipe));
    let recipe = recipe_file(&args.recipe).filter(|_| args.weights.is_some());
    let mut files = Files::reading("the recipe", recipe);
    files.reads("the checkpoint", weights);
    files.claim("--out", &args.out, Kind::Frozen)?;
    let place = args.usage.place.place()?;
    ensure_writable(&args.out, 0).map_err(|why| {
        Failure::usage(format!("{} cannot be written: {why}. Choose another --out.", args.out.display()))
    })?;
    let known = match &args.weights {
        Some(weights) => TrainedWeights::with_recipe(&args.recipe, weights, data)?,
        None => TrainedWeights::alone(&args.recipe, "freeze", data)?,
    };
    let classes = known.class_names(data)?;
    let mut frozen = Frozen::new(&known.recipe, &known.weights, &classes).map_err(failure)?;
    if let Some(images) = &known.images {
        frozen = frozen.with_data(images.source());
    }
    if let Some(identity) = known.identity {
        frozen = frozen.trained_on(identity);
    }
    frozen.save(&args.out).map_err(failure)?;
    let layers = [&known.recipe.network, frozen.network()].map(|n| n.nodes().len());
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
    if !known.recipe.views.is_one() {
        say(
            "It sees each image once; `warpbook eval` of the checkpoint averages several views of it, as the training did.",
        );
    }
    let there = frozen.clone().to(place);
    let pixels = pattern(frozen.shape(), TRIED);
    if *there.place() != Place::Cpu {
        compare(&frozen, &there, &pixels).map_err(failure)?;
    }
    measure(&there, &pixels[..pixels.len() / TRIED], args.usage.repeat).map_err(failure)?;
    Ok(ExitCode::SUCCESS)
}

/// Images of diagonal stripes, each of other widths.
fn pattern([channels, height, width]: [usize; 3], n: usize) -> Vec<u8> {
    let pixel = |i: usize| {
        let (image, y, x) = (i / (channels * height * width), i / width % height, i % width);
        ((x * (image % 7 + 3) + y * (image % 5 + 2) * 7) * 255 / 64 % 256) as u8
    };
    (0..n * channels * height * width).map(pixel).collect()
}

/// Says how far a network's probabilities are from those of the CPU.
fn compare(on_cpu: &Frozen, there: &Frozen, pixels: &[u8]) -> Result<(), TrainError> {
    let (want, got) = (on_cpu.predict(pixels)?, there.predict(pixels)?);
    let pairs = want.iter().zip(&got).flat_map(|(w, g)| w.probabilities.iter().zip(&g.probabilities));
    let apart = pairs.fold(0.0f32, |most, (w, g)| most.max((w - g).abs()));
    say(&format!(
        "on {}: probabilities of {} patterns differ by at most {apart:.1e} from those of {}",
        there.place(),
        want.len(),
        on_cpu.place()
    ));
    Ok(())
}

/// An error unless a frozen network is of the recipe that was named with it.
pub fn ensure_recipe(file: &Path, recipe: &str) -> Result<(), Failure> {
    let (named, frozen) = (Plan::of_images(recipe)?.recipe.name, Frozen::load(file).map_err(failure)?);
    if frozen.recipe() == named {
        return Ok(());
    }
    let (file, of) = (file.display(), one_line(frozen.recipe()));
    Err(Failure::usage(format!(
        "{file} is a frozen network of {of}, not of {named}. It needs no recipe: warpbook eval {file}"
    )))
}

/// Says the loss and the accuracy of a frozen network, with what the images are.
pub fn evaluate(file: &Path, args: &EvalArgs) -> Result<(), Failure> {
    let data = args.from.data.as_deref();
    let frozen = Frozen::load(file).map_err(failure)?.to(args.usage.place.place()?);
    let images = frozen.source().map(Images::of).or_else(|| data.map(|d| Images::Folder(d.to_owned())));
    let images = images.map(|images| images.unless(data));
    let Splits { train, test } =
        open((file, frozen.identity()), images.as_ref(), data.is_none(), frozen.shape())?.splits;
    if data.is_none() {
        note_changes(file, frozen.identity(), &train);
    }
    let score = frozen.evaluate(&test).map_err(failure)?;
    say(&format!("{}\n{}, on {}", test.note(), words_of_score(&score), frozen.place()));
    measure(&frozen, test.image(0), args.usage.repeat).map_err(failure)
}

/// Classifies images.
pub fn predict(args: &PredictArgs) -> Result<ExitCode, Failure> {
    let frozen = Frozen::load(&args.file).map_err(failure)?.to(args.usage.place.place()?);
    let mut predictor = frozen.predictor(1).map_err(failure)?;
    if frozen.identity().is_none() {
        complain(&format!(
            "{} does not say how the images that it was trained on were prepared, as files that were frozen from plain weights or by an older version do not. Each image is turned upright as its \
             EXIF data say, and {} scaled.",
            args.file.display(),
            match frozen.fit() {
                Fit::Whole => "the whole of it is",
                Fit::Centre => "its centre of the network's proportions is",
            }
        ));
    }
    let mut first = None;
    let mut failed = 0;
    for path in &args.images {
        let mut fitted = match frozen.image(path) {
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
        let predictions = predictor.predict(&fitted.pixels).map_err(failure)?;
        for prediction in &predictions {
            say(&format!("{}: {}", path.display(), words(&frozen, prediction, args.top)));
            say(&format!("  {}", fitted.note));
        }
        first.get_or_insert(fitted.pixels);
    }
    if let Some(pixels) = first {
        measure(&frozen, &pixels, args.usage.repeat).map_err(failure)?;
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

/// Says the time of an image alone and the throughput of large batches, of so many passes.
fn measure(frozen: &Frozen, pixels: &[u8], passes: Option<u32>) -> Result<(), TrainError> {
    let Some(samples) = passes else { return Ok(()) };
    let bench = Bench { warmup: 1, samples, budget_s: BUDGET_S, batch_below_us: 0.0, ..Bench::default() };
    let time = |batch: usize| frozen.predictor(batch)?.time(&pixels.repeat(batch), &bench);
    let alone = time(1)?;
    // On the CPU the two clocks are one.
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

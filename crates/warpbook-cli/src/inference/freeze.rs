//! The command `warpbook freeze`.

use super::speed::measure;
use crate::args::FreezeArgs;
use crate::failure::Failure;
use crate::files::{Files, Kind};
use crate::output::say;
use crate::recipe::{TrainedWeights, recipe_file};
use std::path::Path;
use std::process::ExitCode;
use warpbook::device::ensure_writable;
use warpbook::figures;
use warpbook::nn::infer::Frozen;
use warpbook::nn::train::{Place, TrainError};

/// Number of images with which the frozen network is tried.
const TRIED: usize = 32;

/// Freezes a checkpoint and tries the frozen network.
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
    let mut frozen = Frozen::new(&known.recipe, &known.weights, &classes)?;
    if let Some(images) = &known.images {
        frozen = frozen.with_data(images.source());
    }
    if let Some(identity) = known.identity {
        frozen = frozen.trained_on(identity);
    }
    frozen.save(&args.out)?;
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
        compare(&frozen, &there, &pixels)?;
    }
    measure(&there, &pixels[..pixels.len() / TRIED], args.usage.repeat)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns images of diagonal stripes with different widths.
fn pattern([channels, height, width]: [usize; 3], n: usize) -> Vec<u8> {
    let pixel = |i: usize| {
        let (image, y, x) = (i / (channels * height * width), i / width % height, i % width);
        ((x * (image % 7 + 3) + y * (image % 5 + 2) * 7) * 255 / 64 % 256) as u8
    };
    (0..n * channels * height * width).map(pixel).collect()
}

/// Prints how far the probabilities of a network are from the probabilities computed on the CPU.
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

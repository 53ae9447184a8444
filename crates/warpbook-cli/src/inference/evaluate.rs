//! The command `warpbook eval`.

use super::speed::measure;
use crate::args::EvalArgs;
use crate::failure::Failure;
use crate::output::{one_line, say};
use crate::recipe::{Images, TrainedWeights, find_recipe_of_images, note_changes, open};
use std::path::Path;
use std::process::ExitCode;
use warpbook::data::Splits;
use warpbook::nn::infer::Frozen;
use warpbook::nn::train::{Score, Trainer};

/// Prints loss and accuracy of weights or of a frozen network on the test images.
pub fn eval(args: &EvalArgs) -> Result<ExitCode, Failure> {
    let data = args.from.data.as_deref();
    match &args.weights {
        None if Frozen::is_in(&args.recipe) => evaluate_frozen(Path::new(&args.recipe), args)?,
        None => {
            let known = TrainedWeights::alone(&args.recipe, "eval", data)?;
            evaluate_checkpoint(args, Path::new(&args.recipe), known)?;
        }
        Some(file) if Frozen::is_in(file) => {
            ensure_recipe(file, &args.recipe)?;
            evaluate_frozen(file, args)?;
        }
        Some(file) => evaluate_checkpoint(args, file, TrainedWeights::with_recipe(&args.recipe, file, data)?)?,
    };
    Ok(ExitCode::SUCCESS)
}

fn evaluate_checkpoint(args: &EvalArgs, file: &Path, known: TrainedWeights) -> Result<(), Failure> {
    if args.usage.repeat.is_some() {
        return Err(Failure::usage(format!(
            "--repeat times a frozen network: make one with warpbook freeze {} --out FILE.",
            file.display()
        )));
    }
    let test = known.test()?;
    let place = known.by.at(args.usage.place.place()?);
    let mut trainer = Trainer::on(&place, known.recipe, &test, Some(&known.weights))?;
    let score = trainer.evaluate(&test).and_then(Score::finite)?;
    say(&format!("{}\n{}, on {}", test.note(), words(&score), trainer.place()));
    Ok(())
}

/// Returns an error unless a frozen network matches the recipe named with it.
fn ensure_recipe(file: &Path, recipe: &str) -> Result<(), Failure> {
    let (named, frozen) = (find_recipe_of_images(recipe)?.recipe.name, Frozen::load(file)?);
    if frozen.recipe() == named {
        return Ok(());
    }
    let (file, of) = (file.display(), one_line(frozen.recipe()));
    Err(Failure::usage(format!(
        "{file} is a frozen network of {of}, not of {named}. It needs no recipe: warpbook eval {file}"
    )))
}

/// Prints loss and accuracy of a frozen network, with a description of the images.
fn evaluate_frozen(file: &Path, args: &EvalArgs) -> Result<(), Failure> {
    let data = args.from.data.as_deref();
    let frozen = Frozen::load(file)?.to(args.usage.place.place()?);
    let images = frozen.source().map(Images::from_source).or_else(|| data.map(|d| Images::Folder(d.to_owned())));
    let images = images.map(|images| images.unless(data));
    let Splits { train, test } =
        open((file, frozen.identity()), images.as_ref(), data.is_none(), frozen.shape())?.splits;
    if data.is_none() {
        note_changes(file, frozen.identity(), &train);
    }
    let score = frozen.evaluate(&test)?;
    say(&format!("{}\n{}, on {}", test.note(), words(&score), frozen.place()));
    Ok(measure(&frozen, test.image(0), args.usage.repeat)?)
}

/// Returns a line such as "test loss 0.0312, accuracy 99.10 % (9910 of 10000)".
fn words(score: &Score) -> String {
    let percent = 100.0 * score.accuracy();
    format!("test loss {:.4}, accuracy {percent:.2} % ({} of {})", score.loss, score.correct, score.of)
}

//! `warpbook train` of recipes whose time counts: a whole training at once, for one seed or several.

use crate::args::TrainArgs;
use crate::failure::Failure;
use crate::infer::failure;
use crate::output::say;
use crate::recipe::SPEEDRUN;
use warpbook::nn::data::Splits;
use warpbook::nn::train::{Place, Recipe, Trainer};

/// The seed that chooses the training images which are held out.
const HELD_OUT: u64 = 1;

/// Whether the command line asks for it.
pub fn is_asked(args: &TrainArgs) -> bool {
    let said = args.seeds.is_some() || args.hold_out.is_some();
    said || args.recipe == SPEEDRUN && kept(args).is_none()
}

/// An option that belongs to a training that can be watched, resumed and kept.
fn kept(args: &TrainArgs) -> Option<&'static str> {
    let options = [
        ("init", args.init.is_some()),
        ("resume", args.resume.is_some()),
        ("checkpoint", args.checkpoint.is_some()),
        ("out", args.out.is_some()),
        ("time-budget", args.time_budget.is_some()),
        ("rung", args.rung.is_some()),
    ];
    options.into_iter().find(|(_, is_said)| *is_said).map(|(name, _)| name)
}

/// Trains from each seed, and says time and accuracy of each, and their means.
pub fn train(args: &TrainArgs, place: &Place, recipe: &Recipe, splits: &Splits) -> Result<(), Failure> {
    if let Some(name) = kept(args) {
        return Err(Failure::usage(format!(
            "--{name} is for a training that can be watched and kept: leave out --seeds and --hold-out, or --{name}."
        )));
    }
    let (train, test) = match args.hold_out {
        None => (splits.train.clone(), splits.test.clone()),
        Some(count) => splits.train.split(count, HELD_OUT).map_err(|e| Failure::usage(e.to_string()))?,
    };
    let count = args.seeds.unwrap_or(1);
    say(&format!(
        "{} training images, {} {}, {} steps in batches of {}, on {place}",
        train.len(),
        test.len(),
        if args.hold_out.is_some() { "that are held out of them" } else { "test images" },
        recipe.total_steps(train.len()),
        recipe.batch,
    ));
    let (mut seconds, mut accuracies) = (Vec::new(), Vec::new());
    for seed in recipe.seed..recipe.seed.saturating_add(count) {
        let mut trainer = Trainer::on(place, Recipe { seed, ..recipe.clone() }, &train, None).map_err(failure)?;
        trainer.prepare_at_once(&train, &test).map_err(failure)?;
        let made = trainer.train_at_once(&train, &test).map_err(failure)?;
        let accuracy = 100.0 * made.test.accuracy();
        say(&format!(
            "seed {seed}: {:.3} s from images on the device to an accuracy of {accuracy:.2} % ({} of {}), last loss {:.4}",
            made.seconds, made.test.correct, made.test.of, made.loss
        ));
        seconds.push(made.seconds);
        accuracies.push(accuracy);
    }
    if count > 1 {
        let ((time, time_deviation), (accuracy, deviation)) = (moments(&seconds), moments(&accuracies));
        say(&format!(
            "mean of {count} seeds: {time:.3} s (standard deviation {time_deviation:.3}), {accuracy:.2} % ({deviation:.2})"
        ));
    }
    Ok(())
}

/// The mean and the standard deviation of a sample, 0 of a single number.
fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (mean, (squares / (n - 1.0).max(1.0)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::moments;

    #[test]
    fn moments_are_those_of_a_sample() {
        assert_eq!(moments(&[1.0, 3.0]), (2.0, 2.0f64.sqrt()));
        assert_eq!(moments(&[4.0]), (4.0, 0.0));
    }
}

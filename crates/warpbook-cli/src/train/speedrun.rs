//! Times whole trainings without output in between, one training for each seed.

use super::settings::{Planned, Settings};
use super::whole::{Goal, ProcessResult, conclude, keep, last_seed, right_of};
use crate::args::CommandLine;
use crate::failure::{Failure, INTERRUPTED};
use crate::files::{RecordWriter, exit_now};
use crate::output::{say, warn};
use crate::signals::on_request_to_end;
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use warpbook::data::{Dataset, Splits};
use warpbook::nn::train::{AtOnce, CudaOptions, Place, Recipe, Trainer};
use warpbook::{Lab, Timed, WholeTraining, WholeTrainings, figures};

/// The seed that chooses the held-out training images.
const HELD_OUT: u64 = 1;

/// Trainings from several seeds.
pub struct Speedrun {
    pub settings: Settings,
    /// Number of training images held out for testing.
    pub hold_out: Option<usize>,
    pub goal: Goal,
    /// The command that repeats the training.
    pub command: CommandLine,
    /// The file for the result, if this is one of several processes.
    pub result: Option<ProcessResult>,
}

impl Speedrun {
    /// Trains from each seed, prints the time and accuracy of each and the means, and writes a record if requested.
    pub fn run(&self) -> Result<ExitCode, Failure> {
        let out = self.settings.record(self.result.is_none())?;
        let planned = self.settings.plan()?;
        let splits = planned.splits("--seeds and --hold-out are")?;
        let lab = self.settings.lab()?;
        let place = self.place(&lab, &planned)?;
        say(&splits.train.note());
        let (train, test) = self.sets(splits)?;
        let work = Work { recipe: &planned.recipe, place: &place, train: &train, test: &test };
        let first = work.recipe.seed;
        match &self.result {
            Some(result) => {
                self.introduce(&work);
                let right = right_of(&work.train(first)?.test);
                result.leave(&lab, &self.training(&lab, &work, Timed::Process), right)?;
                Ok(ExitCode::SUCCESS)
            }
            None => {
                let last = last_seed("seeds", first, self.goal.trainings)?;
                self.introduce(&work);
                self.train_all(&lab, &work, first..=last, out)
            }
        }
    }

    /// Returns where the trainings run, with the requested kernels and libraries.
    fn place(&self, lab: &Lab, planned: &Planned) -> Result<Place, Failure> {
        let (settings, named) = (&self.settings, self.settings.computed_by());
        Ok(match Place::new(lab.device(), settings.args.place.precision)? {
            Place::Cuda(device, options) => {
                let options = CudaOptions { loader: settings.loader(), ..options };
                Place::Cuda(device, named.or(planned.by).apply_to(options))
            }
            Place::Cpu => {
                named.check(false)?;
                Place::Cpu
            }
        })
    }

    /// Returns the training images, and the images that decide the accuracy.
    fn sets(&self, splits: &Splits) -> Result<(Dataset, Dataset), Failure> {
        match self.hold_out {
            None => Ok((splits.train.clone(), splits.test.clone())),
            Some(count) => splits.train.split(count, HELD_OUT).map_err(|e| Failure::usage(e.to_string())),
        }
    }

    fn introduce(&self, work: &Work<'_>) {
        let Work { recipe, place, train, test } = work;
        say(&format!(
            "{} training images, {} {}, {} in batches of {}, on {place}",
            train.len(),
            test.len(),
            if self.hold_out.is_some() { "that are held out of them" } else { "test images" },
            figures::counted(recipe.total_steps(train.len()) as usize, "step"),
            recipe.batch,
        ));
    }

    /// Returns the facts for the record of the trainings.
    fn training<'a>(&'a self, lab: &Lab, work: &Work<'a>, timed: Timed) -> WholeTraining<'a> {
        let (samples, command) =
            ((work.train.into(), work.test.into()), self.command.on(&lab.device().info().selector()));
        let training = self.goal.training((work.recipe, work.place), samples, timed, command);
        WholeTraining { held_out: self.hold_out.is_some(), ..training }
    }

    fn train_all(
        &self,
        lab: &Lab,
        work: &Work<'_>,
        seeds: RangeInclusive<u64>,
        mut out: Option<RecordWriter>,
    ) -> Result<ExitCode, Failure> {
        let mut all = WholeTrainings::new(lab, &self.training(lab, work, Timed::AtOnce));
        let ended = end_between_seeds(self.goal.trainings, out.is_some());
        for seed in seeds {
            let made = work.train(seed)?;
            ended.fetch_add(1, Ordering::Relaxed);
            all.push(made.seconds, right_of(&made.test));
            all.note_clocks(lab);
            keep(&all, out.as_mut());
        }
        Ok(conclude(&all, out))
    }
}

/// A training that is repeated from each seed.
struct Work<'a> {
    recipe: &'a Recipe,
    place: &'a Place,
    train: &'a Dataset,
    test: &'a Dataset,
}

impl Work<'_> {
    /// Trains from a seed, and prints the time and the accuracy.
    fn train(&self, seed: u64) -> Result<AtOnce, Failure> {
        let recipe = Recipe { seed, ..self.recipe.clone() };
        let mut trainer = Trainer::on(self.place, recipe, self.train, None)?;
        trainer.prepare_whole_training(self.train, self.test)?;
        let made = trainer.run_whole_training(self.train, self.test)?;
        say(&format!(
            "seed {seed}: {:.3} s from images on the device to an accuracy of {:.2} % ({} of {}), last loss {:.4}",
            made.seconds,
            100.0 * made.test.accuracy(),
            made.test.correct,
            made.test.of,
            made.loss
        ));
        Ok(made)
    }
}

/// Lets Ctrl-C and termination signals end the program at once, with a message about saved results; returns the counter
/// of finished seeds.
fn end_between_seeds(count: u64, is_kept: bool) -> Arc<AtomicU64> {
    let ended = Arc::new(AtomicU64::new(0));
    let counted = ended.clone();
    on_request_to_end("Ctrl-C ends at once", move |_| {
        let ended = counted.load(Ordering::Relaxed);
        let kept = if is_kept && ended > 0 { "; their times and accuracies are in the record" } else { "" };
        warn(&format!("Interrupted after {ended} of {count} seeds{kept}."));
        exit_now(INTERRUPTED);
    });
    ended
}

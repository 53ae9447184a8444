//! A training that shows its steps and can be saved, resumed and profiled, alone or as one of several ranks.

use super::settings::{Data, Planned, Settings};
use super::whole::{Goal, ProcessResult, right_of};
use crate::args::{CommandLine, WatchedArgs};
use crate::failure::{Failure, INTERRUPTED, USAGE};
use crate::files::{Kind, RecordWriter, exit_now, print_written, trace_of};
use crate::output::{say, warn};
use crate::signals::{EndRequest, on_request_to_end};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use warpbook::Trains;
use warpbook::nn::train::{Ended, Event, Flow, Ranks};
use warpbook::nn::weights::Weights;
use warpbook::{Lab, Session, Sets, Timed, TrainingRun, Underway, figures, ranks_line, training_line};

/// A training that shows its steps.
pub struct Watched {
    pub settings: Settings,
    pub args: WatchedArgs,
    /// The command that repeats the training.
    pub command: CommandLine,
    /// The user's description of the images.
    pub data_note: Option<String>,
    /// The file for the result if this is one of several processes, and the goal of all processes.
    pub result: Option<(ProcessResult, Goal)>,
}

impl Watched {
    /// Trains alone or as one of several ranks; rank 0 prints and writes for all ranks.
    pub fn run(&self, ranks: Option<&Ranks>) -> Result<ExitCode, Failure> {
        let is_first = ranks.is_none_or(|ranks| ranks.rank() == 0);
        self.ensure_data_can_be_named()?;
        let record = self.claim_files(is_first)?;
        let lab = self.settings.lab()?;
        let planned = self.settings.plan()?;
        let session = self.session(&lab, &planned, record)?;
        let session = match ranks {
            Some(ranks) => session.ranks(ranks),
            None => session,
        };
        let underway = session.start()?;
        let data = &planned.data;
        if is_first {
            introduce(&underway, data);
        }
        let stopped = interrupt_flag();
        let classified = underway.is_classified();
        let heard = |event: &Event| {
            if let Some(line) = training_line(event, classified).filter(|_| is_first) {
                if matches!(event, Event::NotKept { .. }) { warn(&line) } else { say(&line) }
            }
            if stopped.load(Ordering::Relaxed) { Flow::Stop } else { Flow::Continue }
        };
        let (mut run, unprofiled) = match &self.args.profile {
            Some(path) => profile(&lab, underway, &heard, (&self.args, path))?,
            None => (underway.finish(&mut |event| heard(event)), None),
        };
        if let Some(result) = &self.result {
            self.leave(result, &lab, data.sets(), &mut run)?;
        }
        let interrupted = stopped.load(Ordering::Relaxed);
        if is_first {
            return self.conclude(run, (interrupted, unprofiled));
        }
        match run.into_parts().2 {
            Some(error) => Err(error.into()),
            None => Ok(ExitCode::from(if interrupted { INTERRUPTED } else { 0 })),
        }
    }

    fn ensure_data_can_be_named(&self) -> Result<(), Failure> {
        let data = self.settings.args.from.data.as_ref().filter(|data| data.to_str().is_none());
        match (data, &self.args.checkpoint) {
            (Some(data), Some(_)) => Err(Failure::usage(format!(
                "--data {}: this name is not valid UTF-8, so the checkpoint cannot say where its images are. Rename the folder, or leave out --checkpoint.",
                data.display()
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the file for this training's record; `None` with several processes, where --out is the record of all
    /// processes.
    fn record_file(&self) -> Option<&Path> {
        self.settings.args.out.as_deref().filter(|_| self.result.is_none())
    }

    /// Claims the output files, and returns the file for the record.
    fn claim_files(&self, is_first: bool) -> Result<Option<PathBuf>, Failure> {
        let mut files = self.settings.inputs();
        if let (Some(path), true) = (&self.args.checkpoint, is_first) {
            files.claim("--checkpoint", path, Kind::Checkpoint)?;
        }
        if let Some(path) = &self.args.resume {
            files.reads("--resume", path);
        }
        let record = files.optional("--out", self.record_file().filter(|_| is_first), Kind::Record)?;
        files.profile(self.args.profile.as_deref())?;
        Ok(record)
    }

    /// Creates the session of the training with all settings.
    fn session<'a>(&self, lab: &'a Lab, planned: &'a Planned, record: Option<PathBuf>) -> Result<Session<'a>, Failure> {
        let Planned { recipe, data, by, images } = planned;
        let settings = &self.settings;
        let weights = settings.init.as_deref().map(|path| Weights::load(&recipe.network, path)).transpose();
        let on_gpu = lab.device().cuda().is_some();
        if let (Some(id), false) = (&self.args.rung, on_gpu) {
            return Err(Failure::usage(format!("--rung {id} trains on a GPU; choose --device cuda:0.")));
        }
        settings.computed_by().check(on_gpu)?;
        let mut session = lab
            .train(recipe.clone(), data.sets())
            .precision(settings.args.place.precision)
            .loader(settings.loader())
            .log_every(self.args.log_every)
            .command(self.command.on(&lab.device().info().selector()));
        if let Some(id) = &self.args.rung {
            session = session.rung(id)?;
        }
        if on_gpu {
            session = session.change(|options| settings.computed_by().or(*by).apply_to(options));
        }
        if let Some(weights) = weights.map_err(|e| Failure::usage(e.to_string()))? {
            session = session.weights(weights);
        }
        if let Some(path) = &self.args.resume {
            session = session.resume(path);
        }
        if let Some(note) = &self.data_note {
            session = session.data_note(note);
        }
        if let Some(images) = images {
            session = session.trained_on(images.clone());
        }
        if let Some(path) = &self.args.checkpoint {
            session = session.checkpoint(path);
        }
        if let Some(path) = record {
            session = session.out(path);
        }
        if let Some(budget) = self.args.time_budget {
            session = session.time_budget(budget);
        }
        Ok(session)
    }

    /// Writes the result of a training, unless it ended early.
    fn leave(
        &self,
        (result, goal): &(ProcessResult, Goal),
        lab: &Lab,
        sets: Sets<'_>,
        run: &mut TrainingRun,
    ) -> Result<(), Failure> {
        if run.ended() != Some(Ended::Finished) {
            return Ok(());
        }
        let last = run.last_epoch().and_then(|epoch| Some((epoch.step, epoch.test?)));
        let trainer = run.trainer();
        let right = match last.filter(|(step, _)| *step == trainer.step()) {
            Some((_, right)) => right,
            // The training ended within an epoch.
            None => right_of(&trainer.evaluate(sets.test)?),
        };
        let (trained, samples) = ((trainer.recipe(), trainer.place()), (sets.train, sets.test));
        let command = self.command.on(&lab.device().info().selector());
        result.leave(lab, &goal.training(trained, samples, Timed::Process, command), right)
    }

    /// Prints the end of a training, and where its files are.
    fn conclude(
        &self,
        run: TrainingRun,
        (interrupted, unprofiled): (bool, Option<String>),
    ) -> Result<ExitCode, Failure> {
        if let Some(course) = run.log().course.as_ref().filter(|c| c.skipped_total > 0) {
            say(&format!("{} of {} steps skipped: a gradient had overflowed", course.skipped_total, course.made()));
        }
        if run.ended() == Some(Ended::OutOfTime) {
            say("the time budget is used up");
        }
        if let Some(course) = &run.log().course {
            let bytes = |bytes: Option<u64>, what: &str| bytes.map(|b| format!(", {} {what}", figures::bytes(b)));
            say(&format!(
                "{:.1} s in all{}{}",
                course.total_s,
                bytes(course.peak_allocated_bytes, "allocated").unwrap_or_default(),
                bytes(course.peak_reserved_bytes, "reserved").unwrap_or_default(),
            ));
        }
        let written = self.record_file().zip(run.written()).map(|(file, written)| match written {
            Ok(path) => Ok(path.to_owned()),
            Err(_) => RecordWriter::new(file.to_owned()).finish(run.record()),
        });
        written.iter().for_each(print_written);
        unprofiled.iter().for_each(|why| warn(why));
        let is_unwritten = written.is_some_and(|written| written.is_err());
        let (_, trainer, error) = run.into_parts();
        if let Some(error) = error {
            // The checkpoint has the earlier results.
            return Err(error.into());
        }
        if let Some(kept) = trainer.checkpoint_file() {
            say(&format!("step {} is kept in {}", trainer.step(), kept.display()));
        }
        let elsewhere = trainer.checkpoint_file() != self.args.checkpoint.as_deref();
        if let (Some(path), true) = (&self.args.checkpoint, elsewhere) {
            warn(&kept_elsewhere(path, trainer.checkpoint_file()));
        }
        Ok(ExitCode::from(match () {
            () if interrupted => INTERRUPTED,
            () if is_unwritten || unprofiled.is_some() || elsewhere => USAGE,
            () => 0,
        }))
    }
}

/// Trains with a profile of some steps, and writes it; errors in writing are returned, too.
fn profile(
    lab: &Lab,
    underway: Underway<'_>,
    heard: &dyn Fn(&Event) -> Flow,
    (args, path): (&WatchedArgs, &Path),
) -> Result<(TrainingRun, Option<String>), Failure> {
    let schedule = args.profile_schedule;
    let listener = &mut |event: &Event| heard(event);
    let (run, profile) = match args.counters {
        true => underway.finish_with_counters(schedule.steps(), listener)?,
        false => underway.finish_with_profile(schedule.steps(), listener)?,
    };
    if profile.cycles.iter().all(|c| (c.steps.len() as u64) < schedule.active()) {
        warn(&format!(
            "No profile was recorded: it needs a training of {}. Choose more --steps, a smaller --batch or a shorter --profile-schedule.",
            figures::counted(schedule.needed() as usize, "step")
        ));
        return Ok((run, None));
    }
    say(&profile.text());
    let trace = trace_of(path);
    let written = RecordWriter::new(path.to_owned()).finish(&profile.record(lab));
    let written = written.and_then(|_| profile.cycles[0].save_trace(&trace).map_err(|why| why.to_string()));
    if written.is_ok() {
        say(&format!("Profile: {}, and as a trace for ui.perfetto.dev {}", path.display(), trace.display()));
    }
    Ok((run, written.err()))
}

/// Says where the newest checkpoint is if it could not be written to the requested file.
fn kept_elsewhere(path: &Path, kept: Option<&Path>) -> String {
    let shown = path.display();
    match kept.map(Path::display) {
        Some(kept) if path.is_file() => {
            format!("{shown} still holds an earlier checkpoint; the newest one is in {kept}.")
        }
        Some(kept) => format!("{shown} could not be written; the checkpoint is in {kept}."),
        None => format!("No checkpoint was written to {shown}."),
    }
}

fn introduce(underway: &Underway<'_>, data: &Data) {
    let (trainer, samples) = (underway.trainer(), data.sets().train.len());
    let recipe = trainer.recipe();
    say(&underway.data_note());
    let (steps, made) = (recipe.total_steps(samples), trainer.step());
    say(&format!(
        "{} in batches of {}{}, {} parameters, {} on {}",
        figures::counted(samples, "sample"),
        recipe.batch.min(samples),
        if recipe.accumulate > 1 { format!(" in {} parts", recipe.accumulate) } else { String::new() },
        recipe.network.parameter_count(),
        figures::counted(steps as usize, "step"),
        trainer.place()
    ));
    if trainer.ranks().is_some() {
        say(&ranks_line(trainer));
    }
    match made {
        0 => {}
        made if made >= steps => say(&format!(
            "the checkpoint is at step {made}, and the training ends at step {steps}: raise --epochs or --steps to train further"
        )),
        made => say(&format!("resuming after step {made}")),
    }
    if let Some(what) = trainer.not_compared() {
        warn(what);
    }
}

/// Returns the flag that ends the training, set by SIGTERM, SIGHUP and a first Ctrl-C. A second Ctrl-C ends the program
/// at once.
fn interrupt_flag() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let handler = {
        let flag = flag.clone();
        move |asked| match (flag.swap(true, Ordering::Relaxed), asked) {
            (true, EndRequest::ByHand) => exit_now(INTERRUPTED),
            (true, EndRequest::BySystem) => {}
            (false, EndRequest::ByHand) => {
                warn(
                    "Ending after the current steps; Ctrl-C again ends at once and keeps only the last checkpoint and record.",
                );
            }
            (false, EndRequest::BySystem) => warn("The training was asked to end: it ends after the steps under way."),
        }
    };
    on_request_to_end("Ctrl-C ends at once, without a checkpoint", handler);
    flag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_that_is_elsewhere_is_told_with_what_its_own_file_holds() {
        let folder = tempfile::tempdir().unwrap();
        let (own, other) = (folder.path().join("c.st"), Path::new("/tmp/1-c.st"));
        assert!(
            kept_elsewhere(&own, Some(other)).ends_with("c.st could not be written; the checkpoint is in /tmp/1-c.st.")
        );
        std::fs::write(&own, "the first epoch").unwrap();
        let told = kept_elsewhere(&own, Some(other));
        assert!(told.ends_with("c.st still holds an earlier checkpoint; the newest one is in /tmp/1-c.st."), "{told}");
        assert!(kept_elsewhere(&own, None).starts_with("No checkpoint was written to "));
    }
}

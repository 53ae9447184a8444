//! Records the GPU's activity in a training step. This happens after all timing, so that no profiler affects it.

use super::Training;
use super::data::Set;
use super::steps::failure;
use super::workload::Workload;
use warpbook_device::{CudaDevice, Recorder};
use warpbook_lab::activity::{Recording, Timelines, by_operation};
use warpbook_lab::{Error, Lab, Result};
use warpbook_nn::train::{CudaOptions, Place, Recipe, TrainError, Trainer, Way};
use warpbook_record::{Dtype, Problem, Run, Rung, Runner};

/// Number of recorded steps, number of unrecorded steps before them, and number of attempts if a step is skipped, since
/// a loss scale may have to be halved a few times first.
const RECORDED: usize = 8;
const WARM: usize = 20;
const ATTEMPTS: usize = 12;

/// Returns the rungs to record. For the main problem these are all rungs, including libraries, so that the ladder can
/// be compared kernel by kernel. For other problems, only Warpbook's fastest rung in each precision is recorded, since
/// recording all of them would double the size of the record.
fn wanted<'r>(training: &Training, run: &'r Run, problem: &Problem, is_main: bool) -> Vec<&'r Rung> {
    let is_sound = |r: &&Rung| run.measurement(&r.id, problem).is_some_and(|m| run.is_sound(m));
    let is_ours = |r: &Rung| matches!(r.runner, Runner::Kernels { .. });
    let precision = |r: &Rung| training.way_of(r).map(|way| way.options.precision);
    let is_fastest = |rung: &Rung| {
        let fastest = run.fastest_of(problem, |r| is_ours(r) && precision(r) == precision(rung));
        fastest.is_some_and(|(m, _)| m.rung == rung.id)
    };
    run.rungs.iter().filter(is_sound).filter(|r| is_main || is_fastest(r)).collect()
}

/// Returns the way with its kernels one after another: on one stream, without early launches. `None` if the kernels
/// already run like that.
fn in_turn(way: &Way) -> Option<Way> {
    let CudaOptions { overlap, dependent, .. } = way.options;
    let options = CudaOptions { overlap: false, dependent: false, ..way.options };
    (overlap || dependent).then(|| Way { options, ..way.clone() })
}

/// Records breakdowns and spans of the measured rungs.
pub(super) fn record(training: &Training, lab: &Lab, device: &CudaDevice, run: &Run) -> Result<Timelines> {
    let recorder = Recorder::start(device)?;
    let mut found = Timelines::default();
    for problem in &run.problems {
        let rungs = wanted(training, run, problem, run.main_problem() == Some(problem));
        let (Some(workload), false) = (Workload::from_problem(problem), rungs.is_empty()) else { continue };
        let batch = problem.count("batch").unwrap_or(1);
        let recipe = workload.recipe(batch, training.features, training.seed);
        let set = training.files.set(workload, batch as usize, training.features, training.seed)?;
        for rung in rungs {
            lab.bench().cancel.check()?;
            let Some(way) = training.way_of(rung) else { continue };
            let taken_apart = |way: &Way| {
                let recorded = recorded(&recorder, device, way, &recipe, &set).map_err(failure);
                recorded.and_then(|r| r.taken_apart(&rung.id, problem).map_err(Error::Setting))
            };
            let mut missing = |what: &str, why: &dyn std::fmt::Display| {
                found.notes.push(format!("{}, {}: {what}: {why}", rung.id, problem.label));
            };
            let (mut breakdown, spans) = match taken_apart(way) {
                Ok(apart) => apart,
                Err(Error::Device(e)) if e.is_sticky() => return Err(e.into()),
                Err(e) => {
                    missing("its step could not be taken apart", &e);
                    continue;
                }
            };
            if let Some(serial) = in_turn(way) {
                match taken_apart(&serial) {
                    Ok((serial, _)) if breakdown.set_alone(&serial) => {}
                    Ok(_) => missing("its kernels were not timed one by one", &"there they are others"),
                    Err(Error::Device(e)) if e.is_sticky() => return Err(e.into()),
                    Err(e) => missing("its kernels were not timed one by one", &e),
                }
            }
            found.breakdowns.push(breakdown);
            found.spans.extend(spans);
        }
    }
    Ok(found)
}

/// Records some steps of a new training run. The recorder is active while the graph is captured.
fn recorded(
    recorder: &Recorder,
    device: &CudaDevice,
    way: &Way,
    recipe: &Recipe,
    set: &Set,
) -> Result<Recording, TrainError> {
    let place = Place::Cuda(device.clone(), way.options);
    let mut trainer = Trainer::on(&place, recipe.clone(), set.samples(), None)?;
    trainer.prepare_steps(set.samples())?;
    for _ in 0..WARM {
        trainer.queue_step()?;
    }
    for _ in 0..ATTEMPTS {
        let recording = attempt(recorder, &mut trainer, way)?;
        // A skipped step does less work than a normal step, so the recording must be repeated.
        if trainer.step_outcomes(RECORDED + 1)?.iter().all(|o| !o.skipped && o.loss.is_finite()) {
            return Ok(recording);
        }
    }
    Err(TrainError::Setting(format!("each of {ATTEMPTS} recordings has a step that changed no weight")))
}

/// Records one step that runs one operation at a time, and then [`RECORDED`] whole steps.
fn attempt(recorder: &Recorder, trainer: &mut Trainer, way: &Way) -> Result<Recording, TrainError> {
    // Losses are read after the recording, since their copies are not part of a step.
    let wait = |trainer: &Trainer| trainer.stream().map_or(Ok(()), |stream| stream.synchronize());
    wait(trainer)?;
    let (operations, mut lost) = by_operation(recorder, |after| trainer.step_by_operation(after))?;
    for _ in 0..RECORDED {
        trainer.queue_step()?;
    }
    wait(trainer)?;
    let source = format!("CUPTI {}", recorder.version());
    let taken = recorder.take()?;
    lost += taken.lost;
    if lost > 0 {
        return Err(TrainError::Setting(format!("CUPTI lost {lost} of the activities")));
    }
    let dtype = Some(way.options.precision.products()).filter(|d| *d != Dtype::F32);
    Ok(Recording { operations, runs: RECORDED, activities: taken.activities, source, dtype })
}

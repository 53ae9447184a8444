//! Records the GPU's activity in an epoch, for rungs that launch kernels for each epoch. This happens after all timing,
//! so that no profiler affects it.

use super::Regression;
use super::prepared::ProblemPoints;
use warpbook_device::{CudaDevice, Recorder};
use warpbook_kernels::regression::LOG_EVERY;
use warpbook_lab::activity::{Recording, Timelines};
use warpbook_lab::{Error, Lab, Result};
use warpbook_record::{Problem, Run, Rung, Runner};

/// Number of epochs in a recorded descent. No epoch logs its loss, so that all do the same work.
const EPOCHS: u64 = 9;
const _: () = assert!(EPOCHS < LOG_EVERY);

/// Returns the rungs that were measured for a problem and launch Warpbook's kernels for every epoch.
fn wanted<'r>(experiment: &Regression, run: &'r Run, problem: &Problem) -> Vec<&'r Rung> {
    let is_ours = |r: &&Rung| matches!(r.runner, Runner::Kernels { .. }) && r.variant_of.is_none();
    let is_sound = |r: &&Rung| run.measurement(&r.id, problem).is_some_and(|m| run.is_sound(m));
    let by_epoch = |r: &&Rung| experiment.row_of(r).is_some_and(|row| row.plan.launches_each_epoch());
    run.rungs.iter().filter(is_ours).filter(by_epoch).filter(is_sound).collect()
}

/// Records the spans of one epoch of each rung.
pub(super) fn record(experiment: &Regression, lab: &Lab, device: &CudaDevice, run: &Run) -> Result<Timelines> {
    let mut found = Timelines::default();
    let Some(problem) = run.main_problem().filter(|p| experiment.wants_parts(p)) else { return Ok(found) };
    let rungs = wanted(experiment, run, problem);
    if rungs.is_empty() {
        return Ok(found);
    }
    // Use the same points, but fewer epochs.
    let short = Regression { epochs: EPOCHS, ..experiment.clone() };
    let points = ProblemPoints::draw(&short, lab, problem)?;
    let recorder = Recorder::start(device)?;
    for rung in rungs {
        lab.bench().cancel.check()?;
        let recorded = recorded(&recorder, &points, rung);
        match recorded.and_then(|r| r.taken_apart(&rung.id, problem).map_err(Error::Setting)) {
            Ok((_, spans)) => found.spans.extend(spans),
            Err(Error::Device(e)) if e.is_sticky() => return Err(e.into()),
            Err(e) => found.notes.push(format!("{}: the timeline of an epoch could not be recorded: {e}", rung.id)),
        }
    }
    Ok(found)
}

/// Records a descent after an unrecorded one that does all lazy loading. The recorder is active while the graph is
/// captured.
fn recorded(recorder: &Recorder, points: &ProblemPoints<'_>, rung: &Rung) -> Result<Recording> {
    let descender = points.descender(rung)?;
    for _ in 0..2 {
        descender.reset()?;
        descender.stream().synchronize()?;
        recorder.take()?;
        descender.queue()?;
        descender.stream().synchronize()?;
    }
    let taken = recorder.take()?;
    if taken.lost > 0 {
        return Err(Error::Setting(format!("CUPTI lost {} of the activities", taken.lost)));
    }
    let source = format!("CUPTI {}", recorder.version());
    Ok(Recording { operations: Vec::new(), runs: EPOCHS as usize, activities: taken.activities, source, dtype: None })
}

//! Profiles and hardware counters of an experiment's rungs, taken one by one after all measurements.

use super::{HardwareCounters, Profile, Work, counters::METRICS};
use crate::experiment::{Candidate, Repeated, Trials};
use crate::{Error, Event, Experiment, Lab, Result};
use warpbook_record::{Measurement, Problem, Profiled, Run, Rung};

/// Number of runs of a rung in one step.
const RUNS: u64 = 3;
/// Time in microseconds above which a rung runs only once.
const LONG_US: f64 = 1e6;

/// A rung that will be profiled, with its measurement.
struct Chosen<'r> {
    rung: &'r Rung,
    measurement: &'r Measurement,
}

/// Returns the rungs with a valid time for the main problem on the lab's device, except learners' kernels, which may
/// hang.
fn chosen<'r>(measured: &'r Run, problem: &Problem) -> Vec<Chosen<'r>> {
    let choose = |rung: &'r Rung| {
        let measurement = measured.measurement(&rung.id, problem)?;
        let fits = rung.variant_of.is_none() && measured.is_sound(measurement) && measured.on_device(measurement);
        fits.then_some(Chosen { rung, measurement })
    };
    measured.rungs.iter().filter_map(choose).collect()
}

impl Chosen<'_> {
    fn runs(&self) -> u64 {
        if self.measurement.median_us().is_some_and(|us| us > LONG_US) { 1 } else { RUNS }
    }

    /// Returns trials that are limited to the fastest tile, so that the other tiles are not tried again.
    fn trials<'l>(&self, lab: &'l Lab) -> Result<Trials<'l>> {
        lab.bench().cancel.check()?;
        let tile = self.measurement.tile.clone();
        Ok(Trials { tile, ..Trials::new(lab, self.rung, &self.measurement.problem) })
    }
}

fn main_problem(measured: &Run) -> Result<&Problem> {
    let nothing = || Error::Setting("Nothing was measured that could be profiled.".into());
    measured.main_problem().ok_or_else(nothing)
}

/// Runs a rung once after restoring the inputs that it changes.
fn run_once(candidate: &dyn Candidate) -> Result<()> {
    if candidate.resets_each_run() {
        candidate.reset()?;
    }
    Ok(candidate.launch()?)
}

impl Lab {
    /// Profiles an experiment's rungs on the main problem of its record. There is one cycle for each rung, with a few
    /// recorded runs after equally many unrecorded ones. Rungs without a valid time are skipped.
    ///
    /// # Errors
    /// If nothing was measured, or the device reports an error.
    pub fn profile_rungs(&self, experiment: &dyn Experiment, measured: &Run) -> Result<Profile> {
        let problem = main_problem(measured)?;
        let prepared = experiment.prepare(self, problem)?;
        self.profiler().schedule(3, 1, 1).cycles_differ().run(|p| {
            for chosen in chosen(measured, problem) {
                self.tell(&Event::Preparing(&format!("profiling {}", chosen.rung.id)));
                let candidate = match chosen.trials(self).and_then(|mut t| prepared.candidate(chosen.rung, &mut t)) {
                    Ok(candidate) => candidate,
                    Err(Error::Device(e)) if e.is_sticky() => return Err(e.into()),
                    Err(e) if e.is_cancelled() => return Err(e),
                    // The record already says what is wrong with the rung.
                    Err(_) => continue,
                };
                let runs = chosen.runs();
                candidate.reset()?;
                candidate.launch()?;
                p.step()?;
                let m = chosen.measurement;
                let work =
                    Work { flops: m.operations().saturating_mul(runs), bytes: problem.bytes.saturating_mul(runs) };
                for _ in 0..4 {
                    p.range_of(&chosen.rung.id, work, |_| (0..runs).try_for_each(|_| run_once(&*candidate)))?;
                    p.step()?;
                }
            }
            Ok(())
        })
    }

    /// Reads hardware counters of an experiment's rungs on the main problem of its record, for [`Run::profiled`]. Also
    /// returns the reasons why counters are missing.
    ///
    /// # Errors
    /// If there is no GPU, nothing was measured, counters would be meaningless for this experiment, or they cannot be
    /// read at all; the error says what to do.
    pub fn count_rungs(&self, experiment: &dyn Experiment, measured: &Run) -> Result<(Vec<Profiled>, Vec<String>)> {
        if let Some(why) = experiment.plan(None)?.uncounted {
            return Err(Error::Setting(why));
        }
        let problem = main_problem(measured)?;
        let prepared = experiment.prepare(self, problem)?;
        let (mut found, mut notes) = (Vec::new(), Vec::new());
        let mut in_part: Vec<(&str, Vec<&str>)> = Vec::new();
        for chosen in chosen(measured, problem) {
            self.tell(&Event::Preparing(&format!("counting {}", chosen.rung.id)));
            let made = chosen.trials(self).and_then(|mut t| prepared.to_count(chosen.rung, &mut t));
            let counted = made.and_then(|(candidate, part)| {
                candidate.reset()?;
                let before = || {
                    if candidate.resets_each_run() {
                        candidate.reset()?;
                    }
                    Ok(())
                };
                Ok((self.counters_after(&METRICS, before, || Ok(candidate.launch()?))?, part))
            });
            match counted {
                Ok((HardwareCounters { mut source, kernels: mut counters, notes: more }, part)) => {
                    if let Some(Repeated { times, last, all }) = part {
                        let is_split = !counters.is_empty() && counters.len() % times == 0;
                        if is_split {
                            counters.drain(..counters.len() / times * (times - 1));
                        }
                        let part = if is_split { last } else { all };
                        source = format!("{source}, of {part}");
                        match in_part.iter_mut().find(|(of, _)| *of == part) {
                            Some((_, rungs)) => rungs.push(&chosen.rung.id),
                            None => in_part.push((part, vec![&chosen.rung.id])),
                        }
                    }
                    notes.extend(more.iter().map(|n| format!("{}: {n}", chosen.rung.id)));
                    found.push(Profiled { counters, ..Profiled::new(&*chosen.rung.id, problem.clone(), source) });
                }
                Err(Error::Device(e)) if e.is_sticky() => return Err(e.into()),
                Err(e) if e.is_cancelled() => return Err(e),
                // Missing permissions or a missing library affect all rungs equally.
                Err(e) if found.is_empty() => return Err(e),
                Err(e) => notes.push(format!("{}: {e}", chosen.rung.id)),
            }
        }
        let of_part = |(part, rungs): (&str, Vec<&str>)| {
            format!(
                "The hardware counters of {} cover only {part}, since the same kernels are launched again and again.",
                rungs.join(", ")
            )
        };
        notes.extend(in_part.into_iter().map(of_part));
        Ok((found, notes))
    }
}

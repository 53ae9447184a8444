//! The rungs of an experiment, profiled and counted one by one after all was measured.

use super::{HardwareCounters, Profile, Work, counters::METRICS};
use crate::experiment::{Candidate, Prepared, Trials};
use crate::{Error, Event, Experiment, Lab, Result};
use warpbook_record::{Measurement, Problem, Profiled, Run, Rung};

/// Runs of a rung in a step.
const RUNS: u64 = 3;
/// Longer ones are run once, in microseconds.
const LONG_US: f64 = 1e6;

/// A rung that was measured.
struct Chosen<'r> {
    rung: &'r Rung,
    measurement: &'r Measurement,
}

/// The rungs that gave a figure at the main problem on the lab's device, without those of a learner, whose kernels may not end.
fn chosen<'r>(measured: &'r Run, problem: &Problem) -> Vec<Chosen<'r>> {
    let of = |rung: &'r Rung| {
        let measurement = measured.measurement(&rung.id, problem)?;
        let fits = rung.variant_of.is_none() && measured.is_sound(measurement) && measured.on_device(measurement);
        fits.then_some(Chosen { rung, measurement })
    };
    measured.rungs.iter().filter_map(of).collect()
}

impl Chosen<'_> {
    fn runs(&self) -> u64 {
        if self.measurement.median_us().is_some_and(|us| us > LONG_US) { 1 } else { RUNS }
    }

    fn candidate<'p>(&self, lab: &Lab, prepared: &'p dyn Prepared) -> Result<Box<dyn Candidate + 'p>> {
        lab.bench().cancel.check()?;
        // The one that was the fastest, without trying the others again.
        let tile = self.measurement.tile.clone();
        prepared.candidate(self.rung, &mut Trials { tile, ..Trials::new(lab, self.rung, &self.measurement.problem) })
    }
}

fn main_problem(measured: &Run) -> Result<&Problem> {
    let nothing = || Error::Setting("Nothing was measured that could be profiled.".into());
    measured.main_problem().ok_or_else(nothing)
}

/// A run of a rung, with the inputs put back where it changes them.
fn run_once(candidate: &dyn Candidate) -> Result<()> {
    if candidate.resets_each_run() {
        candidate.reset()?;
    }
    Ok(candidate.launch()?)
}

impl Lab {
    /// Profiles the rungs of an experiment at the main problem of its record: a cycle for each, with some runs, after as many that nothing records. Rungs
    /// without a valid figure are left out.
    ///
    /// # Errors
    /// Nothing was measured; the device's.
    pub fn profile_rungs(&self, experiment: &dyn Experiment, measured: &Run) -> Result<Profile> {
        let problem = main_problem(measured)?;
        let prepared = experiment.prepare(self, problem)?;
        self.profiler().schedule(3, 1, 1).cycles_differ().run(|p| {
            for chosen in chosen(measured, problem) {
                self.tell(&Event::Preparing(&format!("profiling {}", chosen.rung.id)));
                let candidate = match chosen.candidate(self, &*prepared) {
                    Ok(candidate) => candidate,
                    Err(Error::Device(e)) if e.is_sticky() => return Err(e.into()),
                    Err(e) if e.is_cancelled() => return Err(e),
                    // The record says what is wrong with it.
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

    /// Reads hardware counters of the rungs of an experiment at the main problem of its record, for [`Run::profiled`]; with reasons where some are missing.
    ///
    /// # Errors
    /// There is no GPU, nothing was measured, counters would say nothing of this experiment, or they cannot be read at all, with what to do.
    pub fn count_rungs(&self, experiment: &dyn Experiment, measured: &Run) -> Result<(Vec<Profiled>, Vec<String>)> {
        if let Some(why) = experiment.uncounted() {
            return Err(Error::Setting(why));
        }
        let problem = main_problem(measured)?;
        let prepared = experiment.prepare(self, problem)?;
        let (mut found, mut notes) = (Vec::new(), Vec::new());
        for chosen in chosen(measured, problem) {
            self.tell(&Event::Preparing(&format!("counting {}", chosen.rung.id)));
            let counted = chosen.candidate(self, &*prepared).and_then(|candidate| {
                candidate.reset()?;
                let before = || {
                    if candidate.resets_each_run() {
                        candidate.reset()?;
                    }
                    Ok(())
                };
                self.counters_after(&METRICS, before, || Ok(candidate.launch()?))
            });
            match counted {
                Ok(HardwareCounters { source, kernels: counters, notes: more }) => {
                    notes.extend(more.iter().map(|n| format!("{}: {n}", chosen.rung.id)));
                    let (rung, problem) = (chosen.rung.id.to_string(), problem.clone());
                    found.push(Profiled {
                        rung,
                        problem,
                        source,
                        memory: Vec::new(),
                        power: Vec::new(),
                        overhead: None,
                        counters,
                    });
                }
                Err(Error::Device(e)) if e.is_sticky() => return Err(e.into()),
                Err(e) if e.is_cancelled() => return Err(e),
                // Without rights or a library it is the same for all.
                Err(e) if found.is_empty() => return Err(e),
                Err(e) => notes.push(format!("{}: {e}", chosen.rung.id)),
            }
        }
        Ok((found, notes))
    }
}

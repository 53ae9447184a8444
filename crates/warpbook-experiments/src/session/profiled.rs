//! Runs training with profiled steps.

use super::{TrainingRun, Underway};
use warpbook_lab::Result;
use warpbook_lab::profile::Profile;
use warpbook_nn::train::{Event, Flow};

impl Underway<'_> {
    /// Trains to the end like [`Underway::finish`], and profiles `active` steps, after `wait` unrecorded steps and
    /// `warm_up` steps whose recording is discarded. The host waits for every step, so that a step ends when its loss
    /// is known.
    ///
    /// On a GPU with CUPTI, the recorded steps are broken down by operation
    /// ([`Cycle::operations`](warpbook_lab::profile::Cycle::operations)). For this, one more step runs at the end, one
    /// operation at a time, and is then undone.
    ///
    /// On the CPU, each recorded step has a range for each pass and for each operation in it.
    ///
    /// # Errors
    /// If the device reports an error while recording. An error that ended the training is stored in the
    /// [`TrainingRun`].
    pub fn finish_with_profile(
        self,
        steps: (u64, u64, u64),
        listener: &mut dyn FnMut(&Event) -> Flow,
    ) -> Result<(TrainingRun, Profile)> {
        self.finish_profiled(steps, false, listener)
    }

    /// Ends the training like [`Underway::finish_with_profile`], and reads the hardware counters of each kernel of a
    /// step ([`Lab::counters`](warpbook_lab::Lab::counters)). For this, the step is repeated at the end and then
    /// undone. If the counters cannot be read, the cycle gives the reason
    /// ([`Cycle::notes`](warpbook_lab::profile::Cycle::notes)).
    ///
    /// # Errors
    /// See [`Underway::finish_with_profile`].
    pub fn finish_with_counters(
        self,
        steps: (u64, u64, u64),
        listener: &mut dyn FnMut(&Event) -> Flow,
    ) -> Result<(TrainingRun, Profile)> {
        self.finish_profiled(steps, true, listener)
    }

    fn finish_profiled(
        mut self,
        (wait, warm_up, active): (u64, u64, u64),
        counters: bool,
        listener: &mut dyn FnMut(&Event) -> Flow,
    ) -> Result<(TrainingRun, Profile)> {
        self.trainer = self.trainer.read_losses_every(1);
        let (lab, train) = (self.lab, self.sets.train);
        let (mut run, mut made, mut skipped) = (None, 0, Vec::new());
        let profile = lab.profiler().schedule(wait, warm_up, active).repeat(1).run(|profiler| {
            let mut failed = Ok(());
            run = Some(self.finish(&mut |event| {
                if let (Event::Step { outcome, .. }, Ok(())) = (event, &failed) {
                    skipped.extend(outcome.skipped.then_some(made));
                    made += 1;
                    failed = profiler.step();
                }
                if failed.is_err() { Flow::Stop } else { listener(event) }
            }));
            failed
        });
        let (mut profile, Some(mut run)) = (profile?, run) else { unreachable!("the program of a profile is run") };
        if run.error().is_none() {
            profile.take_apart(run.trainer(), train, &skipped);
            if counters {
                profile.count_step(run.trainer(), train);
            }
        }
        Ok((run, profile))
    }
}

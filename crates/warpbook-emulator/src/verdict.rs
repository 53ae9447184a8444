//! Runs a kernel in several orders with all checks on, and returns a verdict.

use crate::checks::{Checks, Note};
use crate::counts::{Counter, Counts};
use crate::machine::{Observer, run};
use crate::{Argument, Cause, Fault, Gpu, Kernel, Launch, Order, Report};

/// The result of a launch that had no fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Report of the launch in forward order, whose results are left in memory.
    pub report: Report,
    /// Counts of the launch by source line.
    pub counts: Counts,
    /// Remarks on things that are unusual but do no harm.
    pub notes: Vec<Note>,
}

/// Seed of the random order.
const SEED: u64 = 0x5eed;

impl Gpu {
    /// Runs a kernel with all checks on, three times from the same memory: with blocks and warps in forward order, in backward order and in a random order. The
    /// results in memory are then those of the forward order. `launch.order` is ignored.
    ///
    /// # Errors
    /// Returns the first fault that is found. Memory is then unchanged.
    pub fn verdict(&mut self, kernel: &Kernel, launch: &Launch, arguments: &[Argument]) -> Result<Verdict, Fault> {
        self.memory.spare_rows.clear();
        let before = self.memory.clone();
        let mut result = self.launch_checked(kernel, &Launch { order: Order::Forwards, ..*launch }, arguments);
        let after = std::mem::replace(&mut self.memory, before.clone());
        for order in [Order::Backwards, Order::Random(SEED)] {
            // After a race, other orders run only for a kernel with a branch that jumps to itself: one of them may show the endless loop behind the race.
            if result.as_ref().is_err_and(|fault| fault.cause != Cause::Race || !kernel.waits_blindly()) {
                break;
            }
            let other = self.checked(kernel, &Launch { order, ..*launch }, arguments, &mut []);
            self.memory = before.clone();
            result = match (result, other) {
                (Ok(first), Ok(_)) => Ok(first),
                (Ok(_), Err(fault)) => Err(fault),
                (Err(_), Err(fault)) if fault.cause == Cause::Endless => Err(fault),
                (first, _) => first,
            };
        }
        let verdict = result?;
        self.memory = after;
        Ok(verdict)
    }

    /// Runs a kernel once with all checks on, in the order that `launch` specifies.
    ///
    /// # Errors
    /// Returns the fault that was found, as [`Gpu::verdict`] does.
    pub fn launch_checked(
        &mut self,
        kernel: &Kernel,
        launch: &Launch,
        arguments: &[Argument],
    ) -> Result<Verdict, Fault> {
        let mut counter = Counter::new(kernel);
        let (report, notes) = self.checked(kernel, launch, arguments, &mut [&mut counter])?;
        Ok(Verdict { report, counts: counter.finish(), notes })
    }

    /// Runs a kernel once with all checks on, and calls further observers.
    pub(crate) fn checked(
        &mut self,
        kernel: &Kernel,
        launch: &Launch,
        arguments: &[Argument],
        others: &mut [&mut dyn Observer],
    ) -> Result<(Report, Vec<Note>), Fault> {
        let mut checks = Checks::new(kernel, &self.memory);
        let mut observers: Vec<&mut dyn Observer> = vec![&mut checks];
        others.iter_mut().for_each(|other| observers.push(*other));
        let report = run(&mut self.memory, kernel, launch, arguments, observers);
        let report = report.map_err(|fault| checks.explain(fault))?;
        Ok((report, checks.finish(&mut self.memory)?))
    }
}

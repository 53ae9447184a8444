//! A verdict on a kernel: it runs in several orders with all checks on.

use crate::checks::{Checks, Note};
use crate::counts::{Counter, Counts};
use crate::machine::{Observer, run};
use crate::{Argument, Cause, Fault, Gpu, Kernel, Launch, Order, Report};

/// The outcome of a launch without a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Report of the launch in the order forwards, whose results are in memory.
    pub report: Report,
    /// Counts of that launch by source line.
    pub counts: Counts,
    /// Remarks on harmless facts.
    pub notes: Vec<Note>,
}

/// The seed of the random order.
const SEED: u64 = 0x5eed;

impl Gpu {
    /// Runs a kernel with all checks on, with blocks and warps forwards, backwards, and in a random order, each time from the same memory. Memory then has the
    /// results of the order forwards. `launch.order` is ignored.
    ///
    /// # Errors
    /// The first fault that is found; memory is then unchanged.
    pub fn verdict(&mut self, kernel: &Kernel, launch: &Launch, arguments: &[Argument]) -> Result<Verdict, Fault> {
        self.memory.spare_rows.clear();
        let before = self.memory.clone();
        let mut result = self.launch_checked(kernel, &Launch { order: Order::Forwards, ..*launch }, arguments);
        let after = std::mem::replace(&mut self.memory, before.clone());
        for order in [Order::Backwards, Order::Random(SEED)] {
            // A race may hide that a loop reads a variable only once; another order shows it.
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

    /// Runs a kernel once with all checks on, in the launch's order.
    ///
    /// # Errors
    /// The errors of [`Gpu::verdict`].
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

    /// Runs a kernel once with all checks on and other observers.
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

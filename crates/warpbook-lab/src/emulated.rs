//! Records of a lab in the emulator, which have findings but no times.

use crate::{Lab, Result};
use std::collections::BTreeMap;
use warpbook_charts::{Chart, ChartError, draw};
use warpbook_device::Fault;
use warpbook_record::{Emulated, Finding, Policy, Rung, TimedBy, WarpRequest};

/// Returns the policy for the records of a lab; in the emulator, nothing is timed.
pub(crate) fn policy(lab: &Lab, policy: Policy) -> Policy {
    match lab.is_emulated() {
        true => Policy { timed_by: TimedBy::Nothing, warmup: 0, samples: 0, budget_s: 0.0, ..policy },
        false => policy,
    }
}

/// Returns the reason why the emulator cannot run a rung; `None` if it can, or if the lab's device is not the emulator.
pub(crate) fn obstacle(lab: &Lab, rung: &Rung) -> Option<String> {
    let is_pointless = lab.is_emulated() && rung.is_cpu();
    is_pointless.then(|| "not run next to the emulator, which has no times: choose --device cpu".into())
}

/// Does work with all checks of the emulator, if the lab's device is the emulator.
pub(crate) fn checked(lab: &Lab, work: impl FnOnce() -> Result<()>) -> Result<()> {
    match lab.device().cuda() {
        Some(device) => device.checked(work).map(|((), _)| ()),
        None => work(),
    }
}

/// Returns the finding of a run that ended with a fault.
pub(crate) fn of_fault(fault: &Fault) -> Emulated {
    // For an inlined function, report the line that calls it.
    let place = fault.position.as_ref().map(|at| at.inlined_at.clone().unwrap_or_else(|| (at.file.clone(), at.line)));
    let (file, line) = place.map(|(file, line)| (file.to_string(), line)).unzip();
    let finding = Finding { cause: fault.cause.id().to_owned(), message: fault.to_string(), file, line };
    Emulated { finding: Some(finding), ..Emulated::default() }
}

/// Draws which sectors of global memory and which banks of shared memory the lanes of a warp access in a line of a kernel that made these requests.
pub(crate) fn lanes_of_line(
    requests: &[WarpRequest],
    line: u32,
    sources: &BTreeMap<String, String>,
) -> std::result::Result<Chart, ChartError> {
    let here: Vec<WarpRequest> = requests.iter().filter(|request| request.line == line).cloned().collect();
    let Some(first) = here.first() else {
        let mut lines: Vec<u32> = requests.iter().map(|request| request.line).collect();
        lines.dedup();
        let lines: Vec<String> = lines.iter().map(u32::to_string).collect();
        return Err(ChartError::NothingToDraw(format!(
            "Line {line} accesses neither global nor shared memory; these lines do: {}.",
            lines.join(", ")
        )));
    };
    let source = sources.get(&first.file).and_then(|text| text.lines().nth(line.saturating_sub(1) as usize));
    draw().lanes(&here, source.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use warpbook_device::Cause;

    #[test]
    fn causes_are_written_as_ids() {
        let check = |cause: Cause, expect| assert_eq!(cause.id(), expect);
        check(Cause::OutOfBounds, "out_of_bounds");
        check(Cause::Race, "race");
    }
}

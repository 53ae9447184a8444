//! A picture of the memory that the lanes of a warp access.

use super::Attempt;
use crate::emulated::lanes_of_line;
use warpbook_charts::{Chart, ChartError};
use warpbook_record::{LIVE, WarpRequest};

impl Attempt {
    /// Draws which sectors of global memory and which banks of shared memory the lanes of a warp access in a line of the kernel's source. The picture shows the
    /// first warp that runs the line.
    ///
    /// # Errors
    /// [`ChartError::NothingToDraw`] if the kernel did not run in the emulator or had a fault there, or if the line accesses neither kind of memory.
    pub fn lanes(&self, line: u32) -> Result<Chart, ChartError> {
        let Some(emulated) = self.measurement().and_then(|m| m.emulated.as_ref()).filter(|e| e.finding.is_none())
        else {
            return Err(ChartError::NothingToDraw(
                "Only the emulator sees what each lane accesses, and only in a kernel without a fault.".into(),
            ));
        };
        let is_own = |request: &&WarpRequest| request.file.starts_with(LIVE);
        let own: Vec<WarpRequest> = emulated.requests.iter().filter(is_own).cloned().collect();
        let all = if own.is_empty() { &emulated.requests } else { &own };
        lanes_of_line(all, line, &self.run.sources)
    }
}

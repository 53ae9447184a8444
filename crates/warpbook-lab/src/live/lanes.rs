//! A picture of the memory that the lanes of a warp access.

use super::Attempt;
use warpbook_charts::{Chart, ChartError, draw};
use warpbook_record::{LIVE, WarpRequest};

impl Attempt {
    /// Draws which sectors of global memory and which banks of shared memory the lanes of a warp access in a line of the kernel's source. The picture shows the
    /// first warp that runs the line.
    ///
    /// # Errors
    /// [`ChartError::NothingToDraw`] if the kernel did not run in the emulator or had a fault there, or if the line accesses neither kind of memory.
    pub fn lanes(&self, line: u32) -> Result<Chart, ChartError> {
        let why = |why: String| Err(ChartError::NothingToDraw(why));
        let Some(emulated) = self.measurement().and_then(|m| m.emulated.as_ref()).filter(|e| e.finding.is_none())
        else {
            return why("Only the emulator sees what each lane accesses, and only in a kernel without a fault.".into());
        };
        let is_own = |request: &&WarpRequest| request.file.starts_with(LIVE);
        let own: Vec<WarpRequest> = emulated.requests.iter().filter(is_own).cloned().collect();
        let all = if own.is_empty() { &emulated.requests } else { &own };
        let here: Vec<WarpRequest> = all.iter().filter(|request| request.line == line).cloned().collect();
        let Some(first) = here.first() else {
            let mut lines: Vec<u32> = all.iter().map(|request| request.line).collect();
            lines.dedup();
            let lines: Vec<String> = lines.iter().map(u32::to_string).collect();
            return why(format!(
                "Line {line} accesses neither global nor shared memory; these lines do: {}.",
                lines.join(", ")
            ));
        };
        let source =
            self.run.sources.get(&first.file).and_then(|text| text.lines().nth(line.saturating_sub(1) as usize));
        draw().lanes(&here, source.unwrap_or_default())
    }
}

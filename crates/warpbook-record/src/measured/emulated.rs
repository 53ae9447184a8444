use serde::{Deserialize, Serialize};

/// Result of a run in the emulator: what its checks found, and what it counted. It has no times.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Emulated {
    /// Orders in which blocks and warps ran, such as "forwards" and "backwards".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<String>,
    /// The first thing that the checks found; `None` if they found nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<Finding>,
    /// Remarks on what does no harm, such as that several threads write the same value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Counts of each line of the source that has any, in the order of files and lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<LineCounts>,
}

impl Emulated {
    /// Reason for which a row of the emulator is skipped: it is right, and has no time.
    pub const NO_TIME: &'static str = "emulated: no time";
}

/// A mistake of a kernel, as a check of the emulator describes it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Kind of the mistake, such as "race" or "out_of_bounds".
    pub cause: String,
    /// The whole finding in a sentence, with its place and threads.
    pub message: String,
    /// Path of the source, if the place is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line of the source, counted from 1, if the place is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// Counts of one line of a kernel's source, over all warps of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LineCounts {
    /// Path of the source.
    pub file: String,
    /// Number of the line, counted from 1.
    pub line: u32,
    /// Instructions of warps.
    pub instructions: u64,
    /// Active lanes, summed over the instructions; up to 32 an instruction.
    pub active_lanes: u64,
    /// Branches at which at least two active lanes went different ways.
    pub divergent_branches: u64,
    /// Requests of warps to global memory.
    pub requests: u64,
    /// Sectors of 32 bytes that these requests touched.
    pub sectors: u64,
    /// The fewest sectors that their active lanes' bytes fit into.
    pub ideal_sectors: u64,
    /// Wavefronts of shared memory.
    pub wavefronts: u64,
    /// The fewest wavefronts for the same bytes: those without bank conflicts.
    pub ideal_wavefronts: u64,
    /// Atomic operations of lanes.
    pub atomics: u64,
    /// Bytes that lanes asked global, shared and local memory for.
    pub bytes: u64,
}

impl LineCounts {
    /// Returns the mean number of active lanes of an instruction; `None` if there was none.
    #[must_use]
    pub fn mean_lanes(&self) -> Option<f64> {
        (self.instructions > 0).then(|| self.active_lanes as f64 / self.instructions as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_a_mean_over_instructions() {
        let line = LineCounts { instructions: 4, active_lanes: 66, ..LineCounts::default() };
        assert_eq!((line.mean_lanes(), LineCounts::default().mean_lanes()), (Some(16.5), None));
    }
}

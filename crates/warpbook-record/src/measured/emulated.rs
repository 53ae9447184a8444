use serde::{Deserialize, Serialize};

/// Result of a run in the emulator: the findings of its checks, and its counts. It has no times.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Emulated {
    /// Orders in which blocks and warps ran, such as "forwards" and "backwards".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<String>,
    /// The first thing that the checks found; `None` if they found nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<Finding>,
    /// Remarks on harmless facts, such as several threads writing the same value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Counts for each line of the source that has any, ordered by file and line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<LineCounts>,
}

impl Emulated {
    /// Reason for skipping a row of the emulator: its result is right, but it has no time.
    pub const NO_TIME: &'static str = "emulated: no time";
}

/// A mistake in a kernel, as the emulator describes it.
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

/// Counts for one line of a kernel's source, over all warps of a run.
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
    /// Branches at which active lanes of a warp went different ways.
    pub divergent_branches: u64,
    /// Requests of warps to global memory.
    pub requests: u64,
    /// Sectors of 32 bytes that these requests touched.
    pub sectors: u64,
    /// The fewest sectors that could hold the bytes of these requests' active lanes.
    pub ideal_sectors: u64,
    /// Wavefronts of shared memory.
    pub wavefronts: u64,
    /// The fewest wavefronts for the same bytes: those without bank conflicts.
    pub ideal_wavefronts: u64,
    /// Atomic operations of lanes.
    pub atomics: u64,
    /// Bytes that lanes requested from global, shared and local memory.
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

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
    /// The first request of each instruction that accesses memory, for up to four instructions a line, in the order of files and lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<WarpRequest>,
    /// The most shuffles that one warp executed in one launch.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub shuffles_of_a_warp: u64,
    /// The most barriers that one block passed in one launch.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub barriers_of_a_block: u64,
}

impl Emulated {
    /// Returns the sum over all lines; its file is empty and its line is 0.
    #[must_use]
    pub fn total(&self) -> LineCounts {
        let mut total = LineCounts::default();
        self.lines.iter().for_each(|line| total.add(line));
        total
    }

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

/// The effect of an access on memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AccessKind {
    /// It reads.
    #[default]
    Load,
    /// It writes.
    Store,
    /// It reads and writes in one step.
    Atomic,
}

/// The bytes that the lanes of one warp accessed with one instruction, in shared memory or in one buffer of global memory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct WarpRequest {
    /// Path of the source.
    pub file: String,
    /// Number of the line, counted from 1.
    pub line: u32,
    /// The kind of access.
    pub kind: AccessKind,
    /// True for shared memory, false for global memory.
    pub is_shared: bool,
    /// The buffer's name, such as "argument 1 (`x`)".
    pub place: String,
    /// The first lane that took part, such as "block (0, 0, 0), thread (0, 0, 0)".
    pub thread: String,
    /// Bytes that each lane accessed.
    pub bytes: u32,
    /// By lane: the offset of its first byte in the buffer; `None` for lanes that did not take part.
    pub offsets: Vec<Option<u64>>,
}

/// The traffic between warps and global memory of one kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Transfers {
    /// Requests of warps.
    pub requests: u64,
    /// Sectors of 32 bytes that these requests touched.
    pub sectors: u64,
    /// Bytes that lanes asked for.
    pub bytes: u64,
}

impl Transfers {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the counts of other requests.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.sectors += other.sectors;
        self.bytes += other.bytes;
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
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
    /// Loads from global memory, without atomics.
    #[serde(skip_serializing_if = "Transfers::is_none")]
    pub loads: Transfers,
    /// Stores to global memory, without atomics.
    #[serde(skip_serializing_if = "Transfers::is_none")]
    pub stores: Transfers,
    /// Words of 4 bytes that lanes loaded from shared memory.
    #[serde(skip_serializing_if = "is_zero")]
    pub shared_words_loaded: u64,
    /// Floating-point multiply-adds of lanes.
    #[serde(skip_serializing_if = "is_zero")]
    pub multiply_adds: u64,
    /// Shuffles of warps.
    #[serde(skip_serializing_if = "is_zero")]
    pub shuffles: u64,
    /// Arrivals of warps at barriers of their block.
    #[serde(skip_serializing_if = "is_zero")]
    pub barrier_arrivals: u64,
}

impl LineCounts {
    /// Adds the counts of another line or launch; file and line stay.
    pub fn add(&mut self, other: &Self) {
        self.instructions += other.instructions;
        self.active_lanes += other.active_lanes;
        self.divergent_branches += other.divergent_branches;
        self.requests += other.requests;
        self.sectors += other.sectors;
        self.ideal_sectors += other.ideal_sectors;
        self.wavefronts += other.wavefronts;
        self.ideal_wavefronts += other.ideal_wavefronts;
        self.atomics += other.atomics;
        self.bytes += other.bytes;
        self.loads.add(&other.loads);
        self.stores.add(&other.stores);
        self.shared_words_loaded += other.shared_words_loaded;
        self.multiply_adds += other.multiply_adds;
        self.shuffles += other.shuffles;
        self.barrier_arrivals += other.barrier_arrivals;
    }

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

    #[test]
    fn a_total_is_the_sum_over_lines_and_counts_of_zero_are_not_written() {
        let loads = Transfers { requests: 2, sectors: 8, bytes: 256 };
        let line = |line| LineCounts { file: "a.cu".into(), line, loads, shuffles: 5, ..LineCounts::default() };
        let emulated = Emulated { lines: vec![line(3), line(4)], ..Emulated::default() };
        let total = emulated.total();
        assert_eq!((total.loads.sectors, total.shuffles, total.stores), (16, 10, Transfers::default()));
        let json = serde_json::to_string(&emulated).unwrap();
        assert!(json.contains("\"loads\"") && !json.contains("\"stores\"") && !json.contains("of_a_block"), "{json}");
        assert_eq!(serde_json::from_str::<Emulated>(&json).unwrap(), emulated);
    }
}

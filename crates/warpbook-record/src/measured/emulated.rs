use serde::{Deserialize, Serialize};

/// Result of a run in the emulator: the findings of its checks and its counts, but no times.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Emulated {
    /// Orders in which blocks and warps ran, such as "forwards" and "backwards".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<String>,
    /// The first mistake that the checks found; `None` if they found none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<Finding>,
    /// Remarks on harmless facts, such as several threads writing the same value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Counts for each line of the source that has any, ordered by file and line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<LineCounts>,
    /// The first request of each instruction that accesses memory, for up to four instructions per line, ordered by file and line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<WarpRequest>,
    /// Maximum number of shuffles that one warp executed in one launch.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub shuffles_of_a_warp: u64,
    /// Maximum number of barriers that one block passed in one launch.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub barriers_of_a_block: u64,
}

impl Emulated {
    /// Returns the sum of the counts over all lines, with an empty file name and line 0.
    #[must_use]
    pub fn total(&self) -> LineCounts {
        let mut total = LineCounts::default();
        self.lines.iter().for_each(|line| total.add(line));
        total
    }

    /// Reason given for skipping a row whose result was right in the emulator, since such a row has no time.
    pub const NO_TIME: &'static str = "emulated: no time";
}

/// A mistake in a kernel, as the emulator describes it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Kind of the mistake, such as "race" or "out_of_bounds".
    pub cause: String,
    /// The whole finding in a sentence, including its place and threads.
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
    /// The access reads.
    #[default]
    Load,
    /// The access writes.
    Store,
    /// The access reads and writes in one step.
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
    #[serde(rename = "place")]
    pub buffer: String,
    /// The thread of the first lane that took part, such as "block (0, 0, 0), thread (0, 0, 0)".
    pub thread: String,
    /// Bytes that each lane accessed.
    pub bytes: u32,
    /// For each lane, the offset of its first byte in the buffer; `None` for lanes that did not take part.
    pub offsets: Vec<Option<u64>>,
}

/// The traffic between warps and global memory for one kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Transfers {
    /// Number of memory requests that warps made.
    pub requests: u64,
    /// Number of 32-byte sectors that these requests touched.
    pub sectors: u64,
    /// Number of bytes that the lanes requested.
    pub bytes: u64,
}

impl Transfers {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the counts of other requests to these counts.
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
    /// Number of instructions that warps executed.
    pub instructions: u64,
    /// Number of active lanes, summed over the instructions; at most 32 per instruction.
    pub active_lanes: u64,
    /// Number of branches at which active lanes of a warp diverged.
    pub divergent_branches: u64,
    /// Number of requests that warps made to global memory.
    pub requests: u64,
    /// Number of 32-byte sectors that these requests touched.
    pub sectors: u64,
    /// Least number of sectors that could contain the bytes requested by the active lanes.
    pub ideal_sectors: u64,
    /// Number of wavefronts of shared memory.
    pub wavefronts: u64,
    /// Least number of wavefronts for the same bytes, which is reached without bank conflicts.
    pub ideal_wavefronts: u64,
    /// Number of atomic instructions, counted for each warp.
    pub atomics: u64,
    /// Number of lanes that shared the most common address of an atomic instruction, summed over these instructions.
    #[serde(skip_serializing_if = "is_zero")]
    pub lanes_on_one_address: u64,
    /// Number of requests that warps made to shared memory.
    #[serde(skip_serializing_if = "is_zero")]
    pub shared_requests: u64,
    /// Number of bytes that lanes requested from global, shared and local memory together.
    pub bytes: u64,
    /// Number of bytes that lanes requested from shared memory; a part of `bytes`. It is 0 in older records.
    #[serde(skip_serializing_if = "is_zero")]
    pub shared_bytes: u64,
    /// Number of bytes that lanes requested from local memory; a part of `bytes`. It is 0 in older records.
    #[serde(skip_serializing_if = "is_zero")]
    pub local_bytes: u64,
    /// Loads from global memory, without atomics.
    #[serde(skip_serializing_if = "Transfers::is_none")]
    pub loads: Transfers,
    /// Stores to global memory, without atomics.
    #[serde(skip_serializing_if = "Transfers::is_none")]
    pub stores: Transfers,
    /// Number of 4-byte words that lanes loaded from shared memory.
    #[serde(skip_serializing_if = "is_zero")]
    pub shared_words_loaded: u64,
    /// Number of floating-point multiply-adds, counted for each lane.
    #[serde(skip_serializing_if = "is_zero")]
    pub multiply_adds: u64,
    /// Number of shuffles, counted for each warp.
    #[serde(skip_serializing_if = "is_zero")]
    pub shuffles: u64,
    /// Number of times that a warp arrived at a barrier of its block.
    #[serde(skip_serializing_if = "is_zero")]
    pub barrier_arrivals: u64,
}

impl LineCounts {
    /// Adds the counts of another line or launch; the file and the line stay the same.
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
        self.lanes_on_one_address += other.lanes_on_one_address;
        self.shared_requests += other.shared_requests;
        self.bytes += other.bytes;
        self.shared_bytes += other.shared_bytes;
        self.local_bytes += other.local_bytes;
        self.loads.add(&other.loads);
        self.stores.add(&other.stores);
        self.shared_words_loaded += other.shared_words_loaded;
        self.multiply_adds += other.multiply_adds;
        self.shuffles += other.shuffles;
        self.barrier_arrivals += other.barrier_arrivals;
    }

    /// Returns the mean number of active lanes per instruction; `None` if there were no instructions.
    #[must_use]
    pub fn mean_lanes(&self) -> Option<f64> {
        (self.instructions > 0).then(|| self.active_lanes as f64 / self.instructions as f64)
    }

    /// Returns the number of bytes that lanes requested from global memory; 0 if no warp made a request to it.
    #[must_use]
    pub fn global_bytes(&self) -> u64 {
        // Older records do not say which of the bytes are of shared and local memory.
        let own = self.loads.bytes + self.stores.bytes;
        let is_known = self.shared_bytes > 0 || self.wavefronts == 0;
        match self.requests {
            0 => 0,
            _ if is_known => self.bytes.saturating_sub(self.shared_bytes + self.local_bytes),
            _ => own,
        }
    }

    /// Returns the mean number of lanes that share an address in an atomic instruction; `None` if there were no atomic instructions, or in an older record,
    /// which does not have the count.
    #[must_use]
    pub fn mean_on_one_address(&self) -> Option<f64> {
        let has_count = self.atomics > 0 && self.lanes_on_one_address > 0;
        has_count.then(|| self.lanes_on_one_address as f64 / self.atomics as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_a_mean_over_instructions() {
        let line = LineCounts { instructions: 4, active_lanes: 66, ..LineCounts::default() };
        assert_eq!((line.mean_lanes(), LineCounts::default().mean_lanes()), (Some(16.5), None));
        let older = LineCounts { atomics: 4, ..LineCounts::default() };
        let line = LineCounts { lanes_on_one_address: 6, ..older.clone() };
        assert_eq!((line.mean_on_one_address(), older.mean_on_one_address()), (Some(1.5), None));
    }

    #[test]
    fn counts_by_level_are_added_written_and_absent_from_older_records() {
        let line = LineCounts {
            lanes_on_one_address: 1,
            shared_requests: 2,
            requests: 1,
            bytes: 12,
            shared_bytes: 4,
            local_bytes: 5,
            ..LineCounts::default()
        };
        let total = Emulated { lines: vec![line.clone(), line.clone()], ..Emulated::default() }.total();
        assert_eq!((total.lanes_on_one_address, total.shared_requests, total.bytes), (2, 4, 24));
        assert_eq!((total.global_bytes(), total.shared_bytes, total.local_bytes), (6, 8, 10));
        let json = serde_json::to_string(&line).unwrap();
        assert_eq!(serde_json::from_str::<LineCounts>(&json).unwrap(), line);
        let older = r#"{ "file": "a.cu", "line": 7, "atomics": 1, "bytes": 128, "a_count_of_the_future": 1 }"#;
        let older: LineCounts = serde_json::from_str(older).unwrap();
        assert_eq!((older.bytes, older.shared_bytes, older.lanes_on_one_address), (128, 0, 0));
        assert!(!serde_json::to_string(&older).unwrap().contains("shared_bytes"));
        // An older record has only the sum of the levels.
        let loads = Transfers { requests: 1, sectors: 4, bytes: 128 };
        let older = LineCounts { requests: 1, wavefronts: 1, bytes: 256, loads, ..LineCounts::default() };
        assert_eq!((older.global_bytes(), LineCounts { wavefronts: 0, ..older.clone() }.global_bytes()), (128, 256));
        assert_eq!(LineCounts { requests: 0, ..older }.global_bytes(), 0);
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

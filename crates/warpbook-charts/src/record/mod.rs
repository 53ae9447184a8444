//! Figures and texts derived from a record. Nothing here draws.

pub(crate) mod changes;
pub(crate) mod comparable;
pub(crate) mod counters;
pub(crate) mod headline;
pub(crate) mod kind;
pub(crate) mod ladder_table;
pub(crate) mod measure;
pub(crate) mod names;
pub(crate) mod noise;
pub(crate) mod timing;
pub(crate) mod verdict;

pub(crate) use comparable::{Aligned, aligned, difference_of_lines, same_meaning, unlike};
pub(crate) use headline::{claim, claim_of_memory, least_memory};
pub(crate) use kind::{RunnerKind, is_library, is_own};
pub(crate) use ladder_table::{LadderTable, columns};
pub(crate) use measure::{Measure, OF_PEAK_MEMORY, peak_bytes, spread};
pub(crate) use names::{
    MAX_LABEL, device, devices, heading, joined, label, line_label, name, names, pass, quoted, record_labels,
    size_label, size_number,
};
pub(crate) use noise::{Error, LogMedian, Ratio, THRESHOLD, sum, threshold};
pub(crate) use timing::{debug_note, l2, l2_state, median_of, medians, policy_note, timing_note};
pub(crate) use verdict::{Ceiling, arithmetic_name, bound, divergence, missing, of_bound, of_gpus, usable, verdict};

//! Activity recorded on a GPU (kernels, copies and fills), and the driver calls that caused it.

use std::collections::BTreeMap;

/// The type of work that an [`Activity`] did, with its size.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ActivityKind {
    /// A run of a kernel.
    Kernel {
        /// Number of blocks in x, y and z.
        grid: [u32; 3],
        /// Number of threads per block in x, y and z.
        block: [u32; 3],
        /// Number of registers per thread.
        registers: u32,
        /// Static and dynamic shared memory per block, in bytes.
        shared_bytes: u64,
    },
    /// A memory copy.
    Copy {
        /// Number of bytes copied.
        bytes: u64,
    },
    /// A fill of memory with a value.
    Fill {
        /// Number of bytes filled.
        bytes: u64,
    },
    /// All work that one part of a program queued on a stream, timed by two events.
    Range,
}

impl ActivityKind {
    /// Returns the number of bytes that a copy or a fill transferred.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Self::Copy { bytes } | Self::Fill { bytes } => Some(*bytes),
            _ => None,
        }
    }
}

/// An activity on a GPU: a kernel, a copy or a fill, with its start and duration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// The type of work, with its size.
    pub kind: ActivityKind,
    /// A kernel's name without arguments and template arguments, or a description such as "copy to the device" or
    /// "fill".
    pub name: String,
    /// Nanoseconds from the start of the recorder to the activity's start.
    pub start_ns: u64,
    /// Duration in nanoseconds.
    pub duration_ns: u64,
    /// Id of the stream, as numbered by CUPTI.
    pub stream: u32,
    /// Id shared by all activities that one driver call caused, such as the launch of a graph. Later calls have larger
    /// ids.
    pub correlation: u32,
    /// The ids of the graph and the node, if the activity was part of a graph. Both are CUPTI's ids; nodes that were
    /// added later have larger ones.
    pub graph: Option<(u32, u64)>,
}

impl Activity {
    /// Returns the nanoseconds from the start of the recorder to the activity's end.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.duration_ns)
    }
}

/// A driver call by the host, such as the launch of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The function's name, such as "cuLaunchKernel".
    pub name: String,
    /// Nanoseconds from the start of the recorder to the call's start.
    pub start_ns: u64,
    /// Duration of the call on the host in nanoseconds.
    pub duration_ns: u64,
    /// Id of the calling thread, as numbered by the operating system.
    pub thread: u32,
    /// The id that the activities caused by the call have as `correlation`.
    pub correlation: u32,
}

/// The result of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recorded {
    /// Activities sorted by their start.
    pub activities: Vec<Activity>,
    /// Driver calls sorted by their start; empty unless recorded by [`crate::Recorder::with_calls`].
    pub calls: Vec<Call>,
    /// The innermost id passed to [`crate::Recorder::enter`], by the correlation of the calls made inside.
    pub ranges: BTreeMap<u32, u64>,
    /// Number of activities that CUPTI had no room for or did not time.
    pub lost: u64,
}

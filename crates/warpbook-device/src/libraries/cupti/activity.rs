//! Activity recorded on a GPU: kernels, copies and fills, and the driver calls that caused it.

use std::collections::BTreeMap;

/// Kind of an [`Activity`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ActivityKind {
    /// A kernel's run.
    Kernel {
        /// Grid in blocks.
        grid: [u32; 3],
        /// Block in threads.
        block: [u32; 3],
        /// Registers of a thread.
        registers: u32,
        /// Static and dynamic shared memory of a block, in bytes.
        shared_bytes: u64,
    },
    /// A copy.
    Copy {
        /// Bytes copied.
        bytes: u64,
    },
    /// A fill.
    Fill {
        /// Bytes filled.
        bytes: u64,
    },
    /// All work of a part of a program on a stream, timed by two events.
    Range,
}

impl ActivityKind {
    /// Bytes of a copy or a fill.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Self::Copy { bytes } | Self::Fill { bytes } => Some(*bytes),
            _ => None,
        }
    }
}

/// An activity of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// Kernel, copy or fill.
    pub kind: ActivityKind,
    /// A kernel's name without arguments and template arguments; "copy to the device", "fill".
    pub name: String,
    /// Nanoseconds from the start of the recorder to the activity's start.
    pub start_ns: u64,
    /// Duration in nanoseconds.
    pub duration_ns: u64,
    /// Stream, by CUPTI's number.
    pub stream: u32,
    /// Number shared by all activities of one driver call, such as the launch of a graph; larger for later calls.
    pub correlation: u32,
    /// The graph and the node as which it ran; nodes added later have larger numbers. Both are CUPTI's own
    /// numbers.
    pub graph: Option<(u32, u64)>,
}

impl Activity {
    /// Nanoseconds from the start of the recorder to the activity's end.
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
    /// Duration on the host in nanoseconds.
    pub duration_ns: u64,
    /// Thread, by the system's number.
    pub thread: u32,
    /// Correlation of the activities that the call caused.
    pub correlation: u32,
}

/// The result of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recorded {
    /// Activities by start.
    pub activities: Vec<Activity>,
    /// Driver calls by start; empty unless recorded by [`crate::Recorder::with_calls`].
    pub calls: Vec<Call>,
    /// Innermost id by correlation, for calls made after [`crate::Recorder::enter`].
    pub ranges: BTreeMap<u32, u64>,
    /// Activities for which CUPTI had no room, or that it did not time.
    pub lost: u64,
}

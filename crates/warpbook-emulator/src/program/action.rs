//! The interpreter's instructions. Their operands are rows: registers or constants across the 32 lanes of a warp.

use crate::compute::{Combine, Compare, Compute};
use crate::ptx::{SourcePosition, Space};
use std::sync::Arc;

/// Index of a row: a register, constant or special register with a value for each of the 32 lanes.
pub(crate) type RowIndex = u32;

/// Marks a missing row or instruction.
pub(crate) const NONE: u32 = u32::MAX;

/// Computes the new value of an atomic operation from the old value and two operands.
pub(crate) type Update = fn(u64, u64, u64) -> u64;

/// A decoded instruction.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// The guard predicate, and true if the instruction runs only where the predicate is false.
    pub(crate) guard: Option<(RowIndex, bool)>,
    pub(crate) action: Action,
    /// The opcode with its modifiers; empty for the exit that is added after the last instruction.
    pub(crate) opcode: Arc<str>,
    /// Index of the instruction at which lanes that diverge here reconverge: the immediate post-dominator. [`NONE`] if they do not reconverge.
    pub(crate) meet: u32,
    /// Line number in the PTX. The exit that is added has the line of the last instruction.
    pub(crate) line: u32,
    pub(crate) position: Option<Arc<SourcePosition>>,
}

/// The effect of an instruction.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    Compute {
        compute: Compute,
        into: RowIndex,
        from: [RowIndex; 4],
    },
    Compare(Comparison),
    /// Packs values of `bits` bits each into one register. The first value becomes the lowest bits.
    Pack {
        into: RowIndex,
        parts: Vec<RowIndex>,
        bits: u64,
    },
    Unpack {
        from: RowIndex,
        parts: Vec<RowIndex>,
        bits: u64,
    },
    /// Loads values into register rows. A value whose row is [`NONE`] is dropped.
    Load(Access, Vec<RowIndex>),
    Store(Access, Vec<RowIndex>),
    Atomic {
        access: Access,
        /// Updates global memory.
        update: Update,
        /// Updates shared memory. It differs from `update` only in its treatment of denormals.
        shared_update: Update,
        into: RowIndex,
        operands: [RowIndex; 2],
    },
    Branch(u32),
    /// A jump through a table, with the row of the table index, and the targets in the table.
    BranchTable(RowIndex, Vec<u32>),
    Exit,
    Trap,
    Barrier(Barrier),
    Collective(Collective),
    ActiveMask(RowIndex),
    /// Reads the number of executed instructions, which replaces clock cycles and nanoseconds.
    Clock(RowIndex),
    /// A call of `vprintf`, with the offsets of its format, arguments and result in the thread's frame.
    Print([i64; 3]),
    /// A call of `__assertfail`, with the offsets of its message, file and line in the thread's frame.
    Assertion([i64; 3]),
    /// A memory fence for the whole GPU, or only for the block.
    Fence {
        is_for_block: bool,
    },
    /// Lets other lanes and warps run first, for `nanosleep`.
    Pause,
    /// Does nothing, for prefetches and other hints.
    Nothing,
}

/// A comparison (`setp`).
#[derive(Debug, Clone)]
pub(crate) struct Comparison {
    pub(crate) compare: Compare,
    pub(crate) from: [RowIndex; 2],
    /// The predicate with which the outcome is combined, and true if the predicate is negated.
    pub(crate) combine: Option<(Combine, RowIndex, bool)>,
    pub(crate) into: RowIndex,
    /// Row for the second result: the negated outcome, combined with the same predicate.
    pub(crate) opposite_into: RowIndex,
}

/// An access to memory by each active lane.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) space: Space,
    /// Size of an element in bytes. The elements of a vector are adjacent.
    pub(crate) bytes: u8,
    /// Size in bytes to which a loaded element is sign-extended; 0 if it is zero-extended.
    pub(crate) sign_to: u8,
    pub(crate) base: RowIndex,
    pub(crate) offset: i64,
    pub(crate) strength: Strength,
    /// True if the access is ordered only with respect to threads of the same block (`.cta`).
    pub(crate) is_for_block: bool,
}

/// The memory order of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strength {
    Weak,
    Volatile,
    Relaxed,
    Acquire,
    Release,
    AcquireRelease,
}

/// A barrier of the block (`bar` or `barrier`).
#[derive(Debug, Clone)]
pub(crate) struct Barrier {
    pub(crate) number: RowIndex,
    /// Row with the number of threads that meet at the barrier; [`NONE`] for all threads of the block.
    pub(crate) count: RowIndex,
    pub(crate) kind: BarrierKind,
}

/// The kind of barrier operation that threads execute.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BarrierKind {
    Wait,
    /// The threads arrive, and continue without waiting.
    Arrive,
    Reduce {
        reduction: Reduction,
        from: RowIndex,
        is_negated: bool,
        into: RowIndex,
    },
}

/// The function with which a barrier combines the predicates of a block's threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reduction {
    Count,
    All,
    Any,
}

/// An operation among the lanes in a mask, which wait for each other.
#[derive(Debug, Clone)]
pub(crate) struct Collective {
    pub(crate) kind: CollectiveKind,
    pub(crate) mask: RowIndex,
    pub(crate) into: RowIndex,
    /// Row for the second result: true if a shuffle's source is in range, or if all lanes match.
    pub(crate) predicate_into: RowIndex,
    /// Rows of the value and, for shuffles, of the source lane and the clamp.
    pub(crate) from: [RowIndex; 3],
    pub(crate) is_negated: bool,
}

/// The kind of a collective operation.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CollectiveKind {
    /// Only waits for the other lanes (`bar.warp.sync`).
    Wait,
    Shuffle(Shuffle),
    VoteAll,
    VoteAny,
    VoteUniform,
    Ballot,
    MatchAny,
    MatchAll,
    /// A reduction (`redux`), with the function that combines two values.
    Reduce(Update),
}

/// The rule by which a shuffle chooses the source lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

//! Steps of the interpreter: instructions whose operands are rows of a warp's registers.

use crate::compute::{Combine, Compare, Compute};
use crate::ptx::{Place, Space};
use std::sync::Arc;

/// A row of a warp's registers: a register, a constant or a special register, 32 lanes wide.
pub(crate) type Row = u32;

/// No row, or no instruction.
pub(crate) const NONE: u32 = u32::MAX;

/// Computes the new value of an atomic from the old one and two operands.
pub(crate) type Update = fn(u64, u64, u64) -> u64;

/// One instruction, ready to run.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// The predicate that guards it, and true if the predicate has to be false.
    pub(crate) guard: Option<(Row, bool)>,
    pub(crate) action: Action,
    /// The opcode with its modifiers; empty for the exit at the end.
    pub(crate) opcode: Arc<str>,
    /// The instruction at which lanes that part here meet again, the immediate post-dominator; [`NONE`] if they do not meet.
    pub(crate) meet: u32,
    /// Line of the PTX.
    pub(crate) line: u32,
    pub(crate) place: Option<Arc<Place>>,
}

/// The action of an instruction.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    Compute {
        compute: Compute,
        into: Row,
        from: [Row; 4],
    },
    Compare(Comparison),
    /// Packs parts of `bits` bits into one register, the first one lowest.
    Pack {
        into: Row,
        parts: Vec<Row>,
        bits: u64,
    },
    Unpack {
        from: Row,
        parts: Vec<Row>,
        bits: u64,
    },
    /// Loads values into registers; [`NONE`] drops a value.
    Load(Access, Vec<Row>),
    Store(Access, Vec<Row>),
    Atomic {
        access: Access,
        update: Update,
        into: Row,
        operands: [Row; 2],
    },
    Branch(u32),
    /// The index, and the targets by index.
    BranchTable(Row, Vec<u32>),
    Exit,
    Trap,
    Barrier(Barrier),
    Collective(Collective),
    ActiveMask(Row),
    /// Reads the number of steps so far, in place of clocks or nanoseconds.
    Clock(Row),
    /// A call of `vprintf`: where its parameters and its result are in the thread's frame: format, arguments, result.
    Print([i64; 3]),
    /// A call of `__assertfail`: where its parameters are in the thread's frame: message, file, line.
    Assertion([i64; 3]),
    /// A fence for the GPU, or only for the block.
    Fence {
        is_for_block: bool,
    },
    /// Lets other splits and warps run first.
    Pause,
    /// A prefetch or another hint, which changes no value.
    Nothing,
}

/// `setp`.
#[derive(Debug, Clone)]
pub(crate) struct Comparison {
    pub(crate) compare: Compare,
    pub(crate) from: [Row; 2],
    /// The predicate that the outcome is combined with, and true if it is negated.
    pub(crate) combine: Option<(Combine, Row, bool)>,
    pub(crate) into: Row,
    /// The row of the combination with the opposite outcome.
    pub(crate) opposite_into: Row,
}

/// An access to memory by each active lane.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) space: Space,
    /// Bytes of an element; a vector's elements are adjacent.
    pub(crate) bytes: u8,
    /// Size in bytes to which a loaded element is extended with its sign; 0 if it is extended with zeros.
    pub(crate) sign_to: u8,
    pub(crate) base: Row,
    pub(crate) offset: i64,
    pub(crate) strength: Strength,
    /// True if the access is ordered for its own block only (`.cta`).
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

/// `bar` and `barrier`.
#[derive(Debug, Clone)]
pub(crate) struct Barrier {
    pub(crate) number: Row,
    /// The number of threads that meet; [`NONE`] for all threads of the block.
    pub(crate) count: Row,
    pub(crate) kind: BarrierKind,
}

/// The action of threads at a barrier.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BarrierKind {
    Wait,
    /// The threads are counted, and go on.
    Arrive,
    Reduce {
        reduction: Reduction,
        from: Row,
        is_negated: bool,
        into: Row,
    },
}

/// A reduction of predicates over a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reduction {
    Count,
    All,
    Any,
}

/// An operation of the lanes that a mask names, which wait for each other.
#[derive(Debug, Clone)]
pub(crate) struct Collective {
    pub(crate) kind: CollectiveKind,
    pub(crate) mask: Row,
    pub(crate) into: Row,
    /// The second result: true if a shuffle's source was in range, or if all lanes match.
    pub(crate) predicate_into: Row,
    /// The value; for shuffles also the lane and the clamp.
    pub(crate) from: [Row; 3],
    pub(crate) is_negated: bool,
}

/// An operation among lanes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CollectiveKind {
    /// `bar.warp.sync`.
    Wait,
    Shuffle(Shuffle),
    VoteAll,
    VoteAny,
    VoteUniform,
    Ballot,
    MatchAny,
    MatchAll,
    /// `redux`, with the function that combines two values.
    Reduce(Update),
}

/// The direction of a shuffle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

//! What the interpreter executes: instructions with their operands as rows of a warp's registers.

use crate::compute::{Combine, Compare, Compute};
use crate::ptx::{Place, Space};
use std::sync::Arc;

/// A row of a warp's registers: a register, a constant or a special register, 32 lanes wide.
pub(crate) type Row = u32;

/// No row, or no instruction.
pub(crate) const NONE: u32 = u32::MAX;

/// The new value of an atomic, from the old one and two operands.
pub(crate) type Update = fn(u64, u64, u64) -> u64;

/// One instruction, ready to run.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// The predicate that it depends on, and whether it has to be false; [`NONE`] if there is none.
    pub(crate) guard: Row,
    pub(crate) guard_negated: bool,
    pub(crate) action: Action,
    /// With its modifiers; empty for the exit at the end.
    pub(crate) opcode: Arc<str>,
    /// Where lanes that part at this instruction meet again: its immediate post-dominator; [`NONE`] if they do not.
    pub(crate) meet: u32,
    /// Line of the PTX.
    pub(crate) line: u32,
    pub(crate) place: Option<Arc<Place>>,
}

/// What an instruction does.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    Compute {
        compute: Compute,
        into: Row,
        from: [Row; 4],
    },
    Compare(Comparison),
    /// The parts one after another in one register, the first lowest, each so many bits wide.
    Pack {
        into: Row,
        parts: Vec<Row>,
        bits: u32,
    },
    Unpack {
        from: Row,
        parts: Vec<Row>,
        bits: u32,
    },
    /// Values into registers; [`NONE`] drops one.
    Load(Access, Vec<Row>),
    Store(Access, Vec<Row>),
    Atomic {
        access: Access,
        update: Update,
        into: Row,
        operands: [Row; 2],
    },
    Branch(u32),
    BranchTable {
        index: Row,
        targets: Vec<u32>,
    },
    Exit,
    Trap,
    Barrier(Barrier),
    Collective(Collective),
    ActiveMask(Row),
    /// Steps so far, in place of clocks or nanoseconds.
    Clock(Row),
    /// A call of `vprintf`: where its parameters and its result are in the thread's frame: format, arguments, result.
    Print([i64; 3]),
    /// A call of `__assertfail`: where its parameters are in the thread's frame: message, file, line.
    Assertion([i64; 3]),
    /// A fence; of the own block only, or of the GPU.
    Fence {
        is_for_block: bool,
    },
    /// A pause, after which others have their turn.
    Pause,
    /// A prefetch: nothing that changes a value.
    Nothing,
}

/// `setp`.
#[derive(Debug, Clone)]
pub(crate) struct Comparison {
    pub(crate) compare: Compare,
    pub(crate) from: [Row; 2],
    /// With what the outcome is combined, and whether that is negated.
    pub(crate) combine: Option<(Combine, Row, bool)>,
    pub(crate) into: Row,
    /// Where the combination with the opposite outcome goes.
    pub(crate) opposite_into: Row,
}

/// An access to memory by each active lane.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) space: Space,
    /// Bytes of an element; a vector's elements are adjacent.
    pub(crate) bytes: u8,
    /// A loaded element is extended with its sign to so many bytes; 0: with zeros.
    pub(crate) sign_to: u8,
    pub(crate) base: Row,
    pub(crate) offset: i64,
    pub(crate) strength: Strength,
    /// True if only the own block is meant to see it in order (`.cta`).
    pub(crate) is_for_block: bool,
}

/// How an access is ordered with those of other threads.
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
    /// Threads that meet; [`NONE`]: all of the block.
    pub(crate) count: Row,
    pub(crate) kind: BarrierKind,
}

/// What threads do at a barrier.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BarrierKind {
    Wait,
    /// They are counted, and go on.
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
    /// The second result: whether a shuffle's source was in range, or whether all lanes match.
    pub(crate) predicate_into: Row,
    /// Value, and of shuffles lane and clamp.
    pub(crate) from: [Row; 3],
    pub(crate) is_negated: bool,
}

/// What lanes do together.
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
    /// `redux`, by what it makes of two values.
    Reduce(Update),
}

/// Which lane a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

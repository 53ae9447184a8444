//! Errors: PTX that cannot be run, and faults of a running kernel.

use crate::program::Step;
use crate::ptx::SourcePosition;
use std::fmt;

/// The reason why PTX is rejected: it is invalid or unsupported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Line of the PTX, counted from 1; 0 if the error concerns the whole text.
    pub line: u32,
    /// Column of the PTX, counted from 1.
    pub column: u32,
    /// Position in the kernel's source; `None` if it is unknown.
    pub position: Option<SourcePosition>,
    /// The error as a sentence.
    pub message: String,
}

impl Refusal {
    pub(crate) fn new((line, column): (u32, u32), message: impl Into<String>) -> Self {
        Self { line, column, position: None, message: message.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(position) = &self.position {
            write!(f, "{position}: ")?;
        }
        write!(f, "{} (PTX line {}, column {})", self.message, self.line, self.column)
    }
}

impl std::error::Error for Refusal {}

/// A thread of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread {
    /// The block's index in the grid.
    pub block: [u32; 3],
    /// The thread's index in its block.
    pub thread: [u32; 3],
}

impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([a, b, c], [x, y, z]) = (self.block, self.thread);
        write!(f, "block ({a}, {b}, {c}), thread ({x}, {y}, {z})")
    }
}

/// The reason why a kernel was stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The launch itself is impossible, for example because the block is too large.
    Launch,
    /// A thread accessed memory outside every buffer.
    OutOfBounds,
    /// A thread accessed an address that is not a multiple of the access's size.
    Misaligned,
    /// An address, a branch or a stored value depends on memory or a variable that was never written.
    Unwritten,
    /// Two threads access the same byte, at least one of them writes it, and nothing orders the two accesses.
    Race,
    /// Threads wait for other threads that never arrive.
    Barrier,
    /// The kernel used up its budget of steps.
    Endless,
    /// The kernel executed `trap`, or an assertion failed.
    Trap,
    /// The kernel tried something that the emulator cannot do.
    Unsupported,
}

impl Cause {
    /// Returns the name of the cause in records, such as `out_of_bounds`.
    #[must_use]
    pub fn id(&self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::OutOfBounds => "out_of_bounds",
            Self::Misaligned => "misaligned",
            Self::Unwritten => "unwritten",
            Self::Race => "race",
            Self::Barrier => "barrier",
            Self::Endless => "endless",
            Self::Trap => "trap",
            Self::Unsupported => "unsupported",
        }
    }
}

/// A fault of a kernel that ended its launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Kind of the fault.
    pub cause: Cause,
    /// A sentence that describes the fault.
    pub message: String,
    /// Position in the kernel's source; `None` if it is unknown.
    pub position: Option<SourcePosition>,
    /// Line of the PTX; 0 if the launch itself is at fault.
    pub ptx_line: u32,
    /// The thread that caused the fault; `None` if no single thread did.
    pub thread: Option<Thread>,
}

impl Fault {
    pub(crate) fn new(cause: Cause, message: impl Into<String>) -> Self {
        Self { cause, message: message.into(), position: None, ptx_line: 0, thread: None }
    }

    /// Adds the source position and the PTX line of an instruction to the fault.
    pub(crate) fn at(self, step: &Step) -> Self {
        Self { position: step.position.as_deref().cloned(), ptx_line: step.line, ..self }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(position) = &self.position {
            write!(f, "{position}: ")?;
        }
        write!(f, "{}", self.message)?;
        match &self.thread {
            Some(thread) => write!(f, " ({thread})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Fault {}

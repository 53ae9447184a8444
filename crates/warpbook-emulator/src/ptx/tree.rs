//! The syntax tree of a module: variables, functions and instructions. Names are already resolved.

use super::types::{Space, Type};
use std::fmt;
use std::sync::Arc;

/// A position in a kernel's source, from a `.loc` directive.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SourcePosition {
    /// Name of the file as it was given to the compiler.
    pub file: Arc<str>,
    /// Line number, counted from 1.
    pub line: u32,
    /// Column number, counted from 1; 0 if it is unknown.
    pub column: u32,
    /// File and line of the call, if the code at this position was inlined.
    pub inlined_at: Option<(Arc<str>, u32)>,
}

impl fmt::Display for SourcePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, line {}", self.file, self.line)?;
        match &self.inlined_at {
            Some((file, line)) if *file == self.file => write!(f, " (called in line {line})"),
            Some((file, line)) => write!(f, " (called in {file}, line {line})"),
            None => Ok(()),
        }
    }
}

/// A parsed PTX module.
#[derive(Debug, Clone)]
pub struct Module {
    pub(crate) variables: Vec<Variable>,
    pub(crate) functions: Vec<Function>,
}

/// Identifies a variable of the module or of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum VariableId {
    /// An index into [`Module::variables`].
    Module(u32),
    /// An index into [`Function::variables`].
    Function(u32),
}

/// A variable in memory, not in a register.
#[derive(Debug, Clone)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) space: Space,
    pub(crate) align: u64,
    /// Size in bytes; 0 for an array whose size the launch sets.
    pub(crate) bytes: u64,
    /// The initial bytes. Any further bytes of the variable are zero.
    pub(crate) initial: Vec<u8>,
}

/// A register of a function, given by its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Register(pub(crate) u32);

/// An entry or a device function.
#[derive(Debug, Clone, Default)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) is_entry: bool,
    /// Results and parameters, as indices into `variables`.
    pub(crate) results: Vec<u32>,
    pub(crate) parameters: Vec<u32>,
    /// Directives such as `.maxntid`, with their numbers.
    pub(crate) directives: Vec<(String, Vec<u64>)>,
    /// False for a declaration without a body, such as `vprintf`.
    pub(crate) has_body: bool,
    pub(crate) registers: Vec<Type>,
    pub(crate) variables: Vec<Variable>,
    pub(crate) instructions: Vec<Instruction>,
    pub(crate) at: (u32, u32),
}

/// An instruction of a function.
#[derive(Debug, Clone)]
pub(crate) struct Instruction {
    /// Line and column in the PTX.
    pub(crate) at: (u32, u32),
    pub(crate) position: Option<Arc<SourcePosition>>,
    /// The guard predicate, and true if the instruction runs only where the predicate is false.
    pub(crate) guard: Option<(Register, bool)>,
    /// The opcode with its modifiers, such as `ld.global.v4.f32`.
    pub(crate) opcode: String,
    pub(crate) operands: Vec<Operand>,
}

/// An operand of an instruction, with names resolved.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Operand {
    Register(Register),
    /// A negated predicate, such as `!%p1`.
    Not(Register),
    /// A pair of results, such as `%r1|%p2`; `None` for `_`.
    Pair(Option<Register>, Option<Register>),
    /// A result that is dropped, written `_`.
    Nothing,
    /// A special register, such as `%tid.x`.
    Special(String),
    Integer(u64),
    Single(u32),
    Double(u64),
    /// The address of a variable plus an offset.
    Variable(VariableId, i64),
    /// A memory operand `[base+offset]`. The base is a register, a variable or a number.
    Address(Box<Self>, i64),
    /// A vector, such as `{a, b}`.
    Vector(Vec<Self>),
    /// The results or the parameters of a call, such as `(a, b)`.
    List(Vec<Self>),
    /// The target of a jump, as the index of an instruction.
    Target(u32),
    /// The name of a function.
    Function(String),
}

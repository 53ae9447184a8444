//! The tree of a module: variables, functions and instructions, with names already resolved.

use super::types::{Space, Type};
use std::fmt;
use std::sync::Arc;

/// A place in a kernel's source, from `.loc`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// The file's name, as it was given to the compiler.
    pub file: Arc<str>,
    /// Line, counted from 1.
    pub line: u32,
    /// Column, counted from 1; 0 if it is not known.
    pub column: u32,
    /// Where the function of this place was inlined: (file, line).
    pub inlined_at: Option<(Arc<str>, u32)>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, line {}", self.file, self.line)?;
        match &self.inlined_at {
            Some((file, line)) if *file == self.file => write!(f, " (called in line {line})"),
            Some((file, line)) => write!(f, " (called in {file}, line {line})"),
            None => Ok(()),
        }
    }
}

/// A parsed text of PTX.
#[derive(Debug, Clone)]
pub struct Module {
    pub(crate) variables: Vec<Variable>,
    pub(crate) functions: Vec<Function>,
}

/// A variable of a module, or one of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum VariableId {
    /// By its index in [`Module::variables`].
    Module(u32),
    /// By its index in [`Function::variables`].
    Function(u32),
}

/// A variable outside registers.
#[derive(Debug, Clone)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) space: Space,
    pub(crate) align: u64,
    /// Size in bytes; 0 for an array whose size the launch sets.
    pub(crate) bytes: u64,
    /// The first bytes; those after them are zero.
    pub(crate) initial: Vec<u8>,
}

/// A register of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Register(pub(crate) u32);

/// An entry or a device function.
#[derive(Debug, Clone, Default)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) is_entry: bool,
    /// Results and parameters, by index in `variables`.
    pub(crate) results: Vec<u32>,
    pub(crate) parameters: Vec<u32>,
    /// Directives such as `.maxntid`, with their numbers.
    pub(crate) directives: Vec<(String, Vec<u64>)>,
    /// False for a mere declaration, such as `vprintf`.
    pub(crate) has_body: bool,
    pub(crate) registers: Vec<Type>,
    pub(crate) variables: Vec<Variable>,
    pub(crate) instructions: Vec<Instruction>,
    pub(crate) at: (u32, u32),
}

/// One instruction.
#[derive(Debug, Clone)]
pub(crate) struct Instruction {
    /// Line and column of the PTX.
    pub(crate) at: (u32, u32),
    pub(crate) place: Option<Arc<Place>>,
    /// The predicate that guards it, and true if the predicate has to be false.
    pub(crate) guard: Option<(Register, bool)>,
    /// The opcode with its modifiers: `ld.global.v4.f32`.
    pub(crate) opcode: String,
    pub(crate) operands: Vec<Operand>,
}

/// An operand with resolved names.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Operand {
    Register(Register),
    /// `!%p1`.
    Not(Register),
    /// `%r1|%p2`; `_` is `None`.
    Pair(Option<Register>, Option<Register>),
    /// `_`.
    Nothing,
    /// A special register, such as `%tid.x`.
    Special(String),
    Integer(u64),
    Single(u32),
    Double(u64),
    /// A variable's address with an offset.
    Variable(VariableId, i64),
    /// `[base+offset]`; the base is a register, a variable or a number.
    Address(Box<Self>, i64),
    /// `{a, b}`.
    Vector(Vec<Self>),
    /// `(a, b)` of a call.
    List(Vec<Self>),
    /// The index of an instruction.
    Target(u32),
    /// The name of a function.
    Function(String),
}

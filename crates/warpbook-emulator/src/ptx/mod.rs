//! PTX as text: the lexer, the parser and the syntax tree.

mod lexer;
mod parser;
mod statements;
mod tree;
mod types;

pub(crate) use tree::{Function, Instruction, Operand, Register, Variable, VariableId};
pub use tree::{Module, SourcePosition};
pub(crate) use types::{Space, Type};

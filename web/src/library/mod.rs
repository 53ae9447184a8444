//! The records that the page knows of, and how a file becomes one of them.

mod entries;
mod filter;
pub mod open;
pub mod origin;

pub use entries::{Entry, Library, Origin, State};
pub use filter::Filter;

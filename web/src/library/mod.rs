//! The records that the page knows, and how files are read into them.

pub mod class;
mod entries;
mod filter;
pub mod open;
pub mod origin;

pub use entries::{Entry, Library, Origin, State};
pub use filter::Filter;

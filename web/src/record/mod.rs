//! What of a record is shown: which parts, charts, problems and quantities it has, and what it says in words.

pub mod charts;
pub mod comparison;
pub mod facts;
pub mod policy;
pub mod problems;
pub mod quantities;
pub mod rungs;
mod summary;
mod tabs;

pub use summary::{Summary, facts};
pub use tabs::{Tab, charts_of};

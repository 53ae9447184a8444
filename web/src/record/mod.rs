//! The contents of a record's views: tabs, charts, problems, quantities and sentences.

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

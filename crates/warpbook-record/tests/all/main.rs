//! The tests of the crate's public interface, in one binary.

mod common;
mod golden;
mod older_pages;
mod round_trip;
#[cfg(feature = "schema")]
mod schema;

//! The tests of the crate's public interface, in one binary.

mod common;
mod golden;
mod round_trip;
#[cfg(feature = "schema")]
mod schema;

//! The crate's tests that need nothing but its public interface, in one executable.

mod common;
mod golden;
mod round_trip;
#[cfg(feature = "schema")]
mod schema;

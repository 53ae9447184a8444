//! The command `warpbook data`.

mod download;
mod fetch;

pub use fetch::data;

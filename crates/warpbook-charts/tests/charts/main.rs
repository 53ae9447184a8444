//! Every chart of records as they come, and of records that nobody would want.

mod activity;
mod common;
mod hostile;
mod ladders;
mod losses;
mod parts;
mod random;
mod records;
#[path = "../sample/mod.rs"]
mod sample;
mod sweeps;

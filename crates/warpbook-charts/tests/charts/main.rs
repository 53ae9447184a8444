//! Tests of every chart, on ordinary and on hostile records.

mod activity;
mod boards;
mod common;
mod comparisons;
mod confusion;
mod emulated;
mod exponents;
mod gains;
mod headlines;
mod hostile;
mod ladders;
mod links;
mod losses;
mod marks;
mod parts;
mod peaks;
mod phone;
mod random;
mod records;
#[path = "../sample/mod.rs"]
mod sample;
mod scaling;
mod sweeps;
mod xrays;

//! Tests of the program as users start it, in one binary.

mod attempt;
mod cli;
mod common;
mod exercise;
mod fetch;
mod gpu;
mod libraries;
mod outputs;
mod pages;
mod ranks;
mod scaling;
mod train;
mod trained_on;
mod training_loop;
mod whole;

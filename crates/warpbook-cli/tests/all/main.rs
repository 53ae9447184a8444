//! Tests of the program as its users start it, in one executable.

mod attempt;
mod cli;
mod common;
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

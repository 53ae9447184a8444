//! Operations with two bodies, one for the processor and one for CUDA, each in a folder of its own.
//!
//! So far: [`philox`], the random numbers that every experiment draws its data with.
#![deny(unsafe_code)]

pub mod philox;

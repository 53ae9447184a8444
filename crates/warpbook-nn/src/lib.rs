//! Operations with two bodies, one for the processor and one for CUDA, each in a folder of its own.
//!
//! So far: [`gemm`], the matrix product, and [`philox`], the random numbers that every experiment draws its data with.
#![deny(unsafe_code)]

pub mod gemm;
pub mod philox;
pub mod storage;

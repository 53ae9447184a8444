//! Operations with a CPU body and a CUDA body each.
//!
//! [`gemm`] is the matrix product, [`philox`] the random numbers that every experiment draws its data with, [`ops`] the operations
//! that neural networks are trained with.
#![deny(unsafe_code)]

pub mod gemm;
pub mod ops;
pub mod philox;
pub mod storage;

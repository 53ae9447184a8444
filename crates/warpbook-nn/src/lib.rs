//! Operations with a CPU body and a CUDA body each.
//!
//! [`gemm`] is the matrix product, [`philox`] the random numbers that every experiment draws its data with, [`data`] reads
//! labelled images.
#![deny(unsafe_code)]

pub mod data;
pub mod gemm;
pub mod philox;
pub mod network;
pub mod storage;
pub mod weights;

//! A small training engine, and the operations that it is made of.
//!
//! [`gemm`] is the matrix product, [`philox`] the random numbers that every experiment draws its data with, [`ops`] the operations
//! that networks are trained with, [`network`] a network as a list of layers with its [`weights`], [`data`] labelled images, [`train`] the
//! training itself, [`infer`] a trained network that is kept for use, [`tensor_parallel`] a product over
//! several GPUs.
#![deny(unsafe_code)]

pub mod data;
pub mod gemm;
pub mod infer;
pub mod model;
pub mod network;
pub mod ops;
pub mod parallel;
pub mod philox;
pub mod storage;
pub mod tensor;
pub mod tensor_parallel;
pub mod train;
pub mod weights;

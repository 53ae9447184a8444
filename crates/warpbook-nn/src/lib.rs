//! A small training engine, and the operations that it is made of.
//!
//! [`ops`] are the operations that networks are trained with, [`network`] is a network as a list of layers with its [`weights`], [`train`] the
//! training itself, [`infer`] a trained network that is kept for use. Products come from `warpbook_gemm`, labelled images from `warpbook_data`.
#![deny(unsafe_code)]

pub mod infer;
pub mod model;
pub mod network;
pub mod ops;
pub mod tensor;
pub mod train;
pub mod weights;

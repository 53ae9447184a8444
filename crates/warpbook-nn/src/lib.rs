//! A small training engine and its operations.
//!
//! [`ops`] holds the operations that networks are trained with, [`network`] a network as a list of layers with its [`weights`], [`train`]
//! the training itself, and [`infer`] a trained network frozen for use. Products come from `warpbook_gemm`, labelled images from
//! `warpbook_data`.
#![deny(unsafe_code)]

pub mod infer;
pub mod model;
pub mod network;
pub mod ops;
pub mod tensor;
pub mod train;
pub mod weights;

//! Tests of experiments and lessons that can share a process. Tests that record a whole process, or whose times on a
//! GPU others would disturb, have their own binaries next to this folder.

mod convolution;
#[path = "../../../warpbook-nn/tests/custom_layers/mod.rs"]
mod custom_layers;
mod driver;
mod guide;
mod own_layer;
mod regression;
mod scaling;
mod session;
mod solutions;
mod training;
mod training_loop;

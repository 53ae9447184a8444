//! Tests of experiments and lessons that can share a process. Tests that record a whole process, and tests whose times on a GPU others would disturb, have
//! executables of their own next to this folder.

mod convolution;
mod driver;
mod guide;
mod regression;
mod scaling;
mod session;
mod solutions;
mod training;
mod training_loop;

//! Tests of experiments and lessons that can share a process. Those that record a whole process, and those whose times on a GPU others would disturb, have executables of
//! their own next to this folder.

mod convolution;
mod driver;
mod guide;
mod regression;
mod scaling;
mod session;
mod solutions;
mod training;
mod training_loop;

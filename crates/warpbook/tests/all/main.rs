//! Tests of experiments and lessons that can share a process. Those that record a whole process have executables of their own next to this folder.

mod a_new_rung;
mod convolution;
mod driver;
mod guide;
mod lesson;
mod matmul;
mod regression;
mod scaling;
mod session;
mod solutions;
mod tensor_parallel;
mod training;

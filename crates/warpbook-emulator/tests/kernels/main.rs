//! Tests Warpbook's own kernels: NVRTC compiles them to PTX, the emulator runs them, and the results are
//! compared with loops on the CPU.

mod checks;
mod convolutions;
mod faults;
mod guide;
#[path = "../../examples/page/job.rs"]
mod job;
mod jobs;
mod learners;
mod machine;
mod network;
mod products;
mod regression;
mod softmax;
mod speed;
mod steps;
mod supported;
mod training;

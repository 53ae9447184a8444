//! Warpbook's own kernels, compiled by NVRTC to PTX, run by the emulator and compared with loops on the CPU.

mod checks;
mod faults;
mod guide;
mod learners;
mod machine;
mod network;
mod products;
mod regression;
mod softmax;
mod speed;
mod supported;

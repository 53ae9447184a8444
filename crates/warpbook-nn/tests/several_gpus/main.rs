//! Tests over all GPUs of a machine, in an executable of their own: what is queued on several GPUs waits for each other.

mod ranks;
mod tensor_parallel;

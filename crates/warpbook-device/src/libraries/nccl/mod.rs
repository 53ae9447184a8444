//! Collectives between GPUs by NCCL, loaded from wherever it is installed.
//!
//! Signatures and numbers are from nccl.h of version 2. Communicators are blocking: the calling thread queues their work, so that a capture
//! contains it. A call that may block forever, since it waits for the other ranks, is made on another thread with a time limit, or ended by
//! [`Communicator::abort`].

pub(crate) mod communicator;
pub(crate) mod handle;
pub(crate) mod library;
#[cfg(test)]
mod tests;
mod window;

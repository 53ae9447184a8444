//! Collectives between GPUs with NCCL, loaded from wherever it is installed.
//!
//! Signatures and constants are from nccl.h, version 2. Communicators are blocking: the calling thread queues their work, so that a capture
//! includes it. A call may block forever while it waits for other ranks, so such calls are made on another thread with a time limit, or
//! ended by [`Communicator::abort`].

pub(crate) mod communicator;
pub(crate) mod handle;
pub(crate) mod library;
#[cfg(test)]
mod tests;
mod window;

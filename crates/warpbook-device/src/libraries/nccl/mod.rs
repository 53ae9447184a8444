//! Collectives between GPUs by NCCL, loaded from wherever it is.
//!
//! Signatures and numbers are from nccl.h of version 2. Communicators are blocking: their work is
//! queued by the calling thread, so that a capture has it. A call that may block forever, since it waits for the other ranks, is made on another
//! thread with a time limit, or ended by [`Communicator::abort`].

pub(crate) mod communicator;
pub(crate) mod handle;
pub(crate) mod library;
#[cfg(test)]
mod tests;
mod window;

//! The id of a communicator, and a helper for NCCL calls that may block forever.

use super::library::{LOADED, Nccl2, RawCommunicator, UniqueId};
use crate::cuda::context::Inner;
use crate::libraries::loader::Status;
use crate::memory::allocation::Allocation;
use crate::{CudaDevice, Error, Result};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// An id that all ranks of a communicator share. Rank 0 creates it and sends its bytes to the others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NcclId([u8; 128]);

impl std::fmt::Debug for NcclId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NcclId")
    }
}

impl NcclId {
    /// Returns a new id.
    ///
    /// # Errors
    /// [`Error::Library`] if NCCL was not found, or NCCL's errors.
    pub fn new(device: &CudaDevice) -> Result<Self> {
        let nccl = LOADED.load(Some(device.driver_cuda()))?;
        let mut id = UniqueId([0; 128]);
        // SAFETY: the pointer points to `id`, which is live.
        let status = unsafe { (nccl.calls.unique_id)(&raw mut id) };
        check(&nccl, std::ptr::null_mut(), "an identifier", status)?;
        Ok(Self(id.0))
    }

    /// Returns the id's bytes, to be sent to the other ranks.
    #[must_use]
    pub fn bytes(&self) -> [u8; 128] {
        self.0
    }

    /// Returns the id with bytes that were received from rank 0.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 128]) -> Self {
        Self(bytes)
    }
}

/// A pointer that may be sent to another thread.
pub(super) struct NcclHandle(pub RawCommunicator);
// SAFETY: a communicator may be used from any thread, but only by one thread at a time; `ncclCommAbort` may be called at any time.
unsafe impl Send for NcclHandle {}
// SAFETY: a communicator may be used from any thread, but only by one thread at a time; `ncclCommAbort` may be called at any time.
unsafe impl Sync for NcclHandle {}

/// A registered window. It keeps its memory allocated until NCCL has deregistered it.
pub(super) struct Window {
    pub handle: NcclHandle,
    pub _memory: Arc<Allocation>,
}

pub(super) fn check(nccl: &Nccl2, communicator: RawCommunicator, what: &str, status: Status) -> Result<()> {
    if status == 0 {
        return Ok(());
    }
    Err(Error::Cuda {
        what: format!("NCCL, asked for {what},"),
        why: nccl.describe(status, communicator),
        sticky: false,
    })
}

fn waited(for_whom: &str, limit: Duration) -> Error {
    Error::Cuda {
        what: "NCCL, asked for a communicator,".into(),
        why: format!("has waited {limit:.0?} for {for_whom}: NCCL_DEBUG=INFO shows the reason"),
        sticky: false,
    }
}

/// Makes a call that may block forever on a separate thread, with the device's context current. The thread is abandoned
/// after the time limit.
pub(super) fn in_time<T: Send + 'static>(
    device: &Arc<Inner>,
    for_whom: &str,
    limit: Duration,
    call: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (to, made) = mpsc::channel();
    let device = device.clone();
    // If the call took too long, the receiver is gone and the result is ignored.
    std::thread::spawn(move || to.send(device.bind().and_then(|()| call())));
    made.recv_timeout(limit).unwrap_or_else(|_| Err(waited(for_whom, limit)))
}

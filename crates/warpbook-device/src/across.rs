//! Copies from one GPU's memory to another's, of one process.

use crate::{CudaDevice, Element, Error, Result, Slice, Stream};
use cudarc::driver::sys;
use std::sync::Arc;

impl CudaDevice {
    /// Lets this device read and write another one's memory directly, over NVLink or PCIe, where the two can; otherwise copies between them go
    /// through the host. Says which it is.
    ///
    /// # Errors
    /// The driver's.
    pub fn reach(&self, other: &Self) -> Result<bool> {
        if self.0.info.index == other.0.info.index {
            return Ok(true);
        }
        self.0.bind()?;
        let (context, peer) = (&self.0.context, &other.0.context);
        let mut can = 0;
        // SAFETY: both are devices of this process, and the answer is written to a live variable.
        unsafe { sys::cuDeviceCanAccessPeer(&raw mut can, context.cu_device(), peer.cu_device()) }
            .result()
            .map_err(|e| self.0.error("Asking for the memory of another GPU", e))?;
        if can == 0 {
            return Ok(false);
        }
        // SAFETY: this device's context is current, and the other's lives as long as `other`, whose primary context it is.
        match unsafe { sys::cuCtxEnablePeerAccess(peer.cu_ctx(), 0) } {
            sys::CUresult::CUDA_SUCCESS | sys::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => Ok(true),
            error => error.result().map(|()| true).map_err(|e| self.0.error("Reaching another GPU's memory", e)),
        }
    }
}

impl Stream {
    /// Queues a copy from one device's memory to another's, of which this stream is on either. An event orders it and what the other device does.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the stream is of a third device; the driver's.
    ///
    /// # Panics
    /// If the slices have different lengths.
    pub fn copy_across<T: Element>(&self, from: &Slice<T>, to: &Slice<T>) -> Result<()> {
        const WHAT: &str = "A copy between GPUs";
        assert_eq!(from.len(), to.len(), "as many elements on both sides of a copy");
        let (source, target, here) = (&from.memory().device, &to.memory().device, self.device.info.index);
        let [a, b] = [source.info.index, target.info.index];
        if a == b {
            return self.copy(from, to);
        }
        if a != here && b != here {
            return Err(Error::Unsupported {
                what: WHAT.into(),
                why: format!("from cuda:{a} to cuda:{b} needs a stream of one of the two, and this is of cuda:{here}"),
            });
        }
        if to.bytes() == 0 {
            return Ok(());
        }
        self.device.bind()?;
        let queueing = self.queueing()?;
        let (target_context, source_context) = (target.context.cu_ctx(), source.context.cu_ctx());
        // SAFETY: the ranges are the slices', whose memory lives until the copy has ended, and each is of the context that is given with it.
        unsafe {
            sys::cuMemcpyPeerAsync(to.address, target_context, from.address, source_context, to.bytes(), self.raw)
        }
        .result()
        .map_err(|e| self.device.error(WHAT, e))?;
        if let Some(mut captured) = queueing.captured() {
            [from.memory(), to.memory()].into_iter().for_each(|m| captured.keep(Arc::clone(m) as _));
        }
        Ok(())
    }
}

//! Copies from the memory of one GPU to that of another.
//!
//! If two devices can access each other's memory (over NVLink, or over PCIe below the same switch), peer access is enabled and a copy engine moves
//! the bytes directly. Otherwise, the same driver call moves them through host memory.

use crate::{CudaDevice, Element, Error, Result, Slice, Stream};
use cudarc::driver::sys::{self, cudaError_enum as Code};
use std::fmt;

/// The route that a copy between the memories of two devices takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Route {
    /// Within the memory of a single device.
    Within,
    /// Directly from one device to the other.
    Peer,
    /// Through host memory, because the devices cannot access each other's memory.
    Host,
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Within => "within one GPU's memory",
            Self::Peer => "from GPU to GPU (peer access)",
            Self::Host => "through host memory, since the GPUs cannot access each other's",
        })
    }
}

impl CudaDevice {
    /// Returns true if this device can read and write the memory of the other device.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn can_access(&self, other: &Self) -> Result<bool> {
        let mut can = 0;
        // SAFETY: the driver returned both devices, and `can` is live.
        unsafe {
            sys::cuDeviceCanAccessPeer(&raw mut can, self.0.context()?.cu_device(), other.0.context()?.cu_device())
                .result()
        }
        .map_err(|e| self.0.error("Asking whether two GPUs can access each other's memory", e))?;
        Ok(can != 0)
    }

    /// Enables two devices to access each other's memory for the rest of the process, if both support it, and returns the route that copies
    /// between them will take.
    ///
    /// # Errors
    /// The driver's errors, for example if a device already has its maximum number of peers.
    pub fn connect(&self, other: &Self) -> Result<Route> {
        if self.info().index == other.info().index {
            return Ok(Route::Within);
        }
        if !(self.can_access(other)? && other.can_access(self)?) {
            return Ok(Route::Host);
        }
        for (from, to) in [(self, other), (other, self)] {
            from.0.bind()?;
            // SAFETY: the current context belongs to `from`, and the context of `to` lives as long as its device.
            match unsafe { sys::cuCtxEnablePeerAccess(to.0.context()?.cu_ctx(), 0) } {
                Code::CUDA_SUCCESS | Code::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => {}
                Code::CUDA_ERROR_PEER_ACCESS_UNSUPPORTED => return Ok(Route::Host),
                refused => {
                    let what = format!("Letting cuda:{} access cuda:{}", from.info().index, to.info().index);
                    refused.result().map_err(|e| from.0.error(what, e))?;
                }
            }
        }
        Ok(Route::Peer)
    }
}

impl Stream {
    /// Queues a copy from one device's memory to another's; the stream may belong to either device. The copy is direct if [`CudaDevice::connect`]
    /// returned [`Route::Peer`], and otherwise goes through host memory. Both arrays stay allocated until the copy has ended.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the stream belongs to a third device or is being captured; the driver's errors.
    ///
    /// # Panics
    /// Panics if the slices have different lengths, or overlap.
    pub fn copy_across<T: Element>(&self, from: &Slice<T>, to: &Slice<T>) -> Result<()> {
        const WHAT: &str = "A copy between devices";
        let (source, target) = (&from.memory().device, &to.memory().device);
        let ([a, b], here) = ([source.info.index, target.info.index], self.device.info.index);
        if a == b {
            return self.copy(from, to);
        }
        assert_eq!(from.len(), to.len(), "as many elements on both sides of a copy");
        if a != here && b != here {
            let why = format!(
                "from cuda:{a} to cuda:{b} needs a stream of one of the two, but this one belongs to cuda:{here}"
            );
            return Err(Error::Unsupported { what: WHAT.into(), why });
        }
        if from.is_empty() {
            return Ok(());
        }
        self.device.bind()?;
        let queueing = self.queueing()?;
        if queueing.is_captured() {
            let why = "cannot be captured, because a graph refers to the memory of only one device; queue it each time";
            return Err(Error::Unsupported { what: WHAT.into(), why: why.into() });
        }
        let contexts = [target.context()?.cu_ctx(), source.context()?.cu_ctx()];
        // SAFETY: the ranges belong to the slices, whose devices own these contexts. The memory lives until the copy has ended, because it is lent to the
        // stream below.
        unsafe {
            sys::cuMemcpyPeerAsync(to.address, contexts[0], from.address, contexts[1], from.bytes(), self.raw).result()
        }
        .map_err(|e| self.device.error(WHAT, e))?;
        drop(queueing);
        self.lend([from.memory().clone(), to.memory().clone()])
    }

    /// Keeps memory of another device allocated until the kernels queued on this stream, which read or write it, have ended. Call this after
    /// queueing the kernels. It is needed because freeing memory waits only for work of the memory's own device.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn keep_across<T: Element>(&self, used: &Slice<T>) -> Result<()> {
        if used.device_index() == self.device.info.index {
            return Ok(());
        }
        self.lend([used.memory().clone(), used.memory().clone()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, testing};

    fn numbers(n: usize) -> Vec<f32> {
        (0..n).map(|i| i as f32 * 0.5 - 7.0).collect()
    }

    #[test]
    fn a_copy_within_a_device_is_an_ordinary_one() {
        let Some(device) = testing::gpu("a_copy_within_a_device_is_an_ordinary_one") else { return };
        assert_eq!(device.connect(&device.clone()).unwrap(), Route::Within);
        let stream = device.stream().unwrap();
        let (from, to) = (device.buffer_from(&numbers(1000)).unwrap(), device.zeros::<f32>(1000).unwrap());
        stream.copy_across(&from.range(10..), &to.range(..990)).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(to.to_vec().unwrap()[..990], numbers(1000)[10..]);
        assert!(stream.lent.lock().unwrap().is_empty());
    }

    /// Copies go through host memory until code in this process has connected the devices; after that they are direct.
    #[test]
    fn copies_reach_the_other_gpu() {
        let name = "copies_reach_the_other_gpu";
        let _one = testing::one_at_a_time();
        let Some([first, second]) = testing::two_gpus(name) else { return };
        let n = (1 << 20) + 3;
        for connected in [false, true] {
            if connected {
                let route = first.connect(&second).unwrap();
                assert_eq!(route, second.connect(&first).unwrap());
                assert_eq!(route == Route::Peer, first.can_access(&second).unwrap());
                println!("copies go {route}");
            }
            let stream = second.stream().unwrap();
            let to = first.zeros::<f32>(n).unwrap();
            {
                let from = second.buffer_from(&numbers(n)).unwrap();
                stream.copy_across(&from.range(..), &to.range(..)).unwrap();
                // A second copy between the same two arrays adds no new entry. The source is dropped while the copy may still be running.
                stream.copy_across(&from.range(1..), &to.range(1..)).unwrap();
                assert_eq!(stream.lent.lock().unwrap().len(), 1);
            }
            stream.synchronize().unwrap();
            assert!(stream.lent.lock().unwrap().is_empty(), "what was lent is given back");
            assert!(to.to_vec().unwrap() == numbers(n));
            // This copy is queued on a stream of the receiving device.
            let (from, receiving) = (second.buffer_from(&numbers(n)).unwrap(), first.stream().unwrap());
            to.fill_bytes(0).unwrap();
            receiving.copy_across(&from.range(..), &to.range(..)).unwrap();
            receiving.synchronize().unwrap();
            assert!(to.to_vec().unwrap() == numbers(n));
            // The source is dropped while its copy is running.
            let from = second.buffer_from(&numbers(n)).unwrap();
            stream.copy_across(&from.range(..), &to.range(..)).unwrap();
            drop((from, stream));
            first.synchronize().unwrap();
            second.synchronize().unwrap();
            assert!(to.to_vec().unwrap() == numbers(n));
        }
    }

    #[test]
    fn events_order_streams_of_two_gpus() {
        let name = "events_order_streams_of_two_gpus";
        let _one = testing::one_at_a_time();
        let Some([first, second]) = testing::two_gpus(name) else { return };
        first.connect(&second).unwrap();
        let n = 1 << 24;
        let (here, there) = (first.stream().unwrap(), second.urgent_stream().unwrap());
        let (a, b) = (first.zeros::<u8>(n).unwrap(), second.zeros::<u8>(n).unwrap());
        let (filled, copied) = (Event::untimed(&second.0).unwrap(), Event::untimed(&second.0).unwrap());
        for value in 1..20u8 {
            there.fill(&b.range(..), value).unwrap();
            filled.record(&there).unwrap();
            there.copy_across(&b.range(..), &a.range(..)).unwrap();
            copied.record(&there).unwrap();
            here.wait(&copied).unwrap();
            // The received values are read by another copy, on a stream of the first device that waits for the first copy.
            let seen = first.zeros::<u8>(n).unwrap();
            here.copy(&a.range(..), &seen.range(..)).unwrap();
            here.synchronize().unwrap();
            assert!(seen.to_vec().unwrap().iter().all(|v| *v == value), "{value}");
        }
    }
}

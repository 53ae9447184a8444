//! Communicators, each of which is one rank's access to the collective operations of several GPUs.

use super::handle::{NcclHandle, NcclId, Window, check, in_time};
use super::library::{
    AVERAGE, BFLOAT16, FLOAT16, FLOAT32, FLOAT64, HOST_IMMEDIATE, IN_PROGRESS, LOADED, Nccl2, SUM, UINT8, UniqueId,
};
use crate::cuda::context::{Inner, relaxed};
use crate::libraries::loader::Status;
use crate::{CudaDevice, Error, Result, Slice, Stream};
use std::ffi::c_int;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use warpbook_record::Dtype;

/// The operation that combines the ranks' values in a reduction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NcclReduce {
    /// The sum of the ranks' values.
    Sum,
    /// The mean of the ranks' values.
    Mean,
    /// The weighted sum: each rank multiplies its values by its own factor before they are added.
    Weighted(f32),
}

fn data_type(dtype: Dtype) -> c_int {
    match dtype {
        Dtype::F16 => FLOAT16,
        Dtype::Bf16 => BFLOAT16,
        _ => FLOAT32,
    }
}

/// One rank of a communicator, with its GPU.
///
/// Every rank must queue the same operations in the same order. The operations can be captured; the owner of the graph must then make sure that the
/// communicator lives as long as the graph.
pub struct Communicator {
    pub(super) nccl: Arc<Nccl2>,
    pub(super) device: Arc<Inner>,
    pub(super) handle: NcclHandle,
    /// A lock that is held during each call.
    calls: Mutex<()>,
    rank: usize,
    world: usize,
    is_aborted: AtomicBool,
    /// Reduction operations with a factor, by the bits and the type of the factor. NCCL keeps each of them until the communicator ends.
    weighted: Mutex<Vec<(u32, c_int, c_int)>>,
    pub(super) windows: Mutex<Vec<Window>>,
    name: Arc<str>,
}

impl std::fmt::Debug for Communicator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Communicator(rank {} of {}, NCCL {} at {})",
            self.rank,
            self.world,
            self.nccl.version,
            self.nccl.file.path.display()
        )
    }
}

impl Communicator {
    /// Joins the ranks that share this id. All ranks must call this function at the same time, each for its own GPU.
    ///
    /// Multicast over NVLink is off unless `NCCL_NVLS_ENABLE` says otherwise.
    ///
    /// # Errors
    /// [`Error::Library`] if NCCL was not found, or NCCL's errors. Also returns an error if the other ranks do not arrive within the limit; the waiting call
    /// then stays blocked on its thread, so the process should end.
    pub fn new(device: &CudaDevice, id: NcclId, (rank, world): (usize, usize), limit: Duration) -> Result<Self> {
        device.0.bind_for("Collectives of NCCL")?;
        let nccl = LOADED.load(Some(device.driver_cuda()))?;
        let calls = nccl.clone();
        let [count, number] = [world, rank].map(|n| c_int::try_from(n).unwrap_or(c_int::MAX));
        let handle = in_time(&device.0, "the other ranks", limit, move || {
            let mut raw = std::ptr::null_mut();
            // The capture mode is relaxed; waiting for a moment without captures could make ranks of this process wait for each other.
            // SAFETY: `raw` is live and receives the communicator, and the device's context is current on this thread.
            let status = relaxed(|| unsafe { (calls.calls.init)(&raw mut raw, count, UniqueId(id.bytes()), number) });
            check(&calls, std::ptr::null_mut(), "a communicator", status).map(|()| NcclHandle(raw))
        })?;
        Ok(Self::from_handle(nccl, device, handle, (rank, world)))
    }

    /// Returns a communicator for each of several devices in this process. A single thread queues their collective operations, within [`Communicator::group`].
    ///
    /// Multicast over NVLink is off unless `NCCL_NVLS_ENABLE` says otherwise.
    ///
    /// # Errors
    /// [`Error::Library`] if NCCL was not found; [`Error::Unsupported`] if there are no devices or one occurs twice; NCCL's errors. Also returns an error if
    /// the call takes longer than the limit.
    pub fn all(devices: &[CudaDevice], limit: Duration) -> Result<Vec<Self>> {
        let mut indices: Vec<c_int> = Vec::new();
        for device in devices {
            let index = c_int::try_from(device.info().index).unwrap_or(c_int::MAX);
            if indices.contains(&index) {
                let why = format!("needs different GPUs, but cuda:{index} is named twice");
                return Err(Error::Unsupported { what: "NCCL".into(), why });
            }
            indices.push(index);
        }
        let Some(first) = devices.first() else {
            return Err(Error::Unsupported { what: "NCCL".into(), why: "needs a GPU, but none was named".into() });
        };
        let nccl = LOADED.load(Some(first.driver_cuda()))?;
        let calls = nccl.clone();
        // The call is made on a separate thread for a second reason: it changes the thread's current device.
        let handles = in_time(&first.0, "the GPUs", limit, move || {
            let mut raw = vec![std::ptr::null_mut(); indices.len()];
            let count = c_int::try_from(indices.len()).unwrap_or(c_int::MAX);
            // The capture mode is relaxed as in `new`.
            // SAFETY: `raw` has space for one communicator per device, and `indices` has one index per device.
            let status = relaxed(|| unsafe { (calls.calls.init_all)(raw.as_mut_ptr(), count, indices.as_ptr()) });
            check(&calls, std::ptr::null_mut(), "communicators", status)?;
            Ok(raw.into_iter().map(NcclHandle).collect::<Vec<_>>())
        })?;
        let world = devices.len();
        let communicator = |(rank, (device, handle))| Self::from_handle(nccl.clone(), device, handle, (rank, world));
        Ok(devices.iter().zip(handles).enumerate().map(communicator).collect())
    }

    fn from_handle(nccl: Arc<Nccl2>, device: &CudaDevice, handle: NcclHandle, (rank, world): (usize, usize)) -> Self {
        Self {
            nccl,
            device: device.0.clone(),
            handle,
            calls: Mutex::new(()),
            rank,
            world,
            is_aborted: AtomicBool::new(false),
            weighted: Mutex::new(Vec::new()),
            windows: Mutex::default(),
            name: Arc::from("of NCCL, which does not tell its shape"),
        }
    }

    /// Returns the index of this rank.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the number of ranks in the communicator.
    #[must_use]
    pub fn world(&self) -> usize {
        self.world
    }

    /// Returns the version of the library, such as 22803.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.nccl.version.unsigned_abs()
    }

    /// Returns the path of the library.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.nccl.file.path
    }

    /// Queues the in-place reduction of an array over all ranks. `array` contains values of type `dtype`.
    ///
    /// # Errors
    /// NCCL's errors. Also returns an error if the array is on another device.
    pub fn all_reduce(&self, stream: &Stream, array: &Slice<u8>, dtype: Dtype, reduce: NcclReduce) -> Result<()> {
        let (data, count) = (data_type(dtype), array.bytes() / dtype.bytes() as usize);
        self.all_reduce_of(stream, array, (data, count), self.operation(reduce, data)?)
    }

    /// Queues the in-place sum of an array of f64 values over all ranks.
    ///
    /// # Errors
    /// The errors of [`Communicator::all_reduce`].
    pub fn sum(&self, stream: &Stream, array: &Slice<f64>) -> Result<()> {
        self.all_reduce_of(stream, &array.cast(), (FLOAT64, array.len()), SUM)
    }

    fn all_reduce_of(
        &self,
        stream: &Stream,
        array: &Slice<u8>,
        (data, count): (c_int, usize),
        operation: c_int,
    ) -> Result<()> {
        let address = array.at(0).0;
        self.queue(stream, "an all-reduce", &[array], || {
            // SAFETY: the communicator and the stream are live. The array has `count` values, and its memory lives until the queued work has ended.
            unsafe {
                (self.nccl.calls.all_reduce)(
                    address as _,
                    address as _,
                    count,
                    data,
                    operation,
                    self.handle.0,
                    stream.raw,
                )
            }
        })
    }

    /// Queues the reduction of all ranks' `from` into `to` on rank `root`. `from` and `to` may be the same array; on other ranks, `to` is not written.
    ///
    /// # Errors
    /// The errors of [`Communicator::all_reduce`].
    ///
    /// # Panics
    /// Panics if the two arrays have different lengths.
    pub fn reduce(
        &self,
        stream: &Stream,
        (from, to): (&Slice<u8>, &Slice<u8>),
        dtype: Dtype,
        reduce: NcclReduce,
        root: usize,
    ) -> Result<()> {
        assert_eq!(from.len(), to.len(), "as many values on both sides");
        let (data, count) = (data_type(dtype), from.bytes() / dtype.bytes() as usize);
        let operation = self.operation(reduce, data)?;
        let (a, b, root) = (from.at(0).0, to.at(0).0, c_int::try_from(root).unwrap_or(-1));
        self.queue(stream, "a reduction", &[from, to], || {
            // SAFETY: the communicator and the stream are live. Both arrays have `count` values, and their memory lives until the queued work has ended.
            unsafe { (self.nccl.calls.reduce)(a as _, b as _, count, data, operation, root, self.handle.0, stream.raw) }
        })
    }

    /// Queues the reduction of `from`, of which every rank receives its own part in `to`. `to` has `1 / world` of the length of `from`.
    ///
    /// # Errors
    /// The errors of [`Communicator::all_reduce`].
    ///
    /// # Panics
    /// Panics if `from` is not `world` times as long as `to`.
    pub fn reduce_scatter(
        &self,
        stream: &Stream,
        (from, to): (&Slice<u8>, &Slice<u8>),
        dtype: Dtype,
        reduce: NcclReduce,
    ) -> Result<()> {
        assert_eq!(from.len(), to.len() * self.world, "a part for each rank");
        let (data, count) = (data_type(dtype), to.bytes() / dtype.bytes() as usize);
        let operation = self.operation(reduce, data)?;
        let (a, b) = (from.at(0).0, to.at(0).0);
        self.queue(stream, "a reduce-scatter", &[from, to], || {
            // SAFETY: the communicator and the stream are live. `from` has `count` values per rank and `to` has `count`, and their memory lives until the
            // queued work has ended.
            unsafe {
                (self.nccl.calls.reduce_scatter)(a as _, b as _, count, data, operation, self.handle.0, stream.raw)
            }
        })
    }

    /// Queues the concatenation of all ranks' `from`, in rank order, into `to` on every rank.
    ///
    /// # Errors
    /// The errors of [`Communicator::all_reduce`].
    ///
    /// # Panics
    /// Panics if `to` is not `world` times as long as `from`.
    pub fn all_gather(&self, stream: &Stream, from: &Slice<u8>, to: &Slice<u8>) -> Result<()> {
        assert_eq!(to.len(), from.len() * self.world, "room for each rank");
        let (a, b, count) = (from.at(0).0, to.at(0).0, from.bytes());
        self.queue(stream, "an all-gather", &[from, to], || {
            // SAFETY: the communicator and the stream are live. `from` has `count` bytes and `to` has `count` per rank, and their memory lives until the queued
            // work has ended.
            unsafe { (self.nccl.calls.all_gather)(a as _, b as _, count, UINT8, self.handle.0, stream.raw) }
        })
    }

    /// Queues a copy of the array on rank `root` to all ranks.
    ///
    /// # Errors
    /// The errors of [`Communicator::all_reduce`].
    pub fn broadcast(&self, stream: &Stream, array: &Slice<u8>, root: usize) -> Result<()> {
        let (address, count, root) = (array.at(0).0, array.bytes(), c_int::try_from(root).unwrap_or(-1));
        self.queue(stream, "a broadcast", &[array], || {
            // SAFETY: the communicator and the stream are live. The array has `count` bytes, and its memory lives until the queued work has ended.
            unsafe {
                (self.nccl.calls.broadcast)(address as _, address as _, count, UINT8, root, self.handle.0, stream.raw)
            }
        })
    }

    /// Queues a send of an array to rank `to`, which must queue the matching receive.
    ///
    /// # Errors
    /// The errors of [`Communicator::all_reduce`].
    pub fn send(&self, stream: &Stream, array: &Slice<u8>, to: usize) -> Result<()> {
        let (address, count, to) = (array.at(0).0, array.bytes(), c_int::try_from(to).unwrap_or(-1));
        self.queue(stream, "sending", &[array], || {
            // SAFETY: the communicator and the stream are live. The array has `count` bytes, and its memory lives until the queued work has ended.
            unsafe { (self.nccl.calls.send)(address as _, count, UINT8, to, self.handle.0, stream.raw) }
        })
    }

    /// Queues the receive of an array that rank `from` sends.
    ///
    /// # Errors
    /// The errors of [`Communicator::all_reduce`].
    pub fn receive(&self, stream: &Stream, array: &Slice<u8>, from: usize) -> Result<()> {
        let (address, count, from) = (array.at(0).0, array.bytes(), c_int::try_from(from).unwrap_or(-1));
        self.queue(stream, "receiving", &[array], || {
            // SAFETY: the communicator and the stream are live. The array has `count` bytes, and its memory lives until the queued work has ended.
            unsafe { (self.nccl.calls.receive)(address as _, count, UINT8, from, self.handle.0, stream.raw) }
        })
    }

    /// Queues several operations as one, for example a send and a receive that must overlap, or several reductions with one launch. The group also includes
    /// operations that the same thread queues on other communicators.
    ///
    /// # Errors
    /// The errors of the operations, and NCCL's errors.
    pub fn group<R>(&self, operations: impl FnOnce() -> Result<R>) -> Result<R> {
        self.device.bind()?;
        // SAFETY: the function has no preconditions, and the group is ended below on the same thread.
        check(&self.nccl, self.handle.0, "a group", unsafe { (self.nccl.calls.group_start)() })?;
        let done = operations();
        // The capture mode is relaxed as in `queue`, because the grouped operations are queued only when the group ends.
        // SAFETY: the group was started above, on the same thread.
        let ended = relaxed(|| unsafe { (self.nccl.calls.group_end)() });
        let done = done?;
        check(&self.nccl, self.handle.0, "a group", ended)?;
        Ok(done)
    }

    /// Returns an error that occurred after an operation was queued, such as a closed connection; `None` if there is none.
    #[must_use]
    pub fn async_error(&self) -> Option<String> {
        if self.is_aborted.load(Ordering::SeqCst) {
            return Some("it was aborted".into());
        }
        let mut state = 0;
        // SAFETY: the communicator is live, and `state` is live.
        let asked = unsafe { (self.nccl.calls.async_error)(self.handle.0, &raw mut state) };
        let status = if asked == 0 { state } else { asked };
        (status != 0 && status != IN_PROGRESS).then(|| self.nccl.describe(status, self.handle.0))
    }

    /// Aborts queued operations, even if they wait for a rank that has ended. Nothing can be queued afterwards. The call returns only after every graph that
    /// captured operations of several ranks has been dropped, so make it from a thread that does not own these graphs.
    pub fn abort(&self) {
        if !self.is_aborted.swap(true, Ordering::SeqCst) && self.device.bind().is_ok() {
            // SAFETY: the communicator is live, and later calls check the flag before they use it.
            let _ = relaxed(|| unsafe { (self.nccl.calls.abort)(self.handle.0) });
        }
    }

    /// Returns NCCL's code of a reduction operation for values of a type.
    fn operation(&self, reduce: NcclReduce, data: c_int) -> Result<c_int> {
        let factor = match reduce {
            NcclReduce::Sum => return Ok(SUM),
            NcclReduce::Mean => return Ok(AVERAGE),
            NcclReduce::Weighted(factor) => factor,
        };
        let mut weighted = self.weighted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((.., operation)) = weighted.iter().find(|(bits, of, _)| (*bits, *of) == (factor.to_bits(), data)) {
            return Ok(*operation);
        }
        // NCCL expects the factor in the same type as the values.
        let mut bytes = match data {
            FLOAT16 => u32::from(half::f16::from_f32(factor).to_bits()),
            BFLOAT16 => u32::from(half::bf16::from_f32(factor).to_bits()),
            _ => factor.to_bits(),
        };
        let mut operation = 0;
        self.ensure_live()?;
        // SAFETY: the communicator is live, and so are `operation`, which is written, and `bytes`, of which the call reads 2 or 4 bytes before it returns.
        let status = unsafe {
            (self.nccl.calls.make_weighted_sum)(
                &raw mut operation,
                (&raw mut bytes).cast(),
                data,
                HOST_IMMEDIATE,
                self.handle.0,
            )
        };
        check(&self.nccl, self.handle.0, "a weighted sum", status)?;
        weighted.push((factor.to_bits(), data, operation));
        Ok(operation)
    }

    pub(super) fn ensure_live(&self) -> Result<()> {
        if self.is_aborted.load(Ordering::SeqCst) {
            let (what, why) = ("An operation of NCCL".into(), "its communicator was aborted".into());
            return Err(Error::Cuda { what, why, sticky: false });
        }
        Ok(())
    }

    fn queue(&self, stream: &Stream, what: &str, arrays: &[&Slice<u8>], call: impl FnOnce() -> Status) -> Result<()> {
        if let Some(other) = arrays.iter().find(|a| !Arc::ptr_eq(&a.memory().device, &self.device)) {
            return Err(Error::Unsupported {
                what: format!("NCCL, asked for {what},"),
                why: format!("an array of {} bytes is of another device than the communicator", other.bytes()),
            });
        }
        self.ensure_live()?;
        if arrays.iter().all(|a| a.is_empty()) {
            return Ok(());
        }
        self.device.bind()?;
        let _one = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let queueing = stream.queueing()?;
        // The capture mode is relaxed, because NCCL may allocate memory and load kernels during a capture.
        check(&self.nccl, self.handle.0, what, relaxed(call))?;
        let kept: Vec<_> = arrays.iter().map(|a| a.memory()).collect();
        queueing.launched_by_library(&self.name, &kept);
        Ok(())
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if self.is_aborted.load(Ordering::SeqCst) || !self.device.may_free() || self.device.bind().is_err() {
            return;
        }
        for (.., operation) in self.weighted.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // SAFETY: the communicator is live and created this operation; the operation is not used again.
            let _ = unsafe { (self.nccl.calls.unmake_operation)(operation, self.handle.0) };
        }
        self.unregister_all();
        // SAFETY: the communicator came from `new` or `all` and is not used again; the call waits for queued work.
        relaxed(|| unsafe { (self.nccl.calls.destroy)(self.handle.0) });
    }
}

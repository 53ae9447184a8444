//! Collectives between GPUs by NCCL, loaded from wherever it is.
//!
//! As cuBLAS, and for the same reasons. Signatures and numbers are those of nccl.h of version 2. Communicators are blocking: what they queue is
//! queued by the calling thread, so that a capture has it. What may block for ever, since it waits for the other ranks, is made on another
//! thread with a time limit, or ended by [`Communicator::abort`].

mod library;
mod window;

use crate::capture::relaxed;
use crate::cublas::launched;
use crate::cuda::Inner;
use crate::{CudaDevice, Error, Result, Slice, Stream};
use library::{
    AVERAGE, BFLOAT16, FLOAT16, FLOAT32, FLOAT64, HOST_IMMEDIATE, IN_PROGRESS, Nccl2, Raw, SUM, Status, UINT8, UniqueId,
};
use std::ffi::c_int;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;
use warpbook_record::Dtype;
use window::Window;

pub use library::NCCL_SETTINGS;

/// What all ranks of a communicator have in common: rank 0 makes it, and the others are given its bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NcclId([u8; 128]);

impl std::fmt::Debug for NcclId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NcclId")
    }
}

impl NcclId {
    /// A new one.
    ///
    /// # Errors
    /// [`Error::NoNccl`] where there is no NCCL; NCCL's.
    pub fn new(device: &CudaDevice) -> Result<Self> {
        let nccl = Nccl2::load(Some(device.driver_cuda()))?;
        let mut id = UniqueId([0; 128]);
        // SAFETY: the pointer is to a live value.
        let status = unsafe { (nccl.calls.unique_id)(&raw mut id) };
        check(&nccl, std::ptr::null_mut(), "an identifier", status)?;
        Ok(Self(id.0))
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> [u8; 128] {
        self.0
    }

    /// That of these bytes.
    #[must_use]
    pub fn of(bytes: [u8; 128]) -> Self {
        Self(bytes)
    }
}

/// What a reduction makes of the ranks' values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NcclReduce {
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// The sum of each rank's values times its own factor.
    Weighted(f32),
}

fn check(nccl: &Nccl2, communicator: Raw, what: &str, status: Status) -> Result<()> {
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
        why: format!("has waited {limit:.0?} for {for_whom}: NCCL_DEBUG=INFO shows what it does"),
        sticky: false,
    }
}

/// Makes a call that may wait for ever, with the device's context current, on a thread that is left to it after the limit.
fn in_time<T: Send + 'static>(
    device: &Arc<Inner>,
    for_whom: &str,
    limit: Duration,
    call: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (to, made) = mpsc::channel();
    let device = device.clone();
    // Nobody waits for the answer any more where it took too long.
    std::thread::spawn(move || to.send(device.bind().and_then(|()| call())));
    made.recv_timeout(limit).unwrap_or_else(|_| Err(waited(for_whom, limit)))
}

fn data_type(dtype: Dtype) -> c_int {
    match dtype {
        Dtype::F16 => FLOAT16,
        Dtype::Bf16 => BFLOAT16,
        _ => FLOAT32,
    }
}

/// A pointer that may go to another thread.
struct Handle(Raw);
// SAFETY: NCCL's calls may come from any thread, one at a time; `ncclCommAbort` at any time.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// A rank's part of a communicator: a GPU and those of the other ranks.
///
/// Every rank queues the same operations in the same order. They can be captured; a graph that has captured one keeps the communicator where its
/// owner does.
pub struct Communicator {
    nccl: Arc<Nccl2>,
    device: Arc<Inner>,
    handle: Handle,
    /// One call at a time.
    calls: Mutex<()>,
    rank: usize,
    world: usize,
    is_aborted: AtomicBool,
    /// Reductions with a factor, by its bits and type; the library has each until the communicator ends.
    weighted: Mutex<Vec<(u32, c_int, c_int)>>,
    windows: Mutex<Vec<Window>>,
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
            self.nccl.path.display()
        )
    }
}

impl Communicator {
    /// Joins the ranks that have the same identifier; all call it at the same time, each for a GPU that no other has.
    ///
    /// Multicast over NVLink is off unless `NCCL_NVLS_ENABLE` says otherwise.
    ///
    /// # Errors
    /// [`Error::NoNccl`] where there is no NCCL; NCCL's; the other ranks do not come within the limit. A call that is still waiting for them is then left
    /// to its thread, so that the process had better end.
    pub fn new(device: &CudaDevice, id: NcclId, (rank, world): (usize, usize), limit: Duration) -> Result<Self> {
        let nccl = Nccl2::load(Some(device.driver_cuda()))?;
        let calls = nccl.clone();
        let [count, number] = [world, rank].map(|n| c_int::try_from(n).unwrap_or(c_int::MAX));
        let handle = in_time(&device.0, "the other ranks", limit, move || {
            let mut raw = std::ptr::null_mut();
            // Relaxed, and not between captures: other ranks of this process would wait for each other.
            // SAFETY: the pointer is to a live value; the device's context is current on this thread.
            let status = relaxed(|| unsafe { (calls.calls.init)(&raw mut raw, count, UniqueId(id.0), number) });
            check(&calls, std::ptr::null_mut(), "a communicator", status).map(|()| Handle(raw))
        })?;
        Ok(Self::of(nccl, device, handle, (rank, world)))
    }

    /// A communicator for each of several devices, all of this process: what they do together is queued by one thread, within
    /// [`Communicator::group`].
    ///
    /// Multicast over NVLink is off unless `NCCL_NVLS_ENABLE` says otherwise.
    ///
    /// # Errors
    /// [`Error::NoNccl`] where there is no NCCL; [`Error::Unsupported`] for no device, and for one that is named twice; NCCL's; it takes longer than
    /// the limit.
    pub fn all(devices: &[CudaDevice], limit: Duration) -> Result<Vec<Self>> {
        let mut indices: Vec<c_int> = Vec::new();
        for device in devices {
            let index = c_int::try_from(device.info().index).unwrap_or(c_int::MAX);
            if indices.contains(&index) {
                let why = format!("takes a GPU once, and cuda:{index} is named twice");
                return Err(Error::Unsupported { what: "NCCL".into(), why });
            }
            indices.push(index);
        }
        let Some(first) = devices.first() else {
            return Err(Error::Unsupported { what: "NCCL".into(), why: "needs a GPU, and none is named".into() });
        };
        let nccl = Nccl2::load(Some(first.driver_cuda()))?;
        let calls = nccl.clone();
        // On another thread also because it changes which device is current.
        let handles = in_time(&first.0, "the GPUs", limit, move || {
            let mut raw = vec![std::ptr::null_mut(); indices.len()];
            let count = c_int::try_from(indices.len()).unwrap_or(c_int::MAX);
            // Relaxed as in `new`.
            // SAFETY: there is room for as many communicators as devices are named.
            let status = relaxed(|| unsafe { (calls.calls.init_all)(raw.as_mut_ptr(), count, indices.as_ptr()) });
            check(&calls, std::ptr::null_mut(), "communicators", status)?;
            Ok(raw.into_iter().map(Handle).collect::<Vec<_>>())
        })?;
        let world = devices.len();
        let of = |(rank, (device, handle))| Self::of(nccl.clone(), device, handle, (rank, world));
        Ok(devices.iter().zip(handles).enumerate().map(of).collect())
    }

    fn of(nccl: Arc<Nccl2>, device: &CudaDevice, handle: Handle, (rank, world): (usize, usize)) -> Self {
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

    /// This rank.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The number of ranks.
    #[must_use]
    pub fn world(&self) -> usize {
        self.world
    }

    /// The library's version, as 22803.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.nccl.version.unsigned_abs()
    }

    /// Where the library was found.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.nccl.path
    }

    /// Queues the reduction of an array over the ranks, in place on all. `array` holds values of `dtype`.
    ///
    /// # Errors
    /// NCCL's; the array is of another device.
    pub fn all_reduce(&self, stream: &Stream, array: &Slice<u8>, dtype: Dtype, reduce: NcclReduce) -> Result<()> {
        let (data, count) = (data_type(dtype), array.bytes() / dtype.bytes() as usize);
        self.all_reduce_of(stream, array, (data, count), self.operation(reduce, data)?)
    }

    /// Queues the sum of an array of doubles over the ranks, in place on all.
    ///
    /// # Errors
    /// As of [`Communicator::all_reduce`].
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
            // SAFETY: the communicator and the stream are live, and so many values are there, whose memory lives as long as what was queued.
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

    /// Queues the reduction of all ranks' `from` into `to` of rank `root`, which may be its `from`; those of the others are not written.
    ///
    /// # Errors
    /// As of [`Communicator::all_reduce`].
    ///
    /// # Panics
    /// If the two have different lengths.
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
            // SAFETY: as of `all_reduce`.
            unsafe { (self.nccl.calls.reduce)(a as _, b as _, count, data, operation, root, self.handle.0, stream.raw) }
        })
    }

    /// Queues the reduction of `from`; every rank gets its part of the sum, `to`, which is a `world`th of it.
    ///
    /// # Errors
    /// As of [`Communicator::all_reduce`].
    ///
    /// # Panics
    /// If `from` is not `world` times as long as `to`.
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
            // SAFETY: as of `all_reduce`.
            unsafe {
                (self.nccl.calls.reduce_scatter)(a as _, b as _, count, data, operation, self.handle.0, stream.raw)
            }
        })
    }

    /// Queues the collection of all ranks' `from` in `to`, in their order.
    ///
    /// # Errors
    /// As of [`Communicator::all_reduce`].
    ///
    /// # Panics
    /// If `to` is not `world` times as long as `from`.
    pub fn all_gather(&self, stream: &Stream, from: &Slice<u8>, to: &Slice<u8>) -> Result<()> {
        assert_eq!(to.len(), from.len() * self.world, "room for each rank");
        let (a, b, count) = (from.at(0).0, to.at(0).0, from.bytes());
        self.queue(stream, "an all-gather", &[from, to], || {
            // SAFETY: as of `all_reduce`.
            unsafe { (self.nccl.calls.all_gather)(a as _, b as _, count, UINT8, self.handle.0, stream.raw) }
        })
    }

    /// Queues a copy of rank `root`'s array to all.
    ///
    /// # Errors
    /// As of [`Communicator::all_reduce`].
    pub fn broadcast(&self, stream: &Stream, array: &Slice<u8>, root: usize) -> Result<()> {
        let (address, count, root) = (array.at(0).0, array.bytes(), c_int::try_from(root).unwrap_or(-1));
        self.queue(stream, "a broadcast", &[array], || {
            // SAFETY: as of `all_reduce`; an array of bytes.
            unsafe {
                (self.nccl.calls.broadcast)(address as _, address as _, count, UINT8, root, self.handle.0, stream.raw)
            }
        })
    }

    /// Queues sending an array to a rank, which receives it.
    ///
    /// # Errors
    /// As of [`Communicator::all_reduce`].
    pub fn send(&self, stream: &Stream, array: &Slice<u8>, to: usize) -> Result<()> {
        let (address, count, to) = (array.at(0).0, array.bytes(), c_int::try_from(to).unwrap_or(-1));
        self.queue(stream, "sending", &[array], || {
            // SAFETY: as of `broadcast`.
            unsafe { (self.nccl.calls.send)(address as _, count, UINT8, to, self.handle.0, stream.raw) }
        })
    }

    /// Queues receiving what a rank sends.
    ///
    /// # Errors
    /// As of [`Communicator::all_reduce`].
    pub fn receive(&self, stream: &Stream, array: &Slice<u8>, from: usize) -> Result<()> {
        let (address, count, from) = (array.at(0).0, array.bytes(), c_int::try_from(from).unwrap_or(-1));
        self.queue(stream, "receiving", &[array], || {
            // SAFETY: as of `broadcast`.
            unsafe { (self.nccl.calls.receive)(address as _, count, UINT8, from, self.handle.0, stream.raw) }
        })
    }

    /// Queues several operations as one: sending and receiving at the same time, or reductions with one launch; those of other communicators of
    /// the same thread too.
    ///
    /// # Errors
    /// Those of the operations, and NCCL's.
    pub fn group<R>(&self, operations: impl FnOnce() -> Result<R>) -> Result<R> {
        self.device.bind()?;
        // SAFETY: it has no preconditions, and is ended below on the same thread.
        check(&self.nccl, self.handle.0, "a group", unsafe { (self.nccl.calls.group_start)() })?;
        let done = operations();
        // Relaxed as in `queue`: what was grouped is queued now.
        // SAFETY: as above.
        let ended = relaxed(|| unsafe { (self.nccl.calls.group_end)() });
        let done = done?;
        check(&self.nccl, self.handle.0, "a group", ended)?;
        Ok(done)
    }

    /// What has gone wrong since, as a connection that ended; `None` where nothing has.
    #[must_use]
    pub fn async_error(&self) -> Option<String> {
        if self.is_aborted.load(Ordering::SeqCst) {
            return Some("it was aborted".into());
        }
        let mut state = 0;
        // SAFETY: the communicator is live, and the pointer is to a live integer.
        let asked = unsafe { (self.nccl.calls.async_error)(self.handle.0, &raw mut state) };
        let status = if asked == 0 { state } else { asked };
        (status != 0 && status != IN_PROGRESS).then(|| self.nccl.describe(status, self.handle.0))
    }

    /// Ends what was queued, also where it waits for a rank that is no more. Nothing can be queued afterwards. Comes back when every graph that captured
    /// operations of several ranks is gone, so another thread than the one that owns these calls it.
    pub fn abort(&self) {
        if !self.is_aborted.swap(true, Ordering::SeqCst) && self.device.bind().is_ok() {
            // SAFETY: the communicator is live, and is not used after this, which the flag sees to.
            let _ = relaxed(|| unsafe { (self.nccl.calls.abort)(self.handle.0) });
        }
    }

    /// The number of a reduction of values of a type.
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
        // The factor has the type of the values.
        let mut bytes = match data {
            FLOAT16 => u32::from(half::f16::from_f32(factor).to_bits()),
            BFLOAT16 => u32::from(half::bf16::from_f32(factor).to_bits()),
            _ => factor.to_bits(),
        };
        let mut operation = 0;
        self.ensure_live()?;
        // SAFETY: the communicator is live; the pointers are to live values, of which the first is written and the second read, 2 or 4 bytes of it, before the
        // call returns.
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

    fn ensure_live(&self) -> Result<()> {
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
        // Relaxed, since NCCL may allocate memory and load kernels during a capture.
        check(&self.nccl, self.handle.0, what, relaxed(call))?;
        let kept: Vec<_> = arrays.iter().map(|a| a.memory()).collect();
        launched(queueing, &self.name, &kept);
        Ok(())
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if self.is_aborted.load(Ordering::SeqCst) || !self.device.may_free() || self.device.bind().is_err() {
            return;
        }
        for (.., operation) in self.weighted.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // SAFETY: the operation came from this communicator, which is live, and is not used again.
            let _ = unsafe { (self.nccl.calls.unmake_operation)(operation, self.handle.0) };
        }
        self.unregister_all();
        // SAFETY: the communicator came from `new` and is not used again; the call waits for what was queued.
        relaxed(|| unsafe { (self.nccl.calls.destroy)(self.handle.0) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn communicators_may_change_threads() {
        fn check<T: Send + Sync + 'static>() {}
        check::<Communicator>();
        check::<NcclId>();
    }

    /// A communicator of one rank: what is queued, captured and aborted needs no second GPU.
    #[test]
    fn one_rank_reduces_to_what_it_has() {
        let _one = crate::testing::one_at_a_time();
        let Some(device) = crate::testing::gpu("one_rank_reduces_to_what_it_has") else { return };
        let id = match NcclId::new(&device) {
            Ok(id) => id,
            Err(why @ Error::NoNccl { .. }) => {
                return crate::testing::skip("one_rank_reduces_to_what_it_has", "needs NCCL", why);
            }
            Err(why) => panic!("{why}"),
        };
        let ranks =
            Arc::new(Communicator::new(&device, NcclId::of(id.bytes()), (0, 1), Duration::from_secs(120)).unwrap());
        let stream = device.stream().unwrap();
        let values = device.buffer_from(&[1.0f32, -2.0, 8.0]).unwrap();
        let bytes = values.range(..).cast::<u8>();
        for (reduce, expect) in [
            (NcclReduce::Sum, [1.0, -2.0, 8.0]),
            (NcclReduce::Mean, [1.0, -2.0, 8.0]),
            (NcclReduce::Weighted(0.5), [0.5, -1.0, 4.0]),
        ] {
            values.range(..).write(&[1.0, -2.0, 8.0]).unwrap();
            ranks.all_reduce(&stream, &bytes, Dtype::F32, reduce).unwrap();
            stream.synchronize().unwrap();
            assert_eq!(values.to_vec().unwrap(), expect, "{reduce:?}");
        }
        values.range(..).write(&[1.0, -2.0, 8.0]).unwrap();
        let resources = (ranks.clone(), bytes.clone());
        let graph = stream
            .capture_owning("a reduction", resources, |(ranks, bytes)| {
                ranks.group(|| ranks.all_reduce(&stream, bytes, Dtype::F32, NcclReduce::Weighted(0.5)))
            })
            .unwrap();
        graph.launch(&stream).unwrap();
        graph.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(values.to_vec().unwrap(), [0.25, -0.5, 2.0]);
        assert_eq!(ranks.async_error(), None);
        drop(graph);
        ranks.abort();
        assert!(ranks.all_reduce(&stream, &bytes, Dtype::F32, NcclReduce::Sum).is_err());
    }

    #[test]
    fn communicators_of_one_process_are_for_different_devices() {
        let _one = crate::testing::one_at_a_time();
        let name = "communicators_of_one_process_are_for_different_devices";
        let Some(device) = crate::testing::gpu(name) else { return };
        let limit = Duration::from_secs(120);
        let error = |devices: &[CudaDevice]| Communicator::all(devices, limit).unwrap_err().to_string();
        assert!(error(&[]).contains("none is named"), "{}", error(&[]));
        let twice = error(&[device.clone(), device.clone()]);
        assert!(twice.contains("is named twice"), "{twice}");
        let all = match Communicator::all(std::slice::from_ref(&device), limit) {
            Ok(all) => all,
            Err(why @ Error::NoNccl { .. }) => return crate::testing::skip(name, "needs NCCL", why),
            Err(why) => panic!("{why}"),
        };
        let [one] = &all[..] else { panic!("one communicator") };
        assert_eq!((one.rank(), one.world()), (0, 1));
        let stream = device.stream().unwrap();
        let [from, to] = [[1.0f32, -2.0, 8.0], [0.0; 3]].map(|v| device.buffer_from(&v).unwrap());
        let arrays = (&from.range(..).cast::<u8>(), &to.range(..).cast::<u8>());
        one.reduce(&stream, arrays, Dtype::F32, NcclReduce::Sum, 0).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(to.to_vec().unwrap(), [1.0, -2.0, 8.0]);
    }

    /// One thread and two GPUs: a reduction to the first, and sending to it.
    #[test]
    fn one_thread_queues_for_two_gpus() {
        let name = "one_thread_queues_for_two_gpus";
        let _one = crate::testing::one_at_a_time();
        let Some([first, second]) = crate::testing::two_gpus(name) else { return };
        let devices = [first, second];
        let all = match Communicator::all(&devices, Duration::from_secs(120)) {
            Ok(all) => all,
            Err(why @ Error::NoNccl { .. }) => return crate::testing::skip(name, "needs NCCL", why),
            Err(why) => panic!("{why}"),
        };
        let n = 100_003;
        let streams = devices.each_ref().map(|d| d.urgent_stream().unwrap());
        let values = |d: usize| (0..n).map(|i| (i % 97) as f32 + 1000.0 * d as f32).collect::<Vec<f32>>();
        let arrays: Vec<_> = devices.iter().enumerate().map(|(d, on)| on.buffer_from(&values(d)).unwrap()).collect();
        let bytes: Vec<Slice<u8>> = arrays.iter().map(|a| a.range(..).cast()).collect();
        let to = devices[0].zeros::<f32>(n).unwrap();
        let to_bytes = to.range(..).cast::<u8>();
        all[0]
            .group(|| {
                all[0].reduce(&streams[0], (&bytes[0], &to_bytes), Dtype::F32, NcclReduce::Sum, 0)?;
                all[1].reduce(&streams[1], (&bytes[1], &bytes[1]), Dtype::F32, NcclReduce::Sum, 0)
            })
            .unwrap();
        streams.iter().for_each(|s| s.synchronize().unwrap());
        let sums: Vec<f32> = values(0).iter().zip(values(1)).map(|(a, b)| a + b).collect();
        assert!(to.to_vec().unwrap() == sums);
        all[0]
            .group(|| {
                all[1].send(&streams[1], &bytes[1], 0)?;
                all[0].receive(&streams[0], &to_bytes, 1)
            })
            .unwrap();
        streams.iter().for_each(|s| s.synchronize().unwrap());
        assert!(to.to_vec().unwrap() == values(1) && arrays[1].to_vec().unwrap() == values(1));
    }
}

//! Queues of work on a device.

use crate::cuda::context::Inner;
use crate::error::graph_sentence;
use crate::{CudaDevice, Error, Event, Result};
use cudarc::driver::result;
use cudarc::driver::sys;
use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use warpbook_kernels::Launch;

/// An owner of memory, or of another object, that must live as long as the work that uses it.
pub(crate) type Keep = Arc<dyn Any + Send + Sync>;

impl CudaDevice {
    /// Creates a stream that is not ordered with respect to any other stream. In the emulator, work has already ended when the call that
    /// queues it returns.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn stream(&self) -> Result<Stream> {
        Stream::new(self)
    }

    /// Creates a stream whose work gets free SMs before that of all other streams. It is meant for short work that other work waits for.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn urgent_stream(&self) -> Result<Stream> {
        Stream::before_others(self, true)
    }

    /// Creates a stream whose work gets free SMs before that of ordinary streams, but after that of urgent ones.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn preferred_stream(&self) -> Result<Stream> {
        Stream::before_others(self, false)
    }
}

/// A queue of work on a device.
pub struct Stream {
    pub(crate) device: Arc<Inner>,
    pub(crate) raw: sys::CUstream,
    /// The stream's id, which is never reused within a process, unlike the driver's handle.
    pub(crate) id: u64,
    /// True if dropping this value destroys the driver's stream.
    owned: bool,
    /// The last launch on the stream, which later error messages mention.
    last: Mutex<Option<Last>>,
    /// True if kernels that wait for their predecessor by themselves are launched before it has ended.
    dependent: AtomicBool,
    /// Number of operations queued so far.
    queued: Arc<AtomicU64>,
    /// Memory in use by queued work that involves another device.
    pub(crate) lent: Mutex<Vec<Lent>>,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream({})", self.id)
    }
}

/// A graph's name, as used in error messages.
pub(crate) struct GraphLabel {
    pub(crate) name: String,
    pub(crate) kernels: Vec<Arc<str>>,
}

impl GraphLabel {
    fn kernels(&self) -> Vec<String> {
        self.kernels.iter().map(|k| k.to_string()).collect()
    }

    pub(crate) fn error(&self, why: String, sticky: bool) -> Error {
        Error::Graph { graph: self.name.clone(), kernels: self.kernels(), why, sticky }
    }
}

impl std::fmt::Display for GraphLabel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&graph_sentence(&self.name, &self.kernels()))
    }
}

/// Memory that a copy between devices, or a kernel that accesses another device's memory, uses on a stream. Freeing memory waits only for
/// the work of its own device, so memory of the other device must be kept until this work has ended.
pub(crate) struct Lent {
    /// Event recorded after the last use of the memory.
    event: Event,
    memory: [Keep; 2],
}

impl Lent {
    /// Returns true if the last use may still be in progress. Errors are ignored here and reported to code that waits for the stream.
    fn is_under_way(&self) -> bool {
        !self.event.has_happened().unwrap_or(true)
    }
}

/// The last launch on a stream.
#[derive(Clone)]
enum Last {
    Kernel(Arc<str>, Launch),
    Graph(Arc<GraphLabel>),
}

// SAFETY: a stream's handle may be used from any thread on which its context is current, and every call binds the context first.
unsafe impl Send for Stream {}
// SAFETY: the driver serialises the calls on a stream.
unsafe impl Sync for Stream {}

impl Stream {
    pub(crate) fn new(device: &CudaDevice) -> Result<Self> {
        if device.is_emulated() {
            return Ok(Self::of_handle(device, std::ptr::null_mut(), false));
        }
        device.0.bind()?;
        let raw = result::stream::create(result::stream::StreamKind::NonBlocking)
            .map_err(|e| device.0.error("Creating a stream", e))?;
        Ok(Self::of_handle(device, raw, true))
    }

    /// Creates a stream that is preferred to ordinary ones: with the highest priority, or with the second lowest.
    pub(crate) fn before_others(device: &CudaDevice, highest: bool) -> Result<Self> {
        device.0.bind_for("Streams with a priority")?;
        let failed = |e| device.0.error("Creating a stream", e);
        let (mut least, mut greatest, mut raw) = (0, 0, std::ptr::null_mut());
        // SAFETY: the context is current, and `least` and `greatest` are live.
        unsafe { sys::cuCtxGetStreamPriorityRange(&raw mut least, &raw mut greatest) }.result().map_err(failed)?;
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // Lower numbers mean higher priority.
        let priority = if highest { greatest } else { (least - 1).max(greatest) };
        // SAFETY: the context is current, and `raw` is live.
        unsafe { sys::cuStreamCreateWithPriority(&raw mut raw, flags, priority) }.result().map_err(failed)?;
        Ok(Self::of_handle(device, raw, true))
    }

    pub(crate) fn of_handle(device: &CudaDevice, raw: sys::CUstream, owned: bool) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let queued = device.0.streams.add(id, raw);
        let (last, dependent) = (Mutex::new(None), AtomicBool::new(false));
        let lent = Mutex::default();
        Self { device: device.0.clone(), raw, id, owned, last, dependent, queued, lent }
    }

    /// Counts an operation that is being queued.
    pub(crate) fn count(&self) {
        self.queued.fetch_add(1, Ordering::Relaxed);
    }

    /// Lets kernels on this stream start before their predecessor has ended, if their row says that they wait for it by themselves and the
    /// device supports that. This hides the cost of a launch. Other kernels, and copies, wait as usual.
    pub fn make_dependent(&self) {
        self.dependent.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_dependent(&self) -> bool {
        self.dependent.load(Ordering::Relaxed)
    }

    /// Waits for all work queued on the stream.
    ///
    /// # Errors
    /// The error of a kernel that failed. The message names the last launched kernel, or the last graph and its kernels.
    pub fn synchronize(&self) -> Result<()> {
        self.wait_for_all()?;
        self.give_back();
        Ok(())
    }

    pub(crate) fn wait_for_all(&self) -> Result<()> {
        if self.device.emulator().is_some() {
            return Ok(());
        }
        self.device.bind()?;
        // SAFETY: the stream's handle is live as long as `self`.
        unsafe { result::stream::synchronize(self.raw) }.map_err(|e| {
            let sticky = self.device.note(e);
            match &*self.last.lock().unwrap_or_else(PoisonError::into_inner) {
                Some(Last::Graph(graph)) => graph.error(crate::cuda::context::describe(e), sticky),
                Some(Last::Kernel(kernel, shape)) => Error::Launch {
                    kernel: kernel.to_string(),
                    grid: shape.grid,
                    block: shape.block,
                    shared: shape.dynamic_shared_bytes,
                    why: crate::cuda::context::describe(e),
                    sticky,
                },
                None => self.device.error("Waiting for the stream", e),
            }
        })
    }

    /// Waits for all queued work, but for at most `limit_s` seconds.
    ///
    /// # Errors
    /// The errors of [`Stream::synchronize`], or [`Error::StillRunning`] after `limit_s` seconds. After a timeout, this process can no
    /// longer use the device: nothing on it is freed, because that would also wait for the kernel.
    pub fn synchronize_within(&self, limit_s: f64) -> Result<()> {
        if self.device.emulator().is_some() {
            return Ok(());
        }
        let begun = Instant::now();
        loop {
            self.device.bind()?;
            // SAFETY: the stream's handle is live as long as `self`.
            match unsafe { sys::cuStreamQuery(self.raw) } {
                sys::CUresult::CUDA_ERROR_NOT_READY if begun.elapsed().as_secs_f64() < limit_s => {
                    std::thread::sleep(Duration::from_micros(50));
                }
                sys::CUresult::CUDA_ERROR_NOT_READY => {
                    let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    let kernel = match last {
                        None => "launched last".into(),
                        Some(Last::Kernel(kernel, _)) => kernel.to_string(),
                        Some(Last::Graph(graph)) => format!("in the graph {graph},"),
                    };
                    let error = Error::StillRunning { kernel, limit_s };
                    self.device.abandon(&error.to_string());
                    return Err(error);
                }
                // The work has ended or failed, and synchronising reports which.
                _ => return self.synchronize(),
            }
        }
    }

    /// Waits until all queued work has ended and returns true, or returns false once `gives_up`, which is called every tenth of a second,
    /// returns true. In the second case, the caller has to end the hanging work.
    ///
    /// # Errors
    /// The errors of [`Stream::synchronize`].
    pub fn synchronize_unless(&self, gives_up: &mut dyn FnMut() -> bool) -> Result<bool> {
        if self.device.emulator().is_some() {
            return Ok(true);
        }
        let mut asked = Instant::now();
        loop {
            self.device.bind()?;
            // SAFETY: the stream's handle is live as long as `self`.
            if unsafe { sys::cuStreamQuery(self.raw) } != sys::CUresult::CUDA_ERROR_NOT_READY {
                return self.synchronize().map(|()| true);
            }
            if asked.elapsed() > Duration::from_millis(100) {
                asked = Instant::now();
                if gives_up() {
                    return Ok(false);
                }
            }
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    /// Records which kernel was launched; its name is shared, not copied.
    pub(crate) fn launched(&self, kernel: &Arc<str>, shape: Launch) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Last::Kernel(kernel.clone(), shape));
    }

    /// Records which graph was launched.
    pub(crate) fn replayed(&self, graph: &Arc<GraphLabel>) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Last::Graph(graph.clone()));
    }
}

impl Stream {
    /// Keeps the memory on both sides of a queued copy allocated until the copy has ended.
    pub(crate) fn lend(&self, memory: [Keep; 2]) -> Result<()> {
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        let same =
            |l: &&Lent| l.memory.iter().zip(&memory).all(|(a, b)| std::ptr::addr_eq(&raw const **a, &raw const **b));
        if let Some(there) = lent.iter().find(same) {
            if let Err(error) = there.event.record(self) {
                // Without an event, the only safe option is to wait for the copy now.
                self.wait_for_all()?;
                return Err(error);
            }
            return Ok(());
        }
        lent.retain(Lent::is_under_way);
        let marked = Event::untimed(&self.device).and_then(|event| event.record(self).map(|()| event));
        match marked {
            Ok(event) => {
                lent.push(Lent { event, memory });
                Ok(())
            }
            Err(error) => {
                self.wait_for_all()?;
                Err(error)
            }
        }
    }

    /// Releases memory used by copies between devices. Called after the stream has been waited for.
    fn give_back(&self) {
        let all = std::mem::take(&mut *self.lent.lock().unwrap_or_else(PoisonError::into_inner));
        // The values are dropped outside the lock, because the last owner frees the memory. Other threads may have queued more work in the
        // meantime.
        let (still, _ended): (Vec<Lent>, Vec<Lent>) = all.into_iter().partition(Lent::is_under_way);
        self.lent.lock().unwrap_or_else(PoisonError::into_inner).extend(still);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.device.streams.remove(self.id);
        if !self.lent.get_mut().unwrap_or_else(PoisonError::into_inner).is_empty() && self.device.may_free() {
            // Lent memory is freed together with the stream, so its last use must have ended.
            let _ = self.wait_for_all();
        }
        if self.owned && self.device.may_free() {
            // SAFETY: the handle was created by this crate and is not used again; the driver destroys the stream once its work has ended.
            let _ = unsafe { result::stream::destroy(self.raw) };
        }
    }
}

impl Event {
    /// Records the event at the end of the work queued on the stream so far.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        self.device.bind()?;
        // SAFETY: the handles of the event and of the stream are live.
        unsafe { result::event::record(self.raw, stream.raw) }.map_err(|e| self.device.error("Recording an event", e))
    }
}

//! Events: points in streams that can be waited for, and between which time can be measured.

use crate::cuda::context::{Inner, relaxed};
use crate::{CudaDevice, Result};
use cudarc::driver::result;
use cudarc::driver::sys;
use std::sync::Arc;

impl CudaDevice {
    /// Creates an event that records the time.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn event(&self) -> Result<Event> {
        Event::new(self)
    }

    /// Creates an event that only orders streams, which costs the device less than one that records the time.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn untimed_event(&self) -> Result<Event> {
        Event::untimed(&self.0)
    }
}

/// A point in a stream. Timed events also record when the device reached it.
pub struct Event {
    pub(super) device: Arc<Inner>,
    pub(crate) raw: sys::CUevent,
}

// SAFETY: an event's handle may be used from any thread on which its context is current, and every call binds the context first.
unsafe impl Send for Event {}
// SAFETY: the driver allows concurrent calls with the same event.
unsafe impl Sync for Event {}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Event")
    }
}

impl Event {
    pub(crate) fn new(device: &CudaDevice) -> Result<Self> {
        device.0.bind_for("Events and times")?;
        let raw = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT)
            .map_err(|e| device.0.error("Creating an event", e))?;
        Ok(Self { device: device.0.clone(), raw })
    }

    /// Creates a timed event; this is allowed even while another thread is capturing.
    pub(crate) fn timed(device: &CudaDevice) -> Result<Self> {
        relaxed(|| Self::new(device))
    }

    /// Creates an event that records no time, which costs the device less.
    pub(crate) fn untimed(device: &Arc<Inner>) -> Result<Self> {
        device.bind_for("Events and times")?;
        let raw = relaxed(|| result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING))
            .map_err(|e| device.error("Creating an event", e))?;
        Ok(Self { device: device.clone(), raw })
    }

    /// Waits until all work queued before the event has ended; returns at once for an event that was never recorded.
    ///
    /// # Errors
    /// The error of earlier work on the stream, if that failed.
    pub fn synchronize(&self) -> Result<()> {
        self.device.bind()?;
        // SAFETY: the event's handle is live as long as `self`.
        relaxed(|| unsafe { result::event::synchronize(self.raw) })
            .map_err(|e| self.device.error("Waiting for an event", e))
    }

    /// Returns true if all work queued before the event has ended, or if the event was never recorded.
    ///
    /// # Errors
    /// The errors of [`Event::synchronize`].
    pub fn has_happened(&self) -> Result<bool> {
        self.device.bind()?;
        // SAFETY: the event's handle is live as long as `self`.
        match relaxed(|| unsafe { result::event::query(self.raw) }) {
            Ok(()) => Ok(true),
            Err(e) if e.0 == sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            Err(e) => Err(self.device.error("Asking for an event", e)),
        }
    }

    /// Returns the microseconds from this event to a later one; both must have happened.
    ///
    /// # Errors
    /// Returns an error if one of the events was not recorded or has not happened yet.
    pub fn elapsed_us(&self, end: &Self) -> Result<f64> {
        self.device.bind()?;
        // SAFETY: the handles of both events are live.
        let ms = unsafe { result::event::elapsed(self.raw, end.raw) }
            .map_err(|e| self.device.error("Reading the time between events", e))?;
        Ok(f64::from(ms) * 1e3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.device.may_free() {
            // SAFETY: the handle was created by `new` and is not used again.
            let _ = unsafe { result::event::destroy(self.raw) };
        }
    }
}

//! Times parts of a program by CUDA events, for when nothing records the device's activity.
//!
//! At both ends of a part an event is recorded on every stream of the device. On a stream with work of the part, the time between the two events is
//! the part's: the first event happens when earlier work has ended, or at once on an idle stream.

use crate::cuda::capture::while_captures_rest;
use crate::cuda::streams::TRANSFERS;
use crate::{CudaDevice, Event, Result};
use cudarc::driver::result;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// A moment of a program, on every stream that exists and is not being captured.
#[derive(Debug, Default)]
pub struct Mark {
    /// For each stream, the number of operations queued until then, and the event.
    of_stream: BTreeMap<u64, (u64, Event)>,
}

/// Time that a part of a program took on a stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StreamTime {
    /// Id of the stream, counted in this process from 0; `u64::MAX` for the stream of copies for which the host waits.
    pub stream: u64,
    /// Start in microseconds from the clock's start.
    pub start_us: f64,
    /// Duration in microseconds, until the end of the last queued work.
    pub duration_us: f64,
    /// Number of kernels, copies, fills and graphs queued.
    pub queued: u64,
}

/// A clock of the device, read by events.
#[derive(Debug)]
pub struct EventTimes {
    device: CudaDevice,
    zero: Event,
}

impl EventTimes {
    /// Waits for the device and sets the clock's zero to now.
    ///
    /// # Errors
    /// The driver's errors.
    pub fn start(device: &CudaDevice) -> Result<Self> {
        device.synchronize()?;
        let zero = Event::timed(device)?;
        // SAFETY: both handles are live.
        unsafe { result::event::record(zero.raw, device.0.transfers) }
            .map_err(|e| device.0.error("Recording an event", e))?;
        device.0.wait_for_transfers("Waiting for an event")?;
        Ok(Self { device: device.clone(), zero })
    }

    /// Marks this moment with an event on each stream. Streams that are being captured get none, since it would become a part of the graph.
    ///
    /// # Errors
    /// The driver's errors.
    pub fn mark(&self) -> Result<Mark> {
        let inner = &self.device.0;
        inner.bind()?;
        while_captures_rest(|is_captured| {
            let mut mark = Mark::default();
            // Locked while events are recorded, so that no stream in the list is destroyed.
            for known in inner.streams.known().iter().filter(|k| !is_captured(k.raw)) {
                let event = Event::timed(&self.device)?;
                // SAFETY: both handles are live.
                unsafe { result::event::record(event.raw, known.raw) }
                    .map_err(|e| inner.error("Recording an event", e))?;
                mark.of_stream.insert(known.id, (known.queued.load(Ordering::Relaxed), event));
            }
            Ok(mark)
        })
    }

    /// Returns the work between two moments that the device has passed, for each stream on which work was queued. A stream created in between counts
    /// from the first moment; one dropped in between is missing.
    ///
    /// # Errors
    /// The driver's errors, for example if the device has not reached the moments.
    pub fn between(&self, begin: &Mark, end: &Mark) -> Result<Vec<StreamTime>> {
        let mut times = Vec::new();
        for (stream, (after, last)) in &end.of_stream {
            let first = begin.of_stream.get(stream);
            let queued = after - first.map_or(0, |(before, _)| *before);
            // An idle stream's event shows when the part began.
            let Some((_, first)) = first.or_else(|| begin.of_stream.get(&TRANSFERS)).filter(|_| queued > 0) else {
                continue;
            };
            let [start_us, end_us] = [self.zero.elapsed_us(first)?, self.zero.elapsed_us(last)?];
            times.push(StreamTime { stream: *stream, start_us, duration_us: (end_us - start_us).max(0.0), queued });
        }
        Ok(times)
    }
}

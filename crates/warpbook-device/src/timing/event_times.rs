//! Times parts of a program by CUDA events, in case no recorder of the device's activity is available.
//!
//! An event is recorded on every stream of the device at both ends of a part. On a stream with work of that part, the time between the two events is
//! the time of the work: the first event happens when all earlier work has ended, or at once on an idle stream.

use crate::cuda::capture::while_captures_rest;
use crate::cuda::streams::TRANSFERS;
use crate::{CudaDevice, Event, Result};
use cudarc::driver::result;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// A moment in a program, with an event on every stream that exists and is not being captured.
#[derive(Debug, Default)]
pub struct EventSnapshot {
    /// For each stream id, the number of operations queued before the snapshot, and the event.
    of_stream: BTreeMap<u64, (u64, Event)>,
}

/// The time that a part of a program took on one stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StreamTime {
    /// Id of the stream. Streams of a process are numbered from 0; `u64::MAX` is the stream for copies that the host waits for.
    pub stream: u64,
    /// Start in microseconds since [`EventTimes::start`].
    pub start_us: f64,
    /// Duration in microseconds, until the last queued work has ended.
    pub duration_us: f64,
    /// Number of operations (kernels, copies, fills and graphs) that were queued.
    pub queued: u64,
}

/// A clock that reads the device's time by means of events.
#[derive(Debug)]
pub struct EventTimes {
    device: CudaDevice,
    zero: Event,
}

impl EventTimes {
    /// Waits for the device, and starts the clock at zero.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn start(device: &CudaDevice) -> Result<Self> {
        device.synchronize()?;
        let zero = Event::timed(device)?;
        // SAFETY: the handles of the event and of the stream are live.
        unsafe { result::event::record(zero.raw, device.0.transfers) }
            .map_err(|e| device.0.error("Recording an event", e))?;
        device.0.wait_for_transfers("Waiting for an event")?;
        Ok(Self { device: device.clone(), zero })
    }

    /// Records an event on each stream. Streams that are being captured get no event, because it would become part of the graph.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn snapshot(&self) -> Result<EventSnapshot> {
        let inner = &self.device.0;
        inner.bind()?;
        while_captures_rest(|is_captured| {
            let mut snapshot = EventSnapshot::default();
            // The list is locked while events are recorded, so that no stream in it is destroyed.
            for known in inner.streams.known().iter().filter(|k| !is_captured(k.raw)) {
                let event = Event::timed(&self.device)?;
                // SAFETY: the handles of the event and of the stream are live.
                unsafe { result::event::record(event.raw, known.raw) }
                    .map_err(|e| inner.error("Recording an event", e))?;
                snapshot.of_stream.insert(known.id, (known.queued.load(Ordering::Relaxed), event));
            }
            Ok(snapshot)
        })
    }

    /// Returns the work between two snapshots that the device has already passed, for each stream on which work was queued. For a stream that was
    /// created in between, the time counts from the first snapshot; a stream that was dropped in between is missing.
    ///
    /// # Errors
    /// The driver's errors, for example if the device has not passed both snapshots yet.
    pub fn between(&self, begin: &EventSnapshot, end: &EventSnapshot) -> Result<Vec<StreamTime>> {
        let mut times = Vec::new();
        for (stream, (after, last)) in &end.of_stream {
            let first = begin.of_stream.get(stream);
            let queued = after - first.map_or(0, |(before, _)| *before);
            // A new stream has no event at `begin`, so the event of the stream for copies, which is usually idle, gives the start.
            let Some((_, first)) = first.or_else(|| begin.of_stream.get(&TRANSFERS)).filter(|_| queued > 0) else {
                continue;
            };
            let [start_us, end_us] = [self.zero.elapsed_us(first)?, self.zero.elapsed_us(last)?];
            times.push(StreamTime { stream: *stream, start_us, duration_us: (end_us - start_us).max(0.0), queued });
        }
        Ok(times)
    }
}

//! Converts a cycle to a trace in Chrome's format, for Perfetto (ui.perfetto.dev) and chrome://tracing.
//!
//! The format is Chrome's "Trace Event Format": complete events, flows from a call to the work that it queued, and
//! counters.

use super::{Cycle, Profile};
use crate::{Error, Result};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use warpbook_device::ActivityKind;

/// Process ids of the host and the device in the trace.
const HOST: u32 = 1;
const DEVICE: u32 = 2;
/// Lanes of the host that are not threads.
const STEPS: u32 = 0;
const RANGES: u32 = 1;

impl Cycle {
    /// Returns the trace as JSON.
    #[must_use]
    pub fn chrome_trace(&self) -> String {
        written(self.events(), &self.source)
    }

    /// Returns the trace's events, starting at the cycle's start.
    fn events(&self) -> Vec<Value> {
        let mut events = vec![named("process_name", HOST, 0, "host"), named("thread_name", HOST, STEPS, "steps")];
        events.push(named("thread_name", HOST, RANGES, "ranges"));
        if !self.work.is_empty() || !self.memory.is_empty() {
            events.push(named("process_name", DEVICE, 0, "device"));
        }
        for step in &self.steps {
            let name = format!("step {}", step.number);
            events.push(complete((HOST, STEPS), &name, "step", (step.start_us, step.duration_us), json!({})));
        }
        for range in &self.ranges {
            let args = json!({ "flops": range.work.flops, "bytes": range.work.bytes, "device_us": range.device_us });
            events.push(complete((HOST, RANGES), &range.name, "range", (range.start_us, range.duration_us), args));
        }
        let threads: BTreeSet<u32> = self.calls.iter().map(|c| c.thread).collect();
        events.extend(threads.iter().map(|t| named("thread_name", HOST, *t, &format!("driver calls of thread {t}"))));
        let mut starts = HashMap::new();
        for call in &self.calls {
            let args = json!({ "correlation": call.correlation, "range": self.name_of(call.range) });
            let at = (call.start_us, call.duration_us);
            events.push(complete((HOST, call.thread), &call.name, "driver", at, args));
            starts.insert(call.correlation, (call.thread, call.start_us));
        }
        let streams: BTreeSet<u32> = self.work.iter().map(|w| w.stream).collect();
        events.extend(streams.iter().map(|s| named("thread_name", DEVICE, *s, &format!("stream {s}"))));
        let mut flowing = BTreeSet::new();
        for work in &self.work {
            let (category, mut args) = described(&work.kind);
            args["stream"] = work.stream.into();
            if let Some(rate) = work.bytes_per_s() {
                args["GB/s"] = json!(rate / 1e9);
            }
            args["correlation"] = work.correlation.into();
            args["range"] = self.name_of(work.range).into();
            if !work.operation.is_empty() {
                args["operation"] = work.operation.as_str().into();
            }
            let at = (work.start_us, work.duration_us);
            events.push(complete((DEVICE, work.stream), &work.name, category, at, args));
            // A flow leads from a driver call to the first work that it queued.
            if let Some((thread, start)) = starts.get(&work.correlation)
                && flowing.insert(work.correlation)
            {
                let flow = |phase: &str, (pid, tid): (u32, u32), ts: f64| json!({ "ph": phase, "id": work.correlation, "pid": pid, "tid": tid, "ts": ts, "cat": "launch", "name": "launch", "bp": "e" });
                events.push(flow("s", (HOST, *thread), *start));
                events.push(flow("f", (DEVICE, work.stream), work.start_us));
            }
        }
        for change in &self.memory {
            let point = &change.point;
            let args = json!({ "allocated": point.allocated, "pools in use": point.pool_allocated, "pools reserved": point.pool_reserved });
            events.push(json!({ "ph": "C", "pid": DEVICE, "tid": 0, "ts": change.at_us, "name": "device memory (bytes)", "args": args }));
        }
        events
    }

    /// Writes the trace to a file.
    ///
    /// # Errors
    /// If the file cannot be written ([`Error::Write`]).
    pub fn save_trace(&self, path: impl AsRef<Path>) -> Result<PathBuf> {
        save(path.as_ref(), &self.chrome_trace())
    }

    fn name_of(&self, range: Option<usize>) -> &str {
        range.and_then(|r| self.ranges.get(r)).map_or("", |r| &r.name)
    }
}

impl Profile {
    /// Returns all cycles as one trace, each at the time when it ran.
    #[must_use]
    pub fn chrome_trace(&self) -> String {
        let (mut all, mut lanes) = (Vec::new(), Vec::new());
        for cycle in &self.cycles {
            // Flows in different cycles need different ids.
            let flows = (cycle.number as u64) << 32;
            for mut event in cycle.events() {
                if let Some(at) = event.get("ts").and_then(Value::as_f64) {
                    event["ts"] = json!(at + cycle.began_us);
                }
                if let Some(id) = event.get("id").and_then(Value::as_u64) {
                    event["id"] = json!(id + flows);
                }
                // All cycles name the lanes in the same way, so each name is written only once.
                if event["ph"] != "M" || !lanes.contains(&event) {
                    if event["ph"] == "M" {
                        lanes.push(event.clone());
                    }
                    all.push(event);
                }
            }
        }
        written(all, self.cycles.first().map_or("", |c| &c.source))
    }

    /// Writes the trace of all cycles to a file.
    ///
    /// # Errors
    /// If the file cannot be written ([`Error::Write`]).
    pub fn save_trace(&self, path: impl AsRef<Path>) -> Result<PathBuf> {
        save(path.as_ref(), &self.chrome_trace())
    }
}

fn written(events: Vec<Value>, source: &str) -> String {
    json!({ "traceEvents": events, "displayTimeUnit": "ns", "otherData": { "source": source } }).to_string()
}

fn save(path: &Path, text: &str) -> Result<PathBuf> {
    warpbook_device::write_atomic(path, text.as_bytes()).map_err(|why| Error::Write { path: path.into(), why })?;
    Ok(path.to_owned())
}

/// Returns the trace event that names a lane or a process.
fn named(what: &str, pid: u32, tid: u32, name: &str) -> Value {
    json!({ "ph": "M", "pid": pid, "tid": tid, "name": what, "args": { "name": name } })
}

fn complete((pid, tid): (u32, u32), name: &str, category: &str, (ts, dur): (f64, f64), args: Value) -> Value {
    json!({ "ph": "X", "pid": pid, "tid": tid, "name": name, "cat": category, "ts": ts, "dur": dur, "args": args })
}

fn described(kind: &ActivityKind) -> (&'static str, Value) {
    match kind {
        ActivityKind::Kernel { grid, block, registers, shared_bytes } => {
            ("kernel", json!({ "grid": grid, "block": block, "registers": registers, "shared_bytes": shared_bytes }))
        }
        ActivityKind::Copy { bytes } => ("copy", json!({ "bytes": bytes })),
        ActivityKind::Fill { bytes } => ("fill", json!({ "bytes": bytes })),
        ActivityKind::Range => ("range, by events", json!({})),
        _ => ("other", json!({})),
    }
}

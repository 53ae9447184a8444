//! Spans of the `tracing` crate as ranges of a profile.
//!
//! A program is profiled with a separate subscriber, which collects the spans of the profiler's thread while a cycle is
//! recorded. Log events are passed on to the previous subscriber.

use super::{RangeTime, StepTime, Work, us};
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Instant;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Metadata, Subscriber};

/// The field that names the subject of a span: a span "forward" with the operation "conv1" becomes the range "conv1
/// forward".
const OPERATION: &str = "operation";

/// The ranges that a subscriber received, shared with the profiler.
#[derive(Debug, Default)]
pub(super) struct Spans {
    is_recording: AtomicBool,
    heard: Mutex<Heard>,
}

#[derive(Debug, Default)]
struct Heard {
    /// Live spans by id: the name, the number of handles, and the time when the span was entered.
    alive: HashMap<u64, (String, usize, Option<Instant>)>,
    ended: Vec<Ended>,
}

/// A span that was entered and left.
#[derive(Debug)]
pub(super) struct Ended {
    name: String,
    begin: Instant,
    end: Instant,
}

impl Spans {
    /// Starts or stops collecting spans.
    pub(super) fn record(&self, is_recording: bool) {
        if is_recording {
            // Without this, a span first reached by a thread without a subscriber would stay disabled for all threads.
            tracing::callsite::rebuild_interest_cache();
        }
        self.is_recording.store(is_recording, Ordering::Relaxed);
    }

    /// Returns the ranges that have ended since the last call.
    pub(super) fn take(&self) -> Vec<Ended> {
        std::mem::take(&mut self.heard().ended)
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a program and collects the spans of this thread.
pub(super) fn heard_by<T>(spans: &Arc<Spans>, program: impl FnOnce() -> T) -> T {
    let before = tracing::dispatcher::get_default(Dispatch::clone);
    let thread = std::thread::current().id();
    tracing::subscriber::with_default(
        Collector { spans: spans.clone(), before, thread, ids: AtomicU64::new(1) },
        program,
    )
}

/// A subscriber that collects spans.
struct Collector {
    spans: Arc<Spans>,
    before: Dispatch,
    thread: ThreadId,
    ids: AtomicU64,
}

/// The operation named by a span.
#[derive(Default)]
struct SpanOperation(Option<String>);

impl Visit for SpanOperation {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == OPERATION {
            self.0 = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() || self.before.enabled(metadata)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        if self.spans.is_recording.load(Ordering::Relaxed) {
            let mut operation = SpanOperation::default();
            span.record(&mut operation);
            let name = span.metadata().name();
            let name = operation.0.map_or_else(|| name.to_owned(), |of| format!("{of} {name}"));
            self.spans.heard().alive.insert(id, (name, 1, None));
        }
        Id::from_u64(id)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.before.event(event);
    }

    fn enter(&self, id: &Id) {
        if std::thread::current().id() == self.thread
            && let Some((.., entered)) = self.spans.heard().alive.get_mut(&id.into_u64())
        {
            *entered = Some(Instant::now());
        }
    }

    fn exit(&self, id: &Id) {
        let end = Instant::now();
        if std::thread::current().id() != self.thread || !self.spans.is_recording.load(Ordering::Relaxed) {
            return;
        }
        let mut heard = self.spans.heard();
        let left =
            heard.alive.get_mut(&id.into_u64()).and_then(|(name, _, entered)| Some((name.clone(), entered.take()?)));
        heard.ended.extend(left.map(|(name, begin)| Ended { name, begin, end }));
    }

    fn clone_span(&self, id: &Id) -> Id {
        if let Some((_, holders, _)) = self.spans.heard().alive.get_mut(&id.into_u64()) {
            *holders += 1;
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut heard = self.spans.heard();
        let Some((_, holders, _)) = heard.alive.get_mut(&id.into_u64()) else { return true };
        *holders -= 1;
        let is_last = *holders == 0;
        if is_last {
            heard.alive.remove(&id.into_u64());
        }
        is_last
    }
}

/// Appends the spans of a cycle that began at `begin` to the program's own ranges, each with the innermost range or
/// span around it.
pub(super) fn add(spans: Vec<Ended>, begin: Instant, steps: &[StepTime], ranges: &mut Vec<RangeTime>) {
    let own = ranges.len();
    for span in spans.into_iter().filter(|s| s.begin >= begin) {
        let start_us = us(span.begin - begin);
        let step = steps.iter().rev().find(|s| s.start_us <= start_us).or(steps.first());
        ranges.push(RangeTime {
            name: span.name,
            parent: None,
            depth: 0,
            step: step.map_or(0, |s| s.number),
            start_us,
            duration_us: us(span.end - span.begin),
            work: Work::default(),
            device_us: 0.0,
            launches: 0,
            allocated_bytes: 0,
        });
    }
    ranges[own..].sort_by(|a, b| a.start_us.total_cmp(&b.start_us).then(b.duration_us.total_cmp(&a.duration_us)));
    let end = |r: &RangeTime| r.start_us + r.duration_us;
    let mut order: Vec<usize> = (0..ranges.len()).collect();
    order.sort_by(|a, b| {
        let [of_a, of_b] = [a, b].map(|i| &ranges[*i]);
        of_a.start_us.total_cmp(&of_b.start_us).then(end(of_b).total_cmp(&end(of_a))).then(a.cmp(b))
    });
    let mut around: Vec<usize> = Vec::new();
    for place in order {
        // A span that has ended encloses no later one; the tolerance is for rounding.
        while around.last().is_some_and(|outer| end(&ranges[*outer]) + 1e-3 < end(&ranges[place])) {
            around.pop();
        }
        if place >= own {
            let parent = around.last().copied();
            ranges[place].depth = parent.map_or(0, |p| ranges[p].depth + 1);
            ranges[place].parent = parent;
        }
        around.push(place);
    }
}

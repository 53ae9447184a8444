//! Timelines of a device and its host: lanes of spans, search, totals, and export as a trace for Perfetto.

use crate::text::search::folded;
use serde_json::json;
use std::collections::HashMap;
use warpbook_record::{Problem, Run, Span};

/// The number of operation kinds with their own colour; all others share the next one.
pub const KINDS: usize = 7;
const MANY_KINDS: usize = 512;

/// A span in a lane.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// The start in microseconds.
    pub from: f64,
    /// The end in microseconds.
    pub to: f64,
    /// The span's own name, such as a kernel's.
    pub name: String,
    /// The operation that the span belongs to; may be empty.
    pub operation: String,
    /// `true` if the operation is a host range, such as "load and queue"; the span's own name then says more.
    pub by_host: bool,
    /// The index of the span's colour.
    pub tone: usize,
}

impl Bar {
    /// Returns the operation if it is known and runs on the device, otherwise the span's own name.
    pub fn title(&self) -> &str {
        if self.operation.is_empty() || self.by_host { &self.name } else { &self.operation }
    }

    /// Returns `true` if the name or the operation contains a text, given in lower case.
    pub fn has(&self, wanted: &str) -> bool {
        [&self.name, &self.operation].iter().any(|t| folded(t).contains(wanted))
    }
}

/// A stream, or the host.
#[derive(Debug, Clone, PartialEq)]
pub struct Lane {
    /// The lane's name, such as "stream 7" or "CPU".
    pub name: String,
    /// The lane's spans, sorted by start.
    pub bars: Vec<Bar>,
    /// For each bar, the latest end among it and the bars before it.
    latest: Vec<f64>,
}

impl Lane {
    /// Returns the bars that may be visible between two times.
    pub fn between(&self, (from, to): (f64, f64)) -> &[Bar] {
        let first = self.latest.partition_point(|end| *end < from);
        let last = self.bars.partition_point(|b| b.from <= to);
        self.bars.get(first..last).unwrap_or_default()
    }
}

/// The timeline of one recorded run of a rung.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    /// The host's lane first, then streams in the order of their first spans.
    pub lanes: Vec<Lane>,
    /// The kinds of operations, the most time-consuming first.
    pub kinds: Vec<String>,
    /// The end of the last span in microseconds.
    pub end: f64,
}

/// The total time of an operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Total {
    /// The operation's name, or the kernel's if the operation is not known.
    pub name: String,
    /// The time within the selection in microseconds.
    pub us: f64,
    /// The number of spans.
    pub count: usize,
}

/// The kinds of spans. An operation such as "conv1 forward" is of the kind "forward" if another layer has a "forward"
/// too; any other operation is its own kind. Without an operation, or if the operation is a host range, the kind is the
/// span's name.
struct Kinds<'a> {
    /// Operations that are host ranges.
    by_host: Vec<&'a str>,
    /// Each kind with one layer that has it, and whether another layer has it too.
    layers: Vec<(&'a str, &'a str, bool)>,
}

impl<'a> Kinds<'a> {
    fn from_spans(spans: &[&'a Span]) -> Self {
        let (mut by_host, mut layers): (Vec<&str>, Vec<(&str, &str, bool)>) = Default::default();
        for span in spans {
            if is_host(&span.stream) && by_host.len() < MANY_KINDS && !by_host.contains(&&*span.name) {
                by_host.push(&span.name);
            }
            let Some((layer, kind)) = span.operation.split_once(' ') else { continue };
            match layers.iter().position(|l| l.0 == kind) {
                Some(at) => layers[at].2 |= layers[at].1 != layer,
                None if layers.len() < MANY_KINDS => layers.push((kind, layer, false)),
                None => {}
            }
        }
        Self { by_host, layers }
    }

    fn is_by_host(&self, span: &Span) -> bool {
        !is_host(&span.stream) && self.by_host.contains(&&*span.operation)
    }

    fn kind(&self, span: &'a Span) -> &'a str {
        match span.operation.split_once(' ') {
            _ if span.operation.is_empty() || self.is_by_host(span) => &span.name,
            Some((_, kind)) if self.layers.iter().any(|l| l.0 == kind && l.2) => kind,
            _ => &span.operation,
        }
    }
}

/// Returns the rungs with recorded spans for a problem, in the record's order.
pub fn rungs<'a>(run: &'a Run, problem: &Problem) -> Vec<&'a str> {
    let mut all: Vec<&str> = Vec::new();
    for span in run.spans.iter().filter(|s| s.problem == *problem) {
        if !all.contains(&span.rung.as_str()) {
            all.push(&span.rung);
        }
    }
    all
}

/// Returns the problem whose spans are shown: the given one if it has spans, or else the first that has spans.
pub fn recorded<'a>(run: &'a Run, problem: &'a Problem) -> &'a Problem {
    let mut all = run.spans.iter().map(|s| &s.problem);
    if all.clone().any(|p| p == problem) { problem } else { all.next().unwrap_or(problem) }
}

impl Trace {
    /// Creates the trace of a rung for a problem. Spans without a valid time are left out.
    pub fn for_rung(run: &Run, problem: &Problem, rung: &str) -> Self {
        let fine = |s: &&Span| {
            s.start_us.is_finite() && s.start_us >= 0.0 && s.duration_us.is_finite() && s.duration_us >= 0.0
        };
        let spans: Vec<&Span> = run.spans_of(rung, problem).into_iter().filter(fine).collect();
        let all = Kinds::from_spans(&spans);
        let kind = |span| all.kind(span);
        let mut kinds: Vec<(&str, f64)> = Vec::new();
        for span in &spans {
            let known = kinds.iter().position(|k| k.0 == kind(span));
            match known {
                Some(at) => kinds[at].1 += span.duration_us,
                // Further kinds are ignored, since most of them would never be shown.
                None if kinds.len() < MANY_KINDS => kinds.push((kind(span), span.duration_us)),
                None => {}
            }
        }
        kinds.sort_by(|a, b| b.1.total_cmp(&a.1));
        kinds.truncate(KINDS);
        let mut streams: Vec<&str> = Vec::new();
        let mut lanes: Vec<Lane> = Vec::new();
        for span in &spans {
            let at = streams.iter().position(|s| *s == span.stream).unwrap_or_else(|| {
                // A bare number needs the word "stream" before it.
                let is_number = span.stream.chars().all(|c| c.is_ascii_digit());
                let name = match is_host(&span.stream) {
                    true => "CPU".to_owned(),
                    false if is_number => format!("stream {}", span.stream),
                    false => span.stream.clone(),
                };
                streams.push(&span.stream);
                lanes.push(Lane { name, bars: Vec::new(), latest: Vec::new() });
                streams.len() - 1
            });
            lanes[at].bars.push(Bar {
                from: span.start_us,
                to: span.end_us(),
                name: span.name.clone(),
                operation: span.operation.clone(),
                by_host: all.is_by_host(span),
                tone: kinds.iter().position(|k| k.0 == kind(span)).unwrap_or(KINDS),
            });
        }
        for lane in &mut lanes {
            lane.bars.sort_by(|a, b| a.from.total_cmp(&b.from));
            let mut latest = 0.0;
            lane.latest = lane
                .bars
                .iter()
                .map(|b| {
                    latest = f64::max(latest, b.to);
                    latest
                })
                .collect();
        }
        lanes.sort_by_key(|l| l.name != "CPU");
        let end = lanes.iter().filter_map(|l| l.latest.last()).fold(0.0, |a: f64, b| a.max(*b));
        Self { lanes, kinds: kinds.into_iter().map(|k| k.0.to_owned()).collect(), end }
    }

    /// Returns the number of spans.
    pub fn count(&self) -> usize {
        self.lanes.iter().map(|l| l.bars.len()).sum()
    }

    /// Returns the time of each operation between two times, for names that contain a text; the longest first.
    pub fn totals(&self, (from, to): (f64, f64), wanted: &str) -> Vec<Total> {
        let wanted = folded(wanted.trim());
        let mut all: HashMap<&str, (f64, usize)> = HashMap::new();
        for bar in self.lanes.iter().flat_map(|l| l.between((from, to))) {
            let us = bar.to.min(to) - bar.from.max(from);
            if us < 0.0 || !(wanted.is_empty() || bar.has(&wanted)) {
                continue;
            }
            let entry = all.entry(bar.title()).or_default();
            entry.0 += us;
            entry.1 += 1;
        }
        let mut all: Vec<Total> =
            all.into_iter().map(|(name, (us, count))| Total { name: name.to_owned(), us, count }).collect();
        all.sort_by(|a, b| b.us.total_cmp(&a.us).then_with(|| a.name.cmp(&b.name)));
        all
    }

    /// Returns the next span after a time whose name contains a text; the search wraps around.
    pub fn next(&self, wanted: &str, after: f64) -> Option<&Bar> {
        let wanted = folded(wanted.trim());
        let found = || self.lanes.iter().flat_map(|l| &l.bars).filter(|b| !wanted.is_empty() && b.has(&wanted));
        let first = |a: &&Bar, b: &&Bar| a.from.total_cmp(&b.from);
        found().filter(|b| b.from > after).min_by(first).or_else(|| found().min_by(first))
    }

    /// Returns the trace in the trace-event format that Perfetto and Chrome read.
    pub fn events(&self, title: &str) -> String {
        let named = |what: &str, tid: usize, name: &str| json!({ "ph": "M", "name": what, "pid": 1, "tid": tid, "args": { "name": name } });
        let mut events = vec![named("process_name", 0, title)];
        for (tid, lane) in self.lanes.iter().enumerate() {
            events.push(named("thread_name", tid, &lane.name));
            events.extend(lane.bars.iter().map(|b| {
                let place = if lane.name == "CPU" { "host" } else { "device" };
                json!({
                    "ph": "X", "name": b.title(), "cat": place, "pid": 1, "tid": tid, "ts": b.from, "dur": b.to - b.from,
                    "args": { "kernel": b.name }
                })
            }));
        }
        json!({ "traceEvents": events, "displayTimeUnit": "ns" }).to_string()
    }
}

fn is_host(stream: &str) -> bool {
    matches!(stream, "host" | "cpu" | "CPU")
}

/// The visible interval of a timeline, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sight {
    /// The start of the interval.
    pub from: f64,
    /// The end of the interval.
    pub to: f64,
}

impl Sight {
    /// Returns the interval of a whole timeline.
    pub fn all(end: f64) -> Self {
        Self { from: 0.0, to: end.max(1e-3) }
    }

    /// Rounds both times to nanoseconds, as in addresses.
    pub fn rounded(self) -> Self {
        Self { from: nanoseconds(self.from), to: nanoseconds(self.to) }
    }

    /// Zooms in by a factor (out if below 1) around the point at `share` of the width, within a timeline that ends at
    /// `end`.
    pub fn nearer(self, factor: f64, share: f64, end: f64) -> Self {
        let width = self.to - self.from;
        // The shortest interval is a nanosecond, the resolution of recorded times.
        let wanted = (width / factor).clamp(1e-3, end.max(1e-3));
        let from = self.from + (width - wanted) * share.clamp(0.0, 1.0);
        Self { from, to: from + wanted }.within(end)
    }

    /// Moves the interval by a share of its width.
    pub fn moved(self, share: f64, end: f64) -> Self {
        let by = (self.to - self.from) * share;
        Self { from: self.from + by, to: self.to + by }.within(end)
    }

    fn within(self, end: f64) -> Self {
        let width = self.to - self.from;
        let from = self.from.min(end.max(1e-3) - width).max(0.0);
        Self { from, to: from + width }
    }
}

/// The state of a timeline in an address; the default shows all of the first rung.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Shown {
    /// The rung that is shown.
    pub rung: Option<String>,
    /// The visible interval.
    pub sight: Option<Sight>,
    /// The selected interval.
    pub selected: Option<Sight>,
    /// The search text.
    pub search: String,
}

impl Shown {
    /// Returns the query parameters that describe the state.
    pub fn pairs(&self) -> impl Iterator<Item = (&'static str, String)> {
        let search = (!self.search.is_empty()).then(|| self.search.clone());
        let range = |s: &Option<Sight>| s.map(|s| format!("{}..{}", nanoseconds(s.from), nanoseconds(s.to)));
        let all = [
            ("trace", self.rung.clone()),
            ("sight", range(&self.sight)),
            ("span", range(&self.selected)),
            ("find", search),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }

    /// Reads one of the query parameters that [`Shown::pairs`] returns.
    pub fn read(&mut self, name: &str, value: String) {
        match name {
            "trace" => self.rung = Some(value),
            "sight" => self.sight = range(&value),
            "span" => self.selected = range(&value),
            "find" => self.search = value,
            _ => {}
        }
    }
}

/// Rounds microseconds to nanoseconds, the resolution of recorded times.
fn nanoseconds(us: f64) -> f64 {
    (us * 1e3).round() / 1e3
}

fn range(text: &str) -> Option<Sight> {
    let (from, to) = text.split_once("..")?;
    let sight = Sight { from: from.parse().ok()?, to: to.parse().ok()? };
    (sight.from >= 0.0 && sight.to > sight.from && sight.to.is_finite()).then_some(sight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_what_is_shown() {
        let sight = |from, to| Some(Sight { from, to });
        let all = Shown {
            rung: Some("a b".into()),
            sight: sight(0.0, 12.345_678),
            selected: sight(1.5, 2.25),
            search: "conv3 µ".into(),
        };
        let mut read = Shown::default();
        all.pairs().for_each(|(name, value)| read.read(name, value));
        assert_eq!(read, Shown { sight: sight(0.0, 12.346), ..all });
        assert_eq!(Shown::default().pairs().count(), 0);
        for wrong in ["", "..", "1..1", "2..1", "-1..2", "0..inf", "NaN..1", "0..NaN", "a..b"] {
            assert_eq!(range(wrong), None, "{wrong}");
        }
    }
    use crate::testing::sample_run;

    fn span(run: &Run, operation: &str, stream: &str, from: f64, us: f64) -> Span {
        Span {
            rung: run.rungs[0].id.to_string(),
            problem: run.main_problem().unwrap().clone(),
            name: format!("kernel_{operation}"),
            operation: operation.into(),
            stream: stream.into(),
            start_us: from,
            duration_us: us,
            bytes: None,
            correlation: None,
        }
    }

    fn traced(spans: &[(&str, &str, f64, f64)]) -> Trace {
        let mut run = sample_run();
        run.spans = spans.iter().map(|(o, s, from, us)| span(&run, o, s, *from, *us)).collect();
        let problem = run.main_problem().unwrap().clone();
        assert_eq!(rungs(&run, &problem), [&*run.rungs[0].id]);
        Trace::for_rung(&run, &problem, &run.rungs[0].id)
    }

    #[test]
    fn spans_lie_in_lanes_and_are_added_up() {
        let trace = traced(&[
            ("conv1 forward", "7", 10.0, 5.0),
            ("launch", "host", 0.0, 2.0),
            ("conv2 forward", "7", 0.0, 4.0),
            ("conv1 backward", "8", 4.0, f64::NAN),
            ("conv1 backward", "8", 4.0, 8.0),
        ]);
        let names: Vec<&str> = trace.lanes.iter().map(|l| l.name.as_str()).collect();
        assert_eq!(names, ["CPU", "stream 7", "stream 8"]);
        assert_eq!((trace.count(), trace.end), (4, 15.0));
        assert_eq!(trace.kinds, ["forward", "conv1 backward", "launch"]);
        let seven = &trace.lanes[1];
        assert_eq!(seven.between((5.0, 9.0)).len(), 0);
        assert_eq!(seven.between((3.0, 11.0)).len(), 2);
        let total = |name: &str, us, count| Total { name: name.into(), us, count };
        assert_eq!(
            trace.totals((3.0, 12.0), "conv1"),
            [total("conv1 backward", 8.0, 1), total("conv1 forward", 2.0, 1)]
        );
        assert_eq!(trace.totals((0.0, 15.0), "").len(), 4);
        assert_eq!(trace.next("FORWARD", 0.0).map(|b| b.from), Some(10.0));
        assert_eq!(trace.next("forward", 10.0).map(|b| b.from), Some(0.0), "from the beginning again");
        assert_eq!(trace.next("", 0.0), None);
        let json: serde_json::Value = serde_json::from_str(&trace.events("a \"title\"")).unwrap();
        let events = json["traceEvents"].as_array().unwrap();
        assert_eq!(events.iter().filter(|e| e["ph"] == "X").count(), 4);
        assert!(events.iter().any(|e| e["name"] == "conv1 forward" && e["ts"] == 10.0 && e["dur"] == 5.0));
        assert!(events.iter().any(|e| e["args"]["name"] == "a \"title\""));
    }

    #[test]
    fn a_range_of_the_hosts_hides_no_kernel() {
        let mut run = sample_run();
        let mut host = span(&run, "load and queue", "host", 0.0, 9.0);
        host.name = "load and queue".into();
        let kernel = |name: &str, stream: &str, from| Span {
            name: name.into(),
            operation: "load and queue".into(),
            ..span(&run, "", stream, from, 2.0)
        };
        let spans = [kernel("copy to the device", "0", 1.0), kernel("gemm", "1", 3.0)];
        run.spans = vec![host];
        run.spans.extend(spans);
        let problem = run.main_problem().unwrap().clone();
        let trace = Trace::for_rung(&run, &problem, &run.rungs[0].id);
        assert_eq!(trace.kinds, ["load and queue", "copy to the device", "gemm"]);
        let titles: Vec<&str> = trace.lanes.iter().map(|l| l.bars[0].title()).collect();
        assert_eq!(titles, ["load and queue", "copy to the device", "gemm"]);
        let tones: Vec<usize> = trace.lanes.iter().map(|l| l.bars[0].tone).collect();
        assert_eq!(tones, [0, 1, 2]);
        // With a single layer, operations keep the layer's name.
        let one =
            traced(&[("load and queue", "1", 0.0, 5.0), ("fc1 input gradient", "rank 0 communication", 0.0, 4.0)]);
        assert_eq!(one.kinds, ["load and queue", "fc1 input gradient"]);
        assert_eq!(one.lanes.iter().map(|l| l.name.as_str()).collect::<Vec<_>>(), ["stream 1", "rank 0 communication"]);
    }

    #[test]
    fn a_long_span_is_seen_wherever_it_is_in_sight() {
        let trace = traced(&[("long", "1", 0.0, 100.0), ("short", "1", 10.0, 1.0), ("late", "1", 90.0, 1.0)]);
        assert_eq!(trace.lanes[0].between((50.0, 60.0)).iter().filter(|b| b.to > 50.0).count(), 1);
    }

    #[test]
    fn sights_stay_within_the_timeline() {
        let all = Sight::all(100.0);
        let near = all.nearer(4.0, 1.0, 100.0);
        assert_eq!(near, Sight { from: 75.0, to: 100.0 });
        assert_eq!(near.moved(1.0, 100.0), near);
        assert_eq!(near.moved(-10.0, 100.0), Sight { from: 0.0, to: 25.0 });
        assert_eq!(near.nearer(0.01, 0.5, 100.0), all);
        let nearest = (0..200).fold(all, |s, _| s.nearer(2.0, 0.5, 100.0));
        assert!(nearest.to > nearest.from && nearest.from > 49.0);
    }
}

use crate::charts::diagram::{Diagram, Timeline};
use crate::draw::text::words::{counted, listed, percent, significant, time};
use crate::draw::{Chart, ChartError, Options, clean};
use crate::record::{device, heading, joined, label, missing, names, pass, usable};
use warpbook_record::{Problem, Run, Span};

/// Number of colours for kinds of operations; all further kinds are grey.
const KINDS: usize = 6;
const OTHERS: usize = 7;

impl Options {
    /// Draws the device's activity over time in one run, or in one pass of work that has many passes, with a lane for
    /// each stream. Of the rungs recorded for the problem, it shows the baseline and the fastest, on one scale.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if nothing was recorded for the problem.
    pub fn timeline(&self, run: &Run, problem: &Problem) -> Result<Chart, ChartError> {
        let recorded = |id: &str| !run.spans_of(id, problem).is_empty();
        let baseline = run.baseline(problem).map(|m| m.rung.as_str()).filter(|id| recorded(id));
        let us = |id: &&str| run.measurement(id, problem).and_then(|m| usable(m.median_us())).unwrap_or(f64::INFINITY);
        let mut all: Vec<&str> = Vec::new();
        for span in run.spans.iter().filter(|s| s.problem == *problem) {
            if !all.contains(&span.rung.as_str()) {
                all.push(&span.rung);
            }
        }
        let fastest = all.iter().copied().min_by(|a, b| us(a).total_cmp(&us(b)));
        let mut shown: Vec<&str> = baseline.into_iter().chain(fastest).collect();
        shown.dedup();
        self.timelines(run, problem, &shown)
    }

    /// Draws chosen rungs like [`Options::timeline`], one below the other.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if none of them was recorded for the problem.
    pub fn timelines(&self, run: &Run, problem: &Problem, rungs: &[&str]) -> Result<Chart, ChartError> {
        let fine = |s: &&Span| s.start_us.is_finite() && s.start_us >= 0.0 && usable(Some(s.duration_us)).is_some();
        let spans_of = |id: &str| run.spans_of(id, problem).into_iter().filter(fine).collect::<Vec<&Span>>();
        let shown: Vec<(&str, Vec<&Span>)> =
            rungs.iter().map(|id| (*id, spans_of(id))).filter(|(_, spans)| !spans.is_empty()).collect();
        if shown.is_empty() {
            return Err(missing("timeline of a run", problem));
        }
        let every: Vec<&Span> = shown.iter().flat_map(|(_, spans)| spans.iter().copied()).collect();
        let until = every.iter().map(|s| s.end_us()).fold(0.0, f64::max);
        let kinds = Kinds::new(&every);
        let mut phrases = Vec::new();
        // If the work passes over its inputs many times, only one pass was recorded.
        let what = if problem.passes > 1 { pass(run) } else { "run".into() };
        let titled: Vec<(String, &[&Span])> =
            shown.iter().map(|(id, spans)| (names(run, id).0, spans.as_slice())).collect();
        let topic = format!("{}: one {what} over time", heading(run));
        let mut diagram = Diagram::new(&claim(&titled))
            .subtitle(&joined([topic, device(run), label(problem), format!("0 to {}", time(until))]))
            .table(["rung", "operation", "name", "stream", "start (µs)", "duration (µs)"]);
        for (id, spans) in &shown {
            let title = names(run, id).0;
            let mut streams: Vec<&str> = Vec::new();
            for span in spans {
                if !streams.contains(&span.stream.as_str()) {
                    streams.push(&span.stream);
                }
            }
            let lane = |s: &&str| if is_number(s) { format!("stream {s}") } else { clean(s) };
            let lanes: Vec<String> = streams.iter().map(lane).collect();
            let mut drawn =
                Timeline::new(&lanes.iter().map(String::as_str).collect::<Vec<_>>()).until(until).in_microseconds();
            for span in spans {
                let lane = streams.iter().position(|s| *s == span.stream).unwrap_or(0);
                let kind = kinds.kind(span);
                let tone = kinds.shown.iter().position(|k| *k == kind).unwrap_or(OTHERS);
                let text =
                    if span.operation.is_empty() || kinds.is_by_host(span) { &span.name } else { &span.operation };
                let legend = if tone == OTHERS { "others" } else { kind };
                drawn = drawn.span(lane, (span.start_us, span.end_us()), tone, text, legend);
                let figures = [span.start_us, span.duration_us].map(|us| significant(us, 6));
                diagram = diagram.figures([id, &*span.operation, &span.name, &span.stream, &figures[0], &figures[1]]);
            }
            let end = spans.iter().map(|s| s.end_us()).fold(0.0, f64::max);
            let sentence = format!("{title}: {}, {}", on_lanes(spans, &streams), time(end));
            phrases.push(sentence.clone());
            diagram = diagram.row(&sentence).put(drawn);
        }
        diagram
            .note(
                "Recording lengthens the gaps between kernels. Spans that are too short for their names have no text.",
            )
            .describe(&format!(
                "Timelines of what {} did in one {what}, {}: {}.",
                device(run),
                label(problem),
                phrases.join("; ")
            ))
            .draw()
    }
}

/// Lane of a profile's host ranges.
const HOST: &str = "host";
/// Names of two kinds: copies, and kernels that belong to a host range.
const COPIES: &str = "copies";
const KERNELS: &str = "kernels";

/// Returns the finding: the share of its time in which a rung has no work on the device, or in any lane if there are
/// several devices or ranks. Of many rungs the first two are named. If only the host was recorded, the finding is its time.
fn claim(rungs: &[(String, &[&Span])]) -> String {
    let shown = &rungs[..rungs.len().min(2)];
    let one_device = |(_, spans): &(String, &[&Span])| spans.iter().all(|s| s.stream == HOST || is_number(&s.stream));
    let who = if shown.iter().all(one_device) { "The device is" } else { "All lanes are" };
    // Where only the host was recorded, nothing is known about the device.
    if shown.iter().any(|(_, spans)| spans.iter().all(|s| s.stream == HOST)) {
        let end = |spans: &[&Span]| time(spans.iter().map(|s| s.end_us()).fold(0.0, f64::max));
        let times = shown.iter().map(|(name, spans)| format!("“{name}” for {}", end(spans)));
        return format!("The host works on {}", listed(&times.collect::<Vec<_>>()));
    }
    // A shorter idle time would be written as 0 %.
    match shown.iter().all(|(_, spans)| idle(spans) < 0.005) {
        true => {
            let names: Vec<String> = shown.iter().map(|(name, _)| format!("“{name}”")).collect();
            format!("Less than 0.5 % of {} is idle time", listed(&names))
        }
        false => {
            let shares = shown.iter().map(|(name, spans)| format!("{} of “{name}”", percent(idle(spans))));
            format!("{who} idle for {}", listed(&shares.collect::<Vec<_>>()))
        }
    }
}

/// Returns the share of the time from the first span to the end of the last in which only the host has work.
fn idle(spans: &[&Span]) -> f64 {
    let from = spans.iter().map(|s| s.start_us).fold(f64::INFINITY, f64::min);
    let to = spans.iter().map(|s| s.end_us()).fold(0.0, f64::max);
    let mut works: Vec<&&Span> = spans.iter().filter(|s| s.stream != HOST).collect();
    works.sort_by(|a, b| a.start_us.total_cmp(&b.start_us));
    let (mut end, mut gaps) = (from, 0.0);
    for span in works {
        gaps += (span.start_us - end).max(0.0);
        end = end.max(span.end_us());
    }
    (gaps + to - end) / (to - from)
}

/// Returns true for a stream with a number; other streams have a name, such as "host" or "cuda:1 copies".
fn is_number(stream: &str) -> bool {
    stream.starts_with(|c: char| c.is_ascii_digit())
}

/// Counts the spans in a timeline's lanes.
fn on_lanes(spans: &[&Span], streams: &[&str]) -> String {
    if streams.iter().all(|s| s.starts_with("rank ")) {
        return format!("{} operations in {}", spans.len(), counted(streams.len(), "lane"));
    }
    let of_host = spans.iter().filter(|s| s.stream == HOST).count();
    let mut numbers: Vec<&str> = streams.iter().filter(|s| **s != HOST).map(|s| stream_of(s)).collect();
    numbers.sort();
    numbers.dedup();
    let of_device = format!("{} kernels and copies on {}", spans.len() - of_host, counted(numbers.len(), "stream"));
    match of_host {
        0 => of_device,
        _ => format!("{} of the host, {of_device}", counted(of_host, "range")),
    }
}

/// Returns the stream of a lane: "0" for "0.1", which contains overlapping work. Named lanes are their own streams.
fn stream_of(lane: &str) -> &str {
    match lane.split_once('.') {
        Some((stream, n)) if [stream, n].iter().all(|t| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit())) => {
            stream
        }
        _ => lane,
    }
}

/// The kinds that spans are coloured by.
struct Kinds<'a> {
    /// Operations that are host ranges, such as "load and queue". A device span inside one is better described by its
    /// own name.
    by_host: Vec<&'a str>,
    /// The kinds that take the most time.
    shown: Vec<&'a str>,
}

impl<'a> Kinds<'a> {
    fn new(spans: &[&'a Span]) -> Self {
        let by_host = spans.iter().filter(|s| s.stream == HOST).map(|s| &*s.name).collect();
        let mut kinds = Self { by_host, shown: Vec::new() };
        kinds.shown = kinds.most(spans);
        kinds
    }

    /// Returns true if a device span belongs to a host range.
    fn is_by_host(&self, span: &Span) -> bool {
        span.stream != HOST && self.by_host.contains(&&*span.operation)
    }

    /// Returns the kind of a span's operation: its name without the first word, such as "forward" for "conv1 forward";
    /// all copies are one kind.
    fn kind(&self, span: &'a Span) -> &'a str {
        match () {
            () if span.stream == HOST => HOST,
            () if span.name.starts_with("copy ") => COPIES,
            () if self.is_by_host(span) => KERNELS,
            () => span.operation.split_once(' ').map_or("", |(_, kind)| kind),
        }
    }

    fn most(&self, spans: &[&'a Span]) -> Vec<&'a str> {
        let mut found: Vec<(&str, f64, Vec<&str>)> = Vec::new();
        for span in spans.iter().filter(|s| !self.kind(s).is_empty()) {
            let kind = self.kind(span);
            match found.iter_mut().find(|(k, ..)| *k == kind) {
                Some((_, us, of)) => {
                    *us += span.duration_us;
                    if !of.contains(&span.operation.as_str()) {
                        of.push(&span.operation);
                    }
                }
                None => found.push((kind, span.duration_us, vec![&span.operation])),
            }
        }
        // A kind needs at least two operations.
        found.retain(|(kind, _, of)| of.len() > 1 || [COPIES, KERNELS, HOST].contains(kind));
        found.sort_by(|a, b| b.1.total_cmp(&a.1));
        found.into_iter().take(KINDS).map(|(kind, ..)| kind).filter(|k| !clean(k).is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(stream: &str, start_us: f64, duration_us: f64) -> Span {
        Span {
            rung: "a".into(),
            problem: Problem::new("p", "p", Vec::new(), warpbook_record::Dtype::F32),
            name: "".into(),
            operation: "".into(),
            stream: stream.into(),
            start_us,
            duration_us,
            bytes: None,
            correlation: None,
        }
    }

    #[test]
    fn a_title_has_the_share_of_idle_time() {
        let check = |rungs: &[&[Span]], expect: &str| {
            let spans: Vec<Vec<&Span>> = rungs.iter().map(|spans| spans.iter().collect()).collect();
            let named = spans.iter().zip('A'..).map(|(spans, name)| (name.to_string(), spans.as_slice()));
            assert_eq!(claim(&named.collect::<Vec<_>>()), expect);
        };
        // Two streams overlap, and nothing runs from 6 to 10 us; the second rung has no gap.
        let gap = [span("2", 10.0, 2.0), span("0", 2.0, 3.0), span("1", 3.0, 3.0)];
        check(&[&gap], "The device is idle for 40 % of “A”");
        let full = [span("0", 0.0, 5.0), span("0", 5.0, 5.0)];
        check(&[&gap, &full], "The device is idle for 40 % of “A” and 0 % of “B”");
        check(&[&full], "Less than 0.5 % of “A” is idle time");
        check(&[&full, &full, &gap], "Less than 0.5 % of “A” and “B” is idle time");
        // The host begins and ends alone.
        check(&[&[span("host", 0.0, 10.0), span("0", 1.0, 8.0)]], "The device is idle for 20 % of “A”");
        check(&[&[span("host", 0.0, 10.0)], &full], "The host works on “A” for 10.0 µs and “B” for 10.0 µs");
        check(
            &[&[span("rank 0 compute", 0.0, 1.0), span("rank 1 compute", 3.0, 1.0)]],
            "All lanes are idle for 50 % of “A”",
        );
    }
}

use crate::charts::training::course::{Watched, test_losses, test_name, watched};
use crate::draw::text::words::{counted, listed, percent, plain, significant};
use crate::draw::{
    Axis, Chart, ChartError, DASHES, Frame, Lines, MARKERS, MAX_ENTRIES, MarkData, Options, Paint, Series, Stroke,
    Table, clean,
};
use crate::record::{RunnerKind, device, divergence, heading, joined, label, name};
use warpbook_record::{LossPoint, Problem, Run, TrainLog};

/// Relative difference below which two curves are drawn as one.
const SAME: f64 = 1e-3;
/// Relative difference below which two final losses are called the same.
const CLOSE: f64 = 0.02;
/// A line of a single training has markers if it has at most this many points.
const MARKED: usize = 40;
/// An axis is logarithmic if its largest value is more than this many times its smallest.
const LOG_FROM: f64 = 10.0;

impl Options {
    /// Draws the loss over the steps if all losses were logged by step, else over the epochs; one curve for each rung. Rungs whose curves coincide
    /// share one that names them all.
    ///
    /// A curve ends where its loss is no longer finite; a label names that step or epoch.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if the record has no finite loss for the problem.
    pub fn loss_curve(&self, run: &Run, problem: &Problem) -> Result<Chart, ChartError> {
        let mut logs: Vec<&TrainLog> =
            run.train_logs.iter().filter(|l| l.problem == *problem && !l.losses.is_empty()).collect();
        if logs.is_empty() {
            return Err(ChartError::NothingToDraw(format!("The record has no logged losses of {}.", label(problem))));
        }
        let place = |l: &TrainLog| run.rungs.iter().position(|r| r.id == l.rung).unwrap_or(usize::MAX);
        logs.sort_by_cached_key(|l| place(l));
        let by = if logs.iter().flat_map(|l| &l.losses).all(|p| p.step.is_some()) { By::Step } else { By::Epoch };
        let groups = grouped(by, &logs);
        if groups.is_empty() {
            let when = divergence(logs[0]).unwrap_or_else(|| "diverged".into());
            return Err(ChartError::NothingToDraw(format!(
                "No training of {} has a finite loss: {} {when}.",
                label(problem),
                name(run, &logs[0].rung)
            )));
        }
        let mut series: Vec<Series> =
            groups.iter().take(MAX_ENTRIES).enumerate().map(|(i, g)| line(run, by, i, g)).collect();
        let tested = if by == By::Step { watched(run, problem) } else { Vec::new() };
        let tests = test_losses(&tested, series.len());
        let of_tests: Vec<(f64, f64)> = tests.iter().flat_map(|s| s.points.clone()).collect();
        series.extend(tests);
        let all = || groups.iter().flat_map(|g| finite(by, g[0])).chain(of_tests.iter().copied());
        let ys = || all().map(|p| p.1);
        let (low, high) = ys().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
        let log = low > 0.0 && high / low > LOG_FROM;
        let y = if log { Axis::log(ys(), 0.08) } else { Axis::around(ys()) };
        let of_logs = logs.iter().flat_map(|l| &l.losses).map(|p| by.position(p) as f64);
        // The axis starts at zero, so that all curves start together.
        let x = Axis::from_zero(all().map(|p| p.0).chain(of_logs));
        let scale = if log { "; logarithmic scale" } else { "" };
        let loss = clean(&run.descriptor.loss);
        Lines {
            series,
            guides: Vec::new(),
            zoom: false,
            x,
            y,
            x_tick: plain,
            y_tick: plain,
            x_caption: by.word().into(),
            y_caption: format!("{}{scale}", if loss.is_empty() { "loss" } else { &loss }),
            frame: frame(self, (run, problem), by, &logs, &groups, &tested),
        }
        .draw()
    }
}

/// The horizontal axis of losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Epoch,
    Step,
}

impl By {
    fn word(self) -> &'static str {
        match self {
            Self::Epoch => "epoch",
            Self::Step => "step",
        }
    }

    fn position(self, point: &LossPoint) -> u64 {
        match self {
            Self::Epoch => point.epoch,
            Self::Step => point.step.unwrap_or(point.epoch),
        }
    }
}

/// Returns the points up to the first that is not finite. If several points share a position, only the last of them is returned.
fn finite(by: By, log: &TrainLog) -> impl Iterator<Item = (f64, f64)> {
    let end = log.losses.iter().position(|p| !p.loss.is_finite()).unwrap_or(log.losses.len());
    let points = &log.losses[..end];
    let is_last = move |i: usize| points.get(i + 1).is_none_or(|next| by.position(next) != by.position(&points[i]));
    (0..end).filter(move |i| is_last(*i)).map(move |i| (by.position(&points[i]) as f64, points[i].loss))
}

/// Returns true if two curves look the same.
fn coincide(by: By, a: &TrainLog, b: &TrainLog) -> bool {
    let close = |x: f64, y: f64| (x - y).abs() <= SAME * x.abs().max(y.abs());
    let (mut p, mut q) = (finite(by, a), finite(by, b));
    loop {
        match (p.next(), q.next()) {
            (None, None) => return divergence(a) == divergence(b),
            (Some(x), Some(y)) if x.0 == y.0 && close(x.1, y.1) => {}
            _ => return false,
        }
    }
}

/// Groups the curves that have points; coinciding ones share a group.
fn grouped<'a>(by: By, logs: &[&'a TrainLog]) -> Vec<Vec<&'a TrainLog>> {
    let mut groups: Vec<Vec<&TrainLog>> = Vec::new();
    for log in logs.iter().filter(|l| finite(by, l).next().is_some()) {
        match groups.iter_mut().find(|g| coincide(by, g[0], log)) {
            Some(g) => g.push(log),
            None => groups.push(vec![log]),
        }
    }
    groups
}

fn line(run: &Run, by: By, number: usize, group: &[&TrainLog]) -> Series {
    let alone = run.train_logs.len() == 1 && group[0].course.is_some();
    let mut label: Vec<String> = match alone {
        true => vec!["training batches".into()],
        false => group.iter().take(MAX_ENTRIES).map(|l| name(run, &l.rung)).collect(),
    };
    let names = label.len();
    if group.len() > 1 {
        label.push(format!("({} alike within 0.1 %)", group.len()));
    }
    let ended = divergence(group[0]);
    let tones = RunnerKind::of_rung(run, &group[0].rung).tones();
    let tone = tones[number % tones.len()];
    label.extend(ended.clone());
    let broken = ended.filter(|_| group[0].losses.iter().any(|p| !p.loss.is_finite()));
    Series {
        label,
        names,
        points: finite(by, group[0]).collect(),
        // The gaps between dashes keep curves below visible.
        stroke: Stroke::dashed(Paint::solid(tone), 2.0, number % DASHES.len()),
        // Neither a single curve nor a noisy line of many steps has markers.
        marker: Some(MARKERS[number % MARKERS.len()]).filter(|_| !alone || group[0].losses.len() <= MARKED),
        scattered: false,
        apart: Vec::new(),
        is_rest: false,
        broken,
        data: MarkData { rung: group[0].rung.clone(), ..MarkData::of_problem(&group[0].problem) },
        each: Vec::new(),
    }
}

fn frame(
    options: &Options,
    (run, problem): (&Run, &Problem),
    by: By,
    logs: &[&TrainLog],
    groups: &[Vec<&TrainLog>],
    tests: &[Watched<'_>],
) -> Frame {
    let without: Vec<String> = logs
        .iter()
        .filter(|l| finite(by, l).next().is_none())
        .map(|l| format!("{} {}, before its first finite loss", name(run, &l.rung), divergence(l).unwrap_or_default()))
        .collect();
    let mut notes: Vec<String> = without.into_iter().take(MAX_ENTRIES).collect();
    if groups.len() > MAX_ENTRIES {
        notes.push(format!("{} of {} curves are drawn; the table has all.", MAX_ENTRIES, groups.len()));
    }
    let rate = problem.real("learning_rate").map_or(String::new(), |rate| format!("learning rate {}", plain(rate)));
    let word = by.word();
    let curves: Vec<String> = groups
        .iter()
        .take(MAX_ENTRIES)
        .map(|g| {
            let names = listed(&g.iter().take(MAX_ENTRIES).map(|l| name(run, &l.rung)).collect::<Vec<_>>());
            let (first, last) = (finite(by, g[0]).next(), finite(by, g[0]).last());
            let range = first.zip(last).map_or(String::new(), |(a, b)| {
                format!(" from {} at {word} {} to {} at {word} {}", short(a.1), a.0, short(b.1), b.0)
            });
            let ended = divergence(g[0]).map(|d| format!(", then {d}")).unwrap_or_default();
            format!("{names}{range}{ended}")
        })
        .collect();
    Frame {
        width: options.px(),
        title: claim(run, by, logs, groups).unwrap_or_else(|| format!("{}: loss", heading(run))),
        subtitle: joined([format!("{}: loss", heading(run)), device(run), label(problem), rate]),
        description: format!(
            "Loss over the {word}s of {} on {}: {}.",
            counted(logs.len(), "rung"),
            device(run),
            curves.join("; ")
        ),
        notes,
        table: table(run, by, logs, tests),
    }
}

/// Returns the finding. It names the trainings that diverged; if none did, it states the start and end of the only curve, or of curves that all agree;
/// otherwise it says which final loss is the lowest.
fn claim(run: &Run, by: By, logs: &[&TrainLog], groups: &[Vec<&TrainLog>]) -> Option<String> {
    let lost: Vec<&&TrainLog> = logs.iter().filter(|l| divergence(l).is_some()).collect();
    match (lost.as_slice(), logs.len()) {
        ([], _) => {}
        ([one], _) => return Some(format!("{} {}", name(run, &one.rung), divergence(one)?)),
        (several, all) => return Some(format!("{} of {all} trainings diverge", several.len())),
    }
    let ends = |log: &TrainLog| Some((finite(by, log).next()?.1, finite(by, log).last()?));
    if let [group] = groups {
        let (first, (place, last)) = ends(group[0])?;
        let way = match last {
            _ if (last - first).abs() <= SAME * first.abs() => "stays at",
            _ if last < first => "falls to",
            _ => "rises to",
        };
        let what = match group.len() {
            1 => "The loss".to_owned(),
            n => format!("The loss of {n} rungs, alike within 0.1 %,"),
        };
        let at = format!("{} {place}", by.word());
        return Some(format!("{what} {way} {} at {at}, from {}", short(last), short(first)));
    }
    let mut finals: Vec<(f64, String)> = Vec::new();
    for group in groups {
        finals.push((ends(group[0])?.1.1, name(run, &group[0].rung)));
    }
    finals.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (lowest, highest) = (finals.first()?, finals.last()?);
    Some(match (highest.0 - lowest.0) / lowest.0.abs() {
        apart if apart <= CLOSE => {
            format!("All {} trainings end at a loss of {}, within {}", logs.len(), short(lowest.0), percent(apart))
        }
        _ => format!("{} ends at the lowest loss: {}, the highest is {}", lowest.1, short(lowest.0), short(highest.0)),
    })
}

fn short(loss: f64) -> String {
    significant(loss, 4)
}

/// Formats a number as JSON does, so that the table matches the record.
fn figure(v: f64) -> String {
    match v {
        v if v.is_finite() => significant(v, 7),
        v if v.is_nan() => "NaN".into(),
        v if v > 0.0 => "Infinity".into(),
        _ => "-Infinity".into(),
    }
}

fn table(run: &Run, by: By, logs: &[&TrainLog], tests: &[Watched<'_>]) -> Table {
    let names = logs.iter().map(|l| name(run, &l.rung));
    let mut table = Table::new(std::iter::once(by.word().to_owned()).chain(names).chain(tests.iter().map(test_name)));
    // Columns are indexed by step, since a training may have many steps.
    let mut columns: Vec<Vec<(u64, f64)>> =
        logs.iter().map(|l| l.losses.iter().map(|p| (by.position(p), p.loss)).collect()).collect();
    columns.extend(tests.iter().map(|t| t.course.epochs.iter().map(|p| (p.step, p.test_loss)).collect()));
    columns.iter_mut().for_each(|losses| losses.sort_by_key(|l| l.0));
    let mut places: Vec<u64> = columns.iter().flatten().map(|l| l.0).collect();
    places.sort();
    places.dedup();
    for at in places {
        // The last of two losses at one step is used.
        let loss = |losses: &[(u64, f64)]| {
            let last = losses.partition_point(|l| l.0 <= at).checked_sub(1)?;
            (losses[last].0 == at).then(|| figure(losses[last].1))
        };
        let cells = columns.iter().map(|losses| loss(losses).unwrap_or_default());
        table.push(std::iter::once(at.to_string()).chain(cells));
    }
    let mut row = |what: &str, of: &dyn Fn(&TrainLog) -> String| {
        let rest = tests.iter().map(|_| String::new());
        table.push(std::iter::once(what.to_owned()).chain(logs.iter().map(|l| of(l))).chain(rest));
    };
    row("final training loss", &|l| figure(l.train_loss));
    row("final test loss", &|l| figure(l.test_loss));
    let mut parameters: Vec<&String> = logs.iter().flat_map(|l| l.parameters.keys()).collect();
    parameters.sort();
    parameters.dedup();
    for p in parameters.into_iter().take(MAX_ENTRIES) {
        row(p, &|l| l.parameters.get(p).map(|v| figure(*v)).unwrap_or_default());
    }
    table
}

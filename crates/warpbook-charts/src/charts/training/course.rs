//! The course of trainings: loss scale, learning rate and gradients over the steps.

use crate::draw::text::words::{counted, plain, power_of_two, significant, whole};
use crate::draw::{
    Axis, Chart, ChartError, DASHES, Frame, Lines, MARKERS, MAX_ENTRIES, MarkData, Marker, Options, Paint, Series,
    Stroke, Table, VERMILLION,
};
use crate::record::{RunnerKind, device, heading, joined, label, name};
use warpbook_record::{Course, Problem, Run, StepValue, TrainLog};

/// An axis is logarithmic if its largest value is more than this many times its smallest.
const LOG_FROM: f64 = 10.0;

/// A training whose course was recorded.
pub(crate) struct Watched<'a> {
    pub(crate) course: &'a Course,
    /// Kind of the training's rung.
    pub(crate) kind: RunnerKind,
    /// Data that all marks of the training share.
    pub(crate) data: MarkData,
    /// Name that distinguishes the training from the others; empty if it is the only one.
    pub(crate) name: String,
}

/// Returns the trainings of a problem whose courses were recorded, in the ladder's order.
pub(crate) fn watched<'a>(run: &'a Run, problem: &Problem) -> Vec<Watched<'a>> {
    let of_problem = run.train_logs.iter().filter(|l| l.problem == *problem);
    let mut logs: Vec<_> = of_problem.filter_map(|log| Some((log, log.course.as_deref()?))).collect();
    let place = |l: &TrainLog| run.rungs.iter().position(|r| r.id == l.rung).unwrap_or(usize::MAX);
    logs.sort_by_cached_key(|(l, _)| place(l));
    logs.truncate(MAX_ENTRIES);
    let several = logs.len() > 1;
    let named = |log: &TrainLog| if several { name(run, &log.rung) } else { String::new() };
    let data = |log: &TrainLog| MarkData { rung: log.rung.clone(), ..MarkData::of_problem(problem) };
    logs.into_iter()
        .map(|(log, course)| Watched {
            course,
            kind: RunnerKind::of_rung(run, &log.rung),
            data: data(log),
            name: named(log),
        })
        .collect()
}

/// Adds a training's name before a text, if it has one.
pub(crate) fn words(of: &Watched<'_>, text: &str) -> String {
    if of.name.is_empty() { text.to_owned() } else { format!("{}: {text}", of.name) }
}

pub(crate) fn series(number: usize, of: &Watched<'_>, label: Vec<String>, points: Vec<(f64, f64)>) -> Series {
    let tones = of.kind.tones();
    let color = tones[number % tones.len()];
    Series {
        label,
        names: 1,
        points,
        stroke: Stroke::dashed(Paint::solid(color), 2.0, number % DASHES.len()),
        marker: Some(MARKERS[number % MARKERS.len()]),
        scattered: false,
        apart: Vec::new(),
        is_rest: false,
        broken: None,
        data: of.data.clone(),
        each: Vec::new(),
    }
}

pub(crate) fn nothing(run: &Run, problem: &Problem, what: &str) -> ChartError {
    let problem_label = if run.train_logs.is_empty() { "no training".into() } else { label(problem) };
    ChartError::NothingToDraw(format!("The record has no {what} of {problem_label}."))
}

fn finite(points: &[StepValue]) -> impl DoubleEndedIterator<Item = (f64, f64)> + '_ {
    points.iter().filter(|p| p.value.is_finite()).map(|p| (p.step as f64, p.value))
}

/// Returns a step line: each value holds until the next change, the last until the training's end.
fn stairs(points: &[StepValue], end: u64) -> Vec<(f64, f64)> {
    let mut out: Vec<(f64, f64)> = Vec::new();
    for (x, y) in finite(points) {
        if let Some((_, before)) = out.last().copied() {
            out.push((x, before));
        }
        out.push((x, y));
    }
    let last = out.last().copied();
    out.extend(last.filter(|(x, _)| *x < end as f64).map(|(_, y)| (end as f64, y)));
    out
}

/// Returns an axis for values, which is logarithmic if the values are above zero and differ by a large factor.
fn values_axis(values: impl Iterator<Item = f64> + Clone) -> (Axis, &'static str) {
    let (low, high) = values.clone().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
    let log = low > 0.0 && high / low > LOG_FROM;
    if log { (Axis::log(values, 0.08), "; logarithmic scale") } else { (Axis::around(values), "") }
}

/// A cell of a table: step, column and text.
type StepCell = (u64, usize, String);

/// Makes one row for each step; if two cells have the same place, the last one is used.
fn table(headers: Vec<String>, mut cells: Vec<StepCell>) -> Table {
    let columns = headers.len();
    let mut table = Table::new(std::iter::once("step".to_owned()).chain(headers));
    cells.sort_by_key(|c| c.0);
    for row in cells.chunk_by(|a, b| a.0 == b.0) {
        let mut texts = vec![String::new(); columns];
        row.iter().for_each(|(_, column, text)| texts[*column].clone_from(text));
        table.push(std::iter::once(row[0].0.to_string()).chain(texts));
    }
    table
}

fn cells<'a>(lists: impl Iterator<Item = &'a [StepValue]>) -> Vec<StepCell> {
    let cells_of = |(i, list): (usize, &'a [StepValue])| list.iter().map(move |p| (p.step, i, figure(p.value)));
    lists.enumerate().flat_map(cells_of).collect()
}

/// Formats a number as JSON does, so that the table matches the record.
pub(crate) fn figure(v: f64) -> String {
    match v {
        v if v.is_finite() => significant(v, 7),
        v if v.is_nan() => "NaN".into(),
        v if v > 0.0 => "Infinity".into(),
        _ => "-Infinity".into(),
    }
}

impl Options {
    /// Draws the loss scale over the steps, with a mark at each step skipped because a gradient overflowed.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if no loss of the problem was scaled.
    pub fn loss_scale(&self, run: &Run, problem: &Problem) -> Result<Chart, ChartError> {
        let mut logs = watched(run, problem);
        logs.retain(|l| finite(&l.course.loss_scales).any(|p| p.1 > 0.0));
        if logs.is_empty() {
            return Err(nothing(run, problem, "loss scale"));
        }
        let mut all = Vec::new();
        for log in &logs {
            let course = log.course;
            all.push(Series {
                marker: None,
                ..series(all.len(), log, vec![words(log, "loss scale")], stairs(&course.loss_scales, course.steps))
            });
            if !course.skipped_steps.is_empty() {
                let at = |step: &u64| {
                    let before = course.loss_scales.iter().rfind(|p| p.step <= *step && p.value.is_finite());
                    before.map(|p| (*step as f64, p.value))
                };
                all.push(Series {
                    label: vec![words(log, "skipped steps")],
                    points: course.skipped_steps.iter().filter_map(at).collect(),
                    stroke: Stroke::new(Paint::solid(VERMILLION), 2.0),
                    marker: Some(Marker::Cross),
                    scattered: true,
                    ..series(all.len(), log, Vec::new(), Vec::new())
                });
            }
        }
        all.retain(|s| !s.points.is_empty());
        let skipped = |l: &Watched<'_>| match l.course.skipped_total {
            0 => format!("no step of {} skipped", l.course.made()),
            n => format!("{n} of {} skipped", counted(l.course.made() as usize, "step")),
        };
        let result = logs.first().map(skipped).filter(|_| logs.len() == 1).unwrap_or_default();
        let sentences: Vec<String> = logs.iter().map(|l| words(l, &skipped(l))).collect();
        let mut table = {
            let headers = logs.iter().flat_map(|l| [words(l, "loss scale"), words(l, "weights")]);
            let mut cells = Vec::new();
            for (i, log) in logs.iter().enumerate() {
                let scales = log.course.loss_scales.iter();
                cells.extend(
                    scales.map(|p| (p.step, 2 * i, if p.value.is_finite() { whole(p.value) } else { figure(p.value) })),
                );
                let skipped = log.course.skipped_steps.iter();
                cells.extend(skipped.map(|step| (*step, 2 * i + 1, "left as they were".to_owned())));
            }
            table(headers.collect(), cells)
        };
        table.push(
            std::iter::once("all".to_owned())
                .chain(logs.iter().flat_map(|l| [String::new(), format!("{} skipped", l.course.skipped_total)])),
        );
        let values = || all.iter().flat_map(|s| &s.points);
        Lines {
            x: steps_axis(&logs),
            y: Axis::doubling(values().map(|p| p.1), 0.15),
            guides: Vec::new(),
            zoom: false,
            x_tick: plain,
            y_tick: power_of_two,
            x_caption: "step".into(),
            y_caption: "loss scale; logarithmic scale".into(),
            frame: Frame {
                width: self.px(),
                title: joined([format!("{}: loss scale", heading(run)), result]),
                subtitle: joined([device(run), label(problem)]),
                description: format!("Loss scale over the steps on {}: {}.", device(run), sentences.join("; ")),
                notes: vec![
                    "A step whose gradients overflow fp16 is skipped: the weights stay as they are, and the scale becomes smaller.".into(),
                ],
                table,
            },
            series: all,
        }
        .draw()
    }
}

fn steps_axis(logs: &[Watched<'_>]) -> Axis {
    Axis::from_zero(logs.iter().map(|l| l.course.steps as f64)).whole()
}

/// A chart of one value of a course over the steps.
struct OverSteps {
    what: &'static str,
    values: fn(&Course) -> &[StepValue],
    points: fn(&Course) -> Vec<(f64, f64)>,
    /// Returns the end of the title if there is only one training.
    result: fn(&Course) -> String,
    marked: bool,
}

fn over_steps(
    options: &Options,
    (run, problem): (&Run, &Problem),
    of: &OverSteps,
    caption: &str,
) -> Result<Chart, ChartError> {
    let mut logs = watched(run, problem);
    logs.retain(|l| !(of.points)(l.course).is_empty());
    if logs.is_empty() {
        return Err(nothing(run, problem, of.what));
    }
    let line = |(i, l): (usize, &Watched<'_>)| {
        let label = if l.name.is_empty() { of.what.to_owned() } else { l.name.clone() };
        let line = series(i, l, vec![label], (of.points)(l.course));
        Series { marker: line.marker.filter(|_| of.marked), ..line }
    };
    let series: Vec<Series> = logs.iter().enumerate().map(line).collect();
    let values: Vec<f64> = series.iter().flat_map(|s| &s.points).map(|p| p.1).collect();
    let (y, scale) = values_axis(values.iter().copied());
    let result = if logs.len() == 1 { (of.result)(logs[0].course) } else { String::new() };
    let sentences = logs.iter().map(|l| words(l, (of.result)(l.course).as_str()));
    Lines {
        series,
        guides: Vec::new(),
        zoom: false,
        x: steps_axis(&logs),
        y,
        x_tick: plain,
        y_tick: plain,
        x_caption: "step".into(),
        y_caption: format!("{caption}{scale}"),
        frame: Frame {
            width: options.px(),
            title: joined([format!("{}: {}", heading(run), of.what), result.clone()]),
            subtitle: joined([device(run), label(problem)]),
            description: format!(
                "The {} over the steps on {}: {}.",
                of.what,
                device(run),
                sentences.collect::<Vec<_>>().join("; ")
            ),
            notes: Vec::new(),
            table: table(
                logs.iter().map(|l| if l.name.is_empty() { of.what.to_owned() } else { l.name.clone() }).collect(),
                cells(logs.iter().map(|l| (of.values)(l.course))),
            ),
        },
    }
    .draw()
}

/// Formats a range such as "from 0.05 to 0.00625", or "0.001 throughout".
fn from_to(points: &[(f64, f64)]) -> String {
    match points.first().zip(points.last()) {
        Some((a, _)) if points.iter().all(|p| p.1 == a.1) => format!("{} throughout", significant_or_plain(a.1)),
        Some((a, b)) => {
            let most = points.iter().map(|p| p.1).fold(f64::NEG_INFINITY, f64::max);
            let [first, last] = [a.1, b.1].map(significant_or_plain);
            match most > a.1.max(b.1) {
                true => format!("from {first} up to {}, then down to {last}", significant_or_plain(most)),
                false => format!("from {first} to {last}"),
            }
        }
        None => String::new(),
    }
}

/// Formats a value with all of its digits if these are few, else with three.
fn significant_or_plain(v: f64) -> String {
    let text = plain(v);
    if text.len() <= 8 { text } else { significant(v, 3) }
}

impl Options {
    /// Draws the learning rate over the steps.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if the record has no learning rates for the problem.
    pub fn learning_rate(&self, run: &Run, problem: &Problem) -> Result<Chart, ChartError> {
        let chart = OverSteps {
            what: "learning rate",
            values: |c| &c.learning_rates,
            points: |c| stairs(&c.learning_rates, c.steps),
            result: |c| from_to(&finite(&c.learning_rates).collect::<Vec<_>>()),
            marked: false,
        };
        over_steps(self, (run, problem), &chart, "learning rate")
    }

    /// Draws the norm of all gradients before they are clipped, over the steps.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if no norm was computed; only fp16 and clipping need norms.
    pub fn gradient_norm(&self, run: &Run, problem: &Problem) -> Result<Chart, ChartError> {
        let chart = OverSteps {
            what: "gradient norm",
            values: |c| &c.gradient_norms,
            points: |c| finite(&c.gradient_norms).collect(),
            result: |c| {
                let most = finite(&c.gradient_norms).map(|p| p.1).fold(0.0, f64::max);
                format!("at most {}", significant(most, 3))
            },
            marked: false,
        };
        over_steps(self, (run, problem), &chart, "norm of all gradients before they are clipped")
    }
}

/// Returns the header of a training's test losses in the table of losses.
pub(crate) fn test_name(of: &Watched<'_>) -> String {
    words(of, "test loss")
}

/// Returns the losses on the test samples as lines over steps.
pub(crate) fn test_losses(logs: &[Watched<'_>], first: usize) -> Vec<Series> {
    let mut out: Vec<Series> = Vec::new();
    for log in logs {
        let finite = log.course.epochs.iter().filter(|p| p.test_loss.is_finite());
        let points: Vec<(f64, f64)> = finite.map(|p| (p.step as f64, p.test_loss)).collect();
        if !points.is_empty() {
            out.push(series(first + out.len(), log, vec![words(log, "test samples")], points));
        }
    }
    out
}

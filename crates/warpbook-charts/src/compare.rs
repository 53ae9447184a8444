use crate::bars::{Bar, Bars, Content, Row};
use crate::canvas::Frame;
use crate::common::{
    MAX_ENTRIES, comparable, debug_note, devices, difference, heading, joined, l2, label, medians, names, size_number,
    tags, verdict,
};
use crate::facts::Facts;
use crate::ladder::{LOG_FROM, less_is_better};
use crate::palette::SERIES;
use crate::text::clean;
use crate::ticks::Axis;
use crate::words::{counted, significant, time, time_tick, times};
use crate::{Chart, ChartError, Table};
use warpbook_record::{Measurement, Problem, Run};

/// The same rungs of several records side by side, at the problem of one size; factors are against the first record.
///
/// # Errors
/// [`ChartError::NotComparable`] where experiments, timing policies or the work differ;
/// [`ChartError::NothingToDraw`] with fewer than two records of that size, or no valid figure.
pub fn compare(runs: &[&Run], problem_size: u64) -> Result<Chart, ChartError> {
    comparable(runs)?;
    if runs.len() < 2 {
        return Err(ChartError::NothingToDraw("A comparison needs at least two records.".into()));
    }
    let size = match clean(&runs[0].descriptor.axis.unit) {
        unit if unit.is_empty() => format!("size {problem_size}"),
        unit => format!("{} {unit}", size_number(runs[0], problem_size)),
    };
    let tags = tags(runs);
    let mut problems: Vec<&Problem> = Vec::new();
    for (run, tag) in runs.iter().zip(&tags) {
        let first = problems.first().copied();
        let Some(problem) = main_of_size(run, problem_size, first) else {
            return Err(ChartError::NothingToDraw(format!("The record of {tag} has no measurement of {size}.")));
        };
        if let Some(difference) = first.and_then(|first| difference(first, problem)) {
            return Err(ChartError::NotComparable(format!("The records did different work: {difference}.")));
        }
        problems.push(problem);
    }
    let comparison = Comparison { runs, tags, problems, rungs: rungs(runs) };
    if comparison.drawn().next().is_none() {
        return Err(ChartError::NothingToDraw(format!("No record has a valid measurement of {size}.")));
    }
    comparison.draw()
}

/// The problem of that size with most valid measurements, the first of equals; one that is the same work as `like` before others.
fn main_of_size<'a>(run: &'a Run, size: u64, like: Option<&Problem>) -> Option<&'a Problem> {
    let valid = |p: &Problem| run.measurements.iter().filter(|m| m.problem == *p && verdict(run, m).is_ok()).count();
    let alike = |p: &Problem| like.is_some_and(|l| difference(l, p).is_none());
    let candidates = run.problems().into_iter().filter(|p| p.size() == size);
    candidates.rev().max_by_key(|p| (alike(p), valid(p)))
}

/// The rungs of the first record, then those that only others have.
fn rungs<'a>(runs: &[&'a Run]) -> Vec<&'a str> {
    let mut out: Vec<&str> = Vec::new();
    for run in runs {
        let known = run.rungs.iter().map(|r| r.id.as_ref());
        for id in known.chain(run.measurements.iter().map(|m| m.rung.as_str())) {
            if !out.contains(&id) {
                out.push(id);
            }
        }
    }
    out
}

struct Comparison<'a> {
    runs: &'a [&'a Run],
    tags: Vec<String>,
    /// One a record.
    problems: Vec<&'a Problem>,
    rungs: Vec<&'a str>,
}

impl<'a> Comparison<'a> {
    fn measurement(&self, rung: &str, record: usize) -> Option<&'a Measurement> {
        self.runs[record].measurement(rung, self.problems[record])
    }

    fn us(&self, rung: &str, record: usize) -> Option<f64> {
        verdict(self.runs[record], self.measurement(rung, record)?).ok()
    }

    fn drawn(&self) -> impl Iterator<Item = (&'a Run, &'a Measurement, f64)> + '_ {
        let all = self.rungs.iter().flat_map(|r| (0..self.runs.len()).map(move |i| (*r, i)));
        all.filter_map(|(r, i)| Some((self.runs[i], self.measurement(r, i)?, self.us(r, i)?)))
    }

    fn draw(self) -> Result<Chart, ChartError> {
        let times_us = || self.drawn().map(|d| d.2);
        let (low, high) = times_us().fold((f64::MAX, 0.0), |(a, b): (f64, f64), v| (a.min(v), b.max(v)));
        let far = high > LOG_FROM * low;
        let axis = if far { Axis::from_decade(times_us()) } else { Axis::from_zero(times_us()) };
        let mut rows = Vec::new();
        let mut shown = 0;
        for rung in &self.rungs {
            let present = (0..self.runs.len()).filter(|i| self.measurement(rung, *i).is_some()).count();
            if present == 0 {
                continue;
            }
            if shown + self.runs.len() > MAX_ENTRIES && shown > 0 {
                break;
            }
            shown += self.runs.len();
            rows.extend(self.rows(rung));
        }
        Bars {
            frame: self.frame(),
            rows,
            axis: Some(axis),
            base: None,
            tick: time_tick,
            caption: format!("time{}", less_is_better(far)),
            marks: Vec::new(),
            legend: Vec::new(),
        }
        .draw()
    }

    fn rows(&self, rung: &str) -> Vec<Row> {
        let owner = (0..self.runs.len()).find(|i| self.runs[*i].rung(rung).is_some()).unwrap_or(0);
        let (title, id) = names(self.runs[owner], rung);
        let mut rows = vec![Row { name: title, id: String::new(), content: Content::Heading(id) }];
        let first = self.us(rung, 0);
        for i in 0..self.runs.len().min(MAX_ENTRIES) {
            let content = match self.measurement(rung, i).map(|m| (m, verdict(self.runs[i], m))) {
                None => Content::Reason("not in this record".into()),
                Some((_, Err(why))) => Content::Reason(why),
                Some((m, Ok(us))) => {
                    let factor = first.filter(|_| i > 0).map(|f| format!(" · {}", times(f / us))).unwrap_or_default();
                    let label = format!("{}{factor}", time(us));
                    let mad = m.mad_us().filter(|d| d.is_finite() && *d > 0.0);
                    Content::Bar(Bar {
                        value: us,
                        spread: mad.map(|d| ((us - d).max(us * 1e-3), us + d)),
                        facts: Facts { series: self.tags[i].clone(), ..Facts::measured(m, label.clone()) },
                        label,
                        note: String::new(),
                        color: SERIES[i % SERIES.len()],
                        hollow: false,
                        parts: Vec::new(),
                    })
                }
            };
            rows.push(Row { name: self.tags[i].clone(), id: String::new(), content });
        }
        rows
    }

    fn frame(&self) -> Frame {
        let devices = devices(self.runs);
        let medians = format!("{} ± MAD", medians(self.drawn().map(|d| d.1)));
        let label = label(self.problems[0]);
        let mut notes = vec![format!("Factors: how many times as fast as in the first record ({}).", self.tags[0])];
        if self.runs.iter().any(|r| r.environment.device.name != self.runs[0].environment.device.name) {
            notes.push(format!("The records are of different devices: {devices}."));
        }
        notes.extend(debug_note(self.drawn().map(|d| (d.0, d.1))));
        Frame {
            title: format!("{}: {} compared", heading(self.runs[0]), counted(self.runs.len(), "record")),
            subtitle: joined([devices.clone(), label.clone(), medians, l2(self.runs[0]).to_owned()]),
            description: self.description(&devices, &label),
            notes,
            table: self.table(),
        }
    }

    fn description(&self, devices: &str, label: &str) -> String {
        let best = |i: usize| {
            let m = self.runs[i].fastest(self.problems[i])?;
            let (fastest, us) = (names(self.runs[i], &m.rung).0, time(m.median_us()?));
            Some(format!("in {} the fastest is {fastest} with {us}", self.tags[i]))
        };
        let all: Vec<String> = (0..self.runs.len()).take(MAX_ENTRIES).filter_map(best).collect();
        let said = if all.is_empty() { String::new() } else { format!(": {}", all.join("; ")) };
        format!("Bars of the time of the same rungs in several records on {devices}, {label}{said}.")
    }

    fn table(&self) -> Table {
        let mut table = Table::new(["rung", "record", "time (ms)", "MAD (ms)", "factor to the first", "outcome"]);
        for rung in &self.rungs {
            let first = self.us(rung, 0);
            for i in 0..self.runs.len() {
                let Some(m) = self.measurement(rung, i) else { continue };
                let us = self.us(rung, i);
                let digits = |v: Option<f64>, n| v.map(|v| significant(v, n)).unwrap_or_default();
                table.push([
                    (*rung).to_owned(),
                    self.tags[i].clone(),
                    digits(us.map(|t| t / 1e3), 5),
                    digits(us.and(m.mad_us()).map(|d| d / 1e3), 2),
                    digits(first.zip(us).map(|(f, t)| f / t), 4),
                    verdict(self.runs[i], m).err().unwrap_or_else(|| "measured".into()),
                ]);
            }
        }
        table
    }
}

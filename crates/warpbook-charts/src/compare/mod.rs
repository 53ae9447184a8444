//! Comparisons of two to eight records, as data: rows aligned by rung and problem, ratios with their intervals, verdicts.
//!
//! The other records are compared with the first one. [`noise_rule`](crate::noise_rule) defines when a ratio counts as a change.

mod at_size;
mod beside;
mod chart;
mod judge;
mod reference;
mod summary;
mod table;

pub use beside::beside;
pub use summary::{Counts, Drift};

use crate::draw::text::words::percent;
use crate::draw::{ChartError, clean};
use crate::record::{
    Aligned, Error, LogMedian, MAX_LABEL, Ratio, aligned, names, record_labels, same_meaning, sum, unlike, verdict,
};
use std::collections::{HashMap, HashSet};
use warpbook_record::{Measurement, Problem, Run};

/// Maximum number of records in one comparison; there are no colours and markers for more.
pub const MAX_RECORDS: usize = 8;

/// A rung's result for a problem, compared with its result in the first of the compared records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Faster than in the first record, beyond noise.
    Improved,
    /// Slower than in the first record, beyond noise.
    Worse,
    /// The difference is within noise.
    WithinNoise,
    /// Only this record has a figure.
    New,
    /// Only the first record has a figure.
    Missing,
    /// The two figures measure different things: [`ComparedCell::why`] states the difference.
    NotComparable,
}

impl Verdict {
    /// All verdicts, in the order in which they are counted.
    pub const ALL: [Self; 6] =
        [Self::Improved, Self::Worse, Self::WithinNoise, Self::New, Self::Missing, Self::NotComparable];

    /// Returns the verdict's name in a table.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Improved => "faster",
            Self::Worse => "slower",
            Self::WithinNoise => "within noise",
            Self::New => "new",
            Self::Missing => "missing",
            Self::NotComparable => "not comparable",
        }
    }
}

/// The result of a rung for a problem in one record.
#[derive(Debug, Clone)]
pub struct ComparedCell<'a> {
    /// The record's measurement, if it has one.
    pub measurement: Option<&'a Measurement>,
    /// Median time in microseconds, if it may be drawn.
    pub us: Option<f64>,
    /// Speed-up over the first record, even if the two measurements are not comparable.
    pub ratio: Option<Ratio>,
    /// Share of the bound that the record's own device sets, if the records are of different devices.
    pub share: Option<f64>,
    /// Verdict of the comparison; `None` in the first record, and if neither record has a figure.
    pub verdict: Option<Verdict>,
    /// The difference, or the reason why there is no figure; usually empty.
    pub why: String,
    /// True if the rung did not change between the first record and this one, so that a change of its time is drift of the device.
    pub unchanged: bool,
    /// Logarithm of the measured ratio, with its error.
    ln: Option<(f64, Option<Error>)>,
}

/// The results of a rung for a problem in all records.
#[derive(Debug, Clone)]
pub struct ComparedRow<'a> {
    /// Id of the rung.
    pub rung: &'a str,
    /// Title of the rung.
    pub title: String,
    /// The problem, as described in the first record.
    pub problem: &'a Problem,
    /// True for a library or another framework; these do not count as Warpbook's rungs.
    pub reference: bool,
    /// One cell for each record.
    pub cells: Vec<ComparedCell<'a>>,
}

impl ComparedCell<'_> {
    /// Returns the share of the own device's bound, such as "62 % of its limit"; `None` between records of one device.
    #[must_use]
    pub fn share_in_words(&self) -> Option<String> {
        Some(format!("{} of its limit", percent(self.share?)))
    }
}

impl ComparedRow<'_> {
    /// Returns true if the first record has a figure, and another record has a comparable figure.
    #[must_use]
    pub fn is_common(&self) -> bool {
        use Verdict::{Improved, WithinNoise, Worse};
        self.cells.iter().any(|c| matches!(c.verdict, Some(Improved | Worse | WithinNoise)))
    }
}

/// Records compared with the first of them.
#[derive(Debug, Clone)]
pub struct Comparison<'a> {
    /// The records.
    pub runs: Vec<&'a Run>,
    /// Short names that distinguish the records.
    pub labels: Vec<String>,
    /// Problems of the first record that another record shares, each with its counterparts in all records.
    pub problems: Vec<Vec<Option<&'a Problem>>>,
    /// Number of problems that some record lacks.
    pub apart: usize,
    /// Rows by problem, then by rung.
    pub rows: Vec<ComparedRow<'a>>,
    /// True if drift was removed from the ratios.
    pub is_normalised: bool,
}

impl<'a> Comparison<'a> {
    /// Compares everything that the records measured of the same work.
    ///
    /// # Errors
    /// Returns [`ChartError::NotComparable`] if experiments differ or sizes have different meanings;
    /// [`ChartError::NothingToDraw`] for fewer than two records or more than [`MAX_RECORDS`], or if they share no
    /// problem.
    pub fn from_runs(runs: &[&'a Run]) -> Result<Self, ChartError> {
        same_meaning(runs)?;
        let nothing = |why: &str| Err(ChartError::NothingToDraw(why.into()));
        match runs.len() {
            0 | 1 => return nothing("A comparison needs at least two records."),
            n if n > MAX_RECORDS => {
                return nothing(&format!("At most {MAX_RECORDS} records are compared at once, not {n}."));
            }
            _ => {}
        }
        let all = aligned(runs);
        let is_shared = |p: &&Aligned<'a>| p.iter().flatten().count() > 1;
        let problems: Vec<Aligned<'a>> = all.iter().filter(is_shared).cloned().collect();
        if problems.is_empty() {
            return nothing("The records have no problem in common.");
        }
        let known: HashSet<&str> = all.iter().flatten().flatten().map(|p| p.id.as_str()).collect();
        let elsewhere: HashSet<&str> =
            runs.iter().flat_map(|r| r.problems()).map(|p| p.id.as_str()).filter(|id| !known.contains(id)).collect();
        let apart = elsewhere.len() + all.iter().filter(|p| p.iter().any(Option::is_none)).count();
        let mut out = Self {
            runs: runs.to_vec(),
            labels: record_labels(runs),
            rows: rows(runs, &problems),
            problems,
            apart,
            is_normalised: false,
        };
        out.judge();
        Ok(out)
    }

    /// Returns the comparison restricted to one problem of the first record.
    #[must_use]
    pub fn at(&self, problem: &Problem) -> Self {
        Self {
            runs: self.runs.clone(),
            labels: self.labels.clone(),
            problems: self.problems.iter().filter(|p| p[0].is_some_and(|p| p == problem)).cloned().collect(),
            apart: 0,
            rows: self.rows.iter().filter(|r| r.problem == problem).cloned().collect(),
            is_normalised: self.is_normalised,
        }
    }

    /// Returns the comparison with other short names; empty names and names past the last record are ignored.
    #[must_use]
    pub fn labelled(mut self, labels: &[String]) -> Self {
        for (label, other) in self.labels.iter_mut().zip(labels) {
            let other: String = clean(other).chars().take(MAX_LABEL).collect();
            if !other.is_empty() {
                *label = other;
            }
        }
        self
    }

    /// Returns the comparison with each problem's drift removed from its ratios.
    #[must_use]
    pub fn normalised(mut self) -> Self {
        self.is_normalised = true;
        self.judge();
        self
    }
}

/// Returns the rungs of the first record, then those that only other records have.
fn rungs<'a>(runs: &[&'a Run]) -> Vec<&'a str> {
    let (mut out, mut seen): (Vec<&str>, HashSet<&str>) = Default::default();
    for run in runs {
        let known = run.rungs.iter().map(|r| r.id.as_ref());
        let all = known.chain(run.measurements.iter().map(|m| m.rung.as_str()));
        out.extend(all.filter(|id| seen.insert(id)));
    }
    out
}

/// Makes a row for each rung and problem at which two or more records have a measurement or a reason for none.
fn rows<'a>(runs: &[&'a Run], problems: &[Aligned<'a>]) -> Vec<ComparedRow<'a>> {
    let index: Vec<HashMap<(&str, &str), &Measurement>> = runs.iter().map(|run| index(run)).collect();
    let rungs = rungs(runs);
    // This is computed once for all problems, since comparing long sources takes time.
    let unchanged: Vec<Vec<bool>> =
        rungs.iter().map(|rung| runs.iter().map(|run| reference::unchanged(runs[0], run, rung)).collect()).collect();
    let mut out = Vec::new();
    for of in problems {
        let Some(problem) = of[0] else { continue };
        for (rung, unchanged) in rungs.iter().zip(&unchanged) {
            let measured = |i: usize| index[i].get(&(*rung, of[i]?.id.as_str())).copied();
            if !(0..runs.len()).any(|i| measured(i).is_some()) {
                continue;
            }
            let owner = runs.iter().find(|r| r.rung(rung).is_some()).copied();
            let cells = (0..runs.len()).map(|i| cell(runs[i], of[i], measured(i), unchanged[i])).collect();
            out.push(ComparedRow {
                rung,
                title: names(owner.unwrap_or(runs[0]), rung).0,
                problem,
                reference: owner.and_then(|r| r.rung(rung)).is_some_and(reference::is_reference),
                cells,
            });
        }
    }
    let devices_differ = devices_differ(runs);
    for row in &mut out {
        compare_with_the_first(runs, row);
        for (cell, run) in row.cells.iter_mut().zip(runs).filter(|_| devices_differ) {
            let share = cell.measurement.filter(|_| cell.us.is_some()).and_then(|m| run.fraction_of_bound(m));
            cell.share = share.filter(|share| share.is_finite());
        }
    }
    out
}

/// Indexes the measurements of a record by rung and problem; the first of duplicates is used, as in a ladder.
fn index(run: &Run) -> HashMap<(&str, &str), &Measurement> {
    let mut out = HashMap::new();
    for m in &run.measurements {
        out.entry((m.rung.as_str(), m.problem.id.as_str())).or_insert(m);
    }
    out
}

fn cell<'a>(run: &Run, problem: Option<&Problem>, m: Option<&'a Measurement>, unchanged: bool) -> ComparedCell<'a> {
    let (us, why) = match (problem, m.map(|m| verdict(run, m))) {
        (_, Some(Ok(us))) => (Some(us), String::new()),
        (_, Some(Err(why))) => (None, why),
        (Some(_), None) => (None, "not in this record".into()),
        (None, None) => (None, "the record has no such problem".into()),
    };
    ComparedCell { measurement: m, us, ratio: None, share: None, verdict: None, why, unchanged, ln: None }
}

/// Returns true if the records are of more than one kind of device.
fn devices_differ(runs: &[&Run]) -> bool {
    runs.iter().any(|run| run.environment.device.name != runs[0].environment.device.name)
}

/// Fills in the differences and the measured ratios.
fn compare_with_the_first(runs: &[&Run], row: &mut ComparedRow<'_>) {
    let Some((first, others)) = row.cells.split_first_mut() else { return };
    for (i, cell) in others.iter_mut().enumerate() {
        match (first.measurement.filter(|_| first.us.is_some()), cell.measurement.filter(|_| cell.us.is_some())) {
            (Some(a), Some(b)) => {
                let (x, y) = (LogMedian::from_samples(&a.samples_us), LogMedian::from_samples(&b.samples_us));
                cell.ln = x.zip(y).map(|(x, y)| (x.ln - y.ln, x.error.zip(y.error).map(|(x, y)| sum([x, y]))));
                cell.why = unlike((runs[0], a), (runs[i + 1], b)).join("; ");
            }
            (None, Some(_)) => cell.why.clone_from(&first.why),
            _ => {}
        }
    }
}

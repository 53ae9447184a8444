//! A comparison in words: counts of verdicts, and drift.

use super::judge::{references, shift};
use super::{ComparedRow, Comparison, Verdict};
use crate::draw::text::words::{counted, listed, percent, times};
use crate::record::{Ratio, THRESHOLD, label};

/// Maximum number of changed rungs that are named.
const MOST_NAMED: usize = 3;

/// Counts of rungs by verdict for all problems of a comparison, without libraries and frameworks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Counts by [`Verdict`], in the order of [`Verdict::ALL`].
    pub by: [usize; 6],
    /// Number of faster or slower rungs whose source is the same in both records.
    pub moved_unchanged: usize,
}

impl Counts {
    /// Returns the count of a verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        self.by[verdict as usize]
    }

    /// Returns a sentence such as "7 faster, 1 slower, 12 within noise"; empty if there are no rungs.
    #[must_use]
    pub fn sentence(&self) -> String {
        let phrases =
            Verdict::ALL.iter().filter(|v| self.count(**v) > 0).map(|v| format!("{} {}", self.count(*v), v.label()));
        phrases.collect::<Vec<_>>().join(", ")
    }

    fn in_words(&self) -> String {
        match self.sentence() {
            none if none.is_empty() => "none of Warpbook's rungs has a figure in both".to_owned(),
            some => some,
        }
    }
}

/// The drift of the rungs that did not change.
#[derive(Debug, Clone, PartialEq)]
pub struct Drift {
    /// Speed-up over the first record: the median over all problems.
    pub factor: f64,
    /// Speed-up for the problem with the largest drift.
    pub furthest: f64,
    /// Titles of the reference rungs, without repetition.
    pub names: Vec<String>,
    /// True if the reference rungs are libraries or frameworks, false for kernels with the same source.
    pub foreign: bool,
}

impl Drift {
    /// Returns true if the drift exceeds noise.
    #[must_use]
    pub fn moved(&self) -> bool {
        is_moved(self.factor)
    }
}

fn is_moved(factor: f64) -> bool {
    !(1.0 / (1.0 + THRESHOLD)..=1.0 + THRESHOLD).contains(&factor)
}

/// Formats a change such as "17 %" for a factor of 1.17 or 0.83.
fn by(factor: f64) -> String {
    percent((factor - 1.0).abs())
}

fn direction(factor: f64) -> &'static str {
    if factor > 1.0 { "faster" } else { "slower" }
}

impl<'a> Comparison<'a> {
    /// Counts a record's rungs by verdict.
    #[must_use]
    pub fn counts(&self, record: usize) -> Counts {
        let mut out = Counts::default();
        for cell in self.rows.iter().filter(|r| !r.reference).filter_map(|r| r.cells.get(record)) {
            let Some(verdict) = cell.verdict else { continue };
            out.by[verdict as usize] += 1;
            let moved = matches!(verdict, Verdict::Improved | Verdict::Worse);
            out.moved_unchanged += usize::from(moved && cell.unchanged);
        }
        out
    }

    /// Groups the rows by problem.
    fn by_problem(&self) -> impl Iterator<Item = &[ComparedRow<'a>]> {
        self.rows.chunk_by(|a, b| a.problem == b.problem)
    }

    /// Returns the drift of a record; `None` if no rung is known to be unchanged.
    #[must_use]
    pub fn drift(&self, record: usize) -> Option<Drift> {
        let mut shifts: Vec<f64> = self.by_problem().filter_map(|rows| shift(rows, record)).map(|s| s.ln).collect();
        shifts.sort_by(f64::total_cmp);
        let median = warpbook_record::stats::median(&shifts)?;
        let furthest = shifts.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs()))?;
        let (mut names, mut foreign) = (Vec::new(), false);
        for (row, ..) in self.by_problem().flat_map(|rows| references(rows, record)) {
            foreign |= row.reference;
            if !names.contains(&row.title) {
                names.push(row.title.clone());
            }
        }
        let exp = |v: f64| v.clamp(-300.0, 300.0).exp();
        Some(Drift { factor: exp(median), furthest: exp(furthest), names, foreign })
    }

    /// Returns the finding of a comparison with the first record, by their labels: "mine against published: 1 faster, 1
    /// slower, 10 within noise".
    pub(super) fn finding(&self, record: usize) -> String {
        format!("{} against {}: {}", self.labels[record], self.labels[0], self.counts(record).in_words())
    }

    /// Compares a record with the first in a sentence, by their labels: "mine against published: “Fused” 1.25× as fast,
    /// “On the chip” 0.74×; 1 faster, 1 slower, 10 within noise; the reference (cuBLAS) drifted by 17 % (faster)."
    #[must_use]
    pub fn sentence(&self, record: usize) -> String {
        let counts = self.counts(record);
        let mut parts: Vec<String> = self.movers(record).into_iter().collect();
        parts.push(counts.in_words());
        if counts.moved_unchanged > 0 {
            let n = counts.moved_unchanged;
            let all = counts.count(Verdict::Improved) + counts.count(Verdict::Worse);
            parts.push(match () {
                () if n == all && n == 1 => "the one that moved has the same source in both".into(),
                () if n == all => "all that moved have the same source in both".into(),
                () => format!("{n} of the {all} that moved have the same source in both"),
            });
        }
        parts.extend(self.drift(record).map(|d| self.drift_in_words(record, &d)));
        if self.apart > 0 {
            let problems = counted(self.apart, "problem");
            parts.push(format!("{problems} not in every record"));
        }
        let text = parts.join("; ");
        format!("{} against {}: {text}.", self.labels[record], self.labels[0])
    }

    /// Returns a sentence about the record that is the fastest most often: "2026-12-24 is the fastest at 5 of 8 rungs"; `None` if no rung
    /// has a ratio.
    pub(super) fn finding_of_many(&self) -> Option<String> {
        let speeds = |row: &ComparedRow<'_>| -> Vec<(Ratio, usize)> {
            let others = (1..row.cells.len())
                .filter_map(|i| Some((row.cells[i].ratio.filter(|_| row.cells[i].why.is_empty())?, i)));
            let mut all: Vec<(Ratio, usize)> = others.chain([(Ratio::ONE, 0)]).collect();
            all.sort_by(|a, b| b.0.value.total_cmp(&a.0.value));
            all
        };
        let compared: Vec<_> = self.rows.iter().map(speeds).filter(|all| all.len() > 1).collect();
        let is_ahead = |all: &&Vec<(Ratio, usize)>| all[1..].iter().all(|(other, _)| all[0].0.is_above(other));
        let fastest: Vec<usize> = compared.iter().filter(is_ahead).map(|all| all[0].1).collect();
        let wins = |record: &usize| fastest.iter().filter(|first| *first == record).count();
        let best = (0..self.labels.len()).max_by_key(wins).filter(|_| !compared.is_empty())?;
        Some(match wins(&best) {
            0 => "No record is ahead of all others by more than noise at any rung".into(),
            count => format!("{} is the fastest at {count} of {}", self.labels[best], counted(compared.len(), "rung")),
        })
    }

    /// Names the rungs with the largest changes, with their problems if there are several: "“Fused” 1.25× as fast,
    /// “On the chip” 0.74× and 2 more".
    fn movers(&self, record: usize) -> Option<String> {
        let moved = |row: &&ComparedRow<'a>| {
            !row.reference && matches!(row.cells[record].verdict, Some(Verdict::Improved | Verdict::Worse))
        };
        let mut all: Vec<(f64, &ComparedRow<'a>)> =
            self.rows.iter().filter(moved).filter_map(|row| Some((row.cells[record].ratio?.value, row))).collect();
        all.sort_by(|a, b| b.0.ln().abs().total_cmp(&a.0.ln().abs()));
        let phrase = |(i, (ratio, row)): (usize, &(f64, &ComparedRow<'a>))| {
            let fast = if i == 0 { " as fast" } else { "" };
            let at = if self.problems.len() > 1 { format!(" at {}", label(row.problem)) } else { String::new() };
            format!("\u{201c}{}\u{201d} {}{fast}{at}", row.title, times(*ratio))
        };
        let mut named: Vec<String> = all.iter().take(MOST_NAMED).enumerate().map(phrase).collect();
        let more = all.len().saturating_sub(MOST_NAMED);
        named.extend((more > 0).then(|| format!("{more} more")));
        (!named.is_empty()).then(|| listed(&named))
    }

    fn drift_in_words(&self, record: usize, drift: &Drift) -> String {
        let (what, verb) = match (drift.foreign, drift.names.as_slice()) {
            (true, [one]) => (format!("the reference ({one})"), "is"),
            (true, [a, b]) => (format!("the references ({})", listed(&[a.clone(), b.clone()])), "are"),
            (true, names) => (format!("the references ({} and {} more)", names[0], names.len() - 1), "are"),
            (false, [one]) => (format!("the one kernel of unchanged source ({one})"), "is"),
            (false, names) => (format!("the {} kernels of unchanged source", names.len()), "are"),
        };
        let further = match self.problems.len() {
            0 | 1 => self.moved_references(record, drift),
            _ if !is_moved(drift.furthest) => String::new(),
            _ => format!(", but moved by up to {} at one problem", by(drift.furthest)),
        };
        let removed = if self.is_normalised { ", which is taken out of the ratios" } else { "" };
        if drift.moved() {
            format!("{what} drifted by {} ({}){further}{removed}", by(drift.factor), direction(drift.factor))
        } else {
            format!("{what} {verb} within noise{further}{removed}")
        }
    }

    /// Names the libraries and frameworks that changed at some problem although their median did not: ", but
    /// “torch.matmul” by 14 % (slower)".
    fn moved_references(&self, record: usize, drift: &Drift) -> String {
        if drift.moved() || !drift.foreign {
            return String::new();
        }
        let moved = references(&self.rows, record).filter_map(|(row, ln, error)| {
            let ratio = Ratio::new(ln, Some(error));
            let moved = ratio.is_faster() || ratio.is_slower();
            moved.then(|| format!("\u{201c}{}\u{201d} by {} ({})", row.title, by(ratio.value), direction(ratio.value)))
        });
        let moved: Vec<String> = moved.collect();
        if moved.is_empty() { String::new() } else { format!(" on the whole, but drifted: {}", listed(&moved)) }
    }
}

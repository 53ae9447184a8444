//! Verdicts from ratios, and drift from rungs that did not change.

use super::{ComparedCell, ComparedRow, Comparison, Verdict};
use crate::record::noise::{self, Error, Ratio};

/// The median drift of a problem's reference rungs, as a logarithm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shift {
    pub(super) ln: f64,
    error: Error,
}

impl Comparison<'_> {
    /// Computes the ratios and verdicts of every row.
    pub(super) fn judge(&mut self) {
        for rows in self.rows.chunk_by_mut(|a, b| a.problem == b.problem) {
            for record in 1..self.runs.len() {
                let shift = shift(rows, record).filter(|_| self.is_normalised);
                for row in rows.iter_mut() {
                    let known = row.cells[0].us.is_some();
                    decide(&mut row.cells[record], known, shift);
                }
            }
        }
    }
}

fn decide(cell: &mut ComparedCell<'_>, known: bool, shift: Option<Shift>) {
    cell.ratio = cell.ln.map(|(ln, error)| match (shift, error) {
        // The interval includes the noise of the reference rungs.
        (Some(shift), Some(error)) => Ratio::new(ln - shift.ln, Some(noise::sum([error, shift.error]))),
        (shift, error) => Ratio::new(ln - shift.map_or(0.0, |s| s.ln), error),
    });
    cell.verdict = match (known, cell.us.is_some(), &cell.ratio) {
        (false, false, _) => None,
        (false, true, _) => Some(Verdict::New),
        (true, false, _) => Some(Verdict::Missing),
        (true, true, Some(ratio)) if cell.why.is_empty() => Some(match () {
            () if ratio.is_faster() => Verdict::Improved,
            () if ratio.is_slower() => Verdict::Worse,
            () => Verdict::WithinNoise,
        }),
        (true, true, _) => Some(Verdict::NotComparable),
    };
}

/// Returns the cells of a record that show drift: unchanged libraries and frameworks, or else kernels with the same
/// source.
pub(super) fn references<'r, 'a>(
    rows: &'r [ComparedRow<'a>],
    record: usize,
) -> impl Iterator<Item = (&'r ComparedRow<'a>, f64, Error)> {
    let usable = move |row: &'r ComparedRow<'a>| {
        let cell = row.cells.get(record).filter(|c| c.unchanged && c.why.is_empty())?;
        let (ln, error) = cell.ln?;
        Some((row, ln, error?))
    };
    let foreign = rows.iter().any(|r| r.reference && usable(r).is_some());
    rows.iter().filter(move |r| r.reference == foreign).filter_map(usable)
}

/// Returns the drift of one problem; `None` if there are no reference rungs.
pub(super) fn shift(rows: &[ComparedRow<'_>], record: usize) -> Option<Shift> {
    let mut all: Vec<(f64, Error)> = references(rows, record).map(|(_, ln, error)| (ln, error)).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let n = all.len();
    let middle = &all[n.saturating_sub(1) / 2..(n / 2 + 1).min(n)];
    let k = middle.len() as f64;
    (n > 0).then(|| {
        let error = noise::sum(middle.iter().map(|m| m.1));
        Shift {
            ln: middle.iter().map(|m| m.0).sum::<f64>() / k,
            error: Error { variance: error.variance / (k * k), ..error },
        }
    })
}

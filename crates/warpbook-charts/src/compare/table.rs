//! A comparison as a table for files.

use super::Comparison;
use crate::draw::Table;
use crate::draw::text::words::significant;
use crate::record::label;

impl Comparison<'_> {
    /// Returns a row for each rung, problem and record.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new([
            "rung",
            "problem",
            "record",
            "time (ms)",
            "MAD (ms)",
            "samples",
            "factor to the first",
            "low (95 %)",
            "high (95 %)",
            "verdict",
            "unchanged",
            "% of own bound",
            "remark",
        ]);
        for row in &self.rows {
            for (cell, record) in row.cells.iter().zip(&self.labels) {
                let digits = |v: Option<f64>, n| v.map(|v| significant(v, n)).unwrap_or_default();
                let mad = cell.us.and(cell.measurement).and_then(|m| m.mad_us());
                let samples = cell.measurement.filter(|_| cell.us.is_some()).map(|m| m.samples_us.len().to_string());
                table.push([
                    row.rung.to_owned(),
                    label(row.problem),
                    record.clone(),
                    digits(cell.us.map(|t| t / 1e3), 5),
                    digits(mad.map(|d| d / 1e3), 2),
                    samples.unwrap_or_default(),
                    digits(cell.ratio.map(|r| r.value), 4),
                    digits(cell.ratio.map(|r| r.low), 4),
                    digits(cell.ratio.map(|r| r.high), 4),
                    cell.verdict.map_or("", |v| v.label()).to_owned(),
                    cell.verdict.and(cell.unchanged.then_some("yes")).unwrap_or_default().to_owned(),
                    digits(cell.share.map(|s| 100.0 * s), 3),
                    cell.why.clone(),
                ]);
            }
        }
        table
    }
}

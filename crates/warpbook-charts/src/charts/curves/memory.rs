//! Chart of the device memory held by arrays over time.

use crate::charts::curves::{Curve, Scale};
use crate::draw::{Chart, ChartError, Options};
use warpbook_record::{MemoryAt, Profiled};

/// Maximum number of changes drawn.
const MOST: usize = 4000;

impl Options {
    /// Draws the device memory held by arrays until `until_us` microseconds after the start: bytes allocated from the
    /// driver, the part of them reserved by pools, and the part in use. A record with fewer than two changes has no
    /// such chart.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if nothing was allocated or freed.
    pub fn memory(&self, profiled: &Profiled, until_us: f64, head: [&str; 2]) -> Result<Chart, ChartError> {
        let all = &profiled.memory;
        if all.len() < 2 {
            return Err(ChartError::NothingToDraw(
                "Nothing was allocated or freed on the device during this time.".into(),
            ));
        }
        let line = |name: &str, bytes: fn(&MemoryAt) -> u64| {
            let mut points: Vec<(f64, f64)> = Vec::new();
            // Each line is level from one change to the next.
            for change in all.iter().take(MOST) {
                let (at, value) = (change.at_us / 1e3, bytes(change) as f64 / f64::from(1 << 20));
                points.extend(points.last().map(|(_, before)| (at, *before)));
                points.push((at, value));
            }
            let end = points.last().map(|(at, value)| (at.max(until_us / 1e3), *value));
            points.extend(end);
            Curve::new(name, points)
        };
        let mut lines = vec![line("allocated", |m| m.allocated_bytes)];
        if all.iter().any(|m| m.pool_reserved_bytes > 0) {
            lines.push(line("reserved by pools", |m| m.pool_reserved_bytes));
            lines.push(line("in use of it", |m| m.pool_allocated_bytes));
        }
        let (x, y) = (("ms from the start", Scale::Linear), ("MiB on the device", Scale::Linear));
        self.curves(head, x, y, &lines)
    }
}

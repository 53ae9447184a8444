//! Chart of the device memory held by arrays over time.

use crate::charts::curves::{Curve, Scale};
use crate::draw::text::words::bytes;
use crate::draw::{Chart, ChartError, Options};
use crate::record::joined;
use warpbook_record::{MemoryAt, Profiled};

/// Maximum number of changes drawn.
const MOST: usize = 4000;

impl Options {
    /// Draws the device memory held by arrays until `until_us` microseconds after the start: bytes allocated from the
    /// driver, the part of them reserved by pools, and the part in use. `of` is the rung's title, which may be empty, and
    /// a text for the subtitle. A record with fewer than two changes has no such chart.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if nothing was allocated or freed.
    pub fn memory(&self, profiled: &Profiled, until_us: f64, [rung, of]: [&str; 2]) -> Result<Chart, ChartError> {
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
        let title = match rung {
            "" => claim(all),
            _ => format!("“{rung}”: {}", claim(all)),
        };
        let subtitle = joined(["device memory over time", of]);
        let (x, y) = (("ms from the start", Scale::Linear), ("MiB on the device", Scale::Linear));
        self.curves([&title, &subtitle], x, y, &lines)
    }
}

/// Returns the finding: the most memory that is allocated, and how much is left at the end.
fn claim(all: &[MemoryAt]) -> String {
    let allocated = || all.iter().take(MOST).map(|m| m.allocated_bytes);
    let (least, most) = (allocated().min().unwrap_or(0), allocated().max().unwrap_or(0));
    match allocated().next_back().unwrap_or(0) {
        _ if least == most => format!("{} of device memory all the time", bytes(most)),
        last if last == most => format!("{} of device memory at most", bytes(most)),
        last => format!("{} of device memory at most, {} at the end", bytes(most), bytes(last)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_has_the_most_memory_and_what_is_left() {
        let check = |allocated: &[u64], expect: &str| {
            let change = |bytes: &u64| MemoryAt {
                at_us: 0.0,
                allocated_bytes: *bytes,
                pool_allocated_bytes: 0,
                pool_reserved_bytes: 0,
            };
            assert_eq!(claim(&allocated.iter().map(change).collect::<Vec<_>>()), expect);
        };
        check(&[1 << 20, 3 << 20, 2 << 20], "3 MiB of device memory at most, 2 MiB at the end");
        check(&[0, 1 << 20], "1 MiB of device memory at most");
        check(&[1 << 20, 1 << 20], "1 MiB of device memory all the time");
    }
}

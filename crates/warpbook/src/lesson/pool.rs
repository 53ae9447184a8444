//! The memory that a caching pool holds after each step of a lesson: a table with PyTorch's names, and a chart over its rows.

use super::table;
use crate::prelude::*;
use warpbook_charts::{Curve, Scale, Table};
use warpbook_device::PoolUse;

const MIB: f64 = (1 << 20) as f64;

fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / MIB)
}

/// Steps of a program with the memory that a pool held after each step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PoolSteps {
    steps: Vec<(String, PoolUse)>,
}

impl PoolSteps {
    /// Creates an empty list of steps.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a step with the memory that the pool holds after it.
    pub fn note(&mut self, step: &str, used: PoolUse) {
        self.steps.push((step.to_owned(), used));
    }

    /// Returns the memory that the pool held after a step; steps are counted from 0.
    #[must_use]
    pub fn after(&self, step: usize) -> Option<PoolUse> {
        self.steps.get(step).map(|(_, used)| *used)
    }

    /// Returns how many steps changed a value of the pool; `None` if there are no steps, as without a GPU.
    #[must_use]
    pub fn changes<T: PartialEq>(&self, value: impl Fn(&PoolUse) -> T) -> Option<usize> {
        let pairs = self.steps.windows(2);
        (!self.steps.is_empty()).then(|| pairs.filter(|pair| value(&pair[0].1) != value(&pair[1].1)).count())
    }

    /// Shows a table of the steps.
    #[must_use]
    pub fn table(&self) -> Table {
        let row = |(step, used): &(String, PoolUse)| {
            vec![
                step.clone(),
                mib(used.allocated),
                mib(used.peak_allocated),
                mib(used.reserved),
                used.segments.to_string(),
                mib(used.largest_free),
                format!("{:.2}", used.fragmentation()),
            ]
        };
        let headers =
            ["step", "allocated (MiB)", "max allocated", "reserved", "segments", "largest free", "fragmentation"];
        table(&headers, self.steps.iter().map(row).collect())
    }

    /// Draws the reserved and the allocated memory after each step, with a mark for a guess of the reserved memory, (step, MiB). If there are no steps, as
    /// without a GPU, it says that there is no pool.
    #[must_use]
    pub fn chart(&self, guess: Option<(usize, f64)>) -> Panel {
        let Some((_, end)) = self.steps.last() else {
            return Panel::column([
                &"The pool is one of device memory, and this lab has no GPU. Its rules are tested without one.",
            ]);
        };
        let title =
            format!("The pool reserves {} MiB, of which {} MiB are allocated", mib(end.reserved), mib(end.allocated));
        let line = |name: &str, bytes: fn(&PoolUse) -> u64| {
            let points = self.steps.iter().enumerate().map(|(i, (_, used))| (i as f64, bytes(used) as f64 / MIB));
            Curve::new(name, points.collect::<Vec<_>>())
        };
        let mut curves = vec![line("reserved", |used| used.reserved), line("allocated", |used| used.allocated)];
        curves.extend(guess.map(|(step, mib)| Curve::new("your guess", [(step as f64, mib)])));
        Panel::column([&draw().curves(
            [&title, "after each row of the table, the first of which is 0"],
            ("row", Scale::Whole),
            ("MiB", Scale::FromZero),
            &curves,
        )])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(allocated: u64, reserved: u64) -> PoolUse {
        PoolUse {
            allocated: allocated << 20,
            reserved: reserved << 20,
            segments: (reserved / 20) as usize,
            ..PoolUse::default()
        }
    }

    #[test]
    fn steps_are_counted_drawn_and_marked() {
        let mut steps = PoolSteps::new();
        assert_eq!(steps.changes(|used| used.allocated), None);
        assert!(steps.chart(None).text().contains("no GPU"));
        for (step, used) in [("empty", used(0, 0)), ("an array", used(6, 20)), ("another", used(12, 20))] {
            steps.note(step, used);
        }
        assert_eq!(steps.changes(|used| used.allocated), Some(2));
        assert_eq!(steps.changes(|used| used.reserved), Some(1));
        assert_eq!(steps.table().rows[2][..4], ["another", "12.0", "0.0", "20.0"]);
        assert_eq!(steps.after(1), Some(used(6, 20)));
        assert!(steps.chart(Some((2, 24.0))).page("").contains("your guess"));
        let text = steps.chart(None).text();
        assert!(text.contains("The pool reserves 20.0 MiB, of which 12.0 MiB are allocated"), "{text}");
        assert!(!steps.chart(None).page("").contains("your guess"));
    }
}

//! A cycle as tables: what took the most time first.

use super::html::{escape, note, printable, scroll, table};
use super::{Show, figures};
use crate::profile::{Cycle, Profile};
use std::collections::HashMap;
use warpbook_charts::Table;
use warpbook_device::ActivityKind;

/// Rows that are shown unless more are asked for.
const ROWS: usize = 10;

/// What has the same name, added up.
#[derive(Debug, Clone, Default, PartialEq)]
struct Sum {
    name: String,
    count: u64,
    device_us: f64,
    host_us: f64,
    flops: u64,
    bytes: u64,
}

impl Cycle {
    /// The ten ranges that most of the device's time was spent on, or of the host's without a device.
    #[must_use]
    pub fn table(&self) -> Table {
        self.table_of(ROWS)
    }

    /// So many of them. Ranges of the same name are one row. A range has the work of the ranges in it too, so that shares of nested ones do not add
    /// up to one.
    #[must_use]
    pub fn table_of(&self, rows: usize) -> Table {
        let mut sums = Sums::default();
        for (place, range) in self.ranges.iter().enumerate() {
            // One inside of another of its name is in that one's time already.
            if self.is_in_one_of_its_name(place) {
                continue;
            }
            let sum = sums.of(&range.name);
            sum.count += 1;
            sum.device_us += range.device_us;
            sum.host_us += range.duration_us;
            sum.flops += range.work.flops;
            sum.bytes += range.work.bytes;
        }
        let whole = if self.is_recorded() { self.device_us() } else { self.whole_us };
        let time = |s: &Sum| if self.is_recorded() { s.device_us } else { s.host_us };
        let row = |s: &Sum| {
            let rate = |work: u64, words: fn(f64) -> String| match (work, time(s)) {
                (0, _) => String::new(),
                (_, us) if us <= 0.0 => String::new(),
                (work, us) => words(work as f64 / us * 1e6),
            };
            [
                s.name.clone(),
                s.count.to_string(),
                if self.is_recorded() { figures::time(s.device_us) } else { String::new() },
                figures::time(s.host_us),
                figures::time(time(s) / s.count.max(1) as f64),
                share(time(s), whole),
                rate(s.flops, figures::rate),
                rate(s.bytes, figures::bandwidth),
            ]
        };
        let sorted = sums.sorted(time);
        let average = if self.is_recorded() { "device, average" } else { "host, average" };
        table(
            ["range", "count", "device", "host", average, "share", "FLOP/s", "bandwidth"],
            sorted.iter().take(rows).map(row).collect(),
        )
    }

    /// The kernels, copies and fills by their names, those that took the most time in all first; so many of them.
    #[must_use]
    pub fn kernels(&self, rows: usize) -> Table {
        let mut sums = Sums::default();
        for work in &self.work {
            let sum = sums.of(&work.name);
            sum.count += 1;
            sum.device_us += work.duration_us;
            if let ActivityKind::Copy { bytes } | ActivityKind::Fill { bytes } = work.kind {
                sum.bytes += bytes;
            }
        }
        let whole = self.device_us();
        let row = |s: &Sum| {
            let moved = s.bytes > 0 && s.device_us > 0.0;
            [
                s.name.clone(),
                s.count.to_string(),
                figures::time(s.device_us),
                figures::time(s.device_us / s.count.max(1) as f64),
                share(s.device_us, whole),
                if moved { figures::bandwidth(s.bytes as f64 / s.device_us * 1e6) } else { String::new() },
            ]
        };
        let sorted = sums.sorted(|s| s.device_us);
        table(
            ["kernel, copy or fill", "count", "total", "average", "share", "bandwidth"],
            sorted.iter().take(rows).map(row).collect(),
        )
    }

    /// The host's calls of the driver by their names, those that took the host the most time first; so many of them.
    #[must_use]
    pub fn driver_calls(&self, rows: usize) -> Table {
        let mut sums = Sums::default();
        for call in &self.calls {
            let sum = sums.of(&call.name);
            sum.count += 1;
            sum.host_us += call.duration_us;
        }
        let row = |s: &Sum| {
            let average = figures::time(s.host_us / s.count.max(1) as f64);
            [s.name.clone(), s.count.to_string(), figures::time(s.host_us), average]
        };
        let sorted = sums.sorted(|s| s.host_us);
        table(["driver function", "count", "total", "average"], sorted.iter().take(rows).map(row).collect())
    }

    fn is_in_one_of_its_name(&self, place: usize) -> bool {
        let mut at = self.ranges[place].parent;
        while let Some(parent) = at {
            if self.ranges[parent].name == self.ranges[place].name {
                return true;
            }
            at = self.ranges[parent].parent;
        }
        false
    }

    /// Whether something recorded the device.
    fn is_recorded(&self) -> bool {
        !self.work.is_empty()
    }

    /// What it is of, and how much of it the device was at work.
    fn heading(&self) -> String {
        let steps = figures::counted(self.steps.len(), "step");
        let first = self.first_step;
        let mut said = format!("Cycle {}: {steps} from step {first} on, {}", self.number, figures::time(self.whole_us));
        if self.is_recorded() {
            said += &format!(", of which the device was at work for {}", share(self.busy_us(), self.whole_us));
        }
        said
    }

    /// What a reader of the figures has to know.
    fn remarks(&self) -> Vec<String> {
        let mut all = vec![format!("Recorded by {}.", self.source.trim_end_matches('.'))];
        if self.is_recorded() {
            all.push(
                "While it records, each call of the driver takes the host longer: a step is longer than without."
                    .into(),
            );
        }
        if let Some(bytes) = self.allocated_bytes {
            all.push(format!("The lab's arrays held {} on the device at its end.", figures::bytes(bytes)));
        }
        if self.lost > 0 {
            all.push(format!("{} were lost: record fewer steps.", figures::counted(self.lost as usize, "record")));
        }
        all
    }

    /// The tables that have rows.
    fn tables(&self) -> Vec<Table> {
        let all = [self.table(), self.kernels(ROWS), self.driver_calls(ROWS)];
        all.into_iter().filter(|t| !t.rows.is_empty()).collect()
    }
}

/// Sums by name, in the order in which the names came.
#[derive(Default)]
struct Sums {
    all: Vec<Sum>,
    places: HashMap<String, usize>,
}

impl Sums {
    fn of(&mut self, name: &str) -> &mut Sum {
        let next = self.all.len();
        let place = *self.places.entry(name.to_owned()).or_insert(next);
        if place == next {
            self.all.push(Sum { name: name.to_owned(), ..Sum::default() });
        }
        &mut self.all[place]
    }

    fn sorted(mut self, time: impl Fn(&Sum) -> f64) -> Vec<Sum> {
        self.all.sort_by(|a, b| time(b).total_cmp(&time(a)));
        self.all
    }
}

fn share(part: f64, whole: f64) -> String {
    if whole > 0.0 { figures::percent(part / whole) } else { String::new() }
}

impl Show for Cycle {
    fn html(&self) -> String {
        let tables: String = self.tables().iter().map(scroll).collect();
        let remarks: String = self.remarks().iter().map(|r| note(r)).collect();
        format!("<p><strong>{}</strong></p>{tables}{remarks}", escape(&self.heading()))
    }

    fn text(&self) -> String {
        let mut parts = vec![printable(&self.heading())];
        parts.extend(self.tables().iter().map(Table::text));
        parts.extend(self.remarks().iter().map(|r| printable(r)));
        parts.join("\n\n")
    }
}

impl Show for Profile {
    fn html(&self) -> String {
        match self.cycles.is_empty() {
            true => format!("<p>{NOTHING}</p>"),
            false => self.cycles.iter().map(Show::html).collect(),
        }
    }

    fn text(&self) -> String {
        match self.cycles.is_empty() {
            true => NOTHING.into(),
            false => self.cycles.iter().map(Show::text).collect::<Vec<_>>().join("\n\n"),
        }
    }
}

const NOTHING: &str = "Nothing was recorded: the program ended before the schedule's first active step. Call `p.step()?` at the end of each step, or \
    record fewer steps before.";

//! Shows a cycle as tables, with the longest times first.

use super::{Cycle, HardwareCounters, MemoryChange, Profile, Work};
use std::collections::HashMap;
use warpbook_charts::words as figures;
use warpbook_charts::{COUNTERS_MEANING, Chart, ChartError, Table, counted_by, counters};
use warpbook_device::{ActivityKind, Nvtx};

/// Default number of rows.
const ROWS: usize = 10;
/// Number of a training run's operations to show.
const OPERATIONS: usize = 30;

/// The sum over all entries with the same name.
#[derive(Debug, Clone, Default, PartialEq)]
struct Sum {
    name: String,
    count: u64,
    device_us: f64,
    host_us: f64,
    flops: u64,
    bytes: u64,
    /// The part of the time for which operations and bytes are known.
    counted_us: f64,
    allocated: u64,
}

impl Cycle {
    /// Returns a table of the ten ranges with the most device time, or host time if there is no device.
    #[must_use]
    pub fn table(&self) -> Table {
        self.table_of(ROWS)
    }

    /// Returns a table of at most `rows` ranges. Ranges with the same name share a row. A range includes its nested
    /// ranges, so the fractions of nested ranges do not add up to one.
    #[must_use]
    pub fn table_of(&self, rows: usize) -> Table {
        let mut sums = Sums::default();
        for (place, range) in self.ranges.iter().enumerate() {
            // If a range is inside another with the same name, its time is already part of the outer range's time.
            if self.is_in_one_of_its_name(place) {
                continue;
            }
            let sum = sums.entry(&range.name);
            sum.count += 1;
            sum.device_us += range.device_us;
            sum.host_us += range.duration_us;
            sum.flops += range.work.flops;
            sum.bytes += range.work.bytes;
            sum.allocated += range.allocated_bytes;
        }
        let allocates = sums.all.iter().any(|s| s.allocated > 0);
        let whole = if self.is_recorded() { self.device_us() } else { self.whole_us };
        let time = |s: &Sum| if self.is_recorded() { s.device_us } else { s.host_us };
        let row = |s: &Sum| {
            let mut cells = vec![
                s.name.clone(),
                s.count.to_string(),
                if self.is_recorded() { figures::time(s.device_us) } else { String::new() },
                figures::time(s.host_us),
                figures::time(time(s) / s.count.max(1) as f64),
                share(time(s), whole),
                rate(s.flops, time(s), figures::rate),
                rate(s.bytes, time(s), figures::bandwidth),
            ];
            cells.extend(allocates.then(|| figures::bytes(s.allocated)));
            cells
        };
        let sorted = sums.sorted(time);
        let average = if self.is_recorded() { "device, average" } else { "host, average" };
        let mut headers = vec!["range", "count", "device", "host", average, "share", "FLOP/s", "bandwidth"];
        headers.extend(allocates.then_some("allocated"));
        let headers = headers.into_iter().map(str::to_owned).collect();
        Table { headers, rows: sorted.iter().take(rows).map(row).collect() }
    }

    /// Returns a table of at most `rows` operations of a training step, those with the most device time first.
    /// Operations with known work have rates, computed from the FLOPs of products and convolutions and the minimum
    /// bytes to move. The table is empty for other programs.
    #[must_use]
    pub fn operations_table(&self, rows: usize) -> Table {
        let mut sums = Sums::default();
        for o in self.operations.iter().flat_map(|b| &b.operations) {
            let (sum, times) = (sums.entry(&o.name), o.samples_us.len() as u64);
            sum.count += times;
            let us: f64 = o.samples_us.iter().sum();
            (sum.device_us, sum.counted_us) = (sum.device_us + us, sum.counted_us + us);
            sum.flops += o.flops * times;
            sum.bytes += o.bytes * times;
        }
        self.with_rates("operation", sums, rows)
    }

    /// Returns a table of at most `rows` kernels, copies and fills by name, those with the most time first. Copies and
    /// fills have a bandwidth. A kernel has rates if it is the only one in ranges, or in a training run's operations,
    /// whose work is known.
    #[must_use]
    pub fn kernels(&self, rows: usize) -> Table {
        let mut sums = Sums::default();
        for work in self.work.iter().filter(|w| !w.is_range()) {
            let sum = sums.entry(&work.name);
            sum.count += 1;
            sum.device_us += work.duration_us;
            if let Some(bytes) = work.kind.bytes() {
                sum.bytes += bytes;
                sum.counted_us += work.duration_us;
            }
        }
        for (name, work, us) in self.work_of_kernels().into_iter().chain(self.work_of_operations()) {
            let sum = sums.entry(name);
            sum.flops += work.flops;
            sum.bytes += work.bytes;
            sum.counted_us += us;
        }
        self.with_rates("kernel, copy or fill", sums, rows)
    }

    /// Returns the `rows` sums with the most device time, with rates for the part whose work is known.
    fn with_rates(&self, name: &str, sums: Sums, rows: usize) -> Table {
        let whole = self.device_us();
        let row = |s: &Sum| {
            [
                s.name.clone(),
                s.count.to_string(),
                figures::time(s.device_us),
                figures::time(s.device_us / s.count.max(1) as f64),
                share(s.device_us, whole),
                rate(s.flops, s.counted_us, figures::rate),
                rate(s.bytes, s.counted_us, figures::bandwidth),
            ]
        };
        let sorted = sums.sorted(|s| s.device_us);
        let headers = [name, "count", "total", "average", "share", "FLOP/s", "bandwidth"];
        table(headers, sorted.iter().take(rows).map(row).collect())
    }

    /// Returns a table of at most `rows` driver calls by name, those with the most host time first.
    #[must_use]
    pub fn driver_calls(&self, rows: usize) -> Table {
        let mut sums = Sums::default();
        for call in &self.calls {
            let sum = sums.entry(&call.name);
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

    /// Returns a table of the memory that arrays occupy on the device: at the start, at the peak and at the end, with
    /// the amounts allocated and freed.
    #[must_use]
    pub fn memory_table(&self) -> Table {
        let (Some(first), Some(last)) = (self.memory.first(), self.memory.last()) else { return Table::default() };
        let most = self.memory.iter().max_by_key(|m| (m.point.allocated, m.point.pool_allocated)).unwrap_or(last);
        let row = |when: &str, m: &MemoryChange| {
            let p = &m.point;
            let [allocated, used, reserved] = [p.allocated, p.pool_allocated, p.pool_reserved].map(figures::bytes);
            [when.to_owned(), figures::time(m.at_us), allocated, used, reserved]
        };
        table(
            ["device memory", "at", "allocated", "pools in use", "pools reserved"],
            vec![row("start", first), row("most", most), row("end", last)],
        )
    }

    /// Draws the memory that arrays occupy on the device over the cycle: memory from the driver, the part reserved by
    /// pools, and the part in use.
    ///
    /// # Errors
    /// If nothing was allocated or freed ([`ChartError::NothingToDraw`]).
    pub fn memory_chart(&self) -> Result<Chart, ChartError> {
        let head = ["", &format!("cycle {}", self.number)];
        warpbook_charts::draw().memory(&self.profiled(&self.problem()), self.whole_us, head)
    }

    /// Returns the work of ranges with a single kernel, by the kernel's name, with the time of the kernel in these
    /// ranges.
    fn work_of_kernels(&self) -> Vec<(&str, Work, f64)> {
        // The name of each range's only kernel; `None` if several ran in it.
        let mut only: HashMap<usize, Option<&str>> = HashMap::new();
        for work in self.work.iter().filter(|w| !w.is_range()) {
            let mut at = work.range.filter(|r| *r < self.ranges.len());
            while let Some(place) = at {
                let name = only.entry(place).or_insert(Some(&work.name));
                *name = name.filter(|n| *n == work.name && matches!(work.kind, ActivityKind::Kernel { .. }));
                at = self.ranges[place].parent;
            }
        }
        let known = |(place, name): (usize, Option<&'_ str>)| {
            let range = &self.ranges[place];
            // The work of an enclosing range also counts.
            let is_told = range.work != Work::default();
            let outer = std::iter::successors(range.parent, |p| self.ranges[*p].parent);
            let told_around = outer
                .into_iter()
                .any(|p| self.ranges[p].work != Work::default() && only.get(&p).is_some_and(Option::is_some));
            name.filter(|_| is_told && !told_around).map(|_| (place, range.work, range.device_us))
        };
        let mut all: Vec<_> = only.iter().filter_map(|(place, name)| known((*place, *name))).collect();
        all.sort_by_key(|(place, ..)| *place);
        all.into_iter().filter_map(|(place, work, us)| Some((only[&place]?, work, us))).collect()
    }

    /// Returns the work of a training run's operations over all recorded steps.
    fn work_of_operations(&self) -> impl Iterator<Item = (&str, Work, f64)> {
        let is_kernel =
            |name: &str| self.work.iter().any(|w| w.name == name && matches!(w.kind, ActivityKind::Kernel { .. }));
        self.operations.iter().flat_map(|b| &b.operations).filter_map(move |o| {
            let [name] = &o.kernels[..] else { return None };
            let (times, us) = (o.samples_us.len() as u64, o.samples_us.iter().sum());
            let work = Work { flops: o.flops * times, bytes: o.bytes * times };
            (work != Work::default() && is_kernel(name)).then_some((name.as_str(), work, us))
        })
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

    /// Returns true if the device was recorded.
    fn is_recorded(&self) -> bool {
        !self.work.is_empty()
    }

    /// Returns a heading: the device, the recorded steps, and the fraction of time during which the device was busy.
    #[must_use]
    pub fn heading(&self) -> String {
        let steps = figures::counted(self.steps.len(), "step");
        let first = self.first_step;
        let mut said = format!("Cycle {}: {steps} from step {first} on, {}", self.number, figures::time(self.whole_us));
        if self.is_recorded() {
            said += &format!(", of which the device was at work for {}", share(self.busy_us(), self.whole_us));
        }
        said
    }

    /// Returns the remarks needed to read the numbers.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let mut all = vec![format!("Recorded by {}.", figures::versions(self.source.trim_end_matches('.')))];
        if self.is_of_events() {
            all.push(
                "A range's device time runs from its possible start to the end of its last queued work, on all streams; gaps count, too."
                    .into(),
            );
        }
        match self.overhead_in_words() {
            Some(words) => all.push(format!("The cost of recording: {words}")),
            None if self.is_recorded() => all.push(
                "While it records, each call of the driver takes the host longer: a step is longer than without. How much longer is measured where several \
                 steps go by without a record, before the cycle or after it, as of schedule(4, 1, 2)."
                    .into(),
            ),
            None => {}
        }
        if self.operations.is_some() {
            all.push(
                "An operation's bandwidth counts only the bytes that it must move, each array once; its FLOP/s count only products and convolutions. \
                 Operations that overlap are each listed with their full time."
                    .into(),
            );
        }
        for c in &self.counters {
            let name = self.counted_name(c);
            let source = figures::versions(c.counters.source.trim_end_matches('.'));
            all.push(format!("The kernels of {name} were counted by {source}."));
        }
        if !self.counters.is_empty() {
            all.push(COUNTERS_MEANING.into());
        }
        all.extend(self.notes.iter().cloned());
        if self.has_device && Nvtx::tool().is_none() {
            all.push(
                "Nsight Systems shows the ranges too: `nsys profile --trace=cuda,nvtx` before the command; no such tool listens now.".into(),
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

    /// Returns the tables that have rows.
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        // The memory table is only useful if the memory changed.
        let memory = if self.memory.len() > 1 { self.memory_table() } else { Table::default() };
        let counted = self.counters.iter().map(|c| {
            let mut table = c.counters.table();
            if let Some(heading) = table.headers.first_mut() {
                *heading = format!("{}, kernels as counted", self.counted_name(c));
            }
            table
        });
        let all =
            [self.table(), self.operations_table(OPERATIONS), self.kernels(ROWS), self.driver_calls(ROWS), memory];
        all.into_iter().chain(counted).filter(|t| !t.rows.is_empty()).collect()
    }
}

impl Cycle {
    /// Returns the cycle's heading, tables and remarks as plain text.
    #[must_use]
    pub fn text(&self) -> String {
        let tables = self.tables();
        let parts = [self.heading()].into_iter().chain(tables.iter().map(Table::text)).chain(self.remarks());
        parts.collect::<Vec<_>>().join("\n\n")
    }
}

impl Profile {
    /// Returns all cycles as plain text.
    #[must_use]
    pub fn text(&self) -> String {
        match self.cycles.is_empty() {
            true => NOTHING.into(),
            false => self.cycles.iter().map(Cycle::text).collect::<Vec<_>>().join("\n\n"),
        }
    }
}

/// Text for a profile without cycles.
pub const NOTHING: &str = "Nothing was recorded: the program ended before the schedule's first active step. Call `p.step()?` at the end of each step, or \
    record fewer steps before.";

/// Sums by name, in order of first appearance.
#[derive(Default)]
struct Sums {
    all: Vec<Sum>,
    places: HashMap<String, usize>,
}

impl Sums {
    fn entry(&mut self, name: &str) -> &mut Sum {
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

/// Returns the rate of some work done in `us` microseconds, if both are known.
fn rate(work: u64, us: f64, words: fn(f64) -> String) -> String {
    if work > 0 && us > 0.0 { words(work as f64 / us * 1e6) } else { String::new() }
}

fn share(part: f64, whole: f64) -> String {
    if whole > 0.0 { figures::percent(part / whole) } else { String::new() }
}

impl HardwareCounters {
    /// Returns a table of the ten longest kernels.
    #[must_use]
    pub fn table(&self) -> Table {
        counters(&self.kernels, ROWS)
    }

    /// Returns remarks: the library that reads the counters, the meaning of the columns, and the notes.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        [counted_by([&*self.source])].into_iter().chain(self.notes.iter().cloned()).collect()
    }

    /// Returns the table and the remarks as plain text.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}\n\n{}", self.table().text(), self.remarks().join("\n\n"))
    }
}

fn table<const N: usize>(headers: [&str; N], rows: Vec<[String; N]>) -> Table {
    Table { headers: headers.map(str::to_owned).to_vec(), rows: rows.into_iter().map(Vec::from).collect() }
}

use crate::draw::text::words::{counted, listed, percent, significant, time, time_tick, versions};
use crate::draw::{
    Axis, BLUE, Bar, BarRow, Bars, Chart, ChartError, Content, Frame, GREY, MAX_ENTRIES, MarkData, Options, Rgb,
    Segment, Table, VERMILLION, clean,
};
use crate::record::{
    arithmetic_name, device, heading, joined, label, median_of, missing, name, names, of_bound, pass, usable,
};
use warpbook_record::{Bound, Breakdown, Dtype, OperationTime, Problem, Run};

impl Options {
    /// Draws the device's activity in one run of the fastest recorded rung: a bar for each operation, in the order in which operations are queued, with the
    /// share of its bound that it reaches; and a bar for the idle time. The table has all rungs.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if nothing was recorded for the problem.
    pub fn breakdown(&self, run: &Run, problem: &Problem) -> Result<Chart, ChartError> {
        let all = of_problem(run, problem);
        let Some(shown) = all.first() else { return Err(missing("breakdown of a run", problem)) };
        let rows: Vec<BarRow> = shown.rows(run);
        let values = shown.operations.iter().filter_map(|o| o.us).chain([shown.idle_us]);
        let legend = [(BLUE, "its bound"), (VERMILLION, "above it"), (GREY, "work not counted")];
        Bars {
            axis: Some(Axis::from_zero(values)),
            rows,
            base: None,
            tick: time_tick,
            caption: "time of an operation's kernels, shorter is better".into(),
            reference_lines: Vec::new(),
            legend: legend.map(|(color, text)| (color, text.to_owned())).into(),
            frame: frame(self, run, problem, &all),
        }
        .draw()
    }
}

/// Returns the recorded breakdowns for a problem, the fastest rung first, the others in the ladder's order.
fn of_problem<'a>(run: &'a Run, problem: &Problem) -> Vec<Taken<'a>> {
    let place = |b: &Breakdown| run.rungs.iter().position(|r| r.id == b.rung).unwrap_or(usize::MAX);
    let mut all: Vec<&Breakdown> = run.breakdowns.iter().filter(|b| b.problem == *problem).collect();
    all.sort_by_cached_key(|b| place(b));
    let mut all: Vec<Taken<'_>> = all.into_iter().filter_map(|b| Taken::new(run, b)).collect();
    let fastest = (0..all.len()).min_by(|a, b| all[*a].compared_us().total_cmp(&all[*b].compared_us()));
    if let Some(fastest) = fastest {
        all[..=fastest].rotate_right(1);
    }
    all
}

struct Taken<'a> {
    of: &'a Breakdown,
    whole_us: f64,
    idle_us: f64,
    between_us: Option<f64>,
    /// The rung's median time in microseconds, measured without a recorder.
    timed_us: Option<f64>,
    operations: Vec<Operation<'a>>,
}

struct Operation<'a> {
    of: &'a OperationTime,
    /// Time of the operation run on its own, in microseconds, if it was recorded.
    us: Option<f64>,
    bound: Option<Bound>,
}

impl<'a> Taken<'a> {
    /// Prepares a breakdown; `None` if it has no usable time.
    fn new(run: &Run, of: &'a Breakdown) -> Option<Self> {
        let positive = |us: Option<f64>| us.filter(|t| t.is_finite() && *t >= 0.0);
        let operation = |o: &'a OperationTime| {
            let bound = run.operation_bound(of, o).filter(|b| usable(Some(b.us)).is_some());
            Operation { of: o, us: usable(o.own_median_us()), bound }
        };
        Some(Self {
            of,
            whole_us: usable(of.whole_median_us())?,
            idle_us: positive(of.idle_median_us()).unwrap_or(0.0),
            between_us: positive(of.between_median_us()),
            timed_us: run.measurement(&of.rung, &of.problem).and_then(|m| usable(m.median_us())),
            operations: of.operations.iter().map(operation).collect(),
        })
    }

    /// Returns the time that rungs are ranked by, without a recorder if possible: recording slows them by different
    /// amounts.
    fn compared_us(&self) -> f64 {
        self.timed_us.unwrap_or(self.whole_us)
    }

    /// Returns the time that operations' shares refer to: the sum of their times if each was recorded on its own,
    /// otherwise the time of the run.
    fn basis_us(&self) -> f64 {
        if self.of.has_alone() { self.of.sum_alone_us() } else { self.whole_us }
    }

    fn rows(&self, run: &Run) -> Vec<BarRow> {
        let (title, id) = names(run, &self.of.rung);
        let mut rows = vec![BarRow { name: title, id: String::new(), content: Content::Heading(id) }];
        rows.extend(self.operations.iter().take(MAX_ENTRIES).map(|o| o.row(self)));
        let label = format!("{} · {}", time(self.idle_us), percent(self.idle_us / self.whole_us));
        let data = self.data("nothing runs", label.clone());
        let bar = Bar {
            value: self.idle_us,
            spread: None,
            data,
            label,
            note: String::new(),
            remark: String::new(),
            color: GREY,
            hollow: true,
            parts: Vec::new(),
        };
        rows.push(BarRow { name: "nothing runs".into(), id: String::new(), content: Content::Bar(bar) });
        rows
    }

    /// Returns the data of a mark for an operation, or for the idle time.
    fn data(&self, name: &str, value: String) -> MarkData {
        let (rung, problem) = (self.of.rung.clone(), label(&self.of.problem));
        MarkData { rung, problem, name: name.to_owned(), value, ..MarkData::default() }
    }

    fn figures(&self, table: &mut Table) {
        for o in &self.operations {
            let in_the_run = usable(o.of.median_us());
            let on_its_own = o.us.filter(|_| !o.of.alone_us.is_empty());
            let time = |us: Option<f64>| us.map(|us| significant(us, 4)).unwrap_or_default();
            let share = |us: f64| significant(us / self.whole_us * 100.0, 3);
            let per_us = |amount: u64, unit: f64| {
                let rate = o.us.filter(|_| amount > 0).map(|us| amount as f64 / us / unit);
                rate.map(|r| significant(r, 3)).unwrap_or_default()
            };
            let bound = |of: &dyn Fn(&Bound, f64) -> String| o.bound.zip(o.us).map(|(b, us)| of(&b, us));
            table.push([
                self.of.rung.clone(),
                o.of.name.clone(),
                o.of.kernels.join(", "),
                o.of.launches.to_string(),
                time(in_the_run),
                in_the_run.map(share).unwrap_or_default(),
                time(on_its_own),
                per_us(o.of.flops, 1e6),
                per_us(o.of.bytes, 1e3),
                bound(&|b, _| significant(b.us, 3)).unwrap_or_default(),
                bound(&|b, _| o.bound_by(b, self.of)).unwrap_or_default(),
                bound(&|b, us| significant(b.us / us * 100.0, 3)).unwrap_or_default(),
            ]);
        }
        let mut row = |what: &str, us: f64| {
            let (time, share) = (significant(us, 4), significant(us / self.whole_us * 100.0, 3));
            let cells = [self.of.rung.as_str(), what, "", "", &time, &share, "", "", "", "", "", ""];
            table.push(cells);
        };
        row("nothing runs", self.idle_us);
        row("whole run", self.whole_us);
        if let Some(us) = self.between_us {
            row("between two runs", us);
        }
    }
}

impl Operation<'_> {
    fn row(&self, of: &Taken<'_>) -> BarRow {
        let name = clean(&self.of.name);
        let id = kernels(&self.of.kernels);
        let Some(us) = self.us else {
            return BarRow { name, id, content: Content::Reason("no usable time".into()) };
        };
        let reached = self.bound.map(|b| b.us.min(us));
        let label = format!("{} · {}", time(us), percent(us / of.basis_us()));
        // The second part of a bar ends at the operation's time, so its mark has that value.
        let segment = |value: f64, color: Rgb, series: &str, says: f64| {
            let data = MarkData { series: series.to_owned(), ..of.data(&name, time(says)) };
            Segment { value, color, data }
        };
        let bar = Bar {
            value: us,
            spread: None,
            data: of.data(&name, label.clone()),
            label,
            note: self.bound.map(|b| of_bound(&b, self.dtype(of.of), b.us / us)).unwrap_or_default(),
            remark: String::new(),
            color: if self.bound.is_some() { BLUE } else { GREY },
            hollow: false,
            parts: reached
                .map(|at| vec![segment(at, BLUE, "its bound", at), segment(us - at, VERMILLION, "above it", us)])
                .unwrap_or_default(),
        };
        BarRow { name, id, content: Content::Bar(bar) }
    }

    fn bound_by(&self, bound: &Bound, of: &Breakdown) -> String {
        match bound.level {
            Some(level) => level.label().to_owned(),
            None => arithmetic_name(self.dtype(of)),
        }
    }

    fn dtype(&self, of: &Breakdown) -> Dtype {
        self.of.dtype.unwrap_or(of.problem.dtype)
    }
}

/// Lists the first two names, and how many others there are.
fn kernels(names: &[String]) -> String {
    let mut shown: Vec<String> = names.iter().take(2).map(|n| clean(n)).collect();
    if names.len() > 2 {
        shown.push(format!("{} more", names.len() - 2));
    }
    listed(&shown)
}

fn frame(options: &Options, run: &Run, problem: &Problem, all: &[Taken<'_>]) -> Frame {
    let mut table = Table::new([
        "rung",
        "operation",
        "kernels",
        "launches",
        "time (µs)",
        "% of the run",
        "on its own (µs)",
        "TFLOP/s",
        "GB/s",
        "bound (µs)",
        "bound by",
        "% of bound",
    ]);
    all.iter().for_each(|t| t.figures(&mut table));
    let shown = &all[0];
    let (rung, pass) = (name(run, &shown.of.rung), pass(run));
    let timed = shown.timed_us.map(|us| format!("; without it one takes {}", time(us))).unwrap_or_default();
    let between = shown.between_us.map(|us| format!(", and {} to the next", time(us))).unwrap_or_default();
    let mut notes = vec![format!(
        "Recorded by {} over {}, which lengthens the gaps between kernels: {} from the first kernel to the end of the last, in {} of which \
         nothing ran{between}{timed}.",
        versions(&clean(&shown.of.source)),
        counted(shown.of.whole_us.len(), "run"),
        time(shown.whole_us),
        time(shown.idle_us),
    )];
    let sum = shown.of.sum_us();
    if shown.of.has_alone() {
        notes.push(format!(
            "The bars are times of kernels that follow one another, on one stream, so that none waits for another or shares the device: {} in all. In the run they overlap.",
            time(shown.basis_us()),
        ));
    } else if sum > 1.005 * (shown.whole_us - shown.idle_us) && sum.is_finite() {
        notes.push(format!("Some operations run at the same time, or are launched before the one that they wait for has ended: their times add up to {}.", time(sum)));
    }
    if shown.operations.len() > MAX_ENTRIES {
        notes.push(format!("{MAX_ENTRIES} of {} operations are drawn; the table has all.", shown.operations.len()));
    }
    if all.len() > 1 {
        notes.push(format!("The table has {} more.", counted(all.len() - 1, "rung")));
    }
    let mut slowest: Vec<&Operation<'_>> = shown.operations.iter().filter(|o| o.us.is_some()).collect();
    slowest.sort_by(|a, b| b.us.unwrap_or(0.0).total_cmp(&a.us.unwrap_or(0.0)));
    let phrases = slowest.iter().take(3).map(|o| format!("{} {}", clean(&o.of.name), time(o.us.unwrap_or(0.0))));
    Frame {
        width: options.px(),
        title: slowest
            .first()
            .and_then(|o| {
                let basis = if shown.of.has_alone() { "the operations' own time in" } else { "a run of" };
                Some(format!("{} takes {} of {basis} “{rung}”", clean(&o.of.name), percent(o.us? / shown.basis_us())))
            })
            .unwrap_or_else(|| heading(run)),
        subtitle: joined([
            format!("{}: one run, operation by operation", heading(run)),
            device(run),
            label(problem),
            rung.clone(),
            median_of([shown.of.whole_us.len() as u64]),
        ]),
        description: format!(
            "Bars of the time of each operation of one {pass} of {rung} on {}, {}: {} in all, and nothing runs for {}; the slowest are {}.",
            device(run),
            label(problem),
            time(shown.whole_us),
            time(shown.idle_us),
            listed(&phrases.collect::<Vec<_>>()),
        ),
        notes,
        table,
    }
}

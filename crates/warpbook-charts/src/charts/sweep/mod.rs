//! Sweep charts: a quantity over the sizes of a problem. This module chooses the lines, and which of them are highlighted.

mod draw;
mod frame;
mod look;

use crate::draw::text::words::listed;
use crate::draw::{Chart, ChartError, MAX_ENTRIES, MarkData, Options, clean};
use crate::record::{
    Measure, difference_of_lines, is_library, line_label, name, record_labels, same_meaning, size_label, verdict,
};
use look::ALIGNED;
use warpbook_record::{Baseline, Dtype, Measurement, Problem, Quantity, Run};

impl Options {
    /// Draws time over size on logarithmic axes, one line for each rung, with the times that the measured ceilings allow: [`Options::sweep_of`] with
    /// [`Quantity::Time`] along the line of the record's main problem.
    ///
    /// # Errors
    /// Returns the errors of [`Options::sweep_of`].
    pub fn sweep(&self, runs: &[&Run]) -> Result<Chart, ChartError> {
        self.sweep_of(runs, Quantity::Time, None, None)
    }

    /// Draws effective bandwidth over size, with the measured ceilings: [`Options::sweep_of`] with [`Quantity::Bandwidth`] along the line of the
    /// record's main problem.
    ///
    /// # Errors
    /// Returns the errors of [`Options::sweep_of`].
    pub fn sweep_bandwidth(&self, runs: &[&Run]) -> Result<Chart, ChartError> {
        self.sweep_of(runs, Quantity::Bandwidth, None, None)
    }

    /// Draws FLOP/s over size, with the measured peak of arithmetic: like [`Options::sweep_of`] with [`Quantity::Throughput`], but along the line of the
    /// record's main problem of the given type, or of its main problem if no type is given.
    ///
    /// # Errors
    /// Returns the errors of [`Options::sweep_of`].
    pub fn sweep_throughput(
        &self,
        runs: &[&Run],
        dtype: Option<Dtype>,
        rungs: Option<&[&str]>,
    ) -> Result<Chart, ChartError> {
        let along = dtype.map_or(LineChoice::Main, LineChoice::Dtype);
        Sweep::new(self, runs, Quantity::Throughput, along, rungs)?.draw()
    }

    /// Draws a quantity over a logarithmic axis of sizes, one line for each rung, with the values that the measured ceilings allow at the sizes that fit into a
    /// level of memory.
    ///
    /// The problems lie on one line of a sweep: the line of the problem `line`, or of the record's main problem. If `rungs` names some, only these are drawn,
    /// together with the GPU libraries that they are compared with; libraries are dashed. If there are more than eight rungs and none is named, a few stand out
    /// and the others are grey: the fastest at some size, the baseline, the fastest library and framework, and [`Options::picked`]. Sizes with an unusual row
    /// alignment are dots. Several records are drawn together, each with its own dashes and name; a remark states how their timing differs.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if there are fewer than two sizes, the data of the quantity is missing, or none of the named rungs has a figure;
    /// [`ChartError::NotComparable`] if experiments or the lines of the records' main problems differ.
    pub fn sweep_of(
        &self,
        runs: &[&Run],
        quantity: Quantity,
        line: Option<&Problem>,
        rungs: Option<&[&str]>,
    ) -> Result<Chart, ChartError> {
        Sweep::new(self, runs, quantity, line.map_or(LineChoice::Main, LineChoice::Of), rungs)?.draw()
    }

    /// Draws several records like [`Options::sweep_of`], under short names given by the caller.
    ///
    /// # Errors
    /// Returns the errors of [`Options::sweep_of`].
    pub fn sweep_labelled(
        &self,
        runs: &[&Run],
        labels: &[String],
        quantity: Quantity,
        line: Option<&Problem>,
    ) -> Result<Chart, ChartError> {
        let mut sweep = Sweep::new(self, runs, quantity, line.map_or(LineChoice::Main, LineChoice::Of), None)?;
        sweep.tags.iter_mut().zip(labels).for_each(|(tag, label)| *tag = clean(label));
        sweep.draw()
    }
}

/// Selects the line of a sweep that is drawn.
#[derive(Debug, Clone, Copy)]
enum LineChoice<'a> {
    /// The line of the main problem.
    Main,
    /// The line of the main problem of a type.
    Dtype(Dtype),
    /// The line of a problem.
    Of(&'a Problem),
}

impl LineChoice<'_> {
    fn includes(self, problem: &Problem) -> bool {
        match self {
            _ if problem.size() == 0 => false,
            Self::Main => true,
            Self::Dtype(dtype) => problem.dtype == dtype,
            Self::Of(other) => other.same_line(problem),
        }
    }

    /// Returns a suffix such as " of bf16".
    fn suffix(self) -> String {
        match self {
            Self::Main => String::new(),
            Self::Dtype(dtype) => format!(" of {}", dtype.label()),
            Self::Of(problem) => format!(" of {}", line_label(problem)),
        }
    }
}

/// If there are more rungs than this, only some of them stand out.
const FEW: usize = 8;
/// Maximum number of rungs that stand out because they are the fastest at some size.
const MOST_WINNERS: usize = 3;

struct Line<'a> {
    run: usize,
    rung: &'a str,
    points: Vec<(f64, &'a Measurement, f64)>,
}

struct Sweep<'a> {
    options: &'a Options,
    runs: &'a [&'a Run],
    tags: Vec<String>,
    /// A problem on the line that is drawn.
    main: &'a Problem,
    measure: Measure,
    /// Ids of the rungs that are drawn; `None` for all.
    chosen: Option<&'a [&'a str]>,
    /// Lines in the order of the rungs, record by record.
    lines: Vec<Line<'a>>,
    /// Number of valid measurements whose work differs from the sweep's.
    left_out: usize,
}

impl<'a> Sweep<'a> {
    fn new(
        options: &'a Options,
        runs: &'a [&'a Run],
        quantity: Quantity,
        along: LineChoice<'_>,
        chosen: Option<&'a [&'a str]>,
    ) -> Result<Self, ChartError> {
        let nothing = |why: String| Err(ChartError::NothingToDraw(why));
        same_meaning(runs)?;
        let mains: Vec<Option<&Problem>> = runs.iter().map(|r| main_of(r, along)).collect();
        let Some(main) = mains.iter().flatten().copied().next() else {
            return nothing(format!("The record has no valid measurement{} to plot against size.", along.suffix()));
        };
        if let Some(difference) = mains.iter().flatten().find_map(|p| difference_of_lines(main, p)) {
            return Err(ChartError::NotComparable(format!("The records did different work: {difference}.")));
        }
        let measure = Measure::new(runs[0], quantity);
        if let Some(why) = measure.lacking(runs[0], main) {
            return nothing(why);
        }
        let mut sweep =
            Self { options, runs, tags: record_labels(runs), main, measure, chosen, lines: Vec::new(), left_out: 0 };
        for (i, (run, main)) in runs.iter().zip(mains).enumerate() {
            sweep.add(i, run, main);
        }
        if let Some(ids) = chosen
            && sweep.lines.iter().all(|l| is_library(runs[l.run], l.rung))
        {
            let ids: Vec<String> = ids.iter().take(MAX_ENTRIES).map(|id| clean(id)).collect();
            return nothing(format!(
                "None of these rungs has a valid measurement to plot against size: {}.",
                listed(&ids)
            ));
        }
        match sweep.problems().as_slice() {
            [] => nothing("The record has no valid measurement to plot against size.".into()),
            [one] => nothing(format!("A sweep needs at least two sizes; there is only {}.", size_label(runs[0], one))),
            _ => Ok(sweep),
        }
    }

    fn add(&mut self, index: usize, run: &'a Run, main: Option<&Problem>) {
        let first = self.lines.len();
        let on_line = main.map_or_else(Vec::new, |main| problems_along(run, main));
        for m in &run.measurements {
            if self.chosen.is_some_and(|ids| !ids.contains(&m.rung.as_str())) && !is_library(run, &m.rung) {
                continue;
            }
            let Ok(us) = self.measure.verdict(run, m) else { continue };
            if !on_line.contains(&&m.problem) {
                self.left_out += 1;
                continue;
            }
            let at = self.lines[first..].iter().position(|l| l.rung == m.rung).map(|i| first + i);
            let at = at.unwrap_or_else(|| {
                self.lines.push(Line { run: index, rung: &m.rung, points: Vec::new() });
                self.lines.len() - 1
            });
            let size = m.problem.size() as f64;
            // The first of two measurements of the same work is used, as in a ladder.
            if !self.lines[at].points.iter().any(|p| p.0 == size) {
                self.lines[at].points.push((size, m, us));
            }
        }
        for line in &mut self.lines[first..] {
            line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        let place = |l: &Line<'_>| run.rungs.iter().position(|r| r.id == l.rung).unwrap_or(usize::MAX);
        self.lines[first..].sort_by_cached_key(place);
    }

    /// Returns one problem for each size that has a point, the smallest first.
    fn problems(&self) -> Vec<&'a Problem> {
        let mut all: Vec<&Problem> = self.points().map(|(_, m, _)| &m.problem).collect();
        all.sort_by_key(|p| p.size());
        all.dedup_by_key(|p| p.size());
        all
    }

    fn points(&self) -> impl Iterator<Item = &(f64, &'a Measurement, f64)> {
        self.lines.iter().flat_map(|l| &l.points)
    }

    /// Returns the figure that corresponds to a time for the whole work.
    fn value(&self, run: &Run, problem: &Problem, us: f64) -> f64 {
        self.measure.of_work(problem, us, self.baseline_us(run, problem))
    }

    fn value_of(&self, run: &Run, m: &Measurement, us: f64) -> f64 {
        self.measure.value_of(m, us, self.baseline_us(run, &m.problem))
    }

    fn data(&self, run: &Run, m: &Measurement, us: f64) -> MarkData {
        let value = self.measure.text(self.value_of(run, m, us));
        // The line has the rung's name, and the chart names the rest of the problem.
        let short = clean(&m.problem.short);
        let problem = if short.is_empty() { size_label(run, &m.problem) } else { short };
        MarkData { rung: String::new(), problem, ..self.measure.data(m, value) }
    }

    /// Returns the baseline's time if speed-ups are drawn.
    fn baseline_us(&self, run: &Run, problem: &Problem) -> Option<f64> {
        let wanted = self.measure.quantity == Quantity::SpeedUp;
        run.baseline(problem).filter(|_| wanted).and_then(Measurement::median_us)
    }

    /// Returns the name of the baseline: one rung, or the rule if the rung differs between sizes.
    fn baseline_name(&self) -> String {
        let each = self.lines.iter().flat_map(|l| l.points.iter().map(|p| (self.runs[l.run], &p.1.problem)));
        let mut names = each.filter_map(|(run, p)| run.baseline(p).map(|m| name(run, &m.rung)));
        let first = names.next();
        match first.filter(|first| names.all(|n| n == *first)) {
            Some(name) => name,
            None if self.runs[0].descriptor.baseline == Baseline::FastestLibrary => "the fastest library".into(),
            None => "each size's first valid rung".into(),
        }
    }

    /// Returns the rungs whose lines stand out, in the order of the lines; all if there are few, or if they were named.
    fn standing_out(&self) -> Vec<&'a str> {
        let mut rungs: Vec<&str> = Vec::new();
        for line in &self.lines {
            if !rungs.contains(&line.rung) {
                rungs.push(line.rung);
            }
        }
        if rungs.len() <= FEW || self.chosen.is_some() {
            return rungs;
        }
        let mut kept: Vec<&str> = self.winners(0.0).into_iter().take(MOST_WINNERS).map(|w| w.0).collect();
        let main = self.problems().into_iter().rfind(|p| self.runs[0].main_problem() == Some(*p));
        let at = main.or(self.problems().last().copied()).unwrap_or(self.main);
        for run in self.runs {
            let framework = run.fastest_of(at, |r| r.framework().is_some());
            let references = [framework.map(|f| f.0), run.fastest_library(at).map(|l| l.0), run.baseline(at)];
            kept.extend(references.into_iter().flatten().map(|m| m.rung.as_str()));
            kept.extend(run.fastest_kernels(at).map(|(m, _)| m.rung.as_str()));
        }
        rungs.retain(|r| kept.contains(r) || self.options.picked.iter().any(|p| p == r));
        rungs
    }

    /// Returns the value that is smallest for the best rung: its time, or its bytes.
    fn cost(&self, (_, m, us): &(f64, &Measurement, f64)) -> f64 {
        if self.measure.is_timed() { *us } else { self.measure.value_of(m, *us, None) }
    }

    /// Returns the rungs that win at some size, in time or in memory, among those that do all of the work, each with the number of sizes at which it wins; the
    /// most frequent winner comes first. A size does not count if the next rung takes at most `tie` times as long.
    fn winners(&self, tie: f64) -> Vec<(&'a str, usize)> {
        let mut won: Vec<(&str, usize)> = Vec::new();
        for problem in self.problems() {
            let ranked = self.ranked(problem);
            let Some((rung, us)) = ranked.first().copied() else { continue };
            if ranked.get(1).is_some_and(|next| next.1 <= us * tie) {
                continue;
            }
            match won.iter_mut().find(|w| w.0 == rung) {
                Some(w) => w.1 += 1,
                None => won.push((rung, 1)),
            }
        }
        won.sort_by_key(|w| std::cmp::Reverse(w.1));
        won
    }

    /// Returns the rungs that do all of the work at a problem's size, each with its time or memory; the best rung comes first.
    fn ranked(&self, problem: &Problem) -> Vec<(&'a str, f64)> {
        let at = self.lines.iter().flat_map(|l| l.points.iter().map(move |p| (l.rung, p)));
        let at = at.filter(|(_, (size, m, _))| *size == problem.size() as f64 && !m.does_less());
        let mut costs: Vec<(&str, f64)> = at.map(|(rung, p)| (rung, self.cost(p))).collect();
        costs.sort_by(|a, b| a.1.total_cmp(&b.1));
        costs
    }

    /// Returns the rungs that take at most `tie` times as long as the fastest at a problem's size, the fastest first.
    fn leaders(&self, problem: &Problem, tie: f64) -> Vec<&'a str> {
        let ranked = self.ranked(problem);
        let most = ranked.first().map_or(0.0, |best| best.1 * tie);
        ranked.into_iter().take_while(|rung| rung.1 <= most).map(|rung| rung.0).collect()
    }

    /// Returns the indices of the points of a line that are not joined to their neighbours: for matrix products over sizes that double, the sizes with an
    /// unusual alignment.
    fn apart(&self, line: &Line<'_>) -> Vec<usize> {
        // Alignment matters only if the size is the length of a row.
        if self.main.count("k") != Some(self.main.size()) {
            return Vec::new();
        }
        let odd = |size: f64| !(size as u64).is_multiple_of(ALIGNED);
        let count = line.points.iter().filter(|p| odd(p.0)).count();
        if !self.runs[0].descriptor.axis.doubling || 2 * count > line.points.len() {
            return Vec::new();
        }
        (0..line.points.len()).filter(|i| odd(line.points[*i].0)).collect()
    }
}

/// Returns a record's problems on the line of `main`, one for each size. If several problems have the same size, the one that differs from `main` in the fewest
/// sizes and settings, such as the learning rate, is used.
fn problems_along<'a>(run: &'a Run, main: &Problem) -> Vec<&'a Problem> {
    let differing = |p: &Problem| p.sizes.iter().filter(|s| !main.sizes.contains(s)).count();
    let mut out: Vec<&Problem> = Vec::new();
    for p in run.problems().into_iter().filter(|p| p.size() > 0 && p.same_line(main)) {
        match out.iter_mut().find(|o| o.size() == p.size()) {
            Some(other) if differing(p) < differing(other) => *other = p,
            Some(_) => {}
            None => out.push(p),
        }
    }
    out
}

/// Returns the problem whose line is drawn: the record's main problem, unless it has no valid measurement or lies on
/// a line that was not requested; then it is the problem with the most valid measurements.
fn main_of<'a>(run: &'a Run, along: LineChoice<'_>) -> Option<&'a Problem> {
    let valid = |p: &Problem| run.measurements.iter().filter(|m| m.problem == *p && verdict(run, m).is_ok()).count();
    let drawn = |p: &&Problem| along.includes(p) && valid(p) > 0;
    let main = run.main_problem().filter(drawn);
    main.or_else(|| run.problems().into_iter().filter(drawn).rev().max_by_key(|p| valid(p)))
}

use crate::draw::text::words::{counted, percent, time, times};
use crate::draw::{
    Axis, Bar, BarRow, Bars, Chart, ChartError, Content, Frame, LOG_FROM, MAX_ENTRIES, MarkData, Options,
    ReferenceLine, Rgb, Rungs, Table, clean, less_is_better,
};
use crate::record::{
    Ceiling, LadderTable, Measure, OF_PEAK_MEMORY, RunnerKind, arithmetic_name, bound, claim, claim_of_memory, columns,
    debug_note, device, heading, joined, l2, label, least_memory, medians, name, names, of_bound, pass, peak_bytes,
    policy_note, quoted, usable, verdict,
};
use std::collections::HashSet;
use warpbook_record::{Column, LadderRow, Measurement, Outcome, Problem, Quantity, Run, Runner};

impl Options {
    /// Draws a bar for each rung: its time, its speed-up over the record's baseline, its effective bandwidth, its FLOP/s, its items per second or its
    /// peak memory.
    ///
    /// Colours distinguish CPU, GPU libraries, GPU kernels and other frameworks. A rung that does less than half of the work's operations is drawn
    /// hollow, and is not called the fastest. The bound of a rung is written below its figure. Marks show the shortest time that the measured
    /// ceilings allow, and the fastest GPU library if the record has one; whiskers are the median absolute deviation. Rungs without a valid figure
    /// keep their row, with the reason in words; three or more that were skipped for the same reason share one remark.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if the record has no measurement of the problem, or none that the quantity exists for.
    pub fn ladder(&self, run: &Run, problem: &Problem, quantity: Quantity) -> Result<Chart, ChartError> {
        let mut rows = run.ladder(problem);
        if rows.is_empty() {
            return Err(ChartError::NothingToDraw(format!("The record has no measurement of {}.", label(problem))));
        }
        let measure = Measure::new(run, quantity);
        if let Some(why) = measure.lacking(run, problem) {
            return Err(ChartError::NothingToDraw(why));
        }
        let all = rows.len();
        if self.rungs == Rungs::Story && measure.is_timed() && all > STORY {
            rows = story(run, problem, rows);
        }
        let left_out = all - rows.len();
        let baseline = run.baseline(problem).and_then(|m| Some((name(run, &m.rung), usable(m.median_us())?)));
        let folded = folded(run, &rows);
        let is_alone = rows.iter().filter(|r| measure.verdict(run, r.measurement).is_ok()).count() < 2;
        Ladder {
            options: self,
            run,
            problem,
            measure,
            rows,
            baseline,
            library: run.fastest_library(problem),
            folded,
            left_out,
            is_alone,
        }
        .draw()
    }
}

struct Ladder<'a> {
    options: &'a Options,
    run: &'a Run,
    problem: &'a Problem,
    measure: Measure,
    rows: Vec<LadderRow<'a>>,
    /// Title and time in microseconds of the rung that speed-ups are relative to.
    baseline: Option<(String, f64)>,
    /// The fastest library and its time in microseconds.
    library: Option<(&'a Measurement, f64)>,
    /// Reasons why rungs were skipped, each with its rungs; these rungs have no row.
    folded: Vec<(String, Vec<String>)>,
    /// Number of rungs that the shortened ladder leaves out.
    left_out: usize,
    /// True if no more than one rung has a valid figure, so that there is nothing to compare it with.
    is_alone: bool,
}

/// If a problem has more rungs than this, `Rungs::Story` shortens the ladder.
pub const STORY: usize = 10;
/// Number of rungs in a shortened ladder, unless more of them are mandatory.
const TOLD: usize = 8;

/// Returns the rungs of a shortened ladder, in order: the first, the first kernel, the best references, the largest steps and the fastest.
fn story<'a>(run: &Run, problem: &Problem, mut rows: Vec<LadderRow<'a>>) -> Vec<LadderRow<'a>> {
    let us = |m: &Measurement| usable(m.median_us()).filter(|_| run.is_sound(m) && !m.does_less());
    let idea = |m: &Measurement| m.rung.replace("bf16", "fp16");
    // If the same kernel was measured in two types, only the faster one is shown.
    let is_faster = |o: &LadderRow<'_>, m: &Measurement| us(o.measurement) < us(m) && us(o.measurement).is_some();
    let slower: Vec<bool> = rows
        .iter()
        .map(|r| rows.iter().any(|o| is_faster(o, r.measurement) && idea(o.measurement) == idea(r.measurement)))
        .collect();
    let is_kernel = |m: &Measurement| RunnerKind::of_rung(run, &m.rung) == RunnerKind::Kernels;
    let external = run.fastest_of(problem, |r| matches!(r.runner, Runner::External(_))).map(|f| f.0);
    let library = run.fastest_library(problem).map(|f| f.0);
    let best = [external, library, run.fastest(problem)];
    // The speed-up of each kernel over the fastest before it; infinite for a mandatory rung.
    let (mut gains, mut least, mut has_kernel) = (Vec::<f64>::new(), f64::INFINITY, false);
    for (r, slower) in rows.iter().zip(slower) {
        let m = r.measurement;
        let is_first =
            gains.iter().all(|g| *g == 0.0) || (is_kernel(m) && !std::mem::replace(&mut has_kernel, is_kernel(m)));
        gains.push(match us(m) {
            Some(_) if slower => 0.0,
            None => 0.0,
            Some(_) if is_first || best.iter().flatten().any(|b| b.rung == m.rung) => f64::INFINITY,
            Some(us) if is_kernel(m) && us < least => least / us,
            // If few rungs are faster than those before them, the fastest of the other rungs fill the remaining places.
            Some(us) => 1.0 / (1.0 + us),
        });
        least = us(m).filter(|_| is_kernel(m)).map_or(least, |us| us.min(least));
    }
    // Rungs with equal gains are either all shown or all left out.
    let told = |gain: f64| gain > 0.0 && (gain == f64::INFINITY || gains.iter().filter(|g| **g > gain).count() < TOLD);
    let mut told = gains.iter().map(|g| told(*g));
    rows.retain(|_| told.next() == Some(true));
    rows
}

/// A guess of more than this many times the longest bar is mentioned but not drawn.
const FAR_GUESS: f64 = 4.0;

/// If at least this many rungs were skipped for the same reason, they share one remark.
const FOLD_FROM: usize = 3;

fn folded(run: &Run, rows: &[LadderRow<'_>]) -> Vec<(String, Vec<String>)> {
    let mut out: Vec<(String, Vec<String>)> = Vec::new();
    for m in rows.iter().map(|r| r.measurement) {
        let (Outcome::Skipped { .. }, Err(why)) = (&m.outcome, verdict(run, m)) else { continue };
        match out.iter_mut().find(|f| f.0 == why) {
            Some(same) => same.1.push(m.rung.clone()),
            None => out.push((why, vec![m.rung.clone()])),
        }
    }
    out.retain(|f| f.1.len() >= FOLD_FROM);
    // If every row would become a remark, all rows stay.
    if out.iter().map(|f| f.1.len()).sum::<usize>() == rows.len() { Vec::new() } else { out }
}

impl Ladder<'_> {
    /// Returns the baseline of peak memory: a rung's id and its bytes.
    fn baseline_bytes(&self) -> Option<(&str, f64)> {
        self.run.baseline(self.problem).and_then(|m| Some((m.rung.as_str(), peak_bytes(m)?)))
    }

    fn baseline_us(&self) -> Option<f64> {
        self.baseline.as_ref().map(|b| b.1)
    }

    /// Returns the figure that corresponds to a time for the whole work.
    fn value(&self, us: f64) -> f64 {
        self.measure.of_work(self.problem, us, self.baseline_us())
    }

    fn value_of(&self, m: &Measurement, us: f64) -> f64 {
        self.measure.value_of(m, us, self.baseline_us())
    }

    /// Returns a rung's figure as text, and its comparison with another rung if there is one.
    fn figures(&self, m: &Measurement, us: f64) -> (String, Option<String>) {
        let shown = self.measure.text(self.value_of(m, us));
        let second = match self.measure.quantity {
            Quantity::Time => self.baseline_us().filter(|_| !self.is_alone).map(|b| times(b / us)),
            Quantity::SpeedUp => Some(time(us)),
            Quantity::PeakMemory => {
                let baseline = self.baseline_bytes().filter(|(rung, _)| *rung != m.rung);
                baseline.map(|(_, baseline)| percent(self.value_of(m, us) / baseline))
            }
            _ => self.library.map(|(_, library)| percent(library / us)),
        };
        (shown, second)
    }

    /// Returns the reader's guess as text, and its position on the axis.
    fn guess(&self) -> Option<(f64, String)> {
        let guess = self.options.guess.as_ref().filter(|_| self.measure.is_timed())?;
        let value = usable(Some(guess.us)).map(|us| self.value(us)).filter(|v| v.is_finite() && *v > 0.0)?;
        Some((value, format!("{}: {}", clean(&guess.label), self.measure.text(value))))
    }

    /// Returns the lines that bars are compared with: the ceiling, the library, and the reader's guess.
    fn reference_lines(&self, ceiling: Option<&Ceiling>, guess: Option<(f64, String)>) -> Vec<ReferenceLine> {
        let ceiling = ceiling.map(|c| {
            let label = self.ceiling_label(c);
            ReferenceLine { value: self.value(c.us), data: MarkData::reference(&label), label, solid: false }
        });
        let counted = |(m, _): &(&Measurement, f64)| self.measure.is_timed() || peak_bytes(m).is_some();
        let library = self.library.filter(counted).map(|(m, us)| {
            let value = self.value_of(m, us);
            let (name, shown) = (name(self.run, &m.rung), self.measure.text(value));
            let label = format!("{name}: {shown}");
            ReferenceLine { value, data: MarkData { name, ..self.measure.data(m, shown) }, label, solid: true }
        });
        let guess =
            guess.map(|(value, label)| ReferenceLine { value, data: MarkData::reference(&label), label, solid: false });
        ceiling.into_iter().chain(library).chain(guess).collect()
    }

    /// Returns the share of its bound that a rung reaches, such as "62 % of the shared memory limit".
    fn note(&self, row: &LadderRow<'_>) -> String {
        if row.measurement.does_less() {
            let share = row.measurement.operations() as f64 / self.problem.flops as f64;
            return format!("another algorithm: {} of the operations", percent(share));
        }
        let bound = bound(self.run, row).filter(|_| self.measure.is_timed());
        bound.map_or(String::new(), |(b, f)| of_bound(&b, row.measurement.arithmetic_type(), f))
    }

    /// Returns the reason why a rung exceeds the ceiling of the problem or its own bound; empty if it exceeds neither.
    fn beyond(&self, row: &LadderRow<'_>, us: f64) -> String {
        if !self.measure.is_timed() {
            return String::new();
        }
        let m = row.measurement;
        let ours = self.run.on_device(m);
        let least =
            "Faster than the measured ceilings, which the lab's best kernels reached: the device can exceed them.";
        if let Some(c) = self.ceiling().filter(|c| us < c.us && ours) {
            let moved = c.level.and_then(|level| m.traffic.iter().find(|t| t.level == level)).map(|t| t.bytes);
            let counted = !m.traffic.is_empty();
            return match c.level {
                _ if m.does_less() => "Faster than the ceiling, because it does less of the work.".into(),
                Some(level) if counted && moved.unwrap_or(0) < self.problem.bytes => {
                    let share = percent(moved.unwrap_or(0) as f64 / self.problem.bytes as f64);
                    let level = level.label();
                    format!(
                        "Faster than the {level} ceiling, because only {share} of the work's bytes go through {level}."
                    )
                }
                _ => least.into(),
            };
        }
        let Some((of, _)) = bound(self.run, row).filter(|(_, share)| *share > 1.0) else { return String::new() };
        let why = clean(&self.run.descriptor.above_bound);
        match why.is_empty() || of.level.is_none() {
            true => least.into(),
            false => format!("above 100 %: {}", why.trim_end_matches('.')),
        }
    }

    /// Returns the rungs that have a row.
    fn shown(&self) -> impl Iterator<Item = &LadderRow<'_>> {
        let hidden: HashSet<&str> = self.folded.iter().flat_map(|f| &f.1).map(String::as_str).collect();
        self.rows.iter().filter(move |r| !hidden.contains(r.measurement.rung.as_str()))
    }

    /// Returns true if the measured peak of arithmetic is missing. The ceiling of memory alone might then be far above
    /// the true ceiling.
    fn lacks_peak(&self) -> bool {
        let headline = self.run.descriptor.headline == Quantity::Throughput;
        let wanted = match self.measure.quantity {
            Quantity::Throughput => true,
            Quantity::Bandwidth | Quantity::PeakMemory => false,
            _ => headline,
        };
        wanted && self.run.arithmetic(self.problem).and_then(|p| usable(Some(p.flops_per_s()))).is_none()
    }

    fn ceiling(&self) -> Option<Ceiling> {
        Ceiling::at(self.run, self.problem).filter(|_| self.measure.is_timed() && !self.lacks_peak())
    }

    /// Returns a label such as "measured ceiling: 163 µs, bf16 arithmetic at 845 TFLOP/s".
    fn ceiling_label(&self, c: &Ceiling) -> String {
        let shown = self.measure.text(self.value(c.us));
        let itself = match self.measure.quantity {
            Quantity::Throughput => c.level.is_none(),
            Quantity::Bandwidth => c.level.is_some(),
            _ => false,
        };
        if itself {
            format!("measured ceiling: {}, {}", c.at, c.what)
        } else {
            format!("measured ceiling: {shown}, {} at {}", c.what, c.at)
        }
    }

    fn draw(self) -> Result<Chart, ChartError> {
        let shown = |m: &Measurement| self.measure.verdict(self.run, m).ok();
        let drawn: Vec<(&LadderRow<'_>, f64)> =
            self.rows.iter().filter_map(|r| Some((r, shown(r.measurement)?))).collect();
        let ceiling = self.ceiling().filter(|_| !drawn.is_empty());
        let mut values: Vec<f64> = drawn.iter().map(|(r, us)| self.value_of(r.measurement, *us)).collect();
        let (ceiling, beyond) = match ceiling {
            Some(c) if self.is_far_below(&c, &values) => (None, Some(c)),
            other => (other, None),
        };
        values.extend(ceiling.iter().map(|c| self.value(c.us)));
        let most = values.iter().copied().fold(0.0, f64::max);
        // A far-off guess would squeeze all bars into a corner.
        let (guess, far_guess) = match self.guess().filter(|_| !drawn.is_empty()) {
            Some((value, label)) if value > FAR_GUESS * most => (None, Some(label)),
            guess => (guess, None),
        };
        values.extend(guess.iter().map(|g| g.0));
        let (axis, base) = self.axis(&values);
        let log = axis.as_ref().is_some_and(Axis::is_log);
        let (caption, tick) = self.measure.axis(values.iter().copied().fold(0.0, f64::max), log);
        let direction = match (self.measure.quantity, &self.baseline) {
            (Quantity::Time, Some((name, _))) => format!("{}; ×: as fast as {name}", less_is_better(log)),
            (Quantity::Time, None) => less_is_better(log).to_owned(),
            (Quantity::PeakMemory, _) => match self.baseline_bytes() {
                Some((rung, _)) => format!("{}; %: of {}", less_is_better(log), name(self.run, rung)),
                None => less_is_better(log).to_owned(),
            },
            (Quantity::SpeedUp, Some((name, _))) => format!(" over {name}, longer is better{}", scale(log)),
            (Quantity::SpeedUp, None) => format!(", longer is better{}", scale(log)),
            _ if self.library.is_some() => {
                format!(", longer is better{}; %: of {}", scale(log), self.library_name())
            }
            _ => format!(", longer is better{}", scale(log)),
        };
        let mut frame = self.frame(&drawn);
        frame.notes.extend(beyond.map(|c| {
            let label = self.ceiling_label(&c);
            format!("Beyond the axis: the {label}.")
        }));
        frame.notes.extend(far_guess.map(|label| format!("Beyond the axis: {label}.")));
        if let Some((_, label)) = &guess {
            frame.description += &format!(" Marked is {label}.");
        }
        Bars {
            rows: self.shown().take(MAX_ENTRIES).map(|r| self.row(r)).collect(),
            axis,
            base,
            tick,
            caption: format!("{caption}{direction}"),
            reference_lines: self.reference_lines(ceiling.as_ref(), guess),
            legend: self.legend(&drawn),
            frame,
        }
        .draw()
    }

    /// Returns true if a ceiling for a rate would squeeze all bars into a corner.
    fn is_far_below(&self, ceiling: &Ceiling, values: &[f64]) -> bool {
        let is_rate = matches!(self.measure.quantity, Quantity::Bandwidth | Quantity::Throughput | Quantity::ItemRate);
        is_rate && values.iter().all(|v| 4.0 * v < self.value(ceiling.us))
    }

    fn far_above_ceiling(&self, values: &[f64]) -> bool {
        let ceiling = self.ceiling().map_or(0.0, |c| self.value(c.us));
        ceiling > 0.0 && values.iter().any(|v| *v > 4.0 * ceiling)
    }

    /// Returns the axis and the value at which bars begin; both are `None` if there are no values.
    fn axis(&self, values: &[f64]) -> (Option<Axis>, Option<f64>) {
        if values.is_empty() {
            return (None, None);
        }
        let all = || values.iter().copied();
        let far = all().fold(0.0, f64::max) > LOG_FROM * all().fold(f64::INFINITY, f64::min);
        match self.measure.quantity {
            Quantity::Time if far => (Some(Axis::from_decade(all())), None),
            // A speed-up of 1 is a bar of length zero, so logarithmic bars begin at 1.
            Quantity::SpeedUp if far => (Some(Axis::log(all().chain([1.0]), 0.0)), Some(1.0)),
            // Rates are compared with the ceiling, so the axis is linear however slow the CPU is. It is logarithmic
            // only if a rung that skips reading would squeeze the ceiling into a corner.
            Quantity::Bandwidth | Quantity::Throughput | Quantity::ItemRate if self.far_above_ceiling(values) => {
                (Some(Axis::from_decade(all())), None)
            }
            Quantity::PeakMemory => (Some(Axis::from_zero(all()).binary()), None),
            _ => (Some(Axis::from_zero(all())), None),
        }
    }

    fn row(&self, row: &LadderRow<'_>) -> BarRow {
        let m = row.measurement;
        let (name, mut id) = names(self.run, &m.rung);
        let is_best = self.options.rungs != Rungs::All
            && self.measure.is_timed()
            && !self.is_alone
            && self.run.fastest(self.problem).is_some_and(|f| f.rung == m.rung);
        if let Some(twin) = self.twin(m) {
            // The end of a line that is too long is cut off.
            id = format!("{twin} · {id}");
        }
        let content = match self.measure.verdict(self.run, m) {
            Err(why) => Content::Reason(why),
            Ok(us) => {
                let (shown, second) = self.figures(m, us);
                let deviation = m.mad_us().filter(|_| self.measure.is_timed());
                let ends = deviation.filter(|d| d.is_finite() && *d > 0.0).map(|d| {
                    let (a, b) = (self.value_of(m, (us - d).max(us * 1e-3)), self.value_of(m, us + d));
                    (a.min(b), a.max(b))
                });
                let (color, series) = kind(self.run, row);
                let label = second.map_or_else(|| shown.clone(), |second| format!("{shown} · {second}"));
                Content::Bar(Bar {
                    value: self.value_of(m, us),
                    spread: ends,
                    data: MarkData { name: name.clone(), series, is_best, ..self.measure.data(m, label.clone()) },
                    label,
                    note: match (is_best, self.note(row)) {
                        (true, note) if note.is_empty() => "fastest".into(),
                        (true, note) => format!("fastest; {note}"),
                        (false, note) => note,
                    },
                    remark: self.beyond(row, us),
                    color,
                    hollow: m.does_less(),
                    parts: Vec::new(),
                })
            }
        };
        BarRow { name, id, content }
    }

    /// If a rung's two 16-bit types share a row, returns the figure of the other type, such as "bf16: 2.5 M images/s".
    fn twin(&self, m: &Measurement) -> Option<String> {
        let (ours, other) = if m.rung.contains("bf16") { ("bf16", "fp16") } else { ("fp16", "bf16") };
        let id = m.rung.replace(ours, other);
        let twin = self.run.measurement(&id, self.problem).filter(|t| self.left_out > 0 && t.rung != m.rung)?;
        let us = self.measure.verdict(self.run, twin).ok()?;
        let shown = self.measure.text(self.value_of(twin, us));
        // The row's own figure already names the unit of a rate.
        let number = shown.rsplit_once(' ').filter(|_| shown.ends_with("/s")).map_or(shown.as_str(), |s| s.0);
        Some(format!("{other}: {number}"))
    }

    /// Returns the legend, if there is more than one colour.
    fn legend(&self, drawn: &[(&LadderRow<'_>, f64)]) -> Vec<(Rgb, String)> {
        let mut kinds: Vec<(Rgb, String)> = Vec::new();
        for (row, _) in drawn {
            let (color, name) = kind(self.run, row);
            match kinds.iter_mut().find(|k| k.0 == color) {
                Some(k) if k.1 != name => k.1 = "other frameworks".into(),
                Some(_) => {}
                None => kinds.push((color, name)),
            }
        }
        if kinds.len() > 1 { kinds } else { Vec::new() }
    }

    fn frame(&self, drawn: &[(&LadderRow<'_>, f64)]) -> Frame {
        let run = self.run;
        let what = match (&self.baseline, self.measure.quantity) {
            (Some((name, _)), Quantity::SpeedUp) => format!("speed-up over {name}"),
            _ => self.measure.name(),
        };
        let timed = self.measure.is_timed();
        let claim = if timed { claim(run, self.problem) } else { claim_of_memory(run, self.problem, |_| true) };
        let title = claim.unwrap_or_else(|| format!("{}: {what}", heading(run)));
        let medians = medians(drawn.iter().map(|d| d.0.measurement));
        let medians = if medians.is_empty() { medians } else { format!("{medians} ± MAD") };
        let topic = format!("{}: {what}", heading(run));
        let [medians, l2] = if timed { [medians, l2(run).to_owned()] } else { Default::default() };
        let subtitle = joined([topic, device(run), label(self.problem), medians, l2]);
        let mut notes = Vec::new();
        if self.measure.quantity == Quantity::Bandwidth {
            let each = if self.problem.passes > 1 { format!("once per {}", pass(run)) } else { "once".into() };
            notes.push(format!(
                "Effective bandwidth: the bytes of moving inputs and results {each}, over the time. A rung that also writes and \
                 re-reads intermediates moves more than this, and one that keeps its data on the chip less."
            ));
        }
        if self.lacks_peak() {
            let arithmetic = arithmetic_name(self.problem.dtype);
            notes.push(format!("The peak of {arithmetic} was not measured, so no ceiling is drawn."));
        }
        match timed {
            true => notes.extend(policy_note(run, !drawn.is_empty())),
            false => notes.push(OF_PEAK_MEMORY.to_owned()),
        }
        notes.extend(debug_note(drawn.iter().map(|(r, _)| (run, r.measurement))));
        for (why, rungs) in self.folded.iter().take(MAX_ENTRIES) {
            let ids: Vec<String> = rungs.iter().take(MAX_ENTRIES).map(|r| clean(r)).collect();
            notes.push(format!("{} {why} ({})", counted(rungs.len(), "rung"), ids.join(", ")));
        }
        if self.left_out > 0 {
            notes.push(format!(
                "{} of {} rungs: the first, the best references, the largest steps and the fastest; the table has all.",
                self.rows.len(),
                self.rows.len() + self.left_out
            ));
        }
        if self.shown().count() > MAX_ENTRIES {
            notes.push(format!("{} of {} rows are drawn; the table has all.", MAX_ENTRIES, self.shown().count()));
        }
        Frame {
            width: self.options.px(),
            title,
            subtitle,
            description: self.description(&what, drawn),
            notes,
            table: self.table(),
        }
    }

    fn description(&self, what: &str, drawn: &[(&LadderRow<'_>, f64)]) -> String {
        let run = self.run;
        let timed = self.measure.is_timed();
        let least = || least_memory(run, self.problem, |_| true).map(|(m, _)| m);
        let best = if timed { run.fastest(self.problem) } else { least() };
        let best = match best.and_then(|m| Some((m, usable(m.median_us())?))) {
            Some((m, us)) if !timed => format!("the least is {} with {}", quoted(run, &m.rung), self.relative(m, us)),
            Some((m, us)) if self.is_alone => format!("{} with {}", quoted(run, &m.rung), self.relative(m, us)),
            Some((m, us)) => format!("the fastest is {} with {}", quoted(run, &m.rung), self.relative(m, us)),
            None if drawn.is_empty() => "none has a valid figure".to_owned(),
            None => "none that does all of the work has a valid figure".to_owned(),
        };
        let without = match self.rows.len() - drawn.len() {
            0 => String::new(),
            n => format!("; {} without a figure", counted(n, "rung")),
        };
        format!(
            "Bars of the {what} of {} on {}, {}: {best}{without}.",
            counted(self.rows.len(), "rung"),
            device(run),
            label(self.problem)
        )
    }

    /// Returns a figure such as "2.94 ms (18.1× as fast as “Naive”)", or "652 TFLOP/s (94 % of “cuBLAS”)"; no rung is compared with itself.
    fn relative(&self, m: &Measurement, us: f64) -> String {
        let (shown, second) = self.figures(m, us);
        let reference = match (self.measure.quantity, &self.baseline) {
            (Quantity::SpeedUp, _) => second,
            (Quantity::Time, Some((name, base))) if *base != us => {
                second.map(|times| format!("{times} as fast as “{name}”"))
            }
            (Quantity::Time, _) => None,
            (Quantity::PeakMemory, _) => {
                let reference = self.baseline_bytes().map(|(rung, _)| quoted(self.run, rung));
                second.zip(reference).map(|(share, reference)| format!("{share} of {reference}"))
            }
            _ => second
                .filter(|_| self.library.is_some_and(|l| l.0.rung != m.rung))
                .map(|share| format!("{share} of “{}”", self.library_name())),
        };
        reference.map_or_else(|| shown.clone(), |reference| format!("{shown} ({reference})"))
    }

    fn library_name(&self) -> String {
        self.library.map_or(String::new(), |(m, _)| name(self.run, &m.rung))
    }

    /// Returns a table with the record's columns, and with the drawn figures if no column contains them.
    fn table(&self) -> Table {
        let mut all = columns(self.run);
        let tiled = self.rows.iter().any(|r| r.measurement.tile.is_some()).then_some(Column::Tile);
        let library = self.library.map(|_| Column::OfLibrary);
        let rate = self.measure.or_rate(self.run).column();
        let drawn = [Column::Median, Column::Mad, Column::SpeedUp, self.measure.column(), rate];
        let more = [Column::OfBound, Column::BoundBy, Column::Check, Column::Samples];
        for column in drawn.into_iter().chain(library).chain(more).chain(tiled) {
            if !all.contains(&column) {
                all.push(column);
            }
        }
        LadderTable::with(self.run, self.problem, &all).file()
    }
}

/// Returns the suffix of a caption for a logarithmic axis.
fn scale(log: bool) -> &'static str {
    if log { "; logarithmic scale" } else { "" }
}

/// Returns the colour and the name of a rung's kind.
fn kind(run: &Run, row: &LadderRow<'_>) -> (Rgb, String) {
    let kind = RunnerKind::of_rung(run, &row.measurement.rung);
    (kind.color(), kind.name(row.rung))
}

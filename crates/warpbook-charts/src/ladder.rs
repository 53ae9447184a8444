use crate::bars::{Bar, Bars, Content, Mark, Row};
use crate::canvas::Frame;
use crate::common::{
    MAX_ENTRIES, best_library, cache, debug_note, device, heading, joined, least_time, medians, name, names, of_bound,
    on_cpu, usable, verdict,
};
use crate::palette::{AMBER, BLUE, GREY, PURPLE, Rgb};
use crate::text::clean;
use crate::ticks::Axis;
use crate::words::{
    bandwidth, bandwidth_tick, counted, percent, plain, rate, rate_unit, significant, time, time_tick, times,
};
use crate::{Chart, ChartError, Quantity, Table};
use std::collections::{HashMap, HashSet};
use warpbook_record::{LadderRow, Measurement, Outcome, Problem, Run, Runner};

/// Bars longer than the shortest by more than this are drawn on a logarithmic axis.
pub(crate) const LOG_FROM: f64 = 20.0;

/// One bar a rung: its time, its speed-up over the first valid rung, its effective bandwidth, or its operations a second.
///
/// Other frameworks have a colour and a name of their own. A rung that does less than half of the work's operations is drawn
/// hollow, and is not called the fastest. Where a rung's bytes were counted, what bounds it stands below its figure. The
/// measured ceiling is marked; whiskers are the median absolute deviation. Rungs without a valid figure keep their row, with
/// the reason in words; three or more that were skipped for the same reason share one remark. Operations a second are held
/// against the fastest GPU library as well, where the record has one.
///
/// # Errors
/// [`ChartError::NothingToDraw`] where the record has no measurement of the problem, or none that the quantity exists for.
pub fn ladder(run: &Run, problem: &Problem, quantity: Quantity) -> Result<Chart, ChartError> {
    let rows = run.ladder(problem);
    if rows.is_empty() {
        return Err(ChartError::NothingToDraw(format!("The record has no measurement of {}.", problem.label())));
    }
    if quantity == Quantity::Bandwidth && problem.bytes() == 0 {
        return Err(ChartError::NothingToDraw(format!(
            "No bytes are known of {}, so it has no bandwidth.",
            problem.label()
        )));
    }
    if quantity == Quantity::Throughput && problem.flops() == 0 {
        return Err(ChartError::NothingToDraw(format!(
            "No operations are known of {}, so it has no throughput.",
            problem.label()
        )));
    }
    let baseline = rows.iter().find(|r| r.speed_up == Some(1.0)).and_then(|r| {
        let us = usable(r.measurement.median_us())?;
        Some((names(run, &r.measurement.rung).0, us))
    });
    let folded = folded(run, &rows);
    let library = best_library(run, problem).filter(|_| quantity == Quantity::Throughput);
    Ladder { run, problem, quantity, rows, baseline, library, folded }.draw()
}

struct Ladder<'a> {
    run: &'a Run,
    problem: &'a Problem,
    quantity: Quantity,
    rows: Vec<LadderRow<'a>>,
    /// The rung that the record's speed-ups are over, and its time in microseconds.
    baseline: Option<(String, f64)>,
    /// The fastest library and its time, where rungs are held against it.
    library: Option<(&'a Measurement, f64)>,
    /// Reasons that several rungs were skipped for, each with those rungs; they have no row.
    folded: Vec<(String, Vec<String>)>,
}

/// Rungs that were skipped for the same reason stand in one remark from this number on.
const FOLD_FROM: usize = 3;

fn folded(run: &Run, rows: &[LadderRow<'_>]) -> Vec<(String, Vec<String>)> {
    let mut out: Vec<(String, Vec<String>)> = Vec::new();
    let mut place: HashMap<String, usize> = HashMap::new();
    for m in rows.iter().map(|r| r.measurement) {
        let (Outcome::Skipped { .. }, Err(why)) = (&m.outcome, verdict(run, m)) else { continue };
        let at = *place.entry(why.clone()).or_insert_with(|| {
            out.push((why, Vec::new()));
            out.len() - 1
        });
        out[at].1.push(m.rung.clone());
    }
    out.retain(|f| f.1.len() >= FOLD_FROM);
    // A chart of nothing but remarks is none.
    if out.iter().map(|f| f.1.len()).sum::<usize>() == rows.len() { Vec::new() } else { out }
}

impl Ladder<'_> {
    /// The shown value of a time that all of the work takes.
    fn value(&self, us: f64) -> f64 {
        match self.quantity {
            Quantity::Time => us,
            Quantity::SpeedUp => self.baseline.as_ref().map_or(1.0, |(_, b)| b / us),
            Quantity::Bandwidth => self.problem.bytes() as f64 / (us * 1e-6),
            Quantity::Throughput => self.problem.flops() as f64 / (us * 1e-6),
        }
    }

    /// The shown value of a rung's time; its operations may be fewer than the work's.
    fn value_of(&self, m: &Measurement, us: f64) -> f64 {
        match self.quantity {
            Quantity::Throughput => m.operations() as f64 / (us * 1e-6),
            _ => self.value(us),
        }
    }

    fn label(&self, row: &LadderRow<'_>, us: f64) -> String {
        let value = self.value_of(row.measurement, us);
        let speed_up = self.baseline.as_ref().map(|(_, b)| times(b / us));
        match self.quantity {
            Quantity::Time => [Some(time(us)), speed_up].into_iter().flatten().collect::<Vec<_>>().join(" · "),
            Quantity::SpeedUp => format!("{} · {}", times(value), time(us)),
            Quantity::Bandwidth => match row.fraction_of_ceiling {
                Some(f) if row.measurement.traffic.is_empty() => format!("{} · {}", bandwidth(value), percent(f)),
                _ => bandwidth(value),
            },
            Quantity::Throughput => match self.library {
                Some((_, library)) => format!("{} · {}", rate(value), percent(library / us)),
                None => rate(value),
            },
        }
    }

    /// What the bars are held against: the ceiling, and the library.
    fn marks(&self, ceiling: Option<(f64, String)>) -> Vec<Mark> {
        let ceiling = ceiling.map(|(us, label)| Mark { value: self.value(us), label, solid: false });
        let library = self.library.map(|(m, us)| {
            let value = self.value_of(m, us);
            Mark { value, label: format!("{}: {}", name(self.run, &m.rung), rate(value)), solid: true }
        });
        ceiling.into_iter().chain(library).collect()
    }

    /// What bounds a rung whose bytes were counted, as in "62 % of shared memory's bound".
    fn note(&self, row: &LadderRow<'_>) -> String {
        if row.measurement.does_less() {
            let share = row.measurement.operations() as f64 / self.problem.flops() as f64;
            return format!("by another way: {} of the operations", percent(share));
        }
        let bound = self.run.bound(row.measurement).zip(row.fraction_of_ceiling.filter(|f| f.is_finite()));
        bound.map_or(String::new(), |(b, f)| of_bound(&b, f))
    }

    /// The rungs that have a row.
    fn shown(&self) -> impl Iterator<Item = &LadderRow<'_>> {
        let hidden: HashSet<&str> = self.folded.iter().flat_map(|f| &f.1).map(String::as_str).collect();
        self.rows.iter().filter(move |r| !hidden.contains(r.measurement.rung.as_str()))
    }

    /// The time that the ceiling would take in microseconds, and what it is.
    fn ceiling(&self) -> Option<(f64, String)> {
        let of_product = matches!(self.problem, Problem::Matmul { .. }) && self.quantity != Quantity::Bandwidth;
        if of_product || self.quantity == Quantity::Throughput {
            let (us, what, at) = least_time(self.run, self.problem)?;
            let value = self.value(us);
            let label = match self.quantity {
                Quantity::Throughput if what.ends_with("arithmetic") => format!("measured ceiling: {at}, {what}"),
                Quantity::Throughput => format!("measured ceiling: {}, {what} at {at}", rate(value)),
                Quantity::SpeedUp => format!("measured ceiling: {}, {what} at {at}", times(value)),
                _ => format!("measured ceiling: {}, {what} at {at}", time(us)),
            };
            return Some((us, label));
        }
        let peak = self.run.ceiling(self.problem)?;
        let us = usable(Some(self.problem.bytes() as f64 / peak.bytes_per_s() * 1e6))?;
        let rate = format!("{} read at {}", peak.level.label(), bandwidth(peak.bytes_per_s()));
        Some((
            us,
            match self.quantity {
                Quantity::Bandwidth => format!("measured ceiling: {rate}"),
                Quantity::SpeedUp => format!("measured ceiling: {}, {rate}", times(self.value(us))),
                _ => format!("measured ceiling: {}, {rate}", time(us)),
            },
        ))
    }

    fn draw(self) -> Result<Chart, ChartError> {
        let drawn: Vec<(&LadderRow<'_>, f64)> =
            self.rows.iter().filter_map(|r| Some((r, verdict(self.run, r.measurement).ok()?))).collect();
        let ceiling = self.ceiling().filter(|_| !drawn.is_empty());
        let mut values: Vec<f64> = drawn.iter().map(|(r, us)| self.value_of(r.measurement, *us)).collect();
        values.extend(ceiling.iter().map(|c| self.value(c.0)));
        let (axis, base) = self.axis(&values);
        let (caption, tick): (&str, fn(f64) -> String) = match self.quantity {
            Quantity::Time => ("time, shorter is better", time_tick),
            Quantity::SpeedUp => ("speed-up, longer is better", |v| format!("{}×", plain(v))),
            Quantity::Bandwidth if axis.as_ref().is_some_and(Axis::is_log) => {
                ("effective bandwidth, longer is better", bandwidth_tick)
            }
            Quantity::Bandwidth => ("effective bandwidth in GB/s, longer is better", |v| plain(v / 1e9)),
            Quantity::Throughput => match rate_unit(values.iter().copied().fold(0.0, f64::max)).1 {
                "TFLOP/s" => ("TFLOP/s, longer is better", |v| plain(v / 1e12)),
                "GFLOP/s" => ("GFLOP/s, longer is better", |v| plain(v / 1e9)),
                _ => ("MFLOP/s, longer is better", |v| plain(v / 1e6)),
            },
        };
        let uncounted = drawn.iter().any(|(r, _)| r.fraction_of_ceiling.is_some() && r.measurement.traffic.is_empty());
        let second = match (self.quantity, &self.baseline) {
            (Quantity::Time, Some((name, _))) => format!("; ×: as fast as {name}"),
            (Quantity::Bandwidth, _) if ceiling.is_some() && uncounted => "; %: of the measured ceiling".into(),
            (Quantity::Throughput, _) if self.library.is_some() => format!("; %: of {}", self.library_name()),
            _ => String::new(),
        };
        let log = if axis.as_ref().is_some_and(Axis::is_log) { "; logarithmic scale" } else { "" };
        Bars {
            rows: self.shown().take(MAX_ENTRIES).map(|r| self.row(r)).collect(),
            axis,
            base,
            tick,
            caption: format!("{caption}{log}{second}"),
            marks: self.marks(ceiling),
            legend: self.legend(&drawn),
            frame: self.frame(&drawn),
        }
        .draw()
    }

    fn far_above_ceiling(&self, values: &[f64]) -> bool {
        let ceiling = self.ceiling().map_or(0.0, |(us, _)| self.value(us));
        ceiling > 0.0 && values.iter().any(|v| *v > 4.0 * ceiling)
    }

    /// `None` where there is nothing to measure along it.
    fn axis(&self, values: &[f64]) -> (Option<Axis>, Option<f64>) {
        if values.is_empty() {
            return (None, None);
        }
        let all = || values.iter().copied();
        let far = all().fold(0.0, f64::max) > LOG_FROM * all().fold(f64::INFINITY, f64::min);
        match self.quantity {
            Quantity::Time if far => (Some(Axis::from_decade(all())), None),
            // A speed-up of one has no length, so the logarithmic bars do begin at their zero.
            Quantity::SpeedUp if far => (Some(Axis::log(all().chain([1.0]), 0.0)), Some(1.0)),
            // Bandwidths are held against the ceiling: linear, whatever the processor's are, but not where work that does
            // without reading would press it into a corner.
            Quantity::Bandwidth | Quantity::Throughput if self.far_above_ceiling(values) => {
                (Some(Axis::from_decade(all())), None)
            }
            _ => (Some(Axis::from_zero(all())), None),
        }
    }

    fn row(&self, row: &LadderRow<'_>) -> Row {
        let m = row.measurement;
        let (name, id) = names(self.run, &m.rung);
        let content = match verdict(self.run, m) {
            Err(why) => Content::Reason(why),
            Ok(us) => {
                let ends = m.mad_us().filter(|d| d.is_finite() && *d > 0.0).map(|d| {
                    let (a, b) = (self.value_of(m, (us - d).max(us * 1e-3)), self.value_of(m, us + d));
                    (a.min(b), a.max(b))
                });
                Content::Bar(Bar {
                    value: self.value_of(m, us),
                    spread: ends,
                    label: self.label(row, us),
                    note: self.note(row),
                    color: kind(self.run, row).0,
                    hollow: m.does_less(),
                    parts: Vec::new(),
                })
            }
        };
        Row { name, id, content }
    }

    /// Only where the colours say something.
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
        let what = match self.quantity {
            Quantity::Time => "time".to_owned(),
            Quantity::SpeedUp => match &self.baseline {
                Some((name, _)) => format!("speed-up over {name}"),
                None => "speed-up".into(),
            },
            Quantity::Bandwidth => "effective bandwidth".into(),
            Quantity::Throughput => "operations a second".into(),
        };
        let title = format!("{}: {what}", heading(run));
        let medians = medians(drawn.iter().map(|d| d.0.measurement));
        let medians = if medians.is_empty() { medians } else { format!("{medians} ± MAD") };
        let subtitle = joined([device(run), self.problem.label(), medians, cache(run).to_owned()]);
        let mut notes = Vec::new();
        if self.quantity == Quantity::Bandwidth {
            notes.push(
                "Effective: the bytes of reading every input once a pass, over the time. A rung that also writes and \
                 re-reads intermediates moves more than this."
                    .to_owned(),
            );
        }
        if self.quantity == Quantity::Throughput && self.ceiling().is_none() {
            let dtype = self.problem.dtype().map_or("such", |d| d.label());
            notes.push(format!("The peak of {dtype} arithmetic was not measured, so no ceiling is drawn."));
        }
        notes.extend(debug_note(drawn.iter().map(|(r, _)| (run, r.measurement))));
        for (why, rungs) in self.folded.iter().take(MAX_ENTRIES) {
            let ids: Vec<String> = rungs.iter().take(MAX_ENTRIES).map(|r| clean(r)).collect();
            notes.push(format!("{} {why} ({})", counted(rungs.len(), "rung"), ids.join(", ")));
        }
        if self.shown().count() > MAX_ENTRIES {
            notes.push(format!("{} of {} rows are drawn; the table has all.", MAX_ENTRIES, self.shown().count()));
        }
        Frame { title, subtitle, description: self.description(&what, drawn), notes, table: self.table() }
    }

    fn description(&self, what: &str, drawn: &[(&LadderRow<'_>, f64)]) -> String {
        let run = self.run;
        let best = drawn.iter().filter(|d| !d.0.measurement.does_less()).min_by(|a, b| a.1.total_cmp(&b.1));
        let best = best.map_or("none has a valid figure".to_owned(), |(row, us)| {
            let label = match self.library {
                // It is not held against itself.
                Some((m, _)) if m.rung == row.measurement.rung => rate(self.value_of(m, *us)),
                Some(_) => format!("{} of {}", self.label(row, *us), self.library_name()),
                None => self.label(row, *us),
            };
            let label = label.replacen(" · ", " (", 1);
            let close = if label.contains(" (") { ")" } else { "" };
            format!("the fastest is {} with {label}{close}", names(run, &row.measurement.rung).0)
        });
        let without = match self.rows.len() - drawn.len() {
            0 => String::new(),
            n => format!("; {} without a figure", counted(n, "rung")),
        };
        format!(
            "Bars of the {what} of {} on {}, {}: {best}{without}.",
            counted(self.rows.len(), "rung"),
            device(run),
            self.problem.label()
        )
    }

    fn library_name(&self) -> String {
        self.library.map_or(String::new(), |(m, _)| name(self.run, &m.rung))
    }

    fn table(&self) -> Table {
        let product = matches!(self.problem, Problem::Matmul { .. });
        let in_flops = self.quantity == Quantity::Throughput || product && self.quantity != Quantity::Bandwidth;
        let mut table = Table::new([
            "rung",
            "title",
            "time (ms)",
            "MAD (ms)",
            "speed-up",
            if in_flops { "TFLOP/s" } else { "effective GB/s" },
            "% of ceiling",
            "bound by",
            "samples",
            "max rel error",
            "outcome",
        ]);
        if product {
            table.headers.push("tile".into());
        }
        if self.library.is_some() {
            table.headers.push("% of the library".into());
        }
        let baseline = self.baseline.as_ref().map(|b| b.1);
        for row in &self.rows {
            let m = row.measurement;
            let (name, _) = names(self.run, &m.rung);
            let verdict = verdict(self.run, m);
            let us = verdict.as_ref().ok().copied();
            let digits = |v: Option<f64>, n| v.map(|v| significant(v, n)).unwrap_or_default();
            let rate = us.map(|t| match in_flops {
                true => m.operations() as f64 / (t * 1e-6) / 1e12,
                false => self.problem.bytes() as f64 / (t * 1e-6) / 1e9,
            });
            let tile = product.then(|| m.tile.clone().unwrap_or_default());
            let of_library = self.library.map(|(_, library)| digits(us.map(|t| library / t * 100.0), 4));
            let cells = [
                m.rung.clone(),
                name,
                digits(us.map(|t| t / 1e3), 5),
                digits(us.and(m.mad_us()).map(|t| t / 1e3), 2),
                digits(baseline.zip(us).map(|(b, t)| b / t), 4),
                digits(rate.filter(|v| *v > 0.0), 4),
                digits(us.and(row.fraction_of_ceiling).map(|f| f * 100.0), 3),
                us.and(self.run.bound(m)).map_or("", |b| b.label()).to_owned(),
                us.map(|_| m.samples_total.max(m.samples_us.len() as u64).to_string()).unwrap_or_default(),
                m.check.as_ref().map(|c| significant(c.max_rel_error, 2)).unwrap_or_default(),
                verdict.err().unwrap_or_else(|| "measured".into()),
            ];
            table.push(cells.into_iter().chain(tile).chain(of_library));
        }
        table
    }
}

/// What runs a rung: colour and name.
fn kind(run: &Run, row: &LadderRow<'_>) -> (Rgb, String) {
    match row.rung.map(|r| &r.runner) {
        _ if on_cpu(run, row.measurement) => (GREY, "CPU".into()),
        Some(Runner::Library(_)) => (PURPLE, "GPU library".into()),
        Some(Runner::External(framework)) => {
            let name = clean(framework);
            (AMBER, if name.is_empty() { "another framework".into() } else { name })
        }
        _ => (BLUE, "GPU kernels".into()),
    }
}

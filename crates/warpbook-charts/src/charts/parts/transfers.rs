use crate::charts::parts::group::{Group, TimedPart, groups};
use crate::draw::text::words::{counted, listed, percent, plain, significant, time, time_tick};
use crate::draw::{
    Axis, BLUE, Bar, BarRow, Bars, Chart, ChartError, Content, Frame, GREY, LOG_FROM, MAX_ENTRIES, MarkData, Options,
    Rgb, Segment, Table, VERMILLION, clean,
};
use crate::record::{Measure, device, heading, joined, l2, label, median_of, missing, names, verdict};
use warpbook_record::{PartGroup, Problem, Run, Runner};

impl Options {
    /// Draws what it costs to get a result on the host, with one bar for each rung: the copy to the device, the work, and the copy back. If some sums are many
    /// times as long as others, bars are shares of each rung's sum.
    ///
    /// Copies shared by all rungs are shown with the first kernel rung that has a time and with the fastest one.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if the record has no times of transfers for the problem, or no rung that they belong to.
    pub fn transfers(&self, run: &Run, problem: &Problem) -> Result<Chart, ChartError> {
        let all: Vec<Parts> = transferred(run, problem).into_iter().filter_map(Parts::new).collect();
        if all.is_empty() && !run.parts_of("", problem, PartGroup::Transfer).is_empty() {
            let why = format!(
                "No rung of kernels has a valid time at {} that the transfers could be added to.",
                label(problem)
            );
            return Err(ChartError::NothingToDraw(why));
        }
        if all.is_empty() {
            return Err(missing("times of transfers", problem));
        }
        let rate = Measure::rate(run);
        let (rate_header, unit) = rate.in_file();
        let (alone, with_transfers) = (format!("{rate_header} alone"), format!("{rate_header} with transfers"));
        let mut table = Table::new([
            "rung",
            "title",
            "to the device (ms)",
            "compute (ms)",
            "to the host (ms)",
            "other (ms)",
            "sum (ms)",
            "% of the sum for transfers",
            alone.as_str(),
            with_transfers.as_str(),
        ]);
        for p in &all {
            let ms = |us: f64| if us > 0.0 { significant(us / 1e3, 5) } else { String::new() };
            let speed = |us: f64| {
                let value = Some(us).filter(|us| *us > 0.0).map(|us| rate.of_work(problem, us, None) / unit);
                value.filter(|v| *v > 0.0).map(|v| significant(v, 4)).unwrap_or_default()
            };
            let [up, compute, down, other] = p.us;
            table.push([
                clean(&p.group.rung),
                p.group.title.clone(),
                ms(up),
                ms(compute),
                ms(down),
                ms(other),
                ms(p.sum()),
                significant(p.moving() / p.sum() * 100.0, 3),
                speed(compute),
                speed(p.sum()),
            ]);
        }
        let shown = &all[..all.len().min(MAX_ENTRIES)];
        let others = shown.iter().any(|p| p.us[3] > 0.0);
        let legend =
            KINDS.iter().take(3 + usize::from(others)).map(|(name, color)| (*color, (*name).to_owned())).collect();
        let (low, high) = shown.iter().map(Parts::sum).fold((f64::MAX, 0.0f64), |(a, b), v| (a.min(v), b.max(v)));
        // On a logarithmic axis the lengths of a bar's parts would be meaningless.
        let shares = high > LOG_FROM * low;
        let unit = |p: &Parts| if shares { p.sum() } else { 1.0 };
        Bars {
            rows: shown.iter().map(|p| p.row(problem, unit(p))).collect(),
            axis: Some(Axis::from_zero(shown.iter().map(|p| p.sum() / unit(p)))),
            base: None,
            tick: if shares { |v| format!("{} %", plain(v * 100.0)) } else { time_tick },
            caption: match shares {
                true => "share of the time until the result is on the host",
                false => "time until the result is on the host, shorter is better",
            }
            .into(),
            reference_lines: Vec::new(),
            legend,
            frame: frame(self, run, problem, &all, table),
        }
        .draw()
    }
}

/// Returns the rungs with transfers of their own. If all rungs share the copies, it returns the first kernel rung that has a time and the fastest one, each
/// with its median.
fn transferred(run: &Run, problem: &Problem) -> Vec<Group> {
    let mut all = groups(run, problem, PartGroup::Transfer, 4 * MAX_ENTRIES);
    let Some(at) = all.iter().position(|g| g.rung.is_empty()) else { return all };
    let shared = all.remove(at);
    let of_kernels = |id: &str| run.rung(id).is_some_and(|r| matches!(r.runner, Runner::Kernels { .. }));
    let ladder = run.ladder(problem);
    let mut sound = ladder.iter().map(|row| row.measurement).filter(|m| of_kernels(&m.rung) && run.is_sound(m));
    let shown = sound.next().into_iter().chain(run.fastest_kernels(problem).map(|(m, _)| m));
    for m in shown {
        let Ok(us) = verdict(run, m) else { continue };
        if all.iter().any(|g| g.rung == m.rung) {
            continue;
        }
        let (title, id) = names(run, &m.rung);
        let samples = m.samples_total.max(m.samples_us.len() as u64);
        let mut parts = shared.parts.clone();
        parts.push(TimedPart { name: COMPUTE.into(), us: Some(us), mad: None, samples });
        all.push(Group { rung: m.rung.clone(), title, id, parts });
    }
    all
}

const COMPUTE: &str = "compute";

/// Names of the parts in the record, and their colours.
const KINDS: [(&str, Rgb); 4] =
    [("to the device", VERMILLION), (COMPUTE, BLUE), ("to the host", VERMILLION), ("other", GREY)];

struct Parts {
    group: Group,
    /// Times in microseconds, in the order of [`KINDS`]; 0 if not measured.
    us: [f64; 4],
}

impl Parts {
    /// Sums the parts; `None` if no part has a usable time.
    fn new(group: Group) -> Option<Self> {
        let mut us = [0.0; 4];
        for part in &group.parts {
            let kind = KINDS.iter().position(|(name, _)| *name == part.name).unwrap_or(3);
            us[kind] += part.us.unwrap_or(0.0);
        }
        let parts = Self { group, us };
        (parts.sum() > 0.0 && parts.sum().is_finite()).then_some(parts)
    }

    fn sum(&self) -> f64 {
        self.us.iter().sum()
    }

    fn moving(&self) -> f64 {
        self.us[0] + self.us[2]
    }

    fn segment(&self, problem: &Problem, kind: &str, color: Rgb, us: f64, unit: f64) -> Segment {
        let data = MarkData {
            rung: self.group.rung.clone(),
            name: self.group.title.clone(),
            series: kind.to_owned(),
            value: time(us),
            samples: self.group.parts.iter().find(|p| p.name == kind).map_or(0, |p| p.samples),
            ..MarkData::of_problem(problem)
        };
        Segment { value: us / unit, color, data }
    }

    /// Makes a bar's row; times are divided by `unit`, which is in microseconds.
    fn row(&self, problem: &Problem, unit: f64) -> BarRow {
        let each = KINDS.iter().zip(self.us).filter(|(_, us)| *us > 0.0);
        let label = format!("{} · {} for transfers", time(self.sum()), percent(self.moving() / self.sum()));
        let bar = Bar {
            value: self.sum() / unit,
            spread: None,
            label,
            note: each.clone().map(|((name, _), us)| format!("{name} {}", time(us))).collect::<Vec<_>>().join(", "),
            remark: String::new(),
            color: BLUE,
            hollow: false,
            parts: each.map(|((name, color), us)| self.segment(problem, name, *color, us, unit)).collect(),
            data: MarkData::default(),
        };
        BarRow { name: self.group.title.clone(), id: self.group.id.clone(), content: Content::Bar(bar) }
    }
}

fn frame(options: &Options, run: &Run, problem: &Problem, all: &[Parts], table: Table) -> Frame {
    let samples = all.iter().flat_map(|p| &p.group.parts).filter(|s| s.us.is_some()).map(|s| s.samples);
    let mut notes = Vec::new();
    let lacking = |kind: usize| all.iter().filter(move |p| p.us[kind] <= 0.0).map(|p| p.group.title.clone());
    for (kind, (name, _)) in KINDS.iter().enumerate().take(3) {
        let rungs: Vec<String> = lacking(kind).take(MAX_ENTRIES).collect();
        if !rungs.is_empty() {
            notes.push(format!("Without a time for \u{201c}{name}\u{201d}: {}.", listed(&rungs)));
        }
    }
    if all.len() > MAX_ENTRIES {
        notes.push(format!("{MAX_ENTRIES} of {} rows are drawn; the table has all.", all.len()));
    }
    let dearer = all.iter().filter(|p| p.us[1] > 0.0 && p.moving() > p.us[1]).count();
    let shortest = all.iter().min_by(|a, b| a.sum().total_cmp(&b.sum()));
    let claim = shortest.filter(|p| p.us[1] > 0.0 && p.moving() > 0.0).map(|p| {
        let share = percent(p.moving() / p.sum());
        format!("\u{201c}{}\u{201d} spends {share} of its time on copies to the device and back", p.group.title)
    });
    let fastest = shortest.map_or(String::new(), |p| {
        let share = percent(p.moving() / p.sum());
        format!(
            "; the shortest is \u{201c}{}\u{201d} with {}, {share} of it for transfers",
            p.group.title,
            time(p.sum())
        )
    });
    let topic = format!("{}: with the transfers from and to the host", heading(run));
    Frame {
        width: options.px(),
        title: claim.unwrap_or_else(|| topic.clone()),
        subtitle: joined([topic, device(run), label(problem), median_of(samples), l2(run).to_owned()]),
        description: format!(
            "Stacked bars of the time to the device, of the work and to the host of {} on {}, {}: the transfers cost more \
             than the work at {dearer} of them{fastest}.",
            counted(all.len(), "rung"),
            device(run),
            label(problem),
        ),
        notes,
        table,
    }
}

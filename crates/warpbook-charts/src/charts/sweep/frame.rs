//! The texts around a sweep, and its table.

use super::look::notes_of_lines;
use super::{Line, Sweep};
use crate::draw::text::words::{counted, listed, significant};
use crate::draw::{Frame, Guide, MAX_ENTRIES, Series, Table, clean};
use crate::record::{
    OF_PEAK_MEMORY, arithmetic_name, claim_of_memory, debug_note, devices, heading, joined, l2, least_memory,
    line_label, medians, name, pass, policy_note, quoted, size_label, size_number, timing_note, verdict,
};
use warpbook_record::{Emulated, Measurement, Quantity, Run};

/// Times within this factor of the fastest time count as a tie in titles.
const TIE: f64 = 1.01;

impl<'a> Sweep<'a> {
    pub(super) fn frame<'g>(&self, series: &[Series], seen: impl Iterator<Item = &'g Guide>, log: bool) -> Frame {
        let first = self.runs[0];
        let what = format!("{} over size", self.measure.name());
        let devices = devices(self.runs);
        let title = self.claim().unwrap_or_else(|| format!("{}: {what}", heading(first)));
        let timed = self.measure.is_timed();
        let medians = if timed { medians(self.points().map(|p| p.1)) } else { String::new() };
        let l2 = if timed { l2(first).to_owned() } else { String::new() };
        // In a record with a single line, the line may have the record's name.
        let line = Some(line_label(self.main)).filter(|line| *line != heading(first)).unwrap_or_default();
        // The axis of sizes is always logarithmic.
        let axes = if log { "both axes logarithmic" } else { "" };
        let topic = format!("{}: {what}", heading(first));
        let subtitle = joined([topic, devices.clone(), line.clone(), medians, l2, axes.to_owned()]);
        let mut notes = Vec::new();
        if self.devices_differ() {
            notes.push(format!("The records are of different devices: {devices}."));
        }
        notes.extend(timing_note(self.runs, self.main));
        if self.left_out > 0 {
            let what = counted(self.left_out, "measurement");
            notes.push(format!("The chart shows the sweep of {line}; {what} of other work left out."));
        }
        notes.extend(notes_of_lines(series));
        notes.extend(self.note_of_guides(seen));
        match timed {
            true => notes.extend(policy_note(first, false)),
            false => notes.push(OF_PEAK_MEMORY.to_owned()),
        }
        notes.extend(self.note_of_uncounted());
        let drawn_ids: Vec<&str> = self.lines.iter().map(|l| l.rung).collect();
        let emulated = self.emulated();
        let is_missing = |id: &&&str| !drawn_ids.contains(*id) && emulated.iter().all(|(_, m)| m.rung != **id);
        let missing = self.chosen.unwrap_or_default().iter().filter(is_missing);
        let missing: Vec<String> = missing.take(MAX_ENTRIES).map(|id| clean(id)).collect();
        if !missing.is_empty() {
            notes.push(format!("Without a valid figure: {}.", listed(&missing)));
        }
        let names = self.names(emulated);
        if !names.is_empty() {
            notes.push(format!("Without a line: {names} ({}).", Emulated::NO_TIME));
        }
        let drawn = self.lines.iter().flat_map(|l| l.points.iter().map(|p| (self.runs[l.run], p.1)));
        notes.extend(debug_note(drawn));
        if self.lines.len() > MAX_ENTRIES {
            notes.push(format!("{} of {} lines are drawn; the table has all.", MAX_ENTRIES, self.lines.len()));
        }
        let width = self.options.px();
        Frame { width, title, subtitle, description: self.description(&what, &devices), notes, table: self.table() }
    }

    /// Returns the finding: which rung is the fastest at most sizes, such as "“Stores overlapped” is the fastest at 5
    /// of 7 sizes", or how much of the baseline's memory a rung takes at the largest size. Returns `None` for several
    /// records.
    fn claim(&self) -> Option<String> {
        if !self.measure.is_timed() {
            let largest = self.problems().last().copied().filter(|_| self.runs.len() == 1)?;
            let claim = claim_of_memory(self.runs[0], largest, |id| self.lines.iter().any(|l| l.rung == id))?;
            return Some(format!("{claim} at {}", size_label(self.runs[0], largest)));
        }
        if self.runs.len() > 1 {
            return None;
        }
        let all = self.problems().len();
        let everywhere = if all == 2 { "both sizes".to_owned() } else { format!("all {all} sizes") };
        let among = if self.chosen.is_some() { " of those drawn" } else { "" };
        let Some((rung, sizes)) = self.winners(TIE).into_iter().next() else {
            return self.claim_of_ties(&everywhere, among);
        };
        let at = if sizes == all { everywhere } else { format!("{sizes} of {all} sizes") };
        Some(format!("{} is the fastest{among} at {at}", quoted(self.runs[0], rung)))
    }

    /// Returns the finding if no rung is the fastest alone at any size: "“Naive” and “Fused” are the fastest at both sizes,
    /// equal within 1 %". Returns `None` if no rung does all of the work at some size.
    fn claim_of_ties(&self, everywhere: &str, among: &str) -> Option<String> {
        let each: Vec<Vec<&str>> = self.problems().into_iter().map(|p| self.leaders(p, TIE)).collect();
        let (first, others) = each.split_first().filter(|_| !each.iter().any(Vec::is_empty))?;
        let at_all = first.iter().filter(|rung| others.iter().all(|other| other.contains(rung)));
        let names: Vec<String> = at_all.map(|rung| quoted(self.runs[0], rung)).collect();
        Some(match names.as_slice() {
            [rest @ .., last] if !rest.is_empty() => {
                format!("{} and {last} are the fastest{among} at {everywhere}, equal within 1 %", rest.join(", "))
            }
            _ => format!("The fastest rungs{among} are equal within 1 % at {everywhere}"),
        })
    }

    /// Returns the rows of this work that only the emulator has run, each with the index of its record. They have no time, and their rungs have no line.
    fn emulated(&self) -> Vec<(usize, &'a Measurement)> {
        self.rows(&|i, m| {
            let has_line = || self.lines.iter().any(|line| line.run == i && line.rung == m.rung);
            m.is_right_in_emulator() && m.problem.same_line(self.main) && !has_line()
        })
    }

    /// Returns the measurements of the chosen rungs that meet a condition, each with the index of its record.
    fn rows(&self, is_wanted: &dyn Fn(usize, &Measurement) -> bool) -> Vec<(usize, &'a Measurement)> {
        let mut rows = Vec::new();
        for (i, run) in self.runs.iter().enumerate() {
            for m in &run.measurements {
                if self.chosen.is_none_or(|ids| ids.contains(&m.rung.as_str())) && is_wanted(i, m) {
                    rows.push((i, m));
                }
            }
        }
        rows
    }

    /// Lists the names of the rows' rungs, each once.
    fn names(&self, rows: Vec<(usize, &Measurement)>) -> String {
        let mut names: Vec<String> = Vec::new();
        for (i, m) in rows {
            let name = name(self.runs[i], &m.rung);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.truncate(MAX_ENTRIES);
        listed(&names)
    }

    /// Lists the rungs that have a time but no figure of the drawn quantity.
    fn note_of_uncounted(&self) -> Option<String> {
        let problems = self.problems();
        let lacks = |i: usize, m: &Measurement| {
            let run = self.runs[i];
            verdict(run, m).is_ok() && self.measure.verdict(run, m).is_err() && problems.contains(&&m.problem)
        };
        let names = self.names(self.rows(&lacks));
        (!names.is_empty()).then(|| format!("Not counted: {names}."))
    }

    /// Explains the visible dotted lines.
    fn note_of_guides<'g>(&self, seen: impl Iterator<Item = &'g Guide>) -> Option<String> {
        let guides: Vec<&str> = seen.map(|g| &*g.name).collect();
        let names = guides.join(", ");
        let each = if self.main.passes > 1 { format!("once per {}", pass(self.runs[0])) } else { "once".into() };
        let moving = format!("moving inputs and results {each}");
        let arithmetic = arithmetic_name(self.main.dtype);
        let of_arithmetic = guides.iter().filter(|g| g.starts_with(&arithmetic)).count();
        let of_memory = guides.len() - of_arithmetic;
        let sizes = "at the sizes that it holds";
        let what = match self.measure.quantity {
            _ if guides.is_empty() => return None,
            Quantity::Bandwidth if of_arithmetic == 0 => {
                format!("the measured bandwidth of a level of memory, {sizes}")
            }
            Quantity::Time if of_arithmetic == 0 => {
                format!("{moving} at the measured bandwidth of a level of memory, {sizes}")
            }
            Quantity::Time => {
                format!(
                    "the operations at the measured peak, and {moving} at the measured bandwidth of a level of memory"
                )
            }
            Quantity::Throughput if of_memory == 0 => "the measured peak".into(),
            Quantity::Throughput => format!("the measured peak, and what {moving} at a measured bandwidth allows"),
            _ => "what the measured ceilings allow".into(),
        };
        Some(format!("Dotted: {what} ({names})."))
    }

    fn description(&self, what: &str, devices: &str) -> String {
        let first = self.runs[0];
        let problems = self.problems();
        let (low, high) = match problems.as_slice() {
            [low, .., high] => (*low, *high),
            _ => (self.main, self.main),
        };
        // Only rungs with a drawn line are compared.
        let at_largest = self.runs.iter().enumerate().filter_map(|(i, run)| {
            let lines = || self.lines.iter().filter(move |l| l.run == i);
            let at = |l: &Line<'a>| l.points.iter().find(|p| p.0 == high.size() as f64).map(|p| &p.1.problem);
            let (problem, is_drawn) = (lines().find_map(at)?, |id: &str| lines().any(|l| l.rung == id));
            let (m, us) = match self.measure.is_timed() {
                true => run.fastest_of(problem, |r| is_drawn(&r.id))?,
                false => least_memory(run, problem, is_drawn)?,
            };
            Some((*run, m, us))
        });
        let best = at_largest.min_by(|a, b| a.2.total_cmp(&b.2)).map_or(String::new(), |(run, m, us)| {
            let shown = self.measure.text(self.value_of(run, m, us));
            let best = if self.measure.is_timed() { "is fastest with" } else { "takes the least with" };
            format!("; at the largest size {} {best} {shown}", quoted(run, &m.rung))
        });
        let has_unit = !clean(&first.descriptor.axis.unit).is_empty();
        let from = if has_unit { size_number(first, low.size()) } else { size_label(first, low) };
        format!(
            "Lines of the {what} from {from} to {} of {} on {devices}{best}.",
            size_label(first, high),
            counted(self.lines.len(), "rung")
        )
    }

    fn table(&self) -> Table {
        let several = self.runs.len() > 1;
        let record = several.then(|| "record".to_owned());
        let shown = self.measure.or_rate(self.runs[0]);
        let (rate, unit) = shown.in_file();
        // A quantity that is not a rate gets its own column.
        let own =
            matches!(self.measure.quantity, Quantity::SpeedUp | Quantity::PeakMemory).then(|| self.measure.in_file());
        let headers = ["rung".to_owned(), axis_caption(self.runs[0]), "time (ms)".into(), "MAD (ms)".into(), rate];
        let bound = ["% of bound".to_owned(), "bound by".into()];
        let mut table = Table::new(record.into_iter().chain(headers).chain(bound).chain(own.clone().map(|o| o.0)));
        for line in &self.lines {
            let run = self.runs[line.run];
            for (_, m, us) in &line.points {
                let fraction = run.fraction_of_bound(m).filter(|f| f.is_finite());
                let value = Some(shown.value_of(m, *us, None) / unit).filter(|v| *v > 0.0);
                let cells = [
                    m.rung.clone(),
                    m.problem.size().to_string(),
                    significant(us / 1e3, 5),
                    m.mad_us().map(|d| significant(d / 1e3, 2)).unwrap_or_default(),
                    value.map(|v| significant(v, 4)).unwrap_or_default(),
                    fraction.map(|f| significant(f * 100.0, 3)).unwrap_or_default(),
                    fraction.and(run.bound(m)).map_or("", |b| b.label()).to_owned(),
                ];
                let over = own.as_ref().map(|(_, unit)| significant(self.value_of(run, m, *us) / unit, 4));
                table.push(several.then(|| self.tags[line.run].clone()).into_iter().chain(cells).chain(over));
            }
        }
        for (i, m) in self.emulated() {
            let mut cells = vec![String::new(); table.headers.len()];
            let first = usize::from(several);
            cells[0].clone_from(&self.tags[i]);
            cells[first].clone_from(&m.rung);
            cells[first + 1] = m.problem.size().to_string();
            cells[first + 2] = Emulated::NO_TIME.into();
            table.push(cells);
        }
        table
    }
}

/// Returns the caption of the axis of sizes, such as "points".
pub(super) fn axis_caption(run: &Run) -> String {
    let caption = clean(&run.descriptor.axis.caption);
    if caption.is_empty() { "size".into() } else { caption }
}

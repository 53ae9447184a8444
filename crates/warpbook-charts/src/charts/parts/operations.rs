use super::group::{Group, TimedPart, groups, signed_percent};
use crate::draw::text::words::{counted, percent, significant, time, time_difference, time_tick};
use crate::draw::{
    Axis, BLUE, Bar, BarRow, Bars, Chart, ChartError, Content, Frame, MAX_ENTRIES, MarkData, Options, ReferenceLine,
    SKY, Table,
};
use crate::record::{RunnerKind, device, heading, joined, l2, label, median_of, missing, pass, policy_note};
use warpbook_record::{PartGroup, Problem, Run};

impl Options {
    /// Draws the time of each operation of a rung, rung by rung, with each rung's sum: the operations of one pass, such as an epoch, timed alone.
    ///
    /// Rungs of other frameworks that have such times are also drawn, on the same scale and in another colour.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if the record has no such times for the problem.
    pub fn operations(&self, run: &Run, problem: &Problem) -> Result<Chart, ChartError> {
        let groups = groups(run, problem, PartGroup::Operation, MAX_ENTRIES);
        if groups.iter().all(|g| g.parts.iter().all(|s| s.us.is_none())) {
            return Err(missing("times of single operations", problem));
        }
        let mut rows = Vec::new();
        let mut table = Table::new(["rung", "operation", "time (µs)", "MAD (µs)", "% of the sum"]);
        let mut sums = Vec::new();
        for g in &groups {
            let sum: f64 = g.parts.iter().filter_map(|s| s.us).sum();
            rows.push(g.heading());
            let color = RunnerKind::of_rung(run, &g.rung).color();
            for s in &g.parts {
                let share = |us: f64| format!("{} · {}", time(us), percent(us / sum));
                rows.push(s.row(color, MarkData::of_part(problem, &g.rung), share));
                table.push(g.cells(s, s.us.map(|us| us / sum * 100.0)));
            }
            if sum > 0.0 {
                let bar = Bar {
                    value: sum,
                    spread: None,
                    label: time(sum),
                    data: MarkData { name: "sum".into(), value: time(sum), ..MarkData::of_part(problem, &g.rung) },
                    note: String::new(),
                    remark: String::new(),
                    color,
                    hollow: true,
                    parts: Vec::new(),
                };
                rows.push(BarRow { name: "sum".into(), id: String::new(), content: Content::Bar(bar) });
                table.push([g.rung.as_str(), "sum", &significant(sum, 4), "", "100"]);
                sums.push((g.title.clone(), sum));
            }
        }
        let phrases: Vec<String> = sums.iter().map(|(name, us)| format!("{name} {}", time(*us))).collect();
        let pass = pass(run);
        let description = format!(
            "Bars of the time of each operation of one {pass} on {}, {}; sums: {}.",
            device(run),
            label(problem),
            joined(phrases)
        );
        let topic = format!("{}: one {pass}, operation by operation", heading(run));
        let claim = largest(&groups, &pass);
        let frame = frame(self, run, problem, &groups, [topic, claim.unwrap_or_default()], description, table);
        let longest = sums.iter().map(|s| s.1).chain(groups.iter().flat_map(|g| g.parts.iter().filter_map(|s| s.us)));
        draw(frame, rows, longest, Vec::new(), &format!("time of one {pass}; each operation timed alone"))
    }

    /// Draws the cost of each part of the fused pass: the whole pass, and the pass with one part left out.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if the record has no such times for the problem.
    pub fn ablation(&self, run: &Run, problem: &Problem) -> Result<Chart, ChartError> {
        let groups = groups(run, problem, PartGroup::Ablation, MAX_ENTRIES);
        if groups.iter().all(|g| g.parts.iter().all(|s| s.us.is_none())) {
            return Err(missing("passes with parts left out", problem));
        }
        let mut rows = Vec::new();
        let mut table = Table::new(["rung", "pass", "time (µs)", "MAD (µs)", "difference from the whole (µs)"]);
        let mut reference_lines = Vec::new();
        let mut phrases = Vec::new();
        for g in &groups {
            rows.push(g.heading());
            let whole = g.whole();
            for (i, s) in g.parts.iter().enumerate() {
                let is_whole = whole.is_some_and(|(at, _)| at == i);
                let difference = whole.filter(|_| !is_whole).zip(s.us).map(|((_, w), us)| (us - w, w));
                let label = |us: f64| match difference {
                    Some((d, w)) => format!("{} ({}, {})", time(us), time_difference(d), signed_percent(d / w)),
                    None => time(us),
                };
                if let Some(us) = s.us {
                    phrases.push(format!("{} {}", s.name, label(us)));
                }
                rows.push(s.row(if is_whole { BLUE } else { SKY }, MarkData::of_part(problem, &g.rung), label));
                table.push(g.cells(s, difference.map(|d| d.0)));
            }
            if let (Some((_, us)), 1) = (whole, groups.len()) {
                let label = format!("whole pass: {}", time(us));
                let data = MarkData { value: label.clone(), ..MarkData::of_part(problem, &g.rung) };
                reference_lines.push(ReferenceLine { value: us, label, solid: false, data });
            }
        }
        let description = format!(
            "Bars of the time of one pass on {}, {}, whole and with parts left out: {}.",
            device(run),
            label(problem),
            joined(phrases)
        );
        let what = format!("{}: the cost of each part of a pass", heading(run));
        let claim = claim(&groups);
        let frame = frame(self, run, problem, &groups, [what, claim.unwrap_or_default()], description, table);
        let all = groups.iter().flat_map(|g| g.parts.iter().filter_map(|s| s.us));
        draw(frame, rows, all, reference_lines, "time of one pass; a part costs the difference from the whole")
    }
}

/// Returns the finding about the first rung that has times: its longest operation with the share of all, such as
/// "gradient takes 62 % of one epoch of “Unfused”".
fn largest(groups: &[Group], pass: &str) -> Option<String> {
    let with_time = |g: &&Group| g.parts.iter().any(|p| p.us.is_some());
    let group = groups.iter().find(with_time)?;
    let mut all: Vec<(f64, &str)> = group.parts.iter().filter_map(|p| Some((p.us?, &*p.name))).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let share = percent(all[0].0 / all.iter().map(|p| p.0).sum::<f64>());
    let share_of_pass = format!("{share} of one {pass} of “{}”", group.title);
    Some(match all.get(1) {
        // Two measurements of the same work differ by more than this.
        Some(second) if second.0 > 0.99 * all[0].0 => format!("No operation takes more than {share_of_pass}"),
        _ => format!("{} takes {share_of_pass}", all[0].1),
    })
}

/// Returns the finding, such as "“On the chip”: without reading y a pass takes 33 % less"; `None` if there is no whole
/// pass to compare with.
fn claim(groups: &[Group]) -> Option<String> {
    let mut best: Option<(&Group, &TimedPart, f64)> = None;
    for group in groups {
        let Some((at, whole)) = group.whole().filter(|w| w.1 > 0.0) else { continue };
        // A pass of only the reads or only the launch is obviously cheaper, so it is no finding.
        let one_left_out = |p: &TimedPart| p.name.starts_with("without");
        let any = group.parts.iter().any(one_left_out);
        for (_, part) in group.parts.iter().enumerate().filter(|(i, p)| *i != at && (!any || one_left_out(p))) {
            let Some(us) = part.us else { continue };
            let saved = 1.0 - us / whole;
            if best.is_none_or(|b| saved > b.2) {
                best = Some((group, part, saved));
            }
        }
    }
    let (group, part, saved) = best?;
    Some(match saved {
        // Two measurements of the same pass differ by more than this threshold.
        s if s < 0.01 => format!("\u{201c}{}\u{201d}: no part of a pass costs more than 1 % of it", group.title),
        s => format!("\u{201c}{}\u{201d}: {} a pass takes {} less", group.title, part.name, percent(s)),
    })
}

fn frame(
    options: &Options,
    run: &Run,
    problem: &Problem,
    groups: &[Group],
    [topic, claim]: [String; 2],
    description: String,
    table: Table,
) -> Frame {
    let counts = groups.iter().flat_map(|g| &g.parts).filter(|s| s.us.is_some()).map(|s| s.samples);
    let medians = format!("{} ± MAD", median_of(counts));
    let mut subtitle = joined([device(run), label(problem), medians, l2(run).to_owned()]);
    let mut title = topic;
    if !claim.is_empty() {
        (title, subtitle) = (claim, joined([title, subtitle]));
    }
    let shown: usize = groups.iter().map(|g| g.parts.len()).sum();
    let mut notes: Vec<String> = policy_note(run, true).into_iter().collect();
    if shown == MAX_ENTRIES {
        notes.push(format!("At most {} are drawn.", counted(MAX_ENTRIES, "row")));
    }
    Frame { width: options.px(), title, subtitle, description, notes, table }
}

fn draw(
    frame: Frame,
    rows: Vec<BarRow>,
    values: impl Iterator<Item = f64>,
    reference_lines: Vec<ReferenceLine>,
    caption: &str,
) -> Result<Chart, ChartError> {
    let axis = Some(Axis::from_zero(values));
    let caption = caption.to_owned();
    Bars { frame, rows, axis, base: None, tick: time_tick, caption, reference_lines, legend: Vec::new() }.draw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_names_the_longest_operation_of_the_first_rung_with_times() {
        let part =
            |(name, us): &(&str, Option<f64>)| TimedPart { name: (*name).into(), us: *us, mad: None, samples: 3 };
        let group = |title: &str, parts: &[(&str, Option<f64>)]| {
            let parts = parts.iter().map(part).collect();
            Group { rung: String::new(), title: title.into(), id: String::new(), parts }
        };
        let check = |parts: &[(&str, Option<f64>)], expect: &str| {
            let groups =
                [group("Lost", &[("read", None)]), group("Unfused", parts), group("Fused", &[("all", Some(1.0))])];
            assert_eq!(largest(&groups, "epoch").unwrap(), expect);
        };
        let long = [("read", Some(30.0)), ("gradient", Some(62.0)), ("write", None), ("sum", Some(8.0))];
        check(&long, "gradient takes 62 % of one epoch of “Unfused”");
        check(&[("all", Some(5.0))], "all takes 100 % of one epoch of “Unfused”");
        let equal = [("a", Some(5.0)), ("b", Some(5.0)), ("c", Some(5.0)), ("d", Some(5.0))];
        check(&equal, "No operation takes more than 25 % of one epoch of “Unfused”");
        assert_eq!(largest(&[group("Lost", &[("read", None)])], "epoch"), None);
    }
}

//! The timed parts of rungs, as rows of bars.

use crate::draw::text::words::{percent, significant};
use crate::draw::{Bar, BarRow, Content, MarkData, Rgb, clean};
use crate::record::{joined, names, spread, usable};
use warpbook_record::{PartGroup, Problem, Run, Rung, stats};

#[derive(Debug, Clone)]
pub(crate) struct TimedPart {
    pub(crate) name: String,
    /// Median time in microseconds, if it is finite and above zero.
    pub(crate) us: Option<f64>,
    pub(crate) mad: Option<f64>,
    pub(crate) samples: u64,
}

pub(crate) struct Group {
    pub(crate) rung: String,
    pub(crate) title: String,
    pub(crate) id: String,
    pub(crate) parts: Vec<TimedPart>,
}

/// Returns the parts of each rung in the ladder's order, at most `most` groups. Parts that all rungs share come last.
pub(crate) fn groups(run: &Run, problem: &Problem, group: PartGroup, most: usize) -> Vec<Group> {
    let mut ids: Vec<&str> = Vec::new();
    let known = run.rungs.iter().map(|r| r.id.as_ref());
    let wanted = |p: &&warpbook_record::Part| p.problem == *problem && p.group == group;
    for id in known.chain(run.parts.iter().filter(wanted).map(|p| p.rung.as_str())) {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let mut left = most;
    let mut out = Vec::new();
    for rung in ids {
        let parts: Vec<TimedPart> = run.parts_of(rung, problem, group).into_iter().take(left).map(part).collect();
        left -= parts.len();
        if !parts.is_empty() {
            let (title, id) = if rung.is_empty() { ("all rungs".into(), String::new()) } else { names(run, rung) };
            let framework = run.rung(rung).and_then(Rung::framework).map(clean).unwrap_or_default();
            out.push(Group { rung: rung.to_owned(), title, id: joined([id, framework]), parts });
        }
    }
    out
}

fn part(of: &warpbook_record::Part) -> TimedPart {
    let us = usable(of.median_us());
    let mad = us.and(stats::mad(&of.samples_us)).filter(|d| d.is_finite() && *d > 0.0);
    TimedPart { name: clean(&of.name), us, mad, samples: of.samples_us.len() as u64 }
}

impl Group {
    pub(crate) fn heading(&self) -> BarRow {
        BarRow { name: self.title.clone(), id: String::new(), content: Content::Heading(self.id.clone()) }
    }

    /// Returns the part that is the whole pass: the part with that name, or else the first part.
    pub(super) fn whole(&self) -> Option<(usize, f64)> {
        let at = self.parts.iter().position(|s| s.name.starts_with("whole")).unwrap_or(0);
        Some((at, self.parts.get(at)?.us?))
    }

    pub(super) fn cells(&self, s: &TimedPart, last: Option<f64>) -> [String; 5] {
        let digits = |v: Option<f64>, n| v.map(|v| significant(v, n)).unwrap_or_default();
        [self.rung.clone(), s.name.clone(), digits(s.us, 4), digits(s.mad, 2), digits(last, 3)]
    }
}

impl MarkData {
    /// Returns the data that the parts of a rung have in common.
    pub(super) fn of_part(problem: &Problem, rung: &str) -> Self {
        Self { rung: rung.to_owned(), ..Self::of_problem(problem) }
    }
}

impl TimedPart {
    /// Returns the part's mark data with a formatted value; `of` contains the rung and the problem.
    pub(crate) fn data(&self, of: MarkData, value: String) -> MarkData {
        MarkData { name: self.name.clone(), value, spread: spread(self.mad), samples: self.samples, ..of }
    }

    pub(super) fn row(&self, color: Rgb, data: MarkData, label: impl Fn(f64) -> String) -> BarRow {
        let content = match self.us {
            None => Content::Reason("no usable time".into()),
            Some(us) => Content::Bar(Bar {
                value: us,
                spread: self.mad.map(|d| ((us - d).max(0.0), us + d)),
                label: label(us),
                data: self.data(data, label(us)),
                note: String::new(),
                remark: String::new(),
                color,
                hollow: false,
                parts: Vec::new(),
            }),
        };
        BarRow { name: self.name.clone(), id: String::new(), content }
    }
}

pub(crate) fn signed_percent(fraction: f64) -> String {
    let sign = if fraction < 0.0 { "−" } else { "+" };
    format!("{sign}{}", percent(fraction.abs()))
}

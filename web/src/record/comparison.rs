//! The contents of the comparison view, without markup.

use std::collections::BTreeMap;
use warpbook_charts::words::{time, times};
use warpbook_charts::{ComparedCell, ComparedRow, Comparison, MAX_LABEL, Verdict, record_labels};
use warpbook_record::{Problem, Run};

/// The maximum number of rows in a list over all problems.
pub const MAX_LISTED: usize = 100;

/// Returns unique short names for records: the reader's label, else the file's name if it is unique, else whatever
/// distinguishes the records.
pub fn labels(own: &BTreeMap<String, String>, records: &[(&str, &str, &Run)]) -> Vec<String> {
    let runs: Vec<&Run> = records.iter().map(|r| r.2).collect();
    let stem = |name: &str| -> String {
        let name = name.trim();
        name.strip_suffix(".json").unwrap_or(name).chars().take(MAX_LABEL).collect()
    };
    let files: Vec<String> = records.iter().map(|r| stem(r.1)).collect();
    let distinct = files.iter().enumerate().all(|(i, f)| !f.is_empty() && !files[..i].contains(f));
    let defaults = if distinct { files } else { record_labels(&runs) };
    let mut out: Vec<String> = Vec::new();
    for ((key, ..), default) in records.iter().zip(defaults) {
        let label = own.get(*key).cloned().unwrap_or(default);
        let taken = out.iter().filter(|l| **l == label || l.starts_with(&format!("{label} ("))).count();
        out.push(if taken > 0 { format!("{label} ({})", taken + 1) } else { label });
    }
    out
}

/// Returns the problem to show: the requested one if the records share it, else the main problem. If another problem
/// has more than twice as many comparable rungs as the main one, the problem with the most is shown.
pub fn chosen<'a>(all: &Comparison<'a>, asked: Option<&'a Problem>, main: Option<&'a Problem>) -> Option<&'a Problem> {
    let shared = || all.problems.iter().filter_map(|of| of[0]);
    let asked = asked.filter(|p| shared().any(|s| s == *p));
    let compared = |p: &Problem| all.rows.iter().filter(|r| r.problem == p && r.is_common()).count();
    let most = shared().map(|p| (compared(p), p)).max_by_key(|(rungs, _)| *rungs);
    let main = main.filter(|p| shared().any(|s| s == *p) && most.is_some_and(|(rungs, _)| 2 * compared(p) >= rungs));
    asked.or(main).or(most.map(|(_, p)| p))
}

/// Returns a problem's label with its type, for a chooser.
pub fn problem_label(problem: &Problem) -> String {
    let dtype = problem.dtype.label();
    if problem.label.split([' ', ',']).any(|word| word == dtype) {
        problem.label.clone()
    } else {
        format!("{}, {dtype}", problem.label)
    }
}

/// The texts of a comparison's cell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Said {
    /// The time, such as "188 µs ± 1 µs"; empty if there is none.
    pub time: String,
    /// The ratio, such as "1.17× (1.16 to 1.18)"; empty if there is none.
    pub ratio: String,
    /// The share of the own device's bound, such as "62 % of its limit"; empty between records of one device.
    pub share: String,
    /// A caveat about the ratio, or the reason why there is no figure; empty for most cells.
    pub why: String,
}

/// Returns a cell's texts. `anyway` also shows ratios that are not comparable.
pub fn said(cell: &ComparedCell<'_>, anyway: bool) -> Said {
    let mad = cell.measurement.and_then(|m| m.mad_us()).filter(|d| d.is_finite() && *d > 0.0);
    let spread = mad.map(|d| format!(" ± {}", time(d))).unwrap_or_default();
    let shown = cell.ratio.filter(|_| anyway || cell.verdict != Some(Verdict::NotComparable));
    let interval = |r: &warpbook_charts::Ratio| {
        if r.low < r.high { format!(" ({} to {})", times(r.low), times(r.high)) } else { String::new() }
    };
    Said {
        time: cell.us.map(|us| format!("{}{spread}", time(us))).unwrap_or_default(),
        ratio: shown.map(|r| format!("{}{}", times(r.value), interval(&r))).unwrap_or_default(),
        share: cell.share_in_words().unwrap_or_default(),
        why: cell.why.clone(),
    }
}

/// Returns the rows that changed, the largest change first.
pub fn moved<'c, 'a>(of: &'c Comparison<'a>) -> Vec<&'c ComparedRow<'a>> {
    let furthest = |row: &ComparedRow<'_>| {
        let moved = row.cells.iter().filter(|c| matches!(c.verdict, Some(Verdict::Improved | Verdict::Worse)));
        moved.filter_map(|c| c.ratio).map(|r| r.value.ln().abs()).fold(0.0, f64::max)
    };
    let mut rows: Vec<(f64, &ComparedRow<'a>)> = of.rows.iter().map(|r| (furthest(r), r)).collect();
    rows.retain(|(by, _)| *by > 0.0);
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    rows.into_iter().map(|(_, row)| row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample_run;

    #[test]
    fn labels_are_the_readers_or_the_files_or_what_differs() {
        let (one, mut two) = (sample_run(), sample_run());
        two.created = "2026-12-24T18:30:00Z".into();
        let labelled = |own: &[(&str, &str)], files: [&str; 2]| {
            let own = own.iter().map(|(k, l)| ((*k).to_owned(), (*l).to_owned())).collect();
            labels(&own, &[("a", files[0], &one), ("b", files[1], &two)])
        };
        assert_eq!(labelled(&[], ["before.json", "after.json"]), ["before", "after"]);
        assert_eq!(labelled(&[("b", "mine")], ["before.json", "after.json"]), ["before", "mine"]);
        let same = labelled(&[], ["same.json", "same.json"]);
        assert!(same[1].contains("2026-12-24") && !same[1].contains("H200"), "{same:?}");
        assert_eq!(labelled(&[("a", "x"), ("b", "x")], ["same.json", "same.json"]), ["x", "x (2)"]);
        let records: Vec<(&str, &str, &Run)> = (0..8).map(|_| ("k", "same.json", &one)).collect();
        let eight = labels(&BTreeMap::new(), &records);
        assert!(eight.iter().enumerate().all(|(i, l)| !eight[..i].contains(l) && !l.contains("H200")), "{eight:?}");
    }

    #[test]
    fn the_problem_asked_for_comes_before_the_main_one() {
        let one = sample_run();
        let mut two = one.clone();
        let small = one.problems()[1];
        let all = Comparison::from_runs(&[&one, &one]).unwrap();
        let main = || one.main_problem();
        let short = |p: Option<&Problem>| p.map(|p| p.short.clone());
        assert_eq!(short(chosen(&all, None, main())).as_deref(), Some("5 M"));
        assert_eq!(short(chosen(&all, Some(small), main())).as_deref(), Some("1 M"));
        // The other record has no comparable rung for the main problem.
        let mut skipped = one.clone();
        for m in skipped.measurements.iter_mut().filter(|m| m.problem.short == "5 M") {
            m.outcome = warpbook_record::Outcome::Skipped { why: "no GPU".into() };
        }
        let all = Comparison::from_runs(&[&one, &skipped]).unwrap();
        assert_eq!(short(chosen(&all, None, main())).as_deref(), Some("1 M"));
        two.measurements.retain(|m| m.problem == *small);
        two.problems.retain(|p| p == small);
        two.train_logs.clear();
        let all = Comparison::from_runs(&[&one, &two]).unwrap();
        assert_eq!(short(chosen(&all, None, main())).as_deref(), Some("1 M"), "the main problem is not shared");
    }

    #[test]
    fn a_chooser_names_the_type_once() {
        let chooser_label =
            |label: &str| problem_label(&Problem::new(label, "s", vec![], warpbook_record::Dtype::Bf16));
        assert_eq!([chooser_label("4096³ bf16"), chooser_label("5 M points")], ["4096³ bf16", "5 M points, bf16"]);
    }

    #[test]
    fn cells_are_put_in_words() {
        let one = sample_run();
        let mut two = one.clone();
        two.measurements.iter_mut().flat_map(|m| &mut m.samples_us).for_each(|us| *us *= 2.0);
        let all = Comparison::from_runs(&[&one, &two]).unwrap();
        let cell = all.rows.iter().map(|r| &r.cells[1]).find(|c| c.verdict == Some(Verdict::Worse)).unwrap();
        let words = said(cell, false);
        assert!(words.ratio.starts_with("0.5") && !words.time.is_empty() && words.why.is_empty(), "{words:?}");
        assert!(!moved(&all).is_empty() && moved(&Comparison::from_runs(&[&one, &one]).unwrap()).is_empty());
        two.policy.l2 = warpbook_record::L2State::Cold;
        let all = Comparison::from_runs(&[&one, &two]).unwrap();
        let cell = all.rows.iter().map(|r| &r.cells[1]).find(|c| c.verdict == Some(Verdict::NotComparable)).unwrap();
        assert!(said(cell, false).ratio.is_empty() && said(cell, true).ratio.starts_with("0.5"));
        assert!(said(cell, false).why.contains("cold L2"));
    }
}

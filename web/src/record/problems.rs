//! A record's problems as choosers offer them, grouped by line of a sweep and by type.

use warpbook_record::{Dtype, Problem, Run};

/// Problems that belong together in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Group<'a> {
    /// The group's label, such as "200 epochs" or "bf16".
    pub label: String,
    /// The problems: first the problems on the line, from the smallest on, then the others in the record's order.
    pub problems: Vec<&'a Problem>,
}

/// Groups problems by line of a sweep and type, in the order of their first problems. A line whose label is just the
/// type also includes that type's problems that lie on no line.
pub fn grouped(problems: Vec<&Problem>) -> Vec<Group<'_>> {
    let mut groups: Vec<(&str, Dtype, Vec<&Problem>)> = Vec::new();
    for p in problems {
        let line = p.sweep.as_ref().map_or(p.dtype.label(), |s| &s.line);
        match groups.iter_mut().find(|g| (g.0, g.1) == (line, p.dtype)) {
            Some(group) => group.2.push(p),
            None => groups.push((line, p.dtype, vec![p])),
        }
    }
    let of_line = |line: &str| groups.iter().filter(|g| g.0 == line).count();
    let labels: Vec<String> = groups
        .iter()
        .map(|(line, dtype, _)| match line.trim() {
            "" => dtype.label().to_owned(),
            line if of_line(line) > 1 => format!("{line}, {}", dtype.label()),
            line => line.to_owned(),
        })
        .collect();
    groups.iter_mut().for_each(|g| g.2.sort_by_key(|p| (p.sweep.is_none(), p.size())));
    labels.into_iter().zip(groups).map(|(label, (_, _, problems))| Group { label, problems }).collect()
}

/// Returns the lines of a sweep that have two or more sizes.
pub fn lines(run: &Run) -> Vec<Group<'_>> {
    let mut groups = grouped(run.problems().into_iter().filter(|p| p.size() > 0).collect());
    groups.retain(|g| g.problems.iter().any(|p| p.size() != g.problems[0].size()));
    groups
}

/// Returns the problem at which a chart over sizes is drawn: the given one if its line has other sizes, else the main
/// problem, else the first of the first line.
pub fn on_a_line<'a>(run: &'a Run, problem: &'a Problem) -> Option<&'a Problem> {
    let lines = lines(run);
    let lies = |p: &&Problem| lines.iter().any(|l| l.problems.contains(p));
    Some(problem).into_iter().chain(run.main_problem()).find(lies).or_else(|| lines.first().map(|l| l.problems[0]))
}

/// Returns the problem most like another: the one with the same name, else one of the same size, else the last, which
/// is the largest on its line.
pub fn like<'a>(problems: &[&'a Problem], other: &Problem) -> Option<&'a Problem> {
    let called = || problems.iter().find(|p| p.short == other.short);
    let sized = || problems.iter().find(|p| p.size() > 0 && p.size() == other.size());
    called().or_else(sized).or(problems.last()).copied()
}

/// Returns a problem's label. If others of the list have the same one, the sizes in which they differ follow: ", seed 2".
pub fn label_among(problem: &Problem, all: &[&Problem]) -> String {
    let same = || all.iter().filter(|p| p.label == problem.label);
    let mut label = problem.label.clone();
    for size in &problem.sizes {
        if same().any(|p| p.sizes.iter().any(|s| s.name == size.name && s.value != size.value)) {
            label += &format!(", {} {}", size.name.replace('_', " "), size.value);
        }
    }
    label
}

/// Returns a problem's facets, each for its own chooser: type, shape, and the rest of the label, such as "B
/// transposed".
pub fn facets(problem: &Problem) -> [String; 3] {
    let dtype = problem.dtype.label();
    let shape = if problem.short.is_empty() { &problem.label } else { &problem.short };
    let rest = problem.label.strip_prefix(shape.as_str()).unwrap_or("").trim_start_matches([' ', ',']);
    let rest = rest.strip_prefix(dtype).unwrap_or(rest).trim_start_matches([' ', ',']);
    [dtype.to_owned(), shape.clone(), rest.to_owned()]
}

/// Returns the values of each facet, in the order of the problems, if problems of several types or layouts share
/// shapes; `None` if a single list is enough.
pub fn apart(problems: &[&Problem]) -> Option<[Vec<String>; 3]> {
    let mut values: [Vec<String>; 3] = Default::default();
    for p in problems {
        for (all, value) in values.iter_mut().zip(facets(p)) {
            if !all.contains(&value) {
                all.push(value);
            }
        }
    }
    let shared = values[1].len() < problems.len() && values[1].len() > 1;
    (shared && problems.iter().all(|p| problems.iter().filter(|o| facets(o) == facets(p)).count() == 1))
        .then_some(values)
}

/// Returns the problem with another value of one facet that is otherwise most like `now`. The type counts most, then
/// the shape, then the layout.
pub fn with_facet<'a>(problems: &[&'a Problem], now: &Problem, facet: usize, value: &str) -> Option<&'a Problem> {
    let of_now = facets(now);
    let alike = |p: &Problem| -> usize {
        let own = facets(p);
        (0..3).filter(|i| *i != facet && own[*i] == of_now[*i]).map(|i| [4, 2, 1][i]).sum()
    };
    // `rev` makes the first of equally similar problems win.
    problems.iter().copied().filter(|p| facets(p)[facet] == value).rev().max_by_key(|p| alike(p))
}

/// Returns the types that a GPU library was measured in, each with its problems in the record's order.
pub fn dtypes_with_library(run: &Run) -> Vec<(Dtype, Vec<&Problem>)> {
    let mut out: Vec<(Dtype, Vec<&Problem>)> = Vec::new();
    for p in run.problems() {
        match out.iter_mut().find(|d| d.0 == p.dtype) {
            Some(found) => found.1.push(p),
            None => out.push((p.dtype, vec![p])),
        }
    }
    out.retain(|(_, problems)| problems.iter().any(|p| run.fastest_library(p).is_some()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample_run;
    use warpbook_record::{Measurement, Outcome, Runner, SweepPoint, count};

    fn problem(short: &str, dtype: Dtype, line: Option<(u64, &str)>) -> Problem {
        Problem::new(format!("{short} {}", dtype.label()), short, vec![], dtype).with(|p| {
            p.id = format!("{short} {} {line:?}", dtype.label());
            p.sweep = line.map(|(size, line)| SweepPoint { size, line: line.into() });
        })
    }

    fn run_of(problems: &[&Problem]) -> Run {
        let measured = |p: &&Problem| Measurement::without_samples("r", (*p).clone(), Outcome::Measured);
        Run { measurements: problems.iter().map(measured).collect(), ..sample_run() }
    }

    fn names(groups: &[Group<'_>]) -> Vec<(String, Vec<String>)> {
        groups.iter().map(|g| (g.label.clone(), g.problems.iter().map(|p| p.short.clone()).collect())).collect()
    }

    #[test]
    fn type_shape_and_layout_are_chosen_apart() {
        let named =
            |label: &str, short: &str, dtype| Problem::new(label, short, vec![], dtype).with(|p| p.id = label.into());
        let all = [
            named("4³ fp32", "4³", Dtype::F32),
            named("8³ fp32", "8³", Dtype::F32),
            named("4³ bf16", "4³", Dtype::Bf16),
            named("8³ bf16, B transposed", "8³", Dtype::Bf16),
        ];
        let all: Vec<&Problem> = all.iter().collect();
        assert_eq!(facets(all[3]), ["bf16", "8³", "B transposed"]);
        let values = apart(&all).unwrap();
        assert_eq!(values[0], ["fp32", "bf16"]);
        assert_eq!(values[1], ["4³", "8³"]);
        assert_eq!(values[2], ["", "B transposed"]);
        assert_eq!(with_facet(&all, all[1], 0, "bf16"), Some(all[3]), "of the same shape");
        assert_eq!(with_facet(&all, all[3], 1, "4³"), Some(all[2]), "of the same type");
        assert_eq!(with_facet(&all, all[0], 2, "B transposed"), Some(all[3]));
        assert_eq!(with_facet(&all, all[0], 0, "fp64"), None);
        assert_eq!(apart(&all[..2]), None, "one list says it all");
    }

    #[test]
    fn problems_are_grouped_by_line_and_type() {
        let all = [
            problem("odd", Dtype::F32, None),
            problem("4", Dtype::F32, Some((4, "fp32"))),
            problem("8", Dtype::Bf16, Some((8, "bf16"))),
            problem("2", Dtype::F32, Some((2, "fp32"))),
            problem("even", Dtype::Bf16, None),
        ];
        let groups = grouped(all.iter().collect());
        let expect =
            |label: &str, of: &[&str]| (label.to_owned(), of.iter().map(|s| s.to_string()).collect::<Vec<_>>());
        assert_eq!(names(&groups), [expect("fp32", &["2", "4", "odd"]), expect("bf16", &["8", "even"])]);
        // The test's problems are one line of a sweep, in two types.
        let all = [
            problem("1", Dtype::F32, Some((1, "2 epochs"))),
            problem("1", Dtype::F64, Some((1, "2 epochs"))),
            problem("2", Dtype::F64, Some((2, "2 epochs"))),
        ];
        let groups = grouped(all.iter().collect());
        assert_eq!(names(&groups), [expect("2 epochs, fp32", &["1"]), expect("2 epochs, fp64", &["1", "2"])]);
        let run = run_of(&all.iter().collect::<Vec<_>>());
        assert_eq!(names(&lines(&run)), [expect("2 epochs, fp64", &["1", "2"])]);
        assert_eq!(on_a_line(&run, &all[0]).map(|p| p.dtype), Some(Dtype::F64), "fp32 has one size");
        assert!(on_a_line(&run_of(&[&all[0]]), &all[0]).is_none());
    }

    #[test]
    fn problems_with_one_label_are_told_apart() {
        let seeded = |label: &str, seed: u64| {
            Problem::new(label, "", vec![count("batch", 128, "samples"), count("seed", seed, "")], Dtype::F32)
        };
        let all = [seeded("a", 1), seeded("a", 2), seeded("b", 3)];
        let all: Vec<&Problem> = all.iter().collect();
        assert_eq!([0, 1, 2].map(|i| label_among(all[i], &all)), ["a, seed 1", "a, seed 2", "b"]);
    }

    #[test]
    fn a_problem_of_another_group_is_like_this_one() {
        let all = [problem("1", Dtype::F32, Some((1, "a"))), problem("2", Dtype::F32, Some((2, "a")))];
        let list: Vec<&Problem> = all.iter().collect();
        let like = |other: &Problem| like(&list, other).map(|p| p.short.as_str());
        assert_eq!(like(&problem("1", Dtype::F64, None)), Some("1"));
        assert_eq!(like(&problem("other", Dtype::F64, Some((1, "b")))), Some("1"));
        assert_eq!(like(&problem("other", Dtype::F64, None)), Some("2"));
        assert!(super::like(&[], &all[0]).is_none());
    }

    #[test]
    fn types_are_those_of_a_library() {
        let mut run = sample_run();
        assert!(dtypes_with_library(&run).is_empty());
        run.rungs[0].runner = Runner::Library("cuBLAS".into());
        let found = dtypes_with_library(&run);
        assert_eq!(found.iter().map(|d| (d.0, d.1.len())).collect::<Vec<_>>(), [(Dtype::F32, 3)]);
    }
}

//! The problems of a record as the page offers them: by the line of a sweep that they lie on, by type, and shared by records.

use warpbook_record::{Dtype, Problem, Run};

/// Problems that belong together in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Group<'a> {
    /// What they have in common, as "200 epochs" or "bf16".
    pub label: String,
    /// Those on a line of a sweep from the smallest on, then the others in the record's order.
    pub problems: Vec<&'a Problem>,
}

/// Problems by the line of a sweep that they lie on and their type; groups are in the order of their first problems. A line that
/// says no more than the type also takes the problems of that type that lie on none.
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

/// The lines of a sweep with two sizes or more.
pub fn lines(run: &Run) -> Vec<Group<'_>> {
    let mut groups = grouped(run.problems().into_iter().filter(|p| p.size() > 0).collect());
    groups.retain(|g| g.problems.iter().any(|p| p.size() != g.problems[0].size()));
    groups
}

/// Where a chart over sizes is drawn for a problem: the problem itself where it lies on a line with other sizes; else the main
/// problem, else the first of the first line.
pub fn on_a_line<'a>(run: &'a Run, problem: &'a Problem) -> Option<&'a Problem> {
    let lines = lines(run);
    let lies = |p: &&Problem| lines.iter().any(|l| l.problems.contains(p));
    Some(problem).into_iter().chain(run.main_problem()).find(lies).or_else(|| lines.first().map(|l| l.problems[0]))
}

/// Of a list the problem most like another: that of the same size, of several the one that is called the same; else the last, which
/// is the largest of a line.
pub fn like<'a>(problems: &[&'a Problem], other: &Problem) -> Option<&'a Problem> {
    let called = || problems.iter().find(|p| p.short == other.short);
    let sized = || problems.iter().find(|p| p.size() > 0 && p.size() == other.size());
    called().or_else(sized).or(problems.last()).copied()
}

/// The types that a GPU library was measured in, each with its problems in the record's order.
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

/// The problems that records share: of each the first record's, followed by those of the others that are the same work. That is what
/// has the same id; or the same size on the same line of a sweep; or, of what lies on no line, the same name and type.
///
/// Records that share none give the sizes that they share, whose lines differ: a chart of these says what does.
pub fn shared<'a>(runs: &[&'a Run]) -> Vec<Vec<&'a Problem>> {
    let same_work = |a: &Problem, b: &Problem| match (&a.sweep, &b.sweep) {
        (Some(x), Some(y)) => x.size == y.size && a.same_line(b),
        (None, None) => a.dtype == b.dtype && a.label == b.label,
        _ => false,
    };
    let same_size = |a: &Problem, b: &Problem| a.size() > 0 && a.size() == b.size();
    let by_work = matched(runs, same_work);
    if by_work.is_empty() { matched(runs, same_size) } else { by_work }
}

fn matched<'a>(runs: &[&'a Run], same: impl Fn(&Problem, &Problem) -> bool) -> Vec<Vec<&'a Problem>> {
    let Some((first, others)) = runs.split_first() else { return Vec::new() };
    let others: Vec<Vec<&Problem>> = others.iter().map(|r| r.problems()).collect();
    let in_all = |p: &'a Problem| -> Option<Vec<&'a Problem>> {
        let found =
            others.iter().map(|all| all.iter().find(|q| ***q == *p).or_else(|| all.iter().find(|q| same(p, q))));
        std::iter::once(Some(p)).chain(found.map(Option::<&&Problem>::copied)).collect()
    };
    first.problems().into_iter().filter_map(in_all).collect()
}

/// A record with nothing but what it has of one problem; its sources are left out.
pub fn only(run: &Run, problem: &Problem) -> Run {
    Run {
        schema: run.schema,
        experiment: run.experiment.clone(),
        title: run.title.clone(),
        author: run.author.clone(),
        created: run.created.clone(),
        command: run.command.clone(),
        environment: run.environment.clone(),
        policy: run.policy.clone(),
        peaks: run.peaks.clone(),
        descriptor: run.descriptor.clone(),
        problems: vec![problem.clone()],
        main_problem: None,
        rungs: run.rungs.clone(),
        sources: Default::default(),
        measurements: run.measurements.iter().filter(|m| m.problem == *problem).cloned().collect(),
        train_logs: run.train_logs.iter().filter(|l| l.problem == *problem).cloned().collect(),
        parts: Vec::new(),
        spans: Vec::new(),
        breakdowns: Vec::new(),
        notes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::tests::sample_run;
    use warpbook_record::{Measurement, Outcome, Runner, SweepPoint};

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
        // One line of words in two types.
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

    #[test]
    fn shared_problems_are_the_same_work_in_every_record() {
        let cube = problem("4", Dtype::F32, Some((4, "fp32")));
        let odd = problem("odd", Dtype::F32, None);
        let seeded = |p: &Problem| p.with(|p| p.id.push_str(" seed=2"));
        let (one, two) = (run_of(&[&cube, &odd]), run_of(&[&seeded(&odd), &seeded(&cube)]));
        let ids = |runs: &[&Run]| {
            shared(runs).iter().map(|s| s.iter().map(|p| p.id.clone()).collect()).collect::<Vec<Vec<String>>>()
        };
        assert_eq!(ids(&[&one, &one]), [vec![cube.id.clone(); 2], vec![odd.id.clone(); 2]]);
        let both = |p: &Problem| vec![p.id.clone(), seeded(p).id.clone()];
        assert_eq!(ids(&[&one, &two]), [both(&cube), both(&odd)]);
        // A problem that a record lacks is not offered; the same id comes before the same size.
        assert_eq!(ids(&[&run_of(&[&cube]), &run_of(&[&seeded(&cube), &cube])]), [vec![cube.id.clone(); 2]]);
        assert_eq!(ids(&[&one, &run_of(&[&odd])]), [vec![odd.id.clone(); 2]]);
        // Only the size is the same: the chart will say what is not.
        let other = problem("4", Dtype::F32, Some((4, "fp32, B transposed")));
        assert_eq!(ids(&[&one, &run_of(&[&other])]), [vec![cube.id.clone(), other.id.clone()]]);
        assert!(ids(&[&one, &run_of(&[])]).is_empty());
        assert!(shared(&[]).is_empty());
    }

    #[test]
    fn a_record_can_be_cut_to_one_problem() {
        let run = sample_run();
        let problem = run.problems()[1].clone();
        let cut = only(&run, &problem);
        assert_eq!(cut.problems(), [&problem]);
        assert_eq!(cut.measurements.len(), 2);
        assert!(cut.train_logs.is_empty() && cut.sources.is_empty());
        assert_eq!(cut.ladder(&problem).len(), run.ladder(&problem).len());
    }
}

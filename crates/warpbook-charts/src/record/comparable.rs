//! Rules that decide whether two measurements are comparable: the work, the timing and the inputs.

use crate::draw::{ChartError, clean};
use crate::record::names::{label, line_label};
use crate::record::verdict::usable;
use std::collections::HashSet;
use warpbook_record::{DeviceKind, Input, L2State, Measurement, Policy, Problem, Run, TimedBy};

use crate::record::noise::LEAST_SAMPLES;

/// Returns an error if records have no comparable figures: different experiments, or sizes that count different things.
pub(crate) fn same_meaning(runs: &[&Run]) -> Result<(), ChartError> {
    let Some((first, rest)) = runs.split_first() else {
        return Err(ChartError::NothingToDraw("There is no record to draw.".into()));
    };
    for run in rest {
        let quoted = |a: &str, b: &str| format!("\u{201c}{}\u{201d} and \u{201c}{}\u{201d}", clean(a), clean(b));
        if run.experiment != first.experiment {
            let both = quoted(&first.experiment, &run.experiment);
            return Err(ChartError::NotComparable(format!("The records are of different experiments: {both}.")));
        }
        let (a, b) = (&first.descriptor.axis.unit, &run.descriptor.axis.unit);
        if a != b && !a.is_empty() && !b.is_empty() {
            let both = quoted(a, b);
            return Err(ChartError::NotComparable(format!("The records' sizes count different things: {both}.")));
        }
    }
    Ok(())
}

/// Returns the reason why two problems cannot share a line of a sweep, such as "200 epochs in one and 20 epochs in the
/// other".
pub(crate) fn difference_of_lines(a: &Problem, b: &Problem) -> Option<String> {
    if a.same_line(b) {
        return None;
    }
    let (x, y) = (line_label(a), line_label(b));
    let (x, y) = if x == y { (a.dtype.label().to_owned(), b.dtype.label().to_owned()) } else { (x, y) };
    Some(format!("{x} in one and {y} in the other"))
}

/// Returns the reason why two problems are different work: another size or another line, or a different description if
/// one of them is on no line.
pub(crate) fn difference(a: &Problem, b: &Problem) -> Option<String> {
    let same = match (&a.sweep, &b.sweep) {
        _ if a == b => true,
        (Some(x), Some(y)) => x.size == y.size && a.same_line(b),
        _ => a.dtype == b.dtype && label(a) == label(b),
    };
    let of_words = || format!("{} in one and {} in the other", label(a), label(b));
    (!same)
        .then(|| difference_of_lines(a, b).filter(|_| a.sweep.is_some() && b.sweep.is_some()).unwrap_or_else(of_words))
}

/// One problem in each record; `None` if a record lacks it.
pub(crate) type Aligned<'a> = Vec<Option<&'a Problem>>;

/// A rule that decides whether two problems match.
type Rule<'r> = &'r dyn Fn(&Problem, &Problem) -> bool;

/// Pairs the first record's problems with those of the other records: by id, then by equal work. The remaining problems
/// are paired by size, and [`unlike`] states the differences.
pub(crate) fn aligned<'a>(runs: &[&'a Run]) -> Vec<Aligned<'a>> {
    let Some((first, others)) = runs.split_first() else { return Vec::new() };
    let firsts = first.problems();
    let mut out: Vec<Aligned<'a>> = firsts.iter().map(|p| vec![Some(*p)]).collect();
    for run in others {
        let mut left: Vec<&'a Problem> = run.problems();
        let mut found: Vec<Option<&'a Problem>> = vec![None; firsts.len()];
        let same_size = |a: &Problem, b: &Problem| a.size() > 0 && a.size() == b.size();
        let rules: [Rule<'_>; 4] = [
            &|a, b| a == b,
            &|a, b| difference(a, b).is_none(),
            &|a, b| same_size(a, b) && a.dtype == b.dtype,
            &same_size,
        ];
        for alike in rules {
            for (place, problem) in found.iter_mut().zip(&firsts).filter(|(place, _)| place.is_none()) {
                if let Some(at) = left.iter().position(|p| alike(problem, p)) {
                    *place = Some(left.remove(at));
                }
            }
        }
        out.iter_mut().zip(found).for_each(|(row, p)| row.push(p));
    }
    out
}

/// Returns the differences that make two measurements incomparable, one clause each; empty if they are comparable.
pub(crate) fn unlike(a: (&Run, &Measurement), b: (&Run, &Measurement)) -> Vec<String> {
    let ((run_a, m_a), (run_b, m_b)) = (a, b);
    let mut out = Vec::new();
    out.extend(difference(&m_a.problem, &m_b.problem));
    if m_a.arithmetic_type() != m_b.arithmetic_type() {
        out.push(format!(
            "{} in one and {} in the other",
            m_a.arithmetic_type().label(),
            m_b.arithmetic_type().label()
        ));
    }
    if m_a.does_less() != m_b.does_less() {
        out.push("one does less than half of the operations".into());
    }
    let (clock_a, clock_b) = (clock(run_a, m_a), clock(run_b, m_b));
    if clock_a != clock_b {
        out.push(format!("one timed by {}, the other by {}", clock_name(clock_a), clock_name(clock_b)));
    }
    out.extend(l2_difference(&run_a.policy, &run_b.policy));
    out.extend(inputs_difference(&run_a.policy, &run_b.policy, &m_a.problem));
    let few = [m_a, m_b].map(|m| m.samples_us.len()).into_iter().min().unwrap_or(0);
    if few < LEAST_SAMPLES && usable(m_a.median_us()).and(usable(m_b.median_us())).is_some() {
        let samples = if few == 1 { "1 sample".to_owned() } else { format!("{few} samples") };
        out.push(format!("{samples} in one of them: too few to tell a change from noise"));
    }
    out
}

/// CPU rungs are always timed by the host, whatever the policy says.
fn clock(run: &Run, m: &Measurement) -> TimedBy {
    let on_gpu = run.environment.device.kind == DeviceKind::Cuda && !crate::record::kind::on_cpu(run, &m.rung);
    if on_gpu { run.policy.timed_by } else { TimedBy::WallClock }
}

fn clock_name(clock: TimedBy) -> &'static str {
    match clock {
        TimedBy::CudaEvents => "CUDA events",
        TimedBy::WallClock => "the host's clock",
        TimedBy::Nothing => "nothing",
        _ => "another clock",
    }
}

fn l2_difference(a: &Policy, b: &Policy) -> Option<String> {
    let name = |l2| match l2 {
        L2State::Warm => "a warm L2",
        L2State::Cold => "a cold L2",
        _ => "another state of L2",
    };
    (a.l2 != b.l2).then(|| format!("one from {}, the other from {}", name(a.l2), name(b.l2)))
}

/// Returns the entries in which a problem's data differ between two records. An entry that names some work is ignored
/// if only one record has it, since the other did no such work, or if it names work other than this problem's.
fn inputs_difference(a: &Policy, b: &Policy, problem: &Problem) -> Option<String> {
    if a.inputs == b.inputs {
        return None;
    }
    let [a, b] = [a, b].map(|policy| {
        let shown = |e: &Input| Input { work: clean(&e.work), data: clean(&e.data) };
        policy.inputs.entries().iter().map(shown).collect::<Vec<_>>()
    });
    let [works_a, works_b] = [&a, &b].map(|all| all.iter().map(|e| e.work.as_str()).collect::<HashSet<_>>());
    let in_both = |e: &Input| works_a.contains(&*e.work) && works_b.contains(&*e.work);
    let line = problem.sweep.as_ref().map_or(String::new(), |s| clean(&s.line));
    let texts = [label(problem), line, clean(&problem.id)];
    let names_problem = |e: &Input| !e.work.is_empty() && texts.iter().any(|text| text.contains(&e.work));
    // If no entry names the problem, every entry that both records have may be about the problem.
    let is_named = a.iter().any(|e| in_both(e) && names_problem(e));
    let concerns = |e: &Input| e.work.is_empty() || (in_both(e) && (!is_named || names_problem(e)));
    let only = |of: &[Input], other: &[Input]| {
        let other: Vec<String> = other.iter().map(Input::to_string).collect();
        let other: HashSet<&str> = other.iter().map(String::as_str).collect();
        let kept = of.iter().filter(|e| concerns(e)).map(Input::to_string).filter(|text| !other.contains(&**text));
        clean(&kept.collect::<Vec<_>>().join("; "))
    };
    match [only(&a, &b), only(&b, &a)] {
        [a, b] if a.is_empty() && b.is_empty() => None,
        [a, b] if b.is_empty() => Some(format!("one with inputs \u{201c}{a}\u{201d}, the other without")),
        [a, b] if a.is_empty() => Some(format!("one without inputs \u{201c}{b}\u{201d}, the other with them")),
        [a, b] => Some(format!("one with inputs \u{201c}{a}\u{201d}, the other with \u{201c}{b}\u{201d}")),
    }
}

/// Returns the differences between the timing of two records for a problem, for charts of many rungs.
pub(crate) fn unlike_timing(a: &Run, b: &Run, problem: &Problem) -> Vec<String> {
    let mut out = Vec::new();
    if a.policy.timed_by != b.policy.timed_by {
        let (a, b) = (clock_name(a.policy.timed_by), clock_name(b.policy.timed_by));
        out.push(format!("one by {a}, the other by {b}"));
    }
    out.extend(l2_difference(&a.policy, &b.policy));
    out.extend(inputs_difference(&a.policy, &b.policy, problem));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_record::{Dtype, Inputs};

    /// Builds the policy of an older record, whose inputs are one sentence.
    fn policy(inputs: &str) -> Policy {
        Policy {
            timed_by: TimedBy::CudaEvents,
            l2: L2State::Warm,
            warmup: 1,
            samples: 5,
            budget_s: 1.0,
            batch_below_us: 50.0,
            inputs: Inputs::of_sentence(inputs),
        }
    }

    #[test]
    fn inputs_are_compared_entry_by_entry() {
        let line = Problem::new("5 M points, 200 epochs", "5 M", vec![], Dtype::F32);
        let features = Problem::new("5 M points of several features", "5 M", vec![], Dtype::F32);
        let check = |a: &str, b: &str, of: &Problem, expect: bool| {
            let found = inputs_difference(&policy(a), &policy(b), of);
            assert_eq!(found.is_some(), expect, "{a:?}, {b:?}: {found:?}");
        };
        let plain = "x evenly spaced, y = 3 x";
        // One record also contains work with several features, which does not concern the other's measurements.
        check(plain, &format!("{plain}; several features: Gaussian x"), &line, false);
        check(plain, "x random, y = 3 x", &line, true);
        let (gaussian, zeros) =
            (format!("{plain}; several features: Gaussian x"), format!("{plain}; several features: zeros"));
        check(&gaussian, &zeros, &features, true);
        // No entry names this problem, so every shared entry may concern it.
        check(&gaussian, &zeros, &line, true);
        check(
            "MNIST: original; CIFAR-10: original",
            "MNIST: original; CIFAR-10: drawn",
            &line.with(|p| p.label = "MNIST 512".into()),
            false,
        );
        check("Philox", "zeros", &line, true);
        check("", "zeros", &line, true);
    }

    #[test]
    fn an_older_records_sentence_equals_the_same_entries_and_differences_are_named() {
        let problem = Problem::new("MNIST CNN, batch 512", "512", vec![], Dtype::F32);
        let old = policy("MNIST CNN: MNIST: the original files; AMP recipe: Gaussian; weights from seed 1");
        let data = |mnist: &str, seed: u32| {
            let inputs = Inputs::default().with("MNIST CNN", mnist).with("AMP recipe", "zeros");
            Policy { inputs: inputs.with("", format!("weights from seed {seed}")), ..policy("") }
        };
        let difference = |new: &Policy| inputs_difference(&old, new, &problem);
        // The data of other problems is ignored.
        assert_eq!(difference(&data("MNIST: the original files", 1)), None);
        assert_eq!(
            difference(&data("drawn", 1)).unwrap(),
            "one with inputs \u{201c}MNIST CNN: MNIST: the original files\u{201d}, the other with \u{201c}MNIST CNN: drawn\u{201d}"
        );
        assert_eq!(
            difference(&data("MNIST: the original files", 2)).unwrap(),
            "one with inputs \u{201c}weights from seed 1\u{201d}, the other with \u{201c}weights from seed 2\u{201d}"
        );
        let more = Policy { inputs: data("MNIST: the original files", 1).inputs.with("", "shuffled"), ..policy("") };
        assert_eq!(difference(&more).unwrap(), "one without inputs \u{201c}shuffled\u{201d}, the other with them");
    }
}

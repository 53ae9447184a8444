//! Facts that older records of the current format state only in words, because the fields came later.

use crate::{Gradients, Measurement, Run, Runner};

/// The words before the number of steps in a training's note.
const STEPS: &str = "steps of each training: ";

/// Fills in the fields that an older record lacks from its sentences.
pub(crate) fn upgrade(run: &mut Run) {
    fill_steps(run);
    fill_choices(run);
    if run.descriptor.reason.is_empty() {
        run.descriptor.reason = reason(run).unwrap_or_default();
    }
}

/// Fills in the rungs that rules chose, and the gradients that ranks exchange, from the sentences about the choices.
fn fill_choices(run: &mut Run) {
    let (rungs, all) = (&run.rungs, &mut run.measurements);
    for m in all.iter_mut().filter(|m| m.chosen.is_none() && m.gradients.is_none()) {
        let Some(choice) = &m.choice else { continue };
        let by_rule = rungs.iter().any(|r| r.id == m.rung && matches!(r.runner, Runner::Chosen(_)));
        let first = choice.split(' ').next().unwrap_or_default();
        m.chosen = rungs.iter().find(|r| by_rule && r.id == first).map(|r| r.id.to_string());
        m.gradients = gradients(choice);
    }
}

/// Reads a sentence such as "2.37 MiB of gradients in 2 buckets".
fn gradients(choice: &str) -> Option<Gradients> {
    let words: Vec<&str> = choice.split(' ').collect();
    let [size, unit, "of", "gradients", "in", buckets, "bucket" | "buckets"] = words[..] else { return None };
    let power = ["B", "KiB", "MiB", "GiB", "TiB"].iter().position(|known| *known == unit)?;
    let bytes = size.parse::<f64>().ok()? * 1024f64.powi(power as i32);
    Some(Gradients { bytes: bytes.round() as u64, buckets: buckets.parse().ok()? })
}

/// Returns the part of a note that follows the ratio of the two compared rungs.
fn reason(run: &Run) -> Option<String> {
    let (slow, fast) = run.slow_and_fast(run.main_problem()?)?;
    if run.descriptor.compared != [&*slow.rung, &*fast.rung] {
        return None;
    }
    let title = |m: &Measurement| run.rung(&m.rung).map(|rung| rung.title.to_string());
    let begin = format!("With {}, “{}” is ", slow.problem.label, title(fast)?);
    let end = format!(" as fast as “{}”. ", title(slow)?);
    let after = run.notes.iter().find_map(|note| Some(note.strip_prefix(&begin)?.split_once(&end)?.1))?;
    // A sentence about memory may come first, which repeats figures of the record.
    let memory = after.split_once(" of the device's memory, and “").filter(|(holds, _)| holds.starts_with('“'));
    let rest = memory.and_then(|(_, rest)| rest.split_once("B. ")).map(|(_, rest)| rest);
    Some(rest.unwrap_or(after).to_owned())
}

/// Fills in the numbers of steps of whole trainings.
fn fill_steps(run: &mut Run) {
    let number = |note: &String| {
        let digits = note.split_once(STEPS)?.1;
        digits.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
    };
    let Some(steps) = run.notes.iter().find_map(number) else { return };
    for m in run.measurements.iter_mut().filter(|m| m.steps.is_none() && !m.test.is_empty()) {
        // The number is valid only for Warpbook's rungs; other frameworks stop as soon as they reach the accuracy.
        if run.rungs.iter().any(|r| r.id == m.rung && r.framework().is_none()) {
            m.steps = Some(steps);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(name: &str) -> Run {
        let file = format!("{}/../../data/results/{name}", env!("CARGO_MANIFEST_DIR"));
        Run::from_json(&std::fs::read(file).unwrap()).unwrap()
    }

    /// Returns the record as an older version wrote it, without the fields that this one fills in, and reads it.
    fn read_without_fields(name: &str) -> Run {
        let mut run = published(name);
        run.descriptor.reason.clear();
        run.measurements.iter_mut().for_each(|m| (m.chosen, m.gradients) = (None, None));
        Run::from_json(run.to_json().unwrap().as_bytes()).unwrap()
    }

    #[test]
    fn sentences_of_older_records_become_fields() {
        let run = read_without_fields("matmul-h200.json");
        let chosen: Vec<&Measurement> = run.measurements.iter().filter(|m| m.rung == "as_chosen").collect();
        assert!(chosen.iter().filter(|m| m.is_valid()).count() > 50);
        for m in chosen.iter().filter(|m| m.is_valid()) {
            let id = m.chosen.as_ref().unwrap();
            let by_name = run.measurement(id, &m.problem).is_some_and(|other| run.is_sound(other));
            assert!(run.rung(id).is_some() && run.repeats_a_rung(m) == by_name, "{m:?}");
        }
        assert!(chosen.iter().filter(|m| run.repeats_a_rung(m)).count() > 40);
        assert!(run.measurements.iter().all(|m| m.rung == "as_chosen" || m.chosen.is_none()));
        let run = read_without_fields("scaling-h200-x4.json");
        let travel = |m: &Measurement| m.choice.as_ref().is_some_and(|choice| choice.ends_with(" buckets"));
        assert!(run.measurements.iter().all(|m| m.gradients.is_some_and(|g| g.bytes > 1 << 20) == travel(m)));
        assert!(run.measurements.iter().filter(|m| travel(m)).count() > 5);
        let run = read_without_fields("guide-coalescing-h200.json");
        assert!(run.descriptor.reason.starts_with("A warp's load is split"), "{}", run.descriptor.reason);
        let run = read_without_fields("guide-checkpointing-h200.json");
        assert!(!run.descriptor.reason.is_empty() && !run.descriptor.reason.contains(" of the device's memory, and"));
    }

    #[test]
    fn only_the_whole_sentence_about_gradients_counts() {
        let found = |bytes, buckets| Some(Gradients { bytes, buckets });
        assert_eq!(gradients("2.5 MiB of gradients in 2 buckets"), found(5 << 19, 2));
        assert_eq!(gradients("96 KiB of gradients in 1 bucket"), found(96 << 10, 1));
        assert_eq!(gradients("1 GiB of gradients in 40 buckets"), found(1 << 30, 40));
        for other in
            ["4 MiB of weights copied, 4 MiB of gradients copied back", "many MiB of gradients in 2 buckets", ""]
        {
            assert_eq!(gradients(other), None, "{other}");
        }
    }

    #[test]
    fn published_trainings_have_their_steps() {
        let steps_in = |name: &str| {
            let run = published(name);
            let steps = |foreign: bool| {
                let is_chosen = |m: &&Measurement| run.rung(&m.rung).unwrap().framework().is_some() == foreign;
                run.measurements.iter().filter(is_chosen).map(|m| m.steps).collect::<Vec<_>>()
            };
            (steps(false), steps(true))
        };
        let (ours, theirs) = steps_in("mnist-to-99-h200.json");
        assert!(!ours.is_empty() && ours.iter().all(|s| *s == Some(944)), "{ours:?}");
        assert!(theirs.iter().all(Option::is_none));
        let (ours, _) = steps_in("cifar10-speedrun-h200.json");
        // An epoch has 25 steps.
        assert!(!ours.is_empty() && ours.iter().all(|s| s.is_some_and(|s| s > 0 && s % 25 == 0)), "{ours:?}");
    }
}

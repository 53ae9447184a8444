//! Facts that older records of the current format state only in words, because the fields came later.

use crate::Run;

/// The words before the number of steps in a training's note.
const STEPS: &str = "steps of each training: ";

/// Fills in the fields that an older record lacks from its notes.
pub(crate) fn upgrade(run: &mut Run) {
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

    #[test]
    fn published_trainings_have_their_steps() {
        let steps_in = |name: &str| {
            let file = format!("{}/../../data/results/{name}", env!("CARGO_MANIFEST_DIR"));
            let run = Run::from_json(&std::fs::read(file).unwrap()).unwrap();
            let steps = |foreign: bool| {
                let is_chosen = |m: &&crate::Measurement| run.rung(&m.rung).unwrap().framework().is_some() == foreign;
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

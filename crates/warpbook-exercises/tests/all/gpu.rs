//! Tests that solutions are also right on a GPU, and meet their time targets.

use crate::files::{is_handout, kernels, notebooks, text};
use warpbook_device::{Choice, testing};
use warpbook_lab::Lab;
use warpbook_lab::exercise::{Exercise, Verdict};

#[test]
fn every_solution_is_right_and_fast_on_a_gpu() {
    let test = "every_solution_is_right_and_fast_on_a_gpu";
    if is_handout(test) || testing::gpu(test).is_none() {
        return;
    }
    let lab = Lab::on(Choice::Cuda(0)).unwrap();
    let mut wrong = Vec::new();
    for (definition, task) in kernels() {
        let exercises = notebooks().join("exercises");
        let exercise = Exercise::in_folders(&lab, definition.clone(), &exercises, None).unwrap();
        let tried = exercise.try_source(&text(&definition, "solution.cu")).unwrap();
        let best = if task.targets.is_empty() { Verdict::Right } else { Verdict::RightAndOnTarget };
        if tried.verdict != best || !tried.remarks.is_empty() {
            wrong.push(format!("{} {:?}", tried.line(), tried.remarks));
        }
        if let Some(time) = &tried.time {
            println!("{}: {:.1} µs, {:.0} % of the ceiling", definition.id, time.us, 100.0 * time.share);
        }
        let is_fast = tried.time.as_ref().is_some_and(|time| time.is_on_target());
        if task.time.is_some() && !is_fast {
            wrong.push(format!("{} is too slow: {:?}", definition.id, tried.time));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

//! Tests that a GPU agrees with the emulator about right answers, and that solutions meet their time targets.

use crate::files::{is_handout, kernels, notebooks, other_answers, text, wrong_answers};
use crate::verdicts::{ANOTHER, SEED};
use warpbook_device::{Choice, testing};
use warpbook_lab::Lab;
use warpbook_lab::exercise::{Definition, Exercise, KernelTask, Task, Verdict};

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

#[test]
fn every_answer_that_is_right_in_the_emulator_has_the_same_verdict_on_a_gpu() {
    let test = "every_answer_that_is_right_in_the_emulator_has_the_same_verdict_on_a_gpu";
    if is_handout(test) || testing::gpu(test).is_none() {
        return;
    }
    let (emulator, gpu) = (Lab::on(Choice::Cpu).unwrap(), Lab::on(Choice::Cuda(0)).unwrap());
    let (mut number, mut different) = (0, Vec::new());
    for (definition, task) in kernels() {
        let wrong = wrong_answers(&definition).into_iter().map(|(file, _, source)| (file, source));
        let stub = (format!("the stub of {}", definition.id), text(&definition, "stub.cu"));
        for (file, source) in other_answers(&definition).into_iter().chain(wrong).chain([stub]) {
            let source = source + ANOTHER;
            let on = |lab: &Lab, task: KernelTask| {
                let one = Definition { task: Task::Kernel(task), ..definition.clone() };
                Exercise::in_folders(lab, one, &notebooks().join("exercises"), None).unwrap()
            };
            let expected = on(&emulator, task.clone()).try_seeded(&source, SEED).unwrap();
            if !expected.verdict.is_right() {
                continue;
            }
            number += 1;
            // At the timed size, an answer that misses a target may take longer than a launch is allowed to.
            let time = task.time.filter(|_| expected.verdict == Verdict::RightAndOnTarget);
            let tried = on(&gpu, KernelTask { time, ..task.clone() }).try_seeded(&source, SEED).unwrap();
            if (tried.verdict, tried.cause_id(), tried.time.is_some(), &tried.remarks)
                != (expected.verdict, expected.cause_id(), time.is_some(), &expected.remarks)
            {
                different.push(format!("{file}: {} {:?}", tried.line(), tried.remarks));
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert!(number >= 50, "{number} right answers");
}

/// Makes SAXPY count its launches at the timed size, which has 65,536 blocks, and write nothing from the third on.
fn lazy(saxpy: &str) -> String {
    let guard = "if (i < n)";
    let counted = "__shared__ unsigned launch;
    if (threadIdx.x == 0) launch = gridDim.x > 10000 ? atomicAdd(&blocks, 1u) / gridDim.x : 0;
    __syncthreads();
    if (i < n && launch < 2)";
    assert!(saxpy.contains(guard), "{saxpy}");
    format!("__device__ unsigned blocks;\n{}", saxpy.replace(guard, counted))
}

#[test]
fn an_answer_that_writes_nothing_once_it_is_timed_is_wrong_on_a_gpu() {
    let test = "an_answer_that_writes_nothing_once_it_is_timed_is_wrong_on_a_gpu";
    if is_handout(test) {
        return;
    }
    let saxpy = kernels().into_iter().find(|(definition, _)| definition.id == "E05").unwrap().0;
    let lazy = lazy(&text(&saxpy, "solution.cu"));
    let exercise = |choice| {
        let exercises = notebooks().join("exercises");
        Exercise::in_folders(&Lab::on(choice).unwrap(), saxpy.clone(), &exercises, None).unwrap()
    };
    // The emulator does not run the timed size, so there the kernel is right.
    let tried = exercise(Choice::Cpu).try_source(&lazy).unwrap();
    assert!(tried.verdict.is_right(), "{}", tried.line());
    if testing::gpu(test).is_none() {
        return;
    }
    let tried = exercise(Choice::Cuda(0)).try_source(&lazy).unwrap();
    assert_eq!((tried.verdict, tried.cause_id()), (Verdict::NotYet, Some("wrong_on_gpu")), "{}", tried.line());
}

//! Tests the verdicts on stubs, solutions and wrong answers in the emulator.

use crate::files::{is_handout, kernels, notebooks, other_answers, text, wrong_answers};
use std::time::Instant;
use warpbook_device::Choice;
use warpbook_exercises::all;
use warpbook_lab::Lab;
use warpbook_lab::exercise::{Answer, Definition, Exercise, KernelTask, Task, Tried, Verdict};

/// A kernel that is appended to a stub, since an unchanged stub is not judged.
pub const ANOTHER: &str = "\nextern \"C\" __global__ void another_one() {}\n";
/// Seed of the inputs, which is fixed so that a failure can be repeated.
pub const SEED: u64 = 17;
/// Maximum number of thread instructions for a verdict.
const MOST_STEPS: u64 = 10_000_000;

/// Opens an exercise of this checkout, without a progress file.
fn exercise(definition: &Definition) -> Exercise {
    let lab = Lab::on(Choice::Cpu).unwrap();
    Exercise::in_folders(&lab, definition.clone(), &notebooks().join("exercises"), None).unwrap()
}

/// Tries a source, and fails if the verdict took too many instructions.
fn judged(exercise: &Exercise, source: &str, seed: u64) -> Tried {
    let tried = exercise.try_seeded(source, seed).unwrap_or_else(|why| panic!("{why}"));
    assert!(tried.compile_error.is_none(), "{}", tried.line());
    assert!(tried.thread_steps <= MOST_STEPS, "{}: {} instructions", tried.line(), tried.thread_steps);
    tried
}

/// Returns the best verdict: exercises without targets end at RIGHT.
fn best(task: &KernelTask) -> Verdict {
    if task.targets.is_empty() { Verdict::Right } else { Verdict::RightAndOnTarget }
}

/// Returns the ids of the causes that a right answer gets if it misses a target.
fn missed(task: &KernelTask) -> Vec<&'static str> {
    task.targets.iter().filter_map(|target| target.missed).map(|(id, _)| id).collect()
}

#[test]
fn a_stub_is_unchanged_and_with_another_line_it_is_not_yet_right_or_on_target() {
    for (definition, task) in kernels() {
        let exercise = exercise(&definition);
        let stub = text(&definition, "stub.cu");
        assert_eq!(judged(&exercise, &stub, SEED).verdict, Verdict::Unchanged, "{}", definition.folder);
        let tried = judged(&exercise, &(stub + ANOTHER), SEED);
        // If the exercise is to make a slow kernel fast, its stub is right but misses a target.
        let is_slow = tried.verdict == Verdict::Right && tried.cause_id().is_some_and(|id| missed(&task).contains(&id));
        assert!(tried.verdict == Verdict::NotYet || is_slow, "{}", tried.line());
        assert!(!tried.sentence.is_empty(), "{}", tried.line());
    }
}

#[test]
fn a_right_stub_with_other_names_is_unchanged() {
    let mut number = 0;
    for (definition, _) in kernels() {
        let exercise = exercise(&definition);
        let stub = text(&definition, "stub.cu");
        let is_right = judged(&exercise, &(stub.clone() + ANOTHER), SEED).verdict == Verdict::Right;
        // A declaration that nothing uses changes the source, and not its code.
        let (head, body) = stub.split_once('{').unwrap();
        let tried = judged(&exercise, &format!("{head}{{\n    int unused = 0;{body}"), SEED);
        let expected = if is_right { Verdict::Unchanged } else { Verdict::NotYet };
        let same = "The compiler makes the same code of this as of the stub";
        let is_told = tried.sentence.starts_with(same) || tried.remarks.iter().any(|remark| remark.starts_with(same));
        assert!(tried.verdict == expected && is_told, "{} {:?}", tried.line(), tried.remarks);
        number += u32::from(is_right);
    }
    assert!(number >= 5, "{number} stubs are right");
}

#[test]
fn every_solution_is_right_and_on_target() {
    if is_handout("every_solution_is_right_and_on_target") {
        return;
    }
    for (definition, task) in kernels() {
        let exercise = exercise(&definition);
        for seed in [SEED, SEED + 1, u64::MAX] {
            let tried = judged(&exercise, &text(&definition, "solution.cu"), seed);
            assert_eq!((tried.verdict, tried.cause_id()), (best(&task), None), "{} (seed {seed})", tried.line());
        }
    }
}

#[test]
fn other_good_answers_than_the_solutions_are_right_and_on_target() {
    if is_handout("other_good_answers_than_the_solutions_are_right_and_on_target") {
        return;
    }
    let mut number = 0;
    for (definition, task) in kernels() {
        let exercise = exercise(&definition);
        for (file, source) in other_answers(&definition) {
            number += 1;
            for seed in [SEED, SEED + 1] {
                let tried = judged(&exercise, &source, seed);
                let got = (tried.verdict, tried.cause_id());
                assert_eq!(got, (best(&task), None), "{file}: {} (seed {seed})", tried.line());
            }
        }
    }
    assert!(number >= 9, "{number}");
}

#[test]
fn every_wrong_answer_gets_its_own_cause() {
    if is_handout("every_wrong_answer_gets_its_own_cause") {
        return;
    }
    let mut wrong = Vec::new();
    for (definition, task) in kernels() {
        let exercise = exercise(&definition);
        for (file, cause, source) in wrong_answers(&definition) {
            let tried = judged(&exercise, &(source + ANOTHER), SEED);
            let expected = if missed(&task).contains(&cause.as_str()) { Verdict::Right } else { Verdict::NotYet };
            if (tried.verdict, tried.cause_id()) != (expected, Some(cause.as_str())) {
                let got = tried.cause_id().unwrap_or("none");
                wrong.push(format!(
                    "{file} should be {}, cause {cause}: {} (cause {got})",
                    expected.words(),
                    tried.line()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_second_try_is_fast() {
    if is_handout("the_second_try_is_fast") {
        return;
    }
    for (definition, _) in kernels() {
        let exercise = exercise(&definition);
        let solution = text(&definition, "solution.cu");
        judged(&exercise, &solution, SEED);
        // Other tests run at the same time, so the fastest of five tries counts. Each has another source, so that its code is
        // not in any cache.
        let tries = (0..5).map(|number| {
            let source = format!("// {number} {}\n{solution}{ANOTHER}", std::process::id());
            let started = Instant::now();
            judged(&exercise, &source, SEED);
            started.elapsed().as_secs_f64()
        });
        let fastest = tries.fold(f64::INFINITY, f64::min);
        println!("{}: {:.0} ms", definition.id, 1e3 * fastest);
        assert!(fastest <= 0.4, "{}: {fastest} s", definition.id);
    }
}

#[test]
fn a_quiz_knows_right_answers_from_those_that_people_give() {
    for definition in all() {
        let Task::Answers(questions) = definition.task else { continue };
        let exercise = exercise(&definition);
        let right: Vec<String> = questions.iter().map(|question| answer(question.right)).collect();
        let tried = |answers: &[String]| {
            let answers: Vec<&str> = answers.iter().map(String::as_str).collect();
            exercise.answer(&answers).unwrap()
        };
        assert_eq!(tried(&right).verdict, Verdict::Right, "{}", definition.id);
        for (at, question) in questions.iter().enumerate() {
            assert!(question.causes.len() >= 2, "{}: {}", definition.id, question.text);
            for (wrong, _) in question.causes {
                let mut answers = right.clone();
                answers[at] = (*wrong).to_owned();
                let tried = tried(&answers);
                assert_eq!(tried.verdict, Verdict::NotYet, "{} {wrong}: {}", question.text, tried.line());
            }
        }
    }
}

/// Returns a right answer in the form in which a learner types it.
fn answer(right: Answer) -> String {
    match right {
        Answer::Choice(letter) => letter.to_string(),
        Answer::Number(number, _) => number.to_string(),
    }
}

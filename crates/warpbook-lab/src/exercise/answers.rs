//! Judges answers to questions, and Rust functions.

use super::definition::{Answer, FunctionTask, Question};
use super::draw::Draw;
use super::judge::{Judged, LikelyCause};

/// Judges answers, in the order of the questions.
pub(super) fn judge_answers(questions: &[Question], answers: &[&str]) -> Judged {
    if questions.len() != answers.len() {
        let given = match answers.len() {
            1 => "1 answer was given".to_owned(),
            n => format!("{n} answers were given"),
        };
        let sentence = format!("There are {} questions, and {given}.", questions.len());
        let sentence_of_cause =
            "Give one answer per question, in the order of the questions; an empty string skips a question.";
        let cause = Some(LikelyCause { id: "number_of_answers".into(), sentence: sentence_of_cause.into() });
        return Judged { sentence, cause, ..Judged::default() };
    }
    let asked = || (1..).zip(questions.iter().zip(answers));
    let wrong: Vec<(usize, &Question, &str)> =
        asked().filter(|(_, (question, answer))| !is_right(question, answer)).map(|(n, (q, a))| (n, q, *a)).collect();
    let Some((number, question, answer)) = wrong.first().copied() else {
        return Judged { is_right: true, ..Judged::default() };
    };
    let right = questions.len() - wrong.len();
    let sentence = match answer.trim() {
        "" => format!("{right} of {} are right. Question {number} is not answered yet.", questions.len()),
        answer => format!("{right} of {} are right. Question {number}: {answer} is not right.", questions.len()),
    };
    let known = question.causes.iter().find(|(given, _)| same(given, answer));
    let cause = known.map(|(_, why)| LikelyCause { id: format!("question_{number}"), sentence: (*why).into() });
    Judged { sentence, cause, ..Judged::default() }
}

/// Returns a sentence for each question: why its answer is right or wrong, or that it is not answered.
pub(super) fn explain(questions: &[Question], answers: &[&str]) -> Vec<String> {
    let one = |(number, (question, answer)): (usize, (&Question, &&str))| match answer.trim() {
        "" => format!("Question {number} is not answered yet."),
        given if is_right(question, given) => format!("Question {number}: {given} is right. {}", question.why),
        given => {
            let known = question.causes.iter().find(|(cause, _)| same(cause, given));
            let why = known.map(|(_, why)| format!(" {why}")).unwrap_or_default();
            format!("Question {number}: {given} is not right.{why}")
        }
    };
    (1..).zip(questions.iter().zip(answers)).map(one).collect()
}

fn is_right(question: &Question, answer: &str) -> bool {
    match question.right {
        Answer::Choice(letter) => same(answer, letter.encode_utf8(&mut [0; 4])),
        // NaN is never within the tolerance.
        Answer::Number(right, within) => {
            answer.trim().replace(['_', ' '], "").parse::<f64>().is_ok_and(|v| (v - right).abs() <= within)
        }
    }
}

fn same(a: &str, b: &str) -> bool {
    a.trim().eq_ignore_ascii_case(b.trim())
}

/// A learner's function, which takes lists of numbers and returns lists of numbers.
type Learners<'a> = &'a dyn Fn(&[Vec<f64>]) -> Vec<Vec<f64>>;

/// Judges a function with two inputs at every size.
pub(super) fn judge_function(task: &FunctionTask, function: Learners<'_>, seed: u64) -> Judged {
    for (at, size) in (0u32..).zip(task.sizes) {
        for input in 0..2 {
            let case = (task.case)(*size, &mut Draw::new(seed, 2 * at + input));
            let got = function(&case.arguments);
            let lengths = |lists: &[Vec<f64>]| lists.iter().map(Vec::len).collect::<Vec<_>>();
            if lengths(&got) != lengths(&case.expected) {
                let (got, expected) = (lengths(&got), lengths(&case.expected));
                let sentence = format!("At {}, it returns lists of {got:?} numbers, not of {expected:?}.", case.name);
                return Judged { sentence, ..Judged::default() };
            }
            let pairs = || got.iter().flatten().zip(case.expected.iter().flatten());
            // NaN is never within the tolerance.
            let is_right = |(got, expected): &(&f64, &f64)| (*got - *expected).abs() <= case.tolerance;
            if let Some((index, (got, expected))) = pairs().enumerate().find(|(_, pair)| !is_right(pair)) {
                let sentence = format!("At {}, number {index} is {got} and should be {expected}.", case.name);
                return Judged { sentence, ..Judged::default() };
            }
        }
    }
    Judged { is_right: true, ..Judged::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exercise::FunctionCase;

    const QUESTIONS: [Question; 2] = [
        Question {
            text: "How many threads has a warp?",
            choices: &[],
            right: Answer::Number(32.0, 0.0),
            causes: &[("16", "16 is half a warp.")],
            why: "It always has 32.",
        },
        Question {
            text: "Which is larger?",
            choices: &["a warp", "a block"],
            right: Answer::Choice('b'),
            causes: &[],
            why: "A block has up to 32 warps.",
        },
    ];

    #[test]
    fn answers_are_judged_one_by_one() {
        let judged = |answers: &[&str]| judge_answers(&QUESTIONS, answers);
        assert!(judged(&["32", " B "]).is_right);
        let wrong = judged(&["16", "b"]);
        assert!(!wrong.is_right && wrong.sentence.contains("1 of 2") && wrong.sentence.contains("Question 1"));
        assert_eq!(wrong.cause.unwrap().sentence, "16 is half a warp.");
        assert!(judged(&["32", ""]).sentence.contains("not answered"));
        assert!(!judged(&["NaN", "b"]).is_right && !judged(&["32"]).is_right && !judged(&["", ""]).is_right);
    }

    #[test]
    fn each_answer_is_explained() {
        assert_eq!(
            explain(&QUESTIONS, &["16", "B"]),
            ["Question 1: 16 is not right. 16 is half a warp.", "Question 2: B is right. A block has up to 32 warps."]
        );
        assert_eq!(
            explain(&QUESTIONS, &["8", " "]),
            ["Question 1: 8 is not right.", "Question 2 is not answered yet."]
        );
    }

    #[test]
    fn a_function_is_called_at_every_size() {
        let task = FunctionTask {
            signature: "|lists| lists",
            sizes: &[[1, 1, 1], [5, 1, 1]],
            case: |[n, ..], draw| {
                let x: Vec<f64> = draw.floats(n as usize).into_iter().map(f64::from).collect();
                let twice = x.iter().map(|x| 2.0 * x).collect();
                FunctionCase { name: format!("n = {n}"), arguments: vec![x], expected: vec![twice], tolerance: 0.0 }
            },
        };
        let judged = |function: Learners<'_>| judge_function(&task, function, 7);
        assert!(judged(&|lists| vec![lists[0].iter().map(|x| x + x).collect()]).is_right);
        assert!(judged(&|lists| lists.to_vec()).sentence.contains("At n = 1, number 0"));
        assert!(judged(&|lists| vec![vec![2.0 * lists[0][0]]]).sentence.contains("[1] numbers, not of [5]"));
        assert!(!judged(&|lists| vec![vec![f64::NAN; lists[0].len()]]).is_right);
    }
}

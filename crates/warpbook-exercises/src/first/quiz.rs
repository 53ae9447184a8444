//! The quiz of lesson 00: eight questions after the first kernels.

use super::LESSON;
use warpbook_lab::exercise::{Answer, Definition, Question, Task};

/// Eight questions about threads, launches, bytes and races.
pub(crate) const QUIZ: Definition = Definition {
    id: "Q00",
    folder: "Q00_eight_questions",
    lesson: LESSON,
    title: "Eight questions",
    task: Task::Answers(&QUESTIONS),
};

const QUESTIONS: [Question; 8] = [
    Question {
        text: "A launch has 4 blocks of 256 threads. Which element does thread 10 of block 3 compute, by the usual formula?",
        choices: &[],
        right: Answer::Number(778.0, 0.0),
        causes: &[
            ("10", "That is its number in its own block: add the threads of the blocks before it."),
            ("40", "Block 3 begins after three blocks of 256 threads, not after three threads or blocks of 10."),
            (
                "521",
                "Blocks and threads are counted from 0: three blocks lie before block 3, and ten threads before thread 10.",
            ),
            ("1034", "Blocks are counted from 0, so three of them lie before block 3, not four."),
            ("2563", "The block's number is multiplied by the threads of a block, not the thread's by them."),
        ],
        why: "`blockIdx.x * blockDim.x + threadIdx.x` is 3 × 256 + 10 = 778.",
    },
    Question {
        text: "How many blocks of 256 threads does it take for 1000 elements?",
        choices: &[],
        right: Answer::Number(4.0, 0.0),
        causes: &[
            ("3", "Three blocks have 768 threads: 232 elements would be left out. Round up."),
            ("3.9", "A launch has whole blocks: round up."),
            ("1000", "That would be a block for each element, with 255 idle threads in each."),
        ],
        why: "1000 / 256, rounded up, is 4. The last block has 24 threads without an element.",
    },
    Question {
        text: "The whole body of a kernel is inside `if (i < n) { ... }`. What do the threads for which this is false do?",
        choices: &[
            "They are never started.",
            "They run to the end of the kernel without touching memory.",
            "They wait until the other threads have ended.",
            "They cause an error that the host sees.",
        ],
        right: Answer::Choice('b'),
        causes: &[
            ("a", "A launch starts whole blocks. That is why the kernel has to ask."),
            ("c", "Nobody waits at the end of a kernel: a thread that is done is gone."),
            ("d", "It is normal for a thread to have no element. Only an access outside the arrays is an error."),
        ],
        why: "The last block starts all of its threads. The guard lets those without an element do nothing.",
    },
    Question {
        text: "On a GPU, `kernel.launch(...)` has returned without an error. What is certain?",
        choices: &[
            "The kernel has ended.",
            "The kernel has begun.",
            "The kernel is in the stream's queue.",
            "The results have arrived on the host.",
        ],
        right: Answer::Choice('c'),
        causes: &[
            ("a", "The launch does not wait for the kernel. A copy back does."),
            ("b", "It may still be behind other work in the queue."),
            ("d", "Results come to the host only when you copy them."),
        ],
        why: "A launch queues the kernel and returns at once. Whoever needs the result waits, for example in `to_vec`.",
    },
    Question {
        text: "A matrix of 100 rows and 40 columns lies in memory row by row. Which element of the array is row 2, column 3, if rows, columns and elements are counted from 0?",
        choices: &[],
        right: Answer::Number(83.0, 0.0),
        causes: &[
            ("203", "A row has as many elements as there are columns: 40, not 100."),
            ("302", "That is column by column: here a row's elements lie together."),
            ("122", "Row and column are exchanged: row 2 begins at element 2 × 40."),
            (
                "42",
                "Rows and columns are counted from 0: two rows lie before row 2, and three columns before column 3.",
            ),
            ("6", "Row 2 begins after two whole rows of 40 elements: add, do not multiply."),
        ],
        why: "Row 2 begins at 2 × 40, and column 3 is 3 further: 83.",
    },
    Question {
        text: "A kernel computes `z[i] = x[i] * y[i]` for arrays of `float`. How many bytes does it move for each element?",
        choices: &[],
        right: Answer::Number(12.0, 0.0),
        causes: &[
            ("8", "Count the write to z, too."),
            ("4", "That is one of its three accesses."),
            ("3", "Three accesses of 4 bytes each: count bytes."),
            ("16", "Three accesses, not four: z is only written."),
        ],
        why: "It reads 4 bytes of x and 4 of y, and writes 4 of z.",
    },
    Question {
        text: "A thousand threads execute `count[0] += 1` on a count that was 0. What may the count be afterwards?",
        choices: &[
            "1000, always.",
            "1, always.",
            "Any number from 1 to 1000, perhaps another one in each run.",
            "0, since the threads block each other.",
        ],
        right: Answer::Choice('c'),
        causes: &[
            ("a", "Only with `atomicAdd`. The plain line reads, adds and writes, and others come in between."),
            ("b", "Often it is about as low, but nothing promises that all threads read the old 0."),
            ("d", "No thread is stopped: each of them writes a number of at least 1."),
        ],
        why: "It is a race: each thread may or may not see the additions of the others. `atomicAdd(&count[0], 1)` gives 1000.",
    },
    Question {
        text: "Which of these lines may stand in `if (threadIdx.x < 16) { ... }` in a block of 128 threads?",
        choices: &["`__syncthreads();`", "`y[i] = 0;`", "both", "neither"],
        right: Answer::Choice('b'),
        causes: &[
            ("a", "112 threads of the block would never arrive at the barrier."),
            ("c", "112 threads of the block would never arrive at the barrier."),
            ("d", "A write in a condition is fine: that is what a guard is."),
        ],
        why: "All threads of a block have to arrive at `__syncthreads()`, so it must not be where some of them do not come.",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_task_has_every_question_with_its_choices() {
        let crates = std::env::var("CARGO_MANIFEST_DIR").unwrap();
        let file = format!("{crates}/../../notebooks/exercises/{}/task.md", QUIZ.folder);
        let task = std::fs::read_to_string(file).unwrap();
        for (number, question) in (1..).zip(&QUESTIONS) {
            assert!(task.contains(&format!("{number}. {}\n", question.text)), "{}", question.text);
            for (letter, choice) in ('a'..).zip(question.choices) {
                assert!(task.contains(&format!("   - **{letter}** {choice}\n")), "{choice}");
            }
        }
    }

    #[test]
    fn a_wrong_answer_with_a_reason_is_not_the_right_one() {
        for question in &QUESTIONS {
            assert!(question.causes.len() >= 3 && !question.why.is_empty(), "{}", question.text);
            for (answer, _) in question.causes {
                let is_right = match question.right {
                    Answer::Choice(right) => *answer == right.to_string(),
                    Answer::Number(right, within) => (answer.parse::<f64>().unwrap() - right).abs() <= within,
                };
                assert!(!is_right, "{}: {answer}", question.text);
            }
        }
    }
}

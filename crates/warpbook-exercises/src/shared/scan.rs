//! E16: running sums within a block.

use super::{LESSON, reads_per_element};
use crate::causes::only_written;
use warpbook_lab::exercise::{
    Case, Costs, Definition, Draw, KernelTask, Mistake, Size, Target, Task, Tolerance, Wrong,
};

/// Number of elements of a block.
const PART: usize = 256;

pub(crate) const SCAN: Definition = Definition {
    id: "E16",
    folder: "E16_scan",
    lesson: LESSON,
    title: "The running sums of a block",
    task: Task::Kernel(KernelTask {
        entry: "scan",
        signature: "extern \"C\" __global__ void scan(const int* x, int* y, int n)",
        sizes: &[[256, 1, 1], [1, 1, 1], [100, 1, 1], [1000, 1, 1]],
        case: scan,
        targets: &[
            Target::at_most("barriers of a block", 16.0, Costs::barriers).because(
                "too_many_barriers",
                "One array needs two barriers in each step, but none after the last one: each thread then writes its own sum. With two arrays, a step reads one and writes the other, and needs one barrier.",
            ),
            Target::at_most("reads of global memory for each element", 1.0, reads_per_element).because(
                "read_many_times",
                "Each thread reads all elements on its left from global memory. Read each of them once, and share sums.",
            ),
            Target::at_most("words read from shared memory by each thread", 20.0, |costs| {
                costs.total.shared_words_loaded as f64 / costs.threads as f64
            })
            .because(
                "quadratic",
                "Each thread adds up everything on its left. In eight steps, each of which adds one neighbour's sum, it reads 16 words.",
            ),
            Target::at_least("active lanes of a warp", 16.0, Costs::active_lanes).because(
                "one_thread",
                "One thread does nearly all the work, and the others wait. In each of eight steps, all threads can add.",
            ),
        ],
        time: None,
        mistakes: &[
            Mistake::new(
                "exclusive",
                "Each result is the sum of the elements before it. In an inclusive scan the element itself belongs to the sum.",
                |wrong| window(wrong, |i| (i / PART * PART, i)),
            ),
            Mistake::new(
                "step_missing",
                "Each sum holds only some of the elements on its left: steps are missing. They are 1, 2, 4, and so on to 128.",
                |wrong| {
                    let x = wrong.input("x");
                    let sum = |i: usize, most: usize| x[(i / PART * PART).max((i + 1).saturating_sub(most))..=i].iter().sum();
                    (1..8).any(|steps| wrong.looks_like(|i| sum(i, 1 << steps)))
                },
            ),
            Mistake::new(
                "first_of_each_step",
                "In each step, thread `step` adds nothing. Its neighbour is thread 0, at `t - step`: the condition is `t >= step`, and not `t > step`.",
                |wrong| {
                    let sums = stepped(wrong, |t, step| t > step);
                    wrong.looks_like(|i| sums[i])
                },
            ),
            Mistake::new(
                "arrays_not_exchanged",
                "Each step began with the elements again, not with the sums of the step before. After each step the two arrays change roles.",
                |wrong| {
                    let x = wrong.input("x");
                    wrong.looks_like(|i| x[i] + if i % PART >= PART / 2 { x[i - PART / 2] } else { 0.0 })
                },
            ),
            Mistake::new(
                "from_the_right",
                "Each result is the sum from its element to the end of the block. Add the neighbour on the left, `t - step`.",
                |wrong| window(wrong, |i| (i, (i / PART + 1) * PART)),
            ),
            Mistake::new(
                "no_block_index",
                "Only the elements of the first block were written. `blockIdx.x` says which block a thread is in.",
                |wrong| only_written(wrong, |i| i < PART),
            ),
        ],
        faults: &[
            (
                "race",
                "A thread overwrites a sum that another one reads in the same step, and nothing orders the two. Read one array and write another, with a barrier before each step.",
            ),
            (
                "barrier",
                "Some threads have no neighbour so far on their left. They have to reach `__syncthreads()` too: put it outside of every `if`, and let no thread `return` before it.",
            ),
            (
                "out_of_bounds",
                "Threads with `t < step` have no neighbour there, and the last block has threads without an element.",
            ),
            ("unwritten", "A sum was read that no thread has written. Which array did the last step write?"),
            ("endless", "The loop over the steps never ends. Does `step` begin with 1, and double in every round?"),
        ],
    }),
};

/// Returns true if each result is the sum of the elements in a range (the end is exclusive), which depends on its
/// index.
fn window(wrong: &Wrong, range: fn(usize) -> (usize, usize)) -> bool {
    let x = wrong.input("x");
    let sum = |(begin, end): (usize, usize)| x[begin..end.min(x.len())].iter().sum();
    wrong.looks_like(|i| sum(range(i)))
}

/// Returns the result of eight steps in which thread `t` adds its neighbour only if `adds` returns true for the thread
/// and the step.
fn stepped(wrong: &Wrong, adds: fn(usize, usize) -> bool) -> Vec<f64> {
    let mut sums = wrong.input("x");
    for step in (0..8).map(|power| 1 << power) {
        let next = |i: usize| sums[i] + if adds(i % PART, step) { sums[i - step] } else { 0.0 };
        sums = (0..sums.len()).map(next).collect();
    }
    sums
}

/// Creates a launch with blocks of 256 threads for `n` elements.
fn scan([n, ..]: Size, draw: &mut Draw) -> Case {
    let x: Vec<i32> = draw.integers(n as usize, 100).iter().map(|v| v + 1).collect();
    let running = |part: &[i32]| -> Vec<i32> {
        let add = |sum: &mut i32, v: &i32| {
            *sum += v;
            Some(*sum)
        };
        part.iter().scan(0, add).collect()
    };
    let expected: Vec<i32> = x.chunks(PART).flat_map(running).collect();
    Case::new(format!("n = {n}")).over(n, 256).input("x", x).output("y", expected, Tolerance::Exact).int("n", n)
}

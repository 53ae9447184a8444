//! E07 and E08: threads that access the same memory.

use super::LESSON;
use warpbook_lab::exercise::{Case, Definition, Draw, KernelTask, Mistake, Size, Task, Tolerance};

pub(crate) const HISTOGRAM: Definition = Definition {
    id: "E07",
    folder: "E07_histogram",
    lesson: LESSON,
    title: "Repair a race",
    task: Task::Kernel(KernelTask {
        entry: "histogram",
        signature: "extern \"C\" __global__ void histogram(const int* kind, int* count, int n)",
        sizes: &[[1000, 1, 1], [1, 1, 1], [31, 1, 1], [5003, 1, 1]],
        case: histogram,
        targets: &[],
        time: None,
        mistakes: &[
            Mistake::new(
                "no_block_index",
                "Every block counted the elements of the first one. `blockIdx.x` says which block a thread is in.",
                |wrong| {
                    let (kind, blocks) = (wrong.input("kind"), f64::from(wrong.case().grid()[0]));
                    let first = counts(kind.iter().take(256).map(|kind| *kind as usize));
                    wrong.looks_like(|k| blocks * f64::from(first[k]))
                },
            ),
            Mistake::new("added_the_kind", "The kind was added instead of 1.", |wrong| {
                let count = wrong.expected();
                wrong.looks_like(|k| k as f64 * count[k])
            }),
            Mistake::new(
                "one_count",
                "Everything was counted in `count[0]`. The kind of element `i` is `kind[i]`.",
                |wrong| {
                    let n = wrong.number("n");
                    wrong.looks_like(|k| if k == 0 { n } else { 0.0 })
                },
            ),
            Mistake::new("copied_kinds", "The counts are the kinds of the first elements.", |wrong| {
                let kind = wrong.input("kind");
                wrong.looks_like(|k| kind.get(k).copied().unwrap_or(0.0))
            }),
            Mistake::new("one_block", "Only the elements of the first block were counted.", |wrong| {
                let kind = wrong.input("kind");
                let first = counts(kind.iter().take(256).map(|kind| *kind as usize));
                wrong.looks_like(|k| f64::from(first[k]))
            }),
            Mistake::new(
                "lost_updates",
                "Elements were lost between a read and a write: each is atomic, but other threads come in between. One function has to do both.",
                |wrong| {
                    let (got, kind) = (wrong.got(), wrong.input("kind"));
                    // If the result counts only the first elements, this is another mistake.
                    let part = counts(kind.iter().take(got.iter().sum::<f64>() as usize).map(|kind| *kind as usize));
                    let is_less = got.iter().zip(wrong.expected()).all(|(got, count)| got <= count);
                    is_less && !wrong.looks_like(|k| f64::from(part[k]))
                },
            ),
        ],
        faults: &[
            (
                "out_of_bounds",
                "`kind` has elements 0 to `n` - 1, and `count` has elements 0 to 15. An element is counted at its kind, which is `kind[i]`.",
            ),
            (
                "trap",
                "`atomicAdd` needs an element that threads share, such as `&count[0]`. A variable of the kernel belongs to one thread.",
            ),
            (
                "race",
                "Two threads change the same count, and nothing orders them: one of the two elements may get lost. `atomicAdd` does all three steps in one.",
            ),
            ("endless", "Threads wait for each other forever. Counting needs no lock: `atomicAdd` is enough."),
        ],
    }),
};

/// Number of kinds of elements, each with a count.
const KINDS: usize = 16;

fn counts(kinds: impl Iterator<Item = usize>) -> [i32; KINDS] {
    kinds.fold([0; KINDS], |mut counts, kind| {
        counts[kind] += 1;
        counts
    })
}

/// Creates a launch with blocks of 256 threads for `n` elements of 16 kinds.
fn histogram([n, ..]: Size, draw: &mut Draw) -> Case {
    let kinds = draw.integers(n as usize, KINDS as u32);
    let expected = counts(kinds.iter().map(|kind| *kind as usize));
    Case::new(format!("n = {n}"))
        .over(n, 256)
        .elements(n.into())
        .input("kind", kinds)
        .update("count", vec![0; KINDS], expected.to_vec(), Tolerance::Exact)
        .int("n", n)
}

pub(crate) const BARRIER: Definition = Definition {
    id: "E08",
    folder: "E08_barrier",
    lesson: LESSON,
    title: "Find the bug",
    task: Task::Kernel(KernelTask {
        entry: "differences",
        signature: "extern \"C\" __global__ void differences(const float* x, float* y, int n)",
        sizes: &[[1000, 1, 1], [1, 1, 1], [128, 1, 1], [5003, 1, 1]],
        case: differences,
        targets: &[],
        time: None,
        mistakes: &[
            Mistake::new(
                "wrong_sign",
                "The element was subtracted from its neighbour. It should be the other way round.",
                |wrong| {
                    let difference = wrong.expected();
                    wrong.looks_like(|i| -difference[i])
                },
            ),
            Mistake::new(
                "across_blocks",
                "The first thread of a block took the last element of the block before. It should write 0.",
                |wrong| {
                    let x = wrong.input("x");
                    wrong.looks_like(|i| if i > 0 { x[i] - x[i - 1] } else { 0.0 })
                },
            ),
            Mistake::new(
                "first_is_itself",
                "The first thread of each block wrote its element. It should write 0.",
                |wrong| {
                    let (x, difference) = (wrong.input("x"), wrong.expected());
                    wrong.looks_like(|i| if i % PART == 0 { x[i] } else { difference[i] })
                },
            ),
            Mistake::new(
                "no_block_index",
                "Only the elements of the first block were written. `blockIdx.x` says which block a thread is in.",
                |wrong| wrong.written_only(|i| i < PART),
            ),
        ],
        faults: &[
            (
                "barrier",
                "The last block has threads without an element. They have to reach `__syncthreads()` too: let no thread return before it, and put it outside of every `if`.",
            ),
            (
                "race",
                "A thread reads what its neighbour writes, and nothing orders the two. The barrier belongs between the writes to `part` and the reads from it.",
            ),
            (
                "out_of_bounds",
                "Threads without an element must not touch `x` and `y`, and the first thread of a block has no neighbour in `part`.",
            ),
            ("unwritten", "A thread read a place of `part` that no thread has written. Which thread's place is it?"),
        ],
    }),
};

/// Number of elements of a block.
const PART: usize = 128;

/// Creates a launch with blocks of 128 threads for `n` elements.
fn differences([n, ..]: Size, draw: &mut Draw) -> Case {
    let x = draw.floats(n as usize);
    let difference = |i: usize| if i.is_multiple_of(PART) { 0.0 } else { x[i] - x[i - 1] };
    let expected: Vec<f32> = (0..x.len()).map(difference).collect();
    Case::new(format!("n = {n}")).over(n, PART as u32).input("x", x).output("y", expected, Tolerance::Exact).int("n", n)
}

//! E14: a mean over seven neighbours that reads each element once.

use super::{LESSON, large_floats, reads_per_element};
use crate::causes::only_written;
use warpbook_lab::exercise::{
    Case, Costs, Definition, Draw, KernelTask, Mistake, Size, Target, Task, Tolerance, Wrong,
};

/// Number of elements per block; `HALO` is the number of neighbours on each side.
const PART: usize = 256;
const HALO: usize = 3;

pub(crate) const STENCIL: Definition = Definition {
    id: "E14",
    folder: "E14_stencil",
    lesson: LESSON,
    title: "Each element is read once",
    task: Task::Kernel(KernelTask {
        entry: "smooth",
        signature: "extern \"C\" __global__ void smooth(const float* x, float* y, int n)",
        sizes: &[[1000, 1, 1], [1, 1, 1], [256, 1, 1], [258, 1, 1], [2003, 1, 1]],
        case: smooth,
        targets: &[
            Target::at_most("reads of global memory for each element", 1.05, reads_per_element).because(
                "read_seven_times",
                "Each element is read once for each of its neighbours. Let each thread put its own element into a tile in shared memory, and take the neighbours from there.",
            ),
            Target::at_least("active lanes of a warp", 16.0, Costs::active_lanes).because(
                "one_thread",
                "One thread smooths many points in turn, and the other threads of its warp are idle. Let all 256 threads fill the tile, and let thread `t` compute the mean of its own point only.",
            ),
        ],
        time: None,
        mistakes: &[
            Mistake::new(
                "no_halo",
                "Only the first and last three points of each block are wrong: the tile ends with the block. Neighbours that belong to other blocks have to be in it, too.",
                |wrong| smoothed(wrong, |i, at| i / PART == at / PART),
            ),
            Mistake::new(
                "half_a_halo",
                "Only the last three points of each block are wrong: the halo on the right is missing.",
                |wrong| smoothed(wrong, |i, at| at / PART <= i / PART),
            ),
            Mistake::new(
                "half_a_halo",
                "Only the first three points of each block are wrong: the halo on the left is missing.",
                |wrong| smoothed(wrong, |i, at| at / PART >= i / PART),
            ),
            Mistake::new(
                "edges_repeated",
                "At both ends of the array the first and the last element were repeated. Elements that do not exist count as 0.",
                |wrong| {
                    let x = wrong.input("x");
                    let last = x.len() - 1;
                    let at = |i: usize, j: usize| x[(i + j).saturating_sub(HALO).min(last)];
                    wrong.looks_like(|i| (0..=2 * HALO).map(|j| at(i, j)).sum::<f64>() / 7.0)
                },
            ),
            Mistake::new(
                "divided_by_fewer",
                "At both ends of the array the sum was divided by the number of elements that exist. Divide by 7 everywhere.",
                |wrong| {
                    let n = wrong.got().len();
                    let count = |i: usize| i.min(HALO) + 1 + (n - 1 - i).min(HALO);
                    wrong.looks_like(|i| wrong.expected()[i] * 7.0 / count(i) as f64)
                },
            ),
            Mistake::new(
                "shifted",
                "The seven elements begin at the point itself. They should begin three places to its left, which is `tile[t]`.",
                |wrong| {
                    let x = wrong.input("x");
                    let end = |i: usize| ((i / PART + 1) * PART + HALO).min(i + 7).min(x.len());
                    wrong.looks_like(|i| x[i..end(i)].iter().sum::<f64>() / 7.0)
                },
            ),
            Mistake::new(
                "one_neighbour_missing",
                "The third neighbour on the right is missing: seven elements are `tile[t]` to `tile[t + 6]`.",
                |wrong| smoothed(wrong, |i, at| at < i + HALO),
            ),
            Mistake::new(
                "one_neighbour_missing",
                "The third neighbour on the left is missing: seven elements are `tile[t]` to `tile[t + 6]`.",
                |wrong| smoothed(wrong, |i, at| at + HALO > i),
            ),
            Mistake::new(
                "own_point_missing",
                "The point itself is missing: the mean is over seven elements, and the point is the fourth of them.",
                |wrong| smoothed(wrong, |i, at| at != i),
            ),
            Mistake::new("not_divided", "The sums were not divided by 7.", |wrong| {
                wrong.looks_like(|i| 7.0 * wrong.expected()[i])
            }),
            Mistake::new("divided_by_6", "The sums were divided by 6. The point itself is a seventh element.", |wrong| {
                wrong.looks_like(|i| 7.0 / 6.0 * wrong.expected()[i])
            }),
            Mistake::new(
                "no_block_index",
                "Only the elements of the first block were written. `blockIdx.x` says which block a thread is in.",
                |wrong| only_written(wrong, |i| i < PART),
            ),
            Mistake::new(
                "other_halo",
                "Only points at the ends of blocks are wrong: the halo holds other elements than their neighbours. It is the three elements before the block's first one, `i - 3` for threads 0 to 2, and the three after its last one, `i + 256`.",
                |wrong| {
                    let n = wrong.got().len();
                    let is_at_an_end = |i: usize| i % PART < HALO || i % PART >= PART - HALO || i + HALO >= n;
                    let mut wrong_ones = (0..n).filter(|i| wrong.is_wrong(*i));
                    n > PART && wrong_ones.all(|i| wrong.is_written(i) && is_at_an_end(i))
                },
            ),
        ],
        faults: &[
            (
                "race",
                "A thread reads or writes a place of the tile that another thread writes, and nothing orders the two. Each place has one writer, and a barrier comes before the reads.",
            ),
            (
                "barrier",
                "The last block has threads without an element. They have to reach `__syncthreads()` too: put it outside of every `if`, and let no thread `return` before it.",
            ),
            (
                "unwritten",
                "A place of the tile was read that no thread has written. The tile has 3 places more on each side, and somebody has to fill them. In the last block, places past the end of the array need a 0, too.",
            ),
            (
                "out_of_bounds",
                "At the ends of the array some neighbours do not exist: where there is none, put 0 into the tile. The tile itself needs 256 + 6 places.",
            ),
            ("endless", "The loop over the seven elements never ends. Does `j` grow in every round?"),
        ],
    }),
};

/// Returns true if each result `i` is a mean that includes a neighbour `at` only if `counts(i, at)` returns true.
fn smoothed(wrong: &Wrong, counts: fn(usize, usize) -> bool) -> bool {
    let x = wrong.input("x");
    let neighbours = |i: usize| i.saturating_sub(HALO)..(i + HALO + 1).min(x.len());
    wrong.looks_like(|i| neighbours(i).filter(|at| counts(i, *at)).map(|at| x[at]).sum::<f64>() / 7.0)
}

/// Creates a launch with blocks of 256 threads for `n` elements.
fn smooth([n, ..]: Size, draw: &mut Draw) -> Case {
    let x = large_floats(draw, n as usize);
    let neighbours = |i: usize| &x[i.saturating_sub(HALO)..(i + HALO + 1).min(x.len())];
    let mean = |i: usize| neighbours(i).iter().map(|v| f64::from(*v)).sum::<f64>() / 7.0;
    let expected: Vec<f32> = (0..x.len()).map(|i| mean(i) as f32).collect();
    Case::new(format!("n = {n}"))
        .over(n, 256)
        .input("x", x)
        .output("y", expected, Tolerance::Within { relative: 2e-6, scale: 1.0 })
        .int("n", n)
}

//! E17: write a matrix product, starting from an empty body.

use super::causes::{
    A_TRANSPOSED, B_ROW_LENGTH, B_TRANSPOSED, BOTH_TRANSPOSED, C_TRANSPOSED, EXCHANGED, FIRST_TERMS_MISSING,
    FIRST_TERMS_ONLY, OTHER_COLUMN, OTHER_ROW, SCALED,
};
use super::{LESSON, SIGNATURE};
use crate::causes::only_written;
use warpbook_lab::exercise::{Case, Definition, Draw, KernelTask, Mistake, Size, Task, Wrong};

pub(crate) const PRODUCT: Definition = Definition {
    id: "E17",
    folder: "E17_product",
    lesson: LESSON,
    title: "A matrix product, from an empty body",
    task: Task::Kernel(KernelTask {
        entry: "matmul",
        signature: SIGNATURE,
        // Sizes are m, n and k. With a square product, a transposed matrix can be told from other mistakes.
        sizes: &[[32, 32, 32], [1, 1, 1], [33, 17, 9], [20, 37, 45]],
        case: product,
        targets: &[],
        time: None,
        mistakes: &[
            Mistake::new(
                "no_block_index",
                "Only the first 16 rows and columns were written. `blockIdx.x` and `blockIdx.y` say which block a thread is in.",
                |wrong| {
                    let n = wrong.number("n") as usize;
                    only_written(wrong, |i| i / n < 16 && i % n < 16)
                },
            ),
            Mistake::new(
                "axes_exchanged",
                "Rows or columns at the end were not written: x runs over the columns of C, and y over its rows.",
                |wrong| {
                    let (n, [x, y, _]) = (wrong.number("n") as usize, wrong.case().grid());
                    only_written(wrong, |i| i / n < 16 * x as usize && i % n < 16 * y as usize)
                },
            ),
            C_TRANSPOSED,
            A_TRANSPOSED,
            B_TRANSPOSED,
            BOTH_TRANSPOSED,
            EXCHANGED,
            B_ROW_LENGTH,
            OTHER_ROW,
            OTHER_COLUMN,
            FIRST_TERMS_ONLY,
            FIRST_TERMS_MISSING,
            SCALED,
            Mistake::new(
                "whole_numbers",
                "The sum lost its fraction after each product: an `int` holds whole numbers only. Add up in a `float`.",
                |wrong| folded(wrong, |sum, a, b| (sum + a * b).trunc()),
            ),
            Mistake::new("added_factors", "The two numbers were added. They should be multiplied.", |wrong| {
                folded(wrong, |sum, a, b| sum + a + b)
            }),
            Mistake::new(
                "one_product",
                "Elements of A and B at the same place were multiplied. Each element of C is a sum of `k` products, along a row of A and down a column of B.",
                |wrong| {
                    let [m, n, k] = ["m", "n", "k"].map(|name| wrong.number(name) as usize);
                    let (a, b) = (wrong.input("a"), wrong.input("b"));
                    m == k && n == k && wrong.looks_like(|i| a[i] * b[i])
                },
            ),
        ],
        faults: &[
            (
                "out_of_bounds",
                "Blocks at the edges have threads without an element: compare `row` with `m` and `col` with `n`. The last product is number `k - 1`, a row of A has `k` elements, and a row of B has `n`.",
            ),
            (
                "unwritten",
                "The sum begins with something that nobody has written. Let it begin with 0, in a variable of its own.",
            ),
            ("race", "Two threads write the same element. Each should write `c[row * n + col]`, and no other one."),
            ("endless", "The loop never ends. Does `i` grow in every round?"),
        ],
    }),
};

/// Returns true if each element of C is the result of applying `step` to the sum so far and the next two factors, in
/// the order of k.
fn folded(wrong: &Wrong, step: fn(f64, f64, f64) -> f64) -> bool {
    let [n, k] = ["n", "k"].map(|name| wrong.number(name) as usize);
    let (a, b) = (wrong.input("a"), wrong.input("b"));
    wrong.looks_like(|i| (0..k).fold(0.0, |sum, kk| step(sum, a[i / n * k + kk], b[kk * n + i % n])))
}

/// Creates a launch with blocks of 16 x 16 threads.
fn product(size: Size, draw: &mut Draw) -> Case {
    let [m, n, _] = size;
    super::case(size, draw).launch([n.div_ceil(16), m.div_ceil(16), 1], [16, 16, 1])
}

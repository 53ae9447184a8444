//! E09: turns a strided read into a coalesced one.

use warpbook_lab::exercise::{
    Case, Costs, Definition, Draw, KernelTask, Mistake, Size, Target, Task, Tolerance, Wrong,
};

pub(crate) const COALESCED: Definition = Definition {
    id: "E09",
    folder: "E09_coalesced",
    lesson: super::LESSON,
    title: "From 32 sectors to 4",
    task: Task::Kernel(KernelTask {
        entry: "scale_rows",
        signature: "extern \"C\" __global__ void scale_rows(const float* in, const float* factor, float* out, int rows, int cols)",
        sizes: &[[37, 41, 1], [1, 1, 1], [64, 5, 1], [64, 131, 1]],
        case: scale_rows,
        targets: &[
            Target::at_most("sectors a request", 4.0, Costs::sectors_per_request).because(
                "strided",
                "Every element is right, but the threads of a warp still read from different rows. Thread 1 should be one column to the right of thread 0.",
            ),
            Target::at_least("active lanes of a warp", 16.0, Costs::active_lanes).because(
                "one_thread",
                "Every element is right, but one thread walks along a row while the other 31 of its warp wait. Give every thread one element, and compute its row and column from `i`.",
            ),
        ],
        time: None,
        mistakes: &[
            Mistake::new(
                "wrong_divisor",
                "The right part of each row was not written. A row has `cols` elements: divide by that, and not by `rows`.",
                |wrong| {
                    let (rows, cols) = sides(wrong);
                    rows < cols && wrong.written_only(|i| i % cols < rows)
                },
            ),
            Mistake::new(
                "by_columns",
                "The matrix was taken for one that lies in memory column by column. It lies row by row: element `row * cols + col`.",
                |wrong| {
                    let (rows, _) = sides(wrong);
                    let (matrix, factor) = (wrong.input("in"), wrong.input("factor"));
                    wrong.looks_like(|i| factor[i % rows] * matrix[i])
                },
            ),
            Mistake::new("column_for_row", "The kernel used the column's factor. Each row has its own: `factor[row]`.", |wrong| {
                let (rows, cols) = sides(wrong);
                let (matrix, factor) = (wrong.input("in"), wrong.input("factor"));
                wrong.looks_like(|i| factor[i % cols % rows] * matrix[i])
            }),
            Mistake::new("one_factor", "All rows were multiplied by the factor of the first one.", |wrong| {
                let (matrix, factor) = (wrong.input("in"), wrong.input("factor"));
                wrong.looks_like(|i| factor[0] * matrix[i])
            }),
            Mistake::new(
                "no_block_index",
                "Only the elements of the first block were written. `blockIdx.x` says which block a thread is in.",
                |wrong| wrong.written_only(|i| i < 256),
            ),
        ],
        faults: &[
            (
                "out_of_bounds",
                "Only threads whose `i` is less than `rows * cols` may read and write: the last block has more threads than there are elements left. If your guard is right, look at row and column: a row has `cols` elements, so they are `i / cols` and `i % cols`.",
            ),
            ("race", "Two threads touch the same element. Each needs a row and a column that no other thread has."),
        ],
    }),
};

/// Returns the number of rows and the number of columns of the matrix.
fn sides(wrong: &Wrong) -> (usize, usize) {
    (wrong.number("rows") as usize, wrong.number("cols") as usize)
}

/// Creates a launch with blocks of 256 threads for a matrix of `rows` x `cols`.
fn scale_rows([rows, cols, _]: Size, draw: &mut Draw) -> Case {
    let (matrix, factor) = (draw.floats((rows * cols) as usize), draw.floats(rows as usize));
    let expected: Vec<f32> = matrix.iter().enumerate().map(|(i, x)| factor[i / cols as usize] * x).collect();
    Case::new(format!("{rows} rows of {cols}"))
        .over(rows * cols, 256)
        .input("in", matrix)
        .input("factor", factor)
        .output("out", expected, Tolerance::Exact)
        .int("rows", rows)
        .int("cols", cols)
}

//! E15: a transpose that uses a tile without bank conflicts.

use super::LESSON;
use crate::causes::only_written;
use warpbook_lab::exercise::{
    Case, Costs, Definition, Draw, KernelTask, Mistake, Size, Target, Task, Tolerance, Wrong,
};

pub(crate) const TRANSPOSE: Definition = Definition {
    id: "E15",
    folder: "E15_transpose",
    lesson: LESSON,
    title: "A transpose through a tile",
    task: Task::Kernel(KernelTask {
        entry: "transpose",
        signature: "extern \"C\" __global__ void transpose(const float* in, float* out, int rows, int cols)",
        // At the last size, the rows of both matrices consist of whole sectors, so that 4 sectors are enough for a
        // request.
        sizes: &[[64, 64, 1], [33, 17, 1], [1, 40, 1], [96, 72, 1]],
        case: transpose,
        targets: &[
            Target::at_most("sectors a request", 4.0, Costs::sectors_per_request).because(
                "strided",
                "The threads of a warp read or write elements that lie a whole row apart. Go through a tile in shared memory, so that both are along rows.",
            ),
            Target::at_most("ways of bank conflicts", 1.0, Costs::bank_conflict_ways).because(
                "bank_conflicts",
                "The threads of a warp read words of the tile that lie in the same bank. With rows of 33 floats, a column lies in 32 different banks.",
            ),
            Target::at_least("active lanes of a warp", 16.0, Costs::active_lanes).because(
                "one_thread",
                "One thread moves many elements, one at a time, and the other lanes of its warp wait. A tile has 1024 elements and a block as many threads: let each of them read one element and write one.",
            ),
        ],
        time: None,
        mistakes: &[
            Mistake::new(
                "block_not_exchanged",
                "Each tile is turned, but stands where it came from. The block's part of `out` begins at row `blockIdx.x * 32` and column `blockIdx.y * 32`.",
                |wrong| {
                    from_place(wrong, |row, col| (row / 32 * 32 + col % 32, col / 32 * 32 + row % 32))
                },
            ),
            Mistake::new(
                "tile_not_exchanged",
                "Each tile is at the right place, but not turned. Write `tile[threadIdx.y][threadIdx.x]`, and read `tile[threadIdx.x][threadIdx.y]`.",
                |wrong| {
                    from_place(wrong, |row, col| (col / 32 * 32 + row % 32, row / 32 * 32 + col % 32))
                },
            ),
            Mistake::new(
                "no_block_index",
                "Only the first tile was written. Which block a thread is in say `blockIdx.x` and `blockIdx.y`.",
                |wrong| {
                    let rows = wrong.number("rows") as usize;
                    only_written(wrong, |i| i / rows < 32 && i % rows < 32)
                },
            ),
        ],
        faults: &[
            (
                "race",
                "A thread reads a place of the tile, or writes an element of `out`, that another thread writes, and nothing orders the two. All writes to the tile come before a barrier that every thread reaches, and a row of `out` has `rows` elements.",
            ),
            (
                "barrier",
                "Blocks at the edges have threads without an element. They have to reach `__syncthreads()` too: put it outside of every `if`, and let no thread `return` before it.",
            ),
            (
                "out_of_bounds",
                "Blocks at the edges have threads without an element. `in` has `rows` rows and `cols` columns; `out` has `cols` rows and `rows` columns, so its condition is another one.",
            ),
            ("unwritten", "A place of the tile was read that no thread has written. Which thread reads which place?"),
        ],
    }),
};

/// Returns true if each element of `out` is the element of `in` at the position that `place` returns for its row and
/// column.
fn from_place(wrong: &Wrong, place: fn(usize, usize) -> (usize, usize)) -> bool {
    let (input, rows, cols) = (wrong.input("in"), wrong.number("rows") as usize, wrong.number("cols") as usize);
    let value = |(row, col): (usize, usize)| if row < rows && col < cols { input[row * cols + col] } else { f64::NAN };
    wrong.looks_like(|i| value(place(i / rows, i % rows)))
}

/// Creates a launch with blocks of 32 x 32 threads for a matrix.
fn transpose([rows, cols, _]: Size, draw: &mut Draw) -> Case {
    let input = draw.floats((rows * cols) as usize);
    let (rows_of_out, row_of_out) = (cols as usize, rows as usize);
    let expected: Vec<f32> =
        (0..rows_of_out * row_of_out).map(|i| input[i % row_of_out * rows_of_out + i / row_of_out]).collect();
    Case::new(format!("{rows} rows, {cols} columns"))
        .launch([cols.div_ceil(32), rows.div_ceil(32), 1], [32, 32, 1])
        .input("in", input)
        .output("out", expected, Tolerance::Exact)
        .int("rows", rows)
        .int("cols", cols)
}

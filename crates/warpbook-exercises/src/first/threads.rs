//! E01 to E04: which thread computes which element.

use super::LESSON;
use warpbook_lab::exercise::{Case, Definition, Draw, KernelTask, Mistake, Size, Task, Tolerance, Values, Wrong};

pub(crate) const FIRST_KERNEL: Definition = Definition {
    id: "E01",
    folder: "E01_first_kernel",
    lesson: LESSON,
    title: "Your first kernel",
    task: Task::Kernel(KernelTask {
        entry: "tens",
        signature: "extern \"C\" __global__ void tens(int* y)",
        sizes: &[[32, 1, 1]],
        case: tens,
        targets: &[],
        time: None,
        mistakes: &[
            Mistake::new("not_times_ten", "Each element is its own number. Multiply it by 10.", |wrong| {
                wrong.looks_like(|i| i as f64)
            }),
            Mistake::new(
                "one_too_far",
                "Each element has the value of the next one. Threads are counted from 0.",
                |wrong| wrong.looks_like(|i| 10.0 * (i + 1) as f64),
            ),
            Mistake::new(
                "block_for_thread",
                "Only element 0 was written. `blockIdx.x` is the same in all threads of a block; a thread's own number is `threadIdx.x`.",
                |wrong| wrong.written_only(|i| i == 0),
            ),
        ],
        faults: &[
            ("out_of_bounds", "The array has elements 0 to 31. Which element does the last thread, number 31, touch?"),
            ("race", "Each thread should write an element of its own: `y[i]` with `i = threadIdx.x`."),
            ("unwritten", "The array holds nothing useful before the launch. Write with `=`, not with `+=`."),
        ],
    }),
};

/// Creates a launch with one block of 32 threads.
fn tens([n, ..]: Size, _: &mut Draw) -> Case {
    let expected: Vec<i32> = (0..n.cast_signed()).map(|i| 10 * i).collect();
    Case::new(format!("{n} elements")).launch([1; 3], [n, 1, 1]).output("y", expected, Tolerance::Exact)
}

pub(crate) const GUARD: Definition = Definition {
    id: "E02",
    folder: "E02_guard",
    lesson: LESSON,
    title: "More threads than elements",
    task: Task::Kernel(KernelTask {
        entry: "squares",
        signature: "extern \"C\" __global__ void squares(const float* x, float* y, int n)",
        sizes: &[[27, 1, 1], [1, 1, 1], [31, 1, 1], [32, 1, 1]],
        case: squares,
        targets: &[],
        time: None,
        mistakes: &[
            Mistake::new(
                "last_missing",
                "The last element is `n - 1`, and it was not written. Compare `i < n`.",
                |wrong| {
                    let n = wrong.got().len();
                    wrong.written_only(|i| i + 1 < n)
                },
            ),
            Mistake::new("doubled", "Each element was added to itself. A square is `x[i] * x[i]`.", |wrong| {
                let x = wrong.input("x");
                wrong.looks_like(|i| 2.0 * x[i])
            }),
        ],
        faults: &[
            (
                "out_of_bounds",
                "There are 32 threads and `n` elements. A thread whose `i` is not less than `n` must neither read nor write.",
            ),
            ("race", "Two threads touch the same element. Each should write `y[i]`, and no other one."),
        ],
    }),
};

/// Creates a launch with one block of 32 threads for at most 32 elements.
fn squares([n, ..]: Size, draw: &mut Draw) -> Case {
    let x = draw.floats(n as usize);
    let expected: Vec<f32> = x.iter().map(|x| x * x).collect();
    Case::new(format!("n = {n}"))
        .launch([1; 3], [32, 1, 1])
        .input("x", x)
        .output("y", expected, Tolerance::Exact)
        .int("n", n)
}

pub(crate) const MANY_BLOCKS: Definition = Definition {
    id: "E03",
    folder: "E03_many_blocks",
    lesson: LESSON,
    title: "Many blocks",
    task: Task::Kernel(KernelTask {
        entry: "invert",
        signature: "extern \"C\" __global__ void invert(const float* x, float* y, int n)",
        // Each size is a number of elements, and a number of threads per block.
        sizes: &[[1000, 256, 1], [1, 256, 1], [31, 256, 1], [1000, 128, 1]],
        case: invert,
        targets: &[],
        time: None,
        mistakes: &[
            Mistake::new(
                "no_block_index",
                "Only the elements of the first block were written. `blockIdx.x` says which block a thread is in.",
                |wrong| wrong.written_only(|i| i < block(wrong)),
            ),
            Mistake::new(
                "no_thread_index",
                "Only one element was written for each block. A thread's number in its block is `threadIdx.x`.",
                |wrong| wrong.written_only(|i| i < grid(wrong)),
            ),
            Mistake::new(
                "grid_for_block",
                "The blocks overlap. `gridDim.x` is the number of blocks; a block's number of threads is `blockDim.x`.",
                |wrong| wrong.written_only(|i| i < (grid(wrong) - 1) * grid(wrong) + block(wrong)),
            ),
            Mistake::new(
                "added_numbers",
                "The blocks overlap: block 1 begins at element 1. It should begin after all threads of block 0.",
                |wrong| wrong.written_only(|i| i < grid(wrong) - 1 + block(wrong)),
            ),
            Mistake::new(
                "factors_exchanged",
                "Neighbouring threads have elements that are far apart: thread 1 of block 0 should have element 1. Multiply the block's number by `blockDim.x`, not the thread's.",
                |wrong| wrong.written_only(|i| i % block(wrong) < grid(wrong)),
            ),
            Mistake::new(
                "fixed_block",
                "Right with 256 threads a block, but not with any other number. Use `blockDim.x` instead of writing 256.",
                |wrong| block(wrong) != 256 && wrong.written_only(|i| i % 256 < block(wrong)),
            ),
            Mistake::new("negated", "Each element was negated. Inverting is `1 - x[i]`.", |wrong| {
                let x = wrong.input("x");
                wrong.looks_like(|i| -x[i])
            }),
        ],
        faults: &[
            (
                "out_of_bounds",
                "The last block has more threads than there are elements left. Only threads whose `i` is less than `n` may read and write: there is no element `n`.",
            ),
            (
                "race",
                "Two threads touch the same element. Each should write `y[i]`, with an `i` that no other thread has.",
            ),
        ],
    }),
};

fn block(wrong: &Wrong) -> usize {
    wrong.case().block()[0] as usize
}

fn grid(wrong: &Wrong) -> usize {
    wrong.case().grid()[0] as usize
}

/// Creates a launch with blocks of `threads` threads for `n` elements.
fn invert([n, threads, _]: Size, draw: &mut Draw) -> Case {
    let x = draw.floats(n as usize);
    let expected: Vec<f32> = x.iter().map(|x| 1.0 - x).collect();
    Case::new(format!("n = {n}, {threads} threads a block"))
        .over(n, threads)
        .input("x", x)
        .output("y", expected, Tolerance::Exact)
        .int("n", n)
}

pub(crate) const TWO_DIMENSIONS: Definition = Definition {
    id: "E04",
    folder: "E04_two_dimensions",
    lesson: LESSON,
    title: "Two dimensions",
    task: Task::Kernel(KernelTask {
        entry: "mirror",
        signature: "extern \"C\" __global__ void mirror(const float* in, float* out, int width, int height)",
        sizes: &[[33, 17, 1], [17, 33, 1], [1, 1, 1], [64, 48, 1]],
        case: mirror,
        targets: &[],
        time: None,
        mistakes: &[
            Mistake::new(
                "transposed",
                "The picture was taken for one that lies in memory column by column. It lies row by row: element `y * width + x`.",
                |wrong| {
                    let (picture, [width, height]) = picture(wrong);
                    wrong.looks_like(|i| picture[(width - 1 - i / height) * height + i % height])
                },
            ),
            Mistake::new(
                "axes_swapped",
                "`x` and `y` are exchanged: columns come from the `.x` parts, rows from the `.y` parts.",
                |wrong| {
                    let (_, [width, height]) = picture(wrong);
                    let covered = |length: usize| length.div_ceil(EDGE) * EDGE;
                    wrong.written_only(|i| i % width < covered(height) && i / width < covered(width))
                },
            ),
            Mistake::new("upside_down", "The picture is mirrored from top to bottom.", |wrong| {
                let (picture, [width, height]) = picture(wrong);
                wrong.looks_like(|i| picture[(height - 1 - i / width) * width + i % width])
            }),
            Mistake::new("turned", "The picture is turned by half a turn: rows should stay where they are.", |wrong| {
                let (picture, _) = picture(wrong);
                wrong.looks_like(|i| picture[picture.len() - 1 - i])
            }),
            Mistake::new(
                "no_block_index",
                "Only the pixels of the first block were written. Column and row need `blockIdx`, as in E03.",
                |wrong| {
                    let (_, [width, _]) = picture(wrong);
                    wrong.written_only(|i| i % width < EDGE && i / width < EDGE)
                },
            ),
        ],
        faults: &[
            (
                "out_of_bounds",
                "Blocks reach over the right edge and over the bottom edge: compare `x` with `width` and `y` with `height`. If your guard is right, look at the column: `x` goes to `width - 1 - x`.",
            ),
            ("race", "Two threads touch the same pixel. Row `y` begins at element `y * width`."),
        ],
    }),
};

/// Edge length of a block in threads.
const EDGE: usize = 16;

/// Returns the pixels before the launch, and the width and height of the picture.
fn picture(wrong: &Wrong) -> (Vec<f64>, [usize; 2]) {
    (wrong.input("in"), ["width", "height"].map(|name| wrong.number(name) as usize))
}

/// Creates a launch with blocks of 16 x 16 threads for a picture of `width` x `height` pixels.
fn mirror([width, height, _]: Size, draw: &mut Draw) -> Case {
    let picture = draw.floats((width * height) as usize);
    let mut expected = picture.clone();
    expected.chunks_mut(width as usize).for_each(<[f32]>::reverse);
    let edge = EDGE as u32;
    Case::new(format!("{width} x {height} pixels"))
        .launch([width.div_ceil(edge), height.div_ceil(edge), 1], [edge, edge, 1])
        .input("in", picture)
        .output("out", Values::F32(expected), Tolerance::Exact)
        .int("width", width)
        .int("height", height)
}

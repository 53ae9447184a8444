//! E05 and E06: bytes and sectors of kernels that apply an operation to every element.

use super::LESSON;
use warpbook_lab::exercise::{
    Case, Ceiling, Costs, Definition, Draw, KernelTask, Mistake, Size, Target, Task, TimeTarget, Tolerance,
};

/// Number of elements of the case that is timed on a GPU. Launches alternate between two inputs, whose arrays together are larger than any L2 cache.
const TIMED: u32 = 1 << 24;

pub(crate) const SAXPY: Definition = Definition {
    id: "E05",
    folder: "E05_saxpy",
    lesson: LESSON,
    title: "SAXPY, and its bytes",
    task: Task::Kernel(KernelTask {
        entry: "saxpy",
        signature: "extern \"C\" __global__ void saxpy(const float* x, float* y, float a, int n)",
        sizes: &[[1000, 1, 1], [1, 1, 1], [31, 1, 1], [20_011, 1, 1]],
        case: saxpy,
        targets: &[
            Target::at_most("bytes an element", 12.0, Costs::bytes_per_element).because(
                "extra_bytes",
                "Some element is read or written more often than it needs to be. One result needs one `x` and one `y`.",
            ),
            Target::at_most("sectors a request", 4.0, Costs::sectors_per_request).because(
                "many_sectors",
                "The threads of a warp touch elements that are far apart. Neighbouring threads should have neighbouring elements.",
            ),
            Target::at_least("active lanes of a warp", 16.0, Costs::active_lanes).because(
                "one_thread",
                "One thread computes many elements, one after another, and the other threads of its warp wait. Let each thread compute one element, the one with its own number in the grid.",
            ),
        ],
        time: Some(TimeTarget { size: [TIMED, 1, 1], work: 12 * TIMED as u64, ceiling: Ceiling::Copy, share: 0.7 }),
        mistakes: &[
            Mistake::new("no_sum", "`y` was replaced by `a * x`. Its old value has to be added.", |wrong| {
                let (x, a) = (wrong.input("x"), wrong.number("a"));
                wrong.looks_like(|i| a * x[i])
            }),
            Mistake::new("no_factor", "`x` was added without its factor `a`.", |wrong| {
                let (x, y) = (wrong.input("x"), wrong.input("y"));
                wrong.looks_like(|i| x[i] + y[i])
            }),
            Mistake::new("factor_of_both", "The sum was multiplied by `a`. Only `x` should be.", |wrong| {
                let (x, y, a) = (wrong.input("x"), wrong.input("y"), wrong.number("a"));
                wrong.looks_like(|i| a * (x[i] + y[i]))
            }),
            Mistake::new("arrays_exchanged", "`y` was multiplied by `a`. It should be `x`.", |wrong| {
                let (x, y, a) = (wrong.input("x"), wrong.input("y"), wrong.number("a"));
                wrong.looks_like(|i| a * y[i] + x[i])
            }),
            Mistake::new(
                "added_twice",
                "`y` was added twice. `y[i] += v` means `y[i] = y[i] + v`, so it adds the old value by itself.",
                |wrong| {
                    let (x, y, a) = (wrong.input("x"), wrong.input("y"), wrong.number("a"));
                    wrong.looks_like(|i| a * x[i] + 2.0 * y[i])
                },
            ),
            Mistake::new(
                "rounded_down",
                "The product lost its fraction: an `int` holds whole numbers only, and C++ converts to it without a word.",
                |wrong| {
                    let (x, y, a) = (wrong.input("x"), wrong.input("y"), wrong.number("a"));
                    wrong.looks_like(|i| (a * x[i]).trunc() + y[i])
                },
            ),
        ],
        faults: &[
            (
                "out_of_bounds",
                "The last block has more threads than there are elements left. Only threads whose `i` is less than `n` may read and write.",
            ),
            (
                "race",
                "Two threads change the same element. Does `i` have both parts, `blockIdx.x * blockDim.x` and `threadIdx.x`?",
            ),
        ],
    }),
};

/// Draws `n` numbers in (-1, 1). If `n` is above 65,536, each number is a product of two drawn numbers, since drawing 16 million takes seconds.
fn many_floats(draw: &mut Draw, n: usize) -> Vec<f32> {
    let drawn = draw.floats(n.min(1 << 16));
    if drawn.len() == n {
        return drawn;
    }
    let factors = draw.floats(n.div_ceil(drawn.len()));
    let rows = factors.iter().flat_map(|factor| drawn.iter().map(move |x| factor * x));
    rows.take(n).collect()
}

/// Creates a launch with blocks of 256 threads for `n` elements. The factor is not near 1, and its products have integer parts.
fn saxpy([n, ..]: Size, draw: &mut Draw) -> Case {
    let (x, y, a) = (many_floats(draw, n as usize), many_floats(draw, n as usize), 4.0 + draw.float());
    let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| a.mul_add(*x, *y)).collect();
    Case::new(format!("n = {n}"))
        .over(n, 256)
        .input("x", x)
        // The compiler may round once or twice; |a x| is below 5.
        .update("y", y, expected, Tolerance::Within { relative: 1e-6, scale: 5.0 })
        .float("a", a)
        .int("n", n)
}

pub(crate) const GRID_STRIDE: Definition = Definition {
    id: "E06",
    folder: "E06_grid_stride",
    lesson: LESSON,
    title: "Few threads, many elements",
    task: Task::Kernel(KernelTask {
        entry: "scale",
        signature: "extern \"C\" __global__ void scale(float* x, float a, int n)",
        // At the last size, all lanes of a warp have equally many elements: otherwise, at the end of an unrolled loop, they may be in different iterations.
        sizes: &[[700, 1, 1], [1, 1, 1], [5003, 1, 1], [20_000, 1, 1]],
        case: scale,
        targets: &[
            Target::at_most("sectors a request", 4.0, Costs::sectors_per_request).because(
                "many_sectors",
                "Every element is right, but the threads of a warp touch elements that are far apart: each thread should step by the number of threads in the grid.",
            ),
            Target::at_least("active lanes of a warp", 16.0, Costs::active_lanes).because(
                "one_thread",
                "Every element is right, but few of the 1024 threads share the work, and the rest have nothing to do. Let all of them run the loop, each from its own number in the grid.",
            ),
        ],
        time: None,
        mistakes: &[
            Mistake::new(
                "no_loop",
                "Only the first 1024 elements are right, one for each thread. Each thread has to go on in a loop.",
                |wrong| wrong.only(|i| i >= GRID_THREADS),
            ),
            Mistake::new("only_the_factor", "Every element is `a` itself. It should be `a` times its old value.", |wrong| {
                let a = wrong.number("a");
                wrong.looks_like(|_| a)
            }),
        ],
        faults: &[
            ("out_of_bounds", "The last element is `n - 1`: compare with `n` before reading and before writing."),
            (
                "race",
                "Several threads change the same element. Each should begin with its own number in the grid, and step by the number of threads in the grid: `gridDim.x * blockDim.x`.",
            ),
            ("endless", "The loop never ends. Does its variable grow in every turn?"),
        ],
    }),
};

/// Number of threads in the grid.
const GRID_THREADS: usize = 1024;

/// Creates a launch with 4 blocks of 256 threads for any number of elements.
fn scale([n, ..]: Size, draw: &mut Draw) -> Case {
    let (x, a) = (draw.floats(n as usize), 4.0 + draw.float());
    let expected: Vec<f32> = x.iter().map(|x| a * x).collect();
    Case::new(format!("n = {n}"))
        .launch([4, 1, 1], [256, 1, 1])
        .update("x", x, expected, Tolerance::Exact)
        .float("a", a)
        .int("n", n)
}

//! E10: turns an array of structs into a struct of arrays.

use super::LESSON;
use crate::causes::only_written;
use warpbook_lab::exercise::{Case, Costs, Definition, Draw, KernelTask, Mistake, Size, Target, Task, Tolerance};

pub(crate) const STRUCT_OF_ARRAYS: Definition = Definition {
    id: "E10",
    folder: "E10_struct_of_arrays",
    lesson: LESSON,
    title: "An array of structs becomes a struct of arrays",
    task: Task::Kernel(KernelTask {
        entry: "split",
        signature: "extern \"C\" __global__ void split(const float* points, float* out, int n)",
        sizes: &[[100, 1, 1], [1, 1, 1], [31, 1, 1], [1000, 1, 1]],
        case: split,
        targets: &[Target::at_most("bytes read for each number, in whole sectors", 4.0, bytes_read).because(
            "array_of_structs",
            "Neighbouring threads read numbers that lie 12 bytes apart, so each sector is asked for three times. Let thread `t` read `points[t]`.",
        )],
        time: None,
        mistakes: &[
            Mistake::new(
                "wrong_direction",
                "This is the way back: it takes `points` for a struct of arrays. Thread `t` should read `points[t]`, and find out where that belongs.",
                |wrong| {
                    let (points, n) = (wrong.input("points"), wrong.got().len() / 3);
                    wrong.looks_like(|i| points[i % 3 * n + i / 3])
                },
            ),
            Mistake::new("x_and_z_exchanged", "The z are where the x should be. Coordinate 0 is x.", |wrong| {
                let (points, n) = (wrong.input("points"), wrong.got().len() / 3);
                wrong.looks_like(|i| points[3 * (i % n) + 2 - i / n])
            }),
            Mistake::new(
                "only_the_x",
                "The x stand in all three parts. y and z are the next two numbers of a point.",
                |wrong| {
                    let (points, n) = (wrong.input("points"), wrong.got().len() / 3);
                    wrong.looks_like(|i| points[3 * (i % n)])
                },
            ),
            Mistake::new(
                "no_block_index",
                "Only the numbers of the first block were written. `blockIdx.x` says which block a thread is in.",
                |wrong| {
                    let n = wrong.got().len() / 3;
                    only_written(wrong, |i| 3 * (i % n) + i / n < 256)
                },
            ),
        ],
        faults: &[
            (
                "out_of_bounds",
                "Both arrays have `3 * n` numbers. The last block has threads without one, and the coordinate is the remainder `t % 3`, not the quotient.",
            ),
            ("race", "Two threads write the same number. Each of the `3 * n` threads should write one of its own."),
        ],
    }),
};

/// Returns the bytes of the sectors that loads request, per element.
fn bytes_read(costs: &Costs) -> f64 {
    32.0 * costs.total.global_loads.sectors as f64 / costs.elements as f64
}

/// Creates a launch with blocks of 256 threads for the three coordinates of `n` points.
fn split([n, ..]: Size, draw: &mut Draw) -> Case {
    let points = draw.floats(3 * n as usize);
    let coordinate = |c: usize| points.iter().skip(c).step_by(3).copied();
    let expected: Vec<f32> = (0..3).flat_map(coordinate).collect();
    Case::new(format!("n = {n}"))
        .over(3 * n, 256)
        .input("points", points)
        .output("out", expected, Tolerance::Exact)
        .int("n", n)
}

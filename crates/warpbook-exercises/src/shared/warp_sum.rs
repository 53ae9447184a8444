//! E12: the sum over a warp in five exchanges.

use super::{LESSON, large_floats, reads_per_element};
use crate::causes::only_written;
use warpbook_lab::exercise::{
    Case, Costs, Definition, Draw, KernelTask, Mistake, Size, Target, Task, Tolerance, Wrong,
};

pub(crate) const WARP_SUM: Definition = Definition {
    id: "E12",
    folder: "E12_warp_sum",
    lesson: LESSON,
    title: "The sum of a warp",
    task: Task::Kernel(KernelTask {
        entry: "warp_sums",
        signature: "extern \"C\" __global__ void warp_sums(const float* x, float* y, int n)",
        sizes: &[[100, 1, 1], [1, 1, 1], [31, 1, 1], [64, 1, 1], [1003, 1, 1]],
        case: warp_sums,
        targets: &[
            Target::at_most("exchanges of a warp", 5.0, Costs::shuffles).because(
                "too_many_exchanges",
                "Five exchanges are enough for 32 lanes: each doubles the numbers that a sum holds. With `__shfl_xor_sync` all lanes have the sum after the fifth.",
            ),
            Target::at_most("reads of global memory for each element", 1.0, reads_per_element)
                .because("read_32_times", "Each lane reads the elements of all lanes. It should read its own, and exchange sums."),
            Target::at_most("bytes of shared memory for each element", 0.0, |costs: &Costs| {
                costs.total.shared_bytes as f64 / costs.elements as f64
            })
            .because("through_shared_memory", "Lanes of a warp read each other's registers by shuffles: shared memory is not needed."),
            Target::at_least("active lanes of a warp", 16.0, Costs::active_lanes).because(
                "one_thread",
                "One lane adds up all 32 elements, and the other 31 wait for it. Let each lane read its own element. In an exchange, all lanes then add at the same time.",
            ),
        ],
        time: None,
        mistakes: &[
            Mistake::new(
                "only_lane_0_written",
                "Only lane 0 of each warp wrote its result. All lanes should.",
                |wrong| only_written(wrong, |i| i % 32 == 0),
            ),
            Mistake::new(
                "only_lane_0",
                "Only lane 0 of each warp has the sum. With `__shfl_down_sync` the other lanes add fewer numbers; `__shfl_xor_sync` gives the sum to all.",
                |wrong| wrong.only(|i| i % 32 != 0),
            ),
            Mistake::new(
                "only_lane_31",
                "Only lane 31 of each warp has the sum. With `__shfl_up_sync` the other lanes add fewer numbers; `__shfl_xor_sync` gives the sum to all.",
                |wrong| wrong.got().len() > 32 && wrong.only(|i| i % 32 != 31),
            ),
            Mistake::new(
                "no_block_index",
                "Only the elements of the first block were written. `blockIdx.x` says which block a thread is in.",
                |wrong| only_written(wrong, |i| i < 128),
            ),
            Mistake::new(
                "offset_missing",
                "Each sum holds only some lanes of the warp. The offsets are 16, 8, 4, 2 and 1, and none may be missing.",
                |wrong| {
                    let x = wrong.input("x");
                    let with_offsets = |offsets: usize, i: usize| -> f64 {
                        let others = (0..32).filter(|lane| lane & !offsets == 0);
                        others.map(|lane| x.get(i ^ lane).copied().unwrap_or(0.0)).sum()
                    };
                    (1..31).any(|offsets| wrong.looks_like(|i| with_offsets(offsets, i)))
                },
            ),
            Mistake::new(
                "offset_32",
                "Each sum is twice as large as it should be. With an offset of 32 a lane gets its own value: a warp has lanes 0 to 31, so the largest offset is 16.",
                |wrong| wrong.looks_like(|i| 2.0 * wrong.expected()[i]),
            ),
            Mistake::new(
                "offsets_not_halved",
                "The offset changes by 1 or 2 in each round, so the same numbers are added several times. It should halve: 16, 8, 4, 2, 1.",
                |wrong| {
                    let rounds = [(1, 15), (1, 16), (1, 31), (2, 16)];
                    rounds.iter().any(|(step, last)| is_sum_of_rounds(wrong, (*step..=*last).step_by(*step)))
                },
            ),
            Mistake::new(
                "not_added",
                "Each result is the element of another lane. Add what a shuffle returns: `v += ...` instead of `v = ...`.",
                |wrong| {
                    let x = wrong.input("x");
                    // After exchanges over 16, 8, 4, 2 and 1, a lane has the value of lane `i ^ 31`.
                    wrong.looks_like(|i| x.get(i ^ 31).copied().unwrap_or(0.0))
                },
            ),
        ],
        faults: &[
            (
                "barrier",
                "A shuffle waits for all 32 lanes. The first argument has a bit for each of them: `0xffffffff`, with eight `f`s. Put the shuffle outside every `if`, and let lanes without an element bring 0.",
            ),
            (
                "unwritten",
                "A lane asked another one for its value, which took no part in the exchange. Put the shuffle outside of every `if`: lanes without an element bring 0.",
            ),
            (
                "out_of_bounds",
                "The last warp has lanes without an element. They take part in the exchanges, but neither read nor write.",
            ),
            ("race", "Two threads write the same element. Each should write `y[i]`, and no other one."),
            (
                "endless",
                "The loop never ends. With `offset >= 0` it goes on at offset 0 forever: it should run while `offset > 0`, and halve the offset in every round.",
            ),
        ],
    }),
};

/// Returns true if each result is the sum after exchanges over these offsets, whose order does not matter.
fn is_sum_of_rounds(wrong: &Wrong, offsets: impl Iterator<Item = usize>) -> bool {
    let mut sums = wrong.input("x");
    sums.resize(sums.len().next_multiple_of(32), 0.0);
    for offset in offsets {
        sums = (0..sums.len()).map(|i| sums[i] + sums[i ^ offset]).collect();
    }
    // The sums grow in each round, and so do their rounding errors.
    let largest = sums.iter().fold(0.0, |largest: f64, sum| largest.max(sum.abs()));
    wrong.got().iter().zip(&sums).all(|(got, sum)| (got - sum).abs() <= 1e-5 * largest)
}

/// Creates a launch with blocks of 128 threads for `n` elements.
fn warp_sums([n, ..]: Size, draw: &mut Draw) -> Case {
    let x = large_floats(draw, n as usize);
    let sum = |part: &[f32]| part.iter().map(|v| f64::from(*v)).sum::<f64>() as f32;
    let expected: Vec<f32> = x.chunks(32).flat_map(|part| vec![sum(part); part.len()]).collect();
    Case::new(format!("n = {n}"))
        .over(n, 128)
        .input("x", x)
        // Each result is a sum of up to 32 numbers below 1.
        .output("y", expected, Tolerance::Within { relative: 2e-6, scale: 32.0 })
        .int("n", n)
}

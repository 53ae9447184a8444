//! E18: a matrix product that uses tiles, with four sums per thread.

use super::causes::{
    A_ROW_LENGTH, A_TRANSPOSED, B_TRANSPOSED, BOTH_TRANSPOSED, C_TRANSPOSED, EXCHANGED, FIRST_TERMS_MISSING,
    FIRST_TERMS_ONLY, OTHER_COLUMN, OTHER_ROW, SCALED,
};
use super::{LESSON, SIGNATURE};
use crate::causes::only_written;
use warpbook_lab::exercise::{
    Case, Ceiling, Costs, Definition, Draw, KernelTask, Mistake, Size, Target, Task, TimeTarget,
};

/// Size m, n and k of the product that is timed.
const TIMED: Size = [1024, 1024, 256];

pub(crate) const TILES: Definition = Definition {
    id: "E18",
    folder: "E18_tiles",
    lesson: LESSON,
    title: "A product through tiles, four sums a thread",
    task: Task::Kernel(KernelTask {
        entry: "matmul",
        signature: SIGNATURE,
        // Sizes are m, n and k. With a square product, a transposed matrix can be told from other mistakes.
        sizes: &[[32, 32, 32], [7, 12, 37], [7, 33, 9], [40, 32, 32]],
        case: product,
        targets: &[
            Target::at_most("reads of global memory for each multiply-add", 0.125, |costs| {
                per_multiply_add(costs, costs.total.global_loads.bytes / 4)
            })
            .because(
                "global_reads",
                "Each multiply-add reads from global memory. Copy 32 x 32 elements of A and of B to shared memory, where each is used 32 times.",
            ),
            Target::at_most("reads of shared memory for each multiply-add", 1.25, |costs| {
                per_multiply_add(costs, costs.total.shared_words_loaded)
            })
            .because(
                "shared_reads",
                "Each multiply-add reads both of its numbers from shared memory. Read one element of B into a variable, and use it for all four sums.",
            ),
            Target::at_least("active lanes of a warp", 16.0, Costs::active_lanes).because(
                "one_thread",
                "One thread computes the sums of many columns, and the other lanes of its warp wait. Let each lane compute only its own column of the block: then the warp works on all 32 columns at the same time.",
            ),
        ],
        time: Some(TimeTarget {
            size: TIMED,
            work: 2 * TIMED[0] as u64 * TIMED[1] as u64 * TIMED[2] as u64,
            ceiling: Ceiling::MultiplyAdds,
            share: 0.18,
        }),
        mistakes: &[
            Mistake::new(
                "no_block_index",
                "Only the first 32 rows and columns were written. `blockIdx.x` and `blockIdx.y` say which block a thread is in.",
                |wrong| {
                    let n = wrong.number("n") as usize;
                    only_written(wrong, |i| i / n < 32 && i % n < 32)
                },
            ),
            C_TRANSPOSED,
            A_TRANSPOSED,
            B_TRANSPOSED,
            BOTH_TRANSPOSED,
            EXCHANGED,
            A_ROW_LENGTH,
            OTHER_ROW,
            OTHER_COLUMN,
            FIRST_TERMS_ONLY,
            FIRST_TERMS_MISSING,
            SCALED,
            Mistake::new(
                "stale_tile",
                "The last piece of `k` is shorter than a tile, and the rest of the tile still holds numbers of the piece before. Put 0 where there is no element.",
                |wrong| {
                    let [n, k] = ["n", "k"].map(|name| wrong.number(name) as usize);
                    let (a, b) = (wrong.input("a"), wrong.input("b"));
                    let term = |i: usize, kk: usize| a[i / n * k + kk] * b[kk * n + i % n];
                    let stale = k.saturating_sub(32)..k / 32 * 32;
                    k > 32 && wrong.looks_like(|i| (0..k).chain(stale.clone()).map(|kk| term(i, kk)).sum())
                },
            ),
        ],
        faults: &[
            (
                "race",
                "A thread reads a place of a tile that another thread writes, and nothing orders the two. A barrier comes after the tiles are filled, and another one after they are used.",
            ),
            (
                "barrier",
                "Blocks at the edges have threads without an element. They have to reach every `__syncthreads()` too: put it outside of every `if`, and let no thread `return` before it.",
            ),
            (
                "unwritten",
                "A place of a tile was used that no thread has written. 256 threads fill 1024 places, so each fills four, and places beyond the matrices hold 0.",
            ),
            (
                "out_of_bounds",
                "Tiles at the edges reach beyond the matrices: compare with `m`, `n` and `k` before reading and before writing.",
            ),
            ("endless", "The loop never ends. Does its variable grow in every round, by 32?"),
        ],
    }),
};

fn per_multiply_add(costs: &Costs, words: u64) -> f64 {
    words as f64 / costs.total.multiply_adds as f64
}

/// Creates a launch in which each block of 32 x 8 threads computes 32 x 32 elements of C.
fn product(size: Size, draw: &mut Draw) -> Case {
    let [m, n, _] = size;
    super::case(size, draw).launch([n.div_ceil(32), m.div_ceil(32), 1], [32, 8, 1])
}

//! E13: the sum of an array, added up by threads, then by warps, then by blocks.

use super::{LESSON, large_floats, reads_per_element};
use warpbook_lab::exercise::{
    Case, Ceiling, Costs, Definition, Draw, KernelTask, Mistake, Size, Target, Task, TimeTarget, Tolerance, Wrong,
};

/// Number of elements of the case that is timed on a GPU, which are more than the L2 cache can store.
const TIMED: u32 = 1 << 26;

pub(crate) const SUM: Definition = Definition {
    id: "E13",
    folder: "E13_sum",
    lesson: LESSON,
    title: "The sum of an array",
    task: Task::Kernel(KernelTask {
        entry: "partial_sums",
        signature: "extern \"C\" __global__ void partial_sums(const float* x, float* partial, int n)",
        // Each size is a number of elements, of blocks, and of threads per block.
        sizes: &[[1000, 2, 256], [1, 1, 32], [31, 2, 64], [3001, 1, 1024], [20_011, 4, 256]],
        case: partial_sums,
        targets: &[
            Target::at_most("reads of global memory for each element", 1.0, reads_per_element).because(
                "read_several_times",
                "Some element is read more often than once. Each belongs to one thread, which meets it in a grid-stride loop.",
            ),
            Target::at_most("numbers that a block writes", 1.0, |costs: &Costs| {
                costs.total.global_stores.bytes as f64 / 4.0 / costs.blocks as f64
            })
            .because("many_writes", "Several threads of a block write its partial sum. One is enough: lane 0 of warp 0."),
            Target::at_least("active lanes of a warp", 16.0, Costs::active_lanes).because(
                "one_thread",
                "One thread adds up what many should, and the others wait for it. Let every thread add its own elements in the loop: then only a few sums remain for one warp at the end.",
            ),
        ],
        time: Some(TimeTarget { size: [TIMED, 1056, 256], work: 4 * TIMED as u64, ceiling: Ceiling::Read, share: 0.8 }),
        mistakes: &[
            Mistake::new(
                "first_warp_only",
                "Each partial sum holds the elements of the block's first warp. The sums of the other warps have to come to it through shared memory.",
                |wrong| {
                    let shares = Shares::new(wrong);
                    wrong.looks_like(|block| shares.sum(|i| shares.block(i) == block && i % shares.threads < 32))
                },
            ),
            Mistake::new(
                "contiguous_parts",
                "Each block added elements that follow each other. It should add those that its threads meet in a grid-stride loop: then neighbouring threads read neighbours in each round.",
                |wrong| {
                    let shares = Shares::new(wrong);
                    let length = shares.x.len().div_ceil(shares.blocks);
                    shares.blocks > 1 && wrong.looks_like(|block| shares.sum(|i| i / length == block))
                },
            ),
            Mistake::new(
                "no_loop",
                "Only the first element of each thread was added. Each thread has to go on in a loop.",
                |wrong| {
                    let shares = Shares::new(wrong);
                    let first = shares.blocks * shares.threads;
                    first < shares.x.len() && wrong.looks_like(|block| shares.sum(|i| shares.block(i) == block && i < first))
                },
            ),
            Mistake::new(
                "last_missing",
                "The last elements are missing, those beyond the last whole warp. The last element is `n - 1`.",
                |wrong| {
                    let shares = Shares::new(wrong);
                    let whole = shares.x.len() / 32 * 32;
                    wrong.looks_like(|block| shares.sum(|i| shares.block(i) == block && i < whole))
                },
            ),
        ],
        faults: &[
            (
                "race",
                "Two warps touch the same place, and nothing orders them. Each warp has its own place in `sums`, a barrier comes before anybody reads the others' places, and one thread writes the partial sum.",
            ),
            (
                "barrier",
                "A shuffle waits for all 32 lanes, and a barrier for all threads of the block. Put both outside of conditions that only some of them fulfil.",
            ),
            (
                "unwritten",
                "A block has `blockDim.x / 32` warps, and only so many places of `sums` are written; all lanes of a warp have to take part in its exchanges; and `partial` holds nothing useful before the launch.",
            ),
            ("out_of_bounds", "The last element is `n - 1`: the loop goes on while `i < n`."),
            ("endless", "The loop never ends. Does `i` grow in every round, by `gridDim.x * blockDim.x`?"),
        ],
    }),
};

/// The elements of a launch that gave a wrong result, and the threads that should add them.
struct Shares {
    x: Vec<f64>,
    blocks: usize,
    threads: usize,
}

impl Shares {
    fn new(wrong: &Wrong) -> Self {
        let ([blocks, ..], [threads, ..]) = (wrong.case().grid(), wrong.case().block());
        Self { x: wrong.input("x"), blocks: blocks as usize, threads: threads as usize }
    }

    /// Returns the block whose threads should add an element.
    fn block(&self, i: usize) -> usize {
        i / self.threads % self.blocks
    }

    fn sum(&self, is_added: impl Fn(usize) -> bool) -> f64 {
        self.x.iter().enumerate().filter(|(i, _)| is_added(*i)).map(|(_, v)| v).sum()
    }
}

/// Creates a launch with `blocks` blocks of `threads` threads for `n` elements.
fn partial_sums([n, blocks, threads]: Size, draw: &mut Draw) -> Case {
    let x = large_floats(draw, n as usize);
    let mut sums = vec![0.0; blocks as usize];
    for (i, v) in x.iter().enumerate() {
        sums[i / threads as usize % blocks as usize] += f64::from(*v);
    }
    let expected: Vec<f32> = sums.iter().map(|sum| *sum as f32).collect();
    Case::new(format!("n = {n}, {blocks} blocks of {threads} threads"))
        .launch([blocks, 1, 1], [threads, 1, 1])
        .elements(n.into())
        .same_bits()
        .input("x", x)
        // Each thread adds its elements one by one, and ten levels of additions follow. The magnitudes of a block add up to at most n / blocks.
        .output(
            "partial",
            expected,
            Tolerance::Within { relative: 2e-6, scale: (f64::from(n) / f64::from(blocks)).max(1.0) },
        )
        .int("n", n)
}

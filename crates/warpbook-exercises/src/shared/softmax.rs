//! E21: a row softmax that reads each element twice.

use super::reads_per_element;
use crate::causes::only_written;
use warpbook_lab::exercise::{
    Case, Ceiling, Costs, Definition, Draw, KernelTask, Mistake, Size, Target, Task, TimeTarget, Tolerance, Wrong,
};

/// Number of threads per block.
const THREADS: usize = 256;
/// Number of rows and columns of the case that is timed on a GPU. Each array is larger than the L2 cache.
const TIMED: [u32; 2] = [16_384, 4096];

pub(crate) const SOFTMAX: Definition = Definition {
    id: "E21",
    folder: "E21_softmax",
    lesson: "60_your_own_experiment",
    title: "Row softmax, a block a row",
    task: Task::Kernel(KernelTask {
        entry: "softmax",
        signature: "extern \"C\" __global__ void softmax(const float* x, float* y, int cols)",
        // Each size is a number of rows, and a number of columns.
        sizes: &[[3, 100, 1], [2, 1, 1], [4, 1000, 1], [1, 32_768, 1]],
        case: softmax,
        targets: &[
            Target::at_most("reads of global memory for each element", 2.0, reads_per_element).because(
                "read_three_times",
                "Each element is read more than twice. The largest number and the sum of powers fit into one pass: when a larger number comes, the sum so far shrinks by `exp(old - new)`.",
            ),
            Target::at_least("active lanes of a warp", 16.0, Costs::active_lanes).because(
                "one_thread",
                "A pass over the row is left to one lane of a warp, and the other 31 wait. In both passes, all 256 threads should share the row: thread `t` takes elements `t`, `t + 256`, and so on.",
            ),
        ],
        time: Some(TimeTarget {
            size: [TIMED[0], TIMED[1], 1],
            work: 8 * TIMED[0] as u64 * TIMED[1] as u64,
            ceiling: Ceiling::Copy,
            share: 0.7,
        }),
        mistakes: &[
            Mistake::new(
                "maximum_from_zero",
                "Rows without a positive number are NaN: their largest number was taken for 0, and all powers are 0. Begin with -3.4e38f.",
                |wrong| Rows::new(wrong).are_nan(wrong, |largest| largest < 0.0),
            ),
            Mistake::new(
                "no_maximum",
                "Rows with large numbers are NaN: their powers are infinite. Subtract the largest number of the row first.",
                |wrong| Rows::new(wrong).are_nan(wrong, |largest| largest.abs() > 80.0),
            ),
            Mistake::new(
                "no_loop",
                "Only the first 256 elements of each row were written, one for each thread. Each thread has to go on in a loop.",
                |wrong| {
                    let cols = wrong.number("cols") as usize;
                    only_written(wrong, |i| i % cols < THREADS)
                },
            ),
            Mistake::new(
                "no_block_index",
                "Only the first row was written. Block `b` computes row `b`, which begins at element `b * cols`: `blockIdx.x` is the block's number.",
                |wrong| {
                    let cols = wrong.number("cols") as usize;
                    only_written(wrong, |i| i < cols)
                },
            ),
            Mistake::new(
                "maximum_in_one_place",
                "The largest number was subtracted either in the sum or in the result. Both need it: the factor cancels only if it is in both.",
                |wrong| {
                    let rows = Rows::new(wrong);
                    rows.are_scaled(wrong, |largest| (-largest).exp()) || rows.are_scaled(wrong, f64::exp)
                },
            ),
            Mistake::new(
                "not_divided",
                "The powers were not divided by their sum: the shares of a row should add up to 1.",
                |wrong| {
                    let rows = Rows::new(wrong);
                    let powers = rows.powers(|_| 0);
                    wrong.looks_like(|i| powers[i])
                },
            ),
            Mistake::new(
                "no_power",
                "The numbers themselves were divided by their sum. Take `e` to their power first.",
                |wrong| {
                    let rows = Rows::new(wrong);
                    let sums = rows.sums(&rows.x, |_| 0);
                    wrong.looks_like(|i| rows.x[i] / sums[i])
                },
            ),
            Mistake::new(
                "own_maximum",
                "Sums were added that are relative to different largest numbers. All threads of the block need the same one before sums are added, and a sum that was relative to another shrinks by `exp(own - all)`.",
                |wrong| {
                    let rows = Rows::new(wrong);
                    let is_relative_to = |summed: Group, shown: Group| {
                        let (sums, powers) = (rows.sums(&rows.powers(summed), |_| 0), rows.powers(shown));
                        wrong.looks_like(|i| powers[i] / sums[i])
                    };
                    is_relative_to(thread, thread) || is_relative_to(thread, |_| 0) || is_relative_to(warp, warp)
                },
            ),
            Mistake::new(
                "old_sum_kept",
                "A thread with several elements has a wrong sum: when a larger number comes, the sum so far shrinks by `exp(old - new)`, with the old number from before the update.",
                |wrong| {
                    let rows = Rows::new(wrong);
                    let (sums, powers) = (rows.sums_that_never_shrink(), rows.powers(|_| 0));
                    wrong.looks_like(|i| powers[i] / sums[i])
                },
            ),
            Mistake::new(
                "warp_sum",
                "Each warp divided by its own sum. The sums of all warps of the block have to be added, through shared memory.",
                |wrong| {
                    let rows = Rows::new(wrong);
                    let powers = rows.powers(|_| 0);
                    let sums = rows.sums(&powers, warp);
                    wrong.looks_like(|i| powers[i] / sums[i])
                },
            ),
            Mistake::new(
                "warps_missing",
                "The sum leaves out some warps of the block. A block has 8 warps, whose sums are in places 0 to 7.",
                |wrong| {
                    let rows = Rows::new(wrong);
                    let powers = rows.powers(|_| 0);
                    let is_from = |first: usize, end: usize| {
                        let counted: Vec<f64> = (powers.iter().enumerate())
                            .map(|(i, power)| if (first..end).contains(&warp(i % rows.cols)) { *power } else { 0.0 })
                            .collect();
                        let sums = rows.sums(&counted, |_| 0);
                        wrong.looks_like(|i| powers[i] / sums[i])
                    };
                    (1..8).any(|end| is_from(0, end) || is_from(end, 8))
                },
            ),
            Mistake::new(
                "by_columns",
                "The matrix was read column by column. Row `b` begins at element `b * cols`.",
                |wrong| {
                    let rows = Rows::new(wrong).turned();
                    let powers = rows.powers(|_| 0);
                    let sums = rows.sums(&powers, |_| 0);
                    wrong.looks_like(|i| powers[i] / sums[i])
                },
            ),
            Mistake::new(
                "wrong_sum",
                "All shares of a row are wrong by the same factor. Is the largest number the same in the sum and in the result? Is each thread's sum added once, after it shrank by `exp(own - all)`?",
                |wrong| Rows::new(wrong).have_one_factor(wrong),
            ),
        ],
        faults: &[
            (
                "race",
                "A thread reads a place in shared memory that another warp writes, and nothing orders the two; or two blocks write the same row. Largest numbers and sums need a place each, and a barrier between writing and reading.",
            ),
            (
                "barrier",
                "A shuffle waits for all 32 lanes, and a barrier for all threads of the block. Put both outside of the loops over the row, and outside of every `if`.",
            ),
            ("out_of_bounds", "Row `b` is elements `b * cols` to `b * cols + cols - 1`: the loops go on while `i < cols`."),
            ("unwritten", "A place in shared memory was read that no thread has written. A block has 8 warps."),
            (
                "endless",
                "A loop never ends, or each thread goes over a whole row: 256 threads should share its 32,768 elements.",
            ),
        ],
    }),
};

/// Returns the index of the group of threads that works on a column.
type Group = fn(usize) -> usize;

fn thread(column: usize) -> usize {
    column % THREADS
}

fn warp(column: usize) -> usize {
    column % THREADS / 32
}

/// The input of a launch that gave a wrong result.
struct Rows {
    x: Vec<f64>,
    cols: usize,
}

impl Rows {
    fn new(wrong: &Wrong) -> Self {
        Self { x: wrong.input("x"), cols: wrong.number("cols") as usize }
    }

    /// Returns for each element the fold of the values in its row over all columns of its group.
    fn folded(&self, values: &[f64], group: Group, start: f64, fold: fn(f64, f64) -> f64) -> Vec<f64> {
        let row = |row: &[f64]| -> Vec<f64> {
            let mut all = [start; THREADS];
            row.iter().enumerate().for_each(|(column, v)| all[group(column)] = fold(all[group(column)], *v));
            (0..row.len()).map(|column| all[group(column)]).collect()
        };
        values.chunks(self.cols).flat_map(row).collect()
    }

    /// Returns for each element e^(x - largest), where `largest` is the largest number in the row that belongs to its group.
    fn powers(&self, group: Group) -> Vec<f64> {
        let largest = self.folded(&self.x, group, f64::NEG_INFINITY, f64::max);
        self.x.iter().zip(largest).map(|(v, largest)| (v - largest).exp()).collect()
    }

    /// Returns for each element the sum of the values in its row over all columns of its group.
    fn sums(&self, values: &[f64], group: Group) -> Vec<f64> {
        self.folded(values, group, 0.0, |a, b| a + b)
    }

    /// Returns for each element the sum of its row if a thread's sum so far does not shrink when a larger number comes.
    fn sums_that_never_shrink(&self) -> Vec<f64> {
        let of_row = |row: &[f64]| {
            let (mut tops, mut sums) = ([f64::NEG_INFINITY; THREADS], [0.0; THREADS]);
            for (column, v) in row.iter().enumerate() {
                let t = thread(column);
                tops[t] = v.max(tops[t]);
                sums[t] += (v - tops[t]).exp();
            }
            let all = tops.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = tops.iter().zip(sums).map(|(top, sum)| sum * (top - all).exp()).sum();
            vec![sum; row.len()]
        };
        self.x.chunks(self.cols).flat_map(of_row).collect()
    }

    /// Returns true if all results of a row differ from the reference by one factor, which is not 1 in some row.
    fn have_one_factor(&self, wrong: &Wrong) -> bool {
        let factors: Vec<f64> = wrong.got().iter().zip(wrong.expected()).map(|(got, share)| got / share).collect();
        let is_alike = |row: &[f64]| row.iter().all(|f| f.is_finite() && (f / row[0] - 1.0).abs() < 1e-3);
        self.cols > 1 && factors.chunks(self.cols).all(is_alike) && factors.iter().any(|f| (f - 1.0).abs() > 1e-3)
    }

    /// Returns the matrix that results from reading the input column by column.
    fn turned(&self) -> Self {
        let (rows, cols) = (self.x.len() / self.cols, self.cols);
        Self { x: (0..self.x.len()).map(|i| self.x[i % cols * rows + i / cols]).collect(), cols }
    }

    /// Returns true if the results differ from the reference by a factor that depends on the row's largest number, in all rows in which no power of e
    /// overflows.
    fn are_scaled(&self, wrong: &Wrong, factor: fn(f64) -> f64) -> bool {
        let largest = self.folded(&self.x, |_| 0, f64::NEG_INFINITY, f64::max);
        let is_scaled = |i: usize| {
            let value = wrong.expected()[i] * factor(largest[i]);
            (wrong.got()[i] - value).abs() <= 1e-4 * value
        };
        let mut finite = (0..self.x.len()).filter(|i| largest[*i].abs() < 80.0).peekable();
        finite.peek().is_some_and(|i| largest[*i].abs() > 0.01) && finite.all(is_scaled)
    }

    /// Returns true if some results are NaN, and only in rows whose largest number satisfies a condition.
    fn are_nan(&self, wrong: &Wrong, holds: fn(f64) -> bool) -> bool {
        let largest = self.folded(&self.x, |_| 0, f64::NEG_INFINITY, f64::max);
        let mut nan = (0..self.x.len()).filter(|i| wrong.got()[*i].is_nan() && wrong.is_written(*i)).peekable();
        nan.peek().is_some() && nan.all(|i| holds(largest[i]))
    }
}

/// Creates a launch with a block of 256 threads for each row. The numbers of some rows are far above 0, and of others far below.
fn softmax([rows, cols, _]: Size, draw: &mut Draw) -> Case {
    let mut x: Vec<f32> = draw.floats((rows * cols) as usize).iter().map(|v| 8.0 * v).collect();
    let mut expected = Vec::with_capacity(x.len());
    for (row, shift) in x.chunks_mut(cols as usize).zip([150.0, -150.0, 0.0].into_iter().cycle()) {
        row.iter_mut().for_each(|v| *v += shift);
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let power = |v: &f32| f64::from(v - largest).exp();
        let sum: f64 = row.iter().map(power).sum();
        expected.extend(row.iter().map(|v| (power(v) / sum) as f32));
    }
    Case::new(format!("{rows} rows, {cols} columns"))
        .launch([rows, 1, 1], [THREADS as u32, 1, 1])
        .input("x", x)
        .output("y", expected, Tolerance::Within { relative: 3e-5, scale: 1e-9 })
        .int("cols", cols)
}

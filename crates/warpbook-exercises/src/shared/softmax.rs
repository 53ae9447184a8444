//! E21: row softmax that reads each element twice.

use super::reads_per_element;
use warpbook_lab::exercise::{
    Case, Ceiling, Definition, Draw, KernelTask, Mistake, Size, Target, Task, TimeTarget, Tolerance, Wrong,
};

/// Threads of a block.
const THREADS: usize = 256;
/// Rows and columns of the case that is timed on a GPU: each array is larger than the L2 cache.
const TIMED: [u32; 2] = [16_384, 4096];

pub(crate) const SOFTMAX: Definition = Definition {
    id: "E21",
    folder: "E21_softmax",
    lesson: "60_your_own_experiment",
    title: "Row softmax, a block a row",
    task: Task::Kernel(KernelTask {
        entry: "softmax",
        signature: "extern \"C\" __global__ void softmax(const float* x, float* y, int cols)",
        // Rows and columns.
        sizes: &[[3, 100, 1], [2, 1, 1], [4, 1000, 1], [1, 32_768, 1]],
        case: softmax,
        targets: &[Target::at_most("reads of global memory for each element", 2.0, reads_per_element).because(
            "read_three_times",
            "Each element is read more than twice. The largest number and the sum of powers fit into one pass: when a larger number comes, the sum so far shrinks by `exp(old - new)`.",
        )],
        time: Some(TimeTarget {
            size: [TIMED[0], TIMED[1], 1],
            bytes: 8 * TIMED[0] as u64 * TIMED[1] as u64,
            ceiling: Ceiling::Copy,
            share: 0.7,
        }),
        mistakes: &[
            Mistake::new(
                "maximum_from_zero",
                "Rows without a positive number are NaN: their largest number was taken for 0, and all powers are 0. Begin with -3.4e38f.",
                |wrong| {
                    let rows = Rows::new(wrong);
                    rows.some_nan(wrong) && rows.all_nan(wrong, |largest| largest < 0.0)
                },
            ),
            Mistake::new(
                "no_maximum",
                "Rows with large numbers are NaN: their powers are infinite. Subtract the largest number of the row first.",
                |wrong| {
                    let rows = Rows::new(wrong);
                    rows.some_nan(wrong) && rows.all_nan(wrong, |largest| largest.abs() > 80.0)
                },
            ),
            Mistake::new(
                "not_divided",
                "The powers were not divided by their sum: the shares of a row should add up to 1.",
                |wrong| {
                    let rows = Rows::new(wrong);
                    wrong.looks_like(|i| rows.power(i, rows.largest(i, |_| true)))
                },
            ),
            Mistake::new(
                "no_power",
                "The numbers themselves were divided by their sum. Take `e` to their power first.",
                |wrong| {
                    let rows = Rows::new(wrong);
                    wrong.looks_like(|i| rows.x[i] / rows.row(i).iter().sum::<f64>())
                },
            ),
            Mistake::new(
                "own_maximum",
                "Sums were added that are relative to different largest numbers. All threads of the block need the same one before sums are added, and a sum that was relative to another shrinks by `exp(own - all)`.",
                |wrong| {
                    let rows = Rows::new(wrong);
                    let own = |a: usize, b: usize| a % THREADS == b % THREADS;
                    let warp = |a: usize, b: usize| a % THREADS / 32 == b % THREADS / 32;
                    rows.relative_to(wrong, own, own)
                        || rows.relative_to(wrong, own, |_, _| true)
                        || rows.relative_to(wrong, warp, warp)
                },
            ),
            Mistake::new(
                "warp_sum",
                "Each warp divided by its own sum. The sums of all warps of the block have to be added, through shared memory.",
                |wrong| {
                    let rows = Rows::new(wrong);
                    let warp = |i: usize| i % THREADS / 32;
                    let share = |i: usize| rows.shares(i).nth(i % rows.cols).unwrap_or(f64::NAN);
                    let all = |i: usize| rows.shares(i).enumerate();
                    let sum = |i: usize| all(i).filter(|(j, _)| warp(*j) == warp(i % rows.cols)).map(|(_, v)| v).sum::<f64>();
                    rows.cols <= 4096 && wrong.looks_like(|i| share(i) / sum(i))
                },
            ),
            Mistake::new(
                "by_columns",
                "The matrix was read column by column. Row `b` begins at element `b * cols`.",
                |wrong| {
                    let rows = Rows::new(wrong);
                    let turned = Rows { x: rows.turned(), cols: rows.cols };
                    rows.cols <= 4096
                        && wrong.looks_like(|i| turned.shares(i).nth(i % turned.cols).unwrap_or(f64::NAN))
                },
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
            ("endless", "The loop never ends. Does `i` grow in every round?"),
        ],
    }),
};

/// The input of a wrong result.
struct Rows {
    x: Vec<f64>,
    cols: usize,
}

impl Rows {
    fn new(wrong: &Wrong) -> Self {
        Self { x: wrong.input("x"), cols: wrong.number("cols") as usize }
    }

    /// The row of an element.
    fn row(&self, i: usize) -> &[f64] {
        &self.x[i / self.cols * self.cols..][..self.cols]
    }

    /// The largest number in the row of element `i`, among columns for which `counts` holds.
    fn largest(&self, i: usize, counts: impl Fn(usize) -> bool) -> f64 {
        let among = self.row(i).iter().enumerate().filter(|(column, _)| counts(*column));
        among.map(|(_, v)| *v).fold(f64::NEG_INFINITY, f64::max)
    }

    fn power(&self, i: usize, largest: f64) -> f64 {
        (self.x[i] - largest).exp()
    }

    /// The right shares of the row of an element.
    fn shares(&self, i: usize) -> impl Iterator<Item = f64> {
        let (row, largest) = (self.row(i), self.largest(i, |_| true));
        let sum: f64 = row.iter().map(|v| (v - largest).exp()).sum();
        row.iter().map(move |v| (v - largest).exp() / sum)
    }

    /// The matrix read column by column.
    fn turned(&self) -> Vec<f64> {
        let rows = self.x.len() / self.cols;
        (0..self.x.len()).map(|i| self.x[i % self.cols * rows + i / self.cols]).collect()
    }

    /// Returns true if some result is NaN.
    fn some_nan(&self, wrong: &Wrong) -> bool {
        wrong.got().iter().zip(0..).any(|(v, i)| v.is_nan() && wrong.is_written(i))
    }

    /// Returns true if results are NaN only in rows whose largest number fulfils a condition.
    fn all_nan(&self, wrong: &Wrong, holds: fn(f64) -> bool) -> bool {
        let first_of_rows = (0..self.x.len()).step_by(self.cols);
        let mut nan = first_of_rows.filter(|first| wrong.got()[*first..][..self.cols].iter().any(|v| v.is_nan()));
        nan.all(|first| holds(self.largest(first, |_| true)))
    }

    /// Returns true if results are powers relative to the largest number of a column's peers in `shown`, over a sum of powers that are relative to the
    /// largest of its peers in `summed`.
    fn relative_to(
        &self,
        wrong: &Wrong,
        summed: impl Fn(usize, usize) -> bool,
        shown: impl Fn(usize, usize) -> bool,
    ) -> bool {
        // Quadratic in the columns: rows of thousands are not worth it.
        if self.cols > 1024 {
            return false;
        }
        let sum_of_row = |first: usize| -> f64 {
            let peers = |column: usize| self.largest(first, |other| summed(column, other));
            (0..self.cols).map(|column| self.power(first + column, peers(column))).sum()
        };
        let sums: Vec<f64> = (0..self.x.len()).step_by(self.cols).map(sum_of_row).collect();
        wrong.looks_like(|i| self.power(i, self.largest(i, |other| shown(i % self.cols, other))) / sums[i / self.cols])
    }
}

/// Launches a block of 256 threads for each row. Some rows are far above 0, and others far below.
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

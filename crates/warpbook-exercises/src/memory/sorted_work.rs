//! E11: arranges the work so that the threads of a warp take the same branch.

use super::LESSON;
use crate::causes::only_written;
use warpbook_lab::exercise::{
    Case, Costs, Definition, Draw, KernelTask, Mistake, Size, Target, Task, Tolerance, Wrong,
};

/// Number of threads per block.
const THREADS: usize = 256;

pub(crate) const SORTED_WORK: Definition = Definition {
    id: "E11",
    folder: "E11_sorted_work",
    lesson: LESSON,
    title: "Warps that agree",
    task: Task::Kernel(KernelTask {
        entry: "savings",
        signature: "extern \"C\" __global__ void savings(const float* deposit, const float* rate, const int* years, float* out, int n)",
        sizes: &[[100, 1, 1], [1, 1, 1], [31, 1, 1], [1500, 1, 1]],
        case: savings,
        targets: &[Target::at_least("active lanes of a warp", 30.0, Costs::active_lanes).because(
            "divergent",
            "The threads of a warp have plans of different lengths, and wait for the longest. Give the first `n` threads plan 0, the next `n` plan 1, and so on.",
        )],
        time: None,
        mistakes: &[
            Mistake::new(
                "no_block_index",
                "Only the results of the first block were written. `blockIdx.x` says which block a thread is in.",
                |wrong| only_written(wrong, |t| t < THREADS),
            ),
            Mistake::new(
                "first_plan_only",
                "Only plan 0 has results. There are `4 * n` of them, and as many threads: compare `t` with `4 * n`.",
                |wrong| {
                    let n = wrong.got().len() / 4;
                    only_written(wrong, |t| t < n)
                },
            ),
            Mistake::new(
                "plan_by_block",
                "Each block works on one plan, and the last customers have no block. The grid has threads for `4 * n` results, without a gap between plans: the plan is `t / n`.",
                |wrong| {
                    let ([blocks, ..], n) = (wrong.case().grid(), wrong.got().len() / 4);
                    let block = |t: usize| t % n / THREADS * 4 + t / n;
                    only_written(wrong, |t| block(t) < blocks as usize)
                },
            ),
            Mistake::new("one_plan_for_all", "All results belong to one plan. Each plan has its own years.", |wrong| {
                let (plans, n) = (Plans::new(wrong), wrong.got().len() / 4);
                (0..4).any(|plan| wrong.looks_like(|i| plans.after(i % n, plans.years[plan])))
            }),
            Mistake::new(
                "other_layout",
                "The four results of a customer stand side by side. Plan `p` of customer `i` is element `p * n + i`.",
                |wrong| {
                    let plans = Plans::new(wrong);
                    wrong.looks_like(|i| plans.after(i / 4, plans.years[i % 4]))
                },
            ),
            Mistake::new(
                "simple_interest",
                "Each year adds `rate[i]` times the deposit. It should be `rate[i]` times the money of that year.",
                |wrong| {
                    let (plans, n) = (Plans::new(wrong), wrong.got().len() / 4);
                    wrong.looks_like(|i| plans.deposit[i % n] * (1.0 + plans.years[i / n] * plans.rate[i % n]))
                },
            ),
            Mistake::new(
                "one_year_more",
                "Each result has one year too many. Years are counted from 0, so the loop ends before `years[plan]`.",
                |wrong| {
                    let (plans, n) = (Plans::new(wrong), wrong.got().len() / 4);
                    wrong.looks_like(|i| plans.after(i % n, plans.years[i / n] + 1.0))
                },
            ),
            Mistake::new(
                "one_year_less",
                "Each result has one year too few. Years are counted from 0, and the last one is `years[plan] - 1`.",
                |wrong| {
                    let (plans, n) = (Plans::new(wrong), wrong.got().len() / 4);
                    wrong.looks_like(|i| plans.after(i % n, plans.years[i / n] - 1.0))
                },
            ),
            Mistake::new(
                "rate_of_plan",
                "The rate was read at the plan's number. It belongs to the customer: `rate[i]`.",
                |wrong| {
                    let (plans, n) = (Plans::new(wrong), wrong.got().len() / 4);
                    let rate = |plan: usize| plans.rate.get(plan).copied().unwrap_or(f64::NAN);
                    wrong.looks_like(|i| plans.deposit[i % n] * (1.0 + rate(i / n)).powf(plans.years[i / n]))
                },
            ),
            Mistake::new("copy", "The results are the deposits: no year has passed.", |wrong| {
                let (plans, n) = (Plans::new(wrong), wrong.got().len() / 4);
                wrong.looks_like(|i| plans.deposit[i % n])
            }),
        ],
        faults: &[
            (
                "out_of_bounds",
                "There are 4 plans and `n` customers, and the last block has more threads than results. Which plan does thread `t` have, and how many threads does a plan need?",
            ),
            ("race", "Two threads write the same result. Each of the `4 * n` threads should write one of its own."),
            ("endless", "The loop over the years never ends. Does `year` grow in every round?"),
        ],
    }),
};

/// The inputs of a launch that gave a wrong result.
struct Plans {
    deposit: Vec<f64>,
    rate: Vec<f64>,
    years: Vec<f64>,
}

impl Plans {
    fn new(wrong: &Wrong) -> Self {
        let [deposit, rate, years] = ["deposit", "rate", "years"].map(|name| wrong.input(name));
        Self { deposit, rate, years }
    }

    /// Returns the money that a customer has after a number of years.
    fn after(&self, customer: usize, years: f64) -> f64 {
        self.deposit[customer] * (1.0 + self.rate[customer]).powf(years)
    }
}

/// Creates a launch with blocks of 256 threads for four savings plans of `n` customers.
fn savings([n, ..]: Size, draw: &mut Draw) -> Case {
    let deposit: Vec<f32> = draw.floats(n as usize).iter().map(|v| 2.0 + v).collect();
    let rate: Vec<f32> = draw.floats(n as usize).iter().map(|v| 0.05 + 0.03 * v).collect();
    let years: Vec<i32> = draw.permutation(4).iter().map(|plan| [4, 8, 16, 64][*plan as usize]).collect();
    let expected: Vec<f32> = years
        .iter()
        .flat_map(|years| {
            deposit.iter().zip(&rate).map(|(v, r)| (f64::from(*v) * (1.0 + f64::from(*r)).powi(*years)) as f32)
        })
        .collect();
    Case::new(format!("n = {n}"))
        .over(4 * n, THREADS as u32)
        .input("deposit", deposit)
        .input("rate", rate)
        .input("years", years)
        // The tolerance allows for 64 iterations with two roundings each.
        .output("out", expected, Tolerance::Within { relative: 2e-5, scale: 1.0 })
        .int("n", n)
}

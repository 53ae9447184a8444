//! Gradient descent on the CPU: one loop over the points, on one thread or on all.

use super::data::Columns;

use rayon::prelude::*;
use std::ops::Range;

/// Number of lanes in a loop; the compiler turns the lanes into vector registers.
const LANES: usize = 32;
/// Number of points summed in f32 before their sum is added in f64.
const BLOCK: usize = 4096;
/// Number of points that a thread takes at a time.
const CHUNK: usize = 1 << 16;

/// Sums over points: of err^2, of err, and of err * x for each feature.
type Sums = Vec<f64>;

fn add(mut a: Sums, b: &Sums) -> Sums {
    a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
    a
}

/// Makes one pass over a range of points on one thread.
fn pass((x, y): Columns<'_>, points: Range<usize>, weights: &[f32]) -> Sums {
    let starts = points.clone().step_by(BLOCK);
    let zero = vec![0.0; x.len() + 2];
    starts.map(|from| block((x, y), from..(from + BLOCK).min(points.end), weights)).fold(zero, |a, b| add(a, &b))
}

fn block((x, y): Columns<'_>, points: Range<usize>, weights: &[f32]) -> Sums {
    match x {
        [x] => block_of_one(&x[points.clone()], &y[points], weights[0], weights[1]),
        _ => block_of_many(x, y, points, weights),
    }
}

fn block_of_one(x: &[f32], y: &[f32], w: f32, b: f32) -> Sums {
    let (mut loss, mut by_w, mut by_b) = ([0.0f32; LANES], [0.0f32; LANES], [0.0f32; LANES]);
    let (rows_x, rows_y) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
    let (rest_x, rest_y) = (rows_x.remainder(), rows_y.remainder());
    for (row_x, row_y) in rows_x.zip(rows_y) {
        for i in 0..LANES {
            let error = w * row_x[i] + b - row_y[i];
            loss[i] += error * error;
            by_w[i] += error * row_x[i];
            by_b[i] += error;
        }
    }
    for (i, (x, y)) in rest_x.iter().zip(rest_y).enumerate() {
        let error = w * x + b - y;
        loss[i] += error * error;
        by_w[i] += error * x;
        by_b[i] += error;
    }
    vec![sum(&loss), sum(&by_b), sum(&by_w)]
}

static ONES: [f32; BLOCK] = [1.0; BLOCK];

/// Sums one feature after the other, while the block's errors stay in L1.
fn block_of_many(x: &[&[f32]], y: &[f32], points: Range<usize>, weights: &[f32]) -> Sums {
    let (b, y) = (weights[x.len()], &y[points.clone()]);
    let mut errors: Vec<f32> = y.iter().map(|y| b - y).collect();
    for (x, w) in x.iter().zip(weights) {
        errors.iter_mut().zip(&x[points.clone()]).for_each(|(e, x)| *e += w * x);
    }
    let mut sums = vec![dot(&errors, &errors), dot(&errors, &ONES[..errors.len()])];
    sums.extend(x.iter().map(|x| dot(&errors, &x[points.clone()])));
    sums
}

fn sum(lanes: &[f32; LANES]) -> f64 {
    lanes.iter().map(|v| f64::from(*v)).sum()
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    let mut lanes = [0.0f32; LANES];
    let (rows_a, rows_b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let (rest_a, rest_b) = (rows_a.remainder(), rows_b.remainder());
    for (a, b) in rows_a.zip(rows_b) {
        for i in 0..LANES {
            lanes[i] += a[i] * b[i];
        }
    }
    for (lane, (a, b)) in lanes.iter_mut().zip(rest_a.iter().zip(rest_b)) {
        *lane += a * b;
    }
    sum(&lanes)
}

/// The threads that compute a descent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Threads {
    One,
    All,
}

/// The result of a descent.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Descent {
    /// Weights: one weight for each feature, then b.
    pub(crate) weights: Vec<f32>,
    pub(crate) losses: Vec<f32>,
}

/// Runs `epochs` steps over the training points, starting from these weights (b last).
pub(crate) fn descend(
    points: Columns<'_>,
    start: &[f32],
    learning_rate: f32,
    epochs: u64,
    log_every: u64,
    threads: Threads,
) -> Descent {
    let (mut weights, mut losses) = (start.to_vec(), Vec::new());
    let (count, features) = (points.1.len(), points.0.len());
    let rate = f64::from(learning_rate) * 2.0 / count as f64;
    for epoch in 1..=epochs {
        let sums = match threads {
            Threads::One => pass(points, 0..count, &weights),
            // Sums are collected in order, so that they do not depend on the threads' speed.
            Threads::All => {
                let starts: Vec<usize> = (0..count).step_by(CHUNK).collect();
                let parts: Vec<Sums> = starts
                    .into_par_iter()
                    .map(|from| pass(points, from..(from + CHUNK).min(count), &weights))
                    .collect();
                parts.iter().fold(vec![0.0; features + 2], add)
            }
        };
        if epoch % log_every == 0 {
            losses.push((sums[0] / count as f64) as f32);
        }
        for (weight, gradient) in weights.iter_mut().zip(sums[2..].iter().chain([&sums[1]])) {
            *weight -= (rate * gradient) as f32;
        }
    }
    Descent { weights, losses }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regression::data::DataSet;
    use crate::regression::reference::Statistics;

    #[test]
    fn both_loops_descend_as_the_reference_does() {
        // Odd sizes leave a remainder after lanes, blocks and chunks.
        for (points, features) in
            [(2u64, 1u64), (37, 1), (5119, 1), (81_921, 1), (200_003, 1), (3, 2), (5119, 5), (100_003, 17)]
        {
            let set = DataSet::draw(points, features, 0.1, 9);
            let (x, y) = set.training();
            let mut start = vec![0.83f32; features as usize];
            start.push(0.7645);
            let exact: Vec<f64> = start.iter().map(|v| f64::from(*v)).collect();
            let want = Statistics::from_points((&x, y)).descend(&exact, 0.01, 50, 10);
            for threads in [Threads::One, Threads::All] {
                let got = descend((&x, y), &start, 0.01, 50, 10, threads);
                for (got, want) in got.weights.iter().zip(&want.weights) {
                    assert!((f64::from(*got) - want).abs() < 2e-5, "{points} {features} {threads:?}: {got} {want}");
                }
                assert_eq!(got.losses.len(), want.losses.len());
                for (got, want) in got.losses.iter().zip(&want.losses) {
                    assert!((f64::from(*got) - want).abs() < 2e-5 * want.max(1.0), "{points} {features}: {got} {want}");
                }
            }
        }
    }
}

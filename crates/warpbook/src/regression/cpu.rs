//! The descent on the processor: one loop over the points, by one thread or by all.

use rayon::prelude::*;

/// Lanes of a loop; the compiler turns them into vector registers.
const LANES: usize = 32;
/// Points whose sums are kept in f32 before they are added up in f64.
const BLOCK: usize = 4096;
/// Points a thread takes at a time.
const CHUNK: usize = 1 << 16;

/// Sums of err^2, err x and err over points (x, y) for a line (w, b).
type Sums = [f64; 3];

fn add(a: Sums, b: Sums) -> Sums {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

/// One pass by one thread.
fn pass(x: &[f32], y: &[f32], w: f32, b: f32) -> Sums {
    x.chunks(BLOCK).zip(y.chunks(BLOCK)).map(|(x, y)| block(x, y, w, b)).fold([0.0; 3], add)
}

fn block(x: &[f32], y: &[f32], w: f32, b: f32) -> Sums {
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
    let sum = |lanes: [f32; LANES]| lanes.iter().map(|v| f64::from(*v)).sum();
    [sum(loss), sum(by_w), sum(by_b)]
}

/// Which threads take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Threads {
    One,
    All,
}

/// What a descent gives.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Descent {
    pub(crate) w: f32,
    pub(crate) b: f32,
    pub(crate) losses: Vec<f32>,
}

/// `epochs` steps from (w, b) over the training points.
pub(crate) fn descend(
    (x, y): (&[f32], &[f32]),
    start: (f32, f32),
    learning_rate: f32,
    epochs: u64,
    log_every: u64,
    threads: Threads,
) -> Descent {
    let (mut w, mut b) = start;
    let (n, mut losses) = (x.len() as f64, Vec::new());
    for epoch in 1..=epochs {
        let sums = match threads {
            Threads::One => pass(x, y, w, b),
            // Collected in order: the sums do not depend on who was first.
            Threads::All => {
                let parts: Vec<Sums> =
                    x.par_chunks(CHUNK).zip(y.par_chunks(CHUNK)).map(|(x, y)| pass(x, y, w, b)).collect();
                parts.into_iter().fold([0.0; 3], add)
            }
        };
        if epoch % log_every == 0 {
            losses.push((sums[0] / n) as f32);
        }
        let rate = f64::from(learning_rate) * 2.0 / n;
        w -= (rate * sums[1]) as f32;
        b -= (rate * sums[2]) as f32;
    }
    Descent { w, b, losses }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regression::data::DataSet;
    use crate::regression::reference::Moments;

    #[test]
    fn both_loops_descend_as_the_reference_does() {
        // Odd sizes: with and without a rest behind the lanes, the blocks and the chunks.
        for points in [2u64, 37, 5119, 81_921, 200_003] {
            let set = DataSet::draw(points, 0.1, 9);
            let want = Moments::of(set.training().0, set.training().1).descend((0.83, 0.7645), 0.01, 50, 10);
            for threads in [Threads::One, Threads::All] {
                let got = descend(set.training(), (0.83, 0.7645), 0.01, 50, 10, threads);
                assert!((f64::from(got.w) - want.w).abs() < 2e-5, "{points} {threads:?}: {} {}", got.w, want.w);
                assert!((f64::from(got.b) - want.b).abs() < 2e-5, "{points} {threads:?}: {} {}", got.b, want.b);
                assert_eq!(got.losses.len(), want.losses.len());
            }
        }
    }
}

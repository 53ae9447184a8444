//! Muon on the CPU, in f32.

use super::{COEFFICIENTS, EPSILON, Muon, OP};
use crate::network::transpose_into;
use crate::ops::error::{Check, Result};
use warpbook_data::parallel::{CHUNK, chunks, sum};

/// Makes one step of a filter: `weights`, `gradients` and `state`, which is its momentum, are `[out][columns]`. `momentum` is the
/// factor; `nesterov` selects Nesterov's momentum.
///
/// # Errors
/// If a setting is out of range, or a slice does not have the length of the weights.
pub fn step(
    muon: &Muon,
    (rate, momentum, nesterov): (f64, f64, bool),
    out: usize,
    weights: &mut [f32],
    gradients: &[f32],
    state: &mut [f32],
) -> Result<()> {
    muon.check()?;
    let check = Check(OP);
    let columns = weights.len().checked_div(out).unwrap_or(0);
    check.positive(&[("out", out), ("columns", columns)])?;
    check.value("the rate", rate, rate >= 0.0, "at least 0")?;
    check.lengths(&[
        ("weights", weights.len(), &[out, columns]),
        ("gradients", gradients.len(), &[out, columns]),
        ("the momentum", state.len(), &[out, columns]),
    ])?;
    let momentum = momentum as f32;
    chunks(state, CHUNK, &|i, m| {
        let g = &gradients[i * CHUNK..][..m.len()];
        m.iter_mut().zip(g).for_each(|(m, g)| *m = momentum * *m + g);
    });
    let mut direction = state.to_vec();
    if nesterov {
        chunks(&mut direction, CHUNK, &|i, d| {
            let g = &gradients[i * CHUNK..][..d.len()];
            d.iter_mut().zip(g).for_each(|(d, g)| *d = g + momentum * *d);
        });
    }
    let direction = orthogonalised(muon.steps, &direction, out, columns);
    let norm = norm(weights);
    let factor = if muon.normalise && norm > 0.0 { ((out as f64).sqrt() / norm) as f32 } else { 1.0 };
    let rate = rate as f32;
    chunks(weights, CHUNK, &|i, w| {
        let d = &direction[i * CHUNK..][..w.len()];
        w.iter_mut().zip(d).for_each(|(w, d)| *w = *w * factor - rate * d);
    });
    Ok(())
}

fn norm(values: &[f32]) -> f64 {
    sum(values.len(), |range| values[range].iter().map(|v| f64::from(*v).powi(2)).sum()).sqrt()
}

/// Orthogonalises a direction `[out][columns]` by the Newton-Schulz iteration.
fn orthogonalised(steps: u32, direction: &[f32], out: usize, columns: usize) -> Vec<f32> {
    let scale = (1.0 / (norm(direction) + EPSILON)) as f32;
    let mut x: Vec<f32> = direction.iter().map(|d| d * scale).collect();
    let (rows, across) = (out.min(columns), out.max(columns));
    let is_tall = out > columns;
    if is_tall {
        x = transposed(&x, out, columns);
    }
    let [a, b, c] = COEFFICIENTS.map(|c| c as f32);
    for _ in 0..steps {
        let gram = product(&x, &x, across, rows);
        let squared = product(&gram, &gram, rows, rows);
        let polynomial: Vec<f32> = gram.iter().zip(&squared).map(|(g, s)| b * g + c * s).collect();
        let applied = product(&polynomial, &transposed(&x, rows, across), rows, across);
        x.iter_mut().zip(&applied).for_each(|(x, y)| *x = a * *x + y);
    }
    if is_tall { transposed(&x, columns, out) } else { x }
}

fn transposed(from: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let mut to = vec![0.0; from.len()];
    transpose_into(from, &mut to, rows, columns);
    to
}

/// Computes P Q^T of rows of length `depth`; Q has `columns` rows.
fn product(p: &[f32], q: &[f32], depth: usize, columns: usize) -> Vec<f32> {
    let mut to = vec![0.0; p.len() / depth * columns];
    chunks(&mut to, columns, &|row, to| {
        let p = &p[row * depth..][..depth];
        to.iter_mut().zip(q.chunks_exact(depth)).for_each(|(to, q)| *to = dot(p, q));
    });
    to
}

/// Computes a dot product with eight partial sums, so that the compiler vectorises it.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 8;
    let (mut sums, whole) = ([0.0f32; LANES], a.len() / LANES * LANES);
    for (a, b) in a.chunks_exact(LANES).zip(b.chunks_exact(LANES)) {
        (0..LANES).for_each(|l| sums[l] += a[l] * b[l]);
    }
    let rest: f32 = a[whole..].iter().zip(&b[whole..]).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

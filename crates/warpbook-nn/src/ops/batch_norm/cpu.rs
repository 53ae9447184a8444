//! Batch normalisation on the CPU. Sums are in f64.

use super::{BatchNorm, Running, Saved};
use crate::ops::error::Result;
use warpbook_data::parallel::{chunks, column_sums};

/// Computes y from x with the statistics of the batch, which are saved for [`backward`] and included in the running statistics. y and `saved`
/// are not read.
///
/// # Errors
/// If a size is zero, a setting is out of range, a slice has the wrong length, or there is a single row.
pub fn forward_training(
    b: &BatchNorm,
    x: &[f32],
    [gamma, beta]: [&[f32]; 2],
    y: &mut [f32],
    running: Running<'_>,
    saved: Saved<'_>,
) -> Result<()> {
    forward_training_across(b, x, [gamma, beta], y, running, saved, JoinSums { counts: true, add: &mut |_| {} })
}

/// Joins the statistics of several ranks, each of which has some of the rows.
pub struct JoinSums<'a> {
    /// True if the statistics include this rank's rows.
    pub counts: bool,
    /// Adds the other ranks' sums to the slice.
    pub add: &'a mut dyn FnMut(&mut [f64]),
}

/// Like [`forward_training`], with the statistics of all ranks' rows. `b` describes this rank's rows.
///
/// # Errors
/// See [`forward_training`].
pub fn forward_training_across(
    b: &BatchNorm,
    x: &[f32],
    [gamma, beta]: [&[f32]; 2],
    y: &mut [f32],
    running: Running<'_>,
    saved: Saved<'_>,
    across: JoinSums<'_>,
) -> Result<()> {
    b.check(
        &[("x", x.len()), ("y", y.len())],
        &[
            ("gamma", gamma.len()),
            ("beta", beta.len()),
            ("the running mean", running.mean.len()),
            ("the running variance", running.variance.len()),
            ("the saved mean", saved.mean.len()),
            ("the saved inverse deviation", saved.inverse_deviation.len()),
        ],
    )?;
    let none = || vec![0.0; b.channels];
    let mut mean = if across.counts { sums(b, x, |x, _| x) } else { none() };
    mean.push(if across.counts { b.rows as f64 } else { 0.0 });
    (across.add)(&mut mean);
    let rows = mean.pop().unwrap_or(0.0);
    BatchNorm { rows: rows as usize, ..*b }.check_training()?;
    mean.iter_mut().for_each(|m| *m /= rows);
    // A second pass, because the difference of two large sums would lose the variance.
    let mut squares = if across.counts { sums(b, x, |x, c| (x - mean[c]) * (x - mean[c])) } else { none() };
    (across.add)(&mut squares);
    let blend = |old: &mut f32, new: f64| {
        let momentum = f64::from(b.momentum);
        *old = ((1.0 - momentum) * f64::from(*old) + momentum * new) as f32;
    };
    for c in 0..b.channels {
        blend(&mut running.mean[c], mean[c]);
        blend(&mut running.variance[c], squares[c] / (rows - 1.0));
        saved.mean[c] = mean[c] as f32;
        saved.inverse_deviation[c] = (1.0 / (squares[c] / rows + f64::from(b.epsilon)).sqrt()) as f32;
    }
    normalise(x, [gamma, beta], saved.mean, saved.inverse_deviation, y);
    Ok(())
}

/// Computes y from x with the running statistics. y is not read.
///
/// # Errors
/// If a size is zero, a setting is out of range, or a slice has the wrong length.
pub fn forward_inference(
    b: &BatchNorm,
    x: &[f32],
    [gamma, beta]: [&[f32]; 2],
    [mean, variance]: [&[f32]; 2],
    y: &mut [f32],
) -> Result<()> {
    let vectors = [
        ("gamma", gamma.len()),
        ("beta", beta.len()),
        ("the running mean", mean.len()),
        ("the running variance", variance.len()),
    ];
    b.check(&[("x", x.len()), ("y", y.len())], &vectors)?;
    let inverse = |v: &f32| (1.0 / (f64::from(*v) + f64::from(b.epsilon)).sqrt()) as f32;
    let inverse_deviation: Vec<f32> = variance.iter().map(inverse).collect();
    normalise(x, [gamma, beta], mean, &inverse_deviation, y);
    Ok(())
}

/// Computes dx, dgamma and dbeta from dy after [`forward_training`], which saved `mean` and `inverse_deviation`. The results are not read.
///
/// # Errors
/// See [`forward_training`].
pub fn backward(
    b: &BatchNorm,
    x: &[f32],
    gamma: &[f32],
    [mean, inverse_deviation]: [&[f32]; 2],
    dy: &[f32],
    dx: &mut [f32],
    [dgamma, dbeta]: [&mut [f32]; 2],
) -> Result<()> {
    let across = JoinSums { counts: true, add: &mut |_| {} };
    backward_across(b, x, gamma, [mean, inverse_deviation], dy, dx, [dgamma, dbeta], across)
}

/// Like [`backward`], but for use after [`forward_training_across`]. dgamma and dbeta cover only this rank's rows.
///
/// # Errors
/// See [`forward_training`].
#[expect(clippy::too_many_arguments, reason = "those of `backward`, and the ranks")]
pub fn backward_across(
    b: &BatchNorm,
    x: &[f32],
    gamma: &[f32],
    [mean, inverse_deviation]: [&[f32]; 2],
    dy: &[f32],
    dx: &mut [f32],
    [dgamma, dbeta]: [&mut [f32]; 2],
    across: JoinSums<'_>,
) -> Result<()> {
    b.check(
        &[("x", x.len()), ("dy", dy.len()), ("dx", dx.len())],
        &[
            ("gamma", gamma.len()),
            ("the saved mean", mean.len()),
            ("the saved inverse deviation", inverse_deviation.len()),
            ("dgamma", dgamma.len()),
            ("dbeta", dbeta.len()),
        ],
    )?;
    let channels = b.channels;
    let mut both = column_sums(b.rows, 2 * channels, |rows, sums| {
        let (of_dy, of_products) = sums.split_at_mut(channels);
        let range = rows.start * channels..rows.end * channels;
        for (x, dy) in x[range.clone()].chunks_exact(channels).zip(dy[range].chunks_exact(channels)) {
            of_dy.iter_mut().zip(dy).for_each(|(sum, dy)| *sum += f64::from(*dy));
            let normal = x.iter().zip(mean).zip(inverse_deviation).map(|((x, m), i)| f64::from((x - m) * i));
            of_products.iter_mut().zip(dy).zip(normal).for_each(|((sum, dy), n)| *sum += f64::from(*dy) * n);
        }
    });
    if !across.counts {
        both.fill(0.0);
    }
    let (of_dy, of_products) = both.split_at(channels);
    dbeta.iter_mut().zip(of_dy).for_each(|(out, sum)| *out = *sum as f32);
    dgamma.iter_mut().zip(of_products).for_each(|(out, sum)| *out = *sum as f32);
    both.push(if across.counts { b.rows as f64 } else { 0.0 });
    (across.add)(&mut both);
    let n = both.pop().unwrap_or(0.0);
    BatchNorm { rows: n as usize, ..*b }.check_training()?;
    if !across.counts {
        dx.fill(0.0);
        return Ok(());
    }
    let (of_dy, of_products) = both.split_at(channels);
    // dx = gamma / deviation (dy - mean(dy) - x^ mean(dy x^)), with x^ the normalised x, is linear in dy and x for each channel.
    let inverse = |c: usize| f64::from(inverse_deviation[c]);
    let factor = |c: usize| f64::from(gamma[c]) * inverse(c);
    let each = |f: &dyn Fn(usize) -> f64| (0..channels).map(|c| f(c) as f32).collect::<Vec<f32>>();
    let of_x = each(&|c| -factor(c) * inverse(c) * of_products[c] / n);
    let shift = each(&|c| -factor(c) * of_dy[c] / n);
    let of_dy = each(&factor);
    chunks(dx, ROWS * channels, &|chunk, dx| {
        let [x, dy] = [x, dy].map(|v| &v[chunk * ROWS * channels..]);
        let rows = dx.chunks_mut(channels).zip(x.chunks(channels)).zip(dy.chunks(channels));
        for ((dx, x), dy) in rows {
            let lines = of_dy.iter().zip(&of_x).zip(&shift).zip(mean);
            for (((dx, x), dy), (((of_dy, of_x), shift), mean)) in dx.iter_mut().zip(x).zip(dy).zip(lines) {
                *dx = of_dy * dy + (of_x * (x - mean) + shift);
            }
        }
    });
    Ok(())
}

/// Number of rows that one task of the thread pool sums.
const ROWS: usize = 64;

/// Sums `f(x, channel)` over the rows, for each channel.
fn sums(b: &BatchNorm, x: &[f32], f: impl Fn(f64, usize) -> f64 + Sync) -> Vec<f64> {
    column_sums(b.rows, b.channels, |rows, sums| {
        for row in x[rows.start * b.channels..rows.end * b.channels].chunks_exact(b.channels) {
            for (c, (sum, x)) in sums.iter_mut().zip(row).enumerate() {
                *sum += f(f64::from(*x), c);
            }
        }
    })
}

fn normalise(x: &[f32], [gamma, beta]: [&[f32]; 2], mean: &[f32], inverse_deviation: &[f32], y: &mut [f32]) {
    let channels = mean.len();
    let scale: Vec<f32> = gamma.iter().zip(inverse_deviation).map(|(gamma, inverse)| gamma * inverse).collect();
    chunks(y, ROWS * channels, &|chunk, y| {
        let x = &x[chunk * ROWS * channels..];
        for (y, x) in y.chunks_mut(channels).zip(x.chunks(channels)) {
            let settings = mean.iter().zip(&scale).zip(beta);
            for ((y, x), ((mean, scale), beta)) in y.iter_mut().zip(x).zip(settings) {
                *y = (x - mean) * scale + beta;
            }
        }
    });
}

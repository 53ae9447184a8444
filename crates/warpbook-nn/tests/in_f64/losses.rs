use warpbook_nn::ops::cross_entropy::CrossEntropy;

/// Logarithms of the softmax of a row.
fn log_softmax(row: &[f64]) -> Vec<f64> {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|v| (v - max).exp()).sum();
    row.iter().map(|v| v - max - sum.ln()).collect()
}

fn target(c: &CrossEntropy, label: u8, class: usize) -> f64 {
    let s = f64::from(c.smoothing);
    s / c.classes as f64 + if class == usize::from(label) { 1.0 - s } else { 0.0 }
}

/// Mean cross entropy.
pub fn cross_entropy(c: &CrossEntropy, logits: &[f64], labels: &[u8]) -> f64 {
    let row = |(row, label): (&[f64], &u8)| -> f64 {
        log_softmax(row).iter().enumerate().map(|(class, log)| -target(c, *label, class) * log).sum()
    };
    logits.chunks(c.classes).zip(labels).map(row).sum::<f64>() / c.batch as f64
}

/// Gradient of the mean cross entropy.
pub fn cross_entropy_gradient(c: &CrossEntropy, logits: &[f64], labels: &[u8]) -> Vec<f64> {
    let row = |(row, label): (&[f64], &u8)| -> Vec<f64> {
        let softmax = log_softmax(row).into_iter().map(f64::exp).enumerate();
        softmax.map(|(class, p)| (p - target(c, *label, class)) / c.batch as f64).collect()
    };
    logits.chunks(c.classes).zip(labels).flat_map(row).collect()
}

/// Mean squared error.
pub fn mse(output: &[f64], target: &[f64]) -> f64 {
    output.iter().zip(target).map(|(o, t)| (o - t) * (o - t)).sum::<f64>() / output.len() as f64
}

/// Gradient of the mean squared error.
pub fn mse_gradient(output: &[f64], target: &[f64]) -> Vec<f64> {
    output.iter().zip(target).map(|(o, t)| 2.0 * (o - t) / output.len() as f64).collect()
}

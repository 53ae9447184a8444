use warpbook_nn::ops::batch_norm::BatchNorm;

/// Mean and biased variance of each channel.
pub fn moments(b: &BatchNorm, x: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let of_channel = |c: usize| {
        let column = || x.iter().skip(c).step_by(b.channels);
        let mean = column().sum::<f64>() / b.rows as f64;
        (mean, column().map(|v| (v - mean).powi(2)).sum::<f64>() / b.rows as f64)
    };
    (0..b.channels).map(of_channel).unzip()
}

/// Computes y with the batch's statistics.
pub fn batch_norm(b: &BatchNorm, x: &[f64], gamma: &[f64], beta: &[f64]) -> Vec<f64> {
    let (mean, variance) = moments(b, x);
    batch_norm_with(b, x, gamma, beta, &mean, &variance)
}

/// Computes y with given statistics.
pub fn batch_norm_with(
    b: &BatchNorm,
    x: &[f64],
    gamma: &[f64],
    beta: &[f64],
    mean: &[f64],
    variance: &[f64],
) -> Vec<f64> {
    let element = |(i, x): (usize, &f64)| {
        let c = i % b.channels;
        gamma[c] * (x - mean[c]) / (variance[c] + f64::from(b.epsilon)).sqrt() + beta[c]
    };
    x.iter().enumerate().map(element).collect()
}

/// Computes dx, dgamma and dbeta in training, by the chain rule through mean and variance.
pub fn batch_norm_gradient(b: &BatchNorm, x: &[f64], gamma: &[f64], dy: &[f64]) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let (mean, variance) = moments(b, x);
    let n = b.rows as f64;
    let (mut dx, mut dgamma, mut dbeta) = (vec![0.0; x.len()], vec![0.0; b.channels], vec![0.0; b.channels]);
    for c in 0..b.channels {
        let deviation = (variance[c] + f64::from(b.epsilon)).sqrt();
        let places = || (c..x.len()).step_by(b.channels);
        dbeta[c] = places().map(|i| dy[i]).sum();
        dgamma[c] = places().map(|i| dy[i] * (x[i] - mean[c]) / deviation).sum();
        let of_variance: f64 = places().map(|i| dy[i] * gamma[c] * (x[i] - mean[c]) * -0.5 / deviation.powi(3)).sum();
        let of_mean: f64 = places().map(|i| -dy[i] * gamma[c] / deviation).sum();
        for i in places() {
            dx[i] = dy[i] * gamma[c] / deviation + of_variance * 2.0 * (x[i] - mean[c]) / n + of_mean / n;
        }
    }
    (dx, dgamma, dbeta)
}

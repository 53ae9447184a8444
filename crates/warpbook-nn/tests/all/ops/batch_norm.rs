use super::common::{close, is_gradient, poison, random, refused, same_bits, wide};
use crate::in_f64 as reference;
use warpbook_nn::ops::batch_norm::{BatchNorm, Running, Saved, cpu};

struct Case {
    b: BatchNorm,
    x: Vec<f32>,
    gamma: Vec<f32>,
    beta: Vec<f32>,
    dy: Vec<f32>,
}

impl Case {
    fn new(rows: usize, channels: usize) -> Self {
        let b = BatchNorm { momentum: 0.2, ..BatchNorm::new(rows, channels) };
        // Means are far from zero, so a difference of large sums would lose the variance.
        let x = random(rows * channels, 1).iter().enumerate().map(|(i, v)| v + 100.0 * (i % channels) as f32).collect();
        Self { b, x, gamma: random(channels, 2), beta: random(channels, 3), dy: random(rows * channels, 4) }
    }

    /// Returns y, running mean, running variance, saved mean, saved inverse deviation, dx, dgamma, dbeta.
    fn run(&self) -> Vec<Vec<f32>> {
        let Self { b, x, gamma, beta, dy } = self;
        let channel = || poison(b.channels);
        let [mut y, mut dx] = [poison(x.len()), poison(x.len())];
        let (mut mean, mut variance) = (vec![0.0; b.channels], vec![1.0; b.channels]);
        let [mut batch_mean, mut inverse, mut dgamma, mut dbeta] = [channel(), channel(), channel(), channel()];
        let running = Running { mean: &mut mean, variance: &mut variance };
        let saved = Saved { mean: &mut batch_mean, inverse_deviation: &mut inverse };
        cpu::forward_training(b, x, [gamma, beta], &mut y, running, saved).unwrap();
        cpu::backward(b, x, gamma, [&batch_mean, &inverse], dy, &mut dx, [&mut dgamma, &mut dbeta]).unwrap();
        vec![y, mean, variance, batch_mean, inverse, dx, dgamma, dbeta]
    }
}

#[test]
fn training_and_its_gradients() {
    for (rows, channels) in [(2, 1), (3, 7), (1001, 5), (20_000, 3), (65, 70)] {
        let case = Case::new(rows, channels);
        let b = &case.b;
        let [x, gamma, beta, dy] = [&case.x, &case.gamma, &case.beta, &case.dy].map(|v| wide(v));
        let out = case.run();
        // An x near 100 c has an error of up to 100 c / 2^24 in f32, and its mean adds the same once more.
        let tolerance = 2e-5 * (1.0 + channels as f64 / 10.0);
        close("y", &out[0], &reference::batch_norm(b, &x, &gamma, &beta), tolerance * 10.0);
        let (mean, variance) = reference::moments(b, &x);
        close("mean", &out[3], &mean, 1e-7);
        close("running mean", &out[1], &mean.iter().map(|m| 0.2 * m).collect::<Vec<_>>(), 1e-6);
        let unbiased = |v: &f64| 0.8 + 0.2 * v * rows as f64 / (rows as f64 - 1.0);
        close("running variance", &out[2], &variance.iter().map(unbiased).collect::<Vec<_>>(), 1e-6);
        let inverse = |v: &f64| 1.0 / (v + f64::from(1e-5f32)).sqrt();
        close("inverse deviation", &out[4], &variance.iter().map(inverse).collect::<Vec<_>>(), 1e-6);
        let (dx, dgamma, dbeta) = reference::batch_norm_gradient(b, &x, &gamma, &dy);
        close("dx", &out[5], &dx, tolerance * 10.0);
        close("dgamma", &out[6], &dgamma, tolerance * 10.0);
        close("dbeta", &out[7], &dbeta, 1e-6);
    }
}

#[test]
fn inference_takes_the_running_statistics() {
    let case = Case::new(33, 6);
    let (mean, variance) = (random(6, 8), random(6, 9).iter().map(|v| v * v).collect::<Vec<f32>>());
    let mut y = poison(case.x.len());
    cpu::forward_inference(&case.b, &case.x, [&case.gamma, &case.beta], [&mean, &variance], &mut y).unwrap();
    let [x, gamma, beta, mean, variance] =
        [&case.x, &case.gamma, &case.beta, &mean, &variance].map(|v: &Vec<f32>| wide(v));
    close("y", &y, &reference::batch_norm_with(&case.b, &x, &gamma, &beta, &mean, &variance), 1e-6);
}

#[test]
fn numbers_by_hand() {
    // The values 1, 2, 3, 4 have mean 2.5, variance 1.25, unbiased 5/3; torch.nn.BatchNorm1d(1) gives a running variance of
    // 0.9 + 0.1 * 5/3.
    let b = BatchNorm::new(4, 1);
    let (mut y, mut mean, mut variance, mut m, mut i) = ([0.0; 4], [0.0], [1.0], [0.0], [0.0]);
    let (running, saved) =
        (Running { mean: &mut mean, variance: &mut variance }, Saved { mean: &mut m, inverse_deviation: &mut i });
    cpu::forward_training(&b, &[1.0, 2.0, 3.0, 4.0], [&[1.0], &[0.0]], &mut y, running, saved).unwrap();
    close("y", &y, &[-1.341_635_4, -0.447_211_8, 0.447_211_8, 1.341_635_4], 1e-6);
    close("running", &[mean[0], variance[0]], &[0.25, 1.066_666_666], 1e-7);
}

#[test]
fn the_reference_s_gradients_are_slopes() {
    let b = BatchNorm { epsilon: 0.1, ..BatchNorm::new(5, 3) };
    let [x, gamma, beta, dy] = [(15, 1), (3, 2), (3, 3), (15, 4)].map(|(n, s)| wide(&random(n, s)));
    let (dx, dgamma, dbeta) = reference::batch_norm_gradient(&b, &x, &gamma, &dy);
    is_gradient("x", &x, &dy, &dx, |x| reference::batch_norm(&b, x, &gamma, &beta));
    is_gradient("gamma", &gamma, &dy, &dgamma, |g| reference::batch_norm(&b, &x, g, &beta));
    is_gradient("beta", &beta, &dy, &dbeta, |beta| reference::batch_norm(&b, &x, &gamma, beta));
}

#[test]
fn threads_change_no_bit() {
    let case = Case::new(9001, 7);
    same_bits("batch_norm", || case.run());
}

#[test]
fn what_does_not_fit_is_said() {
    let case = Case::new(4, 2);
    let refuse = |b: BatchNorm, rows: usize, words: &str| {
        let mut y = poison(rows * 2);
        let (mut a, mut c, mut d, mut e) = ([0.0; 2], [1.0; 2], [0.0; 2], [0.0; 2]);
        let (running, saved) =
            (Running { mean: &mut a, variance: &mut c }, Saved { mean: &mut d, inverse_deviation: &mut e });
        let vectors = [case.gamma.as_slice(), case.beta.as_slice()];
        refused(cpu::forward_training(&b, &case.x[..rows * 2], vectors, &mut y, running, saved), words);
    };
    refuse(BatchNorm { rows: 1, ..case.b }, 1, "at least 2, since one has no variance");
    refuse(BatchNorm { epsilon: -1.0, ..case.b }, 4, "epsilon is -1");
    refuse(BatchNorm { momentum: f32::NAN, ..case.b }, 4, "momentum is NaN");
    refuse(BatchNorm { channels: 3, ..case.b }, 4, "x has the shape [4][3]");
    refuse(BatchNorm { rows: 0, ..case.b }, 0, "rows must be at least 1");
}

//! Results of PyTorch 2.11 for inputs that are exact in f32: [`steps`] is `((torch.arange(n) * k) % m - m // 2) / 4`.

use super::common::{close, poison};
use warpbook_nn::ops::activation::{self, Activation};
use warpbook_nn::ops::batch_norm::{self, BatchNorm, Running, Saved};
use warpbook_nn::ops::conv2d::{self, Geometry};
use warpbook_nn::ops::cross_entropy::{self, CrossEntropy};
use warpbook_nn::ops::optimizer::{Optimizer, clip, cpu::step};
use warpbook_nn::ops::pool;
use warpbook_nn::ops::schedule::Schedule;

fn steps(n: usize, m: usize, k: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * k % m) as f32 - (m / 2) as f32) / 4.0).collect()
}

#[test]
fn conv2d() {
    // PyTorch computed x.permute(0, 3, 1, 2) and weight.permute(0, 3, 1, 2) with stride=(2, 1), padding=(1, 1).
    let (kernel, stride, padding) = ([3, 2], [2, 1], [1, 1]);
    let g = Geometry { batch: 1, height: 4, width: 3, channels: 2, filters: 2, kernel, stride, padding };
    let (x, weight, dy) = (steps(24, 11, 7), steps(24, 13, 5), steps(16, 7, 3));
    let [mut y, mut dx, mut dweight, mut dbias] = [16, 24, 24, 2].map(poison);
    conv2d::cpu::forward(&g, &x, &weight, Some(&[0.5, -0.25]), &mut y).unwrap();
    conv2d::cpu::input_gradient(&g, &dy, &weight, &mut dx).unwrap();
    conv2d::cpu::weight_gradient(&g, &x, &dy, &mut dweight, Some(&mut dbias)).unwrap();
    let want = [2.75, -2.375, -0.9375, 1.4375, 3.4375, -1.9375, -0.25, 0.6875, 1.625, -0.75, -2.6875, 3.3125];
    assert_eq!(y[..12], want);
    assert_eq!(y[12..], [1.75, -4.375, 4.0625, 0.9375]);
    let want = [0.8125, 0.5, -0.125, 1.3125, -0.1875, 0.8125, -1.625, 0.9375, 0.4375, 0.25, 0.3125, 0.875];
    assert_eq!(dx[..12], want);
    let want = [0.5625, -0.625, 0.5, -1.125, 0.4375, -1.625, 0.6875, 0.3125, 0.5, 0.5, 0.3125, 0.6875];
    assert_eq!(dx[12..], want);
    let want = [0.4375, 0.5625, 0.375, 0.4375, -1.3125, 0.0625, 0.75, -0.375, 0.75, 0.0625, -1.1875, -0.25];
    assert_eq!(dweight[..12], want);
    let want = [0.25, 0.1875, 0.1875, 0.0625, 0.9375, -0.375, 0.8125, 0.0625, 0.625, 0.0, 0.4375, -0.3125];
    assert_eq!(dweight[12..], want);
    assert_eq!(dbias, [-0.75, 0.0]);
}

#[test]
fn batch_norm() {
    let b = BatchNorm::new(6, 2);
    let (x, dy, gamma, beta) = (steps(12, 11, 7), steps(12, 7, 3), [1.5, -0.5], [0.25, 1.0]);
    let [mut y, mut dx] = [poison(12), poison(12)];
    let (mut mean, mut variance) = ([0.0; 2], [1.0; 2]);
    let [mut batch_mean, mut inverse, mut dgamma, mut dbeta] = [[f32::NAN; 2]; 4];
    let running = Running { mean: &mut mean, variance: &mut variance };
    let saved = Saved { mean: &mut batch_mean, inverse_deviation: &mut inverse };
    batch_norm::cpu::forward_training(&b, &x, [&gamma, &beta], &mut y, running, saved).unwrap();
    batch_norm::cpu::backward(&b, &x, &gamma, [&batch_mean, &inverse], &dy, &mut dx, [&mut dgamma, &mut dbeta])
        .unwrap();
    let want = [-1.65202999, 0.758317471, -0.163484812, 0.323288977, 1.32506037, 1.48336506];
    close("y", &y[..6], &want, 3e-7);
    let want = [2.81360555, 1.04833651, -1.15584826, 0.613308012, 0.332696915, 1.77338398];
    close("y", &y[6..], &want, 3e-7);
    let want = [-1.01801312, -0.0230389107, 1.46139598, 0.124003403, 0.467533231, 0.263592064];
    close("dx", &dx[..6], &want, 3e-7);
    let want = [-0.526329637, 0.410634369, 0.304638267, -0.457389802, -0.689224601, -0.317801148];
    close("dx", &dx[6..], &want, 3e-7);
    close("dgamma", &dgamma, &[1.51611066, 0.0241682269], 3e-7);
    close("dbeta", &dbeta, &[0.5, -0.25], 3e-7);
    close("running mean", &mean, &[-0.0291666668, 0.00833333377], 1e-8);
    close("running variance", &variance, &[0.968541622, 0.989166617], 1e-7);
}

#[test]
fn cross_entropy() {
    let c = CrossEntropy { batch: 3, classes: 4, smoothing: 0.1 };
    let mut dlogits = poison(12);
    let loss = cross_entropy::cpu::loss_and_gradient(&c, &steps(12, 11, 7), &[2, 0, 3], 1.0, &mut dlogits).unwrap();
    assert!((loss.mean - 2.04849243).abs() < 2e-7, "{loss:?}");
    let want = [0.00749889808, 0.0827748701, -0.274816483, 0.18454273, -0.230153605, 0.0204273704];
    close("dlogits", &dlogits[..6], &want, 1e-7);
    let want = [0.157173097, 0.05255308, 0.0262075365, 0.190435633, 0.0647896826, -0.281432837];
    close("dlogits", &dlogits[6..], &want, 1e-7);
}

#[test]
fn gelu() {
    let x = [-1.5, 0.0, 1.5, -0.5, 1.0, -1.0, 0.5];
    let [mut y, mut dx] = [poison(7), poison(7)];
    activation::cpu::forward(Activation::Gelu, &x, &mut y).unwrap();
    activation::cpu::backward(Activation::Gelu, &x, &[1.0; 7], &mut dx).unwrap();
    close("y", &y, &[-0.10021086, 0.0, 1.39978909, -0.154268771, 0.841344714, -0.158655256, 0.345731229], 2e-7);
    close("dx", &dx, &[-0.127469152, 0.5, 1.12746918, 0.13250491, 1.08331537, -0.0833154321, 0.86749506], 2e-7);
}

#[test]
fn pooling() {
    let (size, stride, padding) = ([3; 2], [2; 2], [1; 2]);
    let g = pool::PoolGeometry { batch: 1, height: 5, width: 4, channels: 1, size, stride, padding };
    let mut x = steps(20, 11, 7);
    let mut y = poison(6);
    pool::cpu::average_forward(&g, &x, &mut y).unwrap();
    let want = [-0.138888896, 0.166666672, -0.0833333358, 0.055555556, 0.027777778, 0.111111112];
    close("average", &y, &want, 1e-7);
    // PyTorch's index is a position in the image: row * 4 + column.
    let in_image = |index: &[u8]| -> Vec<usize> {
        let place = |(at, index): (usize, &u8)| {
            let (row, column) = (at / 2 * 2 + usize::from(index / 3) - 1, at % 2 * 2 + usize::from(index % 3) - 1);
            row * 4 + column
        };
        index.iter().enumerate().map(place).collect()
    };
    let mut index = [0; 6];
    pool::cpu::max_forward(&g, &x, &mut y, &mut index).unwrap();
    assert_eq!(y, [0.5, 1.25, 0.75, 1.25, 1.0, 1.25]);
    assert_eq!(in_image(&index), [1, 3, 9, 14, 17, 14]);
    x[5] = f32::NAN;
    pool::cpu::max_forward(&g, &x, &mut y, &mut index).unwrap();
    assert!(y[..4].iter().all(|y| y.is_nan()) && y[4..] == [1.0, 1.25], "{y:?}");
    assert_eq!(in_image(&index), [5, 5, 5, 5, 17, 14]);
}

#[test]
fn optimizers() {
    let sgd = Optimizer::Sgd { momentum: 0.9, nesterov: true, weight_decay: 0.01 };
    let adam = Optimizer::Adam { betas: [0.9, 0.999], epsilon: 1e-8, weight_decay: 0.01 };
    for (optimizer, want) in [
        (sgd, [0.590209961, -1.62039244, -0.460398406]),
        (adam, [0.700019002, -1.70685041, 0.2345981]),
        (Optimizer::adam_w(), [0.697302938, -1.70198417, 0.233518898]),
    ] {
        let (mut weights, mut state) = ([1.0, -2.0, 0.5], vec![[0.0; 3]; optimizer.state_slots()]);
        for (number, s) in (1..=3).zip([0.0, 1.0, 2.0]) {
            let gradients = [0.5, -0.25 * (s + 1.0), 2.0 - s];
            step(&optimizer, 0.1, number, &mut weights, &gradients, &mut state).unwrap();
        }
        close(&format!("{optimizer:?}"), &weights, &want, 2e-7);
    }
    let mut gradient = [3.0, -4.0];
    let norm = clip::global_norm(&[&gradient]);
    clip::scale(&mut gradient, clip::factor(norm, 2.5).unwrap());
    close("clipped", &gradient, &[1.49999964, -1.99999952], 1e-7);
}

#[test]
fn schedules() {
    let check = |schedule: Schedule, rate: f64, want: &[f64]| {
        for (time, want) in (0..).zip(want) {
            let got = schedule.at(rate, time).unwrap();
            assert!((got - want).abs() <= 1e-12, "{schedule:?} at {time}: {got} {want}");
        }
    };
    let one = [0.02, 0.14758197423205038, 0.39468489568697174, 0.4998510357336271, 0.48218913127508545];
    check(Schedule::one_cycle(13), 0.5, &one);
    let end = Schedule::one_cycle(13).at(0.5, 11).unwrap();
    assert!((end - 0.014752527157061277).abs() <= 1e-12, "{end}");
    let cosine = [0.3, 0.27230746418436735, 0.19980746418436734, 0.1101925358156326, 0.03769253581563263, 0.01];
    check(Schedule::Cosine { period: 5, minimum: 0.01 }, 0.3, &cosine);
    let back = Schedule::Cosine { period: 5, minimum: 0.01 }.at(0.3, 8).unwrap();
    assert!((back - 0.19980746418436743).abs() <= 1e-12, "{back}");
    check(Schedule::Step { every: 2, gamma: 0.7 }, 0.3, &[0.3, 0.3, 0.21, 0.21, 0.147, 0.147]);
}

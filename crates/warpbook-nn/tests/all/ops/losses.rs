use super::common::{close, is_gradient, poison, random, refused, same_bits, wide};
use crate::in_f64 as reference;
use warpbook_nn::ops::cross_entropy::{self, CrossEntropy, MeanLoss};
use warpbook_nn::ops::mse;

fn labels(batch: usize, classes: usize) -> Vec<u8> {
    (0..batch).map(|i| (i * 7 % classes) as u8).collect()
}

#[test]
fn cross_entropy_and_its_gradient() {
    for (batch, classes, smoothing) in [(1, 1, 0.0), (1, 10, 0.0), (67, 10, 0.1), (512, 256, 0.05), (3, 2, 1.0)] {
        let c = CrossEntropy { batch, classes, smoothing };
        let logits: Vec<f32> = random(batch * classes, 1).iter().map(|v| 5.0 * v).collect();
        let labels = labels(batch, classes);
        let mut gradient = poison(logits.len());
        let loss = cross_entropy::cpu::loss_and_gradient(&c, &logits, &labels, 1024.0, &mut gradient).unwrap();
        let wide = wide(&logits);
        let want = reference::cross_entropy(&c, &wide, &labels);
        assert!((loss.mean - want).abs() <= 1e-12 * want.max(1.0), "{c:?}: {} {want}", loss.mean);
        assert_eq!(cross_entropy::cpu::loss(&c, &logits, &labels).unwrap(), loss);
        let want: Vec<f64> = reference::cross_entropy_gradient(&c, &wide, &labels);
        let scaled: Vec<f64> = want.iter().map(|v| v * 1024.0).collect();
        close("dlogits", &gradient, &scaled, 1e-7);
        let largest = |row: &[f32]| row.iter().position(|v| row.iter().all(|w| w <= v)).unwrap();
        let correct = logits.chunks(classes).zip(&labels).filter(|(r, l)| largest(r) == usize::from(**l)).count();
        assert_eq!(loss.correct, correct);
        if batch < 100 {
            is_gradient("logits", &wide, &[1.0], &want, |z| vec![reference::cross_entropy(&c, z, &labels)]);
        }
    }
}

#[test]
fn cross_entropy_is_stable_and_counts_as_pytorch() {
    let c = CrossEntropy { batch: 2, classes: 3, smoothing: 0.0 };
    let mut gradient = [0.0; 6];
    let logits = [1000.0, 0.0, -1000.0, -3e38, 3e38, 0.0];
    let loss = cross_entropy::cpu::loss_and_gradient(&c, &logits, &[0, 1], 1.0, &mut gradient).unwrap();
    assert_eq!((loss, gradient), (MeanLoss { mean: 0.0, correct: 2 }, [0.0; 6]));
    // The loss of equal logits is ln(classes), and the first of the logits is the prediction.
    let equal = cross_entropy::cpu::loss_and_gradient(&c, &[7.0; 6], &[0, 1], 1.0, &mut gradient).unwrap();
    assert!((equal.mean - 3f64.ln()).abs() < 1e-15 && equal.correct == 1, "{equal:?}");
    close("dlogits", &gradient, &[-1.0 / 3.0, 1.0 / 6.0, 1.0 / 6.0, 1.0 / 6.0, -1.0 / 3.0, 1.0 / 6.0], 1e-7);
    let nan = [0.0, f32::NAN, 1.0, 0.0, 1.0, 0.0];
    let loss = cross_entropy::cpu::loss_and_gradient(&c, &nan, &[2, 1], 1.0, &mut gradient).unwrap();
    assert!(loss.mean.is_nan() && loss.correct == 1 && gradient[0].is_nan() && !gradient[3].is_nan(), "{loss:?}");
}

#[test]
fn mean_squared_error_and_its_gradient() {
    let (output, target) = (random(40_001, 1), random(40_001, 2));
    let mut gradient = poison(output.len());
    let loss = mse::cpu::loss_and_gradient(&output, &target, 100.0, &mut gradient).unwrap();
    assert_eq!(mse::cpu::loss(&output, &target).unwrap(), loss);
    let (output, target) = (wide(&output), wide(&target));
    let want = reference::mse(&output, &target);
    assert!((loss - want).abs() <= 1e-12 * want, "{loss} {want}");
    let slope = reference::mse_gradient(&output, &target);
    for (got, want) in gradient.iter().zip(&slope) {
        assert!((f64::from(*got) / 100.0 - want).abs() <= 3e-7 * want.abs() + 1e-11, "{got} {want}");
    }
    let (few, of) = (&output[..9], &target[..9]);
    is_gradient("output", few, &[1.0], &reference::mse_gradient(few, of), |o| vec![reference::mse(o, of)]);
}

#[test]
fn threads_change_no_bit() {
    let c = CrossEntropy { batch: 301, classes: 10, smoothing: 0.1 };
    let (logits, target, labels) = (random(3010, 1), random(3010, 2), labels(301, 10));
    let bits = |loss: f64| vec![f32::from_bits((loss.to_bits() >> 32) as u32), f32::from_bits(loss.to_bits() as u32)];
    same_bits("losses", || {
        let [mut a, mut b] = [poison(3010), poison(3010)];
        let loss = cross_entropy::cpu::loss_and_gradient(&c, &logits, &labels, 1.0, &mut a).unwrap();
        let squares = mse::cpu::loss_and_gradient(&logits, &target, 1.0, &mut b).unwrap();
        vec![a, b, bits(loss.mean), bits(squares)]
    });
}

#[test]
fn what_does_not_fit_is_said() {
    let c = CrossEntropy { batch: 2, classes: 3, smoothing: 0.0 };
    let run = |c: CrossEntropy, labels: &[u8]| {
        cross_entropy::cpu::loss_and_gradient(&c, &[0.0; 6], labels, 1.0, &mut [0.0; 6])
    };
    refused(run(c, &[0, 3]), "label 1 is 3; there are 3, so it must be at most 2");
    refused(run(c, &[0]), "labels has the shape [2]");
    refused(run(CrossEntropy { smoothing: 1.5, ..c }, &[0, 1]), "the label smoothing is 1.5");
    refused(run(CrossEntropy { classes: 300, ..c }, &[0, 1]), "at most 256");
    refused(run(CrossEntropy { batch: 0, ..c }, &[]), "the batch must be at least 1");
    refused(mse::cpu::loss_and_gradient(&[], &[], 1.0, &mut []), "at least 1");
    refused(mse::cpu::loss_and_gradient(&[0.0; 2], &[0.0], 1.0, &mut [0.0; 2]), "the target has the shape [2]");
}

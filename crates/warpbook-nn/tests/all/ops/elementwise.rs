use super::common::{close, is_gradient, poison, random, refused, same_bits, wide};
use crate::in_f64 as reference;
use warpbook_data::philox::philox4x32_4;
use warpbook_nn::ops::activation::{self, Activation, Kept};
use warpbook_nn::ops::add;
use warpbook_nn::ops::dropout::{self, Dropout};

#[test]
fn activations_and_their_gradients() {
    for f in [Activation::Relu, Activation::Gelu] {
        let x: Vec<f32> = random(40_001, 1).iter().map(|v| 3.0 * v).collect();
        let dy = random(x.len(), 2);
        let [mut y, mut dx] = [poison(x.len()), poison(x.len())];
        activation::cpu::forward(f, &x, &mut y).unwrap();
        let kept = if f.keeps() == Kept::Input { &x } else { &y };
        activation::cpu::backward(f, kept, &dy, &mut dx).unwrap();
        let (x, dy) = (wide(&x), wide(&dy));
        close("y", &y, &reference::activation(f, &x), 1e-7);
        let gradient = reference::activation_gradient(f, &x, &dy);
        close("dx", &dx, &gradient, 2e-7);
        is_gradient("x", &x[..50], &dy[..50], &gradient[..50], |x| reference::activation(f, x));
    }
}

#[test]
fn activations_at_special_values() {
    let x = [0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -1.0, 1.0];
    let mut y = [0.0; 7];
    activation::cpu::forward(Activation::Relu, &x, &mut y).unwrap();
    assert!(y[2].is_nan() && y[..2] == [0.0, 0.0] && y[3..] == [f32::INFINITY, 0.0, 0.0, 1.0], "{y:?}");
    let mut dx = [9.0; 7];
    activation::cpu::backward(Activation::Relu, &y, &[2.0; 7], &mut dx).unwrap();
    assert_eq!(dx, [0.0, 0.0, 2.0, 2.0, 0.0, 0.0, 2.0], "as PyTorch's threshold_backward");
    activation::cpu::forward(Activation::Gelu, &x, &mut y).unwrap();
    assert!(y[2].is_nan(), "{y:?}");
    close("gelu of -1 and 1", &y[5..], &[-0.158_655_254, 0.841_344_746], 1e-7);
    refused(activation::cpu::forward(Activation::Relu, &x, &mut y[1..]), "y has the shape [7]");
    refused(activation::cpu::backward(Activation::Relu, &x, &[0.0], &mut y), "dy has the shape [7]");
}

#[test]
fn dropout_draws_the_words_it_says() {
    let d = Dropout { seed: 0x1234_5678_9abc_def0, layer: 3, step: 7, probability: 0.3 };
    let x = random(50_003, 1);
    let [mut y, mut dx] = [poison(x.len()), poison(x.len())];
    dropout::cpu::forward(&d, &x, &mut y).unwrap();
    dropout::cpu::backward(&d, &x, &mut dx).unwrap();
    assert_eq!(y, dx, "the same mask in both directions");
    for (i, (x, y)) in x.iter().zip(&y).enumerate() {
        let word = philox4x32_4(d.seed, [(i / 4) as u32, 0, 0x6472_6f70 ^ 3, 7])[i % 4];
        let kept = f64::from(word) >= f64::from(0.3f32) * 4_294_967_296.0;
        assert_eq!(*y, if kept { x * (1.0 / 0.7f64) as f32 } else { 0.0 }, "element {i}");
    }
    let share = y.iter().filter(|y| **y == 0.0).count() as f64 / y.len() as f64;
    assert!((share - 0.3).abs() < 5.0 * (0.21f64 / 50_003.0).sqrt(), "{share}");
    let mask = |d: Dropout| {
        let mut y = poison(x.len());
        dropout::cpu::forward(&d, &x, &mut y).unwrap();
        y
    };
    for other in [Dropout { step: 8, ..d }, Dropout { layer: 4, ..d }, Dropout { seed: 1, ..d }] {
        let same = mask(other).iter().zip(&y).filter(|(a, b)| a == b).count() as f64 / y.len() as f64;
        // Both masks keep, or both masks drop, an element with probability 0.49 + 0.09.
        assert!((same - 0.58).abs() < 0.02, "{other:?}: {same}");
    }
}

#[test]
fn dropout_of_nothing_and_what_it_refuses() {
    let d = Dropout { seed: 1, layer: 0, step: 0, probability: 0.0 };
    let x = random(7, 1);
    let mut y = poison(7);
    dropout::cpu::forward(&d, &x, &mut y).unwrap();
    assert_eq!(x, y);
    for probability in [1.0, -0.1, f32::NAN] {
        refused(dropout::cpu::forward(&Dropout { probability, ..d }, &x, &mut y), "from 0 to below 1");
    }
    refused(dropout::cpu::backward(&d, &x, &mut y[1..]), "dx has the shape [7]");
    let almost = Dropout { probability: 1.0f32.next_down(), ..d };
    assert_eq!((almost.threshold(), almost.scale()), (u32::MAX - 255, 16_777_216.0));
}

#[test]
fn a_residual_goes_both_ways() {
    let (a, b) = (random(40_000, 1), random(40_000, 2));
    let mut y = poison(a.len());
    add::cpu::forward(&a, &b, &mut y).unwrap();
    assert!(y.iter().zip(a.iter().zip(&b)).all(|(y, (a, b))| *y == a + b));
    let mut dx = a.clone();
    add::cpu::accumulate(&b, &mut dx).unwrap();
    assert_eq!(dx, y);
    refused(add::cpu::forward(&a, &b[1..], &mut y), "b has the shape [40000]");
    refused(add::cpu::accumulate(&b, &mut dx[1..]), "dx has the shape [40000]");
}

#[test]
fn threads_change_no_bit() {
    let x = random(70_001, 1);
    same_bits("dropout and gelu", || {
        let [mut y, mut z] = [poison(x.len()), poison(x.len())];
        let d = Dropout { seed: 5, layer: 1, step: 2, probability: 0.5 };
        dropout::cpu::forward(&d, &x, &mut y).unwrap();
        activation::cpu::forward(Activation::Gelu, &x, &mut z).unwrap();
        vec![y, z]
    });
}

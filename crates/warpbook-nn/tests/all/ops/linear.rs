use super::common::{close, is_gradient, poison, random, refused, same_bits, wide};
use crate::in_f64 as reference;
use warpbook_nn::ops::linear::{Sizes, cpu};

/// Returns y, dx, dweight, dbias of random arrays.
fn run(s: &Sizes, [x, weight, bias, dy]: [&[f32]; 4]) -> Vec<Vec<f32>> {
    let [mut y, mut dx] = [poison(dy.len()), poison(x.len())];
    let [mut dweight, mut dbias] = [poison(weight.len()), poison(bias.len())];
    cpu::forward(s, x, weight, Some(bias), &mut y).unwrap();
    cpu::input_gradient(s, dy, weight, &mut dx).unwrap();
    cpu::weight_gradient(s, x, dy, &mut dweight, Some(&mut dbias)).unwrap();
    vec![y, dx, dweight, dbias]
}

fn arrays(s: &Sizes) -> [Vec<f32>; 4] {
    let Sizes { batch, inputs, outputs } = *s;
    [random(batch * inputs, 1), random(outputs * inputs, 2), random(outputs, 3), random(batch * outputs, 4)]
}

#[test]
fn odd_sizes() {
    for (batch, inputs, outputs) in [(1, 1, 1), (1, 17, 3), (5, 1, 9), (33, 65, 1), (70, 301, 10), (129, 13, 131)] {
        let s = Sizes { batch, inputs, outputs };
        let a = arrays(&s);
        let [x, w, b, dy] = a.each_ref().map(|v| wide(v));
        let out = run(&s, a.each_ref().map(Vec::as_slice));
        close("y", &out[0], &reference::linear(&s, &x, &w, Some(&b)), 1e-5);
        close("dx", &out[1], &reference::linear_input_gradient(&s, &dy, &w), 1e-5);
        close("dweight", &out[2], &reference::linear_weight_gradient(&s, &x, &dy), 1e-5);
        close("dbias", &out[3], &reference::linear_bias_gradient(&dy, outputs), 1e-5);
        let mut plain = poison(dy.len());
        cpu::forward(&s, &a[0], &a[1], None, &mut plain).unwrap();
        close("y without a bias", &plain, &reference::linear(&s, &x, &w, None), 1e-5);
    }
}

#[test]
fn the_reference_s_gradients_are_slopes() {
    let s = Sizes { batch: 4, inputs: 3, outputs: 5 };
    let [x, w, b, dy] = arrays(&s).map(|v| wide(&v));
    let y = |x: &[f64], w: &[f64], b: &[f64]| reference::linear(&s, x, w, Some(b));
    is_gradient("x", &x, &dy, &reference::linear_input_gradient(&s, &dy, &w), |x| y(x, &w, &b));
    is_gradient("weight", &w, &dy, &reference::linear_weight_gradient(&s, &x, &dy), |w| y(&x, w, &b));
    is_gradient("bias", &b, &dy, &reference::linear_bias_gradient(&dy, 5), |b| y(&x, &w, b));
}

#[test]
fn threads_change_no_bit() {
    let s = Sizes { batch: 512, inputs: 130, outputs: 77 };
    let a = arrays(&s);
    same_bits("linear", || run(&s, a.each_ref().map(Vec::as_slice)));
}

#[test]
fn what_does_not_fit_is_said() {
    let s = Sizes { batch: 2, inputs: 3, outputs: 4 };
    let mut y = poison(8);
    refused(cpu::forward(&s, &[0.0; 5], &[0.0; 12], None, &mut y), "x has the shape [2][3]");
    refused(cpu::forward(&s, &[0.0; 6], &[0.0; 12], Some(&[0.0; 3]), &mut y), "bias has the shape [4]");
    refused(cpu::forward(&Sizes { outputs: 0, ..s }, &[0.0; 6], &[], None, &mut []), "outputs must be at least 1");
    assert_eq!(s.flops(), 48);
}

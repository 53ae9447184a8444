use super::common::{close, is_gradient, poison, random, refused, same_bits, wide};
use crate::in_f64 as reference;
use proptest::prelude::*;
use warpbook_nn::ops::conv2d::{Geometry, cpu};

fn square(
    batch: usize,
    size: usize,
    [channels, filters]: [usize; 2],
    [kernel, stride, padding]: [usize; 3],
) -> Geometry {
    let (kernel, stride, padding) = ([kernel; 2], [stride; 2], [padding; 2]);
    Geometry { batch, height: size, width: size, channels, filters, kernel, stride, padding }
}

struct Case {
    g: Geometry,
    x: Vec<f32>,
    weight: Vec<f32>,
    bias: Vec<f32>,
    dy: Vec<f32>,
}

impl Case {
    fn new(g: Geometry) -> Self {
        let (x, weight) = (random(g.input_len(), 1), random(g.weight_len(), 2));
        Self { g, x, weight, bias: random(g.filters, 3), dy: random(g.output_len().unwrap(), 4) }
    }

    /// Returns y, dx, dweight, dbias.
    fn run(&self) -> Vec<Vec<f32>> {
        let Self { g, x, weight, bias, dy } = self;
        let [mut y, mut dx] = [poison(dy.len()), poison(x.len())];
        let [mut dweight, mut dbias] = [poison(weight.len()), poison(bias.len())];
        cpu::forward(g, x, weight, Some(bias), &mut y).unwrap();
        cpu::input_gradient(g, dy, weight, &mut dx).unwrap();
        cpu::weight_gradient(g, x, dy, &mut dweight, Some(&mut dbias)).unwrap();
        vec![y, dx, dweight, dbias]
    }

    fn check(&self) {
        let Self { g, x, weight, bias, dy } = self;
        let (x64, w64, dy64) = (wide(x), wide(weight), wide(dy));
        let out = self.run();
        close(&format!("y of {g:?}"), &out[0], &reference::conv2d(g, &x64, &w64, Some(&wide(bias))), 1e-5);
        close(&format!("dx of {g:?}"), &out[1], &reference::conv2d_input_gradient(g, &dy64, &w64), 1e-5);
        close(&format!("dweight of {g:?}"), &out[2], &reference::conv2d_weight_gradient(g, &x64, &dy64), 1e-5);
        close(&format!("dbias of {g:?}"), &out[3], &reference::conv2d_bias_gradient(g, &dy64), 1e-5);
        let mut plain = poison(dy.len());
        cpu::forward(g, x, weight, None, &mut plain).unwrap();
        close(&format!("y of {g:?} without a bias"), &plain, &reference::conv2d(g, &x64, &w64, None), 1e-5);
    }
}

#[test]
fn odd_shapes() {
    let shapes = [
        square(1, 1, [1, 1], [1, 1, 0]),
        square(3, 1, [5, 7], [3, 1, 1]),
        square(2, 5, [3, 13], [5, 1, 0]),
        square(2, 7, [1, 33], [3, 3, 0]),
        square(1, 11, [3, 2], [3, 3, 1]),
        // A whole window lies in the padding.
        square(2, 3, [2, 3], [2, 3, 5]),
        square(5, 9, [7, 5], [1, 2, 0]),
        // Several blocks share one image, or several images one block.
        square(2, 50, [3, 6], [7, 1, 3]),
        square(70, 6, [40, 9], [3, 1, 1]),
        Geometry { kernel: [1, 4], stride: [2, 1], padding: [0, 3], width: 5, ..square(3, 8, [2, 17], [1, 1, 0]) },
        Geometry { kernel: [6, 2], stride: [1, 3], padding: [2, 0], width: 12, ..square(2, 4, [9, 3], [1, 1, 0]) },
    ];
    shapes.into_iter().for_each(|g| Case::new(g).check());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn any_shape(
        (batch, height, width) in (1usize..5, 1usize..9, 1usize..9),
        (channels, filters) in (1usize..7, 1usize..9),
        kernel in [1usize..5, 1usize..5],
        stride in [1usize..4, 1usize..4],
        padding in [0usize..4, 0usize..4],
    ) {
        let g = Geometry { batch, height, width, channels, filters, kernel, stride, padding };
        if kernel[0] <= height + 2 * padding[0] && kernel[1] <= width + 2 * padding[1] {
            Case::new(g).check();
        } else {
            refused(g.output(), "does not fit");
        }
    }
}

#[test]
fn the_reference_s_gradients_are_slopes() {
    for g in [
        square(2, 4, [2, 3], [3, 1, 1]),
        square(1, 7, [1, 2], [3, 3, 0]),
        Geometry { kernel: [2, 3], stride: [2, 1], padding: [1, 2], ..square(2, 5, [3, 2], [1, 1, 0]) },
    ] {
        let case = Case::new(g);
        let [x, w, b, dy] = [&case.x, &case.weight, &case.bias, &case.dy].map(|v| wide(v));
        let y = |x: &[f64], w: &[f64], b: &[f64]| reference::conv2d(&g, x, w, Some(b));
        is_gradient("x", &x, &dy, &reference::conv2d_input_gradient(&g, &dy, &w), |x| y(x, &w, &b));
        is_gradient("weight", &w, &dy, &reference::conv2d_weight_gradient(&g, &x, &dy), |w| y(&x, w, &b));
        is_gradient("bias", &b, &dy, &reference::conv2d_bias_gradient(&g, &dy), |b| y(&x, &w, b));
    }
}

#[test]
fn a_convolution_by_hand() {
    // torch.nn.functional.conv2d of arange(1, 10) as 3x3 with [[1, 2], [3, 4]]: 1*1 + 2*2 + 4*3 + 5*4 = 37, and so on.
    let g = square(1, 3, [1, 1], [2, 1, 0]);
    let x: Vec<f32> = (1..10u8).map(f32::from).collect();
    let mut y = poison(4);
    cpu::forward(&g, &x, &[1.0, 2.0, 3.0, 4.0], Some(&[0.5]), &mut y).unwrap();
    assert_eq!(y, [37.5, 47.5, 67.5, 77.5]);
    assert_eq!(g.flops().unwrap(), 32);
}

#[test]
fn threads_change_no_bit() {
    for g in [square(37, 12, [5, 9], [3, 1, 1]), square(64, 28, [1, 32], [3, 1, 0]), square(3, 40, [16, 24], [3, 2, 1])]
    {
        let case = Case::new(g);
        same_bits("conv2d", || case.run());
    }
}

#[test]
fn what_does_not_fit_is_said() {
    let g = square(2, 4, [3, 5], [3, 1, 0]);
    refused(Geometry { kernel: [5, 3], ..g }.output(), "a window of 5 does not fit into a height of 4 padded by 0");
    refused(Geometry { kernel: [3, 9], padding: [0, 2], ..g }.output(), "a width of 4 padded by 2");
    refused(Geometry { stride: [0, 1], ..g }.output(), "the stride must be at least 1");
    refused(Geometry { batch: 0, ..g }.flops(), "the batch must be at least 1");
    refused(Geometry { kernel: [0, 3], ..g }.output_len(), "the window must be at least 1");
    refused(Geometry { padding: [usize::MAX, 1], ..g }.output(), "below 2^31");
    let huge = Geometry { batch: usize::MAX, channels: usize::MAX, ..g };
    let (x, w, mut y) = (random(g.input_len(), 0), random(g.weight_len(), 0), poison(g.output_len().unwrap()));
    refused(cpu::forward(&huge, &x, &w, None, &mut y), "the slice has 96");
    refused(
        cpu::forward(&g, &x[1..], &w, None, &mut y),
        "x has the shape [2][4][4][3], so it takes 96 elements; the slice has 95",
    );
    refused(cpu::forward(&g, &x, &w[1..], None, &mut y), "weight has the shape [5][3][3][3]");
    refused(cpu::forward(&g, &x, &w, Some(&[0.0; 4]), &mut y), "bias has the shape [5]");
    refused(cpu::forward(&g, &x, &w, None, &mut y[1..]), "y has the shape [2][2][2][5]");
    assert!(y.iter().all(|v| v.is_nan()), "nothing is written");
}

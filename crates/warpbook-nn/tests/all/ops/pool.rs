use super::common::{close, is_gradient, poison, random, refused, same_bits, wide};
use crate::in_f64 as reference;
use proptest::prelude::*;
use warpbook_nn::ops::pool::{PoolGeometry, cpu};

fn check(g: &PoolGeometry, x: &[f32]) {
    let n = g.output_len().unwrap();
    let dy = random(n, 2);
    let (mut y, mut dx, mut index) = (poison(n), poison(x.len()), vec![255; n]);
    let (x64, dy64) = (wide(x), wide(&dy));
    cpu::max_forward(g, x, &mut y, &mut index).unwrap();
    let (want, places) = reference::max_pool(g, &x64);
    close(&format!("maximum of {g:?}"), &y, &want, 0.0);
    assert_eq!(index, places, "{g:?}");
    cpu::max_backward(g, &index, &dy, &mut dx).unwrap();
    close(&format!("dx of the maximum of {g:?}"), &dx, &reference::max_pool_gradient(g, &x64, &dy64), 1e-6);
    cpu::average_forward(g, x, &mut y).unwrap();
    close(&format!("average of {g:?}"), &y, &reference::average_pool(g, &x64), 1e-6);
    cpu::average_backward(g, &dy, &mut dx).unwrap();
    close(&format!("dx of the average of {g:?}"), &dx, &reference::average_pool_gradient(g, &dy64), 1e-6);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_shape(
        (batch, height, width, channels) in (1usize..4, 1usize..9, 1usize..9, 1usize..6),
        size in [1usize..5, 1usize..5],
        stride in [1usize..4, 1usize..4],
        padding in [0usize..3, 0usize..3],
        ties in any::<bool>(),
    ) {
        let g = PoolGeometry { batch, height, width, channels, size, stride, padding };
        let fits = (0..2).all(|i| size[i] <= [height, width][i] + 2 * padding[i]);
        let padded = (0..2).all(|i| 2 * padding[i] <= size[i]);
        if fits && padded {
            let mut x = random(g.input_len(), 1);
            if ties {
                x.iter_mut().for_each(|x| *x = x.round());
            }
            check(&g, &x);
        } else {
            prop_assert!(g.output().is_err());
        }
    }
}

const SMALL: PoolGeometry =
    PoolGeometry { batch: 1, height: 3, width: 3, channels: 1, size: [2, 2], stride: [1, 1], padding: [0, 0] };

#[test]
fn ties_and_nan_are_as_in_pytorch() {
    let pooled = |x: [f32; 4]| {
        let g = PoolGeometry { height: 2, width: 2, ..SMALL };
        let (mut y, mut index) = ([0.0], [9]);
        cpu::max_forward(&g, &x, &mut y, &mut index).unwrap();
        (y[0], index[0])
    };
    assert_eq!(pooled([1.0, 3.0, 3.0, 2.0]), (3.0, 1));
    assert_eq!(pooled([f32::NEG_INFINITY; 4]), (f32::NEG_INFINITY, 0));
    let (y, index) = pooled([1.0, f32::NAN, f32::NAN, 5.0]);
    assert!(y.is_nan() && index == 2, "{y} {index}");
}

#[test]
fn overlapping_windows_by_hand() {
    // Expected values from torch.nn.functional.max_pool2d and avg_pool2d of arange(1, 10) as 3x3 by 2x2
    // windows, stride 1.
    let x: Vec<f32> = (1..10u8).map(f32::from).collect();
    let (mut y, mut index, mut dx) = (poison(4), vec![0; 4], poison(9));
    cpu::max_forward(&SMALL, &x, &mut y, &mut index).unwrap();
    assert_eq!((y.as_slice(), index.as_slice()), ([5.0, 6.0, 8.0, 9.0].as_slice(), [3; 4].as_slice()));
    cpu::max_backward(&SMALL, &[3, 2, 1, 0], &[1.0, 2.0, 3.0, 4.0], &mut dx).unwrap();
    assert_eq!(dx, [0.0, 0.0, 0.0, 0.0, 10.0, 0.0, 0.0, 0.0, 0.0], "all four windows share the centre");
    cpu::average_backward(&SMALL, &[4.0; 4], &mut dx).unwrap();
    assert_eq!(dx, [1.0, 2.0, 1.0, 2.0, 4.0, 2.0, 1.0, 2.0, 1.0]);
    // With a padding of 1, the first window contains only the pixel 1, and its sum is divided by 4.
    let padded = PoolGeometry { padding: [1, 1], stride: [2, 2], ..SMALL };
    cpu::average_forward(&padded, &x, &mut y).unwrap();
    assert_eq!(y, [0.25, 1.25, 2.75, 7.0]);
}

#[test]
fn the_reference_s_gradients_are_slopes() {
    let g = PoolGeometry { batch: 2, height: 5, width: 4, channels: 2, size: [3, 2], stride: [2, 1], padding: [1, 1] };
    let (x, dy) = (wide(&random(g.input_len(), 1)), wide(&random(g.output_len().unwrap(), 2)));
    let max = reference::max_pool_gradient(&g, &x, &dy);
    is_gradient("x of the maximum", &x, &dy, &max, |x| reference::max_pool(&g, x).0);
    let average = reference::average_pool_gradient(&g, &dy);
    is_gradient("x of the average", &x, &dy, &average, |x| reference::average_pool(&g, x));
}

#[test]
fn threads_change_no_bit() {
    let g =
        PoolGeometry { batch: 9, height: 13, width: 11, channels: 5, size: [3, 3], stride: [2, 1], padding: [1, 1] };
    let (x, n) = (random(g.input_len(), 1), g.output_len().unwrap());
    same_bits("pool", || {
        let (mut y, mut dx, mut index) = (poison(n), poison(x.len()), vec![0; n]);
        cpu::max_forward(&g, &x, &mut y, &mut index).unwrap();
        cpu::max_backward(&g, &index, &y, &mut dx).unwrap();
        vec![y, dx]
    });
}

#[test]
fn what_does_not_fit_is_said() {
    refused(PoolGeometry { size: [4, 2], ..SMALL }.output(), "a window of 4 does not fit into a height of 3");
    refused(PoolGeometry { padding: [2, 0], ..SMALL }.output(), "at most half the size of the window");
    refused(PoolGeometry { stride: [1, 0], ..SMALL }.output(), "the stride must be at least 1");
    let large = PoolGeometry { height: 17, width: 17, size: [17, 17], ..SMALL };
    refused(cpu::max_forward(&large, &[0.0; 289], &mut [0.0], &mut [0]), "at most 256 elements");
    cpu::average_forward(&large, &[1.0; 289], &mut [0.0]).unwrap();
    refused(cpu::max_forward(&SMALL, &[0.0; 9], &mut [0.0; 4], &mut [0; 3]), "index has the shape [4]");
    refused(cpu::max_backward(&SMALL, &[0; 4], &[0.0; 4], &mut [0.0; 8]), "dx has the shape [1][3][3][1]");
}

//! Kernels for few channels, on supported and unsupported shapes.

use super::bench::{Bench, LAYOUTS};
use super::case::Case;
use super::shapes::{odd_shapes, square};
use warpbook_device::testing;
use warpbook_nn::ops::Layout;
use warpbook_nn::ops::conv2d::Geometry;
use warpbook_nn::ops::conv2d::cuda::{Convolution, Form, Method};
use warpbook_record::Dtype;

/// Supported shapes: one to four steps of taps, several parts of an image, filters that are not multiples of 32, strides, and images
/// smaller than the window.
fn few_shapes() -> Vec<Geometry> {
    let with_sizes = |kernel, stride, padding, g: Geometry| Geometry { kernel, stride, padding, ..g };
    vec![
        square(1, 1, [1, 8], [1, 1, 0]),
        square(3, 28, [1, 32], [3, 1, 0]),
        square(300, 28, [1, 32], [3, 1, 0]),
        square(5, 32, [3, 32], [3, 1, 1]),
        square(2, 9, [5, 40], [3, 1, 2]),
        square(2, 17, [7, 64], [3, 1, 1]),
        square(2, 2, [1, 8], [5, 1, 2]),
        with_sizes([1, 7], [3, 2], [0, 3], square(3, 40, [2, 24], [1, 1, 0])),
        square(1, 224, [3, 64], [4, 4, 0]),
    ]
}

fn check_few(test: &str, dtype: Dtype) {
    let Some(device) = testing::gpu(test) else { return };
    let bench = Bench::new(&device);
    let form = Form { method: Method::FewChannels, dtype, layout: Layout::Nhwc };
    for g in few_shapes() {
        assert!(Convolution::new(&device, &bench.gemm, &g, form).unwrap().uses_few_channels(), "{g:?}");
        Case::new(g, dtype).check(&bench, Method::FewChannels, Layout::Nhwc);
    }
    // These shapes are unsupported.
    for g in odd_shapes() {
        let case = Case::new(g, dtype);
        LAYOUTS.into_iter().for_each(|layout| case.check(&bench, Method::FewChannels, layout));
    }
}

#[test]
fn few_channels_in_f16_are_the_reference() {
    check_few("few_channels_in_f16_are_the_reference", Dtype::F16);
}

#[test]
fn few_channels_in_bf16_are_the_reference() {
    check_few("few_channels_in_bf16_are_the_reference", Dtype::Bf16);
}

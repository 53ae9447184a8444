//! Hopper's kernel whose windows TMA gathers, on supported and unsupported shapes.

use super::bench::{Bench, LAYOUTS};
use super::case::Case;
use super::shapes::{odd_shapes, square};
use warpbook_device::testing;
use warpbook_nn::ops::Layout;
use warpbook_nn::ops::conv2d::Geometry;
use warpbook_nn::ops::conv2d::cuda::{Convolution, Form, Method};
use warpbook_record::Dtype;

/// Shapes, with flags for whether TMA gathers the windows of the forward pass and of the input gradient.
fn shapes() -> Vec<(Geometry, [bool; 2])> {
    let with_sizes = |kernel, padding, width, g: Geometry| Geometry { kernel, padding, width, ..g };
    vec![
        // A tile spans several images, and the last one is not full.
        (square(5, 3, [256, 256], [3, 1, 1]), [true, true]),
        (square(3, 7, [256, 256], [3, 1, 1]), [true, true]),
        // More tiles than blocks: a tile waits to be stored while the next is multiplied.
        (square(370, 7, [256, 256], [3, 1, 1]), [true, true]),
        // The gradient sums over 256 filters and the forward pass over 64 channels.
        (square(9, 15, [64, 256], [3, 1, 1]), [false, true]),
        (square(170, 15, [64, 256], [3, 1, 1]), [false, true]),
        // Columns that fill no tile: 72 of 128, and 264 of two times 256.
        (square(4, 6, [256, 72], [3, 1, 1]), [true, false]),
        (square(2, 6, [192, 264], [3, 1, 1]), [true, false]),
        // No padding, much padding, and windows that are not square.
        (square(2, 9, [256, 128], [3, 1, 0]), [true, false]),
        (square(2, 5, [256, 256], [3, 1, 2]), [true, true]),
        (with_sizes([2, 5], [1, 3], 11, square(3, 6, [192, 128], [1, 1, 0])), [true, false]),
        (square(2, 4, [1344, 64], [1, 1, 0]), [true, false]),
    ]
}

fn check(test: &str, dtype: Dtype) {
    let Some(device) = testing::gpu(test) else { return };
    let bench = Bench::new(&device);
    let form = Form { method: Method::ManyChannels, dtype, layout: Layout::Nhwc };
    let is_hopper = device.info().compute_capability == Some((9, 0));
    for (g, uses) in shapes() {
        let made = Convolution::new(&device, &bench.gemm, &g, form).unwrap();
        assert_eq!(made.uses_tma_im2col(), uses.map(|uses| uses && is_hopper), "{g:?}");
        Case::new(g, dtype).check(&bench, Method::ManyChannels, Layout::Nhwc);
    }
    // Other kernels compute these shapes.
    for g in odd_shapes() {
        let case = Case::new(g, dtype);
        LAYOUTS.into_iter().for_each(|layout| case.check(&bench, Method::ManyChannels, layout));
    }
}

#[test]
fn windows_gathered_by_tma_in_f16_are_the_reference() {
    check("windows_gathered_by_tma_in_f16_are_the_reference", Dtype::F16);
}

#[test]
fn windows_gathered_by_tma_in_bf16_are_the_reference() {
    check("windows_gathered_by_tma_in_bf16_are_the_reference", Dtype::Bf16);
}

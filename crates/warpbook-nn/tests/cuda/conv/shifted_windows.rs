//! Hopper's kernels of shifted windows, on supported and unsupported shapes.

use super::bench::{Bench, LAYOUTS};
use super::case::Case;
use super::shapes::{odd_shapes, square};
use warpbook_device::testing;
use warpbook_nn::ops::Layout;
use warpbook_nn::ops::conv2d::Geometry;
use warpbook_nn::ops::conv2d::cuda::{Convolution, Form, Method};
use warpbook_record::Dtype;

/// Supported shapes: several tiles of an image and of a block, several rows of channels, wide and rectangular windows.
fn shifted_shapes() -> Vec<Geometry> {
    let with_sizes = |kernel, padding, width, g: Geometry| Geometry { kernel, padding, width, ..g };
    vec![
        square(1, 1, [32, 32], [1, 1, 0]),
        square(3, 26, [32, 64], [3, 1, 0]),
        square(3, 16, [32, 64], [3, 1, 1]),
        square(5, 8, [64, 128], [3, 1, 1]),
        square(300, 8, [64, 32], [3, 1, 1]),
        // For dx: fewer stages than the tile has warpgroups, and several tiles per block.
        square(300, 8, [64, 128], [3, 1, 1]),
        square(2, 12, [64, 64], [5, 1, 2]),
        square(600, 12, [32, 64], [5, 1, 2]),
        square(3, 7, [128, 96], [3, 1, 1]),
        square(2, 9, [32, 128], [2, 1, 0]),
        square(2, 3, [32, 32], [5, 1, 1]),
        with_sizes([1, 4], [0, 3], 5, square(3, 8, [64, 32], [1, 1, 0])),
        with_sizes([3, 3], [1, 1], 150, square(2, 5, [32, 32], [1, 1, 0])),
        square(2, 20, [64, 64], [1, 1, 0]),
        // Channels and filters that are padded with zeros to 32, 64 and 128.
        square(3, 13, [24, 64], [3, 1, 1]),
        square(300, 31, [24, 64], [3, 1, 1]),
        square(2, 9, [56, 120], [3, 1, 1]),
        square(3, 16, [64, 24], [3, 1, 1]),
    ]
}

fn check_shifted(test: &str, dtype: Dtype) {
    let Some(device) = testing::gpu(test) else { return };
    let bench = Bench::new(&device);
    let form = |layout| Form { method: Method::ShiftedWindows, dtype, layout };
    for g in shifted_shapes() {
        let made = Convolution::new(&device, &bench.gemm, &g, form(Layout::Nhwc)).unwrap();
        let is_hopper = device.info().compute_capability == Some((9, 0));
        assert_eq!(made.uses_shifted_windows(), [is_hopper; 3], "{g:?}");
        Case::new(g, dtype).check(&bench, Method::ShiftedWindows, Layout::Nhwc);
    }
    // These shapes are unsupported.
    for g in odd_shapes() {
        let case = Case::new(g, dtype);
        LAYOUTS.into_iter().for_each(|layout| case.check(&bench, Method::ShiftedWindows, layout));
    }
}

#[test]
fn shifted_windows_in_f16_are_the_reference() {
    check_shifted("shifted_windows_in_f16_are_the_reference", Dtype::F16);
}

#[test]
fn shifted_windows_in_bf16_are_the_reference() {
    check_shifted("shifted_windows_in_bf16_are_the_reference", Dtype::Bf16);
}

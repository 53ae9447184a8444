//! The convolutions for testing every method.

use warpbook_nn::ops::conv2d::Geometry;

pub fn square(
    batch: usize,
    size: usize,
    [channels, filters]: [usize; 2],
    [kernel, stride, padding]: [usize; 3],
) -> Geometry {
    let (kernel, stride, padding) = ([kernel; 2], [stride; 2], [padding; 2]);
    Geometry { batch, height: size, width: size, channels, filters, kernel, stride, padding }
}

/// Shapes with odd sizes, with windows in the padding in every possible way, and with channels of every
/// alignment.
pub fn odd_shapes() -> Vec<Geometry> {
    let with_sizes = |kernel, stride, padding, width, g: Geometry| Geometry { kernel, stride, padding, width, ..g };
    vec![
        square(1, 1, [1, 1], [1, 1, 0]),
        square(3, 1, [5, 8], [3, 1, 1]),
        // The kernel is larger than the image, and the padding larger than needed.
        square(2, 3, [8, 16], [5, 1, 2]),
        square(2, 3, [16, 8], [2, 3, 5]),
        square(2, 7, [1, 33], [3, 3, 0]),
        square(1, 11, [3, 5], [3, 2, 1]),
        square(3, 9, [24, 40], [3, 2, 1]),
        square(5, 6, [40, 24], [1, 1, 0]),
        square(2, 10, [8, 64], [3, 1, 1]),
        square(1, 9, [33, 3], [3, 1, 1]),
        with_sizes([1, 4], [2, 1], [0, 3], 5, square(3, 8, [16, 24], [1, 1, 0])),
        with_sizes([6, 2], [1, 3], [2, 0], 12, square(2, 4, [8, 8], [1, 1, 0])),
    ]
}

/// The layers of the trained networks, at a small batch.
pub fn layers() -> Vec<Geometry> {
    vec![
        square(3, 28, [1, 32], [3, 1, 0]),
        square(3, 26, [32, 64], [3, 1, 0]),
        square(3, 32, [3, 32], [3, 1, 1]),
        square(3, 16, [32, 64], [3, 1, 1]),
        square(5, 8, [64, 128], [3, 1, 1]),
    ]
}

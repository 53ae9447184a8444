//! Networks used for the published measurements.

use super::{Layer, Network, conv2d, dropout, flatten, linear, max_pool, relu};

/// Returns PyTorch's MNIST example: two convolutions, a pool, and two linear layers, for images of 1 x 28 x 28 and ten
/// classes.
///
/// # Panics
/// If a dropout probability is not in [0, 1).
#[must_use]
pub fn mnist_cnn(dropout_after_pool: f32, dropout_before_last: f32) -> Network {
    let drop = |p: f32| (p != 0.0).then(|| dropout(p));
    let mut layers = vec![conv2d(32, 3), relu(), conv2d(64, 3), relu(), max_pool(2)];
    layers.extend(drop(dropout_after_pool));
    layers.extend([flatten(), linear(128), relu()]);
    layers.extend(drop(dropout_before_last));
    layers.push(linear(10));
    known([1, 28, 28], layers)
}

/// Returns a network of three convolutions with pools and two linear layers, for images of 3 x 32 x 32 and ten classes.
#[must_use]
pub fn cifar10_cnn() -> Network {
    let stage = |filters| [conv2d(filters, 3).padding(1), relu(), max_pool(2)];
    let mut layers: Vec<Layer> = [32, 64, 128].into_iter().flat_map(stage).collect();
    layers.extend([flatten(), linear(512), relu(), linear(10)]);
    known([3, 32, 32], layers)
}

/// Returns a network of three linear layers of `features` x `features` with ReLU between them: a common example for
/// mixed precision.
///
/// # Panics
/// If `features` is 0, or above 46340: a layer has at most 2^31 weights.
#[must_use]
pub fn amp_recipe(features: usize) -> Network {
    let layers = [linear(features), relu(), linear(features), relu(), linear(features)];
    Network::new(features, layers).unwrap_or_else(|e| panic!("{e}"))
}

fn known(input: [usize; 3], layers: Vec<Layer>) -> Network {
    Network::new(input, layers).unwrap_or_else(|e| panic!("{e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn their_sizes_are_the_published_ones() {
        assert_eq!(mnist_cnn(0.0, 0.0).nodes().len(), 9);
        assert_eq!(mnist_cnn(0.25, 0.5).nodes().len(), 11);
        let c = cifar10_cnn();
        assert_eq!(c.params()[6].shape, [512, 2048]);
        assert_eq!(c.parameter_count(), 896 + 18_496 + 73_856 + 2048 * 512 + 512 + 5130);
        assert_eq!(amp_recipe(4096).parameter_count(), 3 * (4096 * 4096 + 4096));
    }
}

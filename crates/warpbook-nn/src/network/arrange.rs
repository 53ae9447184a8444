//! Layout of parameters during training: activations are NHWC here and NCHW in PyTorch.

use super::{Network, Op, ParamId, Shape};
use warpbook_data::parallel::chunks;

/// The order of a vector's features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Channel by channel, as in PyTorch.
    Plain,
    /// A flattened image of this shape, pixel by pixel instead of channel by channel.
    Pixels([usize; 3]),
}

/// The layout of a network's parameters and vectors where images are NHWC.
///
/// Flattening an NHWC image then costs nothing: instead, the columns of the following linear layer are permuted once, when weights are
/// loaded. If that is impossible, for example because features are added to others in another order, [`Arrangement::transposes`] returns
/// true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrangement {
    params: Vec<Permutation>,
    transposes: bool,
}

/// The order in which the elements of a parameter are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Permutation {
    Same,
    /// `[outer][channels][pixels]` is stored as `[outer][pixels][channels]`.
    Pixels {
        channels: usize,
        pixels: usize,
    },
}

impl Permutation {
    fn pixel_order(channels: usize, pixels: usize) -> Self {
        if channels == 1 || pixels == 1 { Self::Same } else { Self::Pixels { channels, pixels } }
    }

    fn store(self, from: &[f32]) -> Vec<f32> {
        let Self::Pixels { channels, pixels } = self else { return from.to_vec() };
        transpose(from, channels, pixels)
    }

    fn load(self, from: &[f32]) -> Vec<f32> {
        let Self::Pixels { channels, pixels } = self else { return from.to_vec() };
        transpose(from, pixels, channels)
    }
}

fn transpose(from: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let mut to = vec![0.0; from.len()];
    transpose_into(from, &mut to, rows, columns);
    to
}

/// Transposes each matrix of `[outer][rows][columns]` to `[outer][columns][rows]`.
pub(crate) fn transpose_into(from: &[f32], to: &mut [f32], rows: usize, columns: usize) {
    let len = rows * columns;
    chunks(to, len, &|matrix, to| {
        let from = &from[matrix * len..][..len];
        for (i, row) in from.chunks(columns).enumerate() {
            row.iter().enumerate().for_each(|(j, v)| to[j * rows + i] = *v);
        }
    });
}

impl Arrangement {
    /// Creates the layout for a network.
    #[must_use]
    pub fn new(network: &Network) -> Self {
        Self::find(network, false).unwrap_or_else(|| Self { transposes: true, ..Self::plain(network) })
    }

    /// Returns true if flattening has to transpose the image.
    #[must_use]
    pub fn transposes(&self) -> bool {
        self.transposes
    }

    /// Converts a parameter from PyTorch's layout to the stored layout.
    #[must_use]
    pub fn store(&self, param: ParamId, values: &[f32]) -> Vec<f32> {
        self.params[param].store(values)
    }

    /// Converts a stored parameter back to PyTorch's layout.
    #[must_use]
    pub fn load(&self, param: ParamId, stored: &[f32]) -> Vec<f32> {
        self.params[param].load(stored)
    }

    /// Creates the layout for NCHW images, which PyTorch uses.
    pub(crate) fn identity(network: &Network) -> Self {
        Self { params: vec![Permutation::Same; network.params().len()], transposes: false }
    }

    fn plain(network: &Network) -> Self {
        Self::find(network, true).expect("without permuted features, all orders agree")
    }

    /// Finds the layout; `None` if orders of features disagree, or the network's output would be permuted.
    fn find(network: &Network, transposes: bool) -> Option<Self> {
        let mut params = vec![Permutation::Same; network.params().len()];
        let mut orders = vec![Order::Plain; network.values().len()];
        for node in network.nodes() {
            let input = network.value(node.input);
            let order = orders[node.input];
            orders[node.output] = match (node.op, input) {
                (Op::Conv2d(c), _) => {
                    params[node.params[0]] = Permutation::pixel_order(input.channels(), c.kernel[0] * c.kernel[1]);
                    Order::Plain
                }
                (Op::Linear { .. }, _) => {
                    if let Order::Pixels([channels, height, width]) = order {
                        params[node.params[0]] = Permutation::pixel_order(channels, height * width);
                    }
                    Order::Plain
                }
                (Op::Flatten, Shape::Image { channels, height, width })
                    if !transposes && channels > 1 && height * width > 1 =>
                {
                    Order::Pixels([channels, height, width])
                }
                (Op::BatchNorm { .. }, _) => {
                    if let Order::Pixels([channels, height, width]) = order {
                        node.params
                            .iter()
                            .for_each(|p| params[*p] = Permutation::pixel_order(channels, height * width));
                    }
                    order
                }
                (Op::Add(other), _) if orders[other] != order => return None,
                // A custom layer's author counts features as PyTorch does.
                (Op::Own, _) if order != Order::Plain => return None,
                _ => order,
            };
        }
        (orders.last() == Some(&Order::Plain)).then_some(Self { params, transposes })
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;

    #[test]
    fn weights_are_stored_by_pixel_and_come_back() {
        let n = Network::new(
            [2, 2, 2],
            [conv2d(3, 2).padding(1), relu(), flatten(), batch_norm(), dropout(0.1), linear(2)],
        )
        .unwrap();
        let a = Arrangement::new(&n);
        assert!(!a.transposes());
        let count = |p: usize| (0..n.params()[p].len()).map(|i| i as f32).collect::<Vec<f32>>();
        // Filter 0: channel 0 has 0 to 3, channel 1 has 4 to 7.
        assert_eq!(a.store(0, &count(0))[..8], [0.0, 4.0, 1.0, 5.0, 2.0, 6.0, 3.0, 7.0]);
        assert_eq!(a.store(1, &count(1)), count(1), "a bias has no order");
        // 27 features of 3 x 3 x 3: the first pixel of each channel first.
        assert_eq!(a.store(2, &count(2))[..4], [0.0, 9.0, 18.0, 1.0]);
        assert_eq!(a.store(6, &count(6))[27..30], [27.0, 36.0, 45.0]);
        for p in 0..n.params().len() {
            assert_eq!(a.load(p, &a.store(p, &count(p))), count(p), "{}", n.params()[p].name);
        }
    }

    #[test]
    fn features_of_two_orders_are_not_added() {
        let n = Network::new([2, 3, 3], [flatten(), residual([linear(18)]), linear(2)]).unwrap();
        assert!(Arrangement::new(&n).transposes());
        let ends_flat = Network::new([2, 3, 3], [flatten()]).unwrap();
        assert!(Arrangement::new(&ends_flat).transposes());
        let grey = Network::new([1, 3, 3], [flatten()]).unwrap();
        assert!(!Arrangement::new(&grey).transposes());
    }
}

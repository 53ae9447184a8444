//! Initial weights other than random numbers.

use super::{Recipe, Samples, TrainError};
use crate::network::{Op, ParamSpec, Role};
use crate::ops::optimizer::groups::Group;
use crate::weights::Weights;
use rayon::prelude::*;
use warpbook_data::Dataset;

/// Largest number of images from which the whitening filters are computed; the first images are used.
const WHITENED: usize = 5000;
/// Constant added to the eigenvalues.
const EPSILON: f64 = 5e-4;

/// Initial weights that differ from [`Weights::init`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Initial {
    /// Name of a convolution that reads the images and whitens their patches: its first filters are the eigenvectors of the covariance of
    /// patches of training images, divided by the roots of their eigenvalues, in ascending order; the other filters are the negatives of the
    /// first. The layer has two filters for each element of a patch. Sources: Page, "How to Train Your ResNet", 2018; Jordan, "94% on CIFAR-10
    /// in 3.29 Seconds
    /// on a Single GPU", 2024.
    pub whiten: Option<String>,
    /// True if, in all other convolutions, filter i copies channel i, as long as both exist, like `torch.nn.init.dirac_`.
    pub identity: bool,
    /// Factors of the random numbers, by names of parameters as in [`Group::params`]; the first matching entry applies.
    pub factors: Vec<(String, f64)>,
}

impl Recipe {
    /// Draws the initial weights from the recipe's seed and, if a layer whitens, from these samples.
    ///
    /// # Errors
    /// If the whitening layer is not in the network, does not read the images, or has the wrong number of filters.
    pub fn initial_weights<'a>(&self, samples: impl Into<Samples<'a>>) -> Result<Weights, TrainError> {
        let drawn = Weights::init(&self.network, self.seed);
        let mut values = drawn.values().to_vec();
        let whiten = self.initial.whiten.as_ref().map(|name| format!("{name}.weight"));
        for (values, spec) in values.iter_mut().zip(self.network.params()) {
            if let Some((_, factor)) = self.initial.factors.iter().find(|(p, _)| Group::new(p).has(&spec.name)) {
                values.iter_mut().for_each(|v| *v = (f64::from(*v) * factor) as f32);
            }
            let is_filter = spec.role == Role::Weight && spec.shape.len() == 4;
            if self.initial.identity && is_filter && whiten.as_ref() != Some(&spec.name) {
                pass_on(values, &spec.shape);
            }
        }
        if let Some(name) = &self.initial.whiten {
            let (at, filters) = self.whitening(name, samples.into())?;
            values[at] = filters;
        }
        Ok(Weights::new(&self.network, values)?)
    }

    /// Returns the index of the whitening layer's weight, and its values.
    fn whitening(&self, name: &str, samples: Samples<'_>) -> Result<(usize, Vec<f32>), TrainError> {
        let refuse = |why: String| Err(TrainError::Setting(format!("`{name}` cannot whiten: {why}")));
        let Samples::Images(set) = samples else { return refuse("the samples are not images.".into()) };
        let node = self.network.nodes().iter().find(|n| n.name == name);
        let Some((node, Op::Conv2d(conv))) = node.map(|n| (n, n.op)) else {
            return refuse("it is not a convolution of the network.".into());
        };
        let [channels, height, width] = set.shape();
        if node.input != 0 || self.mean.len() != channels || self.deviation.len() != channels {
            return refuse(
                "it must be the first layer, and the images need a mean and a deviation for each channel.".into(),
            );
        }
        let [rows, columns] = conv.kernel;
        let len = channels * rows * columns;
        if conv.filters != 2 * len {
            return refuse(format!("patches of {len} elements need {} filters; it has {}.", 2 * len, conv.filters));
        }
        if rows > height || columns > width {
            return refuse(format!("images of {height} x {width} have no patch of {rows} x {columns}."));
        }
        let covariance = covariance(set, conv.kernel, &self.mean, &self.deviation);
        let filters = whitening_filters(covariance, len);
        Ok((node.params[0], filters.iter().map(|v| *v as f32).collect()))
    }

    /// Returns true if training changes the parameter.
    #[must_use]
    pub fn trains(&self, spec: &ParamSpec) -> bool {
        spec.role.is_trained() && !spec.frozen
    }
}

/// Sets the centre of channel i in filter i to 1.
fn pass_on(values: &mut [f32], shape: &[usize]) {
    let [_, channels, rows, columns] = *shape else { return };
    let len = channels * rows * columns;
    for (i, filter) in values.chunks_mut(len).take(channels).enumerate() {
        filter.fill(0.0);
        filter[(i * rows + rows / 2) * columns + columns / 2] = 1.0;
    }
}

/// Returns the mean product of every two elements of a normalised patch, `[len][len]`: computed from exact sums of bytes, then in f64.
fn covariance(set: &Dataset, [rows, columns]: [usize; 2], mean: &[f32], deviation: &[f32]) -> Vec<f64> {
    let [channels, height, width] = set.shape();
    let len = channels * rows * columns;
    let count = set.len().min(WHITENED);
    let (down, over) = (height - rows + 1, width - columns + 1);
    let image_len = channels * height * width;
    // First the sum of each element, then the sums of its products with itself and with earlier elements.
    let of_image = |image: &[u8]| -> Vec<u64> {
        let line = |element: usize, y: usize| {
            let (c, at) = (element / (rows * columns), element % (rows * columns));
            &image[(c * height + y + at / columns) * width + at % columns..][..over]
        };
        let lines = |element| (0..down).map(move |y| line(element, y));
        let sum = |e| lines(e).flatten().map(|v| u64::from(*v)).sum::<u64>();
        let dot = |a: &[u8], b: &[u8]| a.iter().zip(b).map(|(a, b)| u32::from(*a) * u32::from(*b)).sum::<u32>();
        let product = |a, b| lines(a).zip(lines(b)).map(|(a, b)| u64::from(dot(a, b))).sum::<u64>();
        let products = (0..len).flat_map(|a| (0..=a).map(move |b| (a, b))).map(|(a, b)| product(a, b));
        (0..len).map(sum).chain(products).collect()
    };
    let zeros = || vec![0u64; len + len * (len + 1) / 2];
    let add = |mut all: Vec<u64>, one: Vec<u64>| {
        all.iter_mut().zip(one).for_each(|(all, one)| *all += one);
        all
    };
    let images = set.images()[..count * image_len].par_chunks(image_len);
    let sums = images.map(of_image).reduce(zeros, add);
    let n = (count * down * over) as f64;
    let mean_and_deviation = |e: usize| {
        let channel = e / (rows * columns);
        (f64::from(mean[channel]) * 255.0, f64::from(deviation[channel]) * 255.0)
    };
    let mut covariance = vec![0.0; len * len];
    let mut at = len;
    for a in 0..len {
        for b in 0..=a {
            let ((mean_a, deviation_a), (mean_b, deviation_b)) = (mean_and_deviation(a), mean_and_deviation(b));
            let [sum_a, sum_b, product] = [sums[a], sums[b], sums[at]].map(|s| s as f64 / n);
            let value = (product - mean_a * sum_b - mean_b * sum_a + mean_a * mean_b) / (deviation_a * deviation_b);
            (covariance[a * len + b], covariance[b * len + a]) = (value, value);
            at += 1;
        }
    }
    covariance
}

/// Computes whitening filters `[2 len][len]`.
fn whitening_filters(covariance: Vec<f64>, len: usize) -> Vec<f64> {
    let (values, vectors) = eigen(covariance, len);
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let filter = |i: &usize| {
        let scale = 1.0 / (values[*i].max(0.0) + EPSILON).sqrt();
        let column: Vec<f64> = (0..len).map(|row| vectors[row * len + i] * scale).collect();
        column
    };
    let first: Vec<f64> = order.iter().flat_map(filter).collect();
    first.iter().copied().chain(first.iter().map(|v| -v)).collect()
}

/// Computes the eigenvalues of a symmetric matrix, and its eigenvectors as columns, by Jacobi's rotations (Golub and Van Loan, "Matrix
/// Computations", 8.5).
fn eigen(mut a: Vec<f64>, n: usize) -> (Vec<f64>, Vec<f64>) {
    let mut v: Vec<f64> = (0..n * n).map(|i| f64::from(u8::from(i / n == i % n))).collect();
    let whole: f64 = a.iter().map(|x| x * x).sum();
    for _ in 0..100 {
        let off: f64 = (0..n * n).filter(|i| i / n != i % n).map(|i| a[i] * a[i]).sum();
        if off <= 1e-30 * whole {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                rotate(&mut a, &mut v, n, (p, q));
            }
        }
    }
    ((0..n).map(|i| a[i * n + i]).collect(), v)
}

/// Rotates so that a\[p\]\[q\] becomes 0.
fn rotate(a: &mut [f64], v: &mut [f64], n: usize, (p, q): (usize, usize)) {
    let apq = a[p * n + q];
    if apq == 0.0 {
        return;
    }
    let tau = (a[q * n + q] - a[p * n + p]) / (2.0 * apq);
    let t = tau.signum() / (tau.abs() + (1.0 + tau * tau).sqrt());
    let c = 1.0 / (1.0 + t * t).sqrt();
    let s = t * c;
    for k in 0..n {
        let (kp, kq) = (a[k * n + p], a[k * n + q]);
        (a[k * n + p], a[k * n + q]) = (c * kp - s * kq, s * kp + c * kq);
    }
    for k in 0..n {
        let (pk, qk) = (a[p * n + k], a[q * n + k]);
        (a[p * n + k], a[q * n + k]) = (c * pk - s * qk, s * pk + c * qk);
        let (kp, kq) = (v[k * n + p], v[k * n + q]);
        (v[k * n + p], v[k * n + q]) = (c * kp - s * kq, s * kp + c * kq);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Network, conv2d, flatten, linear};
    use warpbook_data::synthetic_digits;

    fn recipe() -> Recipe {
        let layers =
            [conv2d(8, 2).frozen().named("whiten"), conv2d(12, 3).without_bias(), flatten(), linear(10).named("head")];
        let initial = Initial { whiten: Some("whiten".into()), identity: true, factors: vec![("head.*".into(), 0.5)] };
        Recipe { network: Network::new([1, 28, 28], layers).unwrap(), initial, ..Recipe::mnist() }
    }

    #[test]
    fn patches_are_white_after_their_filters() {
        let (recipe, set) = (recipe(), synthetic_digits(50, 10, 3).train);
        let weights = recipe.initial_weights(&set).unwrap();
        let filters = weights.get("whiten.weight").unwrap();
        // Compares with the products of all outputs of the first four filters, straight from the definition.
        let pixel = |i: usize, y: usize, x: usize| {
            (f64::from(set.images()[(i * 28 + y) * 28 + x]) / 255.0 - f64::from(recipe.mean[0]))
                / f64::from(recipe.deviation[0])
        };
        let mut sums = [[0.0; 4]; 4];
        for (i, at) in (0..50).flat_map(|i| (0..27 * 27).map(move |at| (i, at))) {
            let (y, x) = (at / 27, at % 27);
            let out: Vec<f64> = (0..4)
                .map(|f| (0..4).map(|e| f64::from(filters[4 * f + e]) * pixel(i, y + e / 2, x + e % 2)).sum())
                .collect();
            (0..16).for_each(|k| sums[k / 4][k % 4] += out[k / 4] * out[k % 4] / f64::from(50 * 27 * 27));
        }
        for (a, row) in sums.iter().enumerate() {
            for (b, got) in row.iter().enumerate() {
                // The constant added to each eigenvalue reduces the result a little.
                let wrong = if a == b { !(0.9..=1.0).contains(got) } else { got.abs() > 1e-4 };
                assert!(!wrong, "{a} {b}: {got}");
            }
        }
        assert!((0..16).all(|i| filters[16 + i] == -filters[i]), "the others have the other sign");
    }

    #[test]
    fn convolutions_pass_on_and_the_head_is_scaled() {
        let (recipe, set) = (recipe(), synthetic_digits(20, 10, 3).train);
        let (weights, drawn) = (recipe.initial_weights(&set).unwrap(), Weights::init(&recipe.network, recipe.seed));
        let (got, plain) = (weights.get("conv2.weight").unwrap(), drawn.get("conv2.weight").unwrap());
        for (at, got) in got.iter().enumerate().take(8 * 72) {
            let (filter, element) = (at / 72, at % 72);
            assert_eq!(*got, f32::from(u8::from(element == filter * 9 + 4)), "{at}");
        }
        assert_eq!(got[8 * 72..], plain[8 * 72..]);
        let halves: Vec<f32> = drawn.get("head.weight").unwrap().iter().map(|v| v / 2.0).collect();
        assert_eq!(weights.get("head.weight").unwrap(), halves);
    }

    #[test]
    fn a_layer_that_cannot_whiten_says_why() {
        let set = synthetic_digits(20, 10, 3).train;
        let check = |name: &str, layers: Vec<crate::network::Layer>, expect: &str| {
            let initial = Initial { whiten: Some(name.into()), ..Initial::default() };
            let network = Network::new([1, 28, 28], layers).unwrap();
            let sentence =
                Recipe { network, initial, ..Recipe::mnist() }.initial_weights(&set).unwrap_err().to_string();
            assert!(sentence.contains(expect), "{sentence}");
        };
        check("stem", vec![flatten(), linear(10)], "not a convolution of the network");
        check("conv1", vec![conv2d(7, 2), flatten(), linear(10)], "need 8 filters; it has 7");
        check("conv2", vec![conv2d(7, 2), conv2d(8, 2)], "must be the first layer");
    }
}

//! Layers as data: what a network is written with.

use super::backend::By;
pub use crate::ops::activation::Activation;
use crate::ops::custom_layer::OwnLayer;
use std::fmt;

/// One layer of a network, made by the functions of this module: `conv2d(32, 3).padding(1)`, `relu()`, `linear(10).named("head")`.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    pub(super) kind: Kind,
    pub(super) name: Option<String>,
    /// What computes it on a GPU.
    pub(super) by: By,
    /// A setting that this kind of layer does not have; the network refuses it.
    pub(super) misuse: Option<String>,
}

/// What a layer does.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Conv2d(Conv2d),
    Linear { features: usize, bias: bool },
    Activation(Activation),
    Pool(Pool),
    BatchNorm { momentum: f32, epsilon: f32, scale: bool },
    Dropout { p: f32 },
    Flatten,
    Residual(Vec<Layer>),
    Own(OwnLayer),
}

impl Kind {
    /// What layers of this kind are called, with a number, where nobody names them.
    pub(super) fn stem(&self) -> &str {
        match self {
            Self::Conv2d(_) => "conv",
            Self::Linear { .. } => "fc",
            Self::Activation(Activation::Relu) => "relu",
            Self::Activation(Activation::Gelu) => "gelu",
            Self::Pool(_) => "pool",
            Self::BatchNorm { .. } => "bn",
            Self::Dropout { .. } => "dropout",
            Self::Flatten => "flatten",
            Self::Residual(_) => "residual",
            Self::Own(own) => own.name(),
        }
    }
}

/// A two-dimensional convolution (cross-correlation, as in PyTorch).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conv2d {
    /// Channels of its output.
    pub filters: usize,
    /// Height and width of the kernel.
    pub kernel: [usize; 2],
    /// Rows and columns from one window to the next.
    pub stride: [usize; 2],
    /// Zeros around the image, above and below, left and right.
    pub padding: [usize; 2],
    /// Whether a bias is added to each channel.
    pub bias: bool,
    /// Whether its weight stays as it is in training; its bias, if it has one, is trained.
    pub frozen: bool,
}

/// A window that is moved over an image, channel by channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// What is taken of a window.
    pub kind: PoolKind,
    /// Height and width of the window.
    pub size: [usize; 2],
    /// Rows and columns from one window to the next.
    pub stride: [usize; 2],
    /// Border around the image: minus infinity for a maximum, zeros that count for an average.
    pub padding: [usize; 2],
}

/// What a pool takes of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolKind {
    /// The largest value.
    Max,
    /// The mean.
    Average,
}

impl From<Kind> for Layer {
    fn from(kind: Kind) -> Self {
        Self { kind, name: None, by: By::default(), misuse: None }
    }
}

/// A convolution with a square kernel, stride 1, no padding, and a bias.
#[must_use]
pub fn conv2d(filters: usize, kernel: usize) -> Layer {
    Kind::Conv2d(Conv2d { filters, kernel: [kernel; 2], stride: [1; 2], padding: [0; 2], bias: true, frozen: false })
        .into()
}

/// A fully connected layer with a bias: y = x W^T + b.
#[must_use]
pub fn linear(features: usize) -> Layer {
    Kind::Linear { features, bias: true }.into()
}

/// max(x, 0).
#[must_use]
pub fn relu() -> Layer {
    Kind::Activation(Activation::Relu).into()
}

/// The Gaussian error linear unit (Hendrycks and Gimpel, 2016), exact.
#[must_use]
pub fn gelu() -> Layer {
    Kind::Activation(Activation::Gelu).into()
}

/// The largest value of each window of `size` x `size`, windows side by side.
#[must_use]
pub fn max_pool(size: usize) -> Layer {
    pool(PoolKind::Max, size)
}

/// The mean of each window of `size` x `size`, windows side by side.
#[must_use]
pub fn avg_pool(size: usize) -> Layer {
    pool(PoolKind::Average, size)
}

fn pool(kind: PoolKind, size: usize) -> Layer {
    Kind::Pool(Pool { kind, size: [size; 2], stride: [size; 2], padding: [0; 2] }).into()
}

/// Batch normalisation (Ioffe and Szegedy, 2015) over each channel or feature, momentum 0.1, epsilon 1e-5.
#[must_use]
pub fn batch_norm() -> Layer {
    Kind::BatchNorm { momentum: 0.1, epsilon: 1e-5, scale: true }.into()
}

/// Sets elements to zero with probability `p` while training, and scales the others by 1 / (1 - p).
#[must_use]
pub fn dropout(p: f32) -> Layer {
    Kind::Dropout { p }.into()
}

/// Makes a vector of an image, channel by channel.
#[must_use]
pub fn flatten() -> Layer {
    Kind::Flatten.into()
}

/// x + f(x), where f is a list of layers that keeps the shape (He et al., 2015).
#[must_use]
pub fn residual(layers: impl IntoIterator<Item = Layer>) -> Layer {
    Kind::Residual(layers.into_iter().collect()).into()
}

/// A layer of the learner's own, forward and backward as CUDA C++: see [`crate::ops::custom_layer`].
#[must_use]
pub fn own(layer: &OwnLayer) -> Layer {
    Kind::Own(layer.clone()).into()
}

impl Layer {
    /// The same with a name for its parameters, as `conv1` in `conv1.weight`. Without it, convolutions are `conv1`, `conv2`, ...,
    /// linear layers `fc1`, ..., batch normalisations `bn1`, ....
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The same convolution or pool with this stride. The network refuses a setting that a layer does not have.
    #[must_use]
    pub fn stride(self, stride: usize) -> Self {
        self.strides([stride; 2])
    }

    /// The same convolution or pool with these strides, by rows and by columns.
    #[must_use]
    pub fn strides(mut self, strides: [usize; 2]) -> Self {
        match &mut self.kind {
            Kind::Conv2d(c) => c.stride = strides,
            Kind::Pool(p) => p.stride = strides,
            _ => return self.without_setting("stride"),
        }
        self
    }

    /// The same convolution or pool with a border of this width on all sides.
    #[must_use]
    pub fn padding(self, padding: usize) -> Self {
        self.paddings([padding; 2])
    }

    /// The same convolution or pool with a border of these widths, above and below, left and right.
    #[must_use]
    pub fn paddings(mut self, paddings: [usize; 2]) -> Self {
        match &mut self.kind {
            Kind::Conv2d(c) => c.padding = paddings,
            Kind::Pool(p) => p.padding = paddings,
            _ => return self.without_setting("padding"),
        }
        self
    }

    /// The same convolution with a kernel of this height and width.
    #[must_use]
    pub fn kernel(mut self, kernel: [usize; 2]) -> Self {
        match &mut self.kind {
            Kind::Conv2d(c) => c.kernel = kernel,
            _ => return self.without_setting("kernel"),
        }
        self
    }

    /// The same convolution or linear layer without a bias.
    #[must_use]
    pub fn without_bias(mut self) -> Self {
        match &mut self.kind {
            Kind::Conv2d(c) => c.bias = false,
            Kind::Linear { bias, .. } => *bias = false,
            _ => return self.without_setting("bias"),
        }
        self
    }

    /// The same convolution with a weight that stays as it is in training; no gradient of it is computed.
    #[must_use]
    pub fn frozen(mut self) -> Self {
        match &mut self.kind {
            Kind::Conv2d(c) => c.frozen = true,
            _ => return self.without_setting("weight that can be frozen"),
        }
        self
    }

    /// The same batch normalisation with a weight that stays 1, so that only its bias is trained.
    #[must_use]
    pub fn without_scale(mut self) -> Self {
        match &mut self.kind {
            Kind::BatchNorm { scale, .. } => *scale = false,
            _ => return self.without_setting("scale"),
        }
        self
    }

    /// The same batch normalisation with another momentum of the running statistics: new = (1 - momentum) old + momentum batch.
    #[must_use]
    pub fn momentum(mut self, value: f32) -> Self {
        match &mut self.kind {
            Kind::BatchNorm { momentum, .. } => *momentum = value,
            _ => return self.without_setting("momentum"),
        }
        self
    }

    /// The same batch normalisation with another number that is added to the variance.
    #[must_use]
    pub fn epsilon(mut self, value: f32) -> Self {
        match &mut self.kind {
            Kind::BatchNorm { epsilon, .. } => *epsilon = value,
            _ => return self.without_setting("epsilon"),
        }
        self
    }

    /// The same pool with windows of this height and width, side by side.
    #[must_use]
    pub fn window(mut self, size: [usize; 2]) -> Self {
        match &mut self.kind {
            Kind::Pool(p) => (p.size, p.stride) = (size, size),
            _ => return self.without_setting("window"),
        }
        self
    }

    pub(super) fn without_setting(mut self, name: &str) -> Self {
        self.misuse =
            Some(format!("A layer `{self}` has no {name}: leave it out, or set it on the layer that has it."));
        self
    }
}

impl Layer {
    /// As `Display` has it, and what is not as these functions make it: a frozen weight, no bias, other settings of a batch normalisation, a
    /// residual branch with its layers, and a name that was given.
    #[must_use]
    pub fn in_full(&self) -> String {
        let mut text = self.to_string();
        let mut add = |more: &str| text.push_str(more);
        match &self.kind {
            Kind::Conv2d(c) => {
                add(if c.bias { "" } else { ", no bias" });
                add(if c.frozen { ", frozen weight" } else { "" });
            }
            Kind::Linear { bias: false, .. } => add(", no bias"),
            Kind::BatchNorm { momentum, epsilon, scale } => {
                if let Kind::BatchNorm { momentum: m, epsilon: e, .. } = batch_norm().kind {
                    add(&if *momentum == m { String::new() } else { format!(", momentum {momentum}") });
                    add(&if *epsilon == e { String::new() } else { format!(", epsilon {epsilon:e}") });
                }
                add(if *scale { "" } else { ", no scale" });
            }
            Kind::Residual(layers) => {
                let layers: Vec<String> = layers.iter().map(Self::in_full).collect();
                add(&format!(" ({})", layers.join("; ")));
            }
            _ => {}
        }
        let stem = self.kind.stem();
        let counted = |name: &str| name.strip_prefix(stem).is_some_and(|n| n.chars().all(|c| c.is_ascii_digit()));
        match &self.name {
            Some(name) if !counted(name) => text + ", named " + name,
            _ => text,
        }
    }
}

/// Both numbers, or one where they are equal.
fn pair([a, b]: [usize; 2]) -> String {
    if a == b { a.to_string() } else { format!("{a}x{b}") }
}

/// As PyTorch writes it: "conv2d 32, 3x3, padding 1".
impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let windows = |f: &mut fmt::Formatter<'_>, stride: [usize; 2], usual: [usize; 2], padding: [usize; 2]| {
            if stride != usual {
                write!(f, ", stride {}", pair(stride))?;
            }
            if padding != [0; 2] { write!(f, ", padding {}", pair(padding)) } else { Ok(()) }
        };
        match &self.kind {
            Kind::Conv2d(c) => {
                write!(f, "conv2d {}, {}x{}", c.filters, c.kernel[0], c.kernel[1])?;
                windows(f, c.stride, [1; 2], c.padding)
            }
            Kind::Linear { features, .. } => write!(f, "linear {features}"),
            Kind::Activation(Activation::Relu) => write!(f, "relu"),
            Kind::Activation(Activation::Gelu) => write!(f, "gelu"),
            Kind::Pool(p) => {
                let kind = if p.kind == PoolKind::Max { "max_pool" } else { "avg_pool" };
                write!(f, "{kind} {}", pair(p.size))?;
                windows(f, p.stride, p.size, p.padding)
            }
            Kind::BatchNorm { .. } => write!(f, "batch_norm"),
            Kind::Dropout { p } => write!(f, "dropout {p}"),
            Kind::Flatten => write!(f, "flatten"),
            Kind::Residual(layers) => write!(f, "residual of {} layers", layers.len()),
            Kind::Own(layer) => write!(f, "own {}", layer.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_in_full_says_all_that_is_unusual() {
        let check = |layer: Layer, expect: &str| assert_eq!(layer.in_full(), expect);
        check(conv2d(4, 3), "conv2d 4, 3x3");
        check(conv2d(4, 3).named("conv12"), "conv2d 4, 3x3");
        check(conv2d(4, 3).stride(2).frozen().named("stem"), "conv2d 4, 3x3, stride 2, frozen weight, named stem");
        check(conv2d(4, 3).without_bias().named("convoy1"), "conv2d 4, 3x3, no bias, named convoy1");
        check(linear(2).without_bias(), "linear 2, no bias");
        check(batch_norm(), "batch_norm");
        let other = batch_norm().momentum(0.4).epsilon(1e-12).without_scale();
        check(other.clone(), "batch_norm, momentum 0.4, epsilon 1e-12, no scale");
        check(
            residual([relu(), other]),
            "residual of 2 layers (relu; batch_norm, momentum 0.4, epsilon 1e-12, no scale)",
        );
    }
}

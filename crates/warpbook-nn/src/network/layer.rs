//! The layers that a network is written with, as data.

use super::backend::By;
pub use crate::ops::activation::Activation;
use crate::ops::custom_layer::OwnLayer;
use std::fmt;

/// A layer of a network, made by a function of this module: `conv2d(32, 3).padding(1)`, `relu()`, `linear(10).named("head")`.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    pub(super) kind: Kind,
    pub(super) name: Option<String>,
    /// Backend on a GPU.
    pub(super) by: By,
    /// Setting that this kind of layer does not have, if one was set; [`super::Network::new`] then fails.
    pub(super) misuse: Option<String>,
}

/// The kind of a layer, with its settings.
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
    /// Returns the stem of the names given to unnamed layers of this kind; a number follows it.
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
    /// Number of output channels.
    pub filters: usize,
    /// Height and width of the kernel.
    pub kernel: [usize; 2],
    /// Rows and columns between neighbouring windows.
    pub stride: [usize; 2],
    /// Rows of zeros above and below the image, and columns to its left and right.
    pub padding: [usize; 2],
    /// True if a bias is added to each channel.
    pub bias: bool,
    /// True if training leaves the weight unchanged; a bias is still trained.
    pub frozen: bool,
}

/// A window that is moved over an image, channel by channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// The reduction of a window to one value.
    pub kind: PoolKind,
    /// Height and width of the window.
    pub size: [usize; 2],
    /// Rows and columns between neighbouring windows.
    pub stride: [usize; 2],
    /// Border around the image: minus infinity for a maximum, zeros that count for an average.
    pub padding: [usize; 2],
}

/// The value that a pool makes of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolKind {
    /// The largest value of the window.
    Max,
    /// The mean of the window.
    Average,
}

impl From<Kind> for Layer {
    fn from(kind: Kind) -> Self {
        Self { kind, name: None, by: By::default(), misuse: None }
    }
}

/// Creates a convolution with a square kernel, stride 1, no padding, and a bias.
#[must_use]
pub fn conv2d(filters: usize, kernel: usize) -> Layer {
    Kind::Conv2d(Conv2d { filters, kernel: [kernel; 2], stride: [1; 2], padding: [0; 2], bias: true, frozen: false })
        .into()
}

/// Creates a fully connected layer with a bias: y = x W^T + b.
#[must_use]
pub fn linear(features: usize) -> Layer {
    Kind::Linear { features, bias: true }.into()
}

/// Creates a rectified linear unit, max(x, 0).
#[must_use]
pub fn relu() -> Layer {
    Kind::Activation(Activation::Relu).into()
}

/// Creates a Gaussian error linear unit (Hendrycks and Gimpel, 2016), computed exactly.
#[must_use]
pub fn gelu() -> Layer {
    Kind::Activation(Activation::Gelu).into()
}

/// Creates a maximum pooling layer with adjacent windows of `size` x `size`.
#[must_use]
pub fn max_pool(size: usize) -> Layer {
    pool(PoolKind::Max, size)
}

/// Creates an average pooling layer with adjacent windows of `size` x `size`.
#[must_use]
pub fn avg_pool(size: usize) -> Layer {
    pool(PoolKind::Average, size)
}

fn pool(kind: PoolKind, size: usize) -> Layer {
    Kind::Pool(Pool { kind, size: [size; 2], stride: [size; 2], padding: [0; 2] }).into()
}

/// Creates a batch normalisation (Ioffe and Szegedy, 2015) over each channel or feature, momentum 0.1, epsilon 1e-5.
#[must_use]
pub fn batch_norm() -> Layer {
    Kind::BatchNorm { momentum: 0.1, epsilon: 1e-5, scale: true }.into()
}

/// Creates a dropout layer: in training, elements become zero with probability `p`, and the others are scaled by 1 / (1 - p).
#[must_use]
pub fn dropout(p: f32) -> Layer {
    Kind::Dropout { p }.into()
}

/// Creates a layer that reshapes an image to a vector, channel by channel.
#[must_use]
pub fn flatten() -> Layer {
    Kind::Flatten.into()
}

/// Creates x + f(x), where f is a list of layers that keeps the shape (He et al., 2015).
#[must_use]
pub fn residual(layers: impl IntoIterator<Item = Layer>) -> Layer {
    Kind::Residual(layers.into_iter().collect()).into()
}

/// Creates a custom layer with forward and backward pass in CUDA C++: see [`crate::ops::custom_layer`].
#[must_use]
pub fn own(layer: &OwnLayer) -> Layer {
    Kind::Own(layer.clone()).into()
}

impl Layer {
    /// Names the layer and therefore its parameters: `conv1` gives `conv1.weight`. Unnamed convolutions are `conv1`, `conv2`, ..., linear layers
    /// `fc1`, ..., batch normalisations `bn1`, ....
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the stride of a convolution or pool. The network refuses a setting that a layer does not have.
    #[must_use]
    pub fn stride(self, stride: usize) -> Self {
        self.strides([stride; 2])
    }

    /// Sets the strides of a convolution or pool, by rows and by columns.
    #[must_use]
    pub fn strides(mut self, strides: [usize; 2]) -> Self {
        match &mut self.kind {
            Kind::Conv2d(c) => c.stride = strides,
            Kind::Pool(p) => p.stride = strides,
            _ => return self.without_setting("stride"),
        }
        self
    }

    /// Sets the width of the border of a convolution or pool, equal on all sides.
    #[must_use]
    pub fn padding(self, padding: usize) -> Self {
        self.paddings([padding; 2])
    }

    /// Sets the widths of the border of a convolution or pool: above and below, left and right.
    #[must_use]
    pub fn paddings(mut self, paddings: [usize; 2]) -> Self {
        match &mut self.kind {
            Kind::Conv2d(c) => c.padding = paddings,
            Kind::Pool(p) => p.padding = paddings,
            _ => return self.without_setting("padding"),
        }
        self
    }

    /// Sets the height and width of a convolution's kernel.
    #[must_use]
    pub fn kernel(mut self, kernel: [usize; 2]) -> Self {
        match &mut self.kind {
            Kind::Conv2d(c) => c.kernel = kernel,
            _ => return self.without_setting("kernel"),
        }
        self
    }

    /// Removes the bias of a convolution or linear layer.
    #[must_use]
    pub fn without_bias(mut self) -> Self {
        match &mut self.kind {
            Kind::Conv2d(c) => c.bias = false,
            Kind::Linear { bias, .. } => *bias = false,
            _ => return self.without_setting("bias"),
        }
        self
    }

    /// Freezes the weight of a convolution: training leaves it unchanged and computes no gradient of it.
    #[must_use]
    pub fn frozen(mut self) -> Self {
        match &mut self.kind {
            Kind::Conv2d(c) => c.frozen = true,
            _ => return self.without_setting("weight that can be frozen"),
        }
        self
    }

    /// Fixes the weight of a batch normalisation at 1, so that only its bias is trained.
    #[must_use]
    pub fn without_scale(mut self) -> Self {
        match &mut self.kind {
            Kind::BatchNorm { scale, .. } => *scale = false,
            _ => return self.without_setting("scale"),
        }
        self
    }

    /// Sets the momentum of a batch normalisation's running statistics: new = (1 - momentum) old + momentum batch.
    #[must_use]
    pub fn momentum(mut self, value: f32) -> Self {
        match &mut self.kind {
            Kind::BatchNorm { momentum, .. } => *momentum = value,
            _ => return self.without_setting("momentum"),
        }
        self
    }

    /// Sets the constant that a batch normalisation adds to the variance.
    #[must_use]
    pub fn epsilon(mut self, value: f32) -> Self {
        match &mut self.kind {
            Kind::BatchNorm { epsilon, .. } => *epsilon = value,
            _ => return self.without_setting("epsilon"),
        }
        self
    }

    /// Sets the height and width of a pool's windows, which are adjacent.
    #[must_use]
    pub fn window(mut self, size: [usize; 2]) -> Self {
        match &mut self.kind {
            Kind::Pool(p) => (p.size, p.stride) = (size, size),
            _ => return self.without_setting("window"),
        }
        self
    }

    pub(super) fn without_setting(mut self, name: &str) -> Self {
        self.misuse = Some(format!("The layer `{self}` has no {name}: leave it out, or set it on another layer."));
        self
    }
}

impl Layer {
    /// Like `Display`, but with every setting that differs from the defaults: a frozen weight, no bias, settings of a batch
    /// normalisation, the layers of a residual branch, and a given name.
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

/// Writes both numbers, or one if they are equal.
fn pair([a, b]: [usize; 2]) -> String {
    if a == b { a.to_string() } else { format!("{a}x{b}") }
}

/// Writes a layer as PyTorch does: "conv2d 32, 3x3, padding 1".
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

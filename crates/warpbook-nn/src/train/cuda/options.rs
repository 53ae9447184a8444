//! How a GPU trains.

use super::loader::Loader;
use super::memory::Purpose;
use crate::network::{Arrangement, Network, Node, Op};
use crate::ops::Layout;
use crate::ops::conv2d::cuda::Method;
use crate::train::{GradScaler, Precision, Recipe};
use warpbook_gemm::{OwnProduct, ProductBy};

/// How a GPU trains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CudaOptions {
    /// The types.
    pub precision: Precision,
    /// How images lie in memory.
    pub layout: Layout,
    /// How convolutions are computed; a layer may say otherwise ([`crate::network::By`]).
    pub convolution: Method,
    /// What computes the products of linear layers, and of convolutions by [`Method::Im2col`]; a layer may say otherwise.
    pub product: ProductBy,
    /// Whether biases and ReLUs are computed in the epilogues of products and convolutions, forwards and backwards, and maxima over windows
    /// of 2 x 2 in those of convolutions that can ([`crate::ops::conv2d::cuda::Convolution::pools`]), whose weight gradients expand that of the
    /// maxima where they can ([`crate::ops::conv2d::cuda::Convolution::unpools`]) and nothing needs an input gradient.
    pub fused: bool,
    /// Whether a step is one graph; otherwise its kernels are launched one by one.
    pub graph: bool,
    /// Whether weight gradients are computed on a second stream, while the first goes on backwards; it ends with the first layer's.
    pub overlap: bool,
    /// Whether kernels are launched before their predecessors have ended, and wait for them themselves: programmatic dependent launch, from
    /// compute capability 9.0 on. It costs and gives nothing below.
    pub dependent: bool,
    /// Whether the last block of a kernel does what follows at once: the mean of the losses, the numbers of the update after the norm, and
    /// the end of the step after the update. Otherwise each is a kernel.
    pub last_block: bool,
    /// The scale of the loss, which fp16 uses.
    pub scaler: GradScaler,
    /// How batches of images get to the GPU.
    pub loader: Loader,
}

impl CudaOptions {
    /// The fastest options in a precision.
    #[must_use]
    pub fn new(precision: Precision) -> Self {
        Self {
            precision,
            layout: Layout::Nhwc,
            convolution: Method::FewChannels,
            product: ProductBy::Own,
            fused: true,
            graph: true,
            // Products in f32 keep every SM busy for long, and two at once slow each other down.
            overlap: precision != Precision::Fp32,
            dependent: true,
            last_block: true,
            scaler: GradScaler::default(),
            loader: Loader::default(),
        }
    }

    /// The same with the layout that a network can have, and the order of its parameters.
    pub(super) fn arranged(mut self, network: &Network) -> (Self, Arrangement) {
        let arrangement = Arrangement::of(network);
        // Where a flattened image is added to other features, its order has to be PyTorch's.
        if arrangement.transposes() {
            self.layout = Layout::Nchw;
        }
        match self.layout {
            Layout::Nchw => (self, Arrangement::identity(network)),
            Layout::Nhwc => (self, arrangement),
        }
    }

    /// Whether the last blocks of this recipe's kernels do what follows: an update in groups is several kernels, none of which is the last of a
    /// step by itself, and of a batch in parts no loss is that of the step.
    #[must_use]
    pub fn has_last_blocks(&self, recipe: &Recipe) -> bool {
        let grouped = recipe.grouped().is_ok_and(|groups| groups.is_some());
        self.last_block && !grouped && recipe.accumulate == 1
    }

    pub(super) fn purpose(&self) -> Purpose {
        Purpose::Training { overlaps: self.overlap }
    }

    /// The method of a node's convolution.
    pub(in crate::train) fn method_of(&self, node: &Node) -> Method {
        node.by.convolution.unwrap_or(self.convolution)
    }

    /// What computes the products of a node.
    pub(in crate::train) fn product_of(&self, node: &Node) -> ProductBy {
        node.by.product.unwrap_or(self.product)
    }

    /// The kernels of one's own that compute products of a network, each once.
    #[must_use]
    pub fn own_products(&self, network: &Network) -> Vec<OwnProduct> {
        let mut all = Vec::new();
        let has_products = |node: &&Node| match node.op {
            Op::Linear { .. } => true,
            Op::Conv2d(_) => self.method_of(node) == Method::Im2col,
            _ => false,
        };
        for own in network.nodes().iter().filter(has_products).filter_map(|node| self.product_of(node).kernel()) {
            if !all.contains(&own) {
                all.push(own);
            }
        }
        all
    }

    pub(super) fn scaler(&self) -> Option<&GradScaler> {
        self.precision.scales_the_loss().then_some(&self.scaler)
    }

    /// Whether ranks update parameters before all gradients are reduced and found to be finite, and take that back where one is not: where an overflow
    /// is all that can stop a step after its loss.
    pub(super) fn updates_provisionally(&self, recipe: &Recipe) -> bool {
        self.has_last_blocks(recipe) && self.precision.scales_the_loss() && recipe.clip.is_none()
    }

    /// Whether the norm of the gradients is needed, to clip them or to find an overflow.
    pub(super) fn computes_norm(&self, recipe: &Recipe) -> bool {
        recipe.clip.is_some() || self.precision.scales_the_loss()
    }
}

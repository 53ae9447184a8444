//! Options of training on a GPU.

use super::loader::Loader;
use super::memory::Purpose;
use crate::network::{Arrangement, Network, Node, Op};
use crate::ops::Layout;
use crate::ops::conv2d::cuda::Method;
use crate::train::{GradScaler, Precision, Recipe};
use warpbook_gemm::{OwnProduct, ProductBy};

/// Options of training on a GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CudaOptions {
    /// Types of activations and products.
    pub precision: Precision,
    /// Memory layout of images.
    pub layout: Layout,
    /// Method of convolutions; a layer may override it ([`crate::network::By`]).
    pub convolution: Method,
    /// Implementation of the products of linear layers, and of convolutions by [`Method::Im2col`]; a layer may override it.
    pub product: ProductBy,
    /// True if epilogues of products and convolutions compute biases and ReLUs, forward and backward. Convolutions that can do so
    /// ([`crate::ops::conv2d::cuda::Convolution::pools`]) also compute maxima over windows of 2 x 2; if nothing needs an input gradient,
    /// their weight gradients expand the gradient of the maxima where supported ([`crate::ops::conv2d::cuda::Convolution::unpools`]).
    pub fused: bool,
    /// True if a step is one graph; otherwise its kernels are launched one by one.
    pub graph: bool,
    /// True if a second stream computes weight gradients while the first continues the backward pass; the step ends with the first layer's
    /// weight gradient.
    pub overlap: bool,
    /// True if a kernel is launched before its predecessor has ended, and does the waiting itself (programmatic dependent launch). This needs
    /// compute capability 9.0 or later, and has no effect on older GPUs.
    pub dependent: bool,
    /// True if a kernel's last block does the follow-up work: the mean of the losses, the numbers of the update after the norm, and the end
    /// of the step after the update. Otherwise separate kernels do this work.
    pub last_block: bool,
    /// Scaling of the loss, which fp16 uses.
    pub scaler: GradScaler,
    /// The settings that decide how batches of images reach the GPU.
    pub loader: Loader,
}

impl CudaOptions {
    /// Returns the fastest options in a precision.
    #[must_use]
    pub fn new(precision: Precision) -> Self {
        Self {
            precision,
            layout: Layout::Nhwc,
            convolution: Method::ManyChannels,
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

    /// Returns the options with a layout that suits the network, and the order of its parameters.
    pub(super) fn arranged(mut self, network: &Network) -> (Self, Arrangement) {
        let arrangement = Arrangement::new(network);
        // If a flattened image is added to other features, it must have PyTorch's order.
        if arrangement.transposes() {
            self.layout = Layout::Nchw;
        }
        match self.layout {
            Layout::Nchw => (self, Arrangement::identity(network)),
            Layout::Nhwc => (self, arrangement),
        }
    }

    /// Returns true if last blocks do the follow-up work for this recipe. They cannot do so for an update in groups, because it is several
    /// kernels and none of them alone ends the step, or for a batch in parts, because the loss of a part is not the loss of the step.
    #[must_use]
    pub fn has_last_blocks(&self, recipe: &Recipe) -> bool {
        let grouped = recipe.grouped().is_ok_and(|groups| groups.is_some());
        self.last_block && !grouped && recipe.accumulate == 1
    }

    pub(super) fn purpose(&self) -> Purpose {
        Purpose::Training { overlaps: self.overlap }
    }

    /// Returns the method of a node's convolution.
    pub(in crate::train) fn method_of(&self, node: &Node) -> Method {
        node.by.convolution.unwrap_or(self.convolution)
    }

    /// Returns the implementation of the products of a node.
    pub(in crate::train) fn product_of(&self, node: &Node) -> ProductBy {
        node.by.product.unwrap_or(self.product)
    }

    /// Returns the user-written kernels that compute products of a network, each once.
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

    /// Returns true if ranks update parameters before all gradients are reduced and checked, and revert the update if a gradient is not
    /// finite. That is possible if only an overflow can stop a step after its loss.
    pub(super) fn updates_provisionally(&self, recipe: &Recipe) -> bool {
        self.has_last_blocks(recipe) && self.precision.scales_the_loss() && recipe.clip.is_none()
    }

    /// Returns true if the norm of the gradients is needed, to clip them or to detect an overflow.
    pub(super) fn computes_norm(&self, recipe: &Recipe) -> bool {
        recipe.clip.is_some() || self.precision.scales_the_loss()
    }
}

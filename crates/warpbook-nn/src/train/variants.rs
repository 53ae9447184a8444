//! Ways next to the ladder, each of which changes one thing of another way: a library, or a product as a beginner writes it.

use super::cuda::Sharing;
use super::ways::Way;
use super::{CudaOptions, Precision, Recipe};
use warpbook_gemm::{Plan, Product, ProductBy};
use crate::network::{Node, Op};
use crate::ops::conv2d::cuda::Method;
use warpbook_device::{CublasLt, CudaDevice, Cudnn};
use warpbook_kernels::matmul::{Epilogue, Form};
use warpbook_kernels::nn;
use warpbook_record::{Dtype, KernelSpec};

/// The way that they are variants of.
const BASE: &str = "13_last_block_fp16";
/// The same in fp32, which the products in fp32 are variants of.
const BASE_FP32: &str = "all_fp32";
/// That with cuDNN's convolutions, which the last one is a variant of.
const CONVOLUTIONS: &str = "stock_convolutions_fp16";

/// All of them, of the ladder that has their base.
pub(super) fn variants(ladder: &[Way]) -> Vec<Way> {
    let Some(base) = ladder.iter().find(|way| way.id == BASE).map(|way| way.options) else { return Vec::new() };
    let product = |product| CudaOptions { product, ..base };
    let fp32 = |product| CudaOptions { product, precision: Precision::Fp32, ..base };
    let [convolutions, suggested] =
        [Method::StockFastest, Method::Stock].map(|convolution| CudaOptions { convolution, ..base });
    let way = |id, title, idea, base, options: CudaOptions| Way {
        id,
        title,
        idea,
        base: Some(base),
        requires: options.precision.requires(),
        options,
    };
    vec![
        way(
            BASE_FP32,
            "All of it, fp32",
            "The same step in fp32: fused epilogues, one graph, last blocks, without tensor cores.",
            BASE,
            fp32(ProductBy::Own),
        ),
        way(
            "tiled_products_fp32",
            "32 x 32 tiles, fp32",
            "The linear layers are computed in fp32 by the product with 32 x 32 tiles in shared memory.",
            BASE_FP32,
            fp32(ProductBy::Tiled),
        ),
        way(
            "stock_products_fp32",
            "cuBLASLt products, fp32",
            "The linear layers are computed in fp32 by cuBLASLt, with biases and ReLUs in kernels after it.",
            BASE_FP32,
            fp32(ProductBy::Stock),
        ),
        way(
            "naive_products_fp16",
            "Naive products, fp16",
            "The linear layers are computed by the naive product, one thread per output; all else is our own.",
            BASE,
            product(ProductBy::Naive),
        ),
        way(
            "tiled_products_fp16",
            "32 x 32 tiles, fp16",
            "The linear layers are computed by the product with 32 x 32 tiles in shared memory, without tensor cores.",
            BASE,
            product(ProductBy::Tiled),
        ),
        way(
            "tiled_16_products_fp16",
            "16 x 16 tiles, fp16",
            "The same product with 16 x 16 tiles.",
            "tiled_products_fp16",
            product(ProductBy::Tiled16),
        ),
        way(
            "tiled_8_products_fp16",
            "8 x 8 tiles, fp16",
            "The same product with 8 x 8 tiles.",
            "tiled_products_fp16",
            product(ProductBy::Tiled8),
        ),
        way(
            "stock_products_fp16",
            "cuBLASLt products, fp16",
            "The linear layers are computed by cuBLASLt, with biases and ReLUs in kernels after it; all else is our own.",
            BASE,
            product(ProductBy::Stock),
        ),
        way(
            CONVOLUTIONS,
            "cuDNN convolutions, fp16",
            "The convolutions are computed by cuDNN, each pass by the fastest of ten engines, which are timed before; biases and ReLUs are kernels after \
             it, and all else is our own.",
            BASE,
            convolutions,
        ),
        way(
            "stock_suggested_fp16",
            "cuDNN as suggested, fp16",
            "The same with the engines that cuDNN's heuristics suggest first of those that give the same bits on every run. Nothing is timed.",
            CONVOLUTIONS,
            suggested,
        ),
        way(
            "stock_fp16",
            "cuDNN and cuBLASLt, fp16",
            "Convolutions by cuDNN and linear layers by cuBLASLt, in our step: what is left is the difference of the products.",
            CONVOLUTIONS,
            CudaOptions { product: ProductBy::Stock, ..convolutions },
        ),
    ]
}

/// The ways with a kernel of one's own for linear layers, in fp32 and in fp16: variants next to those with 32 x 32 tiles and with cuBLASLt.
#[must_use]
pub fn ways_with_product(by: ProductBy) -> [Way; 2] {
    let way = |id, title, base, precision: Precision| Way {
        // The options of the bases, which differ in the precision alone.
        id,
        title,
        idea: "The linear layers are computed by a kernel of somebody's own, forwards and both gradients; all else is as before.",
        base: Some(base),
        requires: precision.requires(),
        options: CudaOptions { product: by, precision, ..CudaOptions::new(Precision::AmpFp16) },
    };
    [
        way("own_products_fp32", "Own products, fp32", BASE_FP32, Precision::Fp32),
        way("own_products_fp16", "Own products, fp16", BASE, Precision::AmpFp16),
    ]
}

impl Way {
    /// The libraries that it computes convolutions or linear layers with, as "cuDNN and cuBLASLt"; `None` of our own kernels.
    #[must_use]
    pub fn library(&self) -> Option<&'static str> {
        match (self.options.convolution.is_stock(), self.options.product == ProductBy::Stock) {
            (true, true) => Some("cuDNN and cuBLASLt"),
            (true, false) => Some("cuDNN"),
            (false, true) => Some("cuBLASLt"),
            (false, false) => None,
        }
    }

    /// Those libraries with their versions, as a sentence; `None` of our own kernels, and where they are not found.
    #[must_use]
    pub fn versions(&self, device: &CudaDevice) -> Option<String> {
        let words = |name: &str, (major, minor, patch): (u32, u32, u32)| format!("{name} {major}.{minor}.{patch}");
        let cudnn = self.options.convolution.is_stock().then(|| Cudnn::find(device));
        let cublas = (self.options.product == ProductBy::Stock).then(|| CublasLt::find(device));
        let both = [cudnn.map(|v| v.map(|v| words("cuDNN", v))), cublas.map(|v| v.map(|v| words("cuBLASLt", v)))];
        let found: Vec<String> = both.into_iter().flatten().flatten().collect();
        let how = match self.options.convolution {
            Method::StockFastest => "cuDNN with the fastest of the ten engines that its heuristics suggest first",
            _ => "with what the heuristics suggest first",
        };
        (!found.is_empty()).then(|| format!("By {}, {how}.", found.join(" and ")))
    }

    /// Why it cannot train a recipe on a device, or why that would tell nothing new, in a sentence: a library is not there, a rung does not
    /// take the type, or there is no convolution for cuDNN. `None` if it can, as far as is known before it begins.
    #[must_use]
    pub fn obstacle(&self, device: &CudaDevice, recipe: &Recipe) -> Option<String> {
        let CudaOptions { convolution, product, precision, .. } = self.options;
        let convolves = recipe.network.nodes().iter().any(|node| matches!(node.op, Op::Conv2d(_)));
        if convolution.is_stock() && !convolves {
            return Some("The network has no convolution that cuDNN could compute.".into());
        }
        let of_convolutions = || convolution.is_stock().then(|| Cudnn::find(device).err()).flatten();
        let of_products = || (product == ProductBy::Stock).then(|| CublasLt::find(device).err()).flatten();
        let missing = of_convolutions().or_else(of_products).map(|e| e.to_string());
        missing.or_else(|| {
            let (form, info) =
                (Form { out: precision.activations(), ..Form::plain(precision.products()) }, device.info());
            let rows = if product.names_a_rung() { product.rows() } else { vec![] };
            let why = rows.iter().find_map(|row| row.obstacle(form, info.compute_capability))?;
            Some(format!("The {product} product {why}."))
        })
    }

    /// The kernels of a linear layer's forward pass, where they do not depend on its size: of a chosen rung, and after a library.
    pub(super) fn linear_forward(&self, sharing: &Sharing, i: usize, node: &Node) -> Vec<KernelSpec> {
        let epilogue = product_epilogue(sharing, i, node);
        match self.options.product_of(node) {
            ProductBy::Own => vec![],
            ProductBy::Stock => self.after_library(epilogue),
            by => self.rung(by, |plain| Form { trans_b: true, epilogue, ..plain }),
        }
    }

    /// The same of its gradients.
    pub(super) fn linear_backward(&self, sharing: &Sharing, i: usize, node: &Node) -> Vec<KernelSpec> {
        let epilogue = if sharing.mask_before[i] { Epilogue::ReluMask } else { Epilogue::None };
        let needed = sharing.needs_gradient(node.input);
        match self.options.product_of(node) {
            ProductBy::Own => vec![],
            ProductBy::Stock if !needed => vec![],
            ProductBy::Stock => self.after_library(epilogue),
            by => {
                let mut all = self.rung(by, |plain| Form { trans_a: true, ..plain });
                if needed {
                    all.extend(self.rung(by, |plain| Form { epilogue, ..plain }));
                }
                all
            }
        }
    }

    /// The kernels of the products of a convolution by im2col, where one kernel is told to compute them.
    pub(super) fn im2col_products(&self, sharing: &Sharing, i: usize, node: &Node) -> Vec<KernelSpec> {
        let by = self.options.product_of(node);
        if !by.names_a_rung() {
            return vec![];
        }
        let epilogue = product_epilogue(sharing, i, node);
        let mut all = self.rung(by, |plain| Form { trans_b: true, epilogue, ..plain });
        all.extend(self.rung(by, |plain| Form { out: Dtype::F32, trans_a: true, ..plain }));
        if sharing.needs_gradient(node.input) {
            all.extend(self.rung(by, |plain| Form { out: Dtype::F32, ..plain }));
        }
        all
    }

    /// Our kernels of a convolution by cuDNN: of its bias and ReLU, of the mask of its input gradient, and of its weight gradient.
    pub(super) fn after_cudnn(&self, sharing: &Sharing, i: usize, node: &Node) -> Vec<KernelSpec> {
        let stored = self.options.precision.activations();
        let mut all = match (node.params.len() > 1, sharing.relu_after[i]) {
            (true, _) => self.after_library(Epilogue::Bias),
            (false, true) => vec![nn::activation(stored)[0].clone()],
            (false, false) => vec![],
        };
        if sharing.mask_before[i] {
            all.extend(self.after_library(Epilogue::ReluMask));
        }
        if stored != Dtype::F32 {
            all.push(nn::library(stored)[1].clone());
        }
        all
    }

    /// What we compute of an epilogue after a library.
    fn after_library(&self, epilogue: Epilogue) -> Vec<KernelSpec> {
        let stored = self.options.precision.activations();
        match epilogue {
            Epilogue::Bias | Epilogue::BiasRelu => vec![nn::library(stored)[0].clone()],
            Epilogue::ReluMask => vec![nn::activation(stored)[1].clone()],
            _ => vec![],
        }
    }

    /// The kernel of a rung that is told to compute the products, in a form, with its tile alone.
    fn rung(&self, by: ProductBy, form: impl FnOnce(Form) -> Form) -> Vec<KernelSpec> {
        let precision = self.options.precision;
        let plain = Form { out: precision.activations(), ..Form::plain(precision.products()) };
        let product = Product::new(1, 1, 1, form(plain));
        let with_its_tile = |row: warpbook_kernels::matmul::Row| {
            let mut spec = Plan::spec(&row, &product)?;
            let [tile, _] = row.fallback?;
            spec.tiles.retain(|t| t.id == tile);
            Some(spec)
        };
        by.rows().into_iter().filter_map(with_its_tile).collect()
    }
}

/// What the forward product of a node does with its sums before it stores them.
fn product_epilogue(sharing: &Sharing, i: usize, node: &Node) -> Epilogue {
    match (node.params.len() > 1, sharing.relu_after[i]) {
        (true, true) => Epilogue::BiasRelu,
        (true, false) => Epilogue::Bias,
        (false, _) => Epilogue::None,
    }
}

//! The list of training rungs: the rungs of the ladder, each of which changes one option of the previous rung, and the variants, each of which
//! changes one option of its base.

use super::Way;
use crate::ops::Layout;
use crate::ops::conv2d::cuda::Method;
use crate::train::{CudaOptions, Precision};
use warpbook_gemm::ProductBy;
use warpbook_record::Requires;

/// Id of the rung that is the base of most variants.
const BASE: &str = "13_last_block_fp16";
/// Id of the rung that is the base of the variants with other products in fp32.
const BASE_FP32: &str = "all_fp32";
const TILED: &str = "tiled_products_fp16";
const CONVOLUTIONS: &str = "stock_convolutions_fp16";

/// Returns all training rungs: the ladder in order, then the variants.
#[must_use]
pub fn ways() -> Vec<Way> {
    with_variants(in_16_bits(in_32_bits())).ways
}

/// Returns the rungs with a user-written kernel for linear layers, in fp32 and in fp16: variants like the ones with 32 x 32 tiles and with
/// cuBLASLt.
#[must_use]
pub fn rungs_with_product(by: ProductBy) -> [Way; 2] {
    let way = |id, title, base, precision: Precision| Way {
        // The bases differ only in precision, so both variants have these fields in common.
        id,
        title,
        idea: "The linear layers are computed by the user's own kernel, forwards and in both gradients; everything else is unchanged.",
        base: Some(base),
        requires: precision.requires(),
        options: CudaOptions { product: by, precision, ..CudaOptions::new(Precision::AmpFp16) },
    };
    [
        way("own_products_fp32", "Own products, fp32", BASE_FP32, Precision::Fp32),
        way("own_products_fp16", "Own products, fp16", BASE, Precision::AmpFp16),
    ]
}

/// Ids and titles of a rung in fp16 and of its twin in bf16.
macro_rules! fp16_and_bf16 {
    ($id:literal, $title:literal) => {
        [(concat!($id, "_fp16"), concat!($title, ", fp16")), (concat!($id, "_bf16"), concat!($title, ", bf16"))]
    };
}

fn in_32_bits() -> Rungs {
    Rungs::new()
        .rung(
            "01_direct",
            "Direct convolutions",
            "Each convolution is a loop over its window, each operation a kernel, and each kernel a launch; all in fp32.",
            |_| {},
        )
        .rung(
            "02_im2col",
            "im2col and GEMM",
            "The windows are written out as a matrix, so that a convolution is a matrix product.",
            |o| o.convolution = Method::Im2col,
        )
        .rung(
            "03_implicit_gemm",
            "Implicit GEMM",
            "The product reads the windows from the image itself, so that their matrix never exists in memory.",
            |o| o.convolution = Method::ImplicitGemm,
        )
        .rung(
            "04_tf32",
            "tf32 tensor cores",
            "Products round their operands to tf32 and run on tensor cores; everything else stays in fp32.",
            |o| o.precision = Precision::Tf32,
        )
        .rung(
            "05_nhwc",
            "Channels last",
            "Images lie with their channels next to each other, so that a window is read in long pieces.",
            |o| o.layout = Layout::Nhwc,
        )
}

fn in_16_bits(ladder: Rungs) -> Rungs {
    ladder
        .pair(
            fp16_and_bf16!("06_amp", "AMP"),
            [
                "Activations and operands are in fp16, half the bytes; the loss is scaled, and weights and sums stay in fp32.",
                "The same in bf16, whose range is that of fp32 and needs no scaled loss.",
            ],
            |_| {},
        )
        .pair(
            fp16_and_bf16!("07_fused", "Fused epilogues"),
            [
                "Biases, ReLUs and pools are computed where a product stores its sums, so that what is between them is never written.",
                "The same in bf16: biases, ReLUs and pools in the epilogues of products.",
            ],
            |o| o.fused = true,
        )
        .pair(
            fp16_and_bf16!("08_graph", "One CUDA graph"),
            [
                "The whole step, from the choice of its samples to the update, is captured once and replayed by a single launch.",
                "The same in bf16: one launch per step.",
            ],
            |o| o.graph = true,
        )
        .pair(
            fp16_and_bf16!("09_overlap", "Two streams"),
            [
                "Weight gradients run on a second branch of the graph, while the first goes on backwards to the layers before.",
                "The same in bf16: a second branch for the weight gradients.",
            ],
            |o| o.overlap = true,
        )
        .pair(
            fp16_and_bf16!("10_windows", "Shifted windows"),
            [
                "A tile of the image is copied to shared memory once, by TMA, and each tap multiplies it shifted, by Hopper's wgmma.",
                "The same in bf16: an element of the image is read from L2 once, not once a tap.",
            ],
            |o| o.convolution = Method::ShiftedWindows,
        )
        .needs(Requires::Exactly("sm_90a".into()))
        .pair(
            fp16_and_bf16!("11_few_channels", "Few channels"),
            [
                "The first convolution puts its windows together in registers, sums its bias gradient as one more tap, and expands a pool's gradient there; TMA gathers the windows of \
                 many channels.",
                "The same in bf16: without tiles of windows in shared memory, whose elements would be found one by one.",
            ],
            |o| o.convolution = Method::ManyChannels,
        )
        // Below 8.0 this rung would run the kernels of another rung.
        .needs(Requires::AtLeast(8, 0))
        .pair(
            fp16_and_bf16!("12_dependent_launch", "Dependent launches"),
            [
                "A kernel is launched while its predecessor still runs, and waits for it itself, which hides what a launch costs.",
                "The same in bf16: programmatic dependent launch between the kernels of the graph.",
            ],
            |o| o.dependent = true,
        )
        // This rung needs 9.0, because launches do not overlap on older GPUs.
        .needs(Requires::AtLeast(9, 0))
        .pair(
            fp16_and_bf16!("13_last_block", "Last blocks"),
            [
                "The block that arrives last goes on with the mean loss, the check of the gradients or the end of the step, which were kernels.",
                "The same in bf16, where the last block of the loss decides the step: no gradient has to be checked.",
            ],
            |o| o.last_block = true,
        )
}

/// Adds variants of rungs, which use a library's products or a product as a beginner would write it.
fn with_variants(ladder: Rungs) -> Rungs {
    ladder
        .variant(
            BASE,
            BASE_FP32,
            "All of it, fp32",
            "The same step in fp32: fused epilogues, one graph, last blocks, without tensor cores.",
            |o| o.precision = Precision::Fp32,
        )
        .variant(
            BASE_FP32,
            "tiled_products_fp32",
            "32 x 32 tiles, fp32",
            "The linear layers are computed in fp32 by the product with 32 x 32 tiles in shared memory.",
            |o| o.product = ProductBy::Tiled,
        )
        .variant(
            BASE_FP32,
            "stock_products_fp32",
            "cuBLASLt products, fp32",
            "The linear layers are computed in fp32 by cuBLASLt, with biases and ReLUs in kernels after it.",
            |o| o.product = ProductBy::Stock,
        )
        .variant(
            BASE,
            "naive_products_fp16",
            "Naive products, fp16",
            "The linear layers are computed by the naive product, one thread per output; all else is our own.",
            |o| o.product = ProductBy::Naive,
        )
        .variant(
            BASE,
            TILED,
            "32 x 32 tiles, fp16",
            "The linear layers are computed by the product with 32 x 32 tiles in shared memory, without tensor cores.",
            |o| o.product = ProductBy::Tiled,
        )
        .variant(
            TILED,
            "tiled_16_products_fp16",
            "16 x 16 tiles, fp16",
            "The same product with 16 x 16 tiles.",
            |o| o.product = ProductBy::Tiled16,
        )
        .variant(
            TILED,
            "tiled_8_products_fp16",
            "8 x 8 tiles, fp16",
            "The same product with 8 x 8 tiles.",
            |o| o.product = ProductBy::Tiled8,
        )
        .variant(
            BASE,
            "stock_products_fp16",
            "cuBLASLt products, fp16",
            "The linear layers are computed by cuBLASLt, with biases and ReLUs in kernels after it; all else is our own.",
            |o| o.product = ProductBy::Stock,
        )
        .variant(
            BASE,
            CONVOLUTIONS,
            "cuDNN convolutions, fp16",
            "The convolutions are computed by cuDNN, each pass by the fastest of ten engines, which are timed before; biases and ReLUs are kernels after \
             it, and all else is our own.",
            |o| o.convolution = Method::StockFastest,
        )
        .variant(
            CONVOLUTIONS,
            "stock_suggested_fp16",
            "cuDNN as suggested, fp16",
            "The same with the engines that cuDNN's heuristics suggest first of those that give the same bits on every run. Nothing is timed.",
            |o| o.convolution = Method::Stock,
        )
        .variant(
            CONVOLUTIONS,
            "stock_fp16",
            "cuDNN and cuBLASLt, fp16",
            "Convolutions by cuDNN and linear layers by cuBLASLt, in our step: what is left is the difference of the products.",
            |o| o.product = ProductBy::Stock,
        )
}

/// The rungs so far, and the options of the last rung of the ladder.
struct Rungs {
    ways: Vec<Way>,
    options: CudaOptions,
}

impl Rungs {
    /// Starts without rungs. The first rung trains in fp32, and launches a kernel for each operation.
    fn new() -> Self {
        let options = CudaOptions {
            layout: Layout::Nchw,
            convolution: Method::Direct,
            fused: false,
            graph: false,
            overlap: false,
            dependent: false,
            last_block: false,
            ..CudaOptions::new(Precision::Fp32)
        };
        Self { ways: Vec::new(), options }
    }

    /// Adds a rung that changes one option of the previous rung.
    fn rung(
        mut self,
        id: &'static str,
        title: &'static str,
        idea: &'static str,
        change: impl FnOnce(&mut CudaOptions),
    ) -> Self {
        change(&mut self.options);
        let (options, requires) = (self.options, self.options.precision.requires());
        self.ways.push(Way { id, title, idea, base: None, requires, options });
        self
    }

    /// Adds a rung in fp16 and its twin in bf16, which change one option of the previous rung in their precision. The first pair changes
    /// the precision itself.
    fn pair(
        mut self,
        names: [(&'static str, &'static str); 2],
        ideas: [&'static str; 2],
        change: impl FnOnce(&mut CudaOptions),
    ) -> Self {
        change(&mut self.options);
        let precisions = [Precision::AmpFp16, Precision::AmpBf16];
        for ((precision, (id, title)), idea) in precisions.into_iter().zip(names).zip(ideas) {
            self = self.rung(id, title, idea, |o| o.precision = precision);
        }
        self
    }

    /// Sets the hardware that the last pair needs, if that is more than its precision needs.
    fn needs(mut self, requires: Requires) -> Self {
        self.ways.iter_mut().rev().take(2).for_each(|way| way.requires = requires.clone());
        self
    }

    /// Adds a variant that changes one option of its base.
    fn variant(
        mut self,
        base: &'static str,
        id: &'static str,
        title: &'static str,
        idea: &'static str,
        change: impl FnOnce(&mut CudaOptions),
    ) -> Self {
        if let Some(mut options) = self.ways.iter().find(|way| way.id == base).map(|way| way.options) {
            change(&mut options);
            let requires = options.precision.requires();
            self.ways.push(Way { id, title, idea, base: Some(base), requires, options });
        }
        self
    }
}

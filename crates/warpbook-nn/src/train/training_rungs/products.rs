//! The kernels of products in a training step, if they do not depend on the product's size: the kernels of a prescribed rung, and the kernels
//! that follow a library.

use super::Way;
use crate::network::Node;
use crate::train::cuda::FusionPlan;
use warpbook_gemm::{Plan, Product, ProductBy};
use warpbook_kernels::matmul::{Epilogue, Form};
use warpbook_kernels::nn;
use warpbook_record::{Dtype, KernelSpec};

impl Way {
    /// Returns the kernels of a linear layer's forward pass, if they do not depend on its size: the kernels of a prescribed rung, and the kernels that
    /// follow a library.
    pub(super) fn linear_forward(&self, fusion: &FusionPlan, i: usize, node: &Node) -> Vec<KernelSpec> {
        let epilogue = product_epilogue(fusion, i, node);
        match self.options.product_of(node) {
            ProductBy::Own => vec![],
            ProductBy::Stock => self.after_library(epilogue),
            by => self.product_kernel(by, |plain| Form { trans_b: true, epilogue, ..plain }),
        }
    }

    /// Returns the kernels of a linear layer's gradients, if they do not depend on its size.
    pub(super) fn linear_backward(&self, fusion: &FusionPlan, i: usize, node: &Node) -> Vec<KernelSpec> {
        let epilogue = if fusion.nodes[i].mask { Epilogue::ReluMask } else { Epilogue::None };
        let needed = fusion.needs_gradient(node.input);
        match self.options.product_of(node) {
            ProductBy::Own => vec![],
            ProductBy::Stock if !needed => vec![],
            ProductBy::Stock => self.after_library(epilogue),
            by => {
                let mut all = self.product_kernel(by, |plain| Form { trans_a: true, ..plain });
                if needed {
                    all.extend(self.product_kernel(by, |plain| Form { epilogue, ..plain }));
                }
                all
            }
        }
    }

    /// Returns the kernels of a convolution's products by im2col, if one kernel is prescribed for them.
    pub(super) fn im2col_products(&self, fusion: &FusionPlan, i: usize, node: &Node) -> Vec<KernelSpec> {
        let by = self.options.product_of(node);
        if !by.names_a_rung() {
            return vec![];
        }
        let epilogue = product_epilogue(fusion, i, node);
        let mut all = self.product_kernel(by, |plain| Form { trans_b: true, epilogue, ..plain });
        all.extend(self.product_kernel(by, |plain| Form { out: Dtype::F32, trans_a: true, ..plain }));
        if fusion.needs_gradient(node.input) {
            all.extend(self.product_kernel(by, |plain| Form { out: Dtype::F32, ..plain }));
        }
        all
    }

    /// Returns this project's kernels around a convolution by cuDNN: for its bias and ReLU, for the mask of its input gradient, and for its weight
    /// gradient.
    pub(super) fn after_cudnn(&self, fusion: &FusionPlan, i: usize, node: &Node) -> Vec<KernelSpec> {
        let stored = self.options.precision.activations();
        let mut all = match (node.params.len() > 1, fusion.nodes[i].relu) {
            (true, _) => self.after_library(Epilogue::Bias),
            (false, true) => vec![nn::activation(stored)[0].clone()],
            (false, false) => vec![],
        };
        if fusion.nodes[i].mask {
            all.extend(self.after_library(Epilogue::ReluMask));
        }
        if stored != Dtype::F32 {
            all.push(nn::library(stored)[1].clone());
        }
        all
    }

    /// Returns the kernels that apply an epilogue after a library's product.
    fn after_library(&self, epilogue: Epilogue) -> Vec<KernelSpec> {
        let stored = self.options.precision.activations();
        match epilogue {
            Epilogue::Bias | Epilogue::BiasRelu => vec![nn::library(stored)[0].clone()],
            Epilogue::ReluMask => vec![nn::activation(stored)[1].clone()],
            _ => vec![],
        }
    }

    /// Returns the kernel prescribed for the products, in the given form and with only its own tile.
    fn product_kernel(&self, by: ProductBy, form: impl FnOnce(Form) -> Form) -> Vec<KernelSpec> {
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

/// Returns the epilogue of a node's forward product.
fn product_epilogue(fusion: &FusionPlan, i: usize, node: &Node) -> Epilogue {
    match (node.params.len() > 1, fusion.nodes[i].relu) {
        (true, true) => Epilogue::BiasRelu,
        (true, false) => Epilogue::Bias,
        (false, _) => Epilogue::None,
    }
}

//! The choice of kernels or libraries for products and convolutions on a GPU, from a recipe or the command line.

use crate::failure::Failure;
use warpbook::gemm::ProductBy;
use warpbook::nn::ops::conv2d::cuda::Method;
use warpbook::nn::train::{CudaOptions, Place};

/// The implementation of convolutions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConvolutionBy {
    /// Warpbook's kernels, with the method of the rung or the fastest method.
    Own,
    /// Im2col: patches of the images become the columns of a matrix, which the product for linear layers multiplies.
    Im2col,
    /// The library cuDNN.
    Stock,
}

impl ConvolutionBy {
    /// Names of all choices, as on the command line and in recipes.
    pub const NAMES: [&str; 3] = ["own", "im2col", "stock"];

    /// Returns the choice's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Im2col => "im2col",
            Self::Stock => "stock",
        }
    }

    /// Returns the convolution method; `own` is the method for Warpbook's kernels.
    pub fn method(self, own: Method) -> Method {
        match self {
            Self::Own => own,
            Self::Im2col => Method::Im2col,
            Self::Stock => Method::Stock,
        }
    }
}

impl std::str::FromStr for ConvolutionBy {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "own" => Ok(Self::Own),
            "im2col" => Ok(Self::Im2col),
            "stock" => Ok(Self::Stock),
            _ => Err(format!("Unknown convolution `{name}`: choose one of {}.", Self::NAMES.join(", "))),
        }
    }
}

/// The choices for linear layers and for convolutions; each is `None` if it was not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ComputedBy {
    pub product: Option<ProductBy>,
    pub convolution: Option<ConvolutionBy>,
}

impl ComputedBy {
    /// Fills in choices that were not made here from `other`.
    pub fn or(self, other: Self) -> Self {
        Self { product: self.product.or(other.product), convolution: self.convolution.or(other.convolution) }
    }

    /// Returns the place with these choices in its GPU options. For a CPU, the place stays the same.
    pub fn at(self, place: Place) -> Place {
        match place {
            Place::Cuda(device, options) => Place::Cuda(device, self.apply_to(options)),
            Place::Cpu => Place::Cpu,
        }
    }

    /// Returns the GPU options with these choices.
    pub fn apply_to(self, options: CudaOptions) -> CudaOptions {
        let own = match options.convolution {
            Method::Stock | Method::StockFastest => CudaOptions::new(options.precision).convolution,
            own => own,
        };
        CudaOptions {
            product: self.product.unwrap_or(options.product),
            convolution: self.convolution.map_or(options.convolution, |by| by.method(own)),
            ..options
        }
    }

    /// Returns an error if a GPU's kernels or libraries are requested on a CPU.
    pub fn check(self, on_gpu: bool) -> Result<(), Failure> {
        let needs_gpu = |option: &str| {
            Err(Failure::usage(format!(
                "--{option} chooses what computes on a GPU, but this device is not a GPU: choose --device cuda:0, or leave out --{option}."
            )))
        };
        match self {
            _ if on_gpu => Ok(()),
            Self { product: Some(_), .. } => needs_gpu("product"),
            Self { convolution: Some(_), .. } => needs_gpu("convolution"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook::nn::train::Precision;

    #[test]
    fn options_follow_what_is_said() {
        let best = CudaOptions::new(Precision::AmpFp16);
        let said = |product, convolution| ComputedBy { product, convolution }.apply_to(best);
        assert_eq!(said(None, None), best);
        assert_eq!(said(Some(ProductBy::Naive), None), CudaOptions { product: ProductBy::Naive, ..best });
        let stock = said(None, Some(ConvolutionBy::Stock));
        assert_eq!(stock, CudaOptions { convolution: Method::Stock, ..best });
        let own = ComputedBy { product: Some(ProductBy::Own), convolution: Some(ConvolutionBy::Own) };
        assert_eq!(own.apply_to(CudaOptions { product: ProductBy::Stock, ..stock }), best);
        let im2col = CudaOptions { convolution: Method::Im2col, ..best };
        assert_eq!(own.apply_to(im2col), im2col, "a rung's own method stays");
        // The command line takes precedence over the file.
        let file = ComputedBy { product: Some(ProductBy::Tiled), convolution: Some(ConvolutionBy::Stock) };
        let line = ComputedBy { product: Some(ProductBy::Own), convolution: None };
        assert_eq!(line.or(file), ComputedBy { product: Some(ProductBy::Own), ..file });
        assert_eq!(
            "fast".parse::<ConvolutionBy>().unwrap_err(),
            "Unknown convolution `fast`: choose one of own, im2col, stock."
        );
    }

    #[test]
    fn a_cpu_has_no_such_choice() {
        let said = ComputedBy { product: Some(ProductBy::Stock), convolution: None };
        assert!(said.check(false).is_err() && said.check(true).is_ok() && ComputedBy::default().check(false).is_ok());
        assert!(matches!(said.at(Place::Cpu), Place::Cpu), "what a recipe says is nothing to a CPU");
    }
}

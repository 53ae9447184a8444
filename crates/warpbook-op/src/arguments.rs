//! The structs of the C interface, and their conversion to Rust types.

use warpbook_device::{Error, Result};
use warpbook_gemm::Product;
use warpbook_kernels::matmul::{Epilogue, Form};
use warpbook_nn::ops::Layout;
use warpbook_nn::ops::conv2d::Geometry;
use warpbook_record::Dtype;

/// A matrix product, `struct warpbook_product`: C = f(alpha op(A) op(B) + beta C), row-major; op(A) is m x k, op(B) k x n.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CProduct {
    /// Number of rows of C.
    pub m: u32,
    /// Number of columns of C.
    pub n: u32,
    /// Number of terms in each sum.
    pub k: u32,
    /// Leading dimension of A: the number of elements from one stored row to the next.
    pub lda: u32,
    /// Leading dimension of B in elements.
    pub ldb: u32,
    /// Leading dimension of C in elements.
    pub ldc: u32,
    /// Type of A and B: 0 f32, 1 tf32 (stored as f32), 2 f16, 3 bf16.
    pub dtype: i32,
    /// Type of C: 0 f32, 2 f16, 3 bf16.
    pub out: i32,
    /// 1 if A is stored transposed, as a k x m matrix; otherwise 0.
    pub trans_a: i32,
    /// 1 if B is stored transposed, as an n x k matrix; otherwise 0.
    pub trans_b: i32,
    /// The function f: 0 none, 1 bias, 2 bias and ReLU, 3 ReLU's mask, 4 GELU, 5 bias and GELU.
    pub epilogue: i32,
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of C.
    pub beta: f32,
    /// The kernel to use, a number from `warpbook_kernel`; 0 lets Warpbook choose.
    pub kernel: u32,
}

/// A convolution, `struct warpbook_convolution`. Pairs are (height, width).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CConvolution {
    /// Number of images.
    pub batch: u32,
    /// Height and width of an image.
    pub size: [u32; 2],
    /// Number of channels of an image.
    pub channels: u32,
    /// Number of channels of the output.
    pub filters: u32,
    /// Height and width of a filter.
    pub kernel: [u32; 2],
    /// Vertical and horizontal distance between neighbouring windows.
    pub stride: [u32; 2],
    /// Number of zeros added at each end of the height and of the width.
    pub padding: [u32; 2],
    /// Type of images and weights, numbered as in [`CProduct`]; sums and weight gradients are f32.
    pub dtype: i32,
    /// 0: channels last, with images `[batch][height][width][channels]` and weights `[filters][kh][kw][channels]`; 1:
    /// channels first.
    pub layout: i32,
}

/// A convolution with checked values, since the numbers of the C struct may be out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Convolution2d {
    /// Shapes of the convolution.
    pub geometry: Geometry,
    /// Type of images and weights.
    pub dtype: Dtype,
    /// Layout of images in memory.
    pub layout: Layout,
}

fn refused<T>(what: &str, number: i32, known: &str) -> Result<T> {
    Err(Error::Unsupported { what: format!("{what} {number}"), why: format!("is not known; it is one of {known}") })
}

/// Returns the element of a list at this index.
fn numbered<T: Copy>(what: &str, number: i32, all: &[T], known: &str) -> Result<T> {
    let found = usize::try_from(number).ok().and_then(|i| all.get(i)).copied();
    found.map_or_else(|| refused(what, number, known), Ok)
}

pub(crate) fn dtype(number: i32) -> Result<Dtype> {
    numbered("Type", number, &[Dtype::F32, Dtype::Tf32, Dtype::F16, Dtype::Bf16], "0 f32, 1 tf32, 2 f16, 3 bf16")
}

impl CProduct {
    /// Converts these arguments to a product; its sizes are checked when it is planned.
    ///
    /// # Errors
    /// If a number does not stand for any type, epilogue or layout.
    pub fn product(&self) -> Result<Product> {
        let flag = |what, number| numbered(what, number, &[false, true], "0 and 1");
        let epilogues = "0 nothing, 1 bias, 2 bias and ReLU, 3 ReLU's mask, 4 GELU, 5 bias and GELU";
        let form = Form {
            dtype: dtype(self.dtype)?,
            out: dtype(self.out)?,
            trans_a: flag("trans_a", self.trans_a)?,
            trans_b: flag("trans_b", self.trans_b)?,
            epilogue: numbered("Epilogue", self.epilogue, &Epilogue::ALL, epilogues)?,
        };
        let product = Product::new(self.m, self.n, self.k, form);
        let product = product.leading(self.lda, self.ldb, self.ldc).scaled(self.alpha, self.beta);
        product.validate().map_err(|why| Error::Unsupported {
            what: "This product is not possible:".into(),
            why: why.to_string().trim_end_matches('.').to_owned(),
        })?;
        Ok(product)
    }
}

impl CConvolution {
    /// Converts the convolution.
    ///
    /// # Errors
    /// If a number does not stand for any type, epilogue or layout, or a size is impossible.
    pub fn convolution(&self) -> Result<Convolution2d> {
        let pair = |p: [u32; 2]| p.map(|n| n as usize);
        let [height, width] = pair(self.size);
        let geometry = Geometry {
            batch: self.batch as usize,
            height,
            width,
            channels: self.channels as usize,
            filters: self.filters as usize,
            kernel: pair(self.kernel),
            stride: pair(self.stride),
            padding: pair(self.padding),
        };
        geometry.output()?;
        let layout =
            numbered("Layout", self.layout, &[Layout::Nhwc, Layout::Nchw], "0 channels last, 1 channels first")?;
        Ok(Convolution2d { geometry, dtype: dtype(self.dtype)?, layout })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRODUCT: CProduct = CProduct {
        m: 2,
        n: 3,
        k: 5,
        lda: 5,
        ldb: 3,
        ldc: 3,
        dtype: 2,
        out: 0,
        trans_a: 0,
        trans_b: 0,
        epilogue: 1,
        alpha: 1.0,
        beta: 0.0,
        kernel: 0,
    };

    #[test]
    fn a_product_says_what_is_wrong_with_it() {
        let product = PRODUCT.product().unwrap();
        assert_eq!((product.form.dtype, product.form.out), (Dtype::F16, Dtype::F32));
        assert_eq!(product.form.epilogue, Epilogue::Bias);
        let why = |p: CProduct| p.product().unwrap_err().to_string();
        for (wrong, expected) in [
            (CProduct { dtype: 4, ..PRODUCT }, "Type 4"),
            (CProduct { trans_b: -1, ..PRODUCT }, "trans_b -1"),
            (CProduct { epilogue: 6, ..PRODUCT }, "Epilogue 6"),
            (CProduct { lda: 4, ..PRODUCT }, "lda is 4"),
            (CProduct { m: 0, ..PRODUCT }, "empty"),
        ] {
            assert!(why(wrong).contains(expected), "{}", why(wrong));
        }
    }

    #[test]
    fn a_convolution_says_what_is_wrong_with_it() {
        let c_struct = CConvolution {
            batch: 2,
            size: [7, 9],
            channels: 3,
            filters: 8,
            kernel: [3, 3],
            stride: [1, 2],
            padding: [1, 0],
            dtype: 3,
            layout: 0,
        };
        let c = c_struct.convolution().unwrap();
        assert_eq!((c.geometry.output().unwrap(), c.dtype, c.layout), ((7, 4), Dtype::Bf16, Layout::Nhwc));
        let why = |c: CConvolution| c.convolution().unwrap_err().to_string();
        for (wrong, expected) in [
            (CConvolution { layout: 2, ..c_struct }, "Layout 2"),
            (CConvolution { kernel: [3, 10], ..c_struct }, "width"),
            (CConvolution { batch: 0, ..c_struct }, "batch"),
        ] {
            assert!(why(wrong).contains(expected), "{}", why(wrong));
        }
    }
}

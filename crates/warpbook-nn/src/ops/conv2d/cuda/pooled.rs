//! Convolutions whose epilogue computes the maxima over windows of 2 x 2 next to each other, so that y itself is never stored.

use super::super::{Geometry, OP};
use super::{Convolution, Epilogue, Form, Forward, Method};
use crate::gemm::{DeviceArray, Gemm, Workspace};
use crate::ops::Layout;
use crate::ops::error::Check;
use warpbook_device::{CudaDevice, Error, Result, Slice, Stream};
use warpbook_record::Dtype;

impl Convolution {
    /// Whether [`Convolution::pooled`] takes a convolution: by one of the implicit products, in f16 or bf16 of NHWC, with filters that are
    /// multiples of 8, and at least 2 x 2 pixels of y.
    #[must_use]
    pub fn pools(geometry: &Geometry, form: Form) -> bool {
        let is_implicit = match form.method {
            Method::ImplicitGemm | Method::ImplicitGemmTuring | Method::ShiftedWindows | Method::FewChannels => true,
            Method::Direct | Method::Im2col | Method::Stock => false,
        };
        is_implicit
            && matches!(form.dtype, Dtype::F16 | Dtype::Bf16)
            && form.layout == Layout::Nhwc
            && geometry.filters.is_multiple_of(8)
            && geometry.output().is_ok_and(|(oh, ow)| oh >= 2 && ow >= 2)
    }

    /// As [`Convolution::new`], but its forward pass is [`Convolution::forward_pooled`].
    ///
    /// # Errors
    /// As there; [`Convolution::pools`] is false.
    pub fn pooled(device: &CudaDevice, gemm: &Gemm, geometry: &Geometry, form: Form) -> Result<Self> {
        if Self::pools(geometry, form) {
            return Self::build(device, gemm, geometry, form, true);
        }
        Err(Error::Unsupported {
            what: "A convolution and the pool after it".into(),
            why: "are one kernel only by the implicit products, in fp16 or bf16, of channels last, with filters that are multiples of 8 and at least 2 x 2 pixels"
                .into(),
        })
    }

    /// The maxima of f(x * w + b) over windows of 2 x 2 next to each other, and where they are: `[batch][oh / 2][ow / 2][filters]`, as
    /// [`max_forward`](crate::ops::pool::cuda::Pooling::max_forward) has both of the rounded outputs. Without `index` the places are not stored.
    ///
    /// # Errors
    /// As of [`Convolution::forward`]; the kernels do not pool.
    #[expect(clippy::too_many_arguments, reason = "a layer's arrays, as the other passes take them")]
    pub fn forward_pooled(
        &self,
        stream: &Stream,
        x: &DeviceArray,
        weight: &DeviceArray,
        bias: Option<&Slice<f32>>,
        epilogue: Epilogue,
        (y, index): (&DeviceArray, Option<&Slice<u8>>),
        workspace: &Workspace,
    ) -> Result<()> {
        self.check_pool(true)?;
        let (oh, ow) = self.geometry.output()?;
        self.check_sides(("x", x), Some(weight), (("the maxima", y), [oh / 2, ow / 2]), workspace)?;
        if let Some(index) = index {
            Check(OP).lengths(&[("the places of the maxima", index.len(), &[y.len()])])?;
            if !index.at(0).is_aligned(8) {
                return Err(Error::Unsupported {
                    what: "conv2d: the places of the maxima".into(),
                    why: "do not start at a multiple of 8 bytes, but are stored 8 at a time; align them".into(),
                });
            }
        }
        let f = Forward { x, weight, bias, relu: epilogue == Epilogue::Relu, y, pool: Some(index) };
        self.queue_forward(stream, &f, workspace)
    }

    /// An error unless its forward pass is the one that was called.
    pub(super) fn check_pool(&self, pools: bool) -> Result<()> {
        let why = match (self.pool, pools) {
            (true, false) => "was loaded to pool: call `forward_pooled`, or load it by `Convolution::new`",
            (false, true) => "was not loaded to pool: call `forward`, or load it by `Convolution::pooled`",
            _ => return Ok(()),
        };
        Err(Error::Unsupported { what: "The convolution".into(), why: why.into() })
    }
}

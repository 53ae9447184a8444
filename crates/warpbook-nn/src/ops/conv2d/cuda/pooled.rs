//! Convolutions whose epilogue computes the maxima over adjacent windows of 2 x 2, so that y itself is never stored, and weight gradients
//! that expand the gradient of these maxima, so that dy is never stored.

use super::super::{Geometry, OP};
use super::{
    Convolution, ConvolutionBody, Epilogue, Form, ForwardArrays, Method, Pass, PooledGradient, few_specs_of,
    tma_kernel_of,
};
use crate::ops::Layout;
use crate::ops::error::Check;
use warpbook_device::{CudaDevice, Error, Result, Slice, Stream};
use warpbook_gemm::{DeviceArray, Gemm, ProductBy, Workspace};
use warpbook_record::Dtype;

impl Convolution {
    /// Returns true if [`Convolution::pooled`] supports a convolution and is worthwhile: one of the implicit products, f16 or bf16 in NHWC,
    /// filters that are multiples of 8, and a y of at least 2 x 2 pixels. If TMA gathers the windows, a separate pool is faster.
    #[must_use]
    pub fn pools(geometry: &Geometry, form: Form) -> bool {
        let is_implicit = match form.method {
            Method::ImplicitGemm | Method::ImplicitGemmTuring | Method::ShiftedWindows | Method::FewChannels => true,
            Method::ManyChannels => tma_kernel_of(Pass::Forward, form.dtype, geometry, form.layout).is_none(),
            Method::Direct | Method::Im2col | Method::Stock | Method::StockFastest => false,
        };
        is_implicit
            && matches!(form.dtype, Dtype::F16 | Dtype::Bf16)
            && form.layout == Layout::Nhwc
            && geometry.filters.is_multiple_of(8)
            && geometry.output().is_ok_and(|(oh, ow)| oh >= 2 && ow >= 2)
    }

    /// Like [`Convolution::new`], but its forward pass is [`Convolution::forward_pooled`].
    ///
    /// # Errors
    /// Returns the same errors as [`Convolution::new`], and an error if [`Convolution::pools`] is false.
    pub fn pooled(device: &CudaDevice, gemm: &Gemm, geometry: &Geometry, form: Form) -> Result<Self> {
        if Self::pools(geometry, form) {
            return Self::build((gemm, ProductBy::Own), device, geometry, form, [true, false]);
        }
        Err(Error::Unsupported {
            what: "A convolution and the pool after it".into(),
            why: "are a single kernel only with the implicit products, in fp16 or bf16, with channels last, a multiple of 8 filters and an output of at least 2 x 2 pixels"
                .into(),
        })
    }

    /// Returns true if [`Convolution::unpooling`] supports a convolution on a GPU of this compute capability: [`Convolution::pools`] holds,
    /// and [`Method::FewChannels`] itself computes the weight gradient.
    #[must_use]
    pub fn unpools(geometry: &Geometry, form: Form, compute_capability: Option<(u32, u32)>) -> bool {
        let uses_few_channels = form.method.on(compute_capability, form.dtype).has_few_channels();
        let has_kernels = || {
            let specs = few_specs_of(form.dtype, geometry, form.layout, [true; 2]);
            specs.is_some_and(|specs| {
                specs.iter().all(|spec| spec.requires.as_ref().is_none_or(|r| r.met_by(compute_capability)))
            })
        };
        uses_few_channels && Self::pools(geometry, form) && has_kernels()
    }

    /// Like [`Convolution::pooled`], but its weight gradient is also [`Convolution::pooled_weight_gradient`].
    ///
    /// # Errors
    /// Returns the same errors as [`Convolution::pooled`], and an error if [`Convolution::unpools`] is false.
    pub fn unpooling(device: &CudaDevice, gemm: &Gemm, geometry: &Geometry, form: Form) -> Result<Self> {
        if Self::unpools(geometry, form, device.info().compute_capability) {
            return Self::build((gemm, ProductBy::Own), device, geometry, form, [true; 2]);
        }
        Err(no_unpooling())
    }

    /// Queues the maxima of f(x * w + b) over adjacent windows of 2 x 2, and their positions: `[batch][oh / 2][ow / 2][filters]`. The results
    /// are the same as from [`max_forward`](crate::ops::pool::cuda::Pooling::max_forward) on the rounded outputs. Without `index` the positions
    /// are not stored.
    ///
    /// # Errors
    /// Returns the same errors as [`Convolution::forward`], and an error if the kernels do not pool.
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
            check_places(index, y)?;
        }
        let f = ForwardArrays { x, weight, bias, relu: epilogue == Epilogue::Relu, y, pool: Some(index) };
        self.queue_forward(stream, &f, workspace)
    }

    /// Queues dw in f32 and, if requested, the bias gradient, from the gradient of the maxima that [`Convolution::forward_pooled`] stored.
    /// The bits are the same as from [`max_backward_masked`](crate::ops::pool::cuda::Pooling::max_backward_masked) followed by
    /// [`Convolution::weight_gradient`], but dy is never in memory.
    ///
    /// # Errors
    /// Returns the same errors as [`Convolution::forward`], and an error if the kernel does not expand the gradient of maxima.
    pub fn pooled_weight_gradient(
        &self,
        stream: &Stream,
        x: &DeviceArray,
        maxima_gradient: &PooledGradient<'_>,
        dweight: &Slice<f32>,
        dbias: Option<&Slice<f32>>,
        workspace: &Workspace,
    ) -> Result<()> {
        self.check_unpools(true)?;
        let (oh, ow) = self.geometry.output()?;
        let sides = [oh / 2, ow / 2];
        self.check_sides(("x", x), None, (("the gradient of the maxima", maxima_gradient.dy), sides), workspace)?;
        if let Some((mask, _)) = maxima_gradient.mask {
            self.check_sides(("x", x), None, (("the mask", mask), sides), workspace)?;
        }
        check_places(maxima_gradient.places, maxima_gradient.dy)?;
        self.check_gradients(dweight, dbias)?;
        match &self.body {
            ConvolutionBody::Implicit(b) => {
                b.pooled_weight_gradient(stream, (x, maxima_gradient), dweight, dbias, workspace)
            }
            ConvolutionBody::Direct(_) | ConvolutionBody::Im2col(_) | ConvolutionBody::Stock(_) => Err(no_unpooling()),
        }
    }

    /// Returns an error if the called forward pass pools and the kernel does not, or the reverse.
    pub(super) fn check_pool(&self, pools: bool) -> Result<()> {
        let why = match (self.pools[0], pools) {
            (true, false) => "was loaded to pool: call `forward_pooled`, or load it with `Convolution::new`",
            (false, true) => "was not loaded to pool: call `forward`, or load it with `Convolution::pooled`",
            _ => return Ok(()),
        };
        Err(Error::Unsupported { what: "The convolution".into(), why: why.into() })
    }

    /// Returns an error if the called weight gradient starts from maxima and the kernel does not, or the reverse.
    pub(super) fn check_unpools(&self, unpools: bool) -> Result<()> {
        let why = match (self.pools[1], unpools) {
            (true, false) => {
                "was loaded to expand the gradient of maxima: call `pooled_weight_gradient`, or load it with `Convolution::pooled`"
            }
            (false, true) => {
                "was not loaded to expand the gradient of maxima: call `weight_gradient`, or load it with `Convolution::unpooling`"
            }
            _ => return Ok(()),
        };
        Err(Error::Unsupported { what: "The convolution".into(), why: why.into() })
    }
}

/// Refuses positions if there are not as many of them as maxima, or if they are not aligned to 8 bytes.
fn check_places(places: &Slice<u8>, maxima: &DeviceArray) -> Result<()> {
    Check(OP).lengths(&[("the places of the maxima", places.len(), &[maxima.len()])])?;
    if places.at(0).is_aligned(8) {
        return Ok(());
    }
    Err(Error::Unsupported {
        what: "conv2d: the places of the maxima".into(),
        why: "do not start at a multiple of 8 bytes, but are read and stored 8 at a time; align them".into(),
    })
}

/// Returns the error of a convolution whose weight gradient another kernel computes.
pub(super) fn no_unpooling() -> Error {
    Error::Unsupported {
        what: "The weight gradient of a convolution and the pool after it".into(),
        why: "is a single kernel only for few channels, in fp16 or bf16, with channels last, a multiple of 8 filters and an output of at least 2 x 2 pixels, on GPUs of compute capability 8.0 or later"
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_of_maxima_are_expanded_by_the_kernels_of_few_channels() {
        let (kernel, stride, padding) = ([3; 2], [1; 2], [1; 2]);
        let g = Geometry { batch: 512, height: 32, width: 32, channels: 3, filters: 32, kernel, stride, padding };
        let form = Form { method: Method::FewChannels, dtype: Dtype::F16, layout: Layout::Nhwc };
        let unpools = |g: &Geometry, form, cc| Convolution::unpools(g, form, Some(cc));
        let bf16 = Form { dtype: Dtype::Bf16, ..form };
        for cc in [(8, 0), (8, 9), (9, 0), (12, 0)] {
            assert!(unpools(&g, form, cc) && unpools(&g, bf16, cc), "{cc:?}");
        }
        // Odd sides are supported, too: the windows then leave out the last row or column.
        assert!(unpools(&Geometry { height: 31, width: 33, ..g }, form, (9, 0)));
        // Below 8.0 the implicit product pools only in the forward pass.
        assert!(Convolution::pools(&g, form));
        assert!(!unpools(&g, form, (7, 5)) && !unpools(&g, bf16, (7, 5)) && !Convolution::unpools(&g, form, None));
        let not = |g: Geometry, form: Form| assert!(!unpools(&g, form, (9, 0)), "{g:?}, {form:?}");
        for method in [Method::ImplicitGemm, Method::ShiftedWindows, Method::Im2col, Method::Stock] {
            not(g, Form { method, ..form });
        }
        not(g, Form { layout: Layout::Nchw, ..form });
        not(g, Form { dtype: Dtype::F32, ..form });
        not(Geometry { channels: 7, kernel: [3, 4], ..g }, form);
        not(Geometry { filters: 12, ..g }, form);
        not(Geometry { height: 1, ..g }, form);
        // A row of windows does not fit into shared memory.
        not(Geometry { width: 8000, ..g }, form);
    }
}

//! NVIDIA's library cuDNN, with this project's kernels for the operations that it does not fuse.
//!
//! With 16-bit operands cuDNN also computes dw in 16 bits: dw is written into the workspace and then widened. Sums are in f32 before they are
//! rounded; a gradient beyond the range of fp16 becomes infinite, which the gradient scaler detects, as in PyTorch.

use super::shapes::Shapes;
use super::{Form, ForwardArrays, Method, stored};
use crate::ops::Layout;
use warpbook_device::{ConvolutionPass, CudaDevice, CudnnPlan, Error, LibraryConvolution, Result, Slice, Stream};
use warpbook_gemm::{AfterLibrary, DeviceArray, Gemm, Workspace};
use warpbook_kernels::matmul::WORKSPACE_BYTES;
use warpbook_record::Dtype;

/// cuDNN's plans. Callers check the lengths and types of arrays.
#[derive(Debug)]
pub(super) struct Stock {
    shapes: Shapes,
    dtype: Dtype,
    forward: CudnnPlan,
    /// Plan of the input gradient. A network's first layer does not need it, so an error is reported only when it is queued.
    input_gradient: Result<CudnnPlan>,
    weight_gradient: CudnnPlan,
    after: AfterLibrary,
}

/// Defers an "unsupported" error until the gradient is queued.
fn input_gradient(planned: Result<CudnnPlan>) -> Result<Result<CudnnPlan>> {
    match planned {
        Err(why @ Error::Unsupported { .. }) => Ok(Err(why)),
        planned => planned.map(Ok),
    }
}

impl Stock {
    pub fn new(device: &CudaDevice, gemm: &Gemm, shapes: &Shapes, form: Form) -> Result<Self> {
        let cudnn = gemm.cudnn()?;
        let convolution = LibraryConvolution {
            batch: shapes.batch,
            channels: shapes.channels,
            x: shapes.x,
            filters: shapes.filters,
            y: shapes.y,
            kernel: shapes.kernel,
            stride: shapes.stride,
            padding: shapes.padding,
            dtype: form.dtype,
            channels_last: form.layout == Layout::Nhwc,
        };
        let plan = |pass| match form.method {
            Method::StockFastest => cudnn.fastest(&convolution, pass, WORKSPACE_BYTES),
            _ => cudnn.plan(&convolution, pass, WORKSPACE_BYTES),
        };
        Ok(Self {
            shapes: *shapes,
            dtype: stored(form.dtype),
            forward: plan(ConvolutionPass::Forward)?,
            input_gradient: input_gradient(plan(ConvolutionPass::InputGradient))?,
            weight_gradient: plan(ConvolutionPass::WeightGradient)?,
            after: AfterLibrary::new(device, stored(form.dtype))?,
        })
    }

    /// Returns the plans of the forward pass, the input gradient and the weight gradient.
    pub fn plans(&self) -> [Option<&CudnnPlan>; 3] {
        [Some(&self.forward), self.input_gradient.as_ref().ok(), Some(&self.weight_gradient)]
    }

    /// Returns the size in bytes of dw if it is in 16 bits, or 0 if it is in f32. The library's workspace begins after it.
    fn narrow_bytes(&self) -> u64 {
        if self.dtype == Dtype::F32 {
            return 0;
        }
        let weights = u64::from(self.shapes.filters) * u64::from(self.shapes.taps());
        (weights * self.dtype.bytes()).next_multiple_of(Workspace::ALIGNMENT)
    }

    pub fn workspace_bytes(&self) -> u64 {
        let [forward, input_gradient, weight_gradient] =
            self.plans().map(|plan| plan.map_or(0, CudnnPlan::workspace_bytes));
        forward.max(input_gradient).max(self.narrow_bytes() + weight_gradient)
    }

    pub fn forward(&self, stream: &Stream, f: &ForwardArrays<'_>, workspace: &Workspace) -> Result<()> {
        let part = workspace.part(0, self.forward.workspace_bytes());
        self.forward.launch(stream, [f.x.bytes(), f.weight.bytes()], f.y.bytes(), &part)?;
        match f.bias {
            Some(bias) => {
                let pixels = match self.shapes.layout {
                    Layout::Nhwc => 1,
                    Layout::Nchw => self.shapes.output_pixels(),
                };
                self.after.bias(stream, f.y, bias, [self.shapes.filters, pixels], f.relu)
            }
            None if f.relu => self.after.relu(stream, f.y),
            None => Ok(()),
        }
    }

    pub fn input_gradient(
        &self,
        stream: &Stream,
        dy: &DeviceArray,
        weight: &DeviceArray,
        mask: Option<&DeviceArray>,
        dx: &DeviceArray,
        workspace: &Workspace,
    ) -> Result<()> {
        let plan = self.input_gradient.as_ref().map_err(Clone::clone)?;
        let part = workspace.part(0, plan.workspace_bytes());
        plan.launch(stream, [weight.bytes(), dy.bytes()], dx.bytes(), &part)?;
        mask.map_or(Ok(()), |mask| self.after.mask(stream, mask, dx))
    }

    pub fn weight_gradient(
        &self,
        stream: &Stream,
        [x, dy]: [&DeviceArray; 2],
        dweight: &Slice<f32>,
        workspace: &Workspace,
    ) -> Result<()> {
        let plan = &self.weight_gradient;
        let part = workspace.part(self.narrow_bytes(), plan.workspace_bytes());
        if self.dtype == Dtype::F32 {
            return plan.launch(stream, [x.bytes(), dy.bytes()], &dweight.cast(), &part);
        }
        let narrow = workspace.part(0, dweight.len() as u64 * self.dtype.bytes());
        plan.launch(stream, [x.bytes(), dy.bytes()], &narrow, &part)?;
        self.after.widen(stream, &DeviceArray::of_bytes(&narrow, self.dtype), dweight)
    }
}

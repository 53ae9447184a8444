//! Kernels that compute convolutions straight from the definition.
#![allow(unsafe_code)]

use super::ForwardArrays;
use super::shapes::Shapes;
use crate::ops::Words;
use warpbook_device::{CudaDevice, Kernel, KernelArg, Result, Slice, Stream};
use warpbook_gemm::DeviceArray;
use warpbook_gemm::kernel_args::{load, optional, optional_array};
use warpbook_kernels::Launch;
use warpbook_kernels::nn::conv2d::{Pass, direct};

/// Kernels of the direct method. Callers check that arrays are f32 and have the right lengths.
#[derive(Debug, Clone)]
pub(super) struct Direct {
    g: Words<13>,
    forward: Kernel,
    input_gradient: Kernel,
    weight_gradient: Kernel,
    bias_gradient: Kernel,
}

impl Direct {
    pub fn new(device: &CudaDevice, shapes: &Shapes) -> Result<Self> {
        let [forward, input_gradient, weight_gradient, bias_gradient] = load(device, direct(shapes.layout))?;
        Ok(Self { g: Words(shapes.conv()), forward, input_gradient, weight_gradient, bias_gradient })
    }

    pub fn kernel(&self, pass: Pass) -> &Kernel {
        match pass {
            Pass::Forward => &self.forward,
            Pass::InputGradient => &self.input_gradient,
            Pass::WeightGradient => &self.weight_gradient,
        }
    }

    pub fn forward(&self, stream: &Stream, f: &ForwardArrays<'_>) -> Result<()> {
        let (n, relu) = (f.y.len() as u32, u32::from(f.relu));
        let args: [&dyn KernelArg; 7] =
            [&self.g, f.x.bytes(), f.weight.bytes(), optional(f.bias), &relu, f.y.bytes(), &n];
        // SAFETY: the arguments match `direct_forward(g, x, weight, bias, relu, y, n)`; types and lengths were checked.
        unsafe { self.forward.launch(stream, self.forward.shape(n.into()), &args) }
    }

    pub fn input_gradient(
        &self,
        stream: &Stream,
        dy: &DeviceArray,
        weight: &DeviceArray,
        mask: Option<&DeviceArray>,
        dx: &DeviceArray,
    ) -> Result<()> {
        let (kernel, n) = (&self.input_gradient, dx.len() as u32);
        let args: [&dyn KernelArg; 6] = [&self.g, dy.bytes(), weight.bytes(), optional_array(mask), dx.bytes(), &n];
        // SAFETY: the arguments match `direct_input_gradient(g, dy, weight, mask, dx, n)`; types and lengths were checked.
        unsafe { kernel.launch(stream, kernel.shape(n.into()), &args) }
    }

    pub fn weight_gradient(
        &self,
        stream: &Stream,
        [x, dy]: [&DeviceArray; 2],
        dweight: &Slice<f32>,
        dbias: Option<&Slice<f32>>,
    ) -> Result<()> {
        let blocks = |kernel: &Kernel, count: usize| Launch { grid: [count as u32, 1, 1], ..kernel.shape(1) };
        let kernel = &self.weight_gradient;
        let args: [&dyn KernelArg; 4] = [&self.g, x.bytes(), dy.bytes(), dweight];
        // SAFETY: the arguments match `direct_weight_gradient(g, x, dy, dweight)`, the grid has one block per weight, and the types and lengths were checked.
        unsafe { kernel.launch(stream, blocks(kernel, dweight.len()), &args) }?;
        let Some(dbias) = dbias else { return Ok(()) };
        let kernel = &self.bias_gradient;
        // SAFETY: the arguments match `direct_bias_gradient(g, dy, dbias)`, the grid has one block per filter, and the types and lengths were checked.
        unsafe { kernel.launch(stream, blocks(kernel, dbias.len()), &[&self.g, dy.bytes(), dbias]) }
    }
}

//! Checks a layer in a lab: on its GPU, in the emulator, or with only the compiler and the CPU.

use super::{OwnReport, check, check_on_cpu};
use crate::{Lab, Result};
use warpbook_device::{Compiler, CudaDevice, Error};
use warpbook_nn::network::Shape;
use warpbook_nn::ops::Layout;
use warpbook_nn::ops::custom_layer::{OwnLayer, OwnSizes, compile};
use warpbook_record::Dtype;

/// Architecture to compile for if there is no GPU.
const WITHOUT_GPU: &str = "sm_90";

/// Maximum number of elements of a sample in the emulator: measuring slopes takes two forward passes per element.
const MOST_EMULATED: usize = 4096;

impl Lab {
    /// Checks a learner's own layer on inputs of a shape, either `[channels, height, width]` or a number of features.
    /// Gradients are compared with measured slopes of the forward pass, and the forms of the layer (data types and
    /// layouts) with each other. The report says what is wrong, and a notebook shows it as a table.
    ///
    /// Without a GPU, a layer whose samples have at most 4096 elements is checked in the emulator. A larger one is only
    /// compiled, and its CPU body is checked if it has one.
    ///
    /// # Errors
    /// If the source does not compile (with the line), a kernel is missing, or the device or a kernel reports an error.
    pub fn check_layer(&self, layer: &OwnLayer, input: impl Into<Shape>) -> Result<OwnReport> {
        let input = input.into();
        if let Some(device) = self.device().cuda() {
            return Ok(check(device, layer, input)?);
        }
        if [input, layer.output_of(input)].iter().all(|shape| shape.elements() <= MOST_EMULATED) {
            match check(&CudaDevice::emulated(), layer, input) {
                // The layer needs something that is not emulated.
                Err(Error::Unsupported { .. } | Error::NotEmulated(_)) => {}
                found => return Ok(found?),
            }
        }
        let sizes = OwnSizes::new(layer, input, 1, Layout::Nhwc);
        let compiled = |dtype| compile(layer, &sizes, dtype, &Compiler::new(None)?, WITHOUT_GPU);
        let stats = compiled(Dtype::F32)?;
        // Code that compiles in f32 may fail in a half type, whose elements need conversions.
        compiled(Dtype::F16)?;
        let needs = format!("Its kernels were compiled for {WITHOUT_GPU}, and not run: that needs a GPU.");
        if !layer.has_cpu_body() {
            return Ok(OwnReport::compiled(layer, input, stats, needs));
        }
        let mut report = check_on_cpu(layer, input)?;
        report.stats = stats.into();
        report.notes.push(needs);
        Ok(report)
    }
}

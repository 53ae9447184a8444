//! Passes of custom layers.

use super::PassBuilder;
use crate::ops::custom_layer::cuda::Backward;
use crate::train::TrainError;
use warpbook_device::Slice;
use warpbook_gemm::DeviceArray;

impl PassBuilder<'_> {
    fn own_parameters(&self, i: usize) -> Vec<Slice<f32>> {
        self.node(i).params.iter().map(|id| self.parts.params.master(*id)).collect()
    }

    pub(super) fn custom_layer_forward(&mut self, i: usize, x: DeviceArray, y: DeviceArray) {
        let Some(kernels) = self.parts.kernels.own[i].clone() else { return };
        let (n, parameters) = (self.n, self.own_parameters(i));
        self.push(&self.node(i).name, "forward", move |s| kernels.forward(s, n, (&x, &y), &parameters));
    }

    /// Computes the gradients of the input and of the parameters.
    pub(super) fn custom_layer_backward(&mut self, i: usize, dy: DeviceArray) -> Result<(), TrainError> {
        let (n, node, fusion, memory) = (self.n, self.node(i), self.parts.fusion, self.parts.memory);
        let Some(kernels) = self.parts.kernels.own[i].clone() else { return Ok(()) };
        let needed = self.needs_gradient(node.input);
        if !needed && node.params.is_empty() {
            return Ok(());
        }
        let joins = needed && fusion.joins(self.network().nodes(), i, node.input);
        // The kernel always writes dx, and may still read dy while doing so; if nothing reads dx, it gets its own memory.
        let dx = if joins || !needed { memory.joined(i, self.len(node.input))? } else { self.gradient(node.input)? };
        let len = node.own.as_ref().map_or(0, |own| kernels.sizes(n).shares(own).1);
        let scratch = if len > 0 { Some(memory.scratch(i, true, 0, len)?.1) } else { None };
        let totals = node.params.iter().map(|id| self.parts.params.gradient(*id)).collect();
        let gradients = kernels.gradients(self.parts.device, n, scratch.as_ref(), totals)?;
        let (x, y, to, parameters) =
            (self.value(node.input)?, self.value(node.output)?, dx.clone(), self.own_parameters(i));
        self.push(&node.name, "backward", move |s| {
            let (parameters, gradients) = (&parameters[..], &gradients);
            kernels.backward(s, n, &Backward { x: &x, y: &y, dy: &dy, parameters, dx: &to, gradients })
        });
        if joins {
            self.accumulate(&node.name, dx, self.gradient(node.input)?)?;
        }
        Ok(())
    }
}

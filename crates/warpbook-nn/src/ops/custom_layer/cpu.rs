//! Implementations of custom layers on the CPU.

use super::OwnSizes;
use std::fmt;
use std::sync::Arc;

/// Arguments of a forward pass on the CPU.
#[derive(Debug)]
pub struct CpuForward<'a> {
    /// Sizes of the arrays, with functions for the positions of elements.
    pub sizes: OwnSizes,
    /// Inputs of the layer.
    pub x: &'a [f32],
    /// Values of the parameters, in the order of declaration.
    pub parameters: &'a [&'a [f32]],
    /// Outputs to write; their old contents are arbitrary.
    pub y: &'a mut [f32],
}

/// Arguments of a backward pass on the CPU.
#[derive(Debug)]
pub struct CpuBackward<'a> {
    /// Sizes of the arrays, with functions for the positions of elements.
    pub sizes: OwnSizes,
    /// Inputs of the layer.
    pub x: &'a [f32],
    /// Outputs of the forward pass.
    pub y: &'a [f32],
    /// Gradient of the outputs.
    pub dy: &'a [f32],
    /// Values of the parameters, in the order of declaration.
    pub parameters: &'a [&'a [f32]],
    /// Gradient of the inputs to write; its old contents are arbitrary.
    pub dx: &'a mut [f32],
    /// Gradients of the parameters, initially zero.
    pub gradients: &'a mut [Vec<f32>],
}

type ForwardFunction = dyn Fn(CpuForward<'_>) + Send + Sync;
type BackwardFunction = dyn Fn(CpuBackward<'_>) + Send + Sync;

/// CPU implementation of a layer: its forward and its backward pass. Two bodies are equal if they come from the same definition.
#[derive(Clone)]
pub struct CpuBody {
    forward: Arc<ForwardFunction>,
    backward: Arc<BackwardFunction>,
}

impl CpuBody {
    pub(super) fn new(
        forward: impl Fn(CpuForward<'_>) + Send + Sync + 'static,
        backward: impl Fn(CpuBackward<'_>) + Send + Sync + 'static,
    ) -> Self {
        Self { forward: Arc::new(forward), backward: Arc::new(backward) }
    }

    /// Computes y with the forward body.
    pub fn forward(&self, with: CpuForward<'_>) {
        (self.forward)(with);
    }

    /// Computes dx and the gradients of the parameters with the backward body.
    pub fn backward(&self, with: CpuBackward<'_>) {
        (self.backward)(with);
    }
}

impl super::OwnLayer {
    /// Returns the layer's CPU implementation, if it has one.
    #[must_use]
    pub fn cpu_body(&self) -> Option<&CpuBody> {
        self.0.cpu.as_ref()
    }

    /// Explains why the layer cannot be computed on the CPU; `name` is its name in the network.
    pub(crate) fn without_cpu_body(name: &str) -> String {
        format!("{name} has only a CUDA body: train it on a GPU, or give it a body for the CPU with `on_cpu`.")
    }
}

impl PartialEq for CpuBody {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.forward, &other.forward) && Arc::ptr_eq(&self.backward, &other.backward)
    }
}

impl fmt::Debug for CpuBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CpuBody")
    }
}

//! The CPU bodies that a learner may give.

use super::OwnSizes;
use std::fmt;
use std::sync::Arc;

/// What a forward pass on the CPU is given.
#[derive(Debug)]
pub struct CpuForward<'a> {
    /// Shapes, and where elements are.
    pub sizes: OwnSizes,
    /// The inputs.
    pub x: &'a [f32],
    /// The parameters, in order.
    pub parameters: &'a [&'a [f32]],
    /// The outputs, which hold anything before.
    pub y: &'a mut [f32],
}

/// What a backward pass on the CPU is given.
#[derive(Debug)]
pub struct CpuBackward<'a> {
    /// Shapes, and where elements are.
    pub sizes: OwnSizes,
    /// The inputs.
    pub x: &'a [f32],
    /// The outputs of the forward pass.
    pub y: &'a [f32],
    /// The gradient of the outputs.
    pub dy: &'a [f32],
    /// The parameters, in order.
    pub parameters: &'a [&'a [f32]],
    /// The gradient of the inputs, which holds anything before.
    pub dx: &'a mut [f32],
    /// The gradients of the parameters, zeros before.
    pub gradients: &'a mut [Vec<f32>],
}

type Forward = dyn Fn(CpuForward<'_>) + Send + Sync;
type Backward = dyn Fn(CpuBackward<'_>) + Send + Sync;

/// Both functions. Two are equal where they are the same functions of one definition.
#[derive(Clone)]
pub(crate) struct CpuBody {
    forward: Arc<Forward>,
    backward: Arc<Backward>,
}

impl CpuBody {
    pub fn new(
        forward: impl Fn(CpuForward<'_>) + Send + Sync + 'static,
        backward: impl Fn(CpuBackward<'_>) + Send + Sync + 'static,
    ) -> Self {
        Self { forward: Arc::new(forward), backward: Arc::new(backward) }
    }

    pub fn forward(&self, with: CpuForward<'_>) {
        (self.forward)(with);
    }

    pub fn backward(&self, with: CpuBackward<'_>) {
        (self.backward)(with);
    }
}

impl super::OwnLayer {
    /// Its bodies for the CPU.
    pub(crate) fn cpu(&self) -> Option<&CpuBody> {
        self.0.cpu.as_ref()
    }

    /// Why it cannot be computed on the CPU; `name` is the layer's in its network.
    pub(crate) fn without_cpu_body(name: &str) -> String {
        format!("{name} has a CUDA body only: train it on a GPU, or give it a body for the CPU with `on_cpu`.")
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

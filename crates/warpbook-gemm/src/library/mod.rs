//! Products computed by cuBLASLt, and this project's kernels for the work that the library does not do.

mod launch;

use crate::product::ArraySpec;
use crate::{DeviceArray, DeviceArrays, Plan, Product, Workspace, refused};
use std::sync::Arc;
use warpbook_device::{CublasLt, CudaDevice, Error, Kernel, LtPlan, Result, Slice, Stream};
use warpbook_kernels::matmul::{Epilogue, WORKSPACE_BYTES};
use warpbook_kernels::nn;
use warpbook_record::Dtype;

/// Alignment in bytes of the arrays passed to the library.
const ALIGNMENT: u64 = 16;

/// Kernels for the parts of a product or a convolution that a library does not compute: biases, ReLUs, masks, and weight gradients in f32. All kernels are
/// loaded for the same type of elements.
#[derive(Debug, Clone)]
pub struct AfterLibrary {
    /// Type in which the elements are stored.
    pub dtype: Dtype,
    /// Kernel that adds a bias, with a ReLU or without.
    pub bias: Kernel,
    /// Kernel that converts the elements to f32.
    pub widen: Kernel,
    /// Kernels for ReLU, and for the mask of its gradient.
    pub relu: [Kernel; 2],
}

impl AfterLibrary {
    /// Compiles and loads the kernels for elements that are stored as `dtype`.
    ///
    /// # Errors
    /// If a kernel does not compile, or the driver refuses it.
    pub fn new(device: &CudaDevice, dtype: Dtype) -> Result<Self> {
        let load = |spec: &warpbook_record::KernelSpec| device.kernel(spec, &spec.tiles[0]);
        let [bias, widen] = nn::library(dtype);
        let [relu, mask, ..] = nn::activation(dtype);
        Ok(Self { dtype, bias: load(&bias)?, widen: load(&widen)?, relu: [load(&relu)?, load(&mask)?] })
    }

    /// Checks that an array has this type and at least `len` elements.
    ///
    /// # Errors
    /// If the type or the length is wrong; the message names the array.
    pub fn holds(&self, name: &str, array: &DeviceArray, len: usize) -> Result<()> {
        array.spec().holds(name, ArraySpec { dtype: self.dtype, len }).map_err(refused)
    }
}

/// A product computed by cuBLASLt with the algorithm that its heuristics suggest first, and this project's kernels for the epilogue. Arrays must begin at
/// multiples of 16 bytes.
#[derive(Debug)]
pub struct LibraryPlan {
    product: Product,
    plan: LtPlan,
    after: AfterLibrary,
}

impl LibraryPlan {
    /// Plans a product.
    ///
    /// # Errors
    /// If the product's sizes or epilogue are not supported here, or the library has no algorithm for it.
    pub fn new(device: &CudaDevice, library: &CublasLt, p: &Product) -> Result<Self> {
        p.validate().map_err(refused)?;
        if matches!(p.form.epilogue, Epilogue::Gelu | Epilogue::BiasGelu) || p.bias_gradient {
            return Err(Error::Unsupported {
                what: "A product by cuBLASLt".into(),
                why: "has no GELU and no bias gradient here; queue them as separate operations".into(),
            });
        }
        if p.ldc != p.n && p.form.epilogue != Epilogue::None {
            return Err(Error::Unsupported {
                what: "A product by cuBLASLt".into(),
                why: format!(
                    "needs a C without gaps for an epilogue, but its rows of {} elements are {} apart",
                    p.n, p.ldc
                ),
            });
        }
        let plan = library.first_plan(&p.library_call(), ALIGNMENT, WORKSPACE_BYTES)?;
        let out = if p.form.out == Dtype::Tf32 { Dtype::F32 } else { p.form.out };
        Ok(Self { product: *p, plan, after: AfterLibrary::new(device, out)? })
    }

    /// Returns the number of bytes of workspace that a launch needs.
    #[must_use]
    pub fn workspace_bytes(&self) -> u64 {
        self.plan.workspace_bytes() as u64
    }

    /// Queues the product and the kernels of its epilogue.
    ///
    /// # Errors
    /// If an array or the workspace is too small or of another type, or the library refuses the launch.
    pub fn launch_checked(&self, stream: &Stream, arrays: &DeviceArrays, workspace: &Workspace) -> Result<()> {
        let p = &self.product;
        p.check(&arrays.specs()).map_err(refused)?;
        workspace.check(self.workspace_bytes()).map_err(refused)?;
        let operands = [&arrays.a, &arrays.b, &arrays.c].map(DeviceArray::bytes);
        self.plan.launch_checked(stream, operands, &workspace.part(0, self.workspace_bytes()))?;
        let (inputs, c) = (&arrays.epilogue, arrays.c.range(0..p.elements()[2]));
        match (p.form.epilogue, &inputs.bias, &inputs.mask) {
            (Epilogue::Bias | Epilogue::BiasRelu, Some(bias), _) => {
                let bias: Slice<f32> = bias.bytes().cast();
                let relu = p.form.epilogue == Epilogue::BiasRelu;
                self.after.bias(stream, &c, &bias, [p.n, 1], relu)
            }
            (Epilogue::ReluMask, _, Some(mask)) => self.after.mask(stream, mask, &c),
            _ => Ok(()),
        }
    }
}

/// A planned product, computed by this project's kernels or by a library.
#[derive(Debug, Clone)]
pub enum Planned {
    /// A product computed by one of the catalogue's kernels.
    Kernel(Arc<Plan>),
    /// A product computed by cuBLASLt.
    Library(Arc<LibraryPlan>),
}

impl Planned {
    /// Returns the number of bytes of workspace that a launch needs.
    #[must_use]
    pub fn workspace_bytes(&self) -> u64 {
        match self {
            Self::Kernel(plan) => plan.workspace_bytes(),
            Self::Library(plan) => plan.workspace_bytes(),
        }
    }

    /// Queues the product, like [`Plan::launch_checked`].
    ///
    /// # Errors
    /// Returns the errors of [`Plan::launch_checked`].
    pub fn launch_checked(&self, stream: &Stream, arrays: &DeviceArrays, workspace: &Workspace) -> Result<()> {
        match self {
            Self::Kernel(plan) => plan.launch_checked(stream, arrays, workspace),
            Self::Library(plan) => plan.launch_checked(stream, arrays, workspace),
        }
    }
}

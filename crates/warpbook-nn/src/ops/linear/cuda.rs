//! The linear layer on a GPU: three matrix products, and the column sums of dy.

use super::{OP, Sizes};
use crate::ops::error::Check;
use warpbook_device::{CudaDevice, Error, Result, Slice, Stream};
use warpbook_gemm::{DeviceArray, DeviceArrays, Gemm, Planned, Product, ProductBy, RowsOf, Sums, Workspace, refused};
use warpbook_kernels::matmul::{Epilogue, Form};
use warpbook_record::Dtype;

/// An operation applied to the outputs after the bias, before they are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LinearEpilogue {
    /// No operation.
    #[default]
    None,
    /// max(v, 0), for a layer with a bias.
    Relu,
}

/// The products of a linear layer, planned for its sizes and a type: f32, tf32, f16 or bf16. Sums are in f32. Stored results, including
/// gradients of weights, are rounded to the type. Its functions allocate nothing and wait for nothing. Arrays must be aligned to 16 bytes.
#[derive(Debug, Clone)]
pub struct Linear {
    sizes: Sizes,
    dtype: Dtype,
    /// The product for y and, if there is a bias, the product with a ReLU.
    forward: (Planned, Option<Planned>),
    /// The products for dx without and with a mask.
    input_gradient: [Planned; 2],
    weight_gradient: Planned,
    bias_gradient: Option<Sums>,
}

impl Linear {
    /// Plans the products of the forward pass and of both gradients for the backend `by`, and compiles and loads their kernels. The bias
    /// gradient has a separate kernel.
    ///
    /// # Errors
    /// If a size is zero or 2^32 or more; if no rung supports the type on this device, or the backend's rung does not; if the backend's library is missing, or
    /// has no algorithm for a product; if compiling fails or the device reports an error.
    pub fn by(
        by: ProductBy,
        device: &CudaDevice,
        gemm: &Gemm,
        sizes: &Sizes,
        dtype: Dtype,
        with_bias: bool,
    ) -> Result<Self> {
        let check = Check(OP);
        check.positive(&[("the batch", sizes.batch), ("inputs", sizes.inputs), ("outputs", sizes.outputs)])?;
        let [batch, inputs, outputs] = [
            check.word("the batch", sizes.batch)?,
            check.word("inputs", sizes.inputs)?,
            check.word("outputs", sizes.outputs)?,
        ];
        let plain = Form { out: stored(dtype), ..Form::plain(dtype) };
        let plan = |[m, n, k]: [u32; 3], form| gemm.plan_by(by, &Product::new(m, n, k, form));
        let forward = |epilogue| plan([batch, outputs, inputs], Form { trans_b: true, epilogue, ..plain });
        let input_gradient = |epilogue| plan([batch, inputs, outputs], Form { epilogue, ..plain });
        let (first, relu) = if with_bias {
            (forward(Epilogue::Bias)?, Some(forward(Epilogue::BiasRelu)?))
        } else {
            (forward(Epilogue::None)?, None)
        };
        let sums = || Sums::new(device, stored(dtype), outputs, RowsOf::Matrix { rows: batch });
        Ok(Self {
            sizes: *sizes,
            dtype,
            forward: (first, relu),
            input_gradient: [input_gradient(Epilogue::None)?, input_gradient(Epilogue::ReluMask)?],
            weight_gradient: plan([outputs, inputs, batch], Form { trans_a: true, ..plain })?,
            bias_gradient: with_bias.then(sums).transpose()?,
        })
    }

    /// Returns the number of bytes of workspace that the largest pass needs.
    #[must_use]
    pub fn workspace_bytes(&self) -> u64 {
        let (forward, relu) = &self.forward;
        let plans = [forward, &self.weight_gradient].into_iter().chain(relu).chain(&self.input_gradient);
        let sums = self.bias_gradient.iter().map(Sums::workspace_bytes);
        plans.map(|plan| plan.workspace_bytes()).chain(sums).max().unwrap_or(0)
    }

    /// Queues y = f(x W^T + b); pass a bias if and only if the layer was made with one.
    ///
    /// # Errors
    /// If an array has the wrong length or type or is not aligned, or the workspace is too small; if a bias is
    /// missing or superfluous, or a ReLU is requested without a bias; if a launch fails.
    #[expect(clippy::too_many_arguments, reason = "a layer's arrays, as the other passes take them")]
    pub fn forward(
        &self,
        stream: &Stream,
        x: &DeviceArray,
        weight: &DeviceArray,
        bias: Option<&Slice<f32>>,
        epilogue: LinearEpilogue,
        y: &DeviceArray,
        workspace: &Workspace,
    ) -> Result<()> {
        self.check(("x", x), Some(weight), ("y", y), workspace)?;
        self.sizes.check_bias("the bias", bias.map(Slice::len))?;
        let (plain, relu) = &self.forward;
        let plan = match (epilogue, relu) {
            (LinearEpilogue::None, _) => plain,
            (LinearEpilogue::Relu, Some(relu)) => relu,
            (LinearEpilogue::Relu, None) => {
                let why =
                    "is computed only together with a bias; create the layer with one, or queue the activation".into();
                return Err(Error::Unsupported { what: "linear: a ReLU".into(), why });
            }
        };
        let arrays = DeviceArrays::new(x.clone(), weight.clone(), y.clone());
        plan.launch_checked(stream, &if let Some(bias) = bias { arrays.bias(bias) } else { arrays }, workspace)
    }

    /// Queues dx = dy W. With `mask`, which has the shape and type of dx, dx is 0 where the mask is 0 or less: if the mask is the output of
    /// the ReLU that gave x, dx is the gradient before that ReLU.
    ///
    /// # Errors
    /// See [`Linear::forward`].
    pub fn input_gradient(
        &self,
        stream: &Stream,
        dy: &DeviceArray,
        weight: &DeviceArray,
        mask: Option<&DeviceArray>,
        dx: &DeviceArray,
        workspace: &Workspace,
    ) -> Result<()> {
        self.check(("dx", dx), Some(weight), ("dy", dy), workspace)?;
        let arrays = DeviceArrays::new(dy.clone(), weight.clone(), dx.clone());
        let [plain, masked] = &self.input_gradient;
        match mask {
            Some(mask) => masked.launch_checked(stream, &arrays.mask(mask.clone()), workspace),
            None => plain.launch_checked(stream, &arrays, workspace),
        }
    }

    /// Queues dW = dy^T x, in the type of the operands, and if requested the bias gradient in f32: the column sums of dy.
    ///
    /// # Errors
    /// Returns the same errors as [`Linear::forward`], and an error if a bias gradient is requested from a layer without a bias.
    pub fn weight_gradient(
        &self,
        stream: &Stream,
        x: &DeviceArray,
        dy: &DeviceArray,
        dweight: &DeviceArray,
        dbias: Option<&Slice<f32>>,
        workspace: &Workspace,
    ) -> Result<()> {
        self.check(("x", x), None, ("dy", dy), workspace)?;
        Check(OP).arrays(stored(self.dtype), &[("dweight", dweight, &[self.sizes.outputs, self.sizes.inputs])])?;
        self.sizes.check_bias("dbias", dbias.map(Slice::len))?;
        let sums = match (dbias, &self.bias_gradient) {
            (Some(_), None) => return Err(no_bias()),
            (dbias, sums) => dbias.zip(sums.as_ref()),
        };
        let arrays = DeviceArrays::new(dy.clone(), x.clone(), dweight.clone());
        self.weight_gradient.launch_checked(stream, &arrays, workspace)?;
        sums.map_or(Ok(()), |(dbias, sums)| sums.queue(stream, dy, dbias, workspace))
    }

    /// Queues only the gradient of the bias.
    ///
    /// # Errors
    /// If the layer was made without a bias, or an array has the wrong length.
    pub fn bias_gradient(
        &self,
        stream: &Stream,
        dy: &DeviceArray,
        dbias: &Slice<f32>,
        workspace: &Workspace,
    ) -> Result<()> {
        self.sizes.check_bias("dbias", Some(dbias.len()))?;
        let Some(sums) = &self.bias_gradient else { return Err(no_bias()) };
        sums.queue(stream, dy, dbias, workspace)
    }

    fn check(
        &self,
        (x_name, x): (&'static str, &DeviceArray),
        weight: Option<&DeviceArray>,
        (y_name, y): (&'static str, &DeviceArray),
        workspace: &Workspace,
    ) -> Result<()> {
        let Sizes { batch, inputs, outputs } = self.sizes;
        let (check, dtype) = (Check(OP), stored(self.dtype));
        check.arrays(dtype, &[(x_name, x, &[batch, inputs]), (y_name, y, &[batch, outputs])])?;
        if let Some(weight) = weight {
            check.arrays(dtype, &[("the weight", weight, &[outputs, inputs])])?;
        }
        workspace.check(self.workspace_bytes()).map_err(refused)
    }
}

fn no_bias() -> Error {
    let why = "needs a layer that was made with a bias".into();
    Error::Unsupported { what: "linear: a bias gradient".into(), why }
}

/// Returns the type in which elements are stored in memory: f32 for tf32, and `dtype` for the others.
pub(crate) fn stored(dtype: Dtype) -> Dtype {
    if dtype == Dtype::Tf32 { Dtype::F32 } else { dtype }
}

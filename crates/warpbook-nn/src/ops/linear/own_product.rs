//! Check of a user-written kernel before it computes a linear layer: the layer's three products, at small sizes.

use super::Sizes;
use super::cuda::{Linear, LinearEpilogue, stored};
use std::sync::Arc;
use warpbook_data::philox::fill_gaussians;
use warpbook_device::{Buffer, CudaDevice, Result, Stream};
use warpbook_gemm::storage::{Storage, rounded};
use warpbook_gemm::{
    DeviceArray, DeviceArrays, Gemm, OWN_KERNEL_LIMIT_S, OwnProduct, Plan, Product, Rehearsed, Workspace, rehearse,
};
use warpbook_kernels::matmul::Form;
use warpbook_record::Dtype;

/// Sizes that are not multiples of a tile.
const SIZES: Sizes = Sizes { batch: 37, inputs: 45, outputs: 70 };

/// Checks a kernel against f64 in the three forms of a linear layer, forward and both gradients, and then the operations on its sums:
/// beta, a bias, a ReLU, and the mask of the ReLU before it. Returns sentences about errors found; `None` if there are none. `dtype` is
/// the type of the operands. A kernel already found correct in a type is not checked again ([`OwnProduct::is_right`]). If it still runs
/// after [`OWN_KERNEL_LIMIT_S`], an error is returned, and the device can no longer be used.
///
/// # Errors
/// If the kernel does not take the type, does not compile, or fails on the device.
pub fn check_own_product(device: &CudaDevice, own: OwnProduct, dtype: Dtype) -> Result<Option<String>> {
    if own.is_right(dtype) {
        return Ok(None);
    }
    let plain = Form { out: stored(dtype), ..Form::plain(dtype) };
    let forms = [
        ("Forward, y = x Wᵀ, where b is transposed", Form { trans_b: true, ..plain }),
        ("In the input gradient, dx = dy W", plain),
        ("In the weight gradient, dW = dyᵀ x, where a is transposed", Form { trans_a: true, ..plain }),
    ];
    let tile = own.row().kernel().and_then(|k| k.tiles.first());
    for (pass, form) in forms {
        // A spec without a kernel is refused when its products are planned.
        let Some(tile) = tile else { break };
        let found = match rehearse(device, own.row(), tile, form, OWN_KERNEL_LIMIT_S)? {
            Rehearsed::Right => continue,
            Rehearsed::Wrong(flaw) => flaw.to_string(),
            Rehearsed::Outside { sizes: [m, n, k], .. } => {
                format!("In a product of {m} x {n} x {k}, memory around C was written. Check the guards at the edge.")
            }
        };
        return Ok(Some(format!("{pass}: {found}")));
    }
    let wrong = Epilogues::new(device, own, dtype)?.check()?;
    if wrong.is_none() {
        own.found_right(dtype);
    }
    Ok(wrong)
}

/// A small layer with the inputs of its passes.
struct Epilogues {
    stream: Stream,
    linear: Linear,
    /// A forward product with beta 1, which is added to the contents of C.
    added: Arc<Plan>,
    workspace: Workspace,
    out: Dtype,
    held: Vec<f32>,
    bias: Vec<f32>,
    mask: Vec<f32>,
    x: Storage,
    weight: Storage,
    dy: Storage,
    y: Storage,
    dx: Storage,
    bias_at: Buffer<f32>,
    /// Zeros in place of the bias, so that only the kernel's own sums remain.
    no_bias_at: Buffer<f32>,
}

impl Epilogues {
    fn new(device: &CudaDevice, own: OwnProduct, dtype: Dtype) -> Result<Self> {
        let (Sizes { batch, inputs, outputs }, out) = (SIZES, stored(dtype));
        let random = |len: usize, subject: u32| {
            let mut values = vec![0.0; len];
            fill_gaussians(&mut values, 23, subject, 0);
            values.into_iter().map(|v| rounded(v, out)).collect::<Vec<f32>>()
        };
        let gemm = Gemm::untuned(device);
        let linear = Linear::by(own.into(), device, &gemm, &SIZES, dtype, true)?;
        let form = Form { out, trans_b: true, ..Form::plain(dtype) };
        let [m, n, k] = [batch, outputs, inputs].map(|size| size as u32);
        let added = gemm.plan_from(own.into(), &Product::new(m, n, k, form).scaled(1.0, 1.0), [true; 2])?;
        let workspace = Workspace::new(device, linear.workspace_bytes().max(added.workspace_bytes()))?;
        let stored = |values: &[f32]| Storage::from_f32(device, values, out);
        let (mask, bias) = (random(batch * inputs, 1), random(outputs, 4));
        Ok(Self {
            stream: device.stream()?,
            workspace,
            linear,
            added,
            out,
            held: random(batch * outputs, 5),
            x: stored(&mask)?,
            weight: stored(&random(outputs * inputs, 2))?,
            dy: stored(&random(batch * outputs, 3))?,
            y: Storage::zeros(device, batch * outputs, out)?,
            dx: Storage::zeros(device, batch * inputs, out)?,
            bias_at: device.buffer_from(&bias)?,
            no_bias_at: device.zeros(outputs)?,
            bias,
            mask,
        })
    }

    fn check(&self) -> Result<Option<String>> {
        let Sizes { inputs, outputs, .. } = SIZES;
        let sums = self.forward(&self.no_bias_at, LinearEpilogue::None)?;
        let biased = self.forward(&self.bias_at, LinearEpilogue::None)?;
        let relu = self.forward(&self.bias_at, LinearEpilogue::Relu)?;
        let with_bias = |i: usize| sums[i] + self.bias[i % outputs];
        let gradient = self.input_gradient(None)?;
        let masked = self.input_gradient(Some(&self.x))?;
        let after_mask = |i: usize| if self.mask[i] > 0.0 { gradient[i] } else { 0.0 };
        let added = self.added_to(&self.held)?;
        let found = [
            self.wrong("C's old value, times beta,", outputs, &added, |i| sums[i] + self.held[i]),
            self.wrong("the bias", outputs, &biased, with_bias),
            self.wrong("the ReLU after the bias", outputs, &relu, |i| with_bias(i).max(0.0)),
            self.wrong("the mask of the ReLU before the layer", inputs, &masked, after_mask),
        ];
        Ok(found.into_iter().flatten().next())
    }

    fn forward(&self, bias: &Buffer<f32>, epilogue: LinearEpilogue) -> Result<Vec<f32>> {
        let (x, weight, y) = (&(&self.x).into(), &(&self.weight).into(), &(&self.y).into());
        self.y.fill_bytes(0xff)?;
        self.linear.forward(&self.stream, x, weight, Some(bias), epilogue, y, &self.workspace)?;
        self.stream.synchronize()?;
        self.y.to_f32()
    }

    fn added_to(&self, held: &[f32]) -> Result<Vec<f32>> {
        self.y.write_f32(held)?;
        let arrays = DeviceArrays::new(&self.x, &self.weight, &self.y);
        self.added.launch_checked(&self.stream, &arrays, &self.workspace)?;
        self.stream.synchronize()?;
        self.y.to_f32()
    }

    fn input_gradient(&self, mask: Option<&Storage>) -> Result<Vec<f32>> {
        let (dy, weight, dx) = (&(&self.dy).into(), &(&self.weight).into(), &(&self.dx).into());
        let mask = mask.map(DeviceArray::from);
        self.dx.fill_bytes(0xff)?;
        self.linear.input_gradient(&self.stream, dy, weight, mask.as_ref(), dx, &self.workspace)?;
        self.stream.synchronize()?;
        self.dx.to_f32()
    }

    /// Compares with the kernel's own sums, which were found correct. The difference may only come from rounding to the type.
    fn wrong(&self, what: &str, columns: usize, got: &[f32], want: impl Fn(usize) -> f32) -> Option<String> {
        let fits = |got: f32, want: f32| {
            f64::from((got - want).abs()) <= 4.0 * self.out.epsilon() * f64::from(1.0 + want.abs())
        };
        let i = (0..got.len()).find(|i| !fits(got[*i], want(*i)))?;
        let (row, column, got, want) = (i / columns, i % columns, got[i], want(i));
        Some(format!(
            "The products are right, but {what} is missing or wrong: C[{row}][{column}] is {got} and should be {want}. Hint: store each sum by \
             `epilogue.store(c, row, column, ldc, sum)`, which applies alpha and beta, adds the bias, and applies ReLU and mask."
        ))
    }
}

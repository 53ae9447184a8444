//! Check of a user-written kernel before it computes a linear layer: the layer's three products, at small sizes.

use crate::check::rehearsal::{Rehearsed, rehearse};
use crate::product::storage::{Storage, rounded};
use crate::product::stored;
use crate::{DeviceArrays, Gemm, OWN_KERNEL_LIMIT_S, OwnProduct, Plan, Product, Workspace};
use std::sync::Arc;
use warpbook_data::philox::fill_gaussians;
use warpbook_device::{Buffer, CudaDevice, Result, Stream};
use warpbook_kernels::matmul::{Epilogue, Form};
use warpbook_record::Dtype;

/// Sizes of the layer, which are not multiples of a tile: x is `[batch][inputs]`, the weight `[outputs][inputs]`, y `[batch][outputs]`.
const BATCH: usize = 37;
const INPUTS: usize = 45;
const OUTPUTS: usize = 70;

/// Checks a kernel against f64 in the three forms of a linear layer, forward and both gradients, and then the operations on its sums: beta, a bias, a ReLU, and
/// the mask of the ReLU before it. Returns sentences about the errors found, or `None` if there are none. `dtype` is the type of the operands. A kernel already
/// found correct in a type is not checked again ([`OwnProduct::is_right`]). If a kernel still runs after [`OWN_KERNEL_LIMIT_S`], an error is returned, and the
/// device can no longer be used.
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

/// The products of a small layer with a fused epilogue, and the inputs of its passes.
struct Epilogues {
    stream: Stream,
    /// Two products for y: with a bias, and with a bias followed by a ReLU.
    forward_plans: [Arc<Plan>; 2],
    /// Two products for dx: without a mask, and with a mask.
    gradient_plans: [Arc<Plan>; 2],
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
        let out = stored(dtype);
        let random = |len: usize, subject: u32| {
            let mut values = vec![0.0; len];
            fill_gaussians(&mut values, 23, subject, 0);
            values.into_iter().map(|v| rounded(v, out)).collect::<Vec<f32>>()
        };
        let gemm = Gemm::untuned(device);
        let plan = |product: &Product| gemm.plan_from(own.into(), product, [true; 2]);
        let [batch, inputs, outputs] = [BATCH, INPUTS, OUTPUTS].map(|size| size as u32);
        let plain = Form { out, ..Form::plain(dtype) };
        let y = |epilogue| Product::new(batch, outputs, inputs, Form { trans_b: true, epilogue, ..plain });
        let dx = |epilogue| Product::new(batch, inputs, outputs, Form { epilogue, ..plain });
        let forward_plans = [plan(&y(Epilogue::Bias))?, plan(&y(Epilogue::BiasRelu))?];
        let gradient_plans = [plan(&dx(Epilogue::None))?, plan(&dx(Epilogue::ReluMask))?];
        let added = plan(&y(Epilogue::None).scaled(1.0, 1.0))?;
        let plans = forward_plans.iter().chain(&gradient_plans).chain([&added]);
        let workspace = Workspace::for_plans(device, plans.map(|plan| &**plan))?;
        let stored = |values: &[f32]| Storage::from_f32(device, values, out);
        let (mask, bias) = (random(BATCH * INPUTS, 1), random(OUTPUTS, 4));
        Ok(Self {
            stream: device.stream()?,
            workspace,
            forward_plans,
            gradient_plans,
            added,
            out,
            held: random(BATCH * OUTPUTS, 5),
            x: stored(&mask)?,
            weight: stored(&random(OUTPUTS * INPUTS, 2))?,
            dy: stored(&random(BATCH * OUTPUTS, 3))?,
            y: Storage::zeros(device, BATCH * OUTPUTS, out)?,
            dx: Storage::zeros(device, BATCH * INPUTS, out)?,
            bias_at: device.buffer_from(&bias)?,
            no_bias_at: device.zeros(OUTPUTS)?,
            bias,
            mask,
        })
    }

    fn check(&self) -> Result<Option<String>> {
        let [biased, relu] = &self.forward_plans;
        let sums = self.forward(biased, &self.no_bias_at)?;
        let biased = self.forward(biased, &self.bias_at)?;
        let relu = self.forward(relu, &self.bias_at)?;
        let with_bias = |i: usize| sums[i] + self.bias[i % OUTPUTS];
        let [plain, masked] = &self.gradient_plans;
        let arrays = DeviceArrays::new(&self.dy, &self.weight, &self.dx);
        let gradient = self.input_gradient(plain, &arrays)?;
        let masked = self.input_gradient(masked, &arrays.mask(&self.x))?;
        let after_mask = |i: usize| if self.mask[i] > 0.0 { gradient[i] } else { 0.0 };
        let added = self.added_to(&self.held)?;
        let found = [
            self.wrong("C's old value, times beta,", OUTPUTS, &added, |i| sums[i] + self.held[i]),
            self.wrong("the bias", OUTPUTS, &biased, with_bias),
            self.wrong("the ReLU after the bias", OUTPUTS, &relu, |i| with_bias(i).max(0.0)),
            self.wrong("the mask of the ReLU before the layer", INPUTS, &masked, after_mask),
        ];
        Ok(found.into_iter().flatten().next())
    }

    fn forward(&self, plan: &Plan, bias: &Buffer<f32>) -> Result<Vec<f32>> {
        self.y.fill_bytes(0xff)?;
        let arrays = DeviceArrays::new(&self.x, &self.weight, &self.y).bias(bias);
        plan.run(&self.stream, &arrays, &self.workspace, None)?;
        self.y.to_f32()
    }

    fn added_to(&self, held: &[f32]) -> Result<Vec<f32>> {
        self.y.write_f32(held)?;
        let arrays = DeviceArrays::new(&self.x, &self.weight, &self.y);
        self.added.run(&self.stream, &arrays, &self.workspace, None)?;
        self.y.to_f32()
    }

    fn input_gradient(&self, plan: &Plan, arrays: &DeviceArrays) -> Result<Vec<f32>> {
        self.dx.fill_bytes(0xff)?;
        plan.run(&self.stream, arrays, &self.workspace, None)?;
        self.dx.to_f32()
    }

    /// Compares with the kernel's own sums, which were found correct. Only differences from rounding to the output type are allowed.
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

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_device::testing;
    use warpbook_kernels::matmul::rows;
    use warpbook_record::{KernelSpec, Rung, Runner};

    /// Returns the rung `02_coalesced` with a passage of its source replaced.
    fn changed(name: &str, passage: &str, by: &str) -> OwnProduct {
        let mut row = rows().into_iter().find(|row| row.rung.id == "02_coalesced").unwrap();
        let Runner::Kernels { specs, schedule } = row.rung.runner else { panic!("02_coalesced has kernels") };
        let spec = specs.into_iter().next().unwrap();
        assert!(spec.source.contains(passage), "{passage}");
        let source = spec.source.replace(passage, by);
        let specs = vec![KernelSpec { file: format!("live/{name}.cu").into(), source: source.into(), ..spec }];
        row.rung = Rung { runner: Runner::Kernels { specs, schedule }, ..row.rung };
        OwnProduct::new(name, row)
    }

    /// Checks a correct kernel in these types, and three wrong kernels. The correct kernel has its own name in each test, because a verdict is kept for all
    /// tests of the process.
    fn judge(device: &CudaDevice, dtypes: &[Dtype], right: &str) {
        const STORE: &str = "epilogue.store(c, row, column, ldc, sum);";
        let right = changed(right, STORE, "if (row < m) epilogue.store(c, row, column, ldc, sum);");
        for &dtype in dtypes {
            assert!(!right.is_right(dtype));
            assert_eq!(check_own_product(device, right, dtype).unwrap(), None, "{dtype:?}");
            assert!(right.is_right(dtype));
        }
        let unchecked = [Dtype::F32, Dtype::F16, Dtype::Bf16].into_iter().filter(|dtype| !dtypes.contains(dtype));
        unchecked.for_each(|dtype| assert!(!right.is_right(dtype), "{dtype:?} was not checked"));
        let sums = "c[(size_t)row * ldc + column] = from_float<Out>(sum);";
        for (name, passage, by, says) in [
            ("rows", "index_b(kk, column, ldb)", "kk * ldb + column", "Forward, y = x W"),
            ("columns", "index_a(row, kk, lda)", "row * lda + kk", "In the weight gradient"),
            ("sums", STORE, sums, "C's old value, times beta, is missing or wrong"),
        ] {
            let why = check_own_product(device, changed(name, passage, by), Dtype::F32).unwrap().unwrap();
            assert!(why.contains(says), "{name}: {why}");
        }
    }

    /// This test needs NVRTC but no GPU.
    #[test]
    fn a_kernel_in_the_emulator_is_right_or_is_told_what_is_wrong() {
        judge(&CudaDevice::emulated(), &[Dtype::F32], "right_in_the_emulator");
    }

    #[test]
    fn a_kernel_on_a_gpu_is_right_or_is_told_what_is_wrong() {
        let Some(device) = testing::gpu("a_kernel_on_a_gpu_is_right_or_is_told_what_is_wrong") else { return };
        judge(&device, &[Dtype::F32, Dtype::F16, Dtype::Bf16], "right_on_a_gpu");
    }
}

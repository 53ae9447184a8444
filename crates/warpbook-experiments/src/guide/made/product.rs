//! The matrix product in several data types, and with several inputs.

use crate::guide::pair::PairWork;
use crate::guide::prepared::Arrays;
use warpbook_data::parallel::collect;
use warpbook_data::philox::gaussian;
use warpbook_device::{CudaDevice, Stream};
use warpbook_gemm::storage::Storage;
use warpbook_gemm::{DeviceArray, DeviceArrays, Gemm, Product, Workspace, cpu};
use warpbook_kernels::matmul::Form;
use warpbook_lab::Result;
use warpbook_lab::experiment::{Candidate, Closures, Details, on_cpu, on_gpu};
use warpbook_record::{Check, Dtype};

/// Number of rows of C for which the f64 reference is computed.
const ROWS: usize = 16;
/// Number of products in a run that measures power, since a single product ends before the GPU regulates its power.
pub(in crate::guide) const REPEATED: u64 = 20;

/// Returns the indices of the checked rows, which are evenly spaced from the first to the last.
fn rows(n: usize) -> Vec<usize> {
    let count = ROWS.min(n);
    (0..count).map(|i| i * (n - 1) / (count - 1).max(1)).collect()
}

/// Returns the factor alpha that keeps the elements of an n x n product about as large as the elements of its inputs.
fn alpha(n: usize) -> f32 {
    1.0 / (n as f32).sqrt()
}

/// Returns the work of an n x n product with this many bytes per element.
pub(in crate::guide) const fn work(n: u64, bytes: u64) -> PairWork {
    PairWork {
        n,
        inputs: 2 * n * n,
        outputs: n * n,
        flops: 2 * n * n * n,
        bytes: 3 * n * n * bytes,
        written_bytes: n * n * bytes,
        argument: 0,
        array_bytes: 3 * n * n * bytes,
    }
}

/// Draws both matrices from a standard normal distribution.
pub(in crate::guide) fn gaussians(work: &PairWork) -> Vec<f32> {
    collect(work.inputs as usize, &|i| gaussian(1, i as u64, 0))
}

/// Computes the checked rows of C in f64 from unrounded inputs.
pub(in crate::guide) fn want(x: &[f32], work: &PairWork, _: u64) -> Vec<f64> {
    let n = work.n as usize;
    let (a, b) = x.split_at(n * n);
    let row = |r: usize| {
        let mut c = vec![0.0f64; n];
        for (a, b) in a[r * n..][..n].iter().zip(b.chunks(n)) {
            c.iter_mut().zip(b).for_each(|(c, b)| *c += f64::from(*a) * f64::from(*b));
        }
        c.iter_mut().for_each(|c| *c *= f64::from(alpha(n)));
        c
    };
    let rows = rows(n);
    collect(rows.len(), &|i| row(rows[i])).concat()
}

/// Compares the checked rows of C with the reference.
fn check(arrays: &Arrays, c: &[f32], tolerance: f64) -> Check {
    let n = arrays.work.n as usize;
    let got = rows(n).into_iter().flat_map(|r| c[r * n..][..n].iter().map(|v| f64::from(*v)));
    let what = "the product of the unrounded inputs in f64 on the CPU, sixteen rows";
    Check::over(what, got.zip(arrays.want.iter().copied()), 1.0, tolerance)
}

/// Returns the largest permitted error of a product, relative to an element or to 1, the standard deviation of the
/// elements. Rounding both factors of n terms to a type with spacing epsilon gives an error with a standard deviation
/// of at most epsilon / sqrt(6). Rounding the result adds at most half an epsilon of up to six. Among some hundred
/// thousand elements, an error above eight epsilon is then unlikely. Tensor cores truncate tf32 instead of rounding it,
/// which doubles the error. In f32, the rounding errors of the sums dominate.
fn tolerance(dtype: Dtype, n: u64) -> f64 {
    match dtype {
        Dtype::F32 => 64.0 * f64::from(f32::EPSILON) * (n as f64 / 1024.0).max(1.0).sqrt(),
        Dtype::Tf32 => 16.0 * 2f64.powi(-10),
        other => 8.0 * other.epsilon(),
    }
}

/// Creates a candidate that computes the product on the CPU in f32, on all threads.
pub(in crate::guide) fn on_the_cpu(arrays: &Arrays) -> Result<Box<dyn Candidate + '_>> {
    let n = arrays.work.n as usize;
    Ok(Box::new(on_the_cpu_of(arrays, arrays.x.clone(), 1, move |c| check(arrays, c, tolerance(Dtype::F32, n as u64)))))
}

fn on_the_cpu_of<'p>(
    arrays: &'p Arrays,
    inputs: Vec<f32>,
    times: u64,
    judge: impl Fn(&[f32]) -> Check + 'p,
) -> Closures<'p> {
    let n = arrays.work.n as usize;
    let launch = move || {
        let (a, b) = inputs.split_at(n * n);
        let operands = cpu::Operands {
            a,
            b,
            m: n,
            n,
            k: n,
            lda: n,
            ldb: n,
            ldc: n,
            trans_a: false,
            trans_b: false,
            alpha: alpha(n),
            beta: 0.0,
        };
        let refused =
            |e: cpu::GemmError| warpbook_device::Error::Unsupported { what: "The product".into(), why: e.to_string() };
        (0..times).try_for_each(|_| cpu::library(&operands, &mut arrays.out.borrow_mut()).map_err(refused))
    };
    on_cpu(launch, move || Ok(judge(&arrays.out.borrow())))
}

/// Creates a candidate that computes the product of [`repeated`] on the CPU, equally often, with the pair's numbers or
/// with zeros.
pub(in crate::guide) fn repeated_on_the_cpu(arrays: &Arrays, of_zeros: bool) -> Result<Box<dyn Candidate + '_>> {
    Ok(Box::new(if of_zeros {
        on_the_cpu_of(arrays, vec![0.0; arrays.x.len()], REPEATED, zero)
    } else {
        let bound = tolerance(Dtype::F32, arrays.work.n);
        on_the_cpu_of(arrays, arrays.x.clone(), REPEATED, move |c| check(arrays, c, bound))
    }))
}

/// Checks that a product of zeros is zero.
fn zero(c: &[f32]) -> Check {
    Check::over("zero, every element", c.iter().map(|v| (f64::from(*v), 0.0)), 1.0, 0.0)
}

/// Creates a candidate that computes the product in a data type, with the rung that the engine chooses.
pub(in crate::guide) fn in_type(arrays: &Arrays, dtype: Dtype) -> Result<Box<dyn Candidate + '_>> {
    let bound = tolerance(dtype, arrays.work.n);
    Ok(Box::new(candidate(arrays, &arrays.x, dtype, 1, move |c| check(arrays, c, bound))?))
}

/// Creates a candidate that computes the product in bf16 twenty times, with the pair's numbers or with zeros.
pub(in crate::guide) fn repeated(arrays: &Arrays, of_zeros: bool) -> Result<Box<dyn Candidate + '_>> {
    let made = if of_zeros {
        let zeros = vec![0.0; arrays.x.len()];
        candidate(arrays, &zeros, Dtype::Bf16, REPEATED, zero)?
    } else {
        let bound = tolerance(Dtype::Bf16, arrays.work.n);
        candidate(arrays, &arrays.x, Dtype::Bf16, REPEATED, move |c| check(arrays, c, bound))?
    };
    // This product is timed alone: if both products were timed in rounds, they would run at the same clocks.
    Ok(Box::new(made.as_launched()))
}

fn candidate<'p>(
    arrays: &'p Arrays,
    inputs: &[f32],
    dtype: Dtype,
    times: u64,
    judge: impl Fn(&[f32]) -> Check + 'p,
) -> Result<Closures<'p>> {
    let on = arrays.on_gpu()?;
    let n = arrays.work.n as usize;
    let (a, b) = inputs.split_at(n * n);
    let [a, b] = [a, b].map(|values| Storage::from_f32(&on.device, values, dtype));
    let (a, b, c) = (a?, b?, Storage::zeros(&on.device, n * n, dtype)?);
    let edge = arrays.work.n as u32;
    let out = if dtype == Dtype::Tf32 { Dtype::F32 } else { dtype };
    let product = Product::new(edge, edge, edge, Form { out, ..Form::plain(dtype) }).scaled(alpha(n), 0.0);
    let device_arrays = DeviceArrays::new(&a, &b, DeviceArray::from(&c));
    let gemm = Gemm::new(&on.device);
    let plan = gemm.plan_for(&product, &device_arrays)?;
    let workspace = Workspace::new(&on.device, plan.workspace_bytes())?;
    let held = 3 * (n * n) as u64 * dtype.bytes() + plan.workspace_bytes();
    let details = Details {
        kernels: plan.stats(),
        choice: Some(format!("{} with {}", plan.rung(), plan.tile())),
        dtype: (dtype != Dtype::F32).then_some(dtype),
        peak_bytes: Some(held),
        ..Details::default()
    };
    let launch = {
        let device_arrays = device_arrays.clone();
        move || (0..times).try_for_each(|_| gemm.gemm(&on.stream, &product, &device_arrays, &workspace))
    };
    let written = device_arrays.c.clone();
    let check = move || Ok(judge(&device_arrays.c.to_f32()?));
    Ok(on_gpu(&on.stream, launch, check).resetting(move || written.bytes().fill_bytes(0xff)).details(details))
}

/// The product of [`repeated`], which can run for as long as the caller wants.
pub(crate) struct Load {
    gemm: Gemm,
    product: Product,
    arrays: DeviceArrays,
    workspace: Workspace,
    stream: Stream,
}

impl Load {
    /// Prepares an n x n product in bf16, with Gaussian numbers or with zeros.
    ///
    /// # Errors
    /// If memory runs out, a kernel does not compile, or the device reports an error.
    pub fn new(device: &CudaDevice, n: u32, of_zeros: bool) -> Result<Self> {
        let len = n as usize * n as usize;
        device.ensure_free(format!("Three matrices of {n} x {n} in bf16"), 6 * len as u64)?;
        let inputs = if of_zeros { vec![0.0; 2 * len] } else { gaussians(&work(n.into(), 2)) };
        let [a, b] = [&inputs[..len], &inputs[len..]].map(|v| Storage::from_f32(device, v, Dtype::Bf16));
        let c = Storage::zeros(device, len, Dtype::Bf16)?;
        let arrays = DeviceArrays::new(&a?, &b?, &c);
        let product = Product::new(n, n, n, Form::plain(Dtype::Bf16)).scaled(alpha(n as usize), 0.0);
        let gemm = Gemm::new(device);
        let workspace = Workspace::new(device, gemm.plan_for(&product, &arrays)?.workspace_bytes())?;
        let load = Self { gemm, product, arrays, workspace, stream: device.stream()? };
        // The first run compiles and loads the kernel, before the clocks are read.
        load.run()?;
        Ok(load)
    }

    /// Computes a few products and waits for them; returns the number of floating-point operations.
    ///
    /// # Errors
    /// If the device reports an error.
    pub fn run(&self) -> Result<u64> {
        for _ in 0..REPEATED {
            self.gemm.gemm(&self.stream, &self.product, &self.arrays, &self.workspace)?;
        }
        self.stream.synchronize()?;
        Ok(REPEATED * 2 * u64::from(self.product.n).pow(3))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_reach_from_the_first_to_the_last() {
        assert_eq!(rows(1), [0]);
        assert_eq!(rows(3), [0, 1, 2]);
        let many = rows(4096);
        assert_eq!((many.len(), many[0], many[15]), (16, 0, 4095));
    }

    #[test]
    fn a_type_s_rounding_stays_within_its_tolerance() {
        // The CPU uses the same factors as the GPU.
        let work = work(256, 4);
        let x = gaussians(&work);
        let want = want(&x, &work, 256);
        for dtype in [Dtype::F32, Dtype::Tf32, Dtype::F16, Dtype::Bf16] {
            let rounded: Vec<f32> = x.iter().map(|v| warpbook_gemm::storage::rounded(*v, dtype)).collect();
            let got: Vec<f64> = super::want(&rounded, &work, 256);
            let got = got.iter().map(|v| f64::from(warpbook_gemm::storage::rounded(*v as f32, dtype)));
            let check = Check::over("", got.zip(want.iter().copied()), 1.0, tolerance(dtype, 256));
            assert!(check.passed, "{dtype:?}: {check:?}");
            assert!(dtype == Dtype::F32 || check.max_rel_error > tolerance(dtype, 256) / 40.0, "{dtype:?}: {check:?}");
        }
    }
}

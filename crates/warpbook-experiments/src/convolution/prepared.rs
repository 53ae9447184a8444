//! The arrays of a problem, and its rungs, ready to run.

use super::layers::Task;
use super::reference;
use super::rows::{ConvolutionRung, row_of};
use std::cell::RefCell;
use warpbook_data::parallel::collect;
use warpbook_data::philox::gaussian;
use warpbook_device::{ConvolutionPass, CudaDevice, Cudnn, CudnnPlan, LibraryConvolution, Stream};
use warpbook_gemm::storage::{Storage, rounded};
use warpbook_gemm::{DeviceArray, Gemm, Judge, Verdict, Workspace};
use warpbook_kernels::Tolerance;
use warpbook_kernels::matmul::WORKSPACE_BYTES;
use warpbook_lab::experiment::{Candidate, Checked, Details, Prepared, Trials, on_cpu};
use warpbook_lab::{Error, Event, Lab, Result};
use warpbook_nn::ops::conv2d::cuda::{Convolution, Epilogue, Method, Pass, Reference};
use warpbook_nn::ops::conv2d::{Geometry, cpu};
use warpbook_record::{Check, Dtype, Rung};

/// The inputs of a problem, and the reference for results.
pub(super) struct ConvolutionWork<'a> {
    task: Task,
    /// Both inputs of the pass, rounded to the data type of the task.
    inputs: [Vec<f32>; 2],
    gpu: Option<TaskArrays<'a>>,
}

/// A task's arrays on a GPU.
struct TaskArrays<'a> {
    device: &'a CudaDevice,
    stream: Stream,
    gemm: Gemm,
    reference: Reference,
    inputs: [DeviceArray; 2],
    /// Output in the output type of the task.
    out: Output,
    /// Output in the data type of the inputs, if it differs from the output type; libraries return weight gradients in
    /// this type.
    narrow: Option<Output>,
}

/// An array that receives a result.
struct Output {
    storage: Storage,
    array: DeviceArray,
}

impl Output {
    fn new(device: &CudaDevice, len: usize, dtype: Dtype) -> Result<Self> {
        let storage = Storage::zeros(device, len, dtype)?;
        Ok(Self { array: (&storage).into(), storage })
    }

    fn dtype(&self) -> Dtype {
        self.array.dtype()
    }
}

impl<'a> ConvolutionWork<'a> {
    pub(super) fn new(lab: &'a Lab, task: Task, seed: u64) -> Result<Self> {
        lab.tell(&Event::Preparing(&format!("drawing {} and the reference", task.problem().label)));
        let [a, b, len] = task.lengths();
        let draw = |stream, n: usize| -> Vec<f32> {
            collect(n, &|i| rounded(gaussian(seed, i as u64, stream), stored(task.dtype)))
        };
        let inputs = [draw(0, a), draw(1, b)];
        let gpu = lab.device().cuda().map(|device| TaskArrays::new(device, &task, &inputs, len)).transpose()?;
        Ok(Self { task, inputs, gpu })
    }

    /// Returns the fastest engine that cuDNN suggests and that gives the right result.
    fn library<'p>(&'p self, on: &'p TaskArrays<'a>, trials: &Trials<'_>) -> Result<Box<dyn Candidate + 'p>> {
        let (shape, pass) = (library_shape(&self.task)?, library_pass(self.task.pass));
        let plans = Cudnn::open(on.device)?.plans(&shape, pass, WORKSPACE_BYTES)?;
        let mut right = Vec::new();
        for plan in plans {
            let workspace = Workspace::new(on.device, plan.workspace_bytes())?;
            let candidate = Ready::new(on, self.task.pass, ConvolutionPlan::Library(Box::new(plan)), workspace)?;
            if is_right(&candidate)? {
                right.push(candidate);
            }
        }
        let (best, _) = trials.fastest(&right.iter().map(|c| c as &dyn Candidate).collect::<Vec<_>>())?;
        let found = right.len();
        let Some(mut best) = best.and_then(|i| right.into_iter().nth(i)) else {
            let why = "no engine takes this convolution and gives the right result".into();
            return Err(warpbook_device::Error::Unsupported { what: "cuDNN".into(), why }.into());
        };
        if let ConvolutionPlan::Library(plan) = &best.way {
            best.choice = Some(chosen(&plan.algorithm(), plan.rank(), found));
        }
        Ok(Box::new(best))
    }

    fn ours<'p>(&'p self, on: &'p TaskArrays<'a>, row: &ConvolutionRung) -> Result<Box<dyn Candidate + 'p>> {
        let Task { pass, dtype, .. } = self.task;
        let convolution = Convolution::new(on.device, &on.gemm, &self.task.geometry(), row.form(dtype))?;
        let workspace = Workspace::new(on.device, convolution.workspace_bytes())?;
        Ok(Box::new(Ready::new(on, pass, ConvolutionPlan::Ours(Box::new(convolution)), workspace)?))
    }
}

/// Describes the chosen engine: its name, and the number of engines to choose from.
fn chosen(engine: &str, rank: usize, found: usize) -> String {
    let place = if rank == 1 { "suggested first".to_owned() } else { format!("suggestion {rank}") };
    format!("cuDNN's {engine} ({place}), the fastest of {found} that were timed.")
}

impl<'a> TaskArrays<'a> {
    fn new(device: &'a CudaDevice, task: &Task, inputs: &[Vec<f32>; 2], len: usize) -> Result<Self> {
        let [a, b] = inputs.each_ref().map(|values| Storage::from_f32(device, values, stored(task.dtype)));
        let arrays: [DeviceArray; 2] = [(&a?).into(), (&b?).into()];
        let reference = Reference::new(device, &task.geometry(), task.dtype, task.pass, arrays.each_ref())?;
        let out = Output::new(device, len, task.out())?;
        let is_narrower = task.out() != stored(task.dtype);
        let narrow = is_narrower.then(|| Output::new(device, len, task.dtype)).transpose()?;
        Ok(Self { device, stream: device.stream()?, gemm: Gemm::new(device), reference, inputs: arrays, out, narrow })
    }
}

impl Prepared for ConvolutionWork<'_> {
    fn candidate<'p>(&'p self, rung: &Rung, trials: &mut Trials<'_>) -> Result<Box<dyn Candidate + 'p>> {
        match (row_of(rung), &self.gpu) {
            (None, _) => Ok(self.on_cpu()),
            (Some(row), Some(on)) if row.method == Method::Stock => self.library(on, trials),
            (Some(row), Some(on)) => self.ours(on, row),
            (Some(_), None) => Err(warpbook_device::Error::NeedsCuda("This rung").into()),
        }
    }
}

impl ConvolutionWork<'_> {
    fn on_cpu<'p>(&'p self) -> Box<dyn Candidate + 'p> {
        let [a, b] = &self.inputs;
        let (g, out) = (self.task.geometry(), std::rc::Rc::new(RefCell::new(vec![f32::NAN; self.task.lengths()[2]])));
        let written = out.clone();
        let launch = move || {
            let out = &mut written.borrow_mut();
            let done = match self.task.pass {
                Pass::Forward => cpu::forward(&g, a, b, None, out),
                Pass::InputGradient => cpu::input_gradient(&g, a, b, out),
                Pass::WeightGradient => cpu::weight_gradient(&g, a, b, out, None),
            };
            done.map_err(warpbook_device::Error::from)
        };
        let check = move || match &self.gpu {
            Some(on) => {
                on.out.storage.write_f32(&out.borrow())?;
                let judge = on.reference.judge(on.out.dtype(), false)?;
                Ok(as_check(&judge.judge(&on.stream, &on.out.storage)?))
            }
            None => Ok(check_on_cpu(&self.task, &g, [a, b], &out.borrow())),
        };
        Box::new(on_cpu(launch, check))
    }
}

/// Compares every element of a result with the definition in f64.
fn check_on_cpu(task: &Task, g: &Geometry, inputs: [&[f32]; 2], got: &[f32]) -> Check {
    let wide = |values: &[f32]| values.iter().map(|v| f64::from(*v)).collect::<Vec<_>>();
    let [a, b] = inputs.map(wide);
    let magnitudes = |values: &[f64]| values.iter().map(|v| v.abs()).collect::<Vec<_>>();
    let pass = |a: &[f64], b: &[f64]| match task.pass {
        Pass::Forward => reference::conv2d(g, a, b, None),
        Pass::InputGradient => reference::conv2d_input_gradient(g, a, b),
        Pass::WeightGradient => reference::conv2d_weight_gradient(g, a, b),
    };
    let (want, sizes) = (pass(&a, &b), pass(&magnitudes(&a), &magnitudes(&b)));
    let terms = task.problem().flops / (2 * want.len().max(1) as u64);
    let Tolerance(tolerance) = Tolerance::product(task.dtype, terms);
    let (mut worst, mut worst_abs) = (0.0f64, 0.0f64);
    for ((got, want), size) in got.iter().zip(&want).zip(&sizes) {
        let error = (f64::from(*got) - want).abs();
        let relative = error / size.max(f64::MIN_POSITIVE);
        // `max` would discard a NaN, which has to be kept.
        worst = if relative.is_nan() || worst.is_nan() { f64::NAN } else { worst.max(relative) };
        worst_abs = if error.is_nan() || worst_abs.is_nan() { f64::NAN } else { worst_abs.max(error) };
    }
    Check {
        reference: "the definition in f64 on the CPU, every element".into(),
        max_abs_error: worst_abs,
        max_rel_error: worst,
        tolerance,
        passed: worst <= tolerance,
    }
}

/// The implementation that runs a rung.
enum ConvolutionPlan {
    Ours(Box<Convolution>),
    Library(Box<CudnnPlan>),
}

/// A GPU rung that is ready to run on one problem.
struct Ready<'p> {
    on: &'p TaskArrays<'p>,
    pass: Pass,
    way: ConvolutionPlan,
    workspace: Workspace,
    output: &'p Output,
    judge: Judge,
    choice: Option<String>,
}

impl<'p> Ready<'p> {
    fn new(on: &'p TaskArrays<'p>, pass: Pass, way: ConvolutionPlan, workspace: Workspace) -> Result<Self> {
        let (output, transformed) = match (&way, &on.narrow) {
            (ConvolutionPlan::Library(plan), Some(narrow)) => (narrow, plan.transforms()),
            (ConvolutionPlan::Library(plan), None) => (&on.out, plan.transforms()),
            (ConvolutionPlan::Ours(_), _) => (&on.out, false),
        };
        let judge = on.reference.judge(output.dtype(), transformed)?;
        Ok(Self { on, pass, way, workspace, output, judge, choice: None })
    }
}

impl Candidate for Ready<'_> {
    fn stream(&self) -> Option<&Stream> {
        Some(&self.on.stream)
    }

    /// Fills the output with NaNs.
    fn reset(&self) -> warpbook_device::Result<()> {
        self.on.stream.synchronize()?;
        self.output.storage.fill_bytes(0xff)
    }

    fn launch(&self) -> warpbook_device::Result<()> {
        let TaskArrays { stream, inputs: [a, b], .. } = self.on;
        let (out, workspace) = (&self.output.array, &self.workspace);
        match (&self.way, self.pass) {
            (ConvolutionPlan::Ours(c), Pass::Forward) => c.forward(stream, a, b, None, Epilogue::None, out, workspace),
            (ConvolutionPlan::Ours(c), Pass::InputGradient) => c.input_gradient(stream, a, b, None, out, workspace),
            (ConvolutionPlan::Ours(c), Pass::WeightGradient) => {
                let Storage::F32(dweight) = &self.on.out.storage else {
                    let why = "is in fp32".into();
                    return Err(warpbook_device::Error::Unsupported { what: "A weight gradient".into(), why });
                };
                c.weight_gradient(stream, a, b, dweight, None, workspace)
            }
            // For an input gradient, the arguments of the library are the weights and then dy.
            (ConvolutionPlan::Library(plan), Pass::InputGradient) => {
                plan.launch(stream, [b.bytes(), a.bytes()], out.bytes(), workspace.slice())
            }
            (ConvolutionPlan::Library(plan), _) => {
                plan.launch(stream, [a.bytes(), b.bytes()], out.bytes(), workspace.slice())
            }
        }
    }

    fn check(&self) -> Result<Checked> {
        let verdict = self.judge.judge(&self.on.stream, &self.output.storage)?;
        let error = (!verdict.passed()).then(|| format!("{} elements are wrong", verdict.wrong));
        Ok(Checked { check: as_check(&verdict), error, log: None })
    }

    fn details(&self) -> Details {
        let kernels = if let ConvolutionPlan::Ours(c) = &self.way { c.kernel_stats(self.pass) } else { Vec::new() };
        Details { kernels, choice: self.choice.clone(), ..Details::default() }
    }
}

fn as_check(v: &Verdict) -> Check {
    Check {
        reference: "the definition in f64 on the GPU, every element, beyond the rounding to its type".into(),
        max_abs_error: v.max_abs_error,
        max_rel_error: v.max_error,
        tolerance: v.tolerance,
        passed: v.passed(),
    }
}

/// Returns true if a candidate runs and gives the right result.
///
/// # Errors
/// If an error occurs that makes the GPU unusable.
fn is_right(candidate: &dyn Candidate) -> Result<bool> {
    let ran = candidate.reset().and_then(|()| candidate.launch()).map_err(Error::from);
    match ran.and_then(|()| candidate.check()) {
        Ok(found) => Ok(found.passed()),
        Err(Error::Device(e)) if e.is_sticky() => Err(e.into()),
        Err(_) => Ok(false),
    }
}

/// Returns the data type in which elements are stored.
fn stored(dtype: Dtype) -> Dtype {
    if dtype == Dtype::Tf32 { Dtype::F32 } else { dtype }
}

fn library_pass(pass: Pass) -> ConvolutionPass {
    match pass {
        Pass::Forward => ConvolutionPass::Forward,
        Pass::InputGradient => ConvolutionPass::InputGradient,
        Pass::WeightGradient => ConvolutionPass::WeightGradient,
    }
}

fn library_shape(task: &Task) -> Result<LibraryConvolution> {
    let g = task.geometry();
    let (oh, ow) = g.output().map_err(warpbook_device::Error::from)?;
    let word = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Ok(LibraryConvolution {
        batch: word(g.batch),
        channels: word(g.channels),
        x: [word(g.height), word(g.width)],
        filters: word(g.filters),
        y: [word(oh), word(ow)],
        kernel: g.kernel.map(word),
        stride: g.stride.map(word),
        padding: g.padding.map(word),
        dtype: task.dtype,
        channels_last: true,
    })
}

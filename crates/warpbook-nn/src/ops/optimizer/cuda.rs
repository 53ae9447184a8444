//! Steps of the optimisers on a GPU: all parameters are in one array and updated by one launch.

use super::{OP, Optimizer, launch};
use crate::ops::error::Check;
use crate::ops::error::one;
use crate::ops::step_launch::Settings;
use warpbook_device::{CudaDevice, Kernel, Result, Slice, Stream};
use warpbook_gemm::DeviceArray;
use warpbook_gemm::kernel_args::load;
use warpbook_record::Dtype;

/// Arrays that a step reads and writes. The large ones hold the elements of all parameters, one after another.
#[derive(Debug, Clone, Copy)]
pub struct Parameters<'a> {
    /// Weights, `[n]`.
    pub weights: &'a Slice<f32>,
    /// Gradients of all parameters, or only of the first parameters if `rounded` contains the rest.
    pub gradients: &'a Slice<f32>,
    /// Gradients of the remaining parameters, in the type that the kernels were loaded for; the number of f32 gradients must then be a multiple
    /// of 4.
    pub rounded: Option<&'a DeviceArray>,
    /// Optimiser state: [`Optimizer::state_slots`] arrays `[n]`, initially zero.
    pub state: &'a [Slice<f32>],
    /// Weights rounded to the type that the kernels were loaded for, `[n]`; written in the same pass.
    pub copy: Option<&'a DeviceArray>,
}

/// Values that change from step to step, in device memory, so that a graph can be replayed.
#[derive(Debug, Clone, Copy)]
pub struct Control<'a> {
    /// Learning rate, written by the host, and number of steps so far, counted by the kernel from 0, `[2]`.
    pub rate_and_steps: &'a Slice<f64>,
    /// Workspace for the values that kernels compute once per step (`Step` in the kernel's source), `[STEP_WORDS]`.
    pub step: &'a Slice<u32>,
    /// If not 0, the step is skipped and not counted, `[1]`.
    pub found: Option<&'a Slice<u32>>,
    /// Number by which the gradients are divided, `[1]`.
    pub loss_scale: Option<&'a Slice<f32>>,
    /// Number by which the gradients are multiplied, `[1]`.
    pub clip: Option<&'a Slice<f32>>,
}

/// Number of 32-bit words of the struct `Step` in `kernels/nn/optimizer.cu`.
pub const STEP_WORDS: usize = 13;

/// An optimiser's kernels, loaded for one type of the weights' copy.
#[derive(Debug, Clone)]
pub struct Update {
    optimizer: Optimizer,
    dtype: Dtype,
    prepare: Kernel,
    update: Kernel,
}

impl Update {
    /// Compiles and loads the kernels.
    ///
    /// # Errors
    /// If a setting is out of range; if compiling fails or the device reports an error.
    pub fn new(device: &CudaDevice, optimizer: Optimizer, dtype: Dtype) -> Result<Self> {
        optimizer.check()?;
        let update = optimizer.among(warpbook_kernels::nn::updates(dtype));
        let [prepare, update] = load(device, [warpbook_kernels::nn::prepare(), update])?;
        Ok(Self { optimizer, dtype, prepare, update })
    }

    /// Queues one step of all parameters.
    ///
    /// # Errors
    /// If an array has the wrong length, or `state` the wrong number of arrays; if a launch fails.
    pub fn step(&self, stream: &Stream, p: Parameters<'_>, control: Control<'_>) -> Result<()> {
        check(&self.optimizer, self.dtype, p, control)?;
        let settings = Settings::new(&self.optimizer);
        launch::prepare(&self.prepare, stream, &settings, control)?;
        launch::update(&self.update, stream, &settings, control.step, p)
    }
}

pub(super) fn check(optimizer: &Optimizer, dtype: Dtype, p: Parameters<'_>, control: Control<'_>) -> Result<()> {
    let (check, n) = (Check(OP), p.weights.len());
    let slots = optimizer.state_slots();
    let allowed = "as many as the optimizer's state_slots()";
    check.value("the number of state arrays", p.state.len(), p.state.len() == slots, allowed)?;
    let first = p.gradients.len();
    if let Some(rounded) = p.rounded {
        check.value(
            "the number of gradients in f32",
            first,
            first <= n && first.is_multiple_of(4),
            "a multiple of 4",
        )?;
        check.arrays(dtype, &[("the rounded gradients", rounded, &[n - first])])?;
    } else {
        check.lengths(&[("gradients", first, &[n])])?;
    }
    check.lengths(&[
        ("the learning rate and the steps", control.rate_and_steps.len(), &[2]),
        ("the workspace of a step", control.step.len(), &[STEP_WORDS]),
    ])?;
    p.state.iter().try_for_each(|s| check.lengths(&[("a state array", s.len(), &[n])]))?;
    if let Some(copy) = p.copy {
        check.arrays(dtype, &[("the copy", copy, &[n])])?;
    }
    one(check, "found", control.found)?;
    one(check, "the loss scale", control.loss_scale)?;
    Ok(one(check, "the clip factor", control.clip)?)
}

/// Kernels for the norm of all gradients, which also detect an infinite or NaN gradient; loaded once for the types of their arrays.
#[derive(Debug, Clone)]
pub struct Norm {
    squares: Vec<(Dtype, Kernel)>,
    norm: Kernel,
}

/// Results of [`Norm::queue`], one element each.
#[derive(Debug, Clone, Copy)]
pub struct NormOutputs<'a> {
    /// Euclidean norm of the gradients divided by the loss scale.
    pub norm: &'a Slice<f64>,
    /// [`clip::factor`](super::clip::factor) of the norm.
    pub clip: &'a Slice<f32>,
    /// 1 if the norm is not finite, because a gradient is not finite; otherwise 0.
    pub found: &'a Slice<u32>,
}

impl Norm {
    /// Compiles and loads the kernels for arrays of these types.
    ///
    /// # Errors
    /// If compiling fails or the device reports an error.
    pub fn new(device: &CudaDevice, dtypes: &[Dtype]) -> Result<Self> {
        let [_, norm] = load(device, warpbook_kernels::nn::norm(Dtype::F32))?;
        let squares = |dtype: &Dtype| Ok((*dtype, load(device, warpbook_kernels::nn::norm(*dtype))?[0].clone()));
        Ok(Self { squares: dtypes.iter().map(squares).collect::<Result<_>>()?, norm })
    }

    /// Returns the number of elements of the workspace for arrays with this many gradients, in the order of their types.
    #[must_use]
    pub fn blocks(&self, lengths: &[usize]) -> usize {
        self.squares.iter().zip(lengths).map(|((_, kernel), n)| blocks(kernel, *n)).sum()
    }

    /// Queues the norm of the gradients in all these arrays, the clipping factor for `max_norm` (infinity for no clipping), and the test
    /// whether the norm is finite.
    ///
    /// # Errors
    /// If `max_norm` is not above 0, an array has the wrong length or type; if a launch fails.
    pub fn queue(
        &self,
        stream: &Stream,
        gradients: &[DeviceArray],
        max_norm: f64,
        loss_scale: Option<&Slice<f32>>,
        workspace: &Slice<f64>,
        to: NormOutputs<'_>,
    ) -> Result<()> {
        let check = Check(OP);
        check.value(
            "the number of arrays",
            gradients.len(),
            gradients.len() == self.squares.len(),
            "as many as types",
        )?;
        check.value("the largest norm", max_norm, max_norm > 0.0, "above 0")?;
        for ((dtype, _), array) in self.squares.iter().zip(gradients) {
            check.arrays(*dtype, &[("gradients", array, &[array.len()])])?;
        }
        let lengths: Vec<usize> = gradients.iter().map(DeviceArray::len).collect();
        check.lengths(&[("the workspace", workspace.len(), &[self.blocks(&lengths)])])?;
        one(check, "the loss scale", loss_scale)?;
        one(check, "the norm", Some(to.norm))?;
        one(check, "the clip factor", Some(to.clip))?;
        one(check, "found", Some(to.found))?;
        let m = check.word("blocks", workspace.len())?;
        let mut first = 0;
        for ((_, kernel), array) in self.squares.iter().zip(gradients) {
            let (n, count) = (array.len() as u64, blocks(kernel, array.len()));
            let partial = workspace.range(first..first + count);
            first += count;
            if n > 0 {
                launch::squares(kernel, stream, array, n, &partial)?;
            }
        }
        launch::norm(&self.norm, stream, (workspace, m), max_norm, loss_scale, to)
    }
}

/// Returns the number of blocks of the first level over `n` gradients.
pub(super) fn blocks(kernel: &Kernel, n: usize) -> usize {
    warpbook_kernels::nn::norm_blocks(kernel.tile(), n as u64) as usize
}

//! The launches of the regression's kernels, which are the only unsafe code of the experiment. Each function lists the parameters of its kernel. The arguments
//! of the functions own the arrays and contain their sizes.
#![allow(unsafe_code)]

use super::launches::Launches;
use super::whole::Barrier;
use super::{DescentState, DevicePoints};
use crate::regression::data;
use warpbook_device::{Buffer, DevicePtr, Graph, Kernel, KernelArg, LaunchOptions, Result, Stream};
use warpbook_kernels::Launch;
use warpbook_kernels::regression::{LOG_EVERY, Line};

/// Launches the kernel that draws the points.
pub(super) fn draw(
    kernel: &Kernel,
    stream: &Stream,
    to: &DevicePoints,
    (line, noise, seed): (&Line, f32, u64),
) -> Result<()> {
    let (points, pitch) = (to.points as u64, to.pitch as u64);
    let (shape, (w, b)) = (kernel.shape(points), line.truth);
    if to.features == 1 {
        let data::Spaced { low, step, below_high } = data::Spaced::new(line, points);
        // SAFETY: the arguments match `points(x, y, n, low, step, below_high, w, b, sigma, seed)`; both arrays have at least n elements, and the caller waits
        // for the stream.
        return unsafe {
            kernel.launch(stream, shape, &[&to.x, &to.y, &points, &low, &step, &below_high, &w, &b, &noise, &seed])
        };
    }
    let rows = u32::try_from(to.features).unwrap_or(u32::MAX);
    // SAFETY: the arguments match `featured_points(x, y, n, pitch, features, w, b, sigma, seed)`; x has `features` rows of `pitch` elements, and y has one.
    unsafe { kernel.launch(stream, shape, &[&to.x, &to.y, &points, &pitch, &rows, &w, &b, &noise, &seed]) }
}

/// Launches a fused pass over `len` points starting at `begin`. Its blocks write to the partial sums starting at column `first_block`.
pub(super) fn pass(on: &Launches<'_>, stream: &Stream, begin: usize, len: usize, first_block: u32) -> Result<()> {
    let points = on.state.points;
    let len = len.min(points.train.saturating_sub(begin));
    let (x, y) = (points.x.at(begin), points.y.at(begin));
    let options = LaunchOptions { programmatic: on.programmatic, ..LaunchOptions::default() };
    // SAFETY: the arguments match `pass(x, y, weights, partial, n, columns, first_block)`; the slice lies within the points, and `partial` has a column for
    // each block of this launch.
    unsafe {
        on.kernels[0].launch_with(
            stream,
            on.pass,
            options,
            &[&x, &y, &on.state.weights, &on.partial, &(len as u64), &on.columns, &first_block],
        )
    }
}

/// Launches one of the four kernels of the unfused rung, with the intermediate arrays, f32 `[n]` each.
pub(super) fn unfused(on: &Launches<'_>, kernel: usize, pred: &Buffer<f32>, err: &Buffer<f32>) -> Result<()> {
    let (DevicePoints { x, y, train, .. }, partial) = (on.state.points, &on.partial);
    assert!(pred.len() >= *train && err.len() >= *train, "intermediates of all training points");
    let n = *train as u64;
    let launch = |args: &[&dyn KernelArg]| {
        // SAFETY: the arguments match the kernel's parameters, which are listed below; `pred` and `err` have n elements, x and y have at least n, and `partial`
        // has a column for each block.
        unsafe { on.kernels[kernel].launch(&on.state.stream, on.pass, args) }
    };
    match kernel {
        // Parameters: forward(x, weights, pred, n).
        0 => launch(&[x, &on.state.weights, pred, &n]),
        // Parameters: loss(pred, y, err, partial, n).
        1 => launch(&[pred, y, err, partial, &n]),
        // Parameters: gradient_w(err, x, partial, n).
        2 => launch(&[err, x, partial, &n]),
        // Parameters: gradient_b(err, partial, n).
        _ => launch(&[err, partial, &n]),
    }
}

/// Launches the update from the partial sums. The loss is written to element `log` of the logged losses, if given.
pub(super) fn update(on: &Launches<'_>, learning_rate: f32, log: Option<usize>) -> Result<()> {
    let Some(kernel) = on.kernels.last() else { return Ok(()) };
    let inverse_n = on.state.inverse_n();
    let loss = log.filter(|i| *i < on.state.losses.len()).map_or(DevicePtr::NULL, |i| on.state.losses.at(i));
    let options = LaunchOptions { programmatic: on.programmatic, ..LaunchOptions::default() };
    // SAFETY: the arguments match `update(partial, blocks, inverse_n, learning_rate, weights, loss)`; `loss` is null or points to an element of the logged
    // losses.
    unsafe {
        kernel.launch_with(
            &on.state.stream,
            on.step,
            options,
            &[&on.partial, &on.columns, &inverse_n, &learning_rate, &on.state.weights, &loss],
        )
    }
}

/// Captures the work that `queue` queues on the stream of `on` as a graph. The graph must not outlive `on`.
pub(super) fn capture(on: &Launches<'_>, queue: impl FnOnce() -> Result<()>) -> Result<Graph> {
    // SAFETY: `queue` launches only kernels of `on` with arrays of `on`. Both callers drop the graph before these arrays: one stores both in the same struct,
    // and the other uses the graph only within a function. Moving the struct does not move the arrays on the device.
    unsafe { on.state.stream.capture(queue) }
}

/// The leading arguments that most kernels for whole descents have in common.
struct Common {
    n: u64,
    epochs: u32,
    every: u32,
    rate: f32,
    inverse_n: f32,
}

impl Common {
    fn from_state(state: &DescentState<'_>) -> Self {
        Self {
            n: state.points.train as u64,
            epochs: u32::try_from(state.epochs).unwrap_or(u32::MAX),
            every: LOG_EVERY as u32,
            rate: state.learning_rate,
            inverse_n: state.inverse_n(),
        }
    }

    /// Returns the arguments (x, y, n, epochs, log_every, learning_rate, inverse_n, weights, losses).
    fn args<'a>(&'a self, state: &'a DescentState<'_>) -> Vec<&'a dyn KernelArg> {
        let Self { n, epochs, every, rate, inverse_n } = self;
        vec![&state.points.x, &state.points.y, n, epochs, every, rate, inverse_n, &state.weights, &state.losses]
    }
}

const COOPERATIVE: LaunchOptions = LaunchOptions { programmatic: false, cooperative: true, cluster: None };

/// Launches a descent on a grid whose blocks exchange their sums.
pub(super) fn descend(
    state: &DescentState<'_>,
    kernel: &Kernel,
    shape: Launch,
    loss_partial: &Buffer<f32>,
    barrier: &Barrier,
) -> Result<()> {
    let common = Common::from_state(state);
    let mut args = common.args(state);
    args.extend([loss_partial as &dyn KernelArg, &barrier.words, &barrier.control, &barrier.blocks, &barrier.limit_ns]);
    // SAFETY: the arguments match `descend(x, y, n, epochs, log_every, learning_rate, inverse_n, weights, losses, loss_partial, words, control, blocks,
    // limit_ns)`. `losses` has an element per logged epoch, `loss_partial` has one per block for each of these, and `words` has the slots of all blocks.
    // `choose_placement` chose the shared memory and registers for this n and this grid.
    unsafe { kernel.launch_with(&state.stream, shape, COOPERATIVE, &args) }
}

/// Launches a descent on one cluster.
pub(super) fn descend_in_cluster(state: &DescentState<'_>, kernel: &Kernel, shape: Launch) -> Result<()> {
    let common = Common::from_state(state);
    let options = LaunchOptions { cluster: Some(shape.grid[0]), ..LaunchOptions::default() };
    // SAFETY: the arguments match `descend_in_cluster(x, y, n, epochs, log_every, learning_rate, inverse_n, weights, losses)`. `losses` has an element per
    // logged epoch, `choose_placement` chose the shared memory and registers for this n, and the grid is one cluster of the size that the kernel was compiled for.
    unsafe { kernel.launch_with(&state.stream, shape, options, &common.args(state)) }
}

/// Launches a pass that writes moments to `partial`, f64 `[5][blocks]`, and a descent that uses only these moments.
pub(super) fn descend_on_moments(
    state: &DescentState<'_>,
    moments: &Kernel,
    descend: &Kernel,
    partial: &Buffer<f64>,
) -> Result<()> {
    let Common { n, epochs, every, rate, .. } = Common::from_state(state);
    let shape = moments.shape(n);
    let blocks = shape.grid[0];
    assert!(partial.len() >= 5 * blocks as usize, "five rows of a column a block");
    let (x, y) = (&state.points.x, &state.points.y);
    // SAFETY: the arguments match `moments(x, y, n, partial)`; x and y have n elements, and `partial` has five rows of `blocks` elements.
    unsafe { moments.launch(&state.stream, shape, &[x, y, &n, partial]) }?;
    let args: [&dyn KernelArg; 8] = [partial, &blocks, &n, &epochs, &every, &rate, &state.weights, &state.losses];
    // SAFETY: the arguments match `descend(partial, blocks, n, epochs, log_every, learning_rate, weights, losses)`, and `losses` has an element per logged
    // epoch.
    unsafe { descend.launch(&state.stream, descend.shape(1), &args) }
}

/// Launches a descent with several features, with arrays `of_blocks[features + 2][blocks]` and `of_all[features + 1]`.
pub(super) fn descend_multivariate(
    state: &DescentState<'_>,
    kernel: &Kernel,
    shape: Launch,
    [of_blocks, of_all]: [&Buffer<u64>; 2],
    barrier: &Barrier,
) -> Result<()> {
    let common = Common::from_state(state);
    let pitch = state.points.pitch as u64;
    let mut args = common.args(state);
    args.insert(3, &pitch);
    args.extend([of_blocks as &dyn KernelArg, of_all, &barrier.control, &barrier.blocks, &barrier.limit_ns]);
    // SAFETY: the arguments match `descend(x, y, n, pitch, epochs, log_every, learning_rate, inverse_n, weights, losses, of_blocks, of_all, control, blocks,
    // limit_ns)`. The kernel was compiled for as many features as x has rows.
    unsafe { kernel.launch_with(&state.stream, shape, COOPERATIVE, &args) }
}

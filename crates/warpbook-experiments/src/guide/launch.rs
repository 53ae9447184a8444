//! The launches of the guide's kernels: the only unsafe code of the experiment.
#![allow(unsafe_code)]

use warpbook_device::{Buffer, Kernel, Result, Slice, Stream};
use warpbook_kernels::Launch;

/// Queues `kernel(x, y, n, size)`. The arrays belong to the pair, and are as long as its kernels require for this n and
/// size.
pub(super) fn queue(
    stream: &Stream,
    (kernel, shape): (&Kernel, Launch),
    x: &Slice<f32>,
    y: &Slice<f32>,
    [n, size]: [u32; 2],
) -> Result<()> {
    // SAFETY: the parameters of every kernel in `kernels/guide` are (x, y, n, size), and the kernel accesses only the elements that the header of its file
    // names. The pair's `work` allocates these arrays, which live until the stream has been waited for, and as long as any graph that captures the launch.
    unsafe { kernel.launch(stream, shape, &[x, y, &n, &size]) }
}

/// Returns the whole buffer as a slice.
pub(super) fn whole(buffer: &Buffer<f32>) -> Slice<f32> {
    buffer.range(..)
}

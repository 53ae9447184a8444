//! Launch of an update in groups. Callers check types and lengths.
#![allow(unsafe_code)]

use super::cuda::Parameters;
use super::grouped::GroupRates;
use warpbook_device::{Kernel, KernelArg, Result, Slice, Stream};
use warpbook_gemm::kernel_args::optional_array;

pub(super) fn update(
    kernel: &Kernel,
    stream: &Stream,
    (cells, numbers): (&Slice<u8>, &Slice<f32>),
    (step, rates, groups): (&Slice<u32>, GroupRates<'_>, u32),
    (p, momentum): (Parameters<'_>, &Slice<f32>),
) -> Result<()> {
    let (n, split) = (p.weights.len() as u64, p.gradients.len() as u64);
    let args: [&dyn KernelArg; 13] = [
        cells,
        numbers,
        step,
        rates.counters,
        rates.rates,
        &groups,
        p.weights,
        p.gradients,
        optional_array(p.rounded),
        &split,
        momentum,
        optional_array(p.copy),
        &n,
    ];
    // SAFETY: the arguments match `update_groups(cells, numbers, step, counters, rates, groups, weights, gradients, rounded, split, momentum, copy, n)`. The
    // callers check types and lengths.
    unsafe { kernel.launch(stream, kernel.shape(n), &args) }
}

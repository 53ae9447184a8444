//! Launches of Muon. Callers check types and lengths.
#![allow(unsafe_code)]

use super::cuda::{MuonArrays, MuonBlocks};
use super::{EPSILON, Muon};
use warpbook_device::{Kernel, KernelArg, Result, Slice, Stream};
use warpbook_gemm::kernel_args::optional_array;
use warpbook_kernels::Launch;

/// A product of the iteration, numbered as in `kernels/nn/muon.cu`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Product {
    Gram = 0,
    Polynomial = 1,
    Apply = 2,
}

impl Product {
    pub const ALL: [Self; 3] = [Self::Gram, Self::Polynomial, Self::Apply];
}

fn of_blocks(kernel: &Kernel, blocks: u32) -> Launch {
    Launch { grid: [blocks, 1, 1], ..kernel.shape(1) }
}

pub(super) fn direction(
    kernel: &Kernel,
    stream: &Stream,
    (table, blocks): (&Slice<u32>, MuonBlocks),
    a: MuonArrays<'_>,
    (directions, partial): (&Slice<f32>, &Slice<f64>),
) -> Result<()> {
    let args: [&dyn KernelArg; 8] = [table, a.numbers, a.step, a.weights, a.gradients, a.momentum, directions, partial];
    // SAFETY: the arguments match `muon_direction(filters, numbers, step, weights, gradients, momentum, directions, partial)`, and the grid has one block for
    // each chunk in the table. The callers check types and lengths.
    unsafe { kernel.launch(stream, of_blocks(kernel, blocks.chunks), &args) }
}

pub(super) fn start(
    kernel: &Kernel,
    stream: &Stream,
    (table, blocks): (&Slice<u32>, MuonBlocks),
    (step, (directions, partial)): (&Slice<u32>, (&Slice<f32>, &Slice<f64>)),
    muon: Muon,
    (work, factors): (&Slice<u32>, &Slice<f32>),
) -> Result<()> {
    let (epsilon, normalises) = (EPSILON as f32, u32::from(muon.normalise));
    let args: [&dyn KernelArg; 8] = [table, step, directions, partial, &epsilon, &normalises, work, factors];
    // SAFETY: the arguments match `muon_start(filters, step, directions, partial, epsilon, normalises, work, factors)`, and the grid has one block for each
    // tile of X. The callers check types and lengths.
    unsafe { kernel.launch(stream, of_blocks(kernel, blocks.whole), &args) }
}

pub(super) fn product(
    kernel: &Kernel,
    stream: &Stream,
    (table, blocks): (&Slice<u32>, MuonBlocks),
    step: &Slice<u32>,
    (what, iteration): (Product, u32),
    work: &Slice<u32>,
) -> Result<()> {
    let blocks = if what == Product::Apply { blocks.whole } else { blocks.square };
    let what = what as u32;
    let args: [&dyn KernelArg; 5] = [table, step, &what, &iteration, work];
    // SAFETY: the arguments match `muon_product(filters, step, what, iteration, work)`, and the grid has one block for each tile of the product. The callers
    // check types and lengths.
    unsafe { kernel.launch(stream, of_blocks(kernel, blocks), &args) }
}

pub(super) fn update(
    kernel: &Kernel,
    stream: &Stream,
    (table, blocks): (&Slice<u32>, MuonBlocks),
    a: MuonArrays<'_>,
    iterations: u32,
    (work, factors): (&Slice<u32>, &Slice<f32>),
) -> Result<()> {
    let copy = optional_array(a.copy);
    let args: [&dyn KernelArg; 10] =
        [table, a.step, a.counters, a.rates, &a.groups, factors, &iterations, work, a.weights, copy];
    // SAFETY: the arguments match `muon_update(filters, step, counters, rates, groups, factors, iterations, work, weights, copy)`, and the grid has one block
    // for each chunk in the table. The callers check types and lengths.
    unsafe { kernel.launch(stream, of_blocks(kernel, blocks.chunks), &args) }
}

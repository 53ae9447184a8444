//! The pairs, grouped by the lessons that show them.

mod compute;
mod launches;
mod memory;
mod multiprocessor;
mod transfers;
mod waiting;

use super::Pair;
use super::pair::{CpuFunction, Half, How, Make, PairDevice, PairWork, Program};
use warpbook_data::parallel::collect;

/// All pairs of the guide.
pub const PAIRS: &[&Pair] = &[
    &transfers::MADE_ON_DEVICE,
    &multiprocessor::COALESCING,
    &multiprocessor::BANK_CONFLICTS,
    &multiprocessor::DIVERGENCE,
    &multiprocessor::REDUCTION,
    &multiprocessor::VECTOR_LOADS,
    &waiting::LATENCY,
    &waiting::MEMORY_LATENCY,
    &waiting::GATHER,
    &memory::ALLOCATION,
    &launches::FUSION,
    &transfers::COPY_BACK,
    &transfers::BATCHES,
    &transfers::PINNED,
    &waiting::OCCUPANCY,
    &launches::JIT_EXPRESSION,
    &launches::SMALL_NETWORK,
    &transfers::LOADER,
    &compute::PRECISION,
    &compute::LAYOUT,
    &compute::POWER,
    &compute::CHECKPOINTING,
    &compute::ACCUMULATION,
];

/// Returns a number between -1 and 1, computed from an element's index.
fn scattered(i: u64) -> f32 {
    let word = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    word as f32 / (1 << 23) as f32 - 1.0
}

/// Returns an input whose elements are computed from their index.
fn made(work: &PairWork, of: fn(u64) -> f32) -> Vec<f32> {
    collect(work.inputs as usize, &|i| of(i as u64))
}

/// Returns 0, 1, 2 or 3, so that sums of up to 2^22 values are exact in f32.
fn small(i: u64) -> f32 {
    (scattered(i).abs() * 4.0).floor().min(3.0)
}

fn doubled(x: &[f32], _: &PairWork, _: u64) -> Vec<f64> {
    x.iter().map(|v| 2.0 * f64::from(*v)).collect()
}

fn same(x: &[f32], _: &PairWork, _: u64) -> Vec<f64> {
    x.iter().map(|v| f64::from(*v)).collect()
}

fn one_each(n: u64, _: u64) -> u64 {
    n
}

fn one_for_two(n: u64, _: u64) -> u64 {
    n / 2
}

fn one_for_four(n: u64, _: u64) -> u64 {
    n / 4
}

const fn kernel(
    id: &'static str,
    title: &'static str,
    idea: &'static str,
    spec: fn() -> warpbook_record::KernelSpec,
    threads: fn(u64, u64) -> u64,
) -> Half {
    Half { id, title, idea, how: How::Kernel { spec, threads, adds: false }, most: u64::MAX }
}

/// Marks a half whose kernel adds to y, which therefore starts with zeros.
const fn adding(mut half: Half) -> Half {
    if let How::Kernel { adds, .. } = &mut half.how {
        *adds = true;
    }
    half
}

/// Limits a half to sizes up to `most`.
const fn up_to(most: u64, mut half: Half) -> Half {
    half.most = most;
    half
}

/// Creates a half for which the pair itself makes the candidate.
const fn its_own(id: &'static str, title: &'static str, idea: &'static str, place: PairDevice, make: Make) -> Half {
    Half { id, title, idea, how: How::Made { place, make }, most: u64::MAX }
}

const fn host(
    id: &'static str,
    title: &'static str,
    idea: &'static str,
    spec: Option<fn() -> warpbook_record::KernelSpec>,
    program: Program,
) -> Half {
    Half { id, title, idea, how: How::Host { spec, program }, most: u64::MAX }
}

const fn cpu(id: &'static str, title: &'static str, idea: &'static str, run: CpuFunction) -> Half {
    Half { id, title, idea, how: How::Cpu { run, all_threads: false }, most: u64::MAX }
}

/// Creates a half that runs on all CPU threads.
const fn cpus(id: &'static str, title: &'static str, idea: &'static str, run: CpuFunction) -> Half {
    Half { id, title, idea, how: How::Cpu { run, all_threads: true }, most: u64::MAX }
}

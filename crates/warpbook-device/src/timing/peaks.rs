//! Measures the ceilings of a device.

use crate::{Bench, Buffer, CudaDevice, Kernel, Result, Samples, Stream};
use rayon::prelude::*;
use std::hint::black_box;
use warpbook_kernels as kernels;
use warpbook_record::{Access, BandwidthPeak, ComputePeak, Dim, Dtype, KernelSpec, MemoryLevel, Peaks};

/// Number of passes over an array that fits into L2: the first pass loads the array, and later passes read it from L2.
const CACHE_ROUNDS: u32 = 64;

/// Measures the read bandwidth of each memory level, and the rates of fp32 fused multiply-adds and of the tensor cores.
///
/// # Errors
/// The device's errors. At most a quarter of the free memory is allocated.
pub fn cuda_peaks(device: &CudaDevice, bench: &Bench) -> Result<Peaks> {
    let stream = device.stream()?;
    let mut bandwidth = memory_peaks(device, bench, &stream)?;
    bandwidth.push(shared_peak(device, bench, &stream)?);
    let (registers, multiply_adds) = multiply_add_peaks(device, bench, &stream)?;
    bandwidth.push(registers);
    let mut peaks = Peaks { bandwidth, compute: vec![multiply_adds], ..Peaks::default() };
    for dtype in kernels::TENSOR_CORE_TYPES {
        peaks.compute.extend(tensor_core_peak(device, bench, &stream, dtype)?);
    }
    Ok(peaks)
}

fn read_peak(level: MemoryLevel, method: &str, bytes: u64, samples_us: Vec<f64>) -> BandwidthPeak {
    let method = method.into();
    BandwidthPeak { level, access: Access::Read, method, bytes, samples_us, datasheet_bytes_per_s: None }
}

/// Measures the read bandwidth of DRAM and of L2, and the bandwidth of a copy in DRAM.
fn memory_peaks(device: &CudaDevice, bench: &Bench, stream: &Stream) -> Result<Vec<BandwidthPeak>> {
    let spec = kernels::read_sum();
    let kernels = spec.tiles.iter().map(|t| device.kernel(&spec, t)).collect::<Result<Vec<_>>>()?;
    let info = device.info();
    let l2 = info.l2_bytes.unwrap_or(4 << 20);
    let (free, _) = device.memory()?;
    let large = (4u64 << 30).min(free / 4).max(1 << 20) / 64 * 64;
    // The array takes half of L2; parts of a larger one could be evicted before they are read again.
    let small = (l2 / 2).max(1 << 18).min(large) / 64 * 64;
    let data = device.zeros::<f32>((large / 4) as usize)?;
    fill(device, &data)?;
    let blocks = kernels.iter().map(|k| k.shape(u64::MAX >> 16).grid[0]).max().unwrap_or(1);
    let out = device.zeros::<f32>(blocks as usize)?;
    let measure = |bytes: u64, rounds: u32| {
        fastest_samples(bench, &kernels, |kernel, bench| {
            let shape = kernel.shape(u64::MAX >> 16);
            // SAFETY: the arguments match `read_sum(data, out, n, rounds)`; `data` has at least `bytes` bytes, and `out` has one element per block.
            let launch = || unsafe { kernel.launch(stream, shape, &[&data, &out, &(bytes / 4), &rounds]) };
            bench.cuda(device, stream, None, None, launch)
        })
    };
    let method = "sum of an array several times L2";
    let dram = BandwidthPeak {
        datasheet_bytes_per_s: datasheet(&info.name).map(|d| d.bytes_per_s),
        ..read_peak(MemoryLevel::Dram, method, large, measure(large, 1)?)
    };
    let (copied, samples_us) = copy_samples(device, bench, stream, &data)?;
    let method = "copy of half of that array into the other half";
    let copy = BandwidthPeak { access: Access::Copy, ..read_peak(MemoryLevel::Dram, method, copied, samples_us) };
    let mut peaks = vec![dram, copy];
    if small < large {
        let (method, bytes) =
            ("sum of an array of half of L2, 64 times over, bypassing L1", small * u64::from(CACHE_ROUNDS));
        peaks.push(read_peak(MemoryLevel::L2, method, bytes, measure(small, CACHE_ROUNDS)?));
    }
    Ok(peaks)
}

/// Measures the read bandwidth of shared memory.
fn shared_peak(device: &CudaDevice, bench: &Bench, stream: &Stream) -> Result<BandwidthPeak> {
    let spec = kernels::shared_sum();
    let kernel = device.kernel(&spec, &spec.tiles[0])?;
    let shape = kernel.shape(u64::MAX >> 16);
    let threads = u64::from(shape.grid[0]) * u64::from(shape.block[0]);
    let out = device.zeros::<f32>(threads as usize)?;
    let rounds = 1u32 << 10;
    let samples = bench.cuda(device, stream, None, None, || {
        // SAFETY: the arguments match `shared_sum(out, rounds)`, and `out` has one element per thread.
        unsafe { kernel.launch(stream, shape, &[&out, &rounds]) }
    })?;
    let reads = spec.tiles[0].get("ITEMS").unwrap_or(1).unsigned_abs();
    let bytes = threads * reads * 16 * u64::from(rounds);
    Ok(read_peak(MemoryLevel::Shared, "sum of tiles in shared memory, 16 bytes a lane and read", bytes, samples.us))
}

/// Measures the rate of fp32 fused multiply-adds, and the bandwidth of the registers that hold their operands.
fn multiply_add_peaks(device: &CudaDevice, bench: &Bench, stream: &Stream) -> Result<(BandwidthPeak, ComputePeak)> {
    let spec = kernels::fma_chains();
    let fma = device.kernel(&spec, &spec.tiles[0])?;
    let shape = fma.shape(u64::MAX >> 16);
    let threads = u64::from(shape.grid[0]) * u64::from(shape.block[0]);
    let out = device.zeros::<f32>(threads as usize)?;
    let rounds = 256u32;
    let samples = bench.cuda(device, stream, None, None, || {
        // SAFETY: the arguments match `fma_chains(out, a, c, rounds)`, and `out` has one element per thread.
        unsafe { fma.launch(stream, shape, &[&out, &0.999f32, &0.001f32, &rounds]) }
    })?;
    let chains = spec.tiles[0].get("ITEMS").unwrap_or(1).unsigned_abs();
    let multiply_adds = threads * chains * 64 * u64::from(rounds);
    let method = "three operands of four bytes for each multiply-add of the fp32 ceiling";
    let registers = read_peak(MemoryLevel::Registers, method, multiply_adds * 12, samples.us.clone());
    let compute = ComputePeak {
        dtype: Dtype::F32,
        method: "independent chains of fused multiply-adds in registers".into(),
        flops: multiply_adds * 2,
        samples_us: samples.us,
        datasheet_flops_per_s: datasheet(&device.info().name).map(|d| d.fp32_flops_per_s),
    };
    Ok((registers, compute))
}

/// Times the fastest of several kernels, which is found by taking a few samples of each.
fn fastest_samples(
    bench: &Bench,
    kernels: &[Kernel],
    time: impl Fn(&Kernel, &Bench) -> Result<Samples>,
) -> Result<Vec<f64>> {
    let trial = Bench { samples: 3, warmup: 1, ..bench.clone() };
    let mut best: Option<(f64, &Kernel)> = None;
    for kernel in kernels {
        let us = time(kernel, &trial)?.median_us();
        if best.is_none_or(|(least, _)| us < least) {
            best = Some((us, kernel));
        }
    }
    best.map_or(Ok(Vec::new()), |(_, kernel)| time(kernel, bench).map(|samples| samples.us))
}

/// Copies the first half of an array into the second with the fastest of the kernel's tiles. Returns the number of bytes read and written, and the
/// times.
fn copy_samples(device: &CudaDevice, bench: &Bench, stream: &Stream, data: &Buffer<f32>) -> Result<(u64, Vec<f64>)> {
    let spec = kernels::copy();
    let kernels = spec.tiles.iter().map(|t| device.kernel(&spec, t)).collect::<Result<Vec<_>>>()?;
    let half = data.len() / 2 / 4 * 4;
    let (from, to, n) = (data.range(..half), data.range(half..2 * half), half as u64);
    let samples = fastest_samples(bench, &kernels, |kernel, bench| {
        let shape = kernel.shape(u64::MAX >> 16);
        // SAFETY: the arguments match `copy(from, to, n)`; both slices have n elements and are aligned to 16 bytes.
        let launch = || unsafe { kernel.launch(stream, shape, &[&from, &to, &n]) };
        bench.cuda(device, stream, None, None, launch)
    })?;
    Ok((8 * n, samples))
}

/// Measures the rate of tensor-core multiplications in a type; `None` if the device does not support them.
fn tensor_core_peak(device: &CudaDevice, bench: &Bench, stream: &Stream, dtype: Dtype) -> Result<Option<ComputePeak>> {
    let info = device.info();
    let (wgmma, mma) = (kernels::wgmma_rounds(dtype), kernels::mma_rounds(dtype));
    let runs_here = |spec: &KernelSpec| spec.requires.as_ref().is_none_or(|r| r.met_by(info.compute_capability));
    match (runs_here(&wgmma), runs_here(&mma)) {
        (true, _) => tensor_core_rate(device, bench, stream, (wgmma, dtype), true).map(Some),
        (_, true) => tensor_core_rate(device, bench, stream, (mma, dtype), false).map(Some),
        _ => Ok(None),
    }
}

/// Measures the rate of `mma.sync`, the tensor-core instruction of a single warp, even if the device has the faster warpgroup instruction that
/// determines the ceiling. `None` if the type or the device does not support `mma.sync`.
///
/// # Errors
/// The device's errors.
pub fn mma_sync_peak(device: &CudaDevice, bench: &Bench, dtype: Dtype) -> Result<Option<ComputePeak>> {
    if !kernels::TENSOR_CORE_TYPES.contains(&dtype) {
        return Ok(None);
    }
    let mma = kernels::mma_rounds(dtype);
    if !mma.requires.as_ref().is_none_or(|r| r.met_by(device.info().compute_capability)) {
        return Ok(None);
    }
    tensor_core_rate(device, bench, &device.stream()?, (mma, dtype), false).map(Some)
}

/// A kernel that only multiplies on the tensor cores, with its arguments.
struct Rounds {
    kernel: Kernel,
    shape: kernels::Launch,
    values: Buffer<u32>,
    out: Buffer<f32>,
    rounds: u32,
    flops: u64,
}

impl Rounds {
    fn new(device: &CudaDevice, (spec, dtype): (&KernelSpec, Dtype), by_warpgroups: bool) -> Result<Self> {
        let tile = &spec.tiles[0];
        let kernel = device.kernel(spec, tile)?;
        let shape = kernel.shape(u64::MAX >> 16);
        let threads = u64::from(shape.grid[0]) * u64::from(shape.block[0]);
        let (words, rounds, a_block) = if by_warpgroups {
            let (rows, columns, stages) = (tile.size(Dim::Bm), tile.size(Dim::Bn), tile.size(Dim::Stages));
            // Each stage covers 128 bytes along k.
            (stages * (rows + columns) * 32, 256u32, rows * columns * stages * (128 / dtype.bytes()) * 2)
        } else {
            let k = if dtype == Dtype::Tf32 { 8 } else { 16 };
            (
                6 * u64::from(shape.block[0]),
                8192u32,
                u64::from(shape.block[0]) / 32 * tile.size(Dim::Items) * 16 * 8 * k * 2,
            )
        };
        let gaussians = device.zeros::<f32>(words as usize * 2)?;
        fill(device, &gaussians)?;
        let pair = |low: u16, high: u16| u32::from(low) | u32::from(high) << 16;
        let values: Vec<u32> = gaussians
            .to_vec()?
            .chunks(2)
            .map(|v| match dtype {
                Dtype::F16 => pair(half::f16::from_f32(v[0]).to_bits(), half::f16::from_f32(v[1]).to_bits()),
                Dtype::Bf16 => pair(half::bf16::from_f32(v[0]).to_bits(), half::bf16::from_f32(v[1]).to_bits()),
                _ => v[0].to_bits(),
            })
            .collect();
        let values = device.buffer_from(&values)?;
        let out = device.zeros::<f32>(threads as usize)?;
        let flops = u64::from(shape.grid[0]) * a_block * u64::from(rounds);
        Ok(Self { kernel, shape, values, out, rounds, flops })
    }

    fn launch(&self, stream: &Stream) -> Result<()> {
        // SAFETY: the parameters of both kernels are (values, out, rounds); `values` has the elements that a block reads, and `out` has one element per thread.
        unsafe { self.kernel.launch(stream, self.shape, &[&self.values, &self.out, &self.rounds]) }
    }
}

/// Measures the rate of a kernel that only multiplies on the tensor cores.
fn tensor_core_rate(
    device: &CudaDevice,
    bench: &Bench,
    stream: &Stream,
    (spec, dtype): (KernelSpec, Dtype),
    by_warpgroups: bool,
) -> Result<ComputePeak> {
    let rounds = Rounds::new(device, (&spec, dtype), by_warpgroups)?;
    let samples = bench.cuda(device, stream, None, None, || rounds.launch(stream))?;
    Ok(ComputePeak {
        dtype,
        method: if by_warpgroups {
            "warpgroups multiplying random tiles in shared memory (wgmma)".into()
        } else {
            "warps multiplying random fragments in registers (mma.sync)".into()
        },
        flops: rounds.flops,
        samples_us: samples.us,
        datasheet_flops_per_s: datasheet(&device.info().name).and_then(|d| d.tensor_flops_per_s(dtype)),
    })
}

/// The kernel that measures the ceiling of `wgmma` in a type. It can be launched on its own, for example while hardware counters are read. It
/// repeatedly multiplies tiles that are already in shared memory, without loading anything.
pub struct WgmmaRounds(Rounds);

impl WgmmaRounds {
    /// Loads the kernel; `None` if the type or the device does not support `wgmma`.
    ///
    /// # Errors
    /// The compiler's and the device's errors.
    pub fn new(device: &CudaDevice, dtype: Dtype) -> Result<Option<Self>> {
        if !kernels::TENSOR_CORE_TYPES.contains(&dtype) {
            return Ok(None);
        }
        let spec = kernels::wgmma_rounds(dtype);
        if !spec.requires.as_ref().is_none_or(|r| r.met_by(device.info().compute_capability)) {
            return Ok(None);
        }
        Ok(Some(Self(Rounds::new(device, (&spec, dtype), true)?)))
    }

    /// Queues one launch.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        self.0.launch(stream)
    }
}

/// Fills an array with random numbers: equal values such as zeros take less power, which would allow higher clocks.
pub(crate) fn fill(device: &CudaDevice, data: &Buffer<f32>) -> Result<()> {
    let spec = kernels::gaussians();
    let kernel = device.kernel(&spec, &spec.tiles[0])?;
    let stream = device.stream()?;
    let n = data.len() as u64;
    // SAFETY: the arguments match `gaussians(out, n, seed, stream, first)`, and `data` has n elements.
    unsafe { kernel.launch(&stream, kernel.shape(n), &[data, &n, &1u64, &0u32, &0u64]) }?;
    stream.synchronize()
}

/// Figures from NVIDIA's datasheets, for GPUs that can be identified by name.
struct Datasheet {
    bytes_per_s: f64,
    fp32_flops_per_s: f64,
    /// Peak FLOP/s of f16 with sums in f32, without sparsity.
    fp16_flops_per_s: f64,
}

impl Datasheet {
    /// Returns the peak for a type: from Ampere on, bf16 is as fast as f16, and tf32 is half as fast.
    fn tensor_flops_per_s(&self, dtype: Dtype) -> Option<f64> {
        match dtype {
            Dtype::F16 | Dtype::Bf16 => Some(self.fp16_flops_per_s),
            Dtype::Tf32 => Some(self.fp16_flops_per_s / 2.0),
            _ => None,
        }
    }
}

fn datasheet(name: &str) -> Option<Datasheet> {
    let (bytes_per_s, fp32_flops_per_s, fp16_flops_per_s) = match name {
        "NVIDIA H200" => (4.8e12, 67e12, 989e12),
        "NVIDIA H100 80GB HBM3" => (3.35e12, 67e12, 989e12),
        "NVIDIA A100-SXM4-40GB" => (1.555e12, 19.5e12, 312e12),
        "NVIDIA A100-SXM4-80GB" => (2.039e12, 19.5e12, 312e12),
        "Tesla T4" => (0.32e12, 8.1e12, 65e12),
        "NVIDIA L4" => (0.3e12, 30.3e12, 121e12),
        _ => return None,
    };
    Some(Datasheet { bytes_per_s, fp32_flops_per_s, fp16_flops_per_s })
}

/// Measures the read bandwidth of main memory and of the last-level cache.
///
/// # Errors
/// The only possible error is [`Error::Cancelled`](crate::Error::Cancelled).
pub fn cpu_peaks(bench: &Bench, cache_bytes: Option<u64>, memory_bytes: u64) -> Result<Peaks> {
    let large = (256u64 << 20).min(memory_bytes / 8).max(16 << 20);
    let small = cache_bytes.map_or(1 << 20, |c| c / 2).clamp(1 << 18, 32 << 20);
    let mut peaks = Peaks::default();
    let rounds = (large / small).clamp(1, 64);
    for (level, bytes, rounds, method) in [
        (
            MemoryLevel::Dram,
            large,
            1,
            "sum of an array of 256 MiB (an eighth of the memory, if that is less), by all threads or one, whichever is faster",
        ),
        (
            MemoryLevel::L2,
            small,
            rounds,
            "sum of an array of half the last cache or 32 MiB, many times over, by all threads or one, whichever is faster",
        ),
    ] {
        let data: Vec<f32> = (0..bytes / 4).into_par_iter().map(|i| (i % 251) as f32 * 0.37 - 40.0).collect();
        // A single thread can be faster than all threads, for example if the threads share a cache with other programs.
        let time = |sum: fn(&[f32]) -> f32| {
            bench.cpu(|| {
                for _ in 0..rounds {
                    black_box(sum(black_box(&data)));
                }
                Ok(())
            })
        };
        let (all, one) = (time(sum)?, time(sum_of_chunk)?);
        let samples = if one.median_us() < all.median_us() { one } else { all };
        peaks.bandwidth.push(BandwidthPeak {
            access: Access::Read,
            level,
            method: method.into(),
            bytes: data.len() as u64 * 4 * rounds,
            samples_us: samples.us,
            datasheet_bytes_per_s: None,
        });
    }
    Ok(peaks)
}

/// Sums values with all threads.
fn sum(data: &[f32]) -> f32 {
    data.par_chunks(1 << 16).map(sum_of_chunk).sum()
}

/// Sums values in independent lanes, which the compiler turns into vector registers.
fn sum_of_chunk(data: &[f32]) -> f32 {
    let mut lanes = [0.0f32; 32];
    for row in data.chunks_exact(32) {
        for (lane, v) in lanes.iter_mut().zip(row) {
            *lane += v;
        }
    }
    lanes.iter().sum()
}

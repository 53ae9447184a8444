//! The two halves of a pair (a slow and a fast way to do the same work), and their work.

use super::prepared::Arrays;
use warpbook_lab::Result;
use warpbook_lab::experiment::Candidate;
use warpbook_record::{CUDA_DRIVER, KernelSpec, Requires, Rung, Runner, Schedule, Tile};

/// The work of a pair at one size.
#[derive(Debug, Clone, Copy)]
pub(super) struct PairWork {
    /// The argument `n` of the kernels: the number of elements or of samples.
    pub n: u64,
    /// Number of floats in the input and in the output.
    pub inputs: u64,
    pub outputs: u64,
    /// Number of floating-point operations, minimum number of bytes to read and write, and the part of these bytes that
    /// is written.
    pub flops: u64,
    pub bytes: u64,
    pub written_bytes: u64,
    /// Last argument of the kernels, which depends on the pair.
    pub argument: u64,
    /// Total bytes of the arrays, each counted once, no matter how often it is used. They determine whether the arrays
    /// stay in L2.
    pub array_bytes: u64,
}

impl PairWork {
    /// Returns the work of reading n floats and writing n floats, with `flops` operations per element.
    pub const fn each(n: u64, flops: u64) -> Self {
        Self {
            n,
            inputs: n,
            outputs: n,
            flops: n * flops,
            bytes: 8 * n,
            written_bytes: 4 * n,
            argument: 0,
            array_bytes: 8 * n,
        }
    }

    /// Sets the last argument of the kernels.
    pub const fn with(self, argument: u64) -> Self {
        Self { argument, ..self }
    }
}

/// One half of a pair: the slow or the fast way to do the work.
pub(super) struct Half {
    pub id: &'static str,
    pub title: &'static str,
    pub idea: &'static str,
    pub how: How,
    /// Largest size that this half can run.
    pub most: u64,
}

/// A function on the CPU. The arguments are the input, the output, n and the size.
pub(super) type CpuFunction = fn(&[f32], &mut [f32], u64, u64);

/// A function that makes a candidate which works on the arrays of a size.
pub(super) type Make = for<'p> fn(&'p Arrays) -> Result<Box<dyn Candidate + 'p>>;

/// The device of a candidate made by the pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PairDevice {
    /// The CPU, with all threads.
    Cpu,
    /// A GPU with at least this compute capability.
    Gpu(u32, u32),
}

/// The program of a half.
pub(super) enum How {
    /// A product, convolution, network or training that uses the engine; the pair makes the candidate.
    Made { place: PairDevice, make: Make },
    /// A function on the CPU, which runs on one thread or on all.
    Cpu { run: CpuFunction, all_threads: bool },
    /// A kernel; `threads` returns the number of threads for n and the size. If the kernel adds to y, y starts with
    /// zeros.
    Kernel { spec: fn() -> KernelSpec, threads: fn(u64, u64) -> u64, adds: bool },
    /// Kernels and copies that the host queues and then waits for.
    Host { spec: Option<fn() -> KernelSpec>, program: Program },
}

/// A program that the host runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    /// A number of operations that the size determines. Each is a launch, or all are replayed as one graph.
    Operations { in_a_graph: bool },
    /// A single launch for all operations.
    Whole,
    /// `outputs` sums of products, which are copied back one by one or all at the end.
    Sums { copied_each: bool },
    /// Samples that are copied to the device, computed and copied back, one by one or `size` at a time.
    Batches { one_by_one: bool },
    /// Ten allocations of an intermediate array, from the driver or from a pool.
    Allocations { pooled: bool },
    /// An input that all host threads generate, and that is copied to the device.
    Made,
    /// Copies between host and device, with page-locked or pageable memory.
    Copy { pinned: bool, to_device: bool },
}

impl Half {
    pub fn rung(&self) -> Rung {
        match &self.how {
            How::Made { place: PairDevice::Cpu, .. } => Rung::cpu(self.id, self.title, self.idea, "all threads"),
            How::Made { place: PairDevice::Gpu(major, minor), .. } => Rung {
                requires: Requires::AtLeast(*major, *minor),
                runner: Runner::Kernels { specs: Vec::new(), schedule: Schedule::Launches },
                ..Rung::cpu(self.id, self.title, self.idea, "")
            },
            How::Cpu { all_threads, .. } => {
                Rung::cpu(self.id, self.title, self.idea, if *all_threads { "all threads" } else { "1 thread" })
            }
            How::Kernel { spec, .. } => Rung::cuda(self.id, self.title, self.idea, spec()),
            How::Host { spec: Some(spec), .. } => Rung::cuda(self.id, self.title, self.idea, spec()),
            How::Host { spec: None, .. } => Rung {
                requires: Requires::AtLeast(7, 5),
                runner: Runner::Library(CUDA_DRIVER.into()),
                ..Rung::cpu(self.id, self.title, self.idea, "")
            },
        }
    }

    /// Returns true if the peak device memory of this half can be measured.
    pub fn counts_memory(&self) -> bool {
        matches!(self.how, How::Made { place: PairDevice::Gpu(..), .. })
    }

    /// Returns the tile for a size. If there are several tiles, it is the one named after the size, such as `w8`.
    pub fn tile<'s>(&self, spec: &'s KernelSpec, size: u64) -> Option<&'s Tile> {
        let named = format!("w{size}");
        spec.tiles.iter().find(|t| t.id == named).or(spec.tiles.first())
    }
}

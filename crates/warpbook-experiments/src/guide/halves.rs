//! The halves of a pair: what runs, and how much work it is.

use super::prepared::Arrays;
use warpbook_lab::Result;
use warpbook_lab::experiment::Candidate;
use warpbook_record::{CUDA_DRIVER, KernelSpec, Requires, Rung, Runner, Schedule, Tile};

/// The work at one size.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    /// Size that kernels are given: elements, or samples.
    pub n: u64,
    /// Floats of the input and of the output.
    pub inputs: u64,
    pub outputs: u64,
    /// Operations, and the bytes that have to be read and written, those that are written among them.
    pub flops: u64,
    pub bytes: u64,
    pub written_bytes: u64,
    /// The kernels' last argument.
    pub argument: u64,
    /// Bytes of the arrays, each counted once however often it is read and written: what tells whether they stay in L2.
    pub array_bytes: u64,
}

impl Work {
    /// Returns the work of n floats in and n out, with this many operations per element.
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

    /// Adds a last argument.
    pub const fn with(self, argument: u64) -> Self {
        Self { argument, ..self }
    }
}

/// One way of a pair.
pub(super) struct Half {
    pub id: &'static str,
    pub title: &'static str,
    pub idea: &'static str,
    pub how: How,
    /// The largest size that it takes.
    pub most: u64,
}

/// The work on a CPU: input, output, n and the size.
pub(super) type OnCpu = fn(&[f32], &mut [f32], u64, u64);

/// A candidate for the arrays of a size.
pub(super) type Make = for<'p> fn(&'p Arrays) -> Result<Box<dyn Candidate + 'p>>;

/// Place where a candidate of the pair's own making runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// On all threads of the CPU.
    Cpu,
    /// On a GPU of this compute capability or a later one.
    Gpu(u32, u32),
}

/// Implementation of a half.
pub(super) enum How {
    /// Products, convolutions, networks and trainings of the engine, as the pair makes them.
    Made { place: Place, make: Make },
    /// A function on the CPU, by one thread or by all.
    Cpu { run: OnCpu, all_threads: bool },
    /// Kernel with this many threads for its n and size, which is given y as zeros if it adds to it.
    Kernel { spec: fn() -> KernelSpec, threads: fn(u64, u64) -> u64, adds: bool },
    /// Kernels and copies, as the host queues them and waits for them.
    Host { spec: Option<fn() -> KernelSpec>, program: Program },
}

/// Program that the host runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    /// As many operations as the argument says, each a launch, or the replay of a graph of them.
    Operations { in_a_graph: bool },
    /// One launch.
    Whole,
    /// Sums of products, `outputs` of them, copied back after each or once at the end.
    Sums { copied_each: bool },
    /// Samples copied to the device, computed and copied back: one by one, or `size` at a time.
    Batches { one_by_one: bool },
    /// Ten times an array for an intermediate result: each from the driver and back to it, or from a pool.
    Allocations { pooled: bool },
    /// The input made by all threads of the host and copied to the device.
    Made,
    /// Copies between host and device, of memory that is page-locked or not.
    Copy { pinned: bool, to_device: bool },
}

impl Half {
    pub fn rung(&self) -> Rung {
        match &self.how {
            How::Made { place: Place::Cpu, .. } => Rung::cpu(self.id, self.title, self.idea, "all threads"),
            How::Made { place: Place::Gpu(major, minor), .. } => Rung {
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

    /// Returns true if the device memory that it holds is known.
    pub fn counts_memory(&self) -> bool {
        matches!(self.how, How::Made { place: Place::Gpu(..), .. })
    }

    /// The tile for a size: of several the one that is named after it, as `w8`.
    pub fn tile<'s>(&self, spec: &'s KernelSpec, size: u64) -> Option<&'s Tile> {
        let named = format!("w{size}");
        spec.tiles.iter().find(|t| t.id == named).or(spec.tiles.first())
    }
}

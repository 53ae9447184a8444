//! Halves of a pair: their code, and the work that they do.

use super::prepared::Arrays;
use warpbook_lab::Result;
use warpbook_lab::experiment::Candidate;
use warpbook_record::{CUDA_DRIVER, KernelSpec, Requires, Rung, Runner, Schedule, Tile};

/// Work at one size.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    /// Size that kernels receive: elements, or samples.
    pub n: u64,
    /// Numbers of floats of the input and of the output.
    pub inputs: u64,
    pub outputs: u64,
    /// Operations, and bytes that have to be read and written, with the written part of these.
    pub flops: u64,
    pub bytes: u64,
    pub written_bytes: u64,
    /// Last argument of the kernels.
    pub argument: u64,
    /// Bytes of the arrays, each counted once however often it is read and written: they decide whether the arrays stay in L2.
    pub array_bytes: u64,
}

impl Work {
    /// Returns the work of n floats in and n out, with `flops` operations an element.
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

/// One half of a pair: a way to do its work.
pub(super) struct Half {
    pub id: &'static str,
    pub title: &'static str,
    pub idea: &'static str,
    pub how: How,
    /// Largest size that it takes.
    pub most: u64,
}

/// Function on a CPU, of input, output, n and the size.
pub(super) type OnCpu = fn(&[f32], &mut [f32], u64, u64);

/// Function that makes a candidate for the arrays of a size.
pub(super) type Make = for<'p> fn(&'p Arrays) -> Result<Box<dyn Candidate + 'p>>;

/// Device of a candidate that the pair makes itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// All threads of the CPU.
    Cpu,
    /// A GPU of this compute capability or a later one.
    Gpu(u32, u32),
}

/// Implementation of a half.
pub(super) enum How {
    /// Product, convolution, network or training of the engine, made by the pair.
    Made { place: Place, make: Make },
    /// Function on the CPU, by one thread or by all.
    Cpu { run: OnCpu, all_threads: bool },
    /// Kernel with `threads` threads for n and the size; if it adds to y, y is zeros at first.
    Kernel { spec: fn() -> KernelSpec, threads: fn(u64, u64) -> u64, adds: bool },
    /// Kernels and copies that the host queues and waits for.
    Host { spec: Option<fn() -> KernelSpec>, program: Program },
}

/// Program that the host runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    /// Number of operations given by the argument: each a launch, or all replayed as a graph.
    Operations { in_a_graph: bool },
    /// One launch.
    Whole,
    /// Sums of products, `outputs` of them, copied back one by one or once at the end.
    Sums { copied_each: bool },
    /// Samples that are copied to the device, computed and copied back: one by one, or `size` at a time.
    Batches { one_by_one: bool },
    /// Ten allocations of an array for an intermediate result: each from the driver and back to it, or from a pool.
    Allocations { pooled: bool },
    /// Input that all threads of the host make, and that is copied to the device.
    Made,
    /// Copies between host and device, of page-locked memory or not.
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

    /// Returns the tile for a size: of several tiles the one named after the size, such as `w8`.
    pub fn tile<'s>(&self, spec: &'s KernelSpec, size: u64) -> Option<&'s Tile> {
        let named = format!("w{size}");
        spec.tiles.iter().find(|t| t.id == named).or(spec.tiles.first())
    }
}

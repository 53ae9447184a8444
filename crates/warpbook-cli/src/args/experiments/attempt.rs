//! Options of `warpbook attempt`, and of the process that it starts.

use crate::args::common::{DeviceArg, TimingArgs};
use clap::Args;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::str::FromStr;
use warpbook::LiveKernel;
use warpbook::device::Bench;
use warpbook::record::{Define, Dtype};
use warpbook::settings::{parse_dtype, parse_shape};

/// Maximum length of a kernel's name in characters.
const LONGEST_NAME: usize = 40;

pub const ATTEMPT_ABOUT: &str = "\
Compile a kernel of your own in place of a rung of the matrix product, of the regression or of a pair of the guide, with the rung's parameters \
and launch. A product is first tried at three small sizes, which show what is wrong; then the kernel is checked, and timed with its rung \
(a product with cuBLAS, too). It runs in a separate process, which is stopped if the kernel does not end. Headers may lie next to the file; \
headers of CUDA are looked for in pip's packages and in CUDA_HOME. printf and assert need none. Without a GPU, or with --emulate, it runs in the \
emulator at a small size, which tells whether it is right and why not, and has no times; what the emulator does not run is only compiled.";

pub const ATTEMPT_EXAMPLES: &str = "\
Examples:
  warpbook attempt --like 02_coalesced > mine.cu             a rung's source as a start
  warpbook attempt mine.cu --like 02_coalesced
  warpbook attempt mine.cu --like 05_register_2d --size BM=64 --size THREADS=128 --shape 1024
  warpbook attempt mine.cu --like regression/02_fused
  warpbook attempt mine.cu --like coalescing/02_coalesced
  warpbook attempt mine.cu --like 02_coalesced --emulate
  warpbook attempt mine.cu --like 02_coalesced --against 01_naive,02_coalesced,cublas --out mine.json

Exit code 0: it is right, or nothing here can run it; 1: it does not compile, is wrong, or does not end.";

#[derive(Debug, Args)]
pub struct AttemptArgs {
    /// Kernel in CUDA C++. [default: print the rung's own]
    pub file: Option<PathBuf>,
    /// Rung to replace: for the matrix product its id, such as 05_register_2d; otherwise EXPERIMENT/ID or PAIR/ID, such as regression/02_fused or
    /// coalescing/02_coalesced.
    #[arg(long, value_name = "[EXPERIMENT/]ID")]
    pub like: String,
    /// Name of the kernel in the record. [default: the name of its file, where characters other than a-z, A-Z, 0-9 and - become _]
    #[arg(long)]
    name: Option<String>,
    /// Id of one of the rung's tiles. [default: the first]
    #[arg(long, value_name = "ID")]
    tile: Option<String>,
    /// Size of the tile, such as BM=64; may be repeated.
    #[arg(long, value_name = "NAME=N", value_parser = Define::from_str)]
    size: Vec<Define>,
    /// Sizes m x n x k of the timed product, or one number for a cube. [default: 2048]
    #[arg(long, value_name = "MxNxK", value_parser = parse_shape)]
    shape: Option<(u64, u64, u64)>,
    /// Type of the matrices: fp32, tf32, fp16, bf16. [default: fp32 if the rung takes it, otherwise bf16]
    #[arg(long, value_name = "TYPE", value_parser = parse_dtype)]
    dtype: Option<Dtype>,
    /// Ids of the rungs that are timed with it, with commas between them. [default: its rung and cublas]
    #[arg(long, value_name = "ID[,ID..]", value_delimiter = ',')]
    against: Vec<String>,
    /// Stop the kernel after this many seconds and assume that it hangs.
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    limit: f64,
    /// Run the kernel in the emulator even if there is a GPU: checks the result, without times.
    #[arg(long)]
    pub emulate: bool,
    #[command(flatten)]
    timing: TimingArgs,
    /// File for the record; without it none is written.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub device: DeviceArg,
}

impl AttemptArgs {
    /// Returns the kernel with these settings.
    pub fn settings(&self, mut live: LiveKernel) -> warpbook::Result<LiveKernel> {
        let of_file = self.file.as_deref().and_then(|f| f.file_stem()).map(name_of);
        if let Some(name) = self.name.clone().or(of_file) {
            live = live.named(name);
        }
        if let Some(tile) = &self.tile {
            live = live.tile(tile)?;
        }
        for Define { name, value } in &self.size {
            live = live.size(name.clone(), *value);
        }
        if let Some((m, n, k)) = self.shape {
            live = live.shape(m, n, k);
        }
        if let Some(dtype) = self.dtype {
            live = live.dtype(dtype);
        }
        if !self.against.is_empty() {
            live = live.against(self.against.iter().map(|id| id.trim()));
        }
        Ok(live.time_limit(self.limit))
    }

    /// Returns the name of a given option that applies only to matrix products, if there is one.
    pub fn of_products_only(&self) -> Option<&'static str> {
        let given = [("shape", self.shape.is_some()), ("dtype", self.dtype.is_some())];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    /// Returns the bench with these settings, or an error if a setting is out of range.
    pub fn bench(&self) -> Result<Bench, String> {
        self.timing.bench(false)
    }
}

#[derive(Debug, Args)]
pub struct WorkArgs {
    /// File with the request.
    pub request: PathBuf,
    /// File for the record.
    #[arg(long)]
    pub out: PathBuf,
}

/// Turns the name of a file into the name of a kernel, which has only plain characters.
fn name_of(stem: &OsStr) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    stem.to_string_lossy().chars().map(plain).take(LONGEST_NAME).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_file_s_name_becomes_a_kernel_s() {
        let check = |stem: &str, expect: &str| assert_eq!(name_of(OsStr::new(stem)), expect);
        check("my kernel", "my_kernel");
        check("kernel(1)", "kernel_1_");
        check("größe", "gr__e");
        check("02.naive.v2", "02_naive_v2");
        check(&"x".repeat(99), &"x".repeat(40));
    }
}

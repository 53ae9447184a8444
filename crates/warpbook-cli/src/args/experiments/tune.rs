//! Options of `warpbook tune`.

use crate::args::common::{DeviceArg, TimingArgs};
use clap::{Args, Subcommand};
use warpbook::Matmul;
use warpbook::device::Bench;
use warpbook::record::Dtype;
use warpbook::settings::{parse_dtype, parse_shape};

pub const TUNE_EXAMPLES: &str = "\
Examples:
  warpbook tune matmul --shape 4096,128x8192x8192 --dtype bf16
  warpbook tune matmul --shape 1000 --dtype fp32,tf32 --trans-b

What is found is kept with the compiled kernels, by device, driver and version of the kernels. It is never required: without it
the first plan of a product times the few kernels that are expected to be the fastest, or none with WARPBOOK_TUNE=off.";

#[derive(Debug, Args)]
pub struct TuneArgs {
    #[command(subcommand)]
    pub what: TuneCommand,
}

#[derive(Debug, Subcommand)]
pub enum TuneCommand {
    /// Matrix products.
    #[command(after_help = TUNE_EXAMPLES)]
    Matmul(TuneMatmulArgs),
}

#[derive(Debug, Args)]
pub struct TuneMatmulArgs {
    /// Sizes m x n x k of a product, such as 128x8192x8192, or one number for a cube; several with commas, or repeat the option.
    #[arg(long, value_name = "MxNxK[,..]", value_delimiter = ',', value_parser = parse_shape, required = true)]
    shape: Vec<(u64, u64, u64)>,
    /// Types of the matrices: fp32, tf32, fp16, bf16; several with commas.
    #[arg(long, value_name = "TYPE[,..]", value_delimiter = ',', value_parser = parse_dtype, required = true)]
    dtype: Vec<Dtype>,
    /// Store A transposed, k x m.
    #[arg(long)]
    trans_a: bool,
    /// Store B transposed, n x k.
    #[arg(long)]
    trans_b: bool,
    #[command(flatten)]
    timing: TimingArgs,
    #[command(flatten)]
    pub device: DeviceArg,
}

impl TuneMatmulArgs {
    /// Returns the experiment with the rungs that may be the fastest, and the libraries.
    pub fn experiment(&self) -> Matmul {
        Matmul::tuning()
            .shapes(self.shape.iter().copied())
            .dtypes(self.dtype.iter().copied())
            .transposed(self.trans_a, self.trans_b)
    }

    /// Returns the bench with these settings, or an error if a setting is out of range.
    pub fn bench(&self) -> Result<Bench, String> {
        self.timing.bench(false)
    }
}

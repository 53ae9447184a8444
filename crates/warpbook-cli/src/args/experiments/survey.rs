//! Options of `warpbook survey`.

use crate::args::common::DeviceArg;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use warpbook::gemm::Tuning;

pub const SURVEY_EXAMPLES: &str = "\
Examples:
  warpbook survey matmul
  warpbook survey matmul --random 24 --seed 7
  warpbook survey matmul --strict --out survey.json
  warpbook survey matmul --tune quick --no-findings
  warpbook survey matmul --published --tune full --out survey.json

A ratio is cuBLASLt's time over Warpbook's: above 1, Warpbook is faster. \"To first\" compares with the algorithm that
cuBLASLt suggests first, \"to best\" with the fastest of 32. Both sides have a workspace of 64 MiB.";

#[derive(Debug, Args)]
pub struct SurveyArgs {
    #[command(subcommand)]
    pub what: SurveyCommand,
}

#[derive(Debug, Subcommand)]
pub enum SurveyCommand {
    /// Matrix products: sides from 16 to 16384, bf16 and fp16, the four transpositions.
    #[command(after_help = SURVEY_EXAMPLES)]
    Matmul(SurveyMatmulArgs),
}

#[derive(Debug, Args)]
pub struct SurveyMatmulArgs {
    /// Number of random products: a third with sides that are multiples of 8, a third with odd sides, the rest with multiples of 64.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub random: u32,
    /// Compare the published products of 16-bit types instead of random ones.
    #[arg(long, conflicts_with = "random")]
    pub published: bool,
    /// Seed of the shapes and the matrices. [default: drawn, and printed]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Kernels that may be timed at the first plan of a product: off, quick or full.
    #[arg(long, value_name = "TUNING", default_value_t = Tuning::Off)]
    pub tune: Tuning,
    /// Ignore the findings published for the device.
    #[arg(long)]
    pub no_findings: bool,
    /// File for every product with its times, as JSON.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Exit with 1 if a bound is missed, not only if a product is wrong.
    #[arg(long)]
    pub strict: bool,
    #[command(flatten)]
    pub device: DeviceArg,
}

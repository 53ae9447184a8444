//! `warpbook survey`.

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

Ratios are times of cuBLASLt over ours, above 1 where ours is faster. \"To first\" is against the algorithm that it
suggests first, \"to best\" against the fastest of 32, with a workspace of 64 MiB for both sides.";

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
    /// Number of products that are drawn: a third with sides that are multiples of 8, a third with odd ones, the rest with multiples of 64.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub random: u32,
    /// The published products of 16-bit types in place of random ones.
    #[arg(long, conflicts_with = "random")]
    pub published: bool,
    /// Seed of the shapes and the matrices. [default: drawn, and printed]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Kernels that the first plan of a product may time: off, quick or full.
    #[arg(long, value_name = "TUNING", default_value_t = Tuning::Off)]
    pub tune: Tuning,
    /// Choose without what is published for the device.
    #[arg(long)]
    pub no_findings: bool,
    /// Write every product with its times, as JSON.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Exit with 1 where a bound is missed, not only where a product is wrong.
    #[arg(long)]
    pub strict: bool,
    #[command(flatten)]
    pub device: DeviceArg,
}

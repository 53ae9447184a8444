//! Options for training on several ranks.

use super::command::CommandLine;
use crate::args::common::time;
use clap::Args;
use std::time::Duration;

#[derive(Debug, Args)]
pub struct RanksArgs {
    /// Train data-parallel on the first N GPUs of this machine: one process each; every batch is split among them, and gradients are summed.
    /// --batch is the size of the whole batch. Leave this out under torchrun, srun or mpirun, which start the processes themselves.
    #[arg(long, value_name = "N", conflicts_with = "ranks")]
    pub gpus: Option<usize>,
    /// Train data-parallel in N processes on the CPU.
    #[arg(long, value_name = "N")]
    pub ranks: Option<usize>,
    /// Type in which gradients travel between ranks on the CPU: fp32, bf16 or fp16. On GPUs they travel in the type that the precision keeps them in.
    #[arg(long, value_name = "fp32|bf16|fp16", default_value = "fp32", value_parser = ["fp32", "bf16", "fp16"])]
    pub gradients: String,
    /// MiB of gradients in a bucket: each is sent as soon as it is full, during the backward pass. The first bucket has at most 1 MiB.
    #[arg(long, value_name = "MIB", default_value_t = 25.0)]
    pub bucket: f64,
    /// Compute the statistics of batch normalisation over all ranks, not over each rank's part of the batch.
    #[arg(long)]
    pub sync_batch_norm: bool,
    /// End all ranks if one is silent for this long: 10m, or 90s. At the start, ranks wait for each other no longer than two minutes.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time, allow_hyphen_values = true)]
    pub rank_timeout: Duration,
}

/// The kind of devices that the requested ranks run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunsOn {
    Gpus,
    Cpu,
}

impl RanksArgs {
    /// Returns the requested number of ranks and their devices; `None` if the options leave both to a launcher.
    pub fn count(&self) -> Option<(RunsOn, usize)> {
        let on_gpus = self.gpus.map(|count| (RunsOn::Gpus, count));
        on_gpus.or(self.ranks.map(|count| (RunsOn::Cpu, count)))
    }

    /// Adds the options that differ from their defaults.
    pub fn add_to(&self, line: &mut CommandLine) {
        line.option("gpus", self.gpus);
        line.option("ranks", self.ranks);
        line.option("gradients", Some(&self.gradients).filter(|g| *g != "fp32"));
        line.option("bucket", Some(self.bucket.to_string()).filter(|b| b != "25"));
        let timeout = self.rank_timeout.as_secs_f64();
        line.option("rank-timeout", Some(format!("{timeout}s")).filter(|_| timeout != 600.0));
        line.flag("sync-batch-norm", self.sync_batch_norm);
    }
}

//! The command `warpbook train` on several ranks: the role of this process, and the launcher.

use crate::args::{RanksArgs, RunsOn};
use crate::failure::Failure;
use crate::output::{say, warn};
use crate::processes::{RankSettings, bucket_bytes, count_request, this_program_again, wire};
use crate::signals::on_request_to_end;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use warpbook::device::{Choice, Inventory};
use warpbook::nn::train::RanksOptions;
use warpbook::ranks::{Launcher as StartedBy, Placement};

/// The role of this process in a training.
pub enum Role {
    /// This process trains alone.
    Alone,
    /// This process starts this many ranks and waits for them.
    Launcher(usize),
    /// This process is one of several ranks.
    Rank(Placement),
}

impl Role {
    pub fn new(args: &RanksArgs) -> Result<Self, Failure> {
        let placement = Placement::from_environment()?;
        let asked = args.count();
        let name = if matches!(asked, Some((RunsOn::Gpus, _))) { "gpus" } else { "ranks" };
        match (placement, asked.map(|(_, count)| count)) {
            (_, Some(0)) => Err(Failure::usage(format!("--{name} 0: choose at least 1."))),
            // Warpbook's launcher passes its own options on to the ranks.
            (Some(p), Some(count)) if p.launcher != StartedBy::Warpbook || p.world != count => {
                Err(Failure::usage(format!(
                    "--{name} {count} starts ranks, and {} say that this process is rank {} of {} already: unset them. Or leave --{name} out under torchrun, \
                     srun or mpirun.",
                    p.launcher.variables(),
                    p.rank,
                    p.world
                )))
            }
            (Some(placement), _) => Ok(Self::Rank(placement)),
            (None, Some(count)) if count > 1 => Ok(Self::Launcher(count)),
            (None, _) => Ok(Self::Alone),
        }
    }
}

/// Returns an error if --gpus is given together with a CPU as the device.
pub fn ensure_one_kind(asked: Option<(RunsOn, usize)>, named: Choice) -> Result<(), Failure> {
    match (asked, named) {
        (Some((RunsOn::Gpus, count)), Choice::Cpu | Choice::Emulator) => Err(Failure::usage(format!(
            "--gpus {count} trains on GPUs, and --device or WARPBOOK_DEVICE chooses the CPU: leave out --gpus, or choose no device. --ranks {count} trains on \
             the CPU."
        ))),
        _ => Ok(()),
    }
}

/// Returns the device of a process that trains alone. --gpus 1 requires a GPU and fails without one, like --gpus 2.
pub fn device_alone(asked: Option<(RunsOn, usize)>, named: Choice) -> Choice {
    match (asked, named) {
        (Some((RunsOn::Gpus, _)), Choice::Best | Choice::Cpu) => Choice::Cuda(0),
        _ => named,
    }
}

/// Returns the settings for the ranks of a training.
pub fn settings(args: &RanksArgs) -> Result<RankSettings, Failure> {
    let options = RanksOptions {
        wire: wire(&args.gradients),
        bucket_bytes: bucket_bytes(args.bucket)?,
        synchronised_norm: args.sync_batch_norm,
    };
    Ok(RankSettings { options, timeout: args.rank_timeout })
}

/// A process that starts the ranks of a training.
pub struct Launcher {
    pub count: usize,
    pub on_gpus: bool,
}

impl Launcher {
    /// Starts this program again as the ranks, passes on their output, and returns when the last rank has ended.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let Self { count, on_gpus } = self;
        if on_gpus {
            let gpus = Inventory::cuda_devices().map_err(Failure::from)?.len();
            if count > gpus {
                return Err(Failure::usage(format!(
                    "--gpus {count}: there are {gpus} GPUs. `warpbook devices` lists them."
                )));
            }
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from).div_ceil(count);
        let launch = this_program_again(Vec::new(), count, threads)?;
        let (interrupted, asked) = (launch.interrupted.clone(), launch.interrupted.clone());
        on_request_to_end("Ctrl-C ends at once, without a checkpoint", move |asked| count_request(&interrupted, asked));
        let outcome = launch.run(&mut |line| {
            let text = format!("[rank {}] {}", line.rank, line.text);
            if line.is_error { warn(&text) } else { say(&text) }
        })?;
        if let Some(failed) = outcome.failed.as_ref().filter(|_| asked.load(Ordering::SeqCst) == 0) {
            warn(failed);
        }
        Ok(ExitCode::from(u8::try_from(outcome.code).unwrap_or(1)))
    }
}

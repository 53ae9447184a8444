//! `warpbook train` as several ranks: as their launcher, and as one of them.

use crate::args::RanksArgs;
use crate::failure::{Failure, OTHER_RANK};
use crate::output::{complain, say};
use crate::signals::{Asked, on_request_to_end};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use warpbook::device::{Choice, Inventory, NCCL_SETTINGS, exit_at_once};
use warpbook::nn::train::{Ranks, RanksOptions};
use warpbook::ranks::{Group, Launch, Launcher, Limits, Placement, Wire, end_with_launcher, launched_listener};

/// What this process is.
pub enum Role {
    /// One that trains alone.
    Alone,
    /// One that starts so many ranks and waits for them.
    Launcher(usize),
    /// One of several ranks.
    Rank(Placement),
}

impl Role {
    pub fn of(args: &RanksArgs) -> Result<Self, Failure> {
        let placement = Placement::from_environment()?;
        let (name, asked) = match (args.gpus, args.ranks) {
            (Some(count), _) => ("gpus", Some(count)),
            (None, count) => ("ranks", count),
        };
        match (placement, asked) {
            (_, Some(0)) => Err(Failure::usage(format!("--{name} 0: choose 1 at least."))),
            // Our own launcher gives its processes the options that it was given.
            (Some(p), Some(count)) if p.launcher != Launcher::Warpbook || p.world != count => {
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

/// The device of a rank.
pub fn device(p: &Placement, args: &RanksArgs, said: Choice) -> Result<Choice, Failure> {
    if args.ranks.is_some() {
        return Ok(Choice::Cpu);
    }
    let gpus = Inventory::cuda_devices().unwrap_or_default().len();
    let numbered = match said {
        Choice::Best => gpus > 0 || args.gpus.is_some(),
        Choice::Cuda(_) => args.gpus.is_some() || p.launcher == Launcher::Warpbook,
        Choice::Cpu => args.gpus.is_some(),
    };
    if !numbered {
        return Ok(if said == Choice::Best { Choice::Cpu } else { said });
    }
    match gpus {
        // A launcher that shows each process its own GPU only.
        1 if p.local_rank > 0 => Ok(Choice::Cuda(0)),
        gpus if p.local_rank < gpus => Ok(Choice::Cuda(p.local_rank as u32)),
        gpus => Err(Failure::usage(format!(
            "Rank {} is number {} of its machine, counted from 0, which has {gpus} GPU{}: start fewer ranks there.",
            p.rank,
            p.local_rank,
            if gpus == 1 { "" } else { "s" }
        ))),
    }
}

/// An error if --gpus is given together with a device that is the CPU.
pub fn ensure_one_kind(args: &RanksArgs, said: Choice) -> Result<(), Failure> {
    match (args.gpus, said) {
        (Some(count), Choice::Cpu) => Err(Failure::usage(format!(
            "--gpus {count} trains on GPUs, and --device or WARPBOOK_DEVICE chooses the CPU: leave out --gpus, or choose no device. --ranks {count} trains on \
             the CPU."
        ))),
        _ => Ok(()),
    }
}

/// The device of a process that trains alone. --gpus 1 asks for a GPU, and without one it fails as --gpus 2 does.
pub fn device_alone(args: &RanksArgs, said: Choice) -> Choice {
    match (args.gpus, said) {
        (None, said) | (Some(_), said @ Choice::Cuda(_)) => said,
        (Some(_), _) => Choice::Cuda(0),
    }
}

/// This program's own file.
pub fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|e| {
        Failure::usage(format!("This program's own file is not known, so it cannot be started again: {e}."))
    })
}

/// This program as so many ranks of so many threads each, with its own arguments and `more`.
pub fn this_program_again(more: Vec<OsString>, count: usize, threads: usize) -> Result<Launch, Failure> {
    let mut launch = Launch::new(this_program()?, std::env::args_os().skip(1).chain(more), count);
    // Unless the user says otherwise.
    let of_nccl = NCCL_SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned()));
    launch.environment =
        std::iter::once(("RAYON_NUM_THREADS".to_owned(), threads.to_string())).chain(of_nccl).collect();
    Ok(launch)
}

/// Counts requests to end, of which a second one ends all at once: of those that come by themselves only the first.
pub fn count_request(interrupted: &AtomicU32, asked: Asked) {
    match asked {
        Asked::ByHand => interrupted.fetch_add(1, Ordering::SeqCst),
        Asked::BySystem => interrupted.fetch_max(1, Ordering::SeqCst),
    };
}

/// Starts this program again as so many ranks, passes on what they say, and ends when the last of them has.
pub fn launch(count: usize, on_gpus: bool) -> Result<ExitCode, Failure> {
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
        if line.is_error { complain(&text) } else { say(&text) }
    })?;
    if let Some(failed) = outcome.failed.as_ref().filter(|_| asked.load(Ordering::SeqCst) == 0) {
        complain(failed);
    }
    Ok(ExitCode::from(u8::try_from(outcome.code).unwrap_or(1)))
}

/// What a rank that hears that the work is over has to end by itself: less than its launcher gives it, so that it can still say why.
const GRACE: Duration = Duration::from_secs(5);

/// Meets the other ranks and works with them. An error here ends them too, and so does a rank that is lost, wherever this one is.
pub fn work(
    placement: &Placement,
    args: &RanksArgs,
    work: impl FnOnce(&Ranks) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    end_with_launcher();
    if !(args.bucket > 0.0 && args.bucket <= 65_536.0) {
        return Err(Failure::usage(format!("--bucket {}: choose MiB above 0, up to 65536.", args.bucket)));
    }
    let options = RanksOptions {
        wire: match args.gradients.as_str() {
            "bf16" => Wire::Bf16,
            "fp16" => Wire::F16,
            _ => Wire::F32,
        },
        bucket_bytes: (args.bucket * f64::from(1 << 20)) as usize,
        synchronised_norm: args.sync_batch_norm,
    };
    let limits = Limits::stall_after(args.rank_timeout);
    let group = Group::join_telling(placement, limits, launched_listener()?, complain)?;
    let aborter = group.aborter();
    std::thread::spawn(move || {
        while !aborter.has_finished() {
            if let Some(why) = aborter.why_within(Duration::from_secs(3600)) {
                std::thread::sleep(GRACE);
                complain(&why);
                exit_at_once(OTHER_RANK);
            }
        }
    });
    let ranks = Ranks::new(Box::new(group), options);
    let done = work(&ranks);
    match &done {
        Ok(_) => ranks.finish().map_err(crate::infer::failure)?,
        Err(failure) => ranks.aborter().abort(&failure.sentence),
    }
    done
}

//! A process that is one of several ranks: its device, and its work with the other ranks.

use crate::args::RunsOn;
use crate::failure::{Failure, OTHER_RANK};
use crate::output::warn;
use std::process::ExitCode;
use std::time::Duration;
use warpbook::device::{Choice, Inventory, exit_at_once};
use warpbook::nn::train::{Ranks, RanksOptions};
use warpbook::ranks::{Group, Launcher, Limits, Placement, Wire, end_with_launcher, launched_listener};

/// Time for a rank to end by itself after the work. It is shorter than the launcher's limit, so that the rank can still
/// print the reason.
const GRACE: Duration = Duration::from_secs(5);

/// Settings for working with other ranks.
#[derive(Debug, Clone, Copy)]
pub struct RankSettings {
    pub options: RanksOptions,
    /// Time after which a missing rank counts as lost.
    pub timeout: Duration,
}

/// Converts the size of a bucket from MiB to bytes.
pub fn bucket_bytes(mib: f64) -> Result<usize, Failure> {
    if !(mib > 0.0 && mib <= 65_536.0) {
        return Err(Failure::usage(format!("--bucket {mib}: choose MiB above 0, up to 65536.")));
    }
    Ok((mib * f64::from(1 << 20)) as usize)
}

/// Returns the type with this name for exchanged gradients; the command line allows no other names.
pub fn wire(name: &str) -> Wire {
    match name {
        "bf16" => Wire::Bf16,
        "fp16" => Wire::F16,
        _ => Wire::F32,
    }
}

/// Returns a rank's device, as requested on the command line or as assigned by another launcher; `named` is the choice
/// of --device.
pub fn device_of(p: &Placement, asked: Option<RunsOn>, named: Choice) -> Result<Choice, Failure> {
    if asked == Some(RunsOn::Cpu) {
        return Ok(Choice::Cpu);
    }
    let gpus = Inventory::cuda_devices().unwrap_or_default().len();
    let on_gpus = asked == Some(RunsOn::Gpus);
    let numbered = match named {
        Choice::Best => gpus > 0 || on_gpus,
        Choice::Cuda(_) => on_gpus || p.launcher == Launcher::Warpbook,
        Choice::Cpu | Choice::Emulator => on_gpus,
    };
    if !numbered {
        return Ok(if named == Choice::Best { Choice::Cpu } else { named });
    }
    match gpus {
        // Some launchers show each process only its own GPU.
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

/// Connects to the other ranks and works with them. An error on any rank, or a lost rank, ends all of them.
pub fn work(
    placement: &Placement,
    settings: &RankSettings,
    work: impl FnOnce(&Ranks) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    end_with_launcher();
    let limits = Limits::stall_after(settings.timeout);
    let group = Group::join_telling(placement, limits, launched_listener()?, warn)?;
    let aborter = group.aborter();
    std::thread::spawn(move || {
        while !aborter.has_finished() {
            if let Some(why) = aborter.why_within(Duration::from_secs(3600)) {
                std::thread::sleep(GRACE);
                warn(&why);
                exit_at_once(OTHER_RANK);
            }
        }
    });
    let ranks = Ranks::new(Box::new(group), settings.options);
    let done = work(&ranks);
    match &done {
        Ok(_) => ranks.finish()?,
        Err(failure) => ranks.aborter().abort(&failure.sentence),
    }
    done
}

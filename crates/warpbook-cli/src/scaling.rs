//! The command `warpbook scaling`, both as the launcher of ranks and as a rank.

use crate::args::{RunsOn, ScalingArgs};
use crate::failure::{Failure, INTERRUPTED, RUNG_FAILED, USAGE};
use crate::files::{Files, Kind, RecordWriter, print_written, reserve};
use crate::output::{say, warn};
use crate::processes::{self, RankSettings, TemporaryFolder, bucket_bytes, count_requests_to_end, wire};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use warpbook::Lab;
use warpbook::device::{Choice, Inventory, write_atomic};
use warpbook::nn::train::RanksOptions;
use warpbook::ranks::{Placement, Wire, end_with_launcher};
use warpbook::scaling::{Measured, PyTorch, Scaling, scaling_table};

/// Measures training steps on 1 to N ranks.
pub fn scaling(args: &ScalingArgs) -> Result<ExitCode, Failure> {
    match &args.worker {
        Some(file) => work(args, file),
        None => launch(args),
    }
}

/// Returns the experiment with the settings.
fn experiment(args: &ScalingArgs) -> Result<Scaling, Failure> {
    let most = args.gpus.or(args.ranks).unwrap_or(1);
    if most == 0 || most > 64 {
        return Err(Failure::usage(format!("{most} ranks: choose from 1 to 64.")));
    }
    let bucket_bytes = bucket_bytes(args.bucket)?;
    let mut scaling = Scaling::new(most)
        .networks(args.network.iter().copied())
        .growths(args.growth.iter().copied())
        .precisions(args.precision.iter().copied())
        .gradients(args.gradients.iter().map(|name| wire(name)))
        .options(RanksOptions { bucket_bytes, ..RanksOptions::default() })
        .features(args.features)
        .checked_steps(args.checked_steps)
        .one_process(!args.no_one_process)
        .timelines(!args.no_timeline);
    if !args.batch.is_empty() {
        scaling = scaling.batches(args.batch.iter().copied());
    }
    if args.steps.is_some() || args.samples.is_some() {
        let [steps, samples] = if args.gpus.is_some() { [100, 15] } else { [4, 5] };
        scaling = scaling.timed(args.steps.unwrap_or(steps), args.samples.unwrap_or(samples));
    }
    if let Some(folder) = &args.data {
        scaling = scaling.data(folder);
    }
    Ok(if args.synthetic { scaling.synthetic() } else { scaling })
}

fn choice(args: &ScalingArgs) -> Choice {
    if args.gpus.is_some() { Choice::Cuda(0) } else { Choice::Cpu }
}

/// Measures as one of several ranks, or as the only process.
fn work(args: &ScalingArgs, file: &Path) -> Result<ExitCode, Failure> {
    let scaling = experiment(args)?;
    let mut tell = |m: &Measured| say(&m.line());
    let Some(placement) = Placement::from_environment()? else {
        end_with_launcher();
        let lab = Lab::on(choice(args))?;
        let measured = if args.in_one_process {
            scaling.work_in_one_process(&lab, &mut tell)?
        } else {
            scaling.work(&lab, None, &mut tell)?
        };
        leave(&measured, file)?;
        return Ok(ExitCode::SUCCESS);
    };
    let asked = if args.gpus.is_some() { RunsOn::Gpus } else { RunsOn::Cpu };
    let device = processes::device_of(&placement, Some(asked), Choice::Best)?;
    // Each measured way of training sets its own type for exchanged gradients.
    let options = RanksOptions { wire: Wire::F32, bucket_bytes: bucket_bytes(args.bucket)?, synchronised_norm: false };
    let settings = RankSettings { options, timeout: args.rank_timeout };
    processes::work(&placement, &settings, |ranks| {
        let lab = Lab::on(device)?;
        let is_first = ranks.rank() == 0;
        let measured = scaling.work(&lab, Some(ranks), &mut |m| {
            if is_first {
                tell(m);
            }
        })?;
        if is_first {
            leave(&measured, file)?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn leave(measured: &[Measured], file: &Path) -> Result<(), Failure> {
    let refused = |why: String| Failure::usage(format!("{} cannot be written: {why}.", file.display()));
    let text = serde_json::to_vec(measured).map_err(|e| refused(e.to_string()))?;
    write_atomic(file, &text).map_err(|e| refused(e.to_string()))
}

/// Starts this program again with each number of ranks, one after the other, and merges the results into a record.
fn launch(args: &ScalingArgs) -> Result<ExitCode, Failure> {
    let scaling = experiment(args)?;
    let mut files = Files::reading("--pytorch", &args.pytorch);
    let path = match &args.out {
        Some(path) => files.output("--out", path, Kind::Record)?,
        None => reserve(Path::new(""), "scaling", ["json"]).map(|[path]| path)?,
    };
    let others = args.pytorch.iter().map(PyTorch::read).collect::<Result<Vec<_>, _>>()?;
    if let Some(count) = args.gpus {
        let gpus = Inventory::cuda_devices()?.len();
        if count > gpus {
            return Err(Failure::usage(format!(
                "--gpus {count}: there are {gpus} GPUs. `warpbook devices` lists them; --ranks {count} measures on the CPU."
            )));
        }
    }
    let threads = {
        let lab = Lab::on(choice(args))?;
        scaling.validate(&lab)?;
        scaling.threads_a_rank(&lab)
    };
    let (folder, interrupted) = (TemporaryFolder::new("scaling")?, count_requests_to_end());
    let mut launches: Vec<(usize, bool)> = scaling.worlds().iter().map(|world| (*world, false)).collect();
    launches.extend((!args.no_one_process).then_some((1, true)));
    let (mut measured, mut failures, mut code) = (Vec::new(), Vec::new(), 0);
    for (world, in_one_process) in launches {
        let file = folder.path().join(format!("{world}-{in_one_process}.json"));
        let what = match (world, in_one_process) {
            (_, true) => "One process for all devices".to_owned(),
            (1, _) => "1 rank".to_owned(),
            (n, _) => format!("{n} ranks"),
        };
        let ended = start(world, (&file, in_one_process), threads, &interrupted)?;
        if interrupted.load(Ordering::SeqCst) > 0 {
            code = i32::from(INTERRUPTED);
            failures.push("Interrupted: what was measured until then is here.".to_owned());
            break;
        }
        let read = fs::read(&file).ok().and_then(|text| serde_json::from_slice::<Vec<Measured>>(&text).ok());
        match read.filter(|_| ended.is_ok()) {
            Some(read) => measured.extend(read),
            None => {
                let (why, of_rank) = ended.err().unwrap_or(("It left nothing.".into(), i32::from(RUNG_FAILED)));
                warn(&format!("{what}: {why}"));
                failures.push(format!("{what} could not be measured: {why}"));
                code = of_rank.max(1);
            }
        }
    }
    let lab = Lab::on(choice(args))?;
    let command = std::iter::once("warpbook".to_owned()).chain(std::env::args().skip(1)).collect::<Vec<_>>().join(" ");
    let mut run = scaling.record(&lab, &measured, command, "a process");
    run.notes.extend(failures);
    for other in &others {
        scaling.absorb(&mut run, other)?;
    }
    say(&format!("\n{}", scaling_table(&run).text()));
    run.notes.iter().for_each(|note| say(note));
    let written = RecordWriter::new(path).finish(&run);
    print_written(&written);
    let (_, _, failed) = run.counts();
    Ok(ExitCode::from(match code {
        0 if written.is_err() => USAGE,
        0 if failed > 0 => RUNG_FAILED,
        code => u8::try_from(code).unwrap_or(RUNG_FAILED),
    }))
}

/// Runs `ranks` ranks until they end. If they fail, returns the reason and the exit code.
fn start(
    world: usize,
    (file, in_one_process): (&Path, bool),
    threads: usize,
    interrupted: &Arc<AtomicU32>,
) -> Result<Result<(), (String, i32)>, Failure> {
    let mut more: Vec<OsString> = vec!["--worker".into(), file.into()];
    more.extend(in_one_process.then(|| "--in-one-process".into()));
    let mut launch = processes::this_program_again(more, world, threads)?;
    launch.interrupted = interrupted.clone();
    let mut last = String::new();
    let outcome = launch.run(&mut |line| {
        if line.is_error {
            warn(&format!("[rank {}] {}", line.rank, line.text));
            last.clone_from(&line.text);
        } else {
            say(&line.text);
        }
    })?;
    Ok(match outcome.code {
        0 => Ok(()),
        code => Err((format!("{} {last}", outcome.failed.unwrap_or_default()).trim().to_owned(), code)),
    })
}

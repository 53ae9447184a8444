//! The command `warpbook attempt`, and its part that runs in a separate process.

use crate::args::{AttemptArgs, WorkArgs};
use crate::failure::{Failure, RUNG_FAILED, USAGE};
use crate::files::{Files, Kind, RecordWriter};
use crate::output::{say, warn};
use std::process::ExitCode;
use warpbook::device::{Choice, CudaDevice, exit_at_once};
use warpbook::{Attempts, Experiment, Guide, Lab, LiveKernel, Regression, Request, Show, experiments, write_record};

/// Compiles, tries and times a user's kernel.
pub fn attempt(args: &AttemptArgs) -> Result<ExitCode, Failure> {
    let (experiment, live) = find_rung(&args.like)?;
    if let (Some(_), Some(option)) = (&experiment, args.of_products_only()) {
        let like = &args.like;
        return Err(Failure::usage(format!(
            "--{option} is for the matrix product; {like} is tried at its own problem."
        )));
    }
    let Some(file) = &args.file else {
        say(live.text().trim_end());
        return Ok(ExitCode::SUCCESS);
    };
    let live = args.settings(live.file(file)?)?;
    let out = Files::reading("the kernel", [file]).optional("--out", args.out.as_deref(), Kind::Record)?;
    let choice = if args.emulate { Choice::Emulator } else { args.device.choice()? };
    let lab = Lab::on(choice)?.with_bench(args.bench().map_err(Failure::usage)?);
    let attempt = match &experiment {
        None => lab.attempt(&live)?,
        Some(experiment) => {
            let plan = experiment.plan(None)?;
            let problem = plan.main_problem.or_else(|| plan.problems.into_iter().next());
            let problem = problem.ok_or_else(|| Failure::usage(format!("{} has no problem.", args.like)))?;
            lab.attempt_at(&**experiment, &problem, &live)?
        }
    };
    say(&attempt.text());
    let mut code = if attempt.error().is_some() { RUNG_FAILED } else { 0 };
    match out.map(|out| RecordWriter::new(out).finish(attempt.run())) {
        Some(Ok(path)) => say(&format!("Record: {}", path.display())),
        Some(Err(why)) => {
            warn(&why);
            code = code.max(USAGE);
        }
        None => {}
    }
    Ok(end(&lab, code))
}

/// Returns the rung that a kernel replaces, with its experiment for `regression/ID` and for the guide's `PAIR/ID`; the
/// experiment is `None` for a rung of the matrix product.
fn find_rung(like: &str) -> Result<(Option<Box<dyn Experiment>>, LiveKernel), Failure> {
    let Some((group, id)) = like.split_once('/') else { return Ok((None, LiveKernel::for_rung(like)?)) };
    let experiment: Box<dyn Experiment> = match group {
        "regression" => Box::new(Regression::new()),
        "matmul" => return Ok((None, LiveKernel::for_rung(id)?)),
        "convolution" | "training" => {
            return Err(Failure::usage(format!(
                "A kernel of {group} cannot be tried by itself: it is one of many. Try yours in place of a rung of the matrix product, of \
                 regression/ID or of a pair of the guide, PAIR/ID."
            )));
        }
        pair => Box::new(Guide::pair(pair)?),
    };
    let rungs = experiment.rungs();
    let known = || rungs.iter().filter(|rung| !rung.kernels().is_empty());
    let Some(rung) = known().find(|rung| rung.id == id) else {
        let ids: Vec<&str> = known().map(|rung| &*rung.id).collect();
        return Err(Failure::usage(format!("{group} has no rung `{id}` with a kernel. It has {}.", ids.join(", "))));
    };
    Ok((Some(experiment), LiveKernel::variant(rung)?))
}

/// Runs the request of another process and writes the record.
pub fn work(args: &WorkArgs) -> Result<ExitCode, Failure> {
    let request = Request::read(&args.request)?;
    let lab = request.lab()?;
    let run = request.run(&lab, &experiments())?;
    write_record(&run, &args.out)?;
    Ok(end(&lab, 0))
}

/// Returns the exit code, or ends the process at once if a kernel is still running.
fn end(lab: &Lab, code: u8) -> ExitCode {
    if lab.device().cuda().is_some_and(CudaDevice::is_abandoned) {
        exit_at_once(code);
    }
    ExitCode::from(code)
}

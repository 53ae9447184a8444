//! `warpbook attempt`, and the part that runs in a separate process.

use crate::args::{AttemptArgs, WorkArgs};
use crate::failure::{Failure, RUNG_FAILED, USAGE};
use crate::output::{complain, say};
use crate::save::{Files, Keeper, Kind};
use std::process::ExitCode;
use warpbook::device::{CudaDevice, exit_at_once};
use warpbook::{Lab, LiveKernel, Request, Show, write_record};

/// Compiles a kernel of somebody's own, tries it and times it.
pub fn attempt(args: &AttemptArgs) -> Result<ExitCode, Failure> {
    let live = LiveKernel::of(&args.like)?;
    let Some(file) = &args.file else {
        say(live.text().trim_end());
        return Ok(ExitCode::SUCCESS);
    };
    let live = args.settings(live.file(file)?)?;
    let out = Files::reading("the kernel", [file]).optional("--out", args.out.as_deref(), Kind::Record)?;
    let lab = Lab::on(args.device.choice()?)?.with_bench(args.bench().map_err(Failure::usage)?);
    let attempt = lab.attempt(&live)?;
    say(&attempt.text());
    let mut code = if attempt.error().is_some() { RUNG_FAILED } else { 0 };
    match out.map(|out| Keeper::new(out).finish(attempt.run())) {
        Some(Ok(path)) => say(&format!("Record: {}", path.display())),
        Some(Err(why)) => {
            complain(&why);
            code = code.max(USAGE);
        }
        None => {}
    }
    Ok(end(&lab, code))
}

/// Does what another process asks for, and writes the record.
pub fn work(args: &WorkArgs) -> Result<ExitCode, Failure> {
    let request = Request::read(&args.request)?;
    let lab = request.lab()?;
    let run = request.run(&lab)?;
    write_record(&run, &args.out)?;
    Ok(end(&lab, 0))
}

/// The exit code, or the end where a kernel still runs.
fn end(lab: &Lab, code: u8) -> ExitCode {
    if lab.device().cuda().is_some_and(CudaDevice::is_abandoned) {
        exit_at_once(code);
    }
    ExitCode::from(code)
}

//! `warpbook attempt`, and the part that runs in a separate process.

use crate::args::{AttemptArgs, WorkArgs};
use crate::failure::{Failure, RUNG_FAILED};
use crate::output::say;
use crate::save::check_writable;
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
    let source = std::fs::read_to_string(file)
        .map_err(|e| Failure::usage(format!("{} cannot be read: {e}.", file.display())))?;
    let live = args.settings(live.source(source))?;
    let out = args.out.as_deref().map(check_writable).transpose()?;
    let lab = Lab::on(args.device.choice()?)?.with_bench(args.bench().map_err(Failure::usage)?);
    let attempt = lab.attempt(&live)?;
    say(&attempt.text());
    if let Some(out) = out {
        let path = write_record(attempt.run(), out)?;
        say(&format!("Record: {}", path.display()));
    }
    Ok(end(&lab, if attempt.error().is_some() { RUNG_FAILED } else { 0 }))
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

//! `warpbook tune`.

use super::progress::Progress;
use crate::args::TuneMatmulArgs;
use crate::failure::{Failure, RUNG_FAILED, USAGE};
use crate::output::{say, warn};
use std::process::ExitCode;
use warpbook::device::Error;
use warpbook::gemm::{Finding, Findings};
use warpbook::kernels::matmul::{shape_of, transposed};
use warpbook::record::{Outcome, Problem, Run};
use warpbook::{Event, Lab, figures};

/// Times every rung and tile that may be the fastest, and keeps the fastest of each product for this device.
pub fn matmul(args: &TuneMatmulArgs) -> Result<ExitCode, Failure> {
    let experiment = args.experiment();
    let lab = Lab::on(args.device.choice()?)?.with_bench(args.bench().map_err(Failure::usage)?);
    let device = lab.device().info().clone();
    if lab.device().cuda().is_none() {
        return Err(Error::NeedsCuda("Tuning").into());
    }
    let Some(path) = Findings::path(&device) else {
        return Err(Failure::usage(
            "There is no place for what is found: WARPBOOK_CACHE is empty, or no home folder is known.",
        ));
    };
    let progress = Progress::new();
    let lab = lab.with_listener({
        let progress = progress.clone();
        move |event: &Event| progress.show(event)
    });
    let outcome = lab.run(&experiment);
    progress.end();
    let run = outcome?;
    let mut findings = Findings::of(&device);
    for problem in run.problems() {
        say(&verdict(&run, problem, &mut findings));
    }
    let (_, _, failed) = run.counts();
    if let Err(why) = findings.write(&path) {
        warn(&format!("{} cannot be written: {why}. What was found is lost.", path.display()));
        return Ok(ExitCode::from(USAGE));
    }
    say(&format!("Kept in {}: products of these sizes use it from now on.", path.display()));
    Ok(ExitCode::from(if failed > 0 { RUNG_FAILED } else { 0 }))
}

/// Keeps our fastest rung, and tells how it compares with the libraries.
fn verdict(run: &Run, problem: &Problem, findings: &mut Findings) -> String {
    let Some((best, us)) = run.fastest_kernels(problem) else {
        return format!("{}: nothing was measured.", problem.label);
    };
    let (Some((m, n, k)), Some(tile)) = (shape_of(problem), &best.tile) else {
        return format!("{}: nothing to keep.", problem.label);
    };
    let (trans_a, trans_b) = transposed(problem);
    let of_problem = run.measurements.iter().filter(|m| m.problem == *problem);
    let tried = of_problem.filter(|m| !matches!(m.outcome, Outcome::Skipped { .. })).map(|m| m.rung.clone()).collect();
    let side = |v: u64| u32::try_from(v).unwrap_or(u32::MAX);
    findings.keep(Finding {
        m: side(m),
        n: side(n),
        k: side(k),
        dtype: problem.dtype,
        trans_a,
        trans_b,
        rung: best.rung.clone(),
        tile: tile.clone(),
        us,
        tried,
    });
    let rate = best.flops_per_s().map(|r| format!(", {:.1} TFLOP/s", r * 1e-12)).unwrap_or_default();
    let against = run.fastest_library(problem).map_or_else(String::new, |(library, library_us)| {
        format!("; {:.3} of the speed of {}", library_us / us, library.rung)
    });
    format!("{}: {} with {tile}, {}{rate}{against}.", problem.label, best.rung, figures::time(us))
}

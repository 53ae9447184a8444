//! `warpbook tune`.

use crate::args::TuneMatmulArgs;
use crate::failure::{Failure, RUNG_FAILED, USAGE};
use crate::output::{complain, say};
use crate::progress::Progress;
use std::process::ExitCode;
use warpbook::device::Error;
use warpbook::nn::gemm::{Finding, Findings};
use warpbook::record::{Problem, Run, Runner};
use warpbook::{Event, Experiment, Lab, figures};

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
    let rungs = Experiment::rungs(&experiment);
    let lab = lab.with_listener({
        let progress = progress.clone();
        move |event: &Event| progress.show(event, &rungs)
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
        complain(&format!("{} cannot be written: {why}. What was found is lost.", path.display()));
        return Ok(ExitCode::from(USAGE));
    }
    say(&format!("Kept in {}: products of these sizes use it from now on.", path.display()));
    Ok(ExitCode::from(if failed > 0 { RUNG_FAILED } else { 0 }))
}

/// Keeps the fastest rung of ours, and says how it stands beside the libraries.
fn verdict(run: &Run, problem: &Problem, findings: &mut Findings) -> String {
    let valid = || run.measurements.iter().filter(|m| m.problem == *problem && m.is_valid());
    let time = |m: &&warpbook::record::Measurement| m.median_us().unwrap_or(f64::INFINITY);
    let fastest = |library: bool| {
        let is_library = |id: &str| run.rung(id).is_some_and(|r| matches!(r.runner, Runner::Library(_)));
        valid().filter(|m| is_library(&m.rung) == library).min_by(|a, b| time(a).total_cmp(&time(b)))
    };
    let Some(best) = fastest(false) else { return format!("{}: nothing was measured.", problem.label()) };
    let (Problem::Matmul { m, n, k, dtype, trans_a, trans_b, .. }, Some(tile), Some(us)) =
        (problem, &best.tile, best.median_us())
    else {
        return format!("{}: nothing to keep.", problem.label());
    };
    let side = |v: u64| u32::try_from(v).unwrap_or(u32::MAX);
    findings.keep(Finding {
        m: side(*m),
        n: side(*n),
        k: side(*k),
        dtype: *dtype,
        trans_a: *trans_a,
        trans_b: *trans_b,
        rung: best.rung.clone(),
        tile: tile.clone(),
        us,
    });
    let rate = best.flops_per_s().map(|r| format!(", {:.1} TFLOP/s", r * 1e-12)).unwrap_or_default();
    let against = fastest(false).zip(fastest(true)).map_or_else(String::new, |(ours, library)| {
        format!("; {:.3} of the speed of {}", time(&library) / time(&ours), library.rung)
    });
    format!("{}: {} with {tile}, {}{rate}{against}.", problem.label(), best.rung, figures::time(us))
}

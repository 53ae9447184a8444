//! The command `warpbook tune`.

use super::progress::Progress;
use crate::args::TuneMatmulArgs;
use crate::failure::{Failure, RUNG_FAILED, USAGE};
use crate::output::{say, warn};
use std::path::Path;
use std::process::ExitCode;
use warpbook::device::Error;
use warpbook::gemm::{Finding, Product, keep_finding};
use warpbook::record::{Problem, Run};
use warpbook::{Event, Lab, figures};

/// Times every rung and tile that may be the fastest, and stores the fastest for each product on this device.
pub fn matmul(args: &TuneMatmulArgs) -> Result<ExitCode, Failure> {
    let experiment = args.experiment();
    let lab = Lab::on(args.device.choice()?)?.with_bench(args.bench().map_err(Failure::usage)?);
    let Some(device) = lab.device().cuda().cloned() else { return Err(Error::NeedsCuda("Tuning").into()) };
    if warpbook::record::cache_folder().is_none() {
        return Err(Failure::usage(
            "The findings cannot be stored: WARPBOOK_CACHE is empty, or the home folder is unknown.",
        ));
    }
    let progress = Progress::new();
    let lab = lab.with_listener({
        let progress = progress.clone();
        move |event: &Event| progress.show(event)
    });
    let outcome = lab.run(&experiment);
    progress.end();
    let run = outcome?;
    let (_, _, failed) = run.counts();
    let mut kept = None;
    for problem in run.problems() {
        let (text, found) = verdict(&run, problem);
        say(&text);
        let Some((product, finding)) = found else { continue };
        match keep_finding(&device, &product, &finding) {
            Ok(path) => kept = path.parent().map(Path::to_path_buf),
            Err(why) => {
                warn(&format!("What was found is lost: it cannot be written, {why}."));
                return Ok(ExitCode::from(USAGE));
            }
        }
    }
    if let Some(folder) = kept {
        say(&format!("Kept in {}: products of these sizes use it from now on.", folder.display()));
    }
    Ok(ExitCode::from(if failed > 0 { RUNG_FAILED } else { 0 }))
}

/// Returns the fastest of Warpbook's rungs, and a sentence that compares it with the libraries.
fn verdict(run: &Run, problem: &Problem) -> (String, Option<(Product, Finding)>) {
    let Some((best, us)) = run.fastest_kernels(problem) else {
        return (format!("{}: nothing was measured.", problem.label), None);
    };
    let (Some(product), Some(tile)) = (Product::try_from(problem).ok(), &best.tile) else {
        return (format!("{}: nothing to keep.", problem.label), None);
    };
    let rate = best.flops_per_s().map(|r| format!(", {:.1} TFLOP/s", r * 1e-12)).unwrap_or_default();
    let against = run.fastest_library(problem).map_or_else(String::new, |(library, library_us)| {
        format!("; {:.3} of the speed of {}", library_us / us, library.rung)
    });
    let text = format!("{}: {} with {tile}, {}{rate}{against}.", problem.label, best.rung, figures::time(us));
    (text, Some((product, Finding::new(&product, &best.rung, tile, us))))
}

//! The command `warpbook survey`.

use crate::args::SurveyMatmulArgs;
use crate::failure::{Failure, RUNG_FAILED};
use crate::files::{Files, Kind, write_finished};
use crate::output::{one_line, say, warn};
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use warpbook::figures;
use warpbook::survey::{Compared, Picked, Report, Survey};
use warpbook::{Event, Lab};

/// Compares the kernels that `gemm()` chooses with cuBLASLt for random products.
pub fn matmul(args: &SurveyMatmulArgs) -> Result<ExitCode, Failure> {
    let out = Files::default().optional("--out", args.out.as_deref(), Kind::Survey)?;
    let lab = Lab::on(args.device.choice()?)?.with_bench(Survey::bench()).with_listener(|event: &Event| {
        if let Event::Preparing(what) = event {
            warn(what);
        }
    });
    let seed = args.seed.unwrap_or_else(drawn_seed);
    let repeats = if args.published { "--published".to_owned() } else { format!("--random {}", args.random) };
    say(&format!("Seed {seed}: {repeats} --seed {seed} repeats these products."));
    let begun = Instant::now();
    let survey = Survey::new(args.random, seed).tuning(args.tune);
    let survey = if args.published { survey.published() } else { survey };
    let survey = if args.no_findings { survey.without_findings() } else { survey };
    let report = survey.run(&lab, |compared| say(&line(compared)))?;
    say(&format!("\n{}\n{:.0} s in all.", report.text().trim_end(), begun.elapsed().as_secs_f64()));
    if let Some(path) = out {
        write(&report, &path)?;
        say(&format!("Written to {}.", path.display()));
    }
    let missed = report.bounds().iter().any(|b| !b.holds());
    let failed = report.failed().next().is_some() || (args.strict && missed);
    Ok(ExitCode::from(if failed { RUNG_FAILED } else { 0 }))
}

/// Returns a new seed at every call, short enough to type.
fn drawn_seed() -> u64 {
    RandomState::new().hash_one(std::process::id()) % 1_000_000_000
}

/// Describes a product in one line.
fn line(c: &Compared) -> String {
    let choice = match &c.picked {
        Some(Picked { rung, tile }) => format!("{rung} with the tile {tile}"),
        None => "no choice".to_owned(),
    };
    match (&c.error, c.times) {
        (Some(error), _) => format!("{}: {choice}: FAILED: {}", c.drawn, one_line(error)),
        (None, Some(t)) => format!(
            "{}: {:.3} to best, {:.3} to first; {}, the best of {} {}, the first {}; {choice}",
            c.drawn,
            t.to_best(),
            t.to_first(),
            figures::time(t.ours_us),
            c.algorithms,
            figures::time(t.best_us),
            figures::time(t.first_us),
        ),
        (None, None) => format!("{}: not timed", c.drawn),
    }
}

fn write(report: &Report, path: &Path) -> Result<(), Failure> {
    let text = report.to_json().map_err(|e| Failure::usage(format!("{} cannot be written: {e}.", path.display())))?;
    write_finished(path, text.as_bytes()).map_err(Failure::usage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook::survey::{Times, draw};

    #[test]
    fn a_line_names_the_product_its_ratios_and_the_choice() {
        let mut compared = Compared {
            drawn: draw(1, 4)[3],
            choice: Some("A sentence: of any form.".into()),
            picked: Some(Picked { rung: "15b_small_tiles".into(), tile: "128x64s8k1".into() }),
            plan_s: None,
            algorithms: 17,
            times: Some(Times { ours_us: 10.0, first_us: 12.0, best_us: 9.0 }),
            error: None,
        };
        let text = line(&compared);
        let parts = [
            "A transposed: 0.900 to best, 1.200 to first",
            "the best of 17",
            "15b_small_tiles with the tile 128x64s8k1",
        ];
        assert!(parts.iter().all(|part| text.contains(part)) && !text.contains("sentence"), "{text}");
        compared.error = Some("3 elements\nare wrong".into());
        assert!(line(&compared).ends_with("FAILED: 3 elements are wrong"));
        assert_ne!(drawn_seed(), drawn_seed());
    }
}

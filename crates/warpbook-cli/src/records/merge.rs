//! The command `warpbook merge`.

use crate::args::MergeArgs;
use crate::failure::Failure;
use crate::files::{Files, Kind};
use crate::output::say;
use std::process::ExitCode;
use warpbook::{read_record, write_record};

/// Adds the rungs and figures of the other records to the first, and writes the result.
pub fn merge(args: &MergeArgs) -> Result<ExitCode, Failure> {
    let [first, others @ ..] = &*args.files else { return Err(Failure::usage("Name at least two records.")) };
    // The output may replace the first record, since the output contains all of it.
    let path = Files::reading("the merged record", others).output("--out", &args.out, Kind::Record)?;
    let mut run = read_record(first)?;
    for other in others {
        run.absorb(read_record(other)?).map_err(|why| Failure::usage(format!("{}: {why}", other.display())))?;
    }
    let path = write_record(&run, path)?;
    let (measured, skipped, failed) = run.counts();
    let path = path.display();
    say(&format!(
        "{} rungs: {measured} measured, {skipped} skipped, {failed} failed.\nRecord: {path}\nView it with: warpbook view {path}",
        run.rungs.len()
    ));
    Ok(ExitCode::SUCCESS)
}

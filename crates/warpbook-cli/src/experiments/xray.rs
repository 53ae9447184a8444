//! The command `warpbook xray`.

use super::progress::Progress;
use crate::args::ChosenXray;
use crate::failure::{Failure, USAGE};
use crate::files::{Files, Kind, RecordWriter, ReservedNames, reserve};
use crate::output::{say, warn};
use std::path::Path;
use std::process::ExitCode;
use warpbook::device::{CudaDevice, exit_at_once};
use warpbook::{Lab, Show};

/// Takes the X-ray, prints its figures, and writes its record and its picture.
pub fn xray(chosen: &ChosenXray) -> Result<ExitCode, Failure> {
    let ChosenXray { experiment, options } = chosen;
    let bench = options.timing.bench(false).map_err(Failure::usage)?;
    let [path, picture] = match &options.out {
        Some(out) => {
            let (mut files, picture) = (Files::default(), out.with_extension("svg"));
            [files.output("--out", out, Kind::Record)?, files.output("the picture of --out", &picture, Kind::Picture)?]
        }
        None => {
            let name = format!("{}-xray", experiment.plan(None)?.name);
            reserve(Path::new(""), &name, ["json", "svg"])?
        }
    };
    let progress = Progress::new();
    let lab = Lab::on(options.device.choice()?)?.with_bench(bench).with_listener({
        let progress = progress.clone();
        move |event| progress.show(event)
    });
    let taken = match options.kib {
        Some(kib) => lab.xray_within(&**experiment, &options.rung, kib as usize * 1024),
        None => lab.xray(&**experiment, &options.rung),
    };
    progress.end();
    let taken = match taken {
        Ok(taken) => taken,
        Err(error) => {
            let failure = Failure::from(error);
            // If a kernel hangs, the driver would wait for it at the end of the process, so the process exits at once.
            if lab.device().cuda().is_some_and(CudaDevice::is_abandoned) {
                warn(&failure.sentence);
                drop(ReservedNames);
                exit_at_once(failure.code);
            }
            return Err(failure);
        }
    };
    say(&taken.text());
    match RecordWriter::new(path).finish(&taken.run) {
        Ok(path) => {
            let refused = |why: String| Failure::usage(format!("{} cannot be written: {why}.", picture.display()));
            let chart = taken.chart().map_err(|e| refused(e.to_string()))?;
            warpbook::device::write_atomic(&picture, chart.svg.standalone().as_bytes())
                .map_err(|e| refused(e.to_string()))?;
            say(&format!("Record: {}\nPicture: {}", path.display(), picture.display()));
            Ok(ExitCode::SUCCESS)
        }
        Err(why) => {
            warn(&why);
            Ok(ExitCode::from(USAGE))
        }
    }
}

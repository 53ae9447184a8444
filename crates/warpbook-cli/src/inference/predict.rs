//! The command `warpbook predict`.

use super::speed::measure;
use crate::args::PredictArgs;
use crate::failure::Failure;
use crate::output::{one_line, say, warn};
use std::process::ExitCode;
use warpbook::data::Fit;
use warpbook::nn::infer::{Frozen, Prediction};

/// Classifies images.
pub fn predict(args: &PredictArgs) -> Result<ExitCode, Failure> {
    let frozen = Frozen::load(&args.file)?.to(args.usage.place.place()?);
    let mut predictor = frozen.predictor(1)?;
    if frozen.identity().is_none() {
        warn(&format!(
            "{} does not say how the images that it was trained on were prepared, as files that were frozen from plain weights or by an older version do not. Each image is turned upright as its \
             EXIF data say, and {} scaled.",
            args.file.display(),
            match frozen.fit() {
                Fit::Whole => "the whole of it is",
                Fit::Centre => "its centre of the network's proportions is",
            }
        ));
    }
    let mut first = None;
    let mut failed = 0;
    for path in &args.images {
        let mut fitted = match frozen.image(path) {
            Ok(fitted) => fitted,
            Err(why) => {
                warn(&why.to_string());
                failed += 1;
                continue;
            }
        };
        if args.invert {
            fitted.pixels.iter_mut().for_each(|p| *p = 255 - *p);
            fitted.note.push_str(", light and dark exchanged");
        }
        let predictions = predictor.predict(&fitted.pixels)?;
        for prediction in &predictions {
            say(&format!("{}: {}", path.display(), words(&frozen, prediction, args.top)));
            say(&format!("  {}", fitted.note));
        }
        first.get_or_insert(fitted.pixels);
    }
    if let Some(pixels) = first {
        measure(&frozen, &pixels, args.usage.repeat)?;
    }
    match failed {
        0 => Ok(ExitCode::SUCCESS),
        _ => Err(Failure::usage(format!("{failed} of {} images could not be read.", args.images.len()))),
    }
}

/// Returns a line such as "7 (98.3 %), then 1 (1.2 %), 9 (0.3 %)".
fn words(frozen: &Frozen, prediction: &Prediction, top: usize) -> String {
    let one = |(class, p): &(usize, f32)| {
        let name = frozen.classes().get(*class).map_or("?", String::as_str);
        format!("{} ({:.1} %)", one_line(name), 100.0 * p)
    };
    let all: Vec<String> = prediction.top(top.max(1)).iter().map(one).collect();
    match all.split_first() {
        Some((first, rest)) if !rest.is_empty() => format!("{first}, then {}", rest.join(", ")),
        _ => all.concat(),
    }
}

//! Sentences and tables about a training on photographs: augmentation, the loading of batches, the batch size, and the frozen network.

mod augmented;
mod batches;
mod feeding;
mod guessed;
mod kept;

pub use super::table;
pub use super::training::side_by_side;
pub use augmented::{Augmented, augmented, same_images};
pub use batches::{Swept, accuracy_by_batch, batches, rate_by_batch, sweep_batches, what_batches_cost};
pub use feeding::{Fed, Feeding, fed, feedings, feeds, on_the_host, same_losses};
pub use guessed::{augmentation_gain, latency_of_eight, rate_gain};
pub use kept::{files, latencies, same_bits, scores};

use crate::figures;
use crate::prelude::nn::*;
use crate::prelude::*;
use warpbook_charts::{Chart, ChartError, Curve, Scale, Table, draw};
use warpbook_data::philox::philox4x32_4;
use warpbook_record::EpochPoint;

/// Side of a CIFAR-10 image in pixels.
const SIDE: usize = 32;

/// Loads CIFAR-10 if its files are found, otherwise draws coloured digits. Returns at most `train` and `test` images, and a sentence that says which images
/// they are.
///
/// # Errors
/// No error is expected, since the drawn images fit their shape.
pub fn photographs(train: usize, test: usize) -> Result<(Splits, String)> {
    super::training::images("cifar10", [train, test], |[train, test]| coloured_digits(train, test, 1))
}

/// Draws synthetic digits, each in a random colour on a background of another colour, in images of CIFAR-10's shape.
fn coloured_digits(train: usize, test: usize, seed: u64) -> Result<Splits> {
    let drawn = synthetic_digits(train, test, seed);
    let share_of = |set: &Dataset, which: u32| {
        let (height, width) = (set.height(), set.width());
        let (top, left) = ((SIDE - height) / 2, (SIDE - width) / 2);
        let mut pixels = vec![0u8; set.len() * 3 * SIDE * SIDE];
        for (i, image) in pixels.chunks_exact_mut(3 * SIDE * SIDE).enumerate() {
            let words = philox4x32_4(seed, [i as u32, which, 0x636f_6c6f, 0]);
            for (c, plane) in image.chunks_exact_mut(SIDE * SIDE).enumerate() {
                // The two colours differ enough for the digit to be visible.
                let [dark, light] = [words[0], words[1]].map(|w| (w >> (8 * c) & 0x7f) as f32);
                let value = |ink: u8| (dark + (128.0 + light - dark) * f32::from(ink) / 255.0) as u8;
                plane.fill(value(0));
                for y in 0..height {
                    for x in 0..width {
                        plane[(top + y) * SIDE + left + x] = value(set.image(i)[y * width + x]);
                    }
                }
            }
        }
        let name = format!("digits in colour, drawn by a program (seed {seed})");
        Dataset::from_arrays(name, [3, SIDE, SIDE], pixels, set.labels().to_vec(), set.classes().to_vec())
            .map_err(|e| Error::Setting(e.to_string()))
    };
    Ok(Splits { train: share_of(&drawn.train, 0)?, test: share_of(&drawn.test, 1)? })
}

/// Returns a share such as "87.31 %".
fn share(accuracy: f64) -> String {
    format!("{:.2} %", 100.0 * accuracy)
}

/// Returns the reason why a training ended early, or an empty string if it did not.
fn broken(training: &TrainingRun) -> String {
    training.error().map(ToString::to_string).unwrap_or_default()
}

/// Returns the points of all epochs of a training.
fn epochs(training: &TrainingRun) -> &[EpochPoint] {
    training.log().course.as_ref().map_or(&[], |c| &c.epochs)
}

/// Draws the accuracy of several trainings on the test images and on the augmented training images over their epochs.
///
/// # Errors
/// If no training was evaluated ([`ChartError::NothingToDraw`]).
pub fn accuracy_curves(trainings: &[(&str, &TrainingRun)]) -> std::result::Result<Chart, ChartError> {
    let mut all = Vec::new();
    for (name, training) in trainings {
        let (mut train, mut test) = (Vec::new(), Vec::new());
        for point in epochs(training) {
            let place = |right: Option<warpbook_record::Right>| Some((point.epoch as f64, 100.0 * right?.accuracy()?));
            train.extend(place(point.train));
            test.extend(place(point.test));
        }
        all.push(Curve::new(format!("{name}: test"), test));
        all.push(Curve::new(format!("{name}: training"), train));
    }
    let subtitle = "Training images are counted while they are trained on, as augmentation and dropout leave them";
    draw().curves(
        ["Accuracy over the epochs", subtitle],
        ("epoch", Scale::Whole),
        ("accuracy in %", Scale::Linear),
        &all,
    )
}

/// Returns a table of the accuracy of each training on its own training images, seen without augmentation, and on the test images, with the difference.
///
/// # Errors
/// If the device reports an error.
pub fn gaps(trainings: &mut [(&str, &mut TrainingRun)], splits: &Splits) -> Result<Table> {
    let mut rows = Vec::new();
    for (name, training) in trainings {
        let why = broken(training);
        let train = training.trainer().evaluate(&splits.train)?;
        let test = training.trainer().evaluate(&splits.test)?;
        rows.push(vec![
            (*name).to_owned(),
            share(train.accuracy()),
            share(test.accuracy()),
            format!("{:.2} points", 100.0 * (train.accuracy() - test.accuracy())),
            figures::number(train.loss),
            figures::number(test.loss),
            why,
        ]);
    }
    let mut headers =
        vec!["training", "training images, as they are", "test images", "gap", "training loss", "test loss"];
    if rows.iter().all(|r| r[6].is_empty()) {
        rows.iter_mut().for_each(|r| r.truncate(6));
    } else {
        headers.push("ended");
    }
    Ok(table(&headers, rows))
}

#[cfg(test)]
mod tests;

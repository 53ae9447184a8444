//! A learner's guesses about a training on photographs, each as a sentence and as a line in a chart.

use super::Swept;
use super::batches::rate_title;
use crate::figures;
use crate::lesson::Guesses;
use crate::prelude::nn::*;
use crate::prelude::*;
use warpbook_charts::{Curve, Scale};

/// Returns the accuracy on the test images after each epoch, in per cent.
fn test_accuracies(training: &TrainingRun) -> Vec<(f64, f64)> {
    let epochs = training.log().course.as_ref().map_or(&[][..], |c| &c.epochs);
    epochs.iter().filter_map(|e| Some((e.epoch as f64, 100.0 * e.test?.accuracy()?))).collect()
}

/// Compares a guess, in percentage points, with the final lead of one training over another. The guess is drawn as a line in the chart.
pub fn augmentation_gain(
    augmented: &TrainingRun,
    plain: &TrainingRun,
    guesses: &mut Guesses,
    guess: Option<f64>,
) -> Panel {
    let (ahead, other) = (test_accuracies(augmented), test_accuracies(plain));
    let (Some(end), Some(base)) = (ahead.last().copied(), other.last().copied()) else {
        return Panel::column([&"One of the two was not evaluated."]);
    };
    let mut curves = vec![Curve::new("augmented", ahead), Curve::new("as they are", other)];
    curves.extend(guess.map(|points| Curve::new("your guess", [(1.0, base.1 + points), (end.0, base.1 + points)])));
    Panel::column([
        &guesses.number("Augmentation gains", "points", guess, Some(end.1 - base.1)),
        &draw().curves(
            ["Accuracy on the test images", "A guess is in points above the last accuracy without augmentation"],
            ("epoch", Scale::Whole),
            ("accuracy in %", Scale::Linear),
            &curves,
        ),
    ])
}

/// Compares a guess with the ratio of the images per second at the largest and at the smallest batch size. The guess is drawn as a line in the chart.
pub fn rate_gain(all: &[Swept], guesses: &mut Guesses, guess: Option<f64>) -> Panel {
    let mut measured: Vec<(f64, f64)> = Vec::new();
    for s in all.iter().filter(|s| s.images_per_s.is_finite()) {
        // Each batch size was trained with two learning rates; the faster run counts.
        match measured.iter_mut().find(|point| point.0 == s.batch as f64) {
            Some(point) => point.1 = point.1.max(s.images_per_s),
            None => measured.push((s.batch as f64, s.images_per_s)),
        }
    }
    let (Some(small), Some(large)) = (measured.first().copied(), measured.last().copied()) else {
        return Panel::column([&"Nothing was trained."]);
    };
    let what = format!("The rate at a batch of {} over the rate at a batch of {}", large.0, small.0);
    let title = rate_title(&measured);
    let mut curves = vec![Curve::new("images a second", measured)];
    curves.extend(guess.map(|times| Curve::new("your guess", [small, (large.0, small.1 * times)])));
    Panel::column([
        &guesses.times(&what, guess, Some(large.1 / small.1)),
        &draw().curves(
            [&title, "Training images a second, evaluations not included"],
            ("batch", Scale::Doubling),
            ("images a second", Scale::Log),
            &curves,
        ),
    ])
}

/// Times a frozen network at some batch sizes, and compares a guess with how many times as long a batch of 8 takes as a single image. The guess is drawn as a
/// line in the chart.
///
/// # Errors
/// If the device reports an error.
pub fn latency_of_eight(
    network: &Frozen,
    images: &Dataset,
    bench: &Bench,
    guesses: &mut Guesses,
    guess: Option<f64>,
) -> Result<Panel> {
    let mut measured: Vec<(f64, f64)> = Vec::new();
    for batch in [1, 8, 64, 256_usize] {
        let us = network.predictor(batch)?.time(&images.images()[..batch * images.pixels()], bench)?.median_us();
        measured.push((batch as f64, us));
    }
    let (one, eight) = (measured[0], measured[1]);
    let ratio = eight.1 / one.1;
    let title = format!("A batch of 8 takes {} as long as a single image", figures::times(ratio));
    let mut curves = vec![Curve::new("measured", measured)];
    curves.extend(guess.map(|times| Curve::new("your guess", [one, (eight.0, one.1 * times)])));
    Ok(Panel::column([
        &guesses.times("A batch of 8 over a single image", guess, Some(ratio)),
        &draw().curves(
            [&title, "Computed on the device, from bytes in host memory to outputs back in host memory"],
            ("batch", Scale::Doubling),
            ("µs", Scale::Log),
            &curves,
        ),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_faster_run_of_a_batch_counts_and_a_guess_is_a_line() {
        let swept = |batch: usize, images_per_s: f64| Swept {
            batch,
            scaled: false,
            rate: 0.1,
            steps: 1,
            images_per_s,
            accuracy: None,
        };
        let all = [swept(32, 100.0), swept(32, 90.0), swept(64, 150.0), swept(128, f64::NAN)];
        let mut guesses = Guesses::new("");
        let page = rate_gain(&all, &mut guesses, Some(2.0)).page("");
        assert!(page.contains("over the rate at a batch of 32: 1.50 times. You guessed 2.00 times"), "{page}");
        let text = rate_gain(&all, &mut guesses, None).text();
        assert!(text.contains("Training with batches of 64 is 1.50× as fast as with batches of 32"), "{text}");
        assert!(page.contains("your guess"));
        assert!(!rate_gain(&all, &mut guesses, None).page("").contains("your guess"));
        assert!(rate_gain(&[], &mut guesses, None).text().contains("Nothing was trained"));
    }
}

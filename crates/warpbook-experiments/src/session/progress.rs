//! The progress of a training run as lines of text.

use super::words::training_line;
use std::time::{Duration, Instant};
use warpbook_nn::train::{Event, Flow};

/// Shortest time between two printed lines of progress.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// A filter for progress lines in a notebook cell: it passes every evaluation, and at most one other line per second.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    last: Option<Instant>,
}

impl Throttle {
    pub fn line(&mut self, event: &Event, classified: bool) -> Option<String> {
        let always = !matches!(event, Event::Batches { .. });
        if !always && self.last.is_some_and(|l| l.elapsed() < LINE_EVERY) {
            return None;
        }
        let line = training_line(event, classified)?;
        self.last = Some(Instant::now());
        Some(line)
    }
}

/// Returns a listener for [`Trainer::train`](warpbook_nn::train::Trainer::train) that prints progress: at most one line
/// per second and one for each evaluation, since a notebook cell cannot overwrite lines.
///
/// ```
/// use warpbook_data::synthetic_digits;
/// use warpbook_experiments::training_progress;
/// use warpbook_nn::train::{Recipe, Trainer};
///
/// let digits = synthetic_digits(64, 32, 1);
/// let mut trainer = Trainer::new(Recipe { batch: 32, epochs: 1, ..Recipe::mnist() }, &digits.train, None)?;
/// trainer.train(&digits.train, &digits.test, 1, &mut training_progress())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn training_progress() -> impl FnMut(Event) -> Flow {
    let mut throttle = Throttle::default();
    move |event| {
        // Without labels, no sample counts as correctly classified.
        let labels = |test: &warpbook_nn::train::Score| test.correct > 0;
        let classified = match &event {
            Event::Epoch { test, .. } | Event::OutOfTime { test, .. } => labels(test),
            _ => true,
        };
        if let Some(line) = throttle.line(&event, classified) {
            warpbook_lab::print_line(&line);
        }
        Flow::Continue
    }
}

//! Recipes: a training's network and settings.

use super::{Initial, Loss, TrainError};
use crate::network::{Network, amp_recipe, cifar10_cnn, mnist_cnn};
use crate::ops::augment::Draw;
use crate::ops::optimizer::Optimizer;
use crate::ops::optimizer::groups::{Group, Grouped};
use crate::ops::schedule::Schedule;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use warpbook_ranks::shard;

/// Random changes of training images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Augmentation {
    /// Width in pixels of the border from which images are cropped at random; 0 for no crops.
    pub crop: usize,
    /// True if images are mirrored with probability 1/2.
    pub flip: bool,
    /// True if the border mirrors the image at its edge; otherwise it is black.
    pub reflect: bool,
    /// True if an image is mirrored in every second epoch, after a random first choice; otherwise each epoch makes new random choices. On a GPU this
    /// keeps the images in device memory.
    pub alternate: bool,
}

impl Augmentation {
    /// Creates an augmentation with crops from a black border and random flips.
    #[must_use]
    pub fn new(crop: usize, flip: bool) -> Self {
        Self { crop, flip, reflect: false, alternate: false }
    }
}

/// The views of a test image, whose outputs are averaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Views {
    /// The unchanged image.
    #[default]
    One,
    /// The unchanged image, and its mirror image.
    Flips,
    /// Both views of [`Views::Flips`], and with half the weight both views shifted by a pixel down and right, and up and left; the border mirrors the
    /// image. Source: Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU", 2024.
    FlipsAndShifts,
}

impl Views {
    /// All views with their names in files, in the order of the variants.
    pub const NAMED: [(&'static str, Self); 3] =
        [("one", Self::One), ("flips", Self::Flips), ("flips_and_shifts", Self::FlipsAndShifts)];

    /// Returns the name of the variant in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMED.into_iter().find(|(_, views)| *views == self).map_or("one", |(name, _)| name)
    }

    /// Returns true if the unchanged image is the only view.
    #[must_use]
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub fn is_one(&self) -> bool {
        *self == Self::One
    }

    /// Returns the width of the border from which the views are cropped.
    pub(super) fn padding(self) -> usize {
        usize::from(self == Self::FlipsAndShifts)
    }

    /// Returns the views with their weights.
    pub(super) fn all(self) -> Vec<(Draw, f32)> {
        let both =
            |place: usize, share: f32| [false, true].map(|flip| (Draw { row: place, column: place, flip }, share));
        match self {
            Self::One => vec![(Draw { row: 0, column: 0, flip: false }, 1.0)],
            Self::Flips => both(0, 0.5).to_vec(),
            Self::FlipsAndShifts => [both(1, 0.25), both(0, 0.125), both(2, 0.125)].concat(),
        }
    }
}

impl std::str::FromStr for Views {
    type Err = String;

    /// Parses a name, with `-` or `_`.
    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::NAMED.into_iter().find(|(known, _)| *known == name.replace('-', "_"));
        found.map(|(_, views)| views).ok_or_else(|| {
            let names: Vec<String> = Self::NAMED.iter().map(|(name, _)| name.replace('_', "-")).collect();
            format!("Unknown views `{name}`: choose from {}.", names.join(", "))
        })
    }
}

/// A training: network, data preparation, loss, optimiser and their settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// Name of the recipe.
    pub name: String,
    /// The trained network.
    pub network: Network,
    /// Loss function.
    pub loss: Loss,
    /// Optimiser with its settings.
    pub optimizer: Optimizer,
    /// Initial learning rate.
    pub learning_rate: f64,
    /// Schedule of the learning rate.
    pub schedule: Schedule,
    /// True if the schedule's time counts steps; otherwise it counts epochs.
    pub schedule_by_step: bool,
    /// Largest norm of all gradients together; larger gradients are scaled down. With infinity nothing is clipped, but the norm is computed and recorded.
    pub clip: Option<f64>,
    /// Samples per batch.
    pub batch: usize,
    /// Number of parts in which a batch passes through the network, one after another, with their gradients added up before the
    /// optimiser's step; 1 for the whole batch at once. Only the activations of one part are in memory. Batch normalisation uses the
    /// statistics of each part separately.
    pub accumulate: usize,
    /// Number of passes over the training images.
    pub epochs: u32,
    /// Largest number of steps, regardless of the number of epochs; `None` for no limit.
    pub steps: Option<u64>,
    /// Mean of each channel, for pixels from 0 to 1.
    pub mean: Vec<f32>,
    /// Standard deviation of each channel.
    pub deviation: Vec<f32>,
    /// Groups of parameters with their own optimiser settings; the optimiser must then be SGD with momentum.
    pub groups: Vec<Group>,
    /// Initial weights.
    pub initial: Initial,
    /// Views of a test image.
    pub views: Views,
    /// Random changes of training images.
    pub augmentation: Option<Augmentation>,
    /// True if the order of the samples differs from epoch to epoch.
    pub shuffle: bool,
    /// Seed of weights, order, dropout and augmentation.
    pub seed: u64,
}

impl Recipe {
    /// Returns the recipe for the MNIST CNN: SGD with momentum, the learning rate halved every five epochs, batches of 512, 20 epochs.
    #[must_use]
    pub fn mnist() -> Self {
        Self {
            name: "mnist".into(),
            network: mnist_cnn(0.25, 0.5),
            loss: Loss::CrossEntropy { smoothing: 0.0 },
            optimizer: Optimizer::Sgd { momentum: 0.9, nesterov: false, weight_decay: 0.0 },
            learning_rate: 0.05,
            schedule: Schedule::Step { every: 5, gamma: 0.5 },
            schedule_by_step: false,
            clip: None,
            batch: 512,
            accumulate: 1,
            epochs: 20,
            steps: None,
            mean: vec![0.1307],
            deviation: vec![0.3081],
            groups: Vec::new(),
            initial: Initial::default(),
            views: Views::One,
            augmentation: None,
            shuffle: true,
            seed: 1,
        }
    }

    /// Returns the recipe for the CIFAR-10 CNN: Adam, random crops and flips, batches of 128, 3 epochs.
    #[must_use]
    pub fn cifar10() -> Self {
        Self {
            name: "cifar10".into(),
            network: cifar10_cnn(),
            optimizer: Optimizer::adam(),
            learning_rate: 1e-3,
            schedule: Schedule::Constant,
            batch: 128,
            epochs: 3,
            mean: vec![0.5; 3],
            deviation: vec![0.5; 3],
            augmentation: Some(Augmentation::new(4, true)),
            ..Self::mnist()
        }
    }

    /// Returns the recipe for three linear layers of 4096: mean squared error, SGD with a learning rate of 0.001, batches of 512, 3 epochs.
    #[must_use]
    pub fn amp_recipe() -> Self {
        Self {
            name: "amp-recipe".into(),
            network: amp_recipe(4096),
            loss: Loss::Mse,
            optimizer: Optimizer::sgd(),
            learning_rate: 0.001,
            schedule: Schedule::Constant,
            epochs: 3,
            mean: Vec::new(),
            deviation: Vec::new(),
            ..Self::mnist()
        }
    }

    /// Removes dropout from the recipe's network.
    #[must_use]
    pub fn without_dropout(self) -> Self {
        Self { network: self.network.without_dropout(), ..self }
    }

    /// Returns the ranges of the micro-batches in which `n` samples of a batch pass through the network, in order: [`Recipe::accumulate`] ranges whose
    /// lengths differ by at most one, or single samples if there are fewer.
    #[must_use]
    pub fn micro_batches(&self, n: usize) -> Vec<Range<usize>> {
        let parts = self.accumulate.clamp(1, n.max(1));
        (0..parts).map(|at| shard(n, at, parts).range()).collect()
    }

    /// Returns the number of samples of the largest part of a batch of `n`.
    #[must_use]
    pub fn largest_part(&self, n: usize) -> usize {
        n.div_ceil(self.accumulate.max(1))
    }

    /// Returns the number of steps of the whole training over this many samples; the last batch of an epoch may be smaller.
    #[must_use]
    pub fn total_steps(&self, samples: usize) -> u64 {
        let all = samples.div_ceil(self.batch.max(1)) as u64 * u64::from(self.epochs);
        self.steps.map_or(all, |most| all.min(most))
    }

    /// Returns the learning rate of a step, counted from 0.
    ///
    /// # Errors
    /// If a setting of the schedule is out of range.
    pub fn learning_rate_at(&self, step: u64, steps_per_epoch: u64) -> Result<f64, TrainError> {
        let time = if self.schedule_by_step { step } else { step / steps_per_epoch.max(1) };
        Ok(self.schedule.at(self.learning_rate, time)?)
    }

    /// Returns the recipe's parameters in groups; `None` if the optimiser alone decides.
    ///
    /// # Errors
    /// See [`Grouped::new`].
    pub fn grouped(&self) -> Result<Option<Grouped>, TrainError> {
        Ok(Grouped::new(&self.network, &self.optimizer, &self.groups)?)
    }

    /// Returns the learning rates of all rules at a step, counted from 0; `rate` is the recipe's rate at that step.
    pub(super) fn group_rates(
        &self,
        grouped: &Grouped,
        rate: f64,
        step: u64,
        per_epoch: u64,
    ) -> Result<Vec<f64>, TrainError> {
        Ok(grouped.rates(rate, self.learning_rate, self.schedule_time(step, per_epoch))?)
    }

    /// Returns the time of the schedules at a step, counted from 0: the step, or its epoch.
    pub(super) fn schedule_time(&self, step: u64, per_epoch: u64) -> u64 {
        if self.schedule_by_step { step } else { step / per_epoch.max(1) }
    }

    /// Checks the settings for images of this shape, `[channels, height, width]`, and this many classes.
    ///
    /// # Errors
    /// If a setting is invalid; the message names it.
    pub fn validate(&self, shape: [usize; 3], classes: usize) -> Result<(), TrainError> {
        let refuse = |why: String| Err(TrainError::Setting(why));
        let [channels, height, width] = shape;
        if self.network.input() != shape.into() {
            return refuse(format!(
                "The network takes {}, and the images are {channels} x {height} x {width}: change the network's input.",
                self.network.input()
            ));
        }
        if self.mean.len() != channels || self.deviation.len() != channels {
            return refuse(format!(
                "Images of {channels} channels need {channels} means and deviations, but there are {} and {}.",
                self.mean.len(),
                self.deviation.len()
            ));
        }
        if self.deviation.iter().any(|d| !(*d > 0.0 && d.is_finite())) || self.mean.iter().any(|m| !m.is_finite()) {
            return refuse("Means must be finite, and deviations above 0.".into());
        }
        if matches!(self.loss, Loss::CrossEntropy { .. }) && self.network.output().elements() != classes {
            return refuse(format!(
                "The network has {} outputs, and the data set {classes} classes: the last layer must be `linear` with {classes} outputs.",
                self.network.output()
            ));
        }
        self.validate_settings()
    }

    /// Checks the settings that do not depend on the data.
    pub(super) fn validate_settings(&self) -> Result<(), TrainError> {
        let refuse = |why: String| Err(TrainError::Setting(why));
        if self.batch == 0 || self.epochs == 0 {
            return refuse(format!(
                "The batch is {} and the number of epochs is {}; both must be at least 1.",
                self.batch, self.epochs
            ));
        }
        if self.accumulate == 0 || self.accumulate > self.batch {
            return refuse(format!(
                "A batch of {} cannot be split into {} parts: choose accumulate from 1 to the batch's number of samples.",
                self.batch, self.accumulate
            ));
        }
        if self.steps == Some(0) {
            return refuse("0 steps: there is nothing to train.".into());
        }
        if !(self.learning_rate > 0.0 && self.learning_rate.is_finite()) {
            return refuse(format!("The learning rate is {}; it must be above 0.", self.learning_rate));
        }
        if let Some(clip) = self.clip.filter(|most| most.is_nan() || *most <= 0.0) {
            return refuse(format!("The gradients are clipped to a norm of {clip}; it must be above 0."));
        }
        self.optimizer.check()?;
        self.grouped()?;
        Ok(self.schedule.check()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_have_names() {
        for (name, views) in Views::NAMED {
            assert_eq!((views.name(), name.parse(), name.replace('_', "-").parse()), (name, Ok(views), Ok(views)));
            // Checkpoints contain the name.
            assert_eq!(serde_json::to_string(&views).unwrap(), format!("\"{name}\""));
            assert!((views.all().iter().map(|(_, share)| share).sum::<f32>() - 1.0).abs() < 1e-6);
        }
        let why = "many".parse::<Views>().unwrap_err();
        assert_eq!(why, "Unknown views `many`: choose from one, flips, flips-and-shifts.");
    }

    #[test]
    fn the_rate_follows_its_schedule() {
        let r = Recipe::mnist();
        let check =
            |step, expect: f64| assert!((r.learning_rate_at(step, 118).unwrap() - expect).abs() < 1e-12, "{step}");
        check(0, 0.05);
        check(5 * 118 - 1, 0.05);
        check(5 * 118, 0.025);
        let by_step = Recipe { schedule_by_step: true, ..r };
        assert!((by_step.learning_rate_at(5, 118).unwrap() - 0.025).abs() < 1e-12);
    }

    #[test]
    fn parts_are_even_and_cover_the_batch() {
        let parts = |accumulate, n| Recipe { accumulate, ..Recipe::mnist() }.micro_batches(n);
        assert_eq!(parts(1, 5), vec![0..5]);
        assert_eq!(parts(4, 10), vec![0..2, 2..5, 5..7, 7..10]);
        assert_eq!(parts(4, 2), vec![0..1, 1..2], "the last batch of an epoch may be smaller than that");
        for (accumulate, n) in [(1, 7), (3, 7), (7, 7), (5, 128), (9, 2)] {
            let r = Recipe { accumulate, ..Recipe::mnist() };
            assert_eq!(
                r.micro_batches(n).iter().map(ExactSizeIterator::len).max(),
                Some(r.largest_part(n)),
                "{accumulate} {n}"
            );
        }
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let check = |r: Recipe, shape, expect: &str| {
            let sentence = r.validate(shape, 10).unwrap_err().to_string();
            assert!(sentence.contains(expect), "{sentence}");
        };
        assert!(
            Recipe::mnist().validate([1, 28, 28], 10).is_ok() && Recipe::cifar10().validate([3, 32, 32], 10).is_ok()
        );
        check(Recipe::mnist(), [3, 32, 32], "takes 1 x 28 x 28");
        check(Recipe { mean: vec![], ..Recipe::mnist() }, [1, 28, 28], "1 channels");
        check(Recipe { deviation: vec![0.0], ..Recipe::mnist() }, [1, 28, 28], "above 0");
        check(Recipe { steps: Some(0), ..Recipe::mnist() }, [1, 28, 28], "0 steps");
        check(Recipe { batch: 0, ..Recipe::mnist() }, [1, 28, 28], "at least 1");
        check(Recipe { accumulate: 0, ..Recipe::mnist() }, [1, 28, 28], "into 0 parts");
        check(Recipe { accumulate: 513, ..Recipe::mnist() }, [1, 28, 28], "from 1 to the batch's number of samples");
        check(Recipe { learning_rate: f64::NAN, ..Recipe::mnist() }, [1, 28, 28], "NaN");
        assert!(
            Recipe::mnist().validate([1, 28, 28], 47).unwrap_err().to_string().contains("`linear` with 47 outputs")
        );
    }
}

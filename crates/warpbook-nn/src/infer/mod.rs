//! A trained network frozen for inference, in one file with everything a prediction needs.
//!
//! ```
//! use warpbook_data::synthetic_digits;
//! use warpbook_nn::{infer::Frozen, train::{Recipe, Trainer}};
//!
//! let digits = synthetic_digits(64, 8, 1);
//! let trainer = Trainer::new(Recipe { steps: Some(1), ..Recipe::mnist() }, &digits.train, None)?;
//! let frozen = Frozen::new(trainer.recipe(), &trainer.weights()?, digits.test.classes())?;
//! let predictions = frozen.predict(digits.test.images())?;
//! assert_eq!(predictions.len(), 8);
//! # Ok::<(), warpbook_nn::train::TrainError>(())
//! ```

mod file;
mod fold;
mod predictor;

pub use predictor::{Prediction, Predictor};

use crate::network::{Network, Shape};
use crate::train::{Loss, Place, Recipe, Score, TrainError};
use crate::weights::Weights;
use std::path::Path;
use warpbook_data::{self, Dataset, Fit, Fitted, Identity, Source, fit_image};

/// Largest number of images classified at a time.
const BATCH: usize = 256;

/// A network for inference: batch normalisations folded into the layers before them, dropout removed, with the normalisation of its images
/// and the names of its classes.
#[derive(Debug, Clone, PartialEq)]
pub struct Frozen {
    recipe: String,
    source: Option<Source>,
    identity: Option<Identity>,
    network: Network,
    weights: Weights,
    shape: [usize; 3],
    mean: Vec<f32>,
    deviation: Vec<f32>,
    classes: Vec<String>,
    loss: Loss,
    place: Place,
}

impl Frozen {
    /// Freezes a recipe's network with these weights. The network sees each image once, even if the recipe has several views.
    ///
    /// # Errors
    /// If the network takes no images, does not have one output per class, or has other parameters than the weights.
    pub fn new(recipe: &Recipe, weights: &Weights, classes: &[String]) -> Result<Self, TrainError> {
        let Shape::Image { channels, height, width } = recipe.network.input() else {
            return Err(TrainError::Setting(format!(
                "The network takes vectors of {} values; networks of images can be frozen.",
                recipe.network.input()
            )));
        };
        let shape = [channels, height, width];
        recipe.validate(shape, classes.len())?;
        let (network, weights) = fold::fold(&recipe.network, weights)?;
        Self {
            recipe: recipe.name.clone(),
            source: None,
            identity: None,
            network,
            weights,
            shape,
            mean: recipe.mean.clone(),
            deviation: recipe.deviation.clone(),
            classes: classes.to_vec(),
            loss: recipe.loss,
            place: Place::Cpu,
        }
        .checked()
    }

    /// Records where the training data set can be opened again: a name that [`warpbook_data::open`] knows, or a folder.
    #[must_use]
    pub fn with_data(mut self, source: impl Into<Source>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Records which images the network was trained on and how the images were resized: [`Dataset::identity`] of these images.
    #[must_use]
    pub fn trained_on(mut self, images: Identity) -> Self {
        self.identity = Some(images);
        self
    }

    /// Chooses the place of computation: `frozen.to(&device)` in fp32, `frozen.to(Place::new(&device, Precision::AmpFp16)?)` in half
    /// precision. [`Frozen::predictor`] copies the weights there.
    #[must_use]
    pub fn to(mut self, place: impl Into<Place>) -> Self {
        self.place = place.into();
        self
    }

    /// Returns the place of computation; the CPU until [`Frozen::to`] is called.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Checks the rules that also apply to networks read from files.
    fn checked(self) -> Result<Self, TrainError> {
        let refuse = |why: String| Err(TrainError::Setting(why));
        let [channels, ..] = self.shape;
        if self.classes.is_empty() || self.classes.len() > 256 || self.network.output() != self.classes.len().into() {
            return refuse(format!(
                "The network has {} outputs, and there are {} classes; it needs 1 to 256 classes, with one output each.",
                self.network.output(),
                self.classes.len()
            ));
        }
        let fits = |v: &[f32], allowed: fn(f32) -> bool| v.len() == channels && v.iter().all(|v| allowed(*v));
        if !fits(&self.mean, f32::is_finite) || !fits(&self.deviation, |d| d > 0.0 && d.is_finite()) {
            return refuse(format!(
                "Images of {channels} channels need {channels} finite means and {channels} deviations above 0."
            ));
        }
        // Folding divides by running variances, so finite weights need not stay finite.
        self.weights.ensure_finite()?;
        Ok(self)
    }

    /// Returns the name of the recipe that trained the network.
    #[must_use]
    pub fn recipe(&self) -> &str {
        &self.recipe
    }

    /// Returns the place where the training data set can be opened again, if known.
    #[must_use]
    pub fn source(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    /// Returns the identity of the training images; `None` if the file is of an older version, or [`Frozen::trained_on`] was not called.
    #[must_use]
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// Returns the way in which an image file is resized: as in training or, if that is unknown, in the usual way for the data set.
    #[must_use]
    pub fn fit(&self) -> Fit {
        let usual = || self.source.as_ref().map_or(Fit::Centre, Source::usual_fit);
        self.identity.as_ref().map_or_else(usual, |identity| identity.fit)
    }

    /// Reads a PNG or JPEG image and prepares it like the training images: see [`fit_image`].
    ///
    /// # Errors
    /// See [`fit_image`].
    pub fn image(&self, path: impl AsRef<Path>) -> Result<Fitted, warpbook_data::Error> {
        fit_image(path, self.shape, self.fit())
    }

    /// Returns the network, without dropout and folded batch normalisations.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Returns the weights, in the network's order.
    #[must_use]
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Returns the shape `[channels, height, width]` of an image.
    #[must_use]
    pub fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// Returns the names of the classes; a [`Prediction::class`] is an index into them.
    #[must_use]
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Classifies images, u8 `[n][channels][height][width]`. Each call allocates memory and loads kernels: for repeated calls, keep a
    /// [`Frozen::predictor`].
    ///
    /// # Errors
    /// If the bytes are not a whole number of images, an output is not finite, or the device fails.
    pub fn predict(&self, images: &[u8]) -> Result<Vec<Prediction>, TrainError> {
        let n = images.len() / self.shape.iter().product::<usize>();
        self.predictor(n.clamp(1, BATCH))?.predict(images)
    }

    /// Allocates memory for batches of at most this size, on the device where the network computes.
    ///
    /// # Errors
    /// If the batch is 0 or does not fit into device memory, or the device fails.
    pub fn predictor(&self, batch: usize) -> Result<Predictor, TrainError> {
        Predictor::new(self, batch)
    }

    /// Computes the loss and the accuracy over a data set, with classes matched by name.
    ///
    /// # Errors
    /// If the data set's images have another shape, the network lacks one of its classes, or the loss is not finite.
    pub fn evaluate(&self, set: &Dataset) -> Result<Score, TrainError> {
        if set.shape() != self.shape {
            let [[c, h, w], [of_c, of_h, of_w]] = [self.shape, set.shape()];
            return Err(TrainError::Setting(format!(
                "The network takes images of {c} x {h} x {w}, but the images of {} are {of_c} x {of_h} x {of_w}.",
                set.name()
            )));
        }
        let set = &set.with_classes(&self.classes).map_err(|e| TrainError::Setting(e.to_string()))?;
        let mut predictor = self.predictor(set.len().clamp(1, BATCH))?;
        let batches = set.images().chunks(BATCH * set.pixels()).zip(set.labels().chunks(BATCH));
        let losses = batches.map(|(images, labels)| Ok((predictor.loss(images, labels, self.loss)?, labels.len())));
        Score::from_batches(losses.collect::<Result<Vec<_>, TrainError>>()?).finite()
    }
}

//! The description of a network and its training images in a checkpoint, so that it can be evaluated and frozen without its recipe. A
//! frozen network's file has the same description.

use crate::network::{Layer, Network, Shape};
use crate::train::{Loss, Recipe, TrainError, Views};
use crate::weights::{self, WeightsError};
use serde::{Deserialize, Serialize};
use std::path::Path;
use warpbook_data::{Identity, Source};

/// The part of a recipe that files store, which is enough to use its network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Description {
    pub recipe: String,
    /// The value of [`Source::data`].
    pub data: Option<String>,
    /// The value of [`Source::folder`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Shape of an image: `[channels, height, width]`.
    pub input: [usize; 3],
    pub layers: Vec<Layer>,
    pub mean: Vec<f32>,
    pub deviation: Vec<f32>,
    pub loss: Loss,
    /// Views of a test image; left out if there is a single view, as in files of an older version, which had no other views.
    #[serde(default, skip_serializing_if = "Views::is_one")]
    pub views: Views,
    /// Names of the classes; missing in checkpoints of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<Vec<String>>,
    /// Identity of the training images; missing in files of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trained_on: Option<Identity>,
}

impl Description {
    /// Describes a recipe; `None` if the network takes vectors, or has a custom layer, because its source is part of a program.
    pub fn new(recipe: &Recipe, source: Option<&Source>) -> Option<Self> {
        let Shape::Image { channels, height, width } = recipe.network.input() else { return None };
        let is_written = recipe.network.nodes().iter().all(|node| node.own.is_none());
        is_written.then(|| Self {
            recipe: recipe.name.clone(),
            data: source.map(|s| s.data.clone()),
            folder: source.and_then(|s| s.folder.clone()),
            input: [channels, height, width],
            layers: recipe.network.layers(),
            mean: recipe.mean.clone(),
            deviation: recipe.deviation.clone(),
            loss: recipe.loss,
            views: recipe.views,
            classes: None,
            trained_on: None,
        })
    }

    pub fn network(&self) -> Result<Network, String> {
        Network::new(self.input, self.layers.clone()).map_err(|e| e.to_string())
    }

    pub fn source(&self) -> Option<Source> {
        self.data.clone().map(|data| Source { data, folder: self.folder.clone() })
    }
}

/// The part of a checkpoint's metadata that this module reads.
#[derive(Deserialize)]
struct Described {
    network: Option<Description>,
}

/// A network and its training images, as a checkpoint describes them.
#[derive(Debug, Clone, PartialEq)]
pub struct Trained {
    /// Name, network, loss, normalisation of images and views of a test image; everything else comes from [`Recipe::mnist`].
    pub recipe: Recipe,
    /// The place where the data set can be opened again, if [`super::Trainer::trained_on`] was called.
    pub source: Option<Source>,
    /// Names of the classes, in the order of the network's outputs; `None` in checkpoints of older versions.
    pub classes: Option<Vec<String>>,
    /// Identity of the training images; `None` in checkpoints of older versions.
    pub identity: Option<Identity>,
}

impl Trained {
    /// Reads a checkpoint's description. `None` for plain weights, and for a network without a description, which takes vectors or has a
    /// custom layer.
    ///
    /// # Errors
    /// If the file cannot be read or is damaged.
    pub fn read(path: impl AsRef<Path>) -> Result<Option<Self>, TrainError> {
        let path = path.as_ref();
        let format = |why: String| WeightsError::Format { path: path.into(), why };
        let text = weights::metadata(&weights::read_tensors(path)?).map_err(format)?;
        let text = text.as_deref().unwrap_or("{}");
        let described: Described = serde_json::from_str(text).map_err(|e| format(e.to_string()))?;
        let Some(d) = described.network else { return Ok(None) };
        let (network, source) = (d.network().map_err(format)?, d.source());
        let recipe = Recipe {
            name: d.recipe,
            network,
            mean: d.mean,
            deviation: d.deviation,
            loss: d.loss,
            views: d.views,
            ..Recipe::mnist()
        };
        Ok(Some(Self { recipe, source, classes: d.classes, identity: d.trained_on }))
    }

    /// Checks that another recipe prepares images for the network with the same normalisation.
    ///
    /// # Errors
    /// If the normalisations differ; the message names both.
    pub fn ensure_same_preparation(&self, recipe: &Recipe) -> Result<(), TrainError> {
        let (own, other) = (&self.recipe, recipe);
        if (&own.mean, &own.deviation) == (&other.mean, &other.deviation) {
            return Ok(());
        }
        Err(TrainError::Setting(format!(
            "The checkpoint was trained on images with mean {:?} and deviation {:?}, and the recipe {} has mean {:?} and deviation {:?}: give it the same.",
            own.mean, own.deviation, other.name, other.mean, other.deviation
        )))
    }

    /// Checks that a recipe has the checkpoint's network; only probabilities of dropout may differ.
    ///
    /// # Errors
    /// If the networks differ; the message names the first layers that differ.
    pub fn ensure_same_network(&self, recipe: &Recipe) -> Result<(), TrainError> {
        different_layer(&self.recipe.network, &recipe.network).map_or(Ok(()), |why| {
            Err(TrainError::Setting(format!(
                "The checkpoint has another network than the recipe {}: {why}.",
                recipe.name
            )))
        })
    }
}

/// Describes the first layer in which a checkpoint's network and a recipe's network differ. `None` if they agree, apart from the
/// probabilities of dropout and choices of backends.
pub(super) fn different_layer(checkpoint: &Network, recipe: &Network) -> Option<String> {
    let [own, other] = [checkpoint, recipe].map(|network| network.without_dropout().without_choices().layers());
    let at = (0..own.len().max(other.len())).find(|at| own.get(*at) != other.get(*at))?;
    let words = |layer: &Layer| format!("`{}`", layer.words().unwrap_or_else(|| layer.to_string()));
    let shown = |layers: &[Layer]| layers.get(at).map_or("missing".into(), words);
    Some(format!("layer {} is {} in the checkpoint and {} in the recipe", at + 1, shown(&own), shown(&other)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{batch_norm, conv2d, dropout, flatten, gelu, linear, residual};
    use crate::train::{Flow, Trainer};
    use crate::weights::Weights;
    use warpbook_data::synthetic_digits;

    #[test]
    fn a_checkpoint_says_what_its_network_is() {
        let branch = residual([conv2d(4, 1), batch_norm(), gelu()]);
        let layers = [conv2d(4, 3).stride(2).named("stem"), branch, dropout(0.2), flatten(), linear(10)];
        let recipe = Recipe {
            name: "mine".into(),
            network: Network::new([1, 28, 28], layers).unwrap(),
            loss: Loss::CrossEntropy { smoothing: 0.1 },
            mean: vec![0.25],
            views: Views::Flips,
            batch: 16,
            steps: Some(1),
            ..Recipe::mnist()
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.safetensors");
        let digits = synthetic_digits(16, 16, 1);
        let mut trainer =
            Trainer::new(recipe.clone(), &digits.train, None).unwrap().trained_on("synthetic").checkpoint(&path);
        trainer.train(&digits.train, &digits.test, 1, &mut |_| Flow::Continue).unwrap();
        let read = Trained::read(&path).unwrap().unwrap();
        let expect = Recipe { batch: Recipe::mnist().batch, steps: None, ..recipe.clone() };
        assert_eq!((&read.recipe, &read.source), (&expect, &Some("synthetic".into())));
        assert_eq!(
            (read.classes.as_deref(), &read.identity),
            (Some(digits.train.classes()), &Some(digits.train.identity()))
        );
        let weights = Weights::load(&read.recipe.network, &path).unwrap();
        assert_eq!(weights, trainer.weights().unwrap());
        read.ensure_same_network(&recipe.clone().without_dropout()).unwrap();
        let layers = [conv2d(4, 3).stride(2).named("stem"), flatten(), linear(10)];
        let edited = Recipe { network: Network::new([1, 28, 28], layers).unwrap(), ..recipe.clone() };
        let sentence = read.ensure_same_network(&edited).unwrap_err().to_string();
        assert!(sentence.contains("layer 2 is ") && sentence.contains("`flatten"), "{sentence}");
        let sentence =
            read.ensure_same_preparation(&Recipe { mean: vec![0.5], ..recipe.clone() }).unwrap_err().to_string();
        assert!(sentence.contains("mean [0.25]") && sentence.contains("mean [0.5]"), "{sentence}");
        // A training can resume under another recipe's name.
        let mut other = Trainer::new(Recipe { name: "other".into(), ..recipe }, &digits.train, None).unwrap();
        other.resume(&path).unwrap();
        assert_eq!(other.step(), 1);
        weights.save(&path).unwrap();
        assert_eq!(Trained::read(&path).unwrap(), None);
        std::fs::write(&path, "text").unwrap();
        assert!(Trained::read(&path).unwrap_err().to_string().contains("not a safetensors file"));
    }

    #[test]
    fn networks_without_images_or_words_are_not_described() {
        assert_eq!(Description::new(&Recipe::amp_recipe(), None), None);
        let own = crate::network::own(&crate::ops::custom_layer::OwnLayer::new("mine", "its kernels"));
        let network = Network::new([1, 28, 28], [own, flatten(), linear(10)]).unwrap();
        assert_eq!(Description::new(&Recipe { network, ..Recipe::mnist() }, None), None);
        assert!(Description::new(&Recipe::cifar10(), None).is_some());
    }
}

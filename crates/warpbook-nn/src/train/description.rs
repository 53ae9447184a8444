//! What a checkpoint says of its network, so that it can be judged and frozen without its recipe at hand; a frozen network's file says the same.

use super::{Loss, Recipe, TrainError, Views};
use crate::network::{Layer, Network, Shape};
use crate::weights::{self, WeightsError};
use serde::{Deserialize, Serialize};
use std::path::Path;
use warpbook_device::read_file;

/// A recipe's part that using its network needs, as files have it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Description {
    pub recipe: String,
    /// A name or a folder of the data set.
    pub data: Option<String>,
    /// `[channels, height, width]`.
    pub input: [usize; 3],
    pub layers: Vec<Layer>,
    pub mean: Vec<f32>,
    pub deviation: Vec<f32>,
    pub loss: Loss,
    /// Missing where it is one, as in files of a version that had no others.
    #[serde(default, skip_serializing_if = "Views::is_one")]
    pub views: Views,
}

impl Description {
    /// `None` of a network of vectors, and of one with a layer of the learner's own, whose source is in a program.
    pub fn of(recipe: &Recipe, data: Option<&str>) -> Option<Self> {
        let Shape::Image { channels, height, width } = recipe.network.input() else { return None };
        let is_written = recipe.network.nodes().iter().all(|node| node.own.is_none());
        is_written.then(|| Self {
            recipe: recipe.name.clone(),
            data: data.map(str::to_owned),
            input: [channels, height, width],
            layers: recipe.network.layers(),
            mean: recipe.mean.clone(),
            deviation: recipe.deviation.clone(),
            loss: recipe.loss,
            views: recipe.views,
        })
    }

    pub fn network(&self) -> Result<Network, String> {
        Network::new(self.input, self.layers.clone()).map_err(|e| e.to_string())
    }
}

/// The rest of a checkpoint's metadata does not matter here.
#[derive(Deserialize)]
struct Described {
    network: Option<Description>,
}

impl Recipe {
    /// What a checkpoint says of its recipe, and the data set's name or folder if it was told ([`super::Trainer::trained_on`]): the name, the
    /// network, its loss, the normalisation of its images and how a test image is seen. All else is as of [`Recipe::mnist`].
    ///
    /// # Errors
    /// The file cannot be read or is damaged, or it says nothing of a network of images, as weights alone do not.
    pub fn of_checkpoint(path: impl AsRef<Path>) -> Result<(Self, Option<String>), TrainError> {
        let path = path.as_ref();
        let format = |why: String| WeightsError::Format { path: path.into(), why };
        let bytes = read_file(path, u64::MAX).map_err(|source| WeightsError::Io { path: path.into(), source })?;
        let text = weights::metadata(&bytes).map_err(format)?;
        let text = text.as_deref().unwrap_or("{}");
        let described: Described = serde_json::from_str(text).map_err(|e| format(e.to_string()))?;
        let Some(d) = described.network else {
            return Err(TrainError::Setting(format!(
                "{} does not say what network it is of: name the recipe first, as mnist, cifar10 or my.toml.",
                path.display()
            )));
        };
        let network = d.network().map_err(format)?;
        let recipe = Self {
            name: d.recipe,
            network,
            mean: d.mean,
            deviation: d.deviation,
            loss: d.loss,
            views: d.views,
            ..Self::mnist()
        };
        Ok((recipe, d.data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::synthetic_digits;
    use crate::network::{batch_norm, conv2d, dropout, flatten, gelu, linear, residual};
    use crate::train::{Flow, Trainer};
    use crate::weights::Weights;

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
        let (read, data) = Recipe::of_checkpoint(&path).unwrap();
        let expect = Recipe { batch: Recipe::mnist().batch, steps: None, ..recipe.clone() };
        assert_eq!((&read, data.as_deref()), (&expect, Some("synthetic")));
        let weights = Weights::load(&read.network, &path).unwrap();
        assert_eq!(weights, trainer.weights().unwrap());
        // Neither its recipe nor what it was trained on has to be the same to go on.
        let mut other = Trainer::new(Recipe { name: "other".into(), ..recipe }, &digits.train, None).unwrap();
        other.resume(&path).unwrap();
        assert_eq!(other.step(), 1);
        weights.save(&path).unwrap();
        let sentence = Recipe::of_checkpoint(&path).unwrap_err().to_string();
        assert!(sentence.contains("c.safetensors does not say what network"), "{sentence}");
        std::fs::write(&path, "text").unwrap();
        assert!(Recipe::of_checkpoint(&path).unwrap_err().to_string().contains("not a safetensors file"));
    }

    #[test]
    fn networks_without_images_or_words_are_not_described() {
        assert_eq!(Description::of(&Recipe::amp_recipe(), None), None);
        let own = crate::network::own(&crate::ops::own::OwnLayer::new("mine", "its kernels"));
        let network = Network::new([1, 28, 28], [own, flatten(), linear(10)]).unwrap();
        assert_eq!(Description::of(&Recipe { network, ..Recipe::mnist() }, None), None);
        assert!(Description::of(&Recipe::cifar10(), None).is_some());
    }
}

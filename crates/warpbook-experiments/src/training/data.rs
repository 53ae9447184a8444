//! The samples for training: published files if available, otherwise images and numbers drawn from a seed.

use super::workload::{AMP_BATCHES, Workload};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use warpbook_data::parallel::collect;
use warpbook_data::philox::{gaussian, uniform};
use warpbook_data::{self, Dataset, Origin, Rows, Splits, synthetic_digits};
use warpbook_lab::{Error, Result};
use warpbook_nn::train::Samples;
use warpbook_record::Inputs;

/// Number of batches of synthetic images, and the number of images above which there are fewer batches.
const DRAWN_BATCHES: usize = 20;
const MOST_DRAWN: usize = 20_480;
/// Name for synthetic images in settings.
pub(crate) const SYNTHETIC: &str = "synthetic";
/// Shape of CIFAR-10 images, `[channels, height, width]`.
const CIFAR: [usize; 3] = [3, 32, 32];

/// The source of a training's images.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum ImageSource {
    /// The usual places, or else synthetic images.
    #[default]
    Usual,
    /// Only this folder is searched.
    Folder(PathBuf),
    /// Files are ignored, and synthetic images are used.
    Synthetic,
}

type Opened = std::result::Result<Option<Splits>, String>;

/// Image files, which are read once; clones share the images.
#[derive(Debug, Clone, Default)]
pub(crate) struct Files {
    source: ImageSource,
    opened: Arc<Mutex<BTreeMap<&'static str, Opened>>>,
}

/// Samples for a training run. Clones share the data.
#[derive(Debug, Clone)]
pub(crate) enum Set {
    Images(Dataset),
    Rows(Rows),
}

impl Set {
    /// Draws `n` samples of Gaussian numbers; each has as many targets as features.
    pub(crate) fn gaussian(n: usize, features: usize, seed: u64) -> Self {
        Self::Rows(Rows::gaussian(n, [features; 2], seed))
    }

    pub(crate) fn samples(&self) -> Samples<'_> {
        match self {
            Self::Images(set) => set.into(),
            Self::Rows(rows) => rows.into(),
        }
    }
}

impl Files {
    pub(crate) fn at(source: ImageSource) -> Self {
        Self { source, opened: Arc::default() }
    }

    pub(crate) fn source(&self) -> &ImageSource {
        &self.source
    }

    /// Opens the image files of a workload; `None` for synthetic images.
    pub(crate) fn open(&self, workload: Workload) -> Opened {
        let folder = match (&self.source, workload) {
            (ImageSource::Synthetic, _) | (_, Workload::AmpRecipe) => return Ok(None),
            (ImageSource::Usual, _) => None,
            (ImageSource::Folder(folder), _) => Some(folder.as_path()),
        };
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let read = || match warpbook_data::open(workload.name(), folder) {
            Ok(splits) => Ok(Some(splits)),
            // A mistyped WARPBOOK_DATA must not silently lead to synthetic images.
            Err(warpbook_data::Error::Missing { misnamed: None, .. }) if folder.is_none() => Ok(None),
            Err(error) => Err(error.to_string()),
        };
        opened.entry(workload.name()).or_insert_with(read).clone()
    }

    /// Returns an error unless the files can be read or are not needed.
    pub(crate) fn validate(&self, workload: Workload) -> Result<()> {
        self.open(workload).map(drop).map_err(Error::Setting)
    }

    /// Names the samples of a workload in a few words, such as "MNIST".
    pub(crate) fn label(&self, workload: Workload) -> String {
        match (self.open(workload), workload) {
            (Ok(Some(set)), _) if *set.train.origin() == Origin::Original => set.train.name().to_owned(),
            (Ok(Some(set)), _) => format!("{}, modified", set.train.name()),
            (_, Workload::Mnist) => "synthetic digits".into(),
            (_, Workload::Cifar10) => "synthetic noise".into(),
            (_, Workload::AmpRecipe) => "Gaussian numbers".into(),
        }
    }

    /// Describes the samples in a sentence without its full stop.
    pub(crate) fn note(&self, workload: Workload, seed: u64) -> String {
        match (self.open(workload), workload) {
            (Ok(Some(set)), _) => set.train.note(),
            (_, Workload::Mnist) => format!("digits drawn by a program (seed {seed}) in place of MNIST"),
            (_, Workload::Cifar10) => {
                format!("noise (seed {seed}), the brighter the higher its label, in place of CIFAR-10")
            }
            (_, Workload::AmpRecipe) => format!("{AMP_BATCHES} batches of Gaussian numbers (Philox, seed {seed})"),
        }
    }

    /// Describes the samples of a workload for a record: name and origin, or how they were generated.
    pub(crate) fn inputs(&self, workload: Workload, seed: u64) -> Inputs {
        match self.open(workload) {
            Ok(Some(set)) => Inputs::default().with(set.train.name(), set.train.origin().to_string()),
            _ => Inputs::of_all(self.note(workload, seed)),
        }
    }

    /// Returns training samples for batches of this size.
    pub(crate) fn set(&self, workload: Workload, batch: usize, features: usize, seed: u64) -> Result<Set> {
        if let Some(set) = self.open(workload).map_err(Error::Setting)? {
            return Ok(Set::Images(set.train));
        }
        let images = (DRAWN_BATCHES * batch).min(MOST_DRAWN).max(batch);
        Ok(match workload {
            Workload::Mnist => Set::Images(synthetic_digits(images, 0, seed).train),
            Workload::Cifar10 => Set::Images(noise(images, seed)?),
            Workload::AmpRecipe => Set::gaussian(AMP_BATCHES * batch, features, seed),
        })
    }
}

/// Draws images with the shape of CIFAR-10: noise that is brighter for higher labels.
fn noise(n: usize, seed: u64) -> Result<Dataset> {
    let pixels = CIFAR.iter().product::<usize>();
    let labels: Vec<u8> = (0..n as u64).map(|i| ((uniform(seed, i, 1) * 10.0) as u8).min(9)).collect();
    let pixel = |i: usize| {
        let base = 40.0 + 18.0 * f32::from(labels[i / pixels]);
        (base + 40.0 * gaussian(seed, i as u64, 0)).clamp(0.0, 255.0) as u8
    };
    let images = collect(n * pixels, &pixel);
    let classes = (0..10).map(|d| d.to_string());
    Dataset::from_arrays("synthetic noise", CIFAR, images, labels, classes).map_err(|e| Error::Setting(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_samples_fit_their_network_and_repeat() {
        let files = Files::at(ImageSource::Synthetic);
        for workload in Workload::ALL {
            let recipe = workload.recipe(4, 6, 1);
            let set = files.set(workload, 4, 6, 1).unwrap();
            match &set {
                Set::Images(images) => recipe.validate(images.shape(), images.classes().len()).unwrap(),
                Set::Rows(rows) => recipe.validate_rows(rows.widths()).unwrap(),
            }
            assert!(set.samples().len() >= 20 * 4);
        }
        let (a, b) = (noise(20, 3).unwrap(), noise(20, 3).unwrap());
        assert!(a == b && a != noise(20, 4).unwrap());
        let mean = |i: usize| a.image(i).iter().map(|p| f64::from(*p)).sum::<f64>() / 3072.0;
        let by_label = |l: u8| (0..20).find(|i| a.label(*i) == l).map(mean);
        let means: Vec<f64> = (0..10).filter_map(by_label).collect();
        assert!(means.len() > 3 && means.is_sorted(), "{means:?}");
    }

    #[test]
    fn a_named_folder_has_to_have_the_files() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::at(ImageSource::Folder(folder.path().to_owned()));
        let error = files.validate(Workload::Mnist).unwrap_err().to_string();
        assert!(error.contains("data fetch mnist"), "{error}");
        assert!(files.validate(Workload::AmpRecipe).is_ok(), "it needs no files");
        assert_eq!(Files::at(ImageSource::Synthetic).label(Workload::Mnist), "synthetic digits");
    }
}

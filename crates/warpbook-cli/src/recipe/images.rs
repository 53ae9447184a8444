//! The source of the images: a data set's name, or a folder.

use crate::failure::Failure;
use crate::output::warn;
use std::path::{Path, PathBuf};
use warpbook::data::{self, About, Source, Splits};

/// The share of a folder's images used for tests, and the seed that chooses them, so that test images do not depend on
/// a training's seed.
const TEST: (f64, u64) = (0.1, 1);

/// A source of images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Images {
    /// A data set that the library knows by name, with files in the usual place.
    Known(&'static str),
    /// The files of a data set that the library knows, in this folder.
    Files(&'static str, PathBuf),
    /// A folder with one subfolder for each class.
    Folder(PathBuf),
}

/// Opened images with their source.
pub struct Opened {
    pub splits: Splits,
    pub images: Images,
}

impl Images {
    /// Returns the source of the images that a network was trained on, according to its file.
    pub fn from_source(source: &Source) -> Self {
        let known = data::NAMES.into_iter().find(|n| *n == source.data);
        match (known, &source.folder) {
            (Some(name), Some(folder)) => Self::Files(name, folder.into()),
            (Some(name), None) => Self::Known(name),
            (None, _) => Self::Folder((&source.data).into()),
        }
    }

    /// Returns these images, or the images named with --data if that option was given.
    #[must_use]
    pub fn unless(self, dir: Option<&Path>) -> Self {
        match (self, dir) {
            (images, None) => images,
            (images, Some(dir)) if dir == Path::new("synthetic") => Self::Known(images.drawn().unwrap_or("synthetic")),
            // Drawn digits have no folder. A folder that the user names contains the files of the set that the digits
            // replace, or classes of its own.
            (Self::Known(drawn @ ("synthetic" | "synthetic-colours")), Some(dir)) => {
                let name = if drawn == "synthetic" { "mnist" } else { "cifar10" };
                if data::has(name, dir) { Self::Files(name, dir.to_owned()) } else { Self::Folder(dir.to_owned()) }
            }
            (Self::Known(name) | Self::Files(name, _), Some(dir)) => Self::Files(name, dir.to_owned()),
            (Self::Folder(_), Some(dir)) => Self::Folder(dir.to_owned()),
        }
    }

    /// Returns the synthetic data set that can replace these images, if there is one.
    fn drawn(&self) -> Option<&'static str> {
        match self {
            Self::Known("mnist") | Self::Files("mnist", _) => Some("synthetic"),
            Self::Known("cifar10" | "synthetic-colours") | Self::Files("cifar10", _) => Some("synthetic-colours"),
            _ => None,
        }
    }

    /// Returns the source from which [`Images::from_source`] creates these images again.
    pub fn source(&self) -> Source {
        match self {
            Self::Known(name) => (*name).into(),
            Self::Files(name, folder) => Source { data: (*name).into(), folder: Some(folder.display().to_string()) },
            Self::Folder(folder) => folder.display().to_string().into(),
        }
    }

    /// Returns the facts known about the images without reading files.
    pub fn about(&self) -> Option<About> {
        match self {
            Self::Known(name) | Self::Files(name, _) => data::about(name),
            Self::Folder(_) => None,
        }
    }

    /// Returns the usual mean and deviation of the pixels.
    pub fn normalisation(&self) -> (f32, f32) {
        match self {
            Self::Known("mnist" | "synthetic") => (0.1307, 0.3081),
            Self::Known("fashion-mnist") => (0.2860, 0.3530),
            _ => (0.5, 0.5),
        }
    }

    /// Opens the images; images in a folder are scaled to the `shape` `[channels, height, width]`. If `may_draw` is
    /// set, synthetic digits replace MNIST and CIFAR-10 when their files are missing. A network trained on MNIST must
    /// not be evaluated on other images.
    pub fn open(&self, shape: [usize; 3], may_draw: bool) -> Result<Opened, Failure> {
        let splits = match self {
            Self::Folder(folder) => split(folder, shape),
            Self::Files(name, folder) => data::open(name, Some(folder)),
            Self::Known(name) => match (data::open(name, None), self.drawn()) {
                (Err(missing @ data::Error::Missing { .. }), Some(drawn)) if may_draw => {
                    let (set, what) = match drawn {
                        "synthetic" => ("MNIST", "synthetic digits are"),
                        _ => ("CIFAR-10", "coloured synthetic digits are"),
                    };
                    warn(&format!("{set} is not there, so {what} used. {missing}"));
                    return Self::Known(drawn).open(shape, may_draw);
                }
                (read, _) => read,
            },
        };
        let splits = splits.map_err(|e| Failure::usage(e.to_string()))?;
        Ok(Opened { splits, images: self.clone() })
    }
}

/// Opens the images in a folder, and splits off the test images.
fn split(folder: &Path, [channels, height, width]: [usize; 3]) -> Result<Splits, data::Error> {
    let all = data::image_folder(folder, channels, Some((height, width)))?;
    let (share, seed) = TEST;
    let (train, test) = all.split(((all.len() as f64 * share).ceil() as usize).max(1), seed)?;
    Ok(Splits { train, test })
}

//! What is trained: a recipe that is built in, or one from a file, and its images.

mod by;
mod file;
mod keys;
#[cfg(test)]
mod tests;

pub use by::{ComputedBy, ConvolutionBy};
pub(crate) use file::parse;

use crate::failure::Failure;
use crate::output::complain;
use std::path::{Path, PathBuf};
use warpbook::nn::data::{self, About, Splits};
use warpbook::nn::train::Recipe;

/// The share of a folder's images that is kept apart, and the seed that chooses them: those of a test stay the same whatever a
/// training's seed.
const TEST: (f64, u64) = (0.1, 1);

/// The recipe of random numbers, which has no images.
pub const AMP_RECIPE: &str = "amp-recipe";

/// The recipe that reaches its accuracy in the least time.
pub const SPEEDRUN: &str = "cifar10-speedrun";
const SPEEDRUN_FILE: &str = include_str!("../../recipes/cifar10-speedrun.toml");

/// A recipe with its images.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub recipe: Recipe,
    pub images: Images,
    /// What computes it on a GPU.
    pub by: ComputedBy,
}

/// Where a recipe's images come from, unless the command line says otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Images {
    /// A data set that the library knows by name.
    Known(&'static str),
    /// A folder with a subfolder for each class.
    Folder(PathBuf),
}

impl Images {
    /// Those of a data set's name, or else of a folder.
    pub fn named(name: &str) -> Self {
        let known = data::NAMES.into_iter().find(|n| *n == name);
        known.map_or_else(|| Self::Folder(name.into()), Self::Known)
    }

    /// Those that a file says that it was trained on, or else those of the command line's --data.
    pub fn of_file(file: &Path, name: Option<&str>, dir: Option<&Path>) -> Result<Self, Failure> {
        let images = name.map(Self::named).or_else(|| dir.map(|d| Self::Folder(d.to_owned())));
        images.ok_or_else(|| {
            Failure::usage(format!(
                "{} does not say what it was trained on: name a folder with --data DIR.",
                file.display()
            ))
        })
    }

    /// What [`Images::named`] takes.
    pub fn name(&self) -> String {
        match self {
            Self::Known(name) => (*name).to_owned(),
            Self::Folder(folder) => folder.display().to_string(),
        }
    }

    /// What is known of them without files.
    pub fn about(&self) -> Option<About> {
        match self {
            Self::Known(name) => data::about(name),
            Self::Folder(_) => None,
        }
    }

    /// The usual mean and deviation of their pixels.
    fn normalisation(&self) -> (f32, f32) {
        match self {
            Self::Known("mnist" | "synthetic") => (0.1307, 0.3081),
            Self::Known("fashion-mnist") => (0.2860, 0.3530),
            _ => (0.5, 0.5),
        }
    }

    /// The images, in `shape` `[channels, height, width]` where they come from a folder. `dir` is the command line's --data.
    pub fn open(&self, dir: Option<&Path>, shape: [usize; 3]) -> Result<Splits, Failure> {
        let usage = |e: data::Error| Failure::usage(e.to_string());
        if dir == Some(Path::new("synthetic")) {
            return data::open("synthetic", None).map_err(usage);
        }
        match self {
            Self::Folder(folder) => split(dir.unwrap_or(folder), shape).map_err(usage),
            Self::Known(name) => match data::open(name, dir) {
                Err(data::Error::Missing { .. }) if *name == "mnist" && dir.is_none() => {
                    complain(
                        "MNIST is not there (load it with: warpbook data fetch mnist), so synthetic digits are used.",
                    );
                    data::open("synthetic", None).map_err(usage)
                }
                read => read.map_err(usage),
            },
        }
    }
}

/// Images of a folder, with a part of them kept for tests.
fn split(folder: &Path, [channels, height, width]: [usize; 3]) -> Result<Splits, data::Error> {
    let all = data::image_folder(folder, channels, Some((height, width)))?;
    let (share, seed) = TEST;
    let (train, test) = all.split(((all.len() as f64 * share).ceil() as usize).max(1), seed)?;
    Ok(Splits { train, test })
}

/// The file that a recipe is read from, unless it is built in.
pub fn recipe_file(name: &str) -> Option<&Path> {
    let built_in = matches!(name, "mnist" | "cifar10" | SPEEDRUN | AMP_RECIPE);
    (!built_in).then_some(Path::new(name))
}

impl Plan {
    /// `mnist`, `cifar10`, `cifar10-speedrun`, or a file that ends in `.toml`.
    pub fn find(name: &str) -> Result<Self, Failure> {
        let built_in =
            |recipe: Recipe, images| Ok(Self { recipe, images: Images::Known(images), by: ComputedBy::default() });
        match name {
            "mnist" => built_in(Recipe::mnist(), "mnist"),
            "cifar10" => built_in(Recipe::cifar10(), "cifar10"),
            SPEEDRUN => parse(Path::new("cifar10-speedrun.toml"), SPEEDRUN_FILE).map_err(Failure::usage),
            _ if Path::new(name).extension().is_some_and(|e| e.eq_ignore_ascii_case("toml")) => {
                file::read(Path::new(name)).map_err(Failure::usage)
            }
            _ => Err(Failure::usage(format!(
                "`{name}` is not a recipe; choose mnist, cifar10, {SPEEDRUN} or {AMP_RECIPE}, or name a file of your own, such as my.toml."
            ))),
        }
    }

    /// As [`Plan::find`], of those that classify images: what is judged, frozen and used.
    pub fn of_images(name: &str) -> Result<Self, Failure> {
        if name == AMP_RECIPE {
            return Err(Failure::usage(format!(
                "{AMP_RECIPE} is trained on random numbers, so that there are no images to classify; choose mnist, cifar10, or a file of your \
                 own, as my.toml."
            )));
        }
        Self::find(name)
    }

    /// What a checkpoint that is named alone says of itself; `command` is the one that it is named to.
    pub fn of_checkpoint(file: &str, command: &str, dir: Option<&Path>) -> Result<Self, Failure> {
        if matches!(file, "mnist" | "cifar10" | SPEEDRUN | AMP_RECIPE) || file.ends_with(".toml") {
            return Err(Failure::usage(format!(
                "Name the checkpoint, too, or alone: warpbook {command} {file} CHECKPOINT"
            )));
        }
        let file = Path::new(file);
        let (recipe, data) = Recipe::of_checkpoint(file).map_err(|e| Failure::usage(e.to_string()))?;
        let images = Images::of_file(file, data.as_deref(), dir)?;
        Ok(Self { recipe, images, by: ComputedBy::default() })
    }

    /// The images for it; `dir` is the command line's --data.
    pub fn open(&self, dir: Option<&Path>) -> Result<Splits, Failure> {
        let shape = self.shape().unwrap_or([1, 1, 1]);
        self.images.open(dir, shape)
    }

    /// `[channels, height, width]` of an image; none of a network of vectors.
    pub fn shape(&self) -> Option<[usize; 3]> {
        match self.recipe.network.input() {
            warpbook::nn::network::Shape::Image { channels, height, width } => Some([channels, height, width]),
            warpbook::nn::network::Shape::Vector(_) => None,
        }
    }
}

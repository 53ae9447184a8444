//! What is trained: a recipe that is built in, or one from a file, and its images.

mod by;
mod file;
mod images;
mod keys;
#[cfg(test)]
mod tests;
mod weights;

pub use by::{ComputedBy, ConvolutionBy};
pub(crate) use file::parse;
pub use images::Images;
pub use weights::{TrainedWeights, note_changes, open};

use crate::failure::Failure;
use std::path::Path;
use warpbook::data::Splits;
use warpbook::nn::train::Recipe;

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
    /// The kernel or library that computes it on a GPU.
    pub by: ComputedBy,
}

/// Images that were opened, and where they come from.
pub struct Opened {
    pub splits: Splits,
    pub images: Images,
}

/// `[channels, height, width]` of a recipe's images; none of a network of vectors.
pub fn shape_of(recipe: &Recipe) -> Option<[usize; 3]> {
    match recipe.network.input() {
        warpbook::nn::network::Shape::Image { channels, height, width } => Some([channels, height, width]),
        warpbook::nn::network::Shape::Vector(_) => None,
    }
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

    /// The images for it; `dir` is the command line's --data.
    pub fn open(&self, dir: Option<&Path>) -> Result<Opened, Failure> {
        // A time to 90 % of CIFAR-10 is a time on CIFAR-10.
        let may_draw = self.recipe.name != SPEEDRUN;
        self.images.clone().unless(dir).open(shape_of(&self.recipe).unwrap_or([1, 1, 1]), may_draw)
    }
}

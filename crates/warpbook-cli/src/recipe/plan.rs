//! A recipe with its images and its kernels or libraries.

use super::computed_by::ComputedBy;
use super::images::{Images, Opened};
use crate::failure::Failure;
use std::path::Path;
use warpbook::nn::network::Shape;
use warpbook::nn::train::Recipe;

/// The name of the recipe on random numbers, which has no images.
pub const AMP_RECIPE: &str = "amp-recipe";

/// The name of the recipe for reaching an accuracy in the shortest time.
pub const SPEEDRUN: &str = "cifar10-speedrun";

/// A recipe with its images.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub recipe: Recipe,
    pub images: Images,
    /// The kernels or libraries that compute the network on a GPU.
    pub by: ComputedBy,
}

impl Plan {
    /// Opens the recipe's images; `dir` is the command line's --data.
    pub fn open(&self, dir: Option<&Path>) -> Result<Opened, Failure> {
        // A time to 90 % of CIFAR-10 must be measured on CIFAR-10.
        let may_draw = self.recipe.name != SPEEDRUN;
        self.images.clone().unless(dir).open(shape_of(&self.recipe).unwrap_or([1, 1, 1]), may_draw)
    }
}

/// Returns the shape `[channels, height, width]` of a recipe's images; `None` for a network on vectors.
pub fn shape_of(recipe: &Recipe) -> Option<[usize; 3]> {
    match recipe.network.input() {
        Shape::Image { channels, height, width } => Some([channels, height, width]),
        Shape::Vector(_) => None,
    }
}

//! A recipe with its images and with what computes it.

use super::computed_by::ComputedBy;
use super::images::{Images, Opened};
use crate::failure::Failure;
use std::path::Path;
use warpbook::nn::network::Shape;
use warpbook::nn::train::Recipe;

/// The recipe of random numbers, which has no images.
pub const AMP_RECIPE: &str = "amp-recipe";

/// The recipe that reaches its accuracy in the least time.
pub const SPEEDRUN: &str = "cifar10-speedrun";

/// A recipe with its images.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub recipe: Recipe,
    pub images: Images,
    /// The kernel or library that computes it on a GPU.
    pub by: ComputedBy,
}

impl Plan {
    /// The images for it; `dir` is the command line's --data.
    pub fn open(&self, dir: Option<&Path>) -> Result<Opened, Failure> {
        // A time to 90 % of CIFAR-10 is a time on CIFAR-10.
        let may_draw = self.recipe.name != SPEEDRUN;
        self.images.clone().unless(dir).open(shape_of(&self.recipe).unwrap_or([1, 1, 1]), may_draw)
    }
}

/// `[channels, height, width]` of a recipe's images; none of a network of vectors.
pub fn shape_of(recipe: &Recipe) -> Option<[usize; 3]> {
    match recipe.network.input() {
        Shape::Image { channels, height, width } => Some([channels, height, width]),
        Shape::Vector(_) => None,
    }
}

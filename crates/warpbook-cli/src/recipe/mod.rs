//! Recipes for trainings, built in or read from a file, and their images.

mod computed_by;
mod file;
mod find;
mod images;
mod keys;
mod plan;
#[cfg(test)]
mod tests;
mod weights;

pub use computed_by::{ComputedBy, ConvolutionBy};
pub use find::{find_recipe, find_recipe_of_images, recipe_file};
pub use images::{Images, Opened};
pub use plan::{AMP_RECIPE, SPEEDRUN};
pub use weights::{TrainedWeights, note_changes, open};

#[cfg(test)]
pub use file::parse;

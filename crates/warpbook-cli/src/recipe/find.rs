//! Finds a recipe by its name or its file.

use super::computed_by::ComputedBy;
use super::file::{parse, read};
use super::images::Images;
use super::plan::{AMP_RECIPE, Plan, SPEEDRUN};
use crate::failure::Failure;
use std::path::Path;
use warpbook::nn::train::Recipe;

const SPEEDRUN_FILE: &str = include_str!("../../recipes/cifar10-speedrun.toml");

/// Returns the file of a recipe, unless it is built in.
pub fn recipe_file(name: &str) -> Option<&Path> {
    let built_in = matches!(name, "mnist" | "cifar10" | SPEEDRUN | AMP_RECIPE);
    (!built_in).then_some(Path::new(name))
}

/// Finds a built-in recipe (`mnist`, `cifar10`, `cifar10-speedrun`), or reads a file that ends in `.toml`.
pub fn find_recipe(name: &str) -> Result<Plan, Failure> {
    let built_in =
        |recipe: Recipe, images| Ok(Plan { recipe, images: Images::Known(images), by: ComputedBy::default() });
    match name {
        "mnist" => built_in(Recipe::mnist(), "mnist"),
        "cifar10" => built_in(Recipe::cifar10(), "cifar10"),
        SPEEDRUN => parse(Path::new("cifar10-speedrun.toml"), SPEEDRUN_FILE).map_err(Failure::usage),
        _ if Path::new(name).extension().is_some_and(|e| e.eq_ignore_ascii_case("toml")) => {
            read(Path::new(name)).map_err(Failure::usage)
        }
        _ => Err(Failure::usage(format!(
            "`{name}` is not a recipe; choose mnist, cifar10, {SPEEDRUN} or {AMP_RECIPE}, or name a file of your own, such as my.toml."
        ))),
    }
}

/// Finds a recipe like [`find_recipe`], but accepts only recipes that classify images, since evaluation and freezing
/// need images.
pub fn find_recipe_of_images(name: &str) -> Result<Plan, Failure> {
    if name == AMP_RECIPE {
        return Err(Failure::usage(format!(
            "{AMP_RECIPE} is trained on random numbers, so there are no images to classify; choose mnist, cifar10, or a file of your \
             own, such as my.toml."
        )));
    }
    find_recipe(name)
}

//! Labelled images to train networks on.
//!
//! [`open`] finds a data set by name: MNIST, Fashion-MNIST and CIFAR-10 from their published files, or synthetic digits, which need no file.
//! [`Dataset::from_arrays`] and [`image_folder`] create data sets from a learner's own images. Readers check everything: a file that is truncated, damaged or
//! of another kind is refused with the offset of the error, and no file makes a reader allocate more than a file of its kind can contain. This crate never uses
//! the network, unlike `warpbook data fetch`.
//!
//! [`philox`] draws the random numbers of every experiment, and [`parallel`] runs loops on the CPU's cores. Nothing here needs a GPU.

mod dataset;
mod error;
mod files;
mod identity;
mod images;
pub mod parallel;
pub mod philox;
mod rows;
mod synthetic;

pub use dataset::{Dataset, Origin, SplitSize, Splits};
pub use error::{Error, Result};
pub use files::cifar::cifar10;
pub use files::idx::{fashion_mnist, mnist};
pub use files::recipes::{Recipe, RemoteFile, folder_for, recipe, recipes};
pub use identity::{Fit, Identity, Source, names};
pub use images::encode::png;
pub use images::fit::{Fitted, fit_image};
pub use images::folder::image_folder;
pub use rows::Rows;
pub use synthetic::{synthetic_colours, synthetic_digits};

use files::{cifar, idx, recipes};
use std::path::{Path, PathBuf};

/// Numbers of training and of test images of `open("synthetic", ..)` and `open("synthetic-colours", ..)`, and their seed.
const SYNTHETIC: (usize, usize, u64) = (12_000, 2_000, 1);

/// The names that [`open`] accepts.
pub const NAMES: [&str; 5] = ["mnist", "fashion-mnist", "cifar10", "synthetic", "synthetic-colours"];

/// Opens a data set by its name: `mnist`, `fashion-mnist`, `cifar10`, `synthetic` (12,000 and 2,000 digits of seed 1), or `synthetic-colours` (the
/// same digits in colours, of CIFAR-10's shape).
///
/// The files are looked up in `dir` if it is given, otherwise in the folder that `WARPBOOK_DATA` names, and then in the default folder of `warpbook data
/// fetch`. A folder contains the files directly, or in a subfolder with the set's name.
///
/// # Errors
/// If there is no such set, or its files are missing or damaged.
pub fn open(name: &str, dir: Option<&Path>) -> Result<Splits> {
    let (train, test, seed) = SYNTHETIC;
    match name {
        "synthetic" => return Ok(synthetic_digits(train, test, seed)),
        "synthetic-colours" => return Ok(synthetic_colours(train, test, seed)),
        _ => {}
    }
    let Some(recipe) = recipe(name) else {
        return Err(Error::Setting(format!("Unknown data set `{name}`: choose one of {}.", NAMES.join(", "))));
    };
    let misnamed = || recipes::variable("WARPBOOK_DATA").filter(|folder| dir.is_none() && !folder.is_dir());
    open_in(recipe, &places(recipe, dir), misnamed)
}

/// Returns true if a folder, or its subfolder with the set's name, has a file of the set, which is `mnist` or `cifar10`.
#[must_use]
pub fn has(name: &str, folder: &Path) -> bool {
    [folder.to_owned(), folder.join(name)].iter().any(|folder| match name {
        "mnist" => idx::is_in(folder, &idx::MNIST),
        "cifar10" => cifar::is_in(folder),
        _ => false,
    })
}

/// Properties of a data set that are known without its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// Shape of an image, `[channels, height, width]`.
    pub shape: [usize; 3],
    /// Names of the classes, in the order of their labels.
    pub classes: [&'static str; 10],
}

/// Returns the properties of a data set that [`open`] accepts by this name.
#[must_use]
pub fn about(name: &str) -> Option<About> {
    let shape = [1, 28, 28];
    match name {
        "mnist" | "synthetic" => Some(About { shape, classes: idx::MNIST.classes }),
        "fashion-mnist" => Some(About { shape, classes: idx::FASHION_MNIST.classes }),
        "cifar10" => Some(About { shape: cifar::SHAPE, classes: cifar::CLASSES }),
        "synthetic-colours" => Some(About { shape: cifar::SHAPE, classes: idx::MNIST.classes }),
        _ => None,
    }
}

/// Lists the folders that may contain a set's files, in search order.
fn places(recipe: &Recipe, dir: Option<&Path>) -> Vec<PathBuf> {
    let with_subfolder = |folder: &Path| [folder.to_owned(), folder.join(recipe.name)];
    match dir {
        Some(dir) => with_subfolder(dir).to_vec(),
        None => {
            let users = recipes::variable("WARPBOOK_DATA");
            let of_user = users.iter().flat_map(|folder| with_subfolder(folder));
            of_user.chain(recipes::cache_folder_for(recipe.name)).collect()
        }
    }
}

/// Reads the set from the first folder that contains a file of the set.
fn open_in(recipe: &Recipe, places: &[PathBuf], misnamed: impl Fn() -> Option<PathBuf>) -> Result<Splits> {
    let set = match recipe.name {
        "mnist" => Some(&idx::MNIST),
        "fashion-mnist" => Some(&idx::FASHION_MNIST),
        _ => None,
    };
    let holds_it = |folder: &Path| set.map_or_else(|| cifar::is_in(folder), |set| idx::is_in(folder, set));
    match (places.iter().find(|p| holds_it(p)), set) {
        (Some(folder), Some(set)) => idx::read(folder, set),
        (Some(folder), None) => cifar10(folder),
        (None, _) => Err(Error::Missing { name: recipe.name, places: places.to_vec(), misnamed: misnamed() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_none_is_refused_with_those_that_are() {
        let error = open("imagenet", None).unwrap_err().to_string();
        assert!(error.contains("Unknown data set `imagenet`") && error.contains("fashion-mnist"), "{error}");
    }

    #[test]
    fn what_is_known_of_a_set_is_what_it_has() {
        assert!(NAMES.iter().all(|n| about(n).is_some()) && about("imagenet").is_none());
        let (digits, known) = (open("synthetic", None).unwrap().test, about("synthetic").unwrap());
        assert_eq!((digits.shape(), digits.classes()), (known.shape, &known.classes.map(str::to_owned)[..]));
    }

    #[test]
    fn files_that_are_not_there_come_with_how_to_get_them() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["mnist", "fashion-mnist", "cifar10"] {
            let error = open(name, Some(folder.path())).unwrap_err().to_string();
            for part in [&format!("warpbook data fetch {name}"), "--data DIR", "synthetic"] {
                assert!(error.contains(part), "{part} in {error}");
            }
            assert!(error.contains(&folder.path().join(name).display().to_string()), "{error}");
        }
    }

    #[test]
    fn a_subfolder_of_the_set_s_name_is_found() {
        let folder = tempfile::tempdir().unwrap();
        idx::tests::write_set(&folder.path().join("mnist"), 5);
        assert_eq!(open("mnist", Some(folder.path())).unwrap().train.len(), 5);
        assert_eq!(open("mnist", Some(&folder.path().join("mnist"))).unwrap().test.len(), 2);
        assert!(open("cifar10", Some(folder.path())).is_err());
    }

    #[test]
    fn the_published_files_are_read_where_they_are() {
        let Some(folder) = recipes::variable("WARPBOOK_DATA") else {
            println!("skipped: WARPBOOK_DATA names no folder with data sets");
            return;
        };
        for (name, expect) in [("mnist", [1, 28, 28]), ("fashion-mnist", [1, 28, 28]), ("cifar10", [3, 32, 32])] {
            let splits = match open(name, Some(&folder)) {
                Err(Error::Missing { .. }) => continue,
                read => read.unwrap(),
            };
            let n = if name == "cifar10" { 50_000 } else { 60_000 };
            assert_eq!((splits.train.len(), splits.test.len(), splits.train.shape()), (n, 10_000, expect));
            println!("{}", splits.train.note());
        }
        if let Ok(digits) = open("fashion-mnist", Some(&folder.join("mnist"))) {
            assert_eq!((digits.train.name(), digits.train.classes()[3].as_str()), ("MNIST", "3"));
        }
    }
}

//! Weights in a file, with everything known about them, for `eval` and `freeze`.

use super::computed_by::ComputedBy;
use super::find::find_recipe_of_images;
use super::images::{Images, Opened};
use super::plan::{AMP_RECIPE, Plan, SPEEDRUN, shape_of};
use crate::failure::Failure;
use crate::output::warn;
use std::path::{Path, PathBuf};
use warpbook::data::{Dataset, Identity, Splits};
use warpbook::nn::infer::Frozen;
use warpbook::nn::train::{Recipe, Trained};
use warpbook::nn::weights::Weights;

/// Trained weights with their network and images.
pub struct TrainedWeights {
    pub recipe: Recipe,
    pub weights: Weights,
    /// The kernels or libraries that compute the network on a GPU.
    pub by: ComputedBy,
    /// Source of the images, given by the command line, otherwise by the recipe, otherwise by the file; `None` if none
    /// of them names a source.
    pub images: Option<Images>,
    /// Names of the network's outputs; `None` if the file has no names.
    pub classes: Option<Vec<String>>,
    /// Identity of the training images; `None` if the file has none.
    pub identity: Option<Identity>,
    /// The file with the weights.
    file: PathBuf,
    /// True if the source of the images comes from the file, and not from the command line or a recipe.
    says_where: bool,
}

impl TrainedWeights {
    /// Reads a checkpoint named without a recipe, for `command`; `dir` is the command line's --data.
    pub fn alone(file: &str, command: &str, dir: Option<&Path>) -> Result<Self, Failure> {
        if matches!(file, "mnist" | "cifar10" | SPEEDRUN | AMP_RECIPE) || file.ends_with(".toml") {
            return Err(Failure::usage(format!(
                "{file} is a recipe. Name the trained weights after it, as in warpbook {command} {file} WEIGHTS, or name a checkpoint in its place."
            )));
        }
        let file = Path::new(file);
        let Some(Trained { recipe, source, classes, identity }) = read(file)? else {
            if Frozen::is_in(file) {
                let (shown, why) =
                    (file.display(), "is already a frozen network: use it directly with predict and eval");
                return Err(Failure::usage(format!("{shown} {why}.")));
            }
            return Err(Failure::usage(format!(
                "{} does not say what network it is of: name the recipe first, as mnist, cifar10 or my.toml.",
                file.display()
            )));
        };
        let weights = Weights::load(&recipe.network, file).map_err(|e| Failure::usage(e.to_string()))?;
        let images = source.as_ref().map(Images::from_source).or_else(|| dir.map(|d| Images::Folder(d.to_owned())));
        let (images, says_where) = (images.map(|images| images.unless(dir)), dir.is_none());
        let (file, by) = (file.to_owned(), ComputedBy::default());
        Ok(Self { recipe, weights, by, images, classes, identity, file, says_where })
    }

    /// Reads weights or a checkpoint together with a recipe.
    pub fn with_recipe(recipe: &str, file: &Path, dir: Option<&Path>) -> Result<Self, Failure> {
        let Plan { recipe, images, by } = find_recipe_of_images(recipe)?;
        let weights = Weights::load(&recipe.network, file).map_err(|e| Failure::usage(e.to_string()))?;
        let trained = read(file)?;
        if let Some(trained) = &trained {
            let same = trained.ensure_same_network(&recipe).and_then(|()| trained.ensure_same_preparation(&recipe));
            same.map_err(|why| Failure::usage(format!("{why} {} needs no recipe: leave it out.", file.display())))?;
        }
        let (classes, identity) = trained.map_or((None, None), |t| (t.classes, t.identity));
        let (images, file) = (Some(images.unless(dir)), file.to_owned());
        Ok(Self { recipe, weights, by, images, classes, identity, file, says_where: false })
    }

    /// Returns the test images, labelled with the network's classes.
    pub fn test(&self) -> Result<Dataset, Failure> {
        let Splits { train, test } = self.open()?.splits;
        if self.says_where {
            note_changes(&self.file, self.identity.as_ref(), &train);
        }
        match &self.classes {
            Some(classes) => test.with_classes(classes).map_err(|e| Failure::usage(e.to_string())),
            None => {
                self.warn_about_classes();
                Ok(test)
            }
        }
    }

    /// Returns the names of the network's outputs; if the file has none, the names of the images' classes.
    pub fn class_names(&self, dir: Option<&Path>) -> Result<Vec<String>, Failure> {
        match (&self.classes, &self.images) {
            (Some(classes), Some(_)) if dir.is_some() => {
                // Opening fails if --data names images with other classes.
                let named = self.open()?.splits.train.with_classes(classes);
                named.map(|_| classes.clone()).map_err(|e| Failure::usage(e.to_string()))
            }
            (Some(classes), _) => Ok(classes.clone()),
            (None, images) => {
                self.warn_about_classes();
                match images.as_ref().and_then(Images::about) {
                    Some(about) => Ok(about.classes.map(str::to_owned).to_vec()),
                    None => Ok(self.open()?.splits.train.classes().to_vec()),
                }
            }
        }
    }

    fn open(&self) -> Result<Opened, Failure> {
        let shape = shape_of(&self.recipe).unwrap_or([1, 1, 1]);
        open((&self.file, self.identity.as_ref()), self.images.as_ref(), self.says_where, shape)
    }

    /// Warns if a checkpoint does not name its classes. There is no warning for plain weights, which never name classes
    /// and are used with a recipe.
    fn warn_about_classes(&self) {
        if read(&self.file).is_ok_and(|trained| trained.is_some()) {
            warn(&format!(
                "{} does not say which classes it was trained on, as checkpoints of older versions do not: classes are taken by their number.",
                self.file.display()
            ));
        }
    }
}

fn read(file: &Path) -> Result<Option<Trained>, Failure> {
    Trained::read(file).map_err(|e| Failure::usage(e.to_string()))
}

/// Opens images for a network's file, which may identify its training images; `says_where` is true if the file also
/// names the source of the images.
pub fn open(
    (file, identity): (&Path, Option<&Identity>),
    images: Option<&Images>,
    says_where: bool,
    shape: [usize; 3],
) -> Result<Opened, Failure> {
    let shown = file.display();
    let Some(images) = images else {
        return Err(Failure::usage(format!(
            "{shown} does not say what it was trained on: name a folder with --data DIR."
        )));
    };
    // A network trained on MNIST may be tested only on MNIST.
    let may_draw = identity.is_none_or(|then| then.is_drawn);
    let opened = images.open(shape, may_draw);
    if !says_where {
        return opened;
    }
    opened.map_err(|failure| Failure {
        sentence: format!(
            "{} The network in {shown} was trained on images from there: name where they are now with --data DIR.",
            with_full_stop(&failure.sentence)
        ),
        ..failure
    })
}

fn with_full_stop(sentence: &str) -> String {
    if sentence.ends_with('.') { sentence.to_owned() } else { format!("{sentence}.") }
}

/// Prints a note if the images have changed since the network was trained, since the test images were then chosen anew.
pub fn note_changes(file: &Path, identity: Option<&Identity>, train: &Dataset) {
    let Some(then) = identity else { return };
    let now = train.identity();
    if (then.checksum, then.images) != (now.checksum, now.images) {
        warn(&format!(
            "{} was trained on {then}, and there are now {now}: some of the test images may have been trained on.",
            file.display()
        ));
    }
}

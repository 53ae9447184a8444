//! Settings of a training run from the command line: network, samples and device.

use crate::args::TrainingArgs;
use crate::failure::Failure;
use crate::files::{Files, Kind, RecordWriter};
use crate::recipe::{AMP_RECIPE, ComputedBy, Images, Opened, find_recipe, recipe_file};
use std::path::PathBuf;
use warpbook::data::{Rows, Source, Splits};
use warpbook::device::Choice;
use warpbook::gemm::{OwnProduct, ProductBy};
use warpbook::nn::network::amp_recipe;
use warpbook::nn::train::{Loader, Recipe, Residency, ensure_host_memory};
use warpbook::{Lab, Sets};

/// The settings of every training.
pub struct Settings {
    pub args: TrainingArgs,
    /// Edge of the amp-recipe's layers.
    pub edge: Option<usize>,
    /// The file with the initial weights.
    pub init: Option<PathBuf>,
    /// The seed of this process if it is one of several, which replaces the seed on the command line.
    pub seed_of_process: Option<u64>,
    /// The device of the process.
    pub device: Choice,
}

impl Settings {
    /// Returns how batches are loaded; the command line allows no other words.
    pub fn loader(&self) -> Loader {
        let resident = match self.args.resident.as_str() {
            "on" => Residency::On,
            "off" => Residency::Off,
            _ => Residency::Auto,
        };
        Loader { resident, workers: self.args.workers.into(), pinned: self.args.pin == "on" }
    }

    /// Opens the lab on the device, with the author's name.
    pub fn lab(&self) -> Result<Lab, Failure> {
        let lab = Lab::on(self.device)?;
        Ok(match &self.args.author {
            Some(author) => lab.with_author(author),
            None => lab,
        })
    }

    /// Returns the kernels and libraries that the command line names for layers.
    pub fn computed_by(&self) -> ComputedBy {
        ComputedBy { product: self.args.product, convolution: self.args.convolution }
    }

    /// Returns the files that a training reads, except the checkpoint to resume.
    pub fn inputs(&self) -> Files {
        let mut files = Files::reading("the recipe", recipe_file(&self.args.recipe));
        self.init.iter().for_each(|path| files.reads("--init", path));
        let kernel = self.args.product.and_then(ProductBy::kernel).and_then(OwnProduct::file);
        kernel.iter().for_each(|path| files.reads("--product", path));
        files
    }

    /// Opens the --out file for the record of whole trainings, which only the process that times them writes.
    pub fn record(&self, is_own: bool) -> Result<Option<RecordWriter>, Failure> {
        let out = self.args.out.as_deref().filter(|_| is_own);
        Ok(self.inputs().optional("--out", out, Kind::Record)?.map(RecordWriter::new))
    }

    /// Loads the requested recipe and its samples.
    pub fn plan(&self) -> Result<Planned, Failure> {
        let (recipe, data) = (&self.args.recipe, self.args.from.data.as_deref());
        if *recipe == AMP_RECIPE {
            if data.is_some() {
                return Err(Failure::usage(format!("{AMP_RECIPE} is trained on random numbers: leave out --data.")));
            }
            return self.plan_of_random_numbers();
        }
        if self.edge.is_some() {
            return Err(Failure::usage(format!("--edge is a setting of {AMP_RECIPE}; {recipe} has none.")));
        }
        let plan = find_recipe(recipe)?;
        let opened = plan.open(data)?;
        ensure_an_output_each(&plan.recipe, &opened, recipe)?;
        let Opened { splits, images } = opened;
        let recipe = self.configured(plan.recipe)?;
        Ok(Planned { recipe, data: Data::Images(splits), by: plan.by, images: Some(images.source()) })
    }

    fn plan_of_random_numbers(&self) -> Result<Planned, Failure> {
        let edge = self.edge.unwrap_or(4096);
        if !(1..=MOST_EDGE).contains(&edge) {
            return Err(Failure::usage(format!("--edge {edge}: choose from 1 to {MOST_EDGE}.")));
        }
        let recipe = self.configured(Recipe { network: amp_recipe(edge), ..Recipe::amp_recipe() })?;
        let all = RANDOM_BATCHES + 1;
        let bytes = |batch: usize| [all, batch, 2 * edge, 4].into_iter().fold(1, usize::saturating_mul) as u64;
        ensure_host_memory(recipe.batch, bytes).map_err(|why| {
            Failure::usage(format!("{why} All {all} batches are kept in memory: choose a smaller --edge or --batch."))
        })?;
        let rows = |batches: usize, seed| Rows::gaussian(batches * recipe.batch, [edge; 2], seed);
        let data = Data::Rows { train: rows(RANDOM_BATCHES, recipe.seed), test: rows(1, recipe.seed ^ 1 << 63) };
        Ok(Planned { recipe, data, by: ComputedBy::default(), images: None })
    }

    /// Returns the recipe with the command line's changes.
    fn configured(&self, mut recipe: Recipe) -> Result<Recipe, Failure> {
        let args = &self.args;
        recipe.batch = args.batch.unwrap_or(recipe.batch);
        recipe.accumulate = args.accumulate.unwrap_or(recipe.accumulate);
        // A recipe with a batch of 0 samples gets its own error message elsewhere.
        if args.accumulate.is_some() && recipe.batch > 0 && !(1..=recipe.batch).contains(&recipe.accumulate) {
            let (parts, batch) = (recipe.accumulate, recipe.batch);
            return Err(Failure::usage(format!(
                "--accumulate: a batch of {batch} cannot be made in {parts} parts: choose from 1 to {batch}."
            )));
        }
        recipe.epochs = args.epochs.unwrap_or(recipe.epochs);
        recipe.steps = args.steps.or(recipe.steps);
        recipe.seed = self.seed_of_process.or(args.seed).unwrap_or(recipe.seed);
        recipe.learning_rate = args.lr.unwrap_or(recipe.learning_rate);
        recipe.clip = args.clip.or(recipe.clip);
        recipe.views = args.views.unwrap_or(recipe.views);
        recipe.shuffle &= !args.no_shuffle;
        recipe.augmentation = recipe.augmentation.filter(|_| !args.no_augment);
        if let Some(segments) = args.segments {
            let usage = |why| Failure::usage(format!("--segments: {why}"));
            recipe.network = recipe.network.checkpointed(segments).map_err(usage)?;
        }
        Ok(if args.no_dropout { recipe.without_dropout() } else { recipe })
    }
}

/// The requested training.
pub struct Planned {
    pub recipe: Recipe,
    pub data: Data,
    /// The kernels or libraries named in the recipe.
    pub by: ComputedBy,
    /// The source of the images.
    pub images: Option<Source>,
}

impl Planned {
    /// Returns the images, for options that time whole trainings on images.
    pub fn splits(&self, options: &str) -> Result<&Splits, Failure> {
        match &self.data {
            Data::Images(splits) => Ok(splits),
            Data::Rows { .. } => Err(Failure::usage(format!("{options} for images; {AMP_RECIPE} has none."))),
        }
    }
}

/// The samples for training and testing.
pub enum Data {
    Images(Splits),
    /// Vectors of random numbers.
    Rows {
        train: Rows,
        test: Rows,
    },
}

impl Data {
    pub fn sets(&self) -> Sets<'_> {
        match self {
            Self::Images(splits) => splits.into(),
            Self::Rows { train, test } => (train, test).into(),
        }
    }
}

/// Largest edge; a larger layer would have more than 2^31 weights.
const MOST_EDGE: usize = 46_340;
/// Number of batches in an epoch of random numbers.
const RANDOM_BATCHES: usize = 50;

/// Returns an error unless a recipe file's network has one output for each class of a folder. The number of classes is
/// only known once the folder is read.
fn ensure_an_output_each(recipe: &Recipe, opened: &Opened, file: &str) -> Result<(), Failure> {
    let (outputs, classes) = (recipe.network.output(), opened.splits.train.classes().len());
    match &opened.images {
        Images::Folder(folder) if outputs != classes.into() => Err(Failure::usage(format!(
            "{file}: `network` ends with {outputs} outputs, and {} has {classes} classes: end it with \"linear {classes}\".",
            folder.display()
        ))),
        _ => Ok(()),
    }
}

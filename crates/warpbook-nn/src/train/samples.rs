//! Samples for training and evaluation.

use super::{Loss, Place, Ranks, Recipe, TrainError, Trainer};
use crate::network::{Node, Op};
use warpbook_data::{Dataset, Rows};

/// Samples with their targets.
#[derive(Debug, Clone, Copy)]
pub enum Samples<'a> {
    /// Labelled images.
    Images(&'a Dataset),
    /// Vectors of numbers with their targets.
    Rows(&'a Rows),
}

impl<'a> From<&'a Dataset> for Samples<'a> {
    fn from(set: &'a Dataset) -> Self {
        Self::Images(set)
    }
}

impl<'a> From<&'a Rows> for Samples<'a> {
    fn from(rows: &'a Rows) -> Self {
        Self::Rows(rows)
    }
}

impl Samples<'_> {
    /// Returns the number of samples.
    #[must_use]
    pub fn len(self) -> usize {
        match self {
            Self::Images(set) => set.len(),
            Self::Rows(rows) => rows.len(),
        }
    }

    /// Returns true if there are no samples.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Checks the recipe's settings for these samples.
    pub(super) fn check(self, recipe: &Recipe) -> Result<(), TrainError> {
        if self.is_empty() {
            return Err(TrainError::Setting("The data set has no images.".into()));
        }
        match self {
            Self::Images(set) => recipe.validate(set.shape(), set.classes().len()),
            Self::Rows(rows) => recipe.validate_rows(rows.widths()),
        }
    }
}

impl Trainer {
    /// Refuses steps over this many samples if a batch normalisation would ever have a single row, which has no variance: in the last batch
    /// of an epoch, in a part of a batch, or on a rank.
    pub(super) fn ensure_variances(&self, samples: usize) -> Result<(), TrainError> {
        let r = &self.recipe;
        let is_narrow = |n: &&Node| matches!(n.op, Op::BatchNorm { .. }) && r.network.batch_norm_sizes(n, 1).rows == 1;
        let Some(node) = r.network.nodes().iter().find(is_narrow) else { return Ok(()) };
        let (whole, last) = (r.batch.min(samples), samples % r.batch.max(1));
        let is_last_made = last > 0 && r.total_steps(samples) >= samples.div_ceil(r.batch.max(1)) as u64;
        let world = self.ranks().map_or(1, Ranks::world);
        // On a GPU each rank needs at least two rows of its own.
        let is_shared = *self.place() == Place::Cpu && self.ranks().is_some_and(|r| r.options().synchronised_norm);
        for batch in [whole].into_iter().chain(is_last_made.then_some(last)) {
            let on_one = if is_shared { batch } else { (batch / world).max(1) };
            if r.micro_batches(on_one).iter().all(|part| part.len() > 1) {
                continue;
            }
            let parts = if r.accumulate > 1 { format!(" in {} parts", r.accumulate) } else { String::new() };
            let ranks = if world > 1 { format!(" on {world} ranks") } else { String::new() };
            let which = if batch == whole { "Each batch" } else { "The last batch of an epoch" };
            let plural = if batch == 1 { "" } else { "s" };
            return Err(TrainError::Setting(format!(
                "{which} has {batch} sample{plural}{parts}{ranks} ({samples} samples in batches of {}), so {} would see a single row, and one row has no \
                 variance. Choose another batch, or fewer parts or ranks.",
                r.batch, node.name
            )));
        }
        Ok(())
    }
}

impl Recipe {
    /// Checks the settings for samples of this many features, with this many targets.
    ///
    /// # Errors
    /// If a setting is invalid; the message names it.
    pub fn validate_rows(&self, [features, outputs]: [usize; 2]) -> Result<(), TrainError> {
        let refuse = |why: String| Err(TrainError::Setting(why));
        let [takes, makes] = [self.network.input(), self.network.output()].map(crate::network::Shape::elements);
        if (takes, makes) != (features, outputs) {
            return refuse(format!(
                "The network has {takes} inputs and {makes} outputs, and the samples have {features} features and {outputs} targets: \
                 change the network's input and its last layer."
            ));
        }
        if self.loss != Loss::Mse {
            return refuse(
                "Samples with numbers as targets have no classes: use the mean squared error as the loss.".into(),
            );
        }
        self.validate_settings()
    }
}

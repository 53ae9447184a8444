//! What a network is trained on, and judged by.

use super::{Loss, Recipe, TrainError};
use crate::data::{Dataset, Rows};

/// Samples with what a network should make of them.
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
    /// How many there are.
    #[must_use]
    pub fn len(self) -> usize {
        match self {
            Self::Images(set) => set.len(),
            Self::Rows(rows) => rows.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// An error unless the recipe's settings make sense for them.
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

impl Recipe {
    /// An error unless its settings make sense for samples of so many numbers, with so many targets.
    ///
    /// # Errors
    /// A sentence that names the setting.
    pub fn validate_rows(&self, [features, outputs]: [usize; 2]) -> Result<(), TrainError> {
        let refuse = |why: String| Err(TrainError::Setting(why));
        let [takes, makes] = [self.network.input(), self.network.output()].map(crate::network::Shape::elements);
        if (takes, makes) != (features, outputs) {
            return refuse(format!(
                "The network takes {takes} numbers and makes {makes}, and the samples have {features} and {outputs} targets: change \
                 its input and its last layer."
            ));
        }
        if self.loss != Loss::Mse {
            return refuse(
                "Samples with numbers as targets have no classes: their loss is the mean squared error.".into(),
            );
        }
        self.validate_settings()
    }
}

//! The networks to train: the networks of the published results, or a learner's own.

use super::Scaling;
use crate::training::{Set, Workload};
use std::sync::{Arc, Mutex, PoisonError};
use warpbook_data::Dataset;
use warpbook_lab::{Error, Result};
use warpbook_nn::train::Recipe;
use warpbook_record::{Dtype, Problem};

/// Number of batches of Gaussian numbers in the training data.
const ROW_BATCHES: usize = 8;

/// A network to train.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Net {
    Known(Workload),
    /// A learner's own network; see [`Scaling::own`].
    Own,
}

/// A learner's own network with its images.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    pub recipe: Recipe,
    pub images: Dataset,
}

/// The last samples that were drawn, with their workload, batch and features as the key: every `ScalingWay` needs
/// them, and drawing 1 GB takes seconds.
#[derive(Debug, Clone, Default)]
pub(super) struct DrawnSamples(Arc<Mutex<Option<(DrawnKey, Set)>>>);

type DrawnKey = (Workload, u64, usize);

impl Net {
    /// Returns the network's name in a record.
    pub fn name(self) -> &'static str {
        match self {
            Self::Known(workload) => workload.name(),
            Self::Own => "own",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::Known(workload) => workload.title(),
            Self::Own => "Own network",
        }
    }

    pub fn is_rows(self) -> bool {
        self == Self::Known(Workload::AmpRecipe)
    }
}

impl Scaling {
    fn own_network(&self) -> Result<&Own> {
        self.own.as_ref().ok_or_else(|| {
            Error::Setting("No custom network was given: call `Scaling::own` with a recipe and images.".into())
        })
    }

    pub(super) fn own_batches(&self, network: Net) -> Vec<u64> {
        match network {
            Net::Known(workload) => workload.batches()[..1].to_vec(),
            Net::Own => self.own.iter().map(|own| own.recipe.batch as u64).collect(),
        }
    }

    pub(super) fn validate_network(&self, network: Net) -> Result<()> {
        match network {
            Net::Known(workload) => self.files.validate(workload),
            Net::Own => {
                let own = self.own_network()?;
                let classes = own.images.classes().len();
                own.recipe.validate(own.images.shape(), classes).map_err(|why| Error::Setting(why.to_string()))
            }
        }
    }

    /// Returns the timed recipe with the global batch.
    pub(super) fn recipe(&self, network: Net, batch: u64) -> Result<Recipe> {
        Ok(match network {
            Net::Known(workload) => workload.recipe(batch, self.features, self.seed),
            Net::Own => Recipe { batch: batch as usize, ..self.own_network()?.recipe.clone() },
        })
    }

    /// Returns the recipe for comparing several ranks with a single rank.
    pub(super) fn checked_recipe(&self, network: Net, batch: u64) -> Result<Recipe> {
        Ok(match network {
            Net::Known(workload) => workload.checked_recipe(batch, self.features, self.seed),
            Net::Own => Recipe { augmentation: None, ..self.recipe(network, batch)?.without_dropout() },
        })
    }

    /// Returns samples for at least one global batch.
    pub(super) fn set(&self, network: Net, batch: u64) -> Result<Set> {
        let Net::Known(workload) = network else { return Ok(Set::Images(self.own_network()?.images.clone())) };
        let key = (workload, batch, self.features);
        let mut drawn = self.drawn.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, set)) = drawn.as_ref().filter(|(of, _)| *of == key) {
            return Ok(set.clone());
        }
        // Drop the earlier samples first, to save memory.
        *drawn = None;
        let set = match workload {
            Workload::AmpRecipe => Set::gaussian(ROW_BATCHES * batch as usize, self.features, self.seed),
            _ => self.files.set(workload, batch as usize, self.features, self.seed)?,
        };
        Ok(drawn.insert((key, set)).1.clone())
    }

    /// Returns one step of all ranks as a problem with its work, which does not depend on the number of ranks.
    pub(super) fn step_problem(&self, network: Net, batch: u64) -> Problem {
        match (network, &self.own) {
            (Net::Known(workload), _) => workload.problem(batch, self.features, &self.files.label(workload)),
            (Net::Own, own) => Problem::new("", "", Vec::new(), Dtype::F32).with(|p| {
                let flops = own.as_ref().map_or(0, |own| own.recipe.network.training_flops());
                p.flops = flops.saturating_mul(batch);
            }),
        }
    }

    /// Describes the samples in two forms: in a few words, and in a sentence without its full stop.
    pub(super) fn samples_of(&self, network: Net) -> [String; 2] {
        match (network, &self.own) {
            (Net::Known(Workload::AmpRecipe), _) => {
                ["Gaussian numbers".into(), format!("Gaussian numbers (Philox, seed {})", self.seed)]
            }
            (Net::Known(workload), _) => [self.files.label(workload), self.files.note(workload, self.seed)],
            (Net::Own, own) => {
                let images = own.as_ref().map(|own| &own.images);
                [
                    images.map_or_else(String::new, |i| i.name().to_owned()),
                    images.map_or_else(String::new, Dataset::note),
                ]
            }
        }
    }
}

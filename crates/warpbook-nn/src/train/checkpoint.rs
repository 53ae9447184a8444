//! A training that can be gone on with: weights, the optimiser's state, step and seed, in one safetensors file.

use super::description::Description;
use super::engine::{ScalerState, State};
use super::{TrainError, Trainer};
use crate::network::{Network, ParamSpec};
use crate::ops::optimizer::Optimizer;
use crate::weights::{self, Arrays, STATE, Weights, WeightsError};
use safetensors::SafeTensors;
use serde::{Deserialize, Serialize};
use std::path::Path;
use warpbook_device::read_file;

/// What a checkpoint holds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Checkpoint {
    pub state: State,
    pub step: u64,
    pub seed: u64,
    pub network: Option<Description>,
}

/// What a checkpoint's metadata say.
#[derive(Serialize, Deserialize)]
struct About {
    /// Version of the format.
    checkpoint: u32,
    step: u64,
    seed: u64,
    /// Steps that changed the weights, where that is not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    updates: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scaler: Option<ScalerState>,
    /// What the network is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    network: Option<Description>,
}

/// What the names of a slot's arrays begin with.
pub(super) fn slot_prefix(slot: usize) -> String {
    format!("{STATE}{slot}.")
}

impl Checkpoint {
    pub fn save(&self, path: &Path) -> Result<(), TrainError> {
        let mut arrays = Arrays::new();
        for (spec, values) in self.state.weights.specs().iter().zip(self.state.weights.values()) {
            arrays.insert(spec.name.clone(), (spec.shape.clone(), values));
        }
        for (slot, state) in self.state.slots.iter().enumerate() {
            for (spec, values) in state.specs().iter().zip(state.values()).filter(|(s, _)| s.role.is_trained()) {
                arrays.insert(format!("{}{}", slot_prefix(slot), spec.name), (spec.shape.clone(), values));
            }
        }
        let updates = Some(self.state.updates).filter(|updates| *updates != self.step);
        let (scaler, network) = (self.state.scaler, self.network.clone());
        let about = About { checkpoint: 1, step: self.step, seed: self.seed, updates, scaler, network };
        let text = serde_json::to_string(&about).map_err(|e| TrainError::Setting(e.to_string()))?;
        Ok(weights::write(&arrays, Some(text), path)?)
    }

    pub fn load(network: &Network, optimizer: &Optimizer, path: &Path) -> Result<Self, TrainError> {
        let io = |source| WeightsError::Io { path: path.into(), source };
        let format = |why: String| WeightsError::Format { path: path.into(), why };
        let bytes = read_file(path, u64::MAX).map_err(io)?;
        let text = weights::metadata(&bytes).map_err(format)?;
        let tensors = SafeTensors::deserialize(&bytes).map_err(|e| format(e.to_string()))?;
        let about = text.and_then(|t| serde_json::from_str::<About>(&t).ok()).filter(|a| a.checkpoint == 1);
        let Some(About { step, seed, updates, scaler, network: described, .. }) = about else {
            let path = path.display();
            return Err(TrainError::Setting(format!(
                "{path} is not a checkpoint: it holds weights without a training to go on with. Read weights with --init {path}"
            )));
        };
        let weights = Weights::from_tensors(network, &tensors, |name| !name.starts_with(STATE))?;
        let slots = (0..optimizer.state_slots()).map(|slot| {
            let prefix = slot_prefix(slot);
            Weights::with_prefix(network, &tensors, &prefix)
        });
        let slots = slots.collect::<Result<Vec<_>, _>>()?;
        let extra = slot_prefix(optimizer.state_slots());
        if tensors.names().iter().any(|n| n.starts_with(&extra)) {
            return Err(TrainError::Setting(format!("{}: the checkpoint is of another optimiser.", path.display())));
        }
        Ok(Self {
            state: State { weights, slots, updates: updates.unwrap_or(step), scaler },
            step,
            seed,
            network: described,
        })
    }
}

impl Trainer {
    /// Writes weights, the optimiser's state, the step and what the network is to a safetensors file, to a temporary name first.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), TrainError> {
        self.now()?.save(path.as_ref())
    }

    /// What is saved.
    pub(super) fn now(&self) -> Result<Checkpoint, TrainError> {
        let network = Description::of(&self.recipe, self.data.as_deref());
        Ok(Checkpoint { state: self.engine.state()?, step: self.step, seed: self.recipe.seed, network })
    }

    /// The most bytes that it takes.
    pub(super) fn checkpoint_bytes(&self) -> u64 {
        /// An array's name and shape.
        const ARRAY: u64 = 256;
        /// What the network is.
        const HEADER: u64 = 1 << 16;
        let slots = self.recipe.optimizer.state_slots();
        let arrays = |trained: bool| if trained { 1 + slots } else { 1 };
        let of = |spec: &ParamSpec| arrays(spec.role.is_trained()) as u64 * (4 * spec.len() as u64 + ARRAY);
        HEADER + self.recipe.network.params().iter().map(of).sum::<u64>()
    }

    /// Goes on from a checkpoint, to the same bits as without the interruption. Where several ranks train, rank 0 reads it and gives it to the others, whose
    /// `path` is not used; it may be of another number of ranks.
    ///
    /// # Errors
    /// The file cannot be read, or is of another network, optimiser or seed.
    pub fn resume(&mut self, path: impl AsRef<Path>) -> Result<(), TrainError> {
        if self.ranks.is_none() {
            return self.read(path.as_ref());
        }
        if self.writes() {
            self.read(path.as_ref()).inspect_err(|why| self.abort(why))?;
        }
        self.share_state()
    }

    fn read(&mut self, path: &Path) -> Result<(), TrainError> {
        let checkpoint = Checkpoint::load(&self.recipe.network, &self.recipe.optimizer, path)?;
        if checkpoint.seed != self.recipe.seed {
            return Err(TrainError::Setting(format!(
                "The checkpoint was made with seed {}, and this recipe has seed {}: set the same seed.",
                checkpoint.seed, self.recipe.seed
            )));
        }
        self.go_on(&checkpoint.state, checkpoint.step)
    }
}

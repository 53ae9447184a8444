//! A training that can be gone on with: weights, the optimiser's state, step and seed, in one safetensors file.

use super::TrainError;
use crate::network::Network;
use crate::ops::optimizer::Optimizer;
use crate::weights::{self, Arrays, STATE, Weights, WeightsError};
use safetensors::SafeTensors;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::Path;

/// What a checkpoint holds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Checkpoint {
    pub weights: Weights,
    /// One set for each slot of the optimiser.
    pub state: Vec<Weights>,
    pub step: u64,
    pub seed: u64,
}

/// What a checkpoint's metadata say.
#[derive(Serialize, Deserialize)]
struct About {
    /// Version of the format.
    checkpoint: u32,
    step: u64,
    seed: u64,
}

/// The name of a slot's array.
fn slot_name(slot: usize, param: &str) -> String {
    format!("{STATE}{slot}.{param}")
}

impl Checkpoint {
    pub fn save(&self, path: &Path) -> Result<(), TrainError> {
        let mut arrays = Arrays::new();
        for (spec, values) in self.weights.specs().iter().zip(self.weights.values()) {
            arrays.insert(spec.name.clone(), (spec.shape.clone(), values));
        }
        for (slot, state) in self.state.iter().enumerate() {
            for (spec, values) in state.specs().iter().zip(state.values()).filter(|(s, _)| s.role.is_trained()) {
                arrays.insert(slot_name(slot, &spec.name), (spec.shape.clone(), values));
            }
        }
        // A single entry: the order of several is another one on every run, and so would the file's bytes be.
        let about = About { checkpoint: 1, step: self.step, seed: self.seed };
        let text = serde_json::to_string(&about).map_err(|e| TrainError::Setting(e.to_string()))?;
        let metadata = HashMap::from([("warpbook".to_owned(), text)]);
        Ok(weights::write(&arrays, Some(metadata), path)?)
    }

    pub fn load(network: &Network, optimizer: &Optimizer, path: &Path) -> Result<Self, TrainError> {
        let io = |source| WeightsError::Io { path: path.into(), source };
        let format = |why: String| WeightsError::Format { path: path.into(), why };
        let bytes = std::fs::read(path).map_err(io)?;
        let (_, header) = SafeTensors::read_metadata(&bytes).map_err(|e| format(e.to_string()))?;
        let tensors = SafeTensors::deserialize(&bytes).map_err(|e| format(e.to_string()))?;
        let text = header.metadata().as_ref().and_then(|m| m.get("warpbook"));
        let about = text.and_then(|t| serde_json::from_str::<About>(t).ok()).filter(|a| a.checkpoint == 1);
        let Some(About { step, seed, .. }) = about else {
            return Err(format("it says nothing of a training. Weights alone are read by --init FILE".into()).into());
        };
        let weights = Weights::from_tensors(network, &tensors, |name| !name.starts_with(STATE))?;
        let slots = (0..optimizer.state_slots()).map(|slot| {
            let prefix = slot_name(slot, "");
            Weights::with_prefix(network, &tensors, &prefix)
        });
        let state = slots.collect::<Result<Vec<_>, _>>()?;
        let extra = slot_name(optimizer.state_slots(), "");
        if tensors.names().iter().any(|n| n.starts_with(&extra)) {
            return Err(TrainError::Setting(format!("{}: the checkpoint is of another optimiser.", path.display())));
        }
        Ok(Self { weights, state, step, seed })
    }
}

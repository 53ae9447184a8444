//! A training that can be gone on with: weights, the optimiser's state, step and seed, in one safetensors file.

use super::TrainError;
use crate::network::Network;
use crate::ops::optimizer::Optimizer;
use crate::weights::{self, Arrays, STATE, Weights, WeightsError};
use safetensors::SafeTensors;
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
        let metadata = HashMap::from([
            ("warpbook".to_owned(), "checkpoint 1".to_owned()),
            ("step".to_owned(), self.step.to_string()),
            ("seed".to_owned(), self.seed.to_string()),
        ]);
        Ok(weights::write(&arrays, Some(metadata), path)?)
    }

    pub fn load(network: &Network, optimizer: &Optimizer, path: &Path) -> Result<Self, TrainError> {
        let io = |source| WeightsError::Io { path: path.into(), source };
        let format = |why: String| WeightsError::Format { path: path.into(), why };
        let bytes = std::fs::read(path).map_err(io)?;
        let (_, header) = SafeTensors::read_metadata(&bytes).map_err(|e| format(e.to_string()))?;
        let tensors = SafeTensors::deserialize(&bytes).map_err(|e| format(e.to_string()))?;
        let number = |key: &str| {
            let text = header.metadata().as_ref().and_then(|m| m.get(key));
            text.and_then(|t| t.parse::<u64>().ok()).ok_or_else(|| {
                format(format!("it has no `{key}`, so it is no checkpoint. Weights alone are read by --init FILE"))
            })
        };
        let (step, seed) = (number("step")?, number("seed")?);
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

//! Checkpoints: weights, the optimiser's state, step and seed in one safetensors file, from which a training can resume.

use super::Trainer;
use super::description::{Description, different_layer};
use crate::network::ParamSpec;
use crate::ops::optimizer::Optimizer;
use crate::ops::optimizer::groups::Group;
use crate::train::engine::{ScalerState, State};
use crate::train::{Recipe, TrainError};
use crate::weights::{self, NamedArrays, STATE, Weights, WeightsError};
use safetensors::SafeTensors;
use serde::{Deserialize, Serialize};
use std::path::Path;
use warpbook_data::{Identity, names};
use warpbook_gemm::Finding;

/// Contents of a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Checkpoint {
    pub state: State,
    pub step: u64,
    pub seed: u64,
    pub made: Option<Made>,
    pub network: Option<Description>,
}

/// Settings of the steps made so far; a training with different settings cannot resume. Learning rates may change, so they are not included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Made {
    batch: usize,
    shuffle: bool,
    optimizer: Optimizer,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    groups: Vec<Group>,
}

impl Made {
    fn new(recipe: &Recipe) -> Self {
        let groups = recipe.groups.iter().map(|g| Group { rate: 1.0, schedule: None, ..g.clone() }).collect();
        Self { batch: recipe.batch, shuffle: recipe.shuffle, optimizer: recipe.optimizer, groups }
    }

    /// Returns a sentence that names both settings if the training to be resumed differs.
    fn difference_from(&self, now: &Self) -> Option<String> {
        if self.batch != now.batch {
            return Some(format!(
                "The checkpoint was made with batches of {}, and this training has batches of {}, so the steps do not match the data. Set the \
                 same batch",
                self.batch, now.batch
            ));
        }
        if self.shuffle != now.shuffle {
            let words = |shuffled| if shuffled { "shuffled" } else { "in their order" };
            return Some(format!(
                "The checkpoint was trained on samples {}, and this training takes them {}: some would come twice, and others not at all. Choose the \
                 same order",
                words(self.shuffle),
                words(now.shuffle)
            ));
        }
        if self.optimizer != now.optimizer || self.groups != now.groups {
            return Some(format!(
                "The checkpoint has another optimiser: {}, and this training has {}. Set the same optimiser",
                self.words(),
                now.words()
            ));
        }
        None
    }

    /// Returns the optimiser in the words of a recipe's file, such as "adam_w (betas [0.9,0.999], epsilon 1e-8, weight_decay 0.01)".
    fn words(&self) -> String {
        let fields = serde_json::to_value(self.optimizer).ok();
        let fields = fields.as_ref().and_then(serde_json::Value::as_object).into_iter().flatten();
        let (kind, others): (Vec<_>, Vec<_>) = fields.partition(|(name, _)| *name == "kind");
        let kind = kind.first().and_then(|(_, kind)| kind.as_str()).unwrap_or("none");
        let mut others: Vec<String> = others.iter().map(|(name, value)| format!("{name} {value}")).collect();
        others.extend(self.groups.iter().map(|group| {
            let number = |name: &str, n: Option<f64>| n.map_or(String::new(), |n| format!(" {name} {n}"));
            let muon = group.muon.map_or(String::new(), |m| format!(" muon of {} steps", m.steps));
            format!(
                "{}:{}{}{muon}",
                group.params,
                number("momentum", group.momentum),
                number("weight_decay", group.weight_decay)
            )
        }));
        format!("{kind} ({})", others.join(", "))
    }
}

/// Contents of a checkpoint's metadata.
#[derive(Serialize, Deserialize)]
struct CheckpointMetadata {
    /// Version of the format.
    checkpoint: u32,
    step: u64,
    seed: u64,
    /// Number of steps that changed the weights, if some steps were skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    updates: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scaler: Option<ScalerState>,
    /// Settings of the steps; missing in checkpoints of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    made: Option<Made>,
    /// Description of the network and its training data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    network: Option<Description>,
    /// Kernels of the matrix products on a GPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    kernels: Vec<Finding>,
}

/// Returns the prefix of the names of a slot's arrays.
pub(super) fn slot_prefix(slot: usize) -> String {
    format!("{STATE}{slot}.")
}

impl Checkpoint {
    pub fn save(&self, path: &Path) -> Result<(), TrainError> {
        let mut arrays = NamedArrays::new();
        for (spec, values) in self.state.weights.specs().iter().zip(self.state.weights.values()) {
            arrays.insert(spec.name.clone(), (spec.shape.clone(), values));
        }
        for (slot, state) in self.state.slots.iter().enumerate() {
            for (spec, values) in state.specs().iter().zip(state.values()).filter(|(s, _)| s.role.is_trained()) {
                arrays.insert(format!("{}{}", slot_prefix(slot), spec.name), (spec.shape.clone(), values));
            }
        }
        let updates = Some(self.state.updates).filter(|updates| *updates != self.step);
        let (scaler, made, network) = (self.state.scaler, self.made.clone(), self.network.clone());
        let kernels = self.state.kernels.clone();
        let about = CheckpointMetadata {
            checkpoint: 1,
            step: self.step,
            seed: self.seed,
            updates,
            scaler,
            made,
            network,
            kernels,
        };
        let text = serde_json::to_string(&about).map_err(|e| TrainError::Setting(e.to_string()))?;
        Ok(weights::write(&arrays, Some(text), path)?)
    }

    /// Reads a checkpoint from which this recipe can be resumed.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or is not a checkpoint; if a tensor is missing or unknown, or has another shape or type, or a
    /// value that is not finite; if seed, batch, order or optimiser differ from the recipe's.
    pub fn load(recipe: &Recipe, path: &Path) -> Result<Self, TrainError> {
        let (network, optimizer) = (&recipe.network, &recipe.optimizer);
        let format = |why: String| WeightsError::Format { path: path.into(), why };
        let bytes = weights::read_tensors(path)?;
        let text = weights::metadata(&bytes).map_err(format)?;
        let tensors = SafeTensors::deserialize(&bytes).map_err(|e| format(e.to_string()))?;
        let about =
            text.and_then(|t| serde_json::from_str::<CheckpointMetadata>(&t).ok()).filter(|a| a.checkpoint == 1);
        let Some(CheckpointMetadata { step, seed, updates, scaler, made, network: described, kernels, .. }) = about
        else {
            let path = path.display();
            return Err(TrainError::Setting(format!(
                "{path} is not a checkpoint: it holds weights, but no training to resume. Read weights with --init {path}"
            )));
        };
        if seed != recipe.seed {
            return Err(TrainError::Setting(format!(
                "The checkpoint was made with seed {seed}, and this recipe has seed {}: set the same seed.",
                recipe.seed
            )));
        }
        if let Some(other) = made.as_ref().and_then(|made| made.difference_from(&Made::new(recipe))) {
            return Err(TrainError::Setting(format!("{other}{}", or_start_anew(path))));
        }
        let weights = Weights::from_tensors(network, &tensors, |name| !name.starts_with(STATE))?;
        let slots = (0..optimizer.state_slots()).map(|slot| {
            let prefix = slot_prefix(slot);
            Weights::with_prefix(network, &tensors, &prefix)
        });
        let slots = slots.collect::<Result<Vec<_>, _>>()?;
        let extra = slot_prefix(optimizer.state_slots());
        if tensors.names().iter().any(|n| n.starts_with(&extra)) {
            return Err(TrainError::Setting(format!(
                "The checkpoint was made with another optimiser. Set the same optimiser{}",
                or_start_anew(path)
            )));
        }
        Ok(Self {
            state: State { weights, slots, updates: updates.unwrap_or(step), scaler, kernels },
            step,
            seed,
            made,
            network: described,
        })
    }
}

impl Trainer {
    /// Writes weights, the optimiser's state, the step and a description of the network to a safetensors file. The file is first written under a
    /// temporary name and then renamed.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), TrainError> {
        self.now()?.save(path.as_ref())
    }

    /// Collects the current state for saving.
    pub(super) fn now(&self) -> Result<Checkpoint, TrainError> {
        let mut network = Description::new(&self.recipe, self.source.as_ref());
        if let (Some(network), Some(set)) = (&mut network, &self.set) {
            network.classes = Some(set.classes().to_vec());
            network.trained_on = self.identity().cloned();
        }
        let (state, made) = (self.engine.state()?, Some(Made::new(&self.recipe)));
        Ok(Checkpoint { state, step: self.step, seed: self.recipe.seed, made, network })
    }

    /// Returns an upper bound of a checkpoint's size in bytes.
    pub(super) fn checkpoint_bytes(&self) -> u64 {
        /// Bytes allowed for an array's name and shape.
        const ARRAY: u64 = 256;
        /// Bytes allowed for the network's description.
        const HEADER: u64 = 1 << 17;
        let slots = self.recipe.optimizer.state_slots();
        let arrays = |trained: bool| if trained { 1 + slots } else { 1 };
        let bytes_of = |spec: &ParamSpec| arrays(spec.role.is_trained()) as u64 * (4 * spec.len() as u64 + ARRAY);
        HEADER + self.recipe.network.params().iter().map(bytes_of).sum::<u64>()
    }

    /// Returns the identity of the training images.
    fn identity(&self) -> Option<&Identity> {
        self.set.as_ref().map(|set| self.identity.get_or_init(|| set.identity()))
    }

    /// Resumes from a checkpoint, with the same bits as without the interruption. If several ranks train, rank 0 reads it and sends it to
    /// the others, whose `path` is not used; the number of ranks may differ.
    ///
    /// # Errors
    /// If the file cannot be read, or belongs to another network, optimiser, batch, order or seed, or to other images: the message names
    /// both values. Checkpoints of older versions do not contain all of these: see [`Trainer::not_compared`].
    pub fn resume(&mut self, path: impl AsRef<Path>) -> Result<(), TrainError> {
        if self.ranks.is_none() {
            return self.read(path.as_ref());
        }
        if self.writes() {
            self.read(path.as_ref()).inspect_err(|why| self.abort(why))?;
        }
        self.share_state()
    }

    /// Returns a sentence about settings that could not be compared because a checkpoint of an older version lacks them.
    #[must_use]
    pub fn not_compared(&self) -> Option<&'static str> {
        self.not_compared
    }

    fn read(&mut self, path: &Path) -> Result<(), TrainError> {
        let checkpoint = Checkpoint::load(&self.recipe, path)?;
        self.not_compared = checkpoint.made.is_none().then_some(
            "The checkpoint is of an older version, which did not record the batch, the optimiser's settings and the data, so these could not be compared.",
        );
        if let Some(description) = &checkpoint.network {
            let network = description.network().ok();
            if let Some(why) = network.and_then(|network| different_layer(&network, &self.recipe.network)) {
                let why = format!(
                    "The checkpoint has another network: {why}. Choose the same network{}",
                    or_start_anew(path)
                );
                return Err(TrainError::Setting(why));
            }
            self.ensure_same_data(description, path)?;
        }
        self.go_on(&checkpoint.state, checkpoint.step)
    }

    fn ensure_same_data(&self, description: &Description, path: &Path) -> Result<(), TrainError> {
        let prepared = (&self.recipe.mean, &self.recipe.deviation);
        if (&description.mean, &description.deviation) != prepared {
            let (mean, deviation) = prepared;
            return Err(TrainError::Setting(format!(
                "The checkpoint was trained on images with mean {:?} and deviation {:?}, and this training has mean {mean:?} and deviation {deviation:?}. Set \
                 the same{}",
                description.mean,
                description.deviation,
                or_start_anew(path)
            )));
        }
        let (Some(set), Some(now), Some(then), Some(classes)) =
            (&self.set, self.identity(), &description.trained_on, &description.classes)
        else {
            return Ok(());
        };
        if (then.checksum, then.images, &classes[..]) == (now.checksum, now.images, set.classes()) {
            return Ok(());
        }
        Err(TrainError::Setting(format!(
            "The checkpoint was trained on {then}, of {}; this training is on {now}, of {}. Choose the same images{}",
            names(classes),
            names(set.classes()),
            or_start_anew(path)
        )))
    }
}

/// Suggests what to do if a training cannot resume.
fn or_start_anew(path: &Path) -> String {
    format!(", or begin a new training with its weights: --init {}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_gemm::Product;
    use warpbook_kernels::matmul::Form;
    use warpbook_record::Dtype;

    /// Checkpoints name the kernels of products, except checkpoints from a CPU or of older versions.
    #[test]
    fn kernels_are_kept_where_there_are_any() {
        let about = |kernels| CheckpointMetadata {
            checkpoint: 1,
            step: 3,
            seed: 7,
            updates: None,
            scaler: None,
            made: None,
            network: None,
            kernels,
        };
        let product = Product::new(32, 10, 128, Form { trans_b: true, ..Form::plain(Dtype::F16) });
        let kernels = vec![Finding::new(&product, "15_split_k", "64x64s12k2", 2.5)];
        let text = serde_json::to_string(&about(kernels.clone())).unwrap();
        assert_eq!(serde_json::from_str::<CheckpointMetadata>(&text).unwrap().kernels, kernels);
        let none = serde_json::to_string(&about(Vec::new())).unwrap();
        assert_eq!(none, r#"{"checkpoint":1,"step":3,"seed":7}"#);
        assert_eq!(serde_json::from_str::<CheckpointMetadata>(&none).unwrap().kernels, []);
    }
}

//! Splits a training into a model and an optimiser's state, and moves it to another device.

use super::Trainer;
use super::checkpoint::slot_prefix;
use crate::model::{Model, OptimizerState};
use crate::train::{Place, TrainError};
use warpbook_device::CudaDevice;

impl Place {
    /// Returns the GPU; `None` on the CPU.
    fn device(&self) -> Option<&CudaDevice> {
        match self {
            Self::Cpu => None,
            Self::Cuda(device, _) => Some(device),
        }
    }
}

impl Trainer {
    /// Returns the network with its current weights, on the device of the training.
    ///
    /// # Errors
    /// If the device reports an error.
    pub fn model(&self) -> Result<Model, TrainError> {
        Ok(Model::new(&self.recipe().network, &self.weights()?)?.to_place(self.place().device())?)
    }

    /// Returns the current state of the optimiser, on the device of the training.
    ///
    /// # Errors
    /// If the device reports an error.
    pub fn optimizer_state(&self) -> Result<OptimizerState, TrainError> {
        let state = self.state()?;
        let slots: Vec<_> = state.slots.iter().enumerate().map(|(slot, values)| (slot_prefix(slot), values)).collect();
        let own = OptimizerState::new(self.recipe().optimizer, &slots, (state.updates, state.scaler))?;
        Ok(own.to_place(self.place().device())?)
    }

    /// Moves the training to another device or precision: `trainer.to(&device)` in fp32, `trainer.to(Place::new(&device,
    /// Precision::AmpFp16)?)` in half precision. Weights, the optimiser's state, the step, the time budget, the checkpoint's file and the
    /// description of the data set move with it. A loss scale starts at its initial value if the training had none.
    ///
    /// # Errors
    /// See [`Trainer::on`]. After an error the training is lost, unless it was [saved](Trainer::save).
    pub fn to(self, place: impl Into<Place>) -> Result<Self, TrainError> {
        if self.ranks.is_some() {
            let why = "A training on several ranks cannot be moved: save it, and resume it on another device.";
            return Err(TrainError::Setting(why.into()));
        }
        let state = self.state()?;
        let (recipe, step, batch, limits) = (self.recipe().clone(), self.step(), self.batch(), self.limits());
        let (source, set, identity) = (self.source.clone(), self.set.clone(), self.identity.clone());
        // Frees the memory for the other precision on the same device.
        drop(self);
        let mut moved = Self::with_batch(place.into(), recipe, batch, &state.weights, None)?;
        moved.go_on(&state, step)?;
        moved.set_limits(limits);
        (moved.source, moved.set, moved.identity) = (source, set, identity);
        Ok(moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Network, batch_norm, conv2d, dropout, flatten, linear, relu};
    use crate::ops::optimizer::Optimizer;
    use crate::train::{CudaOptions, Flow, Precision, Recipe};
    use std::time::Duration;
    use warpbook_data::synthetic_digits;
    use warpbook_device::{Choice, Device, testing};

    fn recipe(optimizer: Optimizer) -> Recipe {
        let layers = [conv2d(4, 3).without_bias(), batch_norm(), relu(), flatten(), dropout(0.3), linear(10)];
        Recipe {
            network: Network::new([1, 28, 28], layers).unwrap(),
            optimizer,
            learning_rate: 1e-3,
            batch: 16,
            ..Recipe::mnist()
        }
    }

    /// Trains for this many steps, and optionally moves the training halfway.
    fn trained(optimizer: Optimizer, steps: u64, moved: Option<&dyn Fn(Trainer) -> Trainer>) -> Trainer {
        let digits = synthetic_digits(64, 8, 1);
        let mut trainer = Trainer::new(recipe(optimizer), &digits.train, None).unwrap();
        let until = |trainer: &mut Trainer, end| {
            trainer.train_until(end, &digits.train, &digits.test, 100, &mut |_| Flow::Continue).unwrap();
        };
        until(&mut trainer, steps / 2);
        if let Some(moved) = moved {
            trainer = moved(trainer);
        }
        until(&mut trainer, steps);
        trainer
    }

    #[test]
    fn a_training_that_was_moved_goes_on_to_the_same_bits() {
        let cpu = Device::open(Choice::Cpu).unwrap();
        let (stayed, moved) =
            (trained(Optimizer::adam(), 6, None), trained(Optimizer::adam(), 6, Some(&|t| t.to(&cpu).unwrap())));
        assert_eq!((moved.step(), moved.place()), (6, &Place::Cpu));
        assert_eq!(moved.weights().unwrap(), stayed.weights().unwrap());
        assert_eq!(moved.state().unwrap(), stayed.state().unwrap());
    }

    #[test]
    fn a_training_that_was_moved_keeps_its_time_budget_and_its_file() {
        let cpu = Device::open(Choice::Cpu).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.safetensors");
        let limited = |t: Trainer| {
            t.time_budget(Duration::from_secs(3600)).checkpoint(&path).read_losses_every(7).to(&cpu).unwrap()
        };
        let trainer = trained(Optimizer::adam(), 6, Some(&limited));
        assert_eq!(trainer.limits(), (Some(Duration::from_secs(3600)), Some(path.clone()), Some(7)));
        let mut resumed = trained(Optimizer::adam(), 2, None);
        resumed.resume(&path).unwrap();
        assert_eq!(resumed.step(), 6);
    }

    #[test]
    fn model_and_state_are_what_the_training_has() {
        let trainer = trained(Optimizer::adam(), 4, None);
        let (model, state) = (trainer.model().unwrap(), trainer.optimizer_state().unwrap());
        assert_eq!(model.weights().unwrap(), trainer.weights().unwrap());
        let names: Vec<&str> = state.tensors.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), 2 * 5, "means of five parameters, and of their squares: {names:?}");
        assert_eq!((names[0], names[5]), ("optimizer.0.conv1.weight", "optimizer.1.conv1.weight"));
        let squares = state.tensors.get("optimizer.1.fc1.bias").unwrap();
        assert!(squares.shape() == [10] && squares.to_vec().unwrap().iter().all(|v| *v > 0.0));
        let text = state.to_string();
        assert!(text.starts_with("Adam after 4 steps: 10 tensors, ") && text.ends_with("in fp32 on the CPU"), "{text}");
        assert!(model.device().is_none() && state.device().is_none() && state.scaler.is_none());
    }

    #[test]
    fn a_training_goes_to_the_gpu_and_back() {
        let Some(gpu) = testing::gpu("a_training_goes_to_the_gpu_and_back") else { return };
        // Adam would make large steps from gradients that are only rounding errors.
        let momentum = Optimizer::Sgd { momentum: 0.9, nesterov: false, weight_decay: 0.0 };
        let trained = |moved: Option<&dyn Fn(Trainer) -> Trainer>| trained(momentum, 8, moved);
        let want = trained(None).weights().unwrap();
        let (cpu, gpu) = (Device::open(Choice::Cpu).unwrap(), Device::Cuda(gpu));
        let there = trained(Some(&|t| t.to(&gpu).unwrap()));
        assert!(there.model().unwrap().place() == "cuda:0" && there.optimizer_state().unwrap().device().is_some());
        let half = trained(Some(&|t| t.to(Place::new(&gpu, Precision::AmpFp16).unwrap()).unwrap()));
        assert_eq!(half.place(), &Place::Cuda(gpu.cuda().unwrap().clone(), CudaOptions::new(Precision::AmpFp16)));
        assert!(half.optimizer_state().unwrap().scaler.is_some_and(|s| s.scale > 0.0));
        let back = trained(Some(&|t| t.to(&gpu).unwrap().to(&cpu).unwrap()));
        let norm = |v: &mut dyn Iterator<Item = f32>| v.map(|v| f64::from(v).powi(2)).sum::<f64>().sqrt();
        for (name, trainer, allowed) in [("there", there, 1e-3), ("half", half, 3e-2), ("back", back, 0.0)] {
            let got = trainer.weights().unwrap();
            for (spec, (got, want)) in got.specs().iter().zip(got.values().iter().zip(want.values())) {
                let apart = norm(&mut got.iter().zip(want).map(|(g, w)| g - w)) / norm(&mut want.iter().copied());
                assert!(apart <= allowed, "{name}: {} differs by {apart:.1e}", spec.name);
            }
        }
    }
}

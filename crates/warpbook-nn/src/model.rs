//! A network with its weights, and an optimiser's state, as named tensors that can be moved between devices.
//!
//! ```
//! use warpbook_device::{Choice, Device};
//! use warpbook_nn::{model::Model, network::mnist_cnn, weights::Weights};
//!
//! let network = mnist_cnn(0.25, 0.5);
//! let model = Model::new(&network, &Weights::init(&network, 1))?;
//! let device = Device::open(Choice::Best)?;
//! let there = model.to(&device)?;
//! assert_eq!(there.tensors().get("fc2.bias").map(|bias| bias.shape().to_vec()), Some(vec![10]));
//! assert!(model.to_string().starts_with("A network of 11 layers: 8 tensors, 1199882 numbers in fp32 on the CPU"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::network::Network;
use crate::ops::optimizer::Optimizer;
use crate::tensor::{Tensor, TensorError, device_name};
use crate::train::{ScalerState, TrainError};
use crate::weights::Weights;
use std::fmt;
use warpbook_device::{CudaDevice, Device};

/// Tensors by name, all on one device, in insertion order.
#[derive(Debug, Clone, Default)]
pub struct Tensors {
    named: Vec<(String, Tensor)>,
    device: Option<CudaDevice>,
}

impl Tensors {
    /// Copies weights to tensors with PyTorch's names and shapes, in fp32 on the CPU.
    pub(crate) fn from_weights(
        weights: &Weights,
        prefix: &str,
        kept: impl Fn(bool) -> bool,
    ) -> Result<Self, TensorError> {
        let pairs = weights.specs().iter().zip(weights.values()).filter(|(spec, _)| kept(spec.role.is_trained()));
        let tensor = |(spec, values): (&crate::network::ParamSpec, &Vec<f32>)| {
            Ok((format!("{prefix}{}", spec.name), Tensor::new(spec.shape.clone(), values.clone())?))
        };
        Ok(Self { named: pairs.map(tensor).collect::<Result<_, TensorError>>()?, device: None })
    }

    /// Returns the tensor with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.named.iter().find(|(n, _)| n == name).map(|(_, tensor)| tensor)
    }

    /// Iterates over names and tensors.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.named.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// Returns the number of tensors.
    #[must_use]
    pub fn len(&self) -> usize {
        self.named.len()
    }

    /// Returns true if there are no tensors.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// Returns the number of elements of all tensors.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.named.iter().map(|(_, tensor)| tensor.len()).sum()
    }

    /// Returns the GPU that holds the tensors; `None` on the CPU.
    #[must_use]
    pub fn device(&self) -> Option<&CudaDevice> {
        self.device.as_ref()
    }

    /// Copies the tensors to a device.
    ///
    /// # Errors
    /// If they do not fit into device memory, or the driver fails.
    pub fn to(&self, device: &Device) -> Result<Self, TensorError> {
        self.to_place(device.cuda())
    }

    pub(crate) fn to_place(&self, device: Option<&CudaDevice>) -> Result<Self, TensorError> {
        let moved = |(name, tensor): &(String, Tensor)| Ok((name.clone(), tensor.to_place(device)?));
        let named = self.named.iter().map(moved).collect::<Result<_, TensorError>>()?;
        Ok(Self { named, device: device.cloned() })
    }

    fn others(&mut self, more: Self) {
        self.named.extend(more.named);
    }
}

/// Writes "8 tensors, 1199882 numbers in fp32 on cuda:0".
impl fmt::Display for Tensors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.len() == 1 { "" } else { "s" };
        write!(f, "{} tensor{s}, {} numbers in fp32 on {}", self.len(), self.elements(), device_name(self.device()))
    }
}

/// A network with its weights, on the CPU or on a GPU.
#[derive(Debug, Clone)]
pub struct Model {
    network: Network,
    weights: Tensors,
}

impl Model {
    /// Creates a model on the CPU.
    ///
    /// # Errors
    /// If the weights do not match the network's parameters.
    pub fn new(network: &Network, weights: &Weights) -> Result<Self, TrainError> {
        let checked = Weights::new(network, weights.values().to_vec())?;
        Ok(Self { network: network.clone(), weights: Tensors::from_weights(&checked, "", |_| true)? })
    }

    /// Returns the network that the tensors belong to.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Returns the weights and running statistics, with PyTorch's names and layouts.
    #[must_use]
    pub fn tensors(&self) -> &Tensors {
        &self.weights
    }

    /// Returns the GPU that holds the model; `None` on the CPU.
    #[must_use]
    pub fn device(&self) -> Option<&CudaDevice> {
        self.weights.device()
    }

    /// Returns the name of the device for display: "the CPU", "cuda:0".
    #[must_use]
    pub fn place(&self) -> String {
        device_name(self.device())
    }

    /// Copies the model to a device.
    ///
    /// # Errors
    /// If the weights do not fit into device memory, or the driver fails.
    pub fn to(&self, device: &Device) -> Result<Self, TensorError> {
        self.to_place(device.cuda())
    }

    pub(crate) fn to_place(&self, device: Option<&CudaDevice>) -> Result<Self, TensorError> {
        Ok(Self { network: self.network.clone(), weights: self.weights.to_place(device)? })
    }

    /// Copies the weights to the host, in the form that trainers, frozen networks and files use.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn weights(&self) -> Result<Weights, TrainError> {
        let values = self.weights.iter().map(|(_, tensor)| tensor.to_vec()).collect::<Result<_, _>>()?;
        Ok(Weights::new(&self.network, values)?)
    }
}

/// Writes "A network of 11 layers: 8 tensors, 1199882 numbers in fp32 on cuda:0".
impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "A network of {} layers: {}", self.network.nodes().len(), self.weights)
    }
}

/// The state an optimiser continues from: its moments, its number of steps, and the loss scale.
#[derive(Debug, Clone)]
pub struct OptimizerState {
    /// The optimiser that the state belongs to.
    pub optimizer: Optimizer,
    /// State arrays under their names in a checkpoint: `optimizer.0.conv1.weight` is the first moment of that weight.
    pub tensors: Tensors,
    /// Number of steps that changed the weights.
    pub updates: u64,
    /// State of the loss scale; `None` if the loss is not scaled.
    pub scaler: Option<ScalerState>,
}

impl OptimizerState {
    /// Creates the state from its arrays, one list per slot, named as in a checkpoint.
    pub(crate) fn new(
        optimizer: Optimizer,
        slots: &[(String, &Weights)],
        (updates, scaler): (u64, Option<ScalerState>),
    ) -> Result<Self, TensorError> {
        let mut tensors = Tensors::default();
        for (prefix, slot) in slots {
            tensors.others(Tensors::from_weights(slot, prefix, |is_trained| is_trained)?);
        }
        Ok(Self { optimizer, tensors, updates, scaler })
    }

    /// Returns the GPU that holds the state; `None` on the CPU.
    #[must_use]
    pub fn device(&self) -> Option<&CudaDevice> {
        self.tensors.device()
    }

    /// Copies the state to a device.
    ///
    /// # Errors
    /// If the state does not fit into device memory, or the driver fails.
    pub fn to(&self, device: &Device) -> Result<Self, TensorError> {
        self.to_place(device.cuda())
    }

    pub(crate) fn to_place(&self, device: Option<&CudaDevice>) -> Result<Self, TensorError> {
        Ok(Self { tensors: self.tensors.to_place(device)?, ..self.clone() })
    }
}

/// Writes "Adam after 40 steps: 16 tensors, 2399764 numbers in fp32 on cuda:0".
impl fmt::Display for OptimizerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} after {} steps: {}", self.optimizer.name(), self.updates, self.tensors)?;
        self.scaler.map_or(Ok(()), |s| write!(f, "; the loss is scaled by {}", s.scale))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{batch_norm, conv2d, flatten, linear};
    use warpbook_device::{Choice, testing};

    fn network() -> Network {
        Network::new([2, 4, 4], [conv2d(3, 3), batch_norm(), flatten(), linear(2)]).unwrap()
    }

    #[test]
    fn a_model_keeps_names_shapes_and_values() {
        let network = network();
        let weights = Weights::init(&network, 5);
        let model = Model::new(&network, &weights).unwrap().to(&Device::open(Choice::Cpu).unwrap()).unwrap();
        let names: Vec<&str> = model.tensors().iter().map(|(name, _)| name).collect();
        assert_eq!(names[..3], ["conv1.weight", "conv1.bias", "bn1.weight"]);
        let tensor = model.tensors().get("conv1.weight").unwrap();
        assert_eq!(
            (tensor.shape(), tensor.to_vec().unwrap().as_slice()),
            (&[3, 2, 3, 3][..], &weights.values()[0][..])
        );
        assert!(model.tensors().get("conv2.weight").is_none() && model.device().is_none());
        assert_eq!(model.weights().unwrap(), weights);
        let other = Network::new(4, [linear(2)]).unwrap();
        assert!(Model::new(&other, &weights).unwrap_err().to_string().contains("2 parameters"));
    }

    #[test]
    fn a_model_goes_to_the_gpu_and_back() {
        let Some(gpu) = testing::gpu("a_model_goes_to_the_gpu_and_back") else { return };
        let network = network();
        let weights = Weights::init(&network, 5);
        let there = Model::new(&network, &weights).unwrap().to(&Device::Cuda(gpu)).unwrap();
        assert!(there.to_string().ends_with("on cuda:0") && there.device().is_some(), "{there}");
        assert!(there.tensors().iter().all(|(_, t)| t.place() == "cuda:0"));
        assert_eq!(there.weights().unwrap(), weights);
        let back = there.to(&Device::open(Choice::Cpu).unwrap()).unwrap();
        assert!(back.device().is_none() && back.weights().unwrap() == weights);
    }
}

//! The networks of the published figures, and their problems.

use warpbook_nn::network::{Shape, amp_recipe};
use warpbook_nn::train::Recipe;
use warpbook_record::{Dtype, Problem, SweepPoint, count, setting};

/// Number of batches of the AMP recipe that are kept in memory.
pub(super) const AMP_BATCHES: usize = 50;
/// Width of the AMP recipe's layers in the published record.
pub(crate) const AMP_FEATURES: usize = 4096;

/// A network with its recipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Workload {
    /// PyTorch's MNIST example: two convolutions, two linear layers, dropout; SGD with momentum.
    Mnist,
    /// Three convolutions and two linear layers for CIFAR-10, with random crops and flips; Adam.
    Cifar10,
    /// Three wide linear layers on Gaussian numbers; SGD.
    AmpRecipe,
}

impl Workload {
    /// All workloads, in the order of their declaration.
    pub const ALL: [Self; 3] = [Self::Mnist, Self::Cifar10, Self::AmpRecipe];

    /// Returns the name of the network on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mnist => "mnist",
            Self::Cifar10 => "cifar10",
            Self::AmpRecipe => "amp-recipe",
        }
    }

    /// Returns the published batch sizes, starting with the batch size of the recipe.
    #[must_use]
    pub fn batches(self) -> &'static [u64] {
        match self {
            Self::Mnist => &[512, 1024],
            Self::Cifar10 => &[128, 512],
            Self::AmpRecipe => &[512],
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Mnist => "MNIST CNN",
            Self::Cifar10 => "CIFAR-10 CNN",
            Self::AmpRecipe => "AMP recipe",
        }
    }

    /// Returns the default number of steps that are compared with the reference.
    pub(super) fn checked_steps(self) -> u64 {
        if self == Self::AmpRecipe { 5 } else { 20 }
    }

    /// Returns the recipe that is timed, with dropout and augmentation.
    pub(crate) fn recipe(self, batch: u64, features: usize, seed: u64) -> Recipe {
        let batch = usize::try_from(batch).unwrap_or(usize::MAX);
        let recipe = match self {
            Self::Mnist => Recipe::mnist(),
            Self::Cifar10 => Recipe::cifar10(),
            Self::AmpRecipe => Recipe { network: amp_recipe(features.max(1)), ..Recipe::amp_recipe() },
        };
        Recipe { batch, seed, ..recipe }
    }

    /// Returns the recipe for the comparison with the reference, without dropout and augmentation. At its learning
    /// rate, losses change visibly, but rounding differences do not grow from step to step as they would at the
    /// recipe's own rate.
    pub(crate) fn checked_recipe(self, batch: u64, features: usize, seed: u64) -> Recipe {
        let learning_rate = match self {
            Self::Mnist => 0.01,
            Self::Cifar10 => 1e-4,
            // The loss is a mean over all targets, so a smaller batch has larger gradients.
            Self::AmpRecipe => (0.08 * batch as f64).min(40.0),
        };
        let recipe = self.recipe(batch, features, seed).without_dropout();
        Recipe { learning_rate, augmentation: None, ..recipe }
    }

    /// Returns one step with a batch of this size as a problem. `data` describes the samples.
    ///
    /// FLOPs: the operations of convolutions and linear layers, for the forward pass, the weight gradients and the
    /// input gradients (except in the first layer), times the batch size. Bytes: the weights, the gradients and each
    /// array of the optimiser's state are read and written once in fp32, which gives 8 p (2 + s) for p parameters and s
    /// state arrays. The batch is read once as stored, with one byte per pixel and per label, or four bytes per number.
    /// Activations that are stored in the forward pass for the backward pass are not counted.
    pub(crate) fn problem(self, batch: u64, features: usize, data: &str) -> Problem {
        let recipe = self.recipe(batch, features, 0);
        let network = &recipe.network;
        let held = 4 * network.parameter_count() as u64 * (2 + recipe.optimizer.state_slots() as u64);
        let elements = network.input().elements() as u64;
        let sample = match network.input() {
            Shape::Image { .. } => elements + 1,
            Shape::Vector(_) => 4 * (elements + network.output().elements() as u64),
        };
        let inputs = batch.saturating_mul(sample);
        let mut sizes = vec![setting("network", self.name()), count("batch", batch, "images")];
        let mut title = self.title().to_owned();
        if self == Self::AmpRecipe {
            sizes.push(count("features", features as u64, ""));
            title += &format!(", three layers of {features}");
        }
        let label = format!("{title}, batch {batch}, {data}");
        Problem::new(label, format!("{} {batch}", self.name()), sizes, Dtype::F32).with(|p| {
            p.flops = network.training_flops().saturating_mul(batch);
            p.bytes = inputs.saturating_add(2 * held);
            p.written_bytes = held;
            p.working_set_bytes = inputs.saturating_add(held);
            p.items = Some(batch);
            p.sweep = Some(SweepPoint { size: batch, line: title.clone() });
        })
    }

    /// Returns the workload that a problem describes.
    pub(super) fn from_problem(problem: &Problem) -> Option<Self> {
        problem.text("network")?.parse().ok()
    }
}

impl std::str::FromStr for Workload {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|w| w.name() == name.trim());
        found.ok_or_else(|| format!("`{name}` is not a network: choose {}", known()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_counts_its_work() {
        let p = Workload::Mnist.problem(512, 0, "MNIST");
        let network = Recipe::mnist().network;
        assert_eq!((p.flops, p.items), (512 * network.training_flops(), Some(512)));
        // Weights, gradients and one momentum array are read and written; a sample has 784 pixels and a label.
        assert_eq!(p.bytes, 2 * 4 * 1_199_882 * 3 + 512 * 785);
        assert_eq!((p.written_bytes, p.label.as_str()), (4 * 1_199_882 * 3, "MNIST CNN, batch 512, MNIST"));
        assert_eq!(p, Workload::Mnist.problem(512, 0, "synthetic digits"), "what it is of, not what was at hand");
        let rows = Workload::AmpRecipe.problem(512, 64, "Gaussian numbers");
        assert_eq!(rows.id, "network=amp-recipe batch=512 features=64 fp32");
        assert_eq!(rows.bytes, 2 * 4 * 3 * (64 * 64 + 64) * 2 + 512 * 128 * 4);
        assert!(
            !Workload::Cifar10.problem(128, 0, "").same_line(&p) && p.same_line(&Workload::Mnist.problem(1, 0, ""))
        );
    }

    #[test]
    fn a_workload_is_known_by_its_name() {
        for w in Workload::ALL {
            assert_eq!(w.name().parse(), Ok(w));
            assert_eq!(Workload::from_problem(&w.problem(8, 8, "")), Some(w));
            assert_eq!(w.recipe(w.batches()[0], AMP_FEATURES, 1).network, w.recipe(1, AMP_FEATURES, 1).network);
        }
        assert!("imagenet".parse::<Workload>().unwrap_err().contains("choose mnist, cifar10, amp-recipe"));
    }
}

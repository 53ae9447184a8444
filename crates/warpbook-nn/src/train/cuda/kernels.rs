//! Kernels that do not depend on the batch.

use super::CudaOptions;
use crate::network::{Network, Op, Shape};
use crate::ops::activation::cuda::Activations;
use crate::ops::add::cuda::Add;
use crate::ops::augment::{Augment, cuda::Gather, cuda::GatherRows};
use crate::ops::batch_norm::cuda::Normalisation;
use crate::ops::cross_entropy;
use crate::ops::dropout::cuda::Masks;
use crate::ops::mse;
use crate::ops::optimizer::cuda::{Norm, Update};
use crate::ops::own::cuda::OwnKernels;
use crate::ops::pool::cuda::Pooling;
use crate::train::{Loss, Recipe, TrainError};
use std::sync::Arc;
use warpbook_device::CudaDevice;
use warpbook_record::Dtype;

/// Those of a network's layers.
#[derive(Debug)]
pub(super) struct LayerKernels {
    pub activations: Activations,
    pub add: Add,
    pub masks: Masks,
    pub pooling: Pooling,
    pub normalisation: Option<Normalisation>,
    /// Of layers of the learner's own, by operation.
    pub own: Vec<Option<OwnKernels>>,
}

impl LayerKernels {
    pub fn load(device: &CudaDevice, network: &Network, options: &CudaOptions) -> Result<Self, TrainError> {
        let (dtype, layout) = (options.precision.activations(), options.layout);
        let own = network.nodes().iter().map(|node| {
            let load = |own| OwnKernels::new(device, own, network.value(node.input), layout, dtype);
            node.own.as_ref().map(load).transpose()
        });
        let normalises = network.nodes().iter().any(|n| matches!(n.op, Op::BatchNorm { .. }));
        Ok(Self {
            activations: Activations::new(device, dtype)?,
            add: Add::new(device, dtype)?,
            masks: Masks::new(device, dtype)?,
            pooling: Pooling::new(device, dtype, layout)?,
            normalisation: normalises.then(|| Normalisation::new(device, dtype, layout)).transpose()?,
            own: own.collect::<warpbook_device::Result<_>>()?,
        })
    }
}

/// Those around the layers: what gives a step its batch, its loss and its update.
#[derive(Debug)]
pub(super) struct StepKernels {
    pub loss: LossKernels,
    pub update: Update,
    pub norm: Option<Norm>,
    pub gather: GatherKernels,
}

#[derive(Debug)]
pub(super) enum GatherKernels {
    /// With augmentation, and without.
    Images(Box<[Gather; 2]>),
    /// In the type of the activations, and in f32.
    Rows(Box<[GatherRows; 2]>),
}

#[derive(Debug)]
pub(super) enum LossKernels {
    CrossEntropy(Arc<cross_entropy::cuda::Loss>),
    Mse(Arc<mse::cuda::Loss>),
}

impl StepKernels {
    pub fn load(device: &CudaDevice, recipe: &Recipe, options: &CudaOptions) -> Result<Self, TrainError> {
        let (dtype, layout) = (options.precision.activations(), options.layout);
        let gradients = if dtype == Dtype::F32 { vec![Dtype::F32] } else { vec![Dtype::F32, dtype] };
        let copy = if dtype == Dtype::F32 { Dtype::F32 } else { dtype };
        let gather = |[channels, height, width]: [usize; 3], random: bool| {
            let random = recipe.augmentation.filter(|_| random);
            let augment = Augment {
                channels,
                height,
                width,
                mean: &recipe.mean,
                deviation: &recipe.deviation,
                padding: random.map_or(0, |a| a.crop),
                flip: random.is_some_and(|a| a.flip),
                seed: recipe.seed,
                step: 0,
            };
            Gather::new(device, &augment, dtype, layout)
        };
        Ok(Self {
            loss: match recipe.loss {
                Loss::CrossEntropy { .. } => {
                    LossKernels::CrossEntropy(Arc::new(cross_entropy::cuda::Loss::new(device, dtype)?))
                }
                Loss::Mse => LossKernels::Mse(Arc::new(mse::cuda::Loss::new(device, dtype)?)),
            },
            update: Update::new(device, recipe.optimizer, copy)?,
            norm: options.computes_norm(recipe).then(|| Norm::new(device, &gradients)).transpose()?,
            gather: match recipe.network.input() {
                Shape::Image { channels, height, width } => {
                    let shape = [channels, height, width];
                    GatherKernels::Images(Box::new([gather(shape, true)?, gather(shape, false)?]))
                }
                Shape::Vector(_) => {
                    let kernels = [GatherRows::new(device, dtype)?, GatherRows::new(device, Dtype::F32)?];
                    GatherKernels::Rows(Box::new(kernels))
                }
            },
        })
    }
}

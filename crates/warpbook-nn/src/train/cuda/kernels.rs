//! The kernels of a training that do not depend on the batch.

use super::CudaOptions;
use crate::network::{Op, Shape};
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

/// The kernels that do not depend on the batch.
#[derive(Debug)]
pub(super) struct Kernels {
    pub activations: Activations,
    pub add: Add,
    pub masks: Masks,
    pub pooling: Pooling,
    pub normalisation: Option<Normalisation>,
    pub loss: LossKernels,
    pub update: Update,
    pub norm: Option<Norm>,
    pub gather: GatherKernels,
    /// Of layers of the learner's own, by operation.
    pub own: Vec<Option<OwnKernels>>,
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

impl Kernels {
    pub fn load(device: &CudaDevice, recipe: &Recipe, options: &CudaOptions) -> Result<Self, TrainError> {
        let (dtype, layout) = (options.precision.activations(), options.layout);
        let nodes = recipe.network.nodes();
        let normalises = nodes.iter().any(|n| matches!(n.op, Op::BatchNorm { .. }));
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
        let own = nodes.iter().map(|node| {
            let load = |own| OwnKernels::new(device, own, recipe.network.value(node.input), layout, dtype);
            node.own.as_ref().map(load).transpose()
        });
        Ok(Self {
            own: own.collect::<warpbook_device::Result<_>>()?,
            activations: Activations::new(device, dtype)?,
            add: Add::new(device, dtype)?,
            masks: Masks::new(device, dtype)?,
            pooling: Pooling::new(device, dtype, layout)?,
            normalisation: normalises.then(|| Normalisation::new(device, dtype, layout)).transpose()?,
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

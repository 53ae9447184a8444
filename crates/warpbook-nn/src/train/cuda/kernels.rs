//! Kernels that do not depend on the batch.

use super::CudaOptions;
use crate::network::{Network, Shape};
use crate::ops::Layout;
use crate::ops::activation::cuda::Activations;
use crate::ops::add::cuda::Add;
use crate::ops::augment::{Augment, cuda::Gather, cuda::GatherRows};
use crate::ops::batch_norm::cuda::Normalisation;
use crate::ops::cross_entropy;
use crate::ops::dropout::cuda::Masks;
use crate::ops::mse;
use crate::ops::optimizer::cuda::{Norm, Update};
use crate::ops::optimizer::last_block::{NormAndVerdict, UpdateAndEnd};
use crate::ops::own::cuda::OwnKernels;
use crate::ops::pool::cuda::Pooling;
use crate::train::{Loss, Recipe};
use std::sync::{Arc, OnceLock};
use warpbook_device::{CudaDevice, Result};
use warpbook_record::Dtype;

/// Those of a network's layers, each compiled when the first pass asks for it: an epilogue computes most ReLUs, and many networks have
/// no pool or sum.
#[derive(Debug)]
pub(super) struct LayerKernels {
    device: CudaDevice,
    dtype: Dtype,
    layout: Layout,
    activations: OnceLock<Activations>,
    add: OnceLock<Add>,
    masks: OnceLock<Masks>,
    pooling: OnceLock<Pooling>,
    normalisation: OnceLock<Normalisation>,
    /// Of layers of the learner's own, by operation: loaded at once, so that errors of their sources come first.
    pub own: Vec<Option<OwnKernels>>,
}

impl LayerKernels {
    pub fn load(device: &CudaDevice, network: &Network, options: &CudaOptions) -> Result<Self> {
        let (dtype, layout) = (options.precision.activations(), options.layout);
        let own = network.nodes().iter().map(|node| {
            let load = |own| OwnKernels::new(device, own, network.value(node.input), layout, dtype);
            node.own.as_ref().map(load).transpose()
        });
        Ok(Self {
            device: device.clone(),
            dtype,
            layout,
            activations: OnceLock::new(),
            add: OnceLock::new(),
            masks: OnceLock::new(),
            pooling: OnceLock::new(),
            normalisation: OnceLock::new(),
            own: own.collect::<Result<_>>()?,
        })
    }

    pub fn activations(&self) -> Result<Activations> {
        once(&self.activations, || Activations::new(&self.device, self.dtype))
    }

    pub fn add(&self) -> Result<Add> {
        once(&self.add, || Add::new(&self.device, self.dtype))
    }

    pub fn masks(&self) -> Result<Masks> {
        once(&self.masks, || Masks::new(&self.device, self.dtype))
    }

    pub fn pooling(&self) -> Result<Pooling> {
        once(&self.pooling, || Pooling::new(&self.device, self.dtype, self.layout))
    }

    pub fn normalisation(&self) -> Result<Normalisation> {
        once(&self.normalisation, || Normalisation::new(&self.device, self.dtype, self.layout))
    }
}

fn once<T: Clone>(cell: &OnceLock<T>, load: impl FnOnce() -> Result<T>) -> Result<T> {
    if let Some(there) = cell.get() {
        return Ok(there.clone());
    }
    let loaded = load()?;
    Ok(cell.get_or_init(|| loaded).clone())
}

/// Those around the layers: what gives a step its batch, its loss and its update.
#[derive(Debug)]
pub(super) struct StepKernels {
    pub loss: LossKernels,
    pub update: UpdateKernels,
    pub gather: GatherKernels,
}

/// The update, and the norm where a step needs it.
#[derive(Debug)]
pub(super) enum UpdateKernels {
    /// What follows them has a kernel each.
    Separate { update: Box<Update>, norm: Option<Norm> },
    /// Their last blocks do what follows.
    LastBlocks { update: Box<UpdateAndEnd>, norm: Option<NormAndVerdict> },
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
    pub fn load(device: &CudaDevice, recipe: &Recipe, options: &CudaOptions) -> Result<Self> {
        let (dtype, layout) = (options.precision.activations(), options.layout);
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
                    let new = if options.last_block {
                        cross_entropy::cuda::Loss::with_last_block
                    } else {
                        cross_entropy::cuda::Loss::new
                    };
                    LossKernels::CrossEntropy(Arc::new(new(device, dtype)?))
                }
                Loss::Mse => {
                    let new = if options.last_block { mse::cuda::Loss::with_last_block } else { mse::cuda::Loss::new };
                    LossKernels::Mse(Arc::new(new(device, dtype)?))
                }
            },
            update: UpdateKernels::load(device, recipe, options)?,
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

impl UpdateKernels {
    fn load(device: &CudaDevice, recipe: &Recipe, options: &CudaOptions) -> Result<Self> {
        let (dtype, optimizer) = (options.precision.activations(), recipe.optimizer);
        let computes_norm = options.computes_norm(recipe);
        if options.last_block {
            let norm = computes_norm.then(|| NormAndVerdict::new(device, dtype)).transpose()?;
            return Ok(Self::LastBlocks { update: UpdateAndEnd::new(device, optimizer, dtype)?.into(), norm });
        }
        let gradients = if dtype == Dtype::F32 { vec![Dtype::F32] } else { vec![Dtype::F32, dtype] };
        let norm = computes_norm.then(|| Norm::new(device, &gradients)).transpose()?;
        Ok(Self::Separate { update: Update::new(device, optimizer, dtype)?.into(), norm })
    }
}

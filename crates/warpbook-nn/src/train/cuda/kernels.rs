//! Kernels that do not depend on the batch.

use super::CudaOptions;
use super::control::SLOTS;
use super::params::Params;
use crate::network::{Network, Shape};
use crate::ops::Layout;
use crate::ops::activation::cuda::Activations;
use crate::ops::add::cuda::{Add, Weighted};
use crate::ops::augment::{Augment, Draw, cuda::Gather, cuda::GatherRows};
use crate::ops::batch_norm::cuda::Normalisation;
use crate::ops::cross_entropy;
use crate::ops::custom_layer::cuda::OwnKernels;
use crate::ops::dropout::cuda::Masks;
use crate::ops::mse;
use crate::ops::optimizer::cuda::{Norm, Update};
use crate::ops::optimizer::grouped::GroupedUpdate;
use crate::ops::optimizer::groups::Grouped;
use crate::ops::optimizer::last_block::{NormAndVerdict, UpdateAndEnd};
use crate::ops::pool::cuda::Pooling;
use crate::train::{Loss, Recipe, Views};
use std::sync::{Arc, OnceLock};
use warpbook_device::{CudaDevice, Result, Slice};
use warpbook_gemm::DeviceArray;
use warpbook_record::Dtype;

/// Kernels of a network's layers, each compiled on first use: an epilogue computes most ReLUs, and many networks have no pool or sum.
#[derive(Debug)]
pub(super) struct LayerKernels {
    device: CudaDevice,
    dtype: Dtype,
    layout: Layout,
    activations: OnceLock<Activations>,
    add: OnceLock<Add>,
    weighted: OnceLock<Weighted>,
    masks: OnceLock<Masks>,
    pooling: OnceLock<Pooling>,
    normalisation: OnceLock<Normalisation>,
    /// Kernels of custom layers, by operation. They are compiled first, so that errors in their sources are reported early.
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
            weighted: OnceLock::new(),
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

    pub fn weighted(&self) -> Result<Weighted> {
        once(&self.weighted, || Weighted::new(&self.device, self.dtype))
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

/// Kernels around the layers: they prepare a step's batch, and compute its loss and its update.
#[derive(Debug)]
pub(super) struct StepKernels {
    pub loss: AnyLossKernels,
    pub update: UpdateKernels,
    pub gather: GatherKernels,
    /// Sums over the parts of a batch: the kernel and the sum for each array of gradients.
    pub sums: Option<Vec<(Weighted, Slice<f32>)>>,
}

/// The update, and the norm if a step needs it.
#[derive(Debug)]
pub(super) enum UpdateKernels {
    /// Separate kernels do the follow-up work.
    Separate { update: Box<Update>, norm: Option<Norm> },
    /// Updates parameters in groups, with separate kernels. `rates` are `[SLOTS][rules]`.
    Groups { update: Box<GroupedUpdate>, rates: Slice<f32>, norm: Option<Norm> },
    /// The kernels' last blocks do the follow-up work.
    LastBlocks { update: Box<UpdateAndEnd>, norm: Option<NormAndVerdict> },
}

#[derive(Debug)]
pub(super) enum GatherKernels {
    Images(Box<GatherImages>),
    /// Rows in the type of the activations, and in f32.
    Rows(Box<[GatherRows; 2]>),
}

#[derive(Debug)]
pub(super) struct GatherImages {
    pub training: Gather,
    /// Views for evaluations, with the weights of their outputs.
    pub views: Vec<(Gather, f32)>,
}

#[derive(Debug)]
pub(super) enum AnyLossKernels {
    CrossEntropy(Arc<cross_entropy::cuda::LossKernels>),
    Mse(Arc<mse::cuda::SquaredErrorKernels>),
}

impl StepKernels {
    pub fn load(
        device: &CudaDevice,
        (recipe, grouped): (&Recipe, Option<&Grouped>),
        options: &CudaOptions,
        params: &Params,
    ) -> Result<Self> {
        let (dtype, layout) = (options.precision.activations(), options.layout);
        let gather = |[channels, height, width]: [usize; 3], view: Option<Draw>| {
            let random = recipe.augmentation.filter(|_| view.is_none());
            let several = recipe.views != Views::One;
            let augment = Augment {
                channels,
                height,
                width,
                mean: &recipe.mean,
                deviation: &recipe.deviation,
                padding: random.map_or_else(|| view.map_or(0, |_| recipe.views.padding()), |a| a.crop),
                flip: random.is_some_and(|a| a.flip),
                reflect: random.map_or(view.is_some() && several, |a| a.reflect),
                epoch: random.filter(|a| a.alternate).map(|_| 0),
                view: view.filter(|_| several),
                seed: recipe.seed,
                step: 0,
            };
            Gather::new(device, &augment, dtype, layout)
        };
        let sums = (recipe.accumulate > 1).then(|| sums(device, params)).transpose()?;
        Ok(Self {
            sums,
            loss: match recipe.loss {
                Loss::CrossEntropy { .. } => {
                    let new = if options.last_block {
                        cross_entropy::cuda::LossKernels::with_last_block
                    } else {
                        cross_entropy::cuda::LossKernels::new
                    };
                    AnyLossKernels::CrossEntropy(Arc::new(new(device, dtype)?))
                }
                Loss::Mse => {
                    let new = if options.last_block {
                        mse::cuda::SquaredErrorKernels::with_last_block
                    } else {
                        mse::cuda::SquaredErrorKernels::new
                    };
                    AnyLossKernels::Mse(Arc::new(new(device, dtype)?))
                }
            },
            update: UpdateKernels::load(device, (recipe, grouped), options, params)?,
            gather: match recipe.network.input() {
                Shape::Image { channels, height, width } => {
                    let shape = [channels, height, width];
                    let view = |(view, share): (Draw, f32)| Ok((gather(shape, Some(view))?, share));
                    let views = recipe.views.all().into_iter().map(view).collect::<Result<_>>()?;
                    GatherKernels::Images(Box::new(GatherImages { training: gather(shape, None)?, views }))
                }
                Shape::Vector(_) => {
                    let kernels = [GatherRows::new(device, dtype)?, GatherRows::new(device, Dtype::F32)?];
                    GatherKernels::Rows(Box::new(kernels))
                }
            },
        })
    }
}

/// Returns the sums of all gradients, in f32.
fn sums(device: &CudaDevice, params: &Params) -> Result<Vec<(Weighted, Slice<f32>)>> {
    let (exact, rounded) = params.gradients();
    let arrays = std::iter::once(DeviceArray::from(&exact)).chain(rounded);
    let sum =
        |array: DeviceArray| Ok((Weighted::new(device, array.dtype())?, device.zeros::<f32>(array.len())?.range(..)));
    arrays.map(sum).collect()
}

impl UpdateKernels {
    fn load(
        device: &CudaDevice,
        (recipe, grouped): (&Recipe, Option<&Grouped>),
        options: &CudaOptions,
        params: &Params,
    ) -> Result<Self> {
        let (dtype, optimizer) = (options.precision.activations(), recipe.optimizer);
        let computes_norm = options.computes_norm(recipe);
        if options.last_block {
            let norm = computes_norm.then(|| NormAndVerdict::new(device, dtype)).transpose()?;
            return Ok(Self::LastBlocks { update: UpdateAndEnd::new(device, optimizer, dtype)?.into(), norm });
        }
        let gradients = if dtype == Dtype::F32 { vec![Dtype::F32] } else { vec![Dtype::F32, dtype] };
        let norm = computes_norm.then(|| Norm::new(device, &gradients)).transpose()?;
        if let Some(grouped) = grouped {
            let places = (params.weights.len(), &params.filter_places()[..]);
            let update = GroupedUpdate::new(device, (optimizer, grouped), places, dtype)?;
            let rates = device.zeros(SLOTS * grouped.rules.len())?.range(..);
            return Ok(Self::Groups { update: update.into(), rates, norm });
        }
        Ok(Self::Separate { update: Update::new(device, optimizer, dtype)?.into(), norm })
    }
}

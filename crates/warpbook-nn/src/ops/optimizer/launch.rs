//! The launches of the optimizers and of the norm. Types and lengths are checked before.
#![allow(unsafe_code)]

use super::Optimizer;
use super::cuda::{Control, NormOutputs, Parameters};
use crate::gemm::DeviceArray;
use crate::ops::device::{optional, optional_array};
use std::ffi::c_void;
use warpbook_device::{Kernel, KernelArg, Result, Slice, Stream};

/// `Settings` of `kernels/nn/optimizer.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    momentum_or_beta1: f64,
    beta2: f64,
    epsilon: f64,
    decay: f64,
    method: u32,
    nesterov: u32,
    decoupled: u32,
    unused: u32,
}

// SAFETY: the layout is that of the kernel's struct: four f64 and four words.
unsafe impl KernelArg for Settings {
    fn as_arg(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

impl Settings {
    pub(super) fn of(optimizer: &Optimizer) -> Self {
        let adam = |[beta1, beta2]: [f64; 2], epsilon, decay, decoupled| Self {
            momentum_or_beta1: beta1,
            beta2,
            epsilon,
            decay,
            method: 1,
            nesterov: 0,
            decoupled,
            unused: 0,
        };
        match *optimizer {
            Optimizer::Sgd { momentum, nesterov, weight_decay } => {
                Self { method: 0, nesterov: nesterov.into(), ..adam([momentum, 0.0], 0.0, weight_decay, 0) }
            }
            Optimizer::Adam { betas, epsilon, weight_decay } => adam(betas, epsilon, weight_decay, 0),
            Optimizer::AdamW { betas, epsilon, weight_decay } => adam(betas, epsilon, weight_decay, 1),
        }
    }
}

pub(super) fn prepare(kernel: &Kernel, stream: &Stream, settings: &Settings, control: Control<'_>) -> Result<()> {
    let Control { rate_and_steps, step, found, loss_scale, clip } = control;
    let args: [&dyn KernelArg; 6] =
        [settings, rate_and_steps, optional(found), optional(loss_scale), optional(clip), step];
    // SAFETY: prepare(settings, control, found, loss_scale, clip, step).
    unsafe { kernel.launch(stream, kernel.shape(1), &args) }
}

/// The kernel is that of the method, which takes as many arrays of state.
pub(super) fn update(
    kernel: &Kernel,
    stream: &Stream,
    settings: &Settings,
    step: &Slice<u32>,
    p: Parameters<'_>,
) -> Result<()> {
    let (n, split) = (p.weights.len() as u64, p.gradients.len() as u64);
    let mut args: Vec<&dyn KernelArg> = vec![settings, step, p.weights, p.gradients, optional_array(p.rounded), &split];
    args.extend(p.state.iter().map(|s| s as &dyn KernelArg));
    args.extend([optional_array(p.copy), &n]);
    // SAFETY: sgd(settings, step, weights, gradients, rounded, split, copy, n), or with one or two arrays of state before the copy.
    unsafe { kernel.launch(stream, kernel.shape(n), &args) }
}

/// Into `partial`, which has an element for each block of the launch's shape.
pub(super) fn squares(
    kernel: &Kernel,
    stream: &Stream,
    gradients: &DeviceArray,
    n: u64,
    partial: &Slice<f64>,
) -> Result<()> {
    // SAFETY: sum_squares(gradients, n, partial).
    unsafe { kernel.launch(stream, kernel.shape(n), &[gradients.bytes(), &n, partial]) }
}

pub(super) fn norm(
    kernel: &Kernel,
    stream: &Stream,
    (partial, m): (&Slice<f64>, u32),
    max_norm: f64,
    loss_scale: Option<&Slice<f32>>,
    to: NormOutputs<'_>,
) -> Result<()> {
    let args: [&dyn KernelArg; 7] = [partial, &m, &max_norm, optional(loss_scale), to.norm, to.clip, to.found];
    // SAFETY: global_norm(partial, m, most, loss_scale, norm, clip, found).
    unsafe { kernel.launch(stream, kernel.shape(1), &args) }
}

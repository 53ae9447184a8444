//! Gradient descent and related optimisers, with the formulas and the order of operations of `torch.optim`.

pub mod clip;
pub mod cpu;
pub mod cuda;
pub mod grouped;
mod grouped_launch;
pub mod groups;
pub(crate) mod last_block;
mod launch;

use super::error::{Check, Result};
use serde::{Deserialize, Serialize};

pub(crate) const OP: &str = "optimizer";

/// The rule by which a gradient changes a weight.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Optimizer {
    /// `torch.optim.SGD` without dampening. Source of the momentum: Sutskever et al., ICML 2013.
    Sgd {
        /// Factor of the previous direction, at least 0; at 0 there is no state.
        momentum: f64,
        /// True for Nesterov's momentum, which looks one step ahead; needs momentum.
        nesterov: bool,
        /// Factor of the weight that is added to the gradient.
        weight_decay: f64,
    },
    /// `torch.optim.Adam`. Source: Kingma and Ba, ICLR 2015.
    Adam {
        /// Decay rates of the mean of gradients and of their squares, from 0 to below 1.
        betas: [f64; 2],
        /// Constant added to the denominator, at least 0.
        epsilon: f64,
        /// Factor of the weight that is added to the gradient.
        weight_decay: f64,
    },
    /// `torch.optim.AdamW`, whose weight decay shrinks the weight itself. Source: Loshchilov and Hutter, ICLR 2019.
    AdamW {
        /// Decay rates of the mean of gradients and of their squares, from 0 to below 1.
        betas: [f64; 2],
        /// Constant added to the denominator, at least 0.
        epsilon: f64,
        /// Factor of the weight; their product, times the learning rate, is subtracted from the weight.
        weight_decay: f64,
    },
}

impl Optimizer {
    /// Returns SGD without momentum and weight decay.
    #[must_use]
    pub fn sgd() -> Self {
        Self::Sgd { momentum: 0.0, nesterov: false, weight_decay: 0.0 }
    }

    /// Returns Adam with PyTorch's default settings.
    #[must_use]
    pub fn adam() -> Self {
        Self::Adam { betas: [0.9, 0.999], epsilon: 1e-8, weight_decay: 0.0 }
    }

    /// Returns AdamW with PyTorch's default settings.
    #[must_use]
    pub fn adam_w() -> Self {
        Self::AdamW { betas: [0.9, 0.999], epsilon: 1e-8, weight_decay: 0.01 }
    }

    /// Returns the display name: SGD, Adam or AdamW.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sgd { .. } => "SGD",
            Self::Adam { .. } => "Adam",
            Self::AdamW { .. } => "AdamW",
        }
    }

    /// Returns the number of arrays of the parameter's length that are kept between steps, initially zero. SGD keeps none or its momentum; Adam keeps
    /// the means of the gradients and of their squares.
    #[must_use]
    pub fn state_slots(&self) -> usize {
        match self {
            Self::Sgd { momentum, .. } => usize::from(*momentum != 0.0),
            Self::Adam { .. } | Self::AdamW { .. } => 2,
        }
    }

    /// Selects one of the kernels for plain SGD, SGD with momentum, and Adam.
    pub(crate) fn among<T>(&self, [sgd, momentum, adam]: [T; 3]) -> T {
        match (self, self.state_slots()) {
            (Self::Sgd { .. }, 0) => sgd,
            (Self::Sgd { .. }, _) => momentum,
            _ => adam,
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// If a setting is out of range; the message names it.
    pub fn check(&self) -> Result<()> {
        let at_least_0 = |name, value: f64| Check(OP).value(name, value, value >= 0.0, "at least 0");
        match self {
            Self::Sgd { momentum, nesterov, weight_decay } => {
                at_least_0("the momentum", *momentum)?;
                at_least_0("the weight decay", *weight_decay)?;
                let allowed = "above 0 with Nesterov's momentum";
                Check(OP).value("the momentum", momentum, !nesterov || *momentum > 0.0, allowed)
            }
            Self::Adam { betas, epsilon, weight_decay } | Self::AdamW { betas, epsilon, weight_decay } => {
                at_least_0("epsilon", *epsilon)?;
                at_least_0("the weight decay", *weight_decay)?;
                let beta = |beta: &f64| Check(OP).value("a beta", beta, (0.0..1.0).contains(beta), "from 0 to below 1");
                betas.iter().try_for_each(beta)
            }
        }
    }

    /// Computes the numbers of one step, which all elements share. Steps count from 1.
    pub(crate) fn coefficients(&self, learning_rate: f64, step: u64) -> Result<Coefficients> {
        self.check()?;
        Check(OP).value("the learning rate", learning_rate, learning_rate >= 0.0, "at least 0")?;
        Check(OP).value(
            "the step",
            step,
            step >= 1,
            "at least 1, because the bias correction of the moments depends on it",
        )?;
        Ok(match *self {
            Self::Sgd { momentum, nesterov, weight_decay } => Coefficients::Sgd(SgdStep {
                rate: learning_rate as f32,
                momentum: momentum as f32,
                nesterov,
                decay: weight_decay as f32,
                first: step == 1,
            }),
            Self::Adam { betas, epsilon, weight_decay } => Coefficients::Adam(AdamStep {
                decay: weight_decay as f32,
                ..AdamStep::without_decay(betas, epsilon, learning_rate, step)
            }),
            Self::AdamW { betas, epsilon, weight_decay } => Coefficients::Adam(AdamStep {
                shrink: (1.0 - learning_rate * weight_decay) as f32,
                ..AdamStep::without_decay(betas, epsilon, learning_rate, step)
            }),
        })
    }
}

/// The numbers of one step, rounded to f32 as PyTorch does when it multiplies an array by them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Coefficients {
    Sgd(SgdStep),
    Adam(AdamStep),
}

/// g += decay w; m = momentum m + g, or g in the first step; w -= rate m, or rate (g + momentum m) with Nesterov's momentum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SgdStep {
    pub rate: f32,
    pub momentum: f32,
    pub nesterov: bool,
    pub decay: f32,
    pub first: bool,
}

/// w *= shrink; g += decay w; m += first (g - m); v = keep_second v + second g^2; w -= size m / (sqrt(v) / root + epsilon).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AdamStep {
    pub size: f32,
    pub root: f32,
    pub first: f32,
    pub keep_second: f32,
    pub second: f32,
    pub epsilon: f32,
    pub decay: f32,
    pub shrink: f32,
}

impl AdamStep {
    fn without_decay([b1, b2]: [f64; 2], epsilon: f64, learning_rate: f64, step: u64) -> Self {
        let correction = |beta: f64| 1.0 - beta.powf(step as f64);
        Self {
            size: (learning_rate / correction(b1)) as f32,
            root: correction(b2).sqrt() as f32,
            first: (1.0 - b1) as f32,
            keep_second: b2 as f32,
            second: (1.0 - b2) as f32,
            epsilon: epsilon as f32,
            decay: 0.0,
            shrink: 1.0,
        }
    }
}

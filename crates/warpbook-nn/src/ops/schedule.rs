//! Schedules of the learning rate, in the closed forms of `torch.optim.lr_scheduler`.

use super::error::{Check, Result};
use serde::{Deserialize, Serialize};
use std::f64::consts::PI;

/// A schedule. Time counts from 0 in the caller's unit: epochs or steps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Schedule {
    /// The rate never changes.
    Constant,
    /// `StepLR`: the rate is multiplied by `gamma` every `every` units of time.
    Step {
        /// Time between two changes, at least 1.
        every: u64,
        /// Factor by which each change multiplies the rate.
        gamma: f64,
    },
    /// `CosineAnnealingLR`: half a cosine from the rate down to `minimum` in `period`, then back. Source: Loshchilov and Hutter, ICLR 2017.
    Cosine {
        /// Time until the minimum, at least 1: `T_max`.
        period: u64,
        /// Smallest rate: `eta_min`.
        minimum: f64,
    },
    /// `LinearLR`: a line from the rate down to a fraction of it at `total`, constant afterwards.
    Linear {
        /// Time until the end, at least 1.
        total: u64,
        /// Fraction of the rate at the end, at least 0: `end_factor`.
        end: f64,
    },
    /// `OneCycleLR`: half a cosine from the rate / `start_divisor` up to the rate during the fraction `rise` of the time, then half a
    /// cosine down to the first rate / `end_divisor`. Source: Smith and Topin, "Super-convergence", 2018.
    OneCycle {
        /// Total time, at least 1; the rate stays constant afterwards.
        total: u64,
        /// Fraction of the time until the highest rate, 0 to 1: `pct_start`.
        rise: f64,
        /// Ratio of the highest rate to the initial one: `div_factor`.
        start_divisor: f64,
        /// Ratio of the initial rate to the final one: `final_div_factor`.
        end_divisor: f64,
    },
}

impl Schedule {
    /// Creates [`Schedule::OneCycle`] with PyTorch's default settings.
    #[must_use]
    pub fn one_cycle(total: u64) -> Self {
        Self::OneCycle { total, rise: 0.3, start_divisor: 25.0, end_divisor: 1e4 }
    }

    /// Returns true if the rate is 0 at this time and at all later times.
    #[must_use]
    pub fn is_over(&self, time: u64) -> bool {
        matches!(*self, Self::Linear { total, end } if end == 0.0 && time >= total)
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// If a setting is out of range; the message names it.
    pub fn check(&self) -> Result<()> {
        let check = Check("schedule");
        let at_least_1 = |name, value: u64| check.value(name, value, value >= 1, "at least 1");
        let above_0 = |name, value: f64| check.value(name, value, value > 0.0 && value.is_finite(), "above 0");
        match *self {
            Self::Constant => Ok(()),
            Self::Step { every, gamma } => at_least_1("every", every).and(above_0("gamma", gamma)),
            Self::Cosine { period, minimum } => {
                at_least_1("period", period)?;
                check.value("minimum", minimum, minimum >= 0.0, "at least 0")
            }
            Self::Linear { total, end } => {
                at_least_1("total", total)?;
                check.value("end", end, end >= 0.0 && end.is_finite(), "at least 0")
            }
            Self::OneCycle { total, rise, start_divisor, end_divisor } => {
                at_least_1("total", total)?;
                check.value("rise", rise, (0.0..=1.0).contains(&rise), "0 to 1")?;
                above_0("start_divisor", start_divisor).and(above_0("end_divisor", end_divisor))
            }
        }
    }

    /// Returns the learning rate at `time`; `rate` is a schedule's initial rate, or the highest rate of [`Schedule::OneCycle`].
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn at(&self, rate: f64, time: u64) -> Result<f64> {
        self.check()?;
        Ok(match *self {
            Self::Constant => rate,
            Self::Step { every, gamma } => rate * gamma.powf((time / every) as f64),
            Self::Cosine { period, minimum } => half_cosine(rate, minimum, time as f64 / period as f64),
            Self::Linear { total, end } => rate * (1.0 + (end - 1.0) * time.min(total) as f64 / total as f64),
            Self::OneCycle { total, rise, start_divisor, end_divisor } => {
                let start = rate / start_divisor;
                // Last time of each of the two parts; the second part ends the schedule.
                let (top, last) = (rise * total as f64 - 1.0, total as f64 - 1.0);
                let time = (time as f64).min(last);
                if time <= top {
                    half_cosine(start, rate, if top > 0.0 { time / top } else { 1.0 })
                } else {
                    half_cosine(rate, start / end_divisor, (time - top) / (last - top))
                }
            }
        })
    }
}

/// Returns half a cosine from `from` at 0 to `to` at 1.
fn half_cosine(from: f64, to: f64, at: f64) -> f64 {
    to + (from - to) * 0.5 * (1.0 + (PI * at).cos())
}

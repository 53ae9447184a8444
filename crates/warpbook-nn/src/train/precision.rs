//! Number types of a training, and the scale that keeps small gradients from becoming zero in fp16.

use super::TrainError;
use serde::{Deserialize, Serialize};
use std::fmt;
use warpbook_record::{DeviceInfo, Dtype, Requires};

/// Number types of a training, as PyTorch defines them. Weights, their gradients and the optimiser's state are always f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// f32 everywhere.
    #[default]
    Fp32,
    /// f32, but convolutions and products of matrices round their operands to tf32 (`allow_tf32`).
    Tf32,
    /// Automatic mixed precision with fp16 (`torch.autocast` and `GradScaler`).
    AmpFp16,
    /// Automatic mixed precision with bf16, whose range needs no scaling.
    AmpBf16,
}

impl Precision {
    /// All precisions, fp32 first.
    pub const ALL: [Self; 4] = [Self::Fp32, Self::Tf32, Self::AmpFp16, Self::AmpBf16];

    /// Returns the name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fp32 => "fp32",
            Self::Tf32 => "tf32",
            Self::AmpFp16 => "amp-fp16",
            Self::AmpBf16 => "amp-bf16",
        }
    }

    /// Returns the type of activations and their gradients.
    #[must_use]
    pub fn activations(self) -> Dtype {
        match self {
            Self::Fp32 | Self::Tf32 => Dtype::F32,
            Self::AmpFp16 => Dtype::F16,
            Self::AmpBf16 => Dtype::Bf16,
        }
    }

    /// Returns the type of the operands of convolutions and linear layers.
    #[must_use]
    pub fn products(self) -> Dtype {
        if self == Self::Tf32 { Dtype::Tf32 } else { self.activations() }
    }

    /// Returns the required hardware: tensor cores take fp16 from compute capability 7.5, tf32 and bf16 from 8.0.
    #[must_use]
    pub fn requires(self) -> Requires {
        match self {
            Self::Fp32 | Self::AmpFp16 => Requires::AtLeast(7, 5),
            Self::Tf32 | Self::AmpBf16 => Requires::AtLeast(8, 0),
        }
    }

    /// Refuses a GPU that does not support the precision.
    pub(crate) fn check(self, gpu: &DeviceInfo) -> Result<(), TrainError> {
        let requires = self.requires();
        if requires.met_by(gpu.compute_capability) {
            return Ok(());
        }
        let here = gpu.compute_capability.map_or_else(String::new, |(major, minor)| format!(" of {major}.{minor}"));
        Err(TrainError::Setting(format!(
            "{self} needs {}; {} is a GPU{here}: choose {} or {}.",
            requires.sentence(),
            gpu.name,
            Self::AmpFp16,
            Self::Fp32
        )))
    }

    /// Returns true if the loss is scaled.
    #[must_use]
    pub fn scales_the_loss(self) -> bool {
        self == Self::AmpFp16
    }

    /// Lists the types of each kind of operation: name, type in memory, and type of the arithmetic.
    #[must_use]
    pub fn table(self) -> PrecisionTable {
        let (stored, products) = (self.activations(), self.products());
        let row = |operations, stored, arithmetic| PrecisionRow { operations, stored, arithmetic };
        let rows = vec![
            row("convolutions, linear layers: operands", stored, products),
            row("convolutions, linear layers: sums, bias", Dtype::F32, Dtype::F32),
            row("linear layers: weight gradients", stored, Dtype::F32),
            row("activations, pools, dropout, residual sums", stored, Dtype::F32),
            row("batch normalisation: images", stored, Dtype::F32),
            row("batch normalisation: statistics, scale, shift", Dtype::F32, Dtype::F32),
            row("losses: outputs and their gradient", stored, Dtype::F32),
            row("optimisers: weights, other gradients, state", Dtype::F32, Dtype::F32),
        ];
        PrecisionTable { precision: self, rows }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Parses a name; also accepts `fp16` and `bf16`.
impl std::str::FromStr for Precision {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::name).join(", ");
        let is = |p: &Self| p.name() == name || p.name().strip_prefix("amp-") == Some(name);
        Self::ALL.into_iter().find(is).ok_or_else(|| format!("Unknown precision `{name}`: choose one of {}.", known()))
    }
}

/// Result of [`Precision::table`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrecisionTable {
    /// The precision that the table describes.
    pub precision: Precision,
    /// One row per kind of operation.
    pub rows: Vec<PrecisionRow>,
}

/// A row of [`Precision::table`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrecisionRow {
    /// Kind of operation, such as sums or products.
    pub operations: &'static str,
    /// Type of the operation's arrays in memory.
    pub stored: Dtype,
    /// Type in which the operation computes.
    pub arithmetic: Dtype,
}

/// Scaling of the loss in fp16, with the rules and the settings of `torch.amp.GradScaler`: the loss is multiplied by the scale, so that
/// small gradients are not rounded to zero, and the gradients are divided by it before the step. A step whose gradients have overflowed is
/// skipped, and the scale becomes smaller; after many steps without an overflow it grows.
///
/// Source: Micikevicius et al., "Mixed precision training", ICLR 2018. On a GPU all of this happens in device memory
/// (`kernels/nn/step.cu`), and nothing waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GradScaler {
    /// Scale before the first step.
    pub init_scale: f32,
    /// Factor by which the scale grows; above 1.
    pub growth_factor: f32,
    /// Factor by which the scale shrinks after an overflow; between 0 and 1.
    pub backoff_factor: f32,
    /// Number of steps without an overflow after which the scale grows; at least 1.
    pub growth_interval: u32,
}

impl Default for GradScaler {
    fn default() -> Self {
        Self { init_scale: 65536.0, growth_factor: 2.0, backoff_factor: 0.5, growth_interval: 2000 }
    }
}

impl GradScaler {
    /// Returns the state before the first step.
    #[must_use]
    pub fn start(&self) -> super::ScalerState {
        super::ScalerState { scale: self.init_scale, steps: 0 }
    }

    /// Multiplies the loss by the scale.
    #[must_use]
    pub fn scale(&self, state: &super::ScalerState, loss: f32) -> f32 {
        loss * state.scale
    }

    /// Divides gradients by the scale; returns true if one is infinite or NaN.
    pub fn unscale(&self, state: &super::ScalerState, gradients: &mut [f32]) -> bool {
        gradients.iter_mut().for_each(|g| *g /= state.scale);
        gradients.iter().any(|g| !g.is_finite())
    }

    /// Calls `step` unless a gradient has overflowed.
    pub fn step(&self, overflow: bool, step: impl FnOnce()) {
        if !overflow {
            step();
        }
    }

    /// Returns the state after a step.
    #[must_use]
    pub fn update(&self, state: super::ScalerState, overflow: bool) -> super::ScalerState {
        if overflow {
            return super::ScalerState { scale: state.scale * self.backoff_factor, steps: 0 };
        }
        let steps = state.steps + 1;
        if steps < self.growth_interval {
            return super::ScalerState { steps, ..state };
        }
        let larger = state.scale * self.growth_factor;
        super::ScalerState { scale: if larger.is_finite() { larger } else { state.scale }, steps: 0 }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// If a setting is out of range; the message names it.
    pub fn check(&self) -> Result<(), TrainError> {
        let refuse = |what: &str, value: f32, allowed: &str| {
            Err(TrainError::Setting(format!("The {what} of the gradient scaler is {value}; it must be {allowed}.")))
        };
        if !(self.init_scale > 0.0 && self.init_scale.is_finite()) {
            return refuse("initial scale", self.init_scale, "above 0");
        }
        if !(self.growth_factor > 1.0 && self.growth_factor.is_finite()) {
            return refuse("growth factor", self.growth_factor, "above 1");
        }
        if !(self.backoff_factor > 0.0 && self.backoff_factor < 1.0) {
            return refuse("backoff factor", self.backoff_factor, "between 0 and 1");
        }
        if self.growth_interval == 0 {
            return refuse("growth interval", 0.0, "at least 1");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_follows_pytorch_s_rules() {
        let s = GradScaler { init_scale: 8.0, growth_interval: 3, ..GradScaler::default() };
        let overflows = [false, false, true, false, false, false, false];
        let mut state = s.start();
        let scales: Vec<(f32, u32)> = overflows
            .into_iter()
            .map(|overflow| {
                state = s.update(state, overflow);
                (state.scale, state.steps)
            })
            .collect();
        assert_eq!(scales, [(8.0, 1), (8.0, 2), (4.0, 0), (4.0, 1), (4.0, 2), (8.0, 0), (8.0, 1)]);
        let huge = super::super::ScalerState { scale: f32::MAX, steps: 2 };
        assert_eq!(s.update(huge, false).scale, f32::MAX, "the scale stays finite");
    }

    #[test]
    fn an_overflow_is_found_and_its_step_skipped() {
        let s = GradScaler::default();
        let state = s.start();
        assert_eq!(s.scale(&state, 2.0), 131_072.0);
        let mut gradients = [65536.0, -131_072.0];
        assert!(!s.unscale(&state, &mut gradients));
        assert_eq!(gradients, [1.0, -2.0]);
        assert!(s.unscale(&state, &mut [1.0, f32::INFINITY]) && s.unscale(&state, &mut [f32::NAN]));
        let mut steps = 0;
        s.step(false, || steps += 1);
        s.step(true, || steps += 10);
        assert_eq!(steps, 1);
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let check = |s: GradScaler, expect: &str| {
            let sentence = s.check().unwrap_err().to_string();
            assert!(sentence.contains(expect), "{sentence}");
        };
        let d = GradScaler::default();
        assert!(d.check().is_ok());
        check(GradScaler { init_scale: f32::NAN, ..d }, "initial scale");
        check(GradScaler { growth_factor: 1.0, ..d }, "above 1");
        check(GradScaler { backoff_factor: 1.0, ..d }, "between 0 and 1");
        check(GradScaler { growth_interval: 0, ..d }, "at least 1");
    }

    #[test]
    fn the_table_says_what_autocast_computes_in_half() {
        let types = |p: Precision| p.table().rows.iter().map(|r| (r.stored, r.arithmetic)).collect::<Vec<_>>();
        let (full, half) = (Dtype::F32, Dtype::F16);
        assert!(types(Precision::Fp32).iter().all(|t| *t == (full, full)));
        let tf32 = types(Precision::Tf32);
        assert!(tf32[0] == (full, Dtype::Tf32) && tf32[1..].iter().all(|t| *t == (full, full)));
        // Products have operands in half precision; sums, statistics and the optimiser's numbers are in f32.
        let amp = types(Precision::AmpFp16);
        assert_eq!((amp[0], amp[1], amp[5], amp[7]), ((half, half), (full, full), (full, full), (full, full)));
        assert!(amp[2..5].iter().chain(&amp[6..7]).all(|t| *t == (half, full)));
    }

    #[test]
    fn a_precision_is_known_by_its_name() {
        for p in Precision::ALL {
            assert_eq!(p.name().parse(), Ok(p));
        }
        assert_eq!(("fp16".parse(), "bf16".parse()), (Ok(Precision::AmpFp16), Ok(Precision::AmpBf16)));
        assert!("fp8".parse::<Precision>().unwrap_err().contains("amp-bf16"));
    }

    #[test]
    fn a_gpu_without_the_type_says_so() {
        let t4 = DeviceInfo {
            kind: warpbook_record::DeviceKind::Cuda,
            index: 0,
            name: "Tesla T4".into(),
            memory_bytes: 1 << 34,
            multiprocessors: 40,
            compute_capability: Some((7, 5)),
            l2_bytes: None,
            shared_bytes_per_multiprocessor: None,
            shared_bytes_per_block: None,
            registers_per_multiprocessor: None,
            max_sm_mhz: None,
            max_memory_mhz: None,
        };
        let taken = Precision::ALL.map(|p| p.check(&t4).is_ok());
        assert_eq!(taken, [true, false, true, false]);
        assert_eq!(
            Precision::AmpBf16.check(&t4).unwrap_err().to_string(),
            "amp-bf16 needs a GPU of compute capability 8.0 or later; Tesla T4 is a GPU of 7.5: choose amp-fp16 or fp32."
        );
        let a100 = DeviceInfo { compute_capability: Some((8, 0)), ..t4 };
        assert!(Precision::ALL.iter().all(|p| p.check(&a100).is_ok()));
    }
}

//! Options that several commands share: device, images, and duration of timing.

use crate::failure::Failure;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use warpbook::device::{Bench, Choice, Device};
use warpbook::nn::train::{Place, Precision};

#[derive(Debug, Args)]
pub struct DeviceArg {
    /// Device to run on: cuda:0 (or another number), cpu, emulator (a GPU emulated on the CPU, without times), or best (the largest GPU, else the CPU).
    #[arg(long, value_name = "DEVICE", env = "WARPBOOK_DEVICE", default_value = "best")]
    device: String,
}

impl DeviceArg {
    /// Returns the chosen device; an empty environment variable counts as unset.
    pub fn choice(&self) -> Result<Choice, warpbook::device::Error> {
        if self.device.trim().is_empty() { Ok(Choice::Best) } else { self.device.parse() }
    }
}

/// Arguments that select where a network computes, and in which types.
#[derive(Debug, Args)]
pub struct PlaceArgs {
    #[command(flatten)]
    pub device: DeviceArg,
    /// Types: fp32, tf32, amp-fp16 (or fp16), amp-bf16 (or bf16). The CPU computes in fp32; tf32 and bf16 need a GPU of compute
    /// capability 8.0 or later.
    #[arg(long, value_name = "P", default_value = "fp32")]
    pub precision: Precision,
}

impl PlaceArgs {
    /// Opens the device.
    pub fn place(&self) -> Result<Place, Failure> {
        let device = Device::open(self.device.choice()?)?;
        Place::new(&device, self.precision).map_err(|e| Failure::usage(e.to_string()))
    }
}

#[derive(Debug, Args)]
pub struct TimingArgs {
    /// Maximum number of samples of a measurement. [default: 25, with --quick 7]
    #[arg(long, value_name = "N")]
    samples: Option<u32>,
    /// Seconds after which a measurement begins no further sample. [default: 2, with --quick 0.5]
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true)]
    budget: Option<f64>,
}

impl TimingArgs {
    pub fn bench(&self, quick: bool) -> Result<Bench, String> {
        let mut bench = if quick { Bench::quick() } else { Bench::default() };
        if let Some(samples) = self.samples {
            if samples == 0 || samples > 1_000_000 {
                return Err(format!("--samples {samples}: choose from 1 to 1000000."));
            }
            bench.samples = samples;
        }
        if let Some(budget) = self.budget {
            if !(0.0..=86_400.0).contains(&budget) {
                return Err(format!("--budget {budget}: choose a number of seconds from 0 to 86400."));
            }
            bench.budget_s = budget;
        }
        Ok(bench)
    }
}

/// Arguments that select the source of images.
#[derive(Debug, Args)]
pub struct DataFrom {
    /// Folder with the data set's files, or `synthetic` for digits drawn by a program. [default: WARPBOOK_DATA, or where `warpbook data fetch` puts them; for
    /// mnist and cifar10, digits drawn by a program if neither has files]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// Parses a time such as 90s, 5m or 1h; a number alone counts seconds.
pub fn time(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        other => return Err(format!("`{other}` is not a unit of time; write 90s, 5m or 1h")),
    };
    let seconds = number.trim().parse::<f64>().ok().map(|n| n * unit).filter(|s| (1e-3..=1e8).contains(s));
    let seconds = seconds.ok_or("write a time above 0 such as 90s, 5m or 1h")?;
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let check = |text: &str, seconds: f64| assert_eq!(time(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        check("90", 90.0);
        check("90s", 90.0);
        check("1.5 m", 90.0);
        check("2h", 7200.0);
        check("250ms", 0.25);
        for bad in ["", "s", "-1s", "0", "NaN", "inf", "1d", "1e300s"] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }
}

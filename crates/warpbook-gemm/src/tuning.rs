//! Settings for timing kernels in the first plan of a product.

use std::fmt;

/// Mode of timing kernels when a product is first planned on a device; [`Tuning::budget`] has the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tuning {
    /// Nothing is timed, and earlier timings on this machine are ignored: the cost model and the published findings decide, with the same result on every
    /// machine with this device.
    Off,
    /// The few kernels with the least expected times are timed once, unless the product is published for the device.
    #[default]
    Quick,
    /// Many kernels are timed, even for published products.
    Full,
}

impl Tuning {
    /// All modes, from the least to the most timing.
    pub const ALL: [Self; 3] = [Self::Off, Self::Quick, Self::Full];
    /// Environment variable that sets the mode.
    pub const VARIABLE: &'static str = "WARPBOOK_TUNE";

    /// Returns the name of the mode.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }

    /// Reads the mode from `WARPBOOK_TUNE`; [`Tuning::Quick`] if it is not set.
    ///
    /// # Errors
    /// If the variable is set to anything but the name of a mode.
    pub fn of_environment() -> Result<Self, String> {
        match std::env::var_os(Self::VARIABLE) {
            Some(name) if !name.is_empty() => {
                name.to_string_lossy().parse().map_err(|why| format!("{}: {why}", Self::VARIABLE))
            }
            _ => Ok(Self::default()),
        }
    }
}

impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Tuning {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|tuning| tuning.name() == name);
        found.ok_or_else(|| format!("unknown tuning `{name}`: choose off, quick or full"))
    }
}

/// Limits for timing kernels when a product is first planned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Largest number of kernels to try.
    pub candidates: usize,
    /// Kernels whose expected time exceeds the shortest by more than this factor are not tried.
    pub within: f64,
    /// Shortest expected time in microseconds of a product for which kernels are timed.
    pub least_us: f64,
    /// Seconds of GPU time that timing may take.
    pub gpu_s: f64,
    /// Seconds after which no further compilation begins.
    pub compilation_s: f64,
}

impl Tuning {
    /// Returns the limits of the mode for one product; `None` if nothing is timed.
    #[must_use]
    pub fn budget(self) -> Option<Budget> {
        match self {
            Self::Off => None,
            Self::Quick => Some(Budget { candidates: 4, within: 1.5, least_us: 10.0, gpu_s: 1.0, compilation_s: 6.0 }),
            Self::Full => {
                Some(Budget { candidates: 32, within: f64::INFINITY, least_us: 0.0, gpu_s: 10.0, compilation_s: 120.0 })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuning_is_known_by_its_name() {
        for tuning in Tuning::ALL {
            assert_eq!(tuning.to_string().parse(), Ok(tuning));
        }
        assert_eq!("fast".parse::<Tuning>().unwrap_err(), "unknown tuning `fast`: choose off, quick or full");
        let most = Tuning::Quick.budget().unwrap();
        assert_eq!((Tuning::Off.budget(), most.candidates, most.gpu_s, most.compilation_s), (None, 4, 1.0, 6.0));
    }
}

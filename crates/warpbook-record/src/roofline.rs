use crate::{Dtype, stats};
use serde::{Deserialize, Serialize};

/// A level of the memory hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MemoryLevel {
    /// Registers.
    Registers,
    /// Shared memory, or a processor's first caches.
    Shared,
    /// Level-2 cache, or a processor's last cache.
    L2,
    /// Device memory, or main memory.
    Dram,
    /// One that this version does not know.
    #[serde(other)]
    Other,
}

impl MemoryLevel {
    /// As a chart names it.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Registers => "registers",
            Self::Shared => "shared memory",
            Self::L2 => "cache",
            Self::Dram => "memory",
            Self::Other => "other",
        }
    }
}

/// A read bandwidth as it was measured: this many bytes in each of these times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BandwidthPeak {
    /// The level that the bytes came from.
    pub level: MemoryLevel,
    /// How it was measured, in a few words.
    pub method: String,
    /// Bytes read in one sample.
    pub bytes: u64,
    /// Times of the samples in microseconds.
    #[serde(with = "crate::real::many")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::real::Real>"))]
    pub samples_us: Vec<f64>,
    /// The datasheet's figure in bytes a second, where there is one.
    #[serde(default)]
    pub datasheet_bytes_per_s: Option<f64>,
}

impl BandwidthPeak {
    /// Bytes a second of the median sample; zero without samples.
    #[must_use]
    pub fn bytes_per_s(&self) -> f64 {
        stats::median(&self.samples_us).map_or(0.0, |us| self.bytes as f64 / (us * 1e-6))
    }
}

/// An arithmetic rate as it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComputePeak {
    /// The element type.
    pub dtype: Dtype,
    /// How it was measured, in a few words.
    pub method: String,
    /// Operations of one sample.
    pub flops: u64,
    /// Times of the samples in microseconds.
    #[serde(with = "crate::real::many")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::real::Real>"))]
    pub samples_us: Vec<f64>,
    /// The datasheet's figure in operations a second, where there is one.
    #[serde(default)]
    pub datasheet_flops_per_s: Option<f64>,
}

impl ComputePeak {
    /// Operations a second of the median sample; zero without samples.
    #[must_use]
    pub fn flops_per_s(&self) -> f64 {
        stats::median(&self.samples_us).map_or(0.0, |us| self.flops as f64 / (us * 1e-6))
    }
}

/// The ceilings measured on the device, in the run that they are compared with.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Peaks {
    /// Read bandwidths.
    #[serde(default)]
    pub bandwidth: Vec<BandwidthPeak>,
    /// Arithmetic rates.
    #[serde(default)]
    pub compute: Vec<ComputePeak>,
}

impl Peaks {
    /// The bandwidth peak of a level.
    #[must_use]
    pub fn level(&self, level: MemoryLevel) -> Option<&BandwidthPeak> {
        self.bandwidth.iter().find(|p| p.level == level)
    }

    /// The ceiling for work that reads the same bytes over and over: that of the cache where they fit into `cache_bytes`
    /// with room to spare (five eighths of it), else that of memory; the other where only that was measured.
    #[must_use]
    pub fn ceiling(&self, working_set_bytes: u64, cache_bytes: Option<u64>) -> Option<&BandwidthPeak> {
        let fits = cache_bytes.is_some_and(|c| working_set_bytes <= kept_by_cache(c));
        let (first, second) =
            if fits { (MemoryLevel::L2, MemoryLevel::Dram) } else { (MemoryLevel::Dram, MemoryLevel::L2) };
        self.level(first).or_else(|| self.level(second))
    }

    /// The roofline of one memory level and one element type, where both were measured.
    #[must_use]
    pub fn roofline(&self, level: MemoryLevel, dtype: Dtype) -> Option<Roofline> {
        let bytes_per_s = self.level(level)?.bytes_per_s();
        let flops_per_s = self.compute.iter().find(|p| p.dtype == dtype)?.flops_per_s();
        Some(Roofline { bytes_per_s, flops_per_s })
    }
}

/// The bytes that a cache of this size keeps from one pass to the next: five eighths, with room to spare.
pub(crate) const fn kept_by_cache(cache_bytes: u64) -> u64 {
    cache_bytes / 8 * 5
}

/// A bound on speed from bandwidth and arithmetic (Williams, Waterman and Patterson, 2009).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Roofline {
    /// Bandwidth in bytes a second.
    pub bytes_per_s: f64,
    /// Arithmetic rate in operations a second.
    pub flops_per_s: f64,
}

impl Roofline {
    /// The operations a byte from which on arithmetic is the bound.
    #[must_use]
    pub fn ridge(&self) -> f64 {
        self.flops_per_s / self.bytes_per_s
    }

    /// The operations a second that work of this many operations a byte can reach.
    #[must_use]
    pub fn attainable(&self, flops_per_byte: f64) -> f64 {
        (self.bytes_per_s * flops_per_byte).min(self.flops_per_s)
    }
}

use crate::{DeviceKind, Dtype, stats};
use serde::{Deserialize, Serialize};

/// A level of the memory hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MemoryLevel {
    /// Registers.
    Registers,
    /// Shared memory, or the first-level caches of a CPU.
    Shared,
    /// L2, or the last-level cache of a CPU.
    L2,
    /// GPU memory, or host memory.
    Dram,
    /// The link between two GPUs, when one reads or writes memory of the other.
    Link,
    /// A level that this version does not know.
    #[serde(other)]
    Other,
}

impl MemoryLevel {
    /// Returns the level's name for charts.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Registers => "registers",
            Self::Shared => "shared memory",
            Self::L2 => "L2",
            Self::Dram => "DRAM",
            Self::Link => "the link",
            Self::Other => "other",
        }
    }

    /// Returns the level's name for a device, since a CPU's levels have other names.
    #[must_use]
    pub const fn label_on(self, device: DeviceKind) -> &'static str {
        match (device, self) {
            (DeviceKind::Cpu, Self::L2) => "the last-level cache",
            (DeviceKind::Cpu, Self::Dram) => "memory",
            _ => self.label(),
        }
    }
}

/// The kind of access that a bandwidth was measured with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Only reads.
    #[default]
    Read,
    /// Equally many reads and writes.
    Copy,
}

impl Access {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
    fn is_read(&self) -> bool {
        *self == Self::Read
    }
}

/// A measured bandwidth: the bytes moved, and the times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BandwidthPeak {
    /// Level that the bytes came from.
    pub level: MemoryLevel,
    /// Kind of access: reads, or reads and writes.
    #[serde(default, skip_serializing_if = "Access::is_read")]
    pub access: Access,
    /// Method of measurement, in a few words.
    pub method: String,
    /// Bytes moved in one sample.
    pub bytes: u64,
    /// Times of the samples in microseconds.
    #[serde(with = "crate::format::real::many")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::format::real::Real>"))]
    pub samples_us: Vec<f64>,
    /// Bandwidth that the datasheet states in bytes per second, if it states one.
    #[serde(default)]
    pub datasheet_bytes_per_s: Option<f64>,
}

impl BandwidthPeak {
    /// Returns the bytes per second of the median sample; zero without samples.
    #[must_use]
    pub fn bytes_per_s(&self) -> f64 {
        stats::median(&self.samples_us).map_or(0.0, |us| self.bytes as f64 / (us * 1e-6))
    }
}

/// A measured arithmetic rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComputePeak {
    /// Element type of the operations.
    pub dtype: Dtype,
    /// Method of measurement, in a few words.
    pub method: String,
    /// Number of operations in one sample.
    pub flops: u64,
    /// Times of the samples in microseconds.
    #[serde(with = "crate::format::real::many")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::format::real::Real>"))]
    pub samples_us: Vec<f64>,
    /// Rate that the datasheet states in FLOP/s, if it states one.
    #[serde(default)]
    pub datasheet_flops_per_s: Option<f64>,
}

impl ComputePeak {
    /// Returns the FLOP/s of the median sample; zero without samples.
    #[must_use]
    pub fn flops_per_s(&self) -> f64 {
        stats::median(&self.samples_us).map_or(0.0, |us| self.flops as f64 / (us * 1e-6))
    }
}

/// The ceilings of the device, measured in the same run as the rungs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Peaks {
    /// Measured bandwidths of the memory levels.
    #[serde(default)]
    pub bandwidth: Vec<BandwidthPeak>,
    /// Measured arithmetic rates by element type.
    #[serde(default)]
    pub compute: Vec<ComputePeak>,
    /// Bandwidth of the link between GPUs over the size of a transfer, if a run uses more than one GPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkCurve>,
}

/// A kind of transfer over a link between GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LinkTransfer {
    /// A copy from one GPU to another.
    OneWay,
    /// Two copies at the same time, one in each direction.
    BothWays,
    /// An all-reduce over all GPUs.
    AllReduce,
    /// A kind that this version does not know.
    #[serde(other)]
    Other,
}

impl LinkTransfer {
    /// Returns the name for charts.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::OneWay => "copy, one direction",
            Self::BothWays => "copies, both directions",
            Self::AllReduce => "all-reduce, bus bandwidth",
            Self::Other => "other",
        }
    }
}

/// The measured bandwidth of a link between GPUs, over the size of a transfer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkCurve {
    /// Kind of transfer.
    pub transfer: LinkTransfer,
    /// Number of GPUs that take part.
    pub gpus: u32,
    /// Method of measurement, in a few words.
    pub method: String,
    /// Points from the smallest size to the largest.
    pub points: Vec<LinkPoint>,
}

/// One size of a [`LinkCurve`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkPoint {
    /// Bytes of a copy, or of the array that each GPU contributes.
    pub bytes: u64,
    /// Times of the samples in microseconds.
    #[serde(with = "crate::format::real::many")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::format::real::Real>"))]
    pub samples_us: Vec<f64>,
}

impl LinkCurve {
    /// Returns the bytes per second of a point's median sample: the rate of a copy, the rate of both directions
    /// together, or the bus bandwidth of an all-reduce. NVIDIA's nccl-tests define the bus bandwidth as 2 (n - 1) / n
    /// times the array's bytes over the time, which counts the bytes that each GPU sends and receives. Returns `None`
    /// if no time was measured.
    #[must_use]
    pub fn bytes_per_s(&self, point: &LinkPoint) -> Option<f64> {
        let n = f64::from(self.gpus.max(1));
        let crossing = match self.transfer {
            LinkTransfer::OneWay => 1.0,
            LinkTransfer::BothWays => 2.0,
            LinkTransfer::AllReduce => 2.0 * (n - 1.0) / n,
            LinkTransfer::Other => return None,
        };
        let us = stats::median(&point.samples_us).filter(|us| *us > 0.0)?;
        Some(crossing * point.bytes as f64 / (us * 1e-6))
    }

    /// Returns the point with the highest bandwidth, and this bandwidth in bytes per second.
    #[must_use]
    pub fn best(&self) -> Option<(&LinkPoint, f64)> {
        let rates = self.points.iter().filter_map(|p| Some((p, self.bytes_per_s(p)?)));
        rates.max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

impl Peaks {
    /// Returns the bandwidth of one kind of access to a level; `None` for [`MemoryLevel::Other`], since two unknown
    /// levels may differ.
    fn bandwidth_of(&self, level: MemoryLevel, access: Access) -> Option<&BandwidthPeak> {
        self.bandwidth.iter().find(|p| p.level == level && p.access == access && level != MemoryLevel::Other)
    }

    /// Returns the read bandwidth of a level.
    #[must_use]
    pub fn level(&self, level: MemoryLevel) -> Option<&BandwidthPeak> {
        self.bandwidth_of(level, Access::Read)
    }

    /// Returns the bandwidth of a level for work that writes this share of its bytes. If the share is at least a third,
    /// it is the bandwidth of copies, if that was measured.
    #[must_use]
    pub fn level_for(&self, level: MemoryLevel, written: f64) -> Option<&BandwidthPeak> {
        let copies = || self.bandwidth_of(level, Access::Copy);
        (written * 3.0 >= 1.0).then(copies).flatten().or_else(|| self.level(level))
    }

    /// Returns the arithmetic peak of an element type; `None` for [`Dtype::Other`], since two unknown types may differ.
    #[must_use]
    pub fn arithmetic(&self, dtype: Dtype) -> Option<&ComputePeak> {
        self.compute.iter().find(|p| p.dtype == dtype && dtype != Dtype::Other)
    }

    /// Returns the ceiling for work that reads the same bytes repeatedly: the ceiling of L2 if the bytes take at most
    /// five eighths of `cache_bytes`, otherwise the ceiling of DRAM. If only one of the two was measured, returns that
    /// one.
    #[must_use]
    pub fn ceiling(&self, working_set_bytes: u64, cache_bytes: Option<u64>) -> Option<&BandwidthPeak> {
        self.ceiling_for(working_set_bytes, cache_bytes, 0.0)
    }

    /// Returns the ceiling, like [`Peaks::ceiling`], for work that writes this share of its bytes.
    #[must_use]
    pub fn ceiling_for(
        &self,
        working_set_bytes: u64,
        cache_bytes: Option<u64>,
        written: f64,
    ) -> Option<&BandwidthPeak> {
        let fits = cache_bytes.is_some_and(|c| working_set_bytes <= kept_by_cache(c));
        let (first, second) =
            if fits { (MemoryLevel::L2, MemoryLevel::Dram) } else { (MemoryLevel::Dram, MemoryLevel::L2) };
        self.level_for(first, written).or_else(|| self.level_for(second, written))
    }

    /// Returns the curve of one kind of transfer over the link.
    #[must_use]
    pub fn link(&self, transfer: LinkTransfer) -> Option<&LinkCurve> {
        self.links.iter().find(|l| l.transfer == transfer && transfer != LinkTransfer::Other)
    }

    /// Returns the roofline of one memory level and one element type, if both were measured.
    #[must_use]
    pub fn roofline(&self, level: MemoryLevel, dtype: Dtype) -> Option<Roofline> {
        let bytes_per_s = self.level(level)?.bytes_per_s();
        let flops_per_s = self.arithmetic(dtype)?.flops_per_s();
        Some(Roofline { bytes_per_s, flops_per_s })
    }
}

/// Returns how many bytes a cache of this size keeps between passes: five eighths of its size.
#[must_use]
pub const fn kept_by_cache(cache_bytes: u64) -> u64 {
    cache_bytes / 8 * 5
}

/// A bound on speed from bandwidth and arithmetic (Williams, Waterman and Patterson, 2009).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Roofline {
    /// Bandwidth in bytes per second.
    pub bytes_per_s: f64,
    /// Arithmetic rate in FLOP/s.
    pub flops_per_s: f64,
}

impl Roofline {
    /// Returns the FLOP/byte above which arithmetic is the bound.
    #[must_use]
    pub fn ridge(&self) -> f64 {
        self.flops_per_s / self.bytes_per_s
    }

    /// Returns the FLOP/s that work with this many FLOP/byte can reach.
    #[must_use]
    pub fn attainable(&self, flops_per_byte: f64) -> f64 {
        (self.bytes_per_s * flops_per_byte).min(self.flops_per_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_bandwidth_is_that_of_nccl_tests() {
        let point = |bytes, us| LinkPoint { bytes, samples_us: vec![us] };
        let curve = |transfer, gpus| LinkCurve {
            transfer,
            gpus,
            method: String::new(),
            points: vec![point(1000, 2.0), point(4000, 4.0), point(8000, 10.0)],
        };
        let best = |transfer, gpus| curve(transfer, gpus).best().map(|(p, rate)| (p.bytes, (rate * 1e-6).round()));
        assert_eq!(best(LinkTransfer::OneWay, 2), Some((4000, 1000.0)));
        assert_eq!(best(LinkTransfer::BothWays, 2), Some((4000, 2000.0)));
        assert_eq!(best(LinkTransfer::AllReduce, 2), Some((4000, 1000.0)));
        assert_eq!(best(LinkTransfer::AllReduce, 8), Some((4000, 1750.0)));
        assert_eq!(best(LinkTransfer::AllReduce, 1), Some((8000, 0.0)));
        assert_eq!(best(LinkTransfer::Other, 2), None);
        let untimed = LinkCurve { points: vec![point(1, 0.0), point(1, f64::NAN)], ..curve(LinkTransfer::OneWay, 2) };
        assert_eq!(untimed.best(), None);
        let peaks = Peaks { links: vec![curve(LinkTransfer::OneWay, 2)], ..Peaks::default() };
        assert!(peaks.link(LinkTransfer::OneWay).is_some() && peaks.link(LinkTransfer::AllReduce).is_none());
        // A record without links looks as it did before links existed.
        assert!(!serde_json::to_string(&Peaks::default()).unwrap().contains("links"));
    }

    /// Two GPUs have two memories and twice the compute units, but only one link.
    #[test]
    fn several_gpus_share_the_work_and_the_link() {
        use crate::{Check, Measurement, Outcome, Problem, Traffic, count};
        let mut run = crate::run::tests::run();
        let problem = Problem::new("sum", "sum", vec![count("n", 1, "")], Dtype::F32);
        let problem = problem.with(|p| (p.flops, p.bytes, p.working_set_bytes) = (2000, 1000, 1000));
        let on_gpus = |gpus, traffic: &[(MemoryLevel, u64)]| Measurement {
            gpus,
            traffic: traffic.iter().map(|(level, bytes)| Traffic { level: *level, bytes: *bytes }).collect(),
            ..Measurement::without_samples("01", problem.clone(), Outcome::Measured)
        };
        let check = |run: &crate::Run, traffic: &[(MemoryLevel, u64)], times: f64| {
            let us = |gpus| run.bound(&on_gpus(gpus, traffic)).map(|b| (b.level, b.us)).unwrap();
            let ((level, one), (same, two)) = (us(None), us(Some(2)));
            assert!(level == same && (one / two - times).abs() < 1e-12, "{traffic:?}: {one} and {two} us");
            level
        };
        assert_eq!(check(&run, &[(MemoryLevel::Dram, 1 << 20)], 2.0), Some(MemoryLevel::Dram));
        assert_eq!(check(&run, &[(MemoryLevel::Dram, 1)], 2.0), None);
        // A link without a measured bandwidth bounds nothing.
        assert_eq!(check(&run, &[(MemoryLevel::Link, 1 << 40)], 2.0), None);
        let dram = run.peaks.level(MemoryLevel::Dram).unwrap().clone();
        run.peaks.bandwidth.push(BandwidthPeak { level: MemoryLevel::Link, ..dram });
        assert_eq!(check(&run, &[(MemoryLevel::Link, 1 << 20)], 1.0), Some(MemoryLevel::Link));
        assert_eq!(run.bound(&on_gpus(Some(2), &[(MemoryLevel::Link, 1 << 20)])).unwrap().label(), "the link");

        // A problem's least time assumes the largest number of GPUs that any rung used.
        let one = run.least_time(&problem).unwrap().us;
        let check =
            Check { reference: String::new(), max_abs_error: 0.0, max_rel_error: 0.0, tolerance: 1.0, passed: true };
        run.measurements = vec![Measurement { samples_us: vec![1.0], check: Some(check), ..on_gpus(Some(4), &[]) }];
        assert_eq!((run.gpus_at(&problem), run.least_time(&problem).map(|b| b.us)), (4, Some(one / 4.0)));
    }
}

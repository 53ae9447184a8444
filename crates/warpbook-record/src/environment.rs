use serde::{Deserialize, Serialize};

/// The kind of device that ran the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum DeviceKind {
    /// An NVIDIA GPU.
    Cuda,
    /// The CPU.
    Cpu,
    /// The emulator of a GPU, which measures no times.
    Emulator,
    /// A kind that this version does not know.
    #[serde(other)]
    Other,
}

/// A device and its limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceInfo {
    /// Kind of the device: GPU, CPU or emulator.
    pub kind: DeviceKind,
    /// Index among the devices of its kind.
    pub index: u32,
    /// Name that the driver reports, such as "NVIDIA H200".
    pub name: String,
    /// GPU memory or host memory in bytes.
    pub memory_bytes: u64,
    /// Number of SMs (streaming multiprocessors) of a GPU, or of hardware threads of a CPU.
    pub multiprocessors: u32,
    /// Compute capability (major, minor) of a GPU.
    #[serde(default)]
    pub compute_capability: Option<(u32, u32)>,
    /// Size of a GPU's L2 cache in bytes.
    #[serde(default)]
    pub l2_bytes: Option<u64>,
    /// Shared memory of one SM in bytes.
    #[serde(default)]
    pub shared_bytes_per_multiprocessor: Option<u64>,
    /// Maximum shared memory that a block may use, in bytes.
    #[serde(default)]
    pub shared_bytes_per_block: Option<u64>,
    /// Number of 32-bit registers of one SM.
    #[serde(default)]
    pub registers_per_multiprocessor: Option<u64>,
    /// Highest SM clock in MHz.
    #[serde(default)]
    pub max_sm_mhz: Option<u32>,
    /// Highest memory clock in MHz.
    #[serde(default)]
    pub max_memory_mhz: Option<u32>,
}

impl DeviceInfo {
    /// Returns the option that selects the device: "cuda:0", "cpu" or "emulator".
    #[must_use]
    pub fn selector(&self) -> String {
        match self.kind {
            DeviceKind::Cuda => format!("cuda:{}", self.index),
            DeviceKind::Cpu => "cpu".into(),
            DeviceKind::Emulator => "emulator".into(),
            DeviceKind::Other => "other".into(),
        }
    }

    /// Returns "sm_90" for compute capability 9.0; `None` for a CPU.
    #[must_use]
    pub fn architecture(&self) -> Option<String> {
        self.compute_capability.map(|(major, minor)| format!("sm_{major}{minor}"))
    }
}

/// Clocks, power and temperature during a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockReport {
    /// Source of the readings, such as "NVML".
    pub source: String,
    /// Number of readings.
    pub readings: u32,
    /// Lowest and highest SM clock in MHz.
    #[serde(default)]
    pub sm_mhz: Option<(u32, u32)>,
    /// Lowest and highest memory clock in MHz.
    #[serde(default)]
    pub memory_mhz: Option<(u32, u32)>,
    /// Highest power draw in watts.
    #[serde(default)]
    pub max_power_watts: Option<u32>,
    /// Highest temperature in degrees Celsius.
    #[serde(default)]
    pub max_temperature_celsius: Option<u32>,
    /// Reasons why clocks were lowered, such as "power cap".
    #[serde(default)]
    pub throttling: Vec<String>,
}

/// The machine and the software of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Environment {
    /// The device of the run.
    pub device: DeviceInfo,
    /// Version of the kernel-mode driver, such as "580.65.06".
    #[serde(default)]
    pub driver: Option<String>,
    /// Newest CUDA version that the driver supports, such as "13.0".
    #[serde(default)]
    pub cuda: Option<String>,
    /// Version of NVRTC that compiled the kernels, such as "13.0".
    #[serde(default)]
    pub nvrtc: Option<String>,
    /// Clocks, power and throttling, if NVML was available.
    #[serde(default)]
    pub clocks: Option<ClockReport>,
    /// Model name of the CPU.
    pub cpu: String,
    /// Number of hardware threads that the process may use.
    pub cpu_threads: u32,
    /// Operating system and architecture, such as "linux x86_64".
    pub os: String,
    /// Version of Warpbook.
    pub warpbook: String,
    /// Commit of Warpbook, if it was known at build time.
    #[serde(default)]
    pub commit: Option<String>,
    /// True if debug assertions were on, as in a notebook whose kernel `cargo xtask` did not register. CPU figures are
    /// then lower than in a release build.
    pub debug_assertions: bool,
    /// Versions of other frameworks in the record, such as ("PyTorch", "2.11.0").
    #[serde(default)]
    pub libraries: Vec<(String, String)>,
}

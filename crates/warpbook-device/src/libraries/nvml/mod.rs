//! Clocks, power and throttling, from NVML if it is installed.

mod library;

use crate::CudaDevice;
use library::{Clock, Gpu, Nvml, POWER_CAP, THROTTLING};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use warpbook_record::ClockReport;

/// Shortest time between two readings. A reading costs tens of microseconds of CPU time, so not every sample is
/// followed by one.
const INTERVAL: Duration = Duration::from_millis(20);

/// Returns the version of the kernel-mode driver.
pub fn driver_version() -> Option<String> {
    Nvml::get()?.driver_version()
}

/// Reads the clocks of the GPU that has this CUDA index. NVML numbers all GPUs, but CUDA only those that
/// `CUDA_VISIBLE_DEVICES` allows.
pub(crate) fn snapshot_of_index(index: u32) -> Option<ClockReport> {
    let device = CudaDevice::open(index).ok()?;
    let watch = ClockWatch::new(device.uuid());
    watch.read_now();
    watch.report()
}

/// One reading of a GPU's power and clocks.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PowerReading {
    /// Clock frequency of the SMs in MHz.
    pub sm_mhz: Option<u32>,
    /// Power draw in watts. Recent GPUs report the mean over about the last second.
    pub watts: Option<f64>,
    /// Power limit in watts; the GPU lowers its clocks if its average power exceeds this limit.
    pub limit_watts: Option<f64>,
    /// True if the power limit is currently lowering the clocks.
    pub capped: bool,
}

/// Reads the power and clocks of the GPU with this UUID; `None` if there is no NVML or no such GPU.
#[must_use]
pub fn power_reading(uuid: &str) -> Option<PowerReading> {
    let gpu = Nvml::get()?.gpu(uuid)?;
    let watts = |milliwatts: u32| f64::from(milliwatts) / 1000.0;
    Some(PowerReading {
        sm_mhz: gpu.clock(Clock::Sm),
        watts: gpu.power().map(watts),
        limit_watts: gpu.power_limit().map(watts),
        capped: gpu.throttling().is_some_and(|reasons| reasons & POWER_CAP != 0),
    })
}

/// Reads a GPU's clocks, power and temperature during a run, and keeps the extremes.
#[derive(Debug)]
pub struct ClockWatch {
    uuid: Option<String>,
    state: Mutex<(Option<Instant>, ClockReport)>,
}

impl ClockWatch {
    /// Creates a watch for the GPU with this UUID. With `None`, nothing is read.
    #[must_use]
    pub fn new(uuid: Option<&str>) -> Self {
        Self { uuid: uuid.map(str::to_owned), state: Mutex::new((None, ClockReport::default())) }
    }

    /// Takes a reading, unless the last one is less than 20 ms old. Call this between samples, never inside a timed
    /// region.
    pub fn read(&self) {
        let due = {
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.0.is_none_or(|last| last.elapsed() >= INTERVAL)
        };
        if due {
            self.read_now();
        }
    }

    pub(crate) fn read_now(&self) {
        let Some(uuid) = &self.uuid else { return };
        let Some(gpu) = Nvml::get().and_then(|nvml| nvml.gpu(uuid)) else { return };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = Some(Instant::now());
        add_reading(&mut state.1, gpu);
    }

    /// Returns the extremes of all readings so far; `None` if nothing could be read.
    #[must_use]
    pub fn report(&self) -> Option<ClockReport> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.1.readings > 0).then(|| state.1.clone())
    }
}

fn add_reading(report: &mut ClockReport, gpu: Gpu) {
    let widen = |range: &mut Option<(u32, u32)>, value: u32| {
        let (low, high) = range.unwrap_or((value, value));
        *range = Some((low.min(value), high.max(value)));
    };
    report.source = "NVML".into();
    report.readings += 1;
    if let Some(mhz) = gpu.clock(Clock::Sm) {
        widen(&mut report.sm_mhz, mhz);
    }
    if let Some(mhz) = gpu.clock(Clock::Memory) {
        widen(&mut report.memory_mhz, mhz);
    }
    if let Some(milliwatts) = gpu.power() {
        report.max_power_watts = report.max_power_watts.max(Some(milliwatts / 1000));
    }
    if let Some(celsius) = gpu.temperature() {
        report.max_temperature_celsius = report.max_temperature_celsius.max(Some(celsius));
    }
    add_reasons(&mut report.throttling, gpu.throttling().unwrap_or_default());
}

fn add_reasons(throttling: &mut Vec<String>, reasons: u64) {
    for (bit, name) in THROTTLING {
        if reasons & bit != 0 && !throttling.iter().any(|t| t == name) {
            throttling.push(name.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use std::process::Command;

    #[test]
    fn a_reason_is_named_once() {
        let mut throttling = Vec::new();
        // First the GPU is idle and power-limited; then two thermal reasons and an unknown one are added.
        add_reasons(&mut throttling, 0x01 | 0x04);
        add_reasons(&mut throttling, 0x04 | 0x20 | 0x40 | 1 << 40);
        assert_eq!(throttling, ["power cap", "temperature, by software", "temperature, by hardware"]);
    }

    #[test]
    fn a_watch_of_nothing_has_no_report() {
        for uuid in [None, Some(""), Some("GPU-\0"), Some("GPU-00000000-0000-0000-0000-000000000000")] {
            let watch = ClockWatch::new(uuid);
            watch.read();
            assert_eq!(watch.report(), None, "{uuid:?}");
            assert_eq!(uuid.and_then(power_reading), None, "{uuid:?}");
        }
    }

    /// Queries `nvidia-smi` for one value of a GPU.
    fn smi(uuid: &str, what: &str) -> Option<String> {
        let query = [format!("--id={uuid}"), format!("--query-gpu={what}"), "--format=csv,noheader,nounits".into()];
        let output = Command::new("nvidia-smi").args(query).output().ok().filter(|o| o.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    #[test]
    fn a_gpu_is_read_as_nvidia_smi_reads_it() {
        let test = "a_gpu_is_read_as_nvidia_smi_reads_it";
        let Some(device) = testing::gpu(test) else { return };
        let uuid = device.uuid().expect("a GPU has a UUID").to_owned();
        let report = snapshot_of_index(0).expect("NVML comes with the driver");
        println!("{report:?}");
        assert_eq!((report.source.as_str(), report.readings), ("NVML", 1));
        let power = power_reading(&uuid).expect("NVML comes with the driver");
        let (watts, limit) = (power.watts.expect("a power draw"), power.limit_watts.expect("a power cap"));
        assert!(watts > 1.0 && limit > 10.0 && watts < 2.0 * limit, "{power:?}");
        let within = |value: u32, low: u32, high: u32, what: &str| {
            assert!((low..=high).contains(&value), "{what} is {value}, not within {low} to {high}: {report:?}");
        };
        let (sm, memory) = (report.sm_mhz.expect("an SM clock"), report.memory_mhz.expect("a memory clock"));
        within(sm.0, 100, 5000, "the SM clock in MHz");
        within(memory.0, 300, 30_000, "the memory clock in MHz");
        within(report.max_power_watts.expect("a power draw"), 3, 3000, "the power in watts");
        within(report.max_temperature_celsius.expect("a temperature"), 5, 120, "the temperature in degrees Celsius");
        let Some(driver) = smi(&uuid, "driver_version") else {
            println!("nvidia-smi is missing: the figures are compared with nothing");
            return;
        };
        assert_eq!(driver_version(), Some(driver));
        let read = |what: &str| smi(&uuid, what).and_then(|v| v.parse::<f64>().ok()).map(|v| v as u32);
        let near = |value: u32, smi: Option<u32>, off: u32, what: &str| {
            let smi = smi.unwrap_or(value);
            assert!(value.abs_diff(smi) <= off, "{what} is {value} here and {smi} for nvidia-smi");
        };
        // The library and `nvidia-smi` read at different moments, but a wrong clock, sensor or unit would differ by
        // more than this.
        near(report.max_temperature_celsius.unwrap_or_default(), read("temperature.gpu"), 10, "the temperature");
        near(memory.0, read("clocks.mem"), memory.0 / 20, "the memory clock");
        let most = read("clocks.max.sm").unwrap_or(u32::MAX);
        assert!(sm.1 <= most, "an SM clock of {} MHz, but {most} is the most", sm.1);
        let most = read("power.max_limit").map_or(u32::MAX, |watts| watts * 2);
        assert!(report.max_power_watts.unwrap_or_default() <= most, "{:?} W", report.max_power_watts);
    }
}

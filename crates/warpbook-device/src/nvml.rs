//! Clocks, power and throttling, from NVML where it is installed.

use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::{Device, Nvml};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use warpbook_record::ClockReport;

/// Asking takes tens of microseconds of the CPU's time, so it is not done after every sample.
const INTERVAL: Duration = Duration::from_millis(20);

fn nvml() -> Option<&'static Nvml> {
    static NVML: OnceLock<Option<Nvml>> = OnceLock::new();
    NVML.get_or_init(|| Nvml::init().ok()).as_ref()
}

/// The version of the kernel-mode driver.
pub(crate) fn driver_version() -> Option<String> {
    nvml()?.sys_driver_version().ok()
}

/// One reading of a GPU by its number. NVML counts all GPUs, CUDA those that `CUDA_VISIBLE_DEVICES` leaves.
pub(crate) fn snapshot_of_index(index: u32) -> Option<ClockReport> {
    let device = crate::CudaDevice::open(index).ok()?;
    let watch = ClockWatch::new(device.uuid());
    watch.read_now();
    watch.report()
}

/// Keeps the extremes of what it reads while a run goes on.
#[derive(Debug)]
pub struct ClockWatch {
    uuid: Option<String>,
    state: Mutex<(Option<Instant>, ClockReport)>,
}

impl ClockWatch {
    /// Watches the GPU of this UUID; `None` watches nothing.
    #[must_use]
    pub fn new(uuid: Option<&str>) -> Self {
        Self { uuid: uuid.map(str::to_owned), state: Mutex::new((None, ClockReport::default())) }
    }

    /// Reads, unless it did within the last 20 ms. Called between samples, never inside a timed region.
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
        let Some(device) = nvml().and_then(|n| n.device_by_uuid(uuid.as_str()).ok()) else { return };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = Some(Instant::now());
        add_reading(&mut state.1, &device);
    }

    /// The extremes so far; `None` if nothing could be read.
    #[must_use]
    pub fn report(&self) -> Option<ClockReport> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.1.readings > 0).then(|| state.1.clone())
    }
}

fn add_reading(report: &mut ClockReport, device: &Device) {
    let widen = |range: &mut Option<(u32, u32)>, value: u32| {
        let (low, high) = range.unwrap_or((value, value));
        *range = Some((low.min(value), high.max(value)));
    };
    report.source = "NVML".into();
    report.readings += 1;
    if let Ok(mhz) = device.clock_info(Clock::SM) {
        widen(&mut report.sm_mhz, mhz);
    }
    if let Ok(mhz) = device.clock_info(Clock::Memory) {
        widen(&mut report.memory_mhz, mhz);
    }
    if let Ok(milliwatts) = device.power_usage() {
        report.max_power_watts = report.max_power_watts.max(Some(milliwatts / 1000));
    }
    if let Ok(celsius) = device.temperature(TemperatureSensor::Gpu) {
        report.max_temperature_celsius = report.max_temperature_celsius.max(Some(celsius));
    }
    if let Ok(reasons) = device.current_throttle_reasons() {
        let named = [
            (ThrottleReasons::SW_POWER_CAP, "power cap"),
            (ThrottleReasons::HW_SLOWDOWN, "hardware slowdown"),
            (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "external power brake"),
            (ThrottleReasons::SW_THERMAL_SLOWDOWN, "temperature, by software"),
            (ThrottleReasons::HW_THERMAL_SLOWDOWN, "temperature, by hardware"),
            (ThrottleReasons::APPLICATIONS_CLOCKS_SETTING, "clocks set by the user"),
            (ThrottleReasons::SYNC_BOOST, "clocks kept equal with other GPUs"),
        ];
        for (reason, name) in named {
            if reasons.contains(reason) && !report.throttling.iter().any(|t| t == name) {
                report.throttling.push(name.into());
            }
        }
    }
}

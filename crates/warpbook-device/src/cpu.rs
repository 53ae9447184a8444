//! Describes the CPU as a device.

use warpbook_record::{DeviceInfo, DeviceKind};

/// Returns the description of the CPU as a device.
pub(crate) fn info() -> DeviceInfo {
    DeviceInfo {
        kind: DeviceKind::Cpu,
        index: 0,
        name: name(),
        memory_bytes: memory_bytes(),
        multiprocessors: threads(),
        compute_capability: None,
        l2_bytes: last_cache_bytes(),
        shared_bytes_per_multiprocessor: None,
        shared_bytes_per_block: None,
        registers_per_multiprocessor: None,
        max_sm_mhz: None,
        max_memory_mhz: None,
    }
}

/// Returns the number of hardware threads that this process may use.
fn threads() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX))
}

fn name() -> String {
    let from_proc = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let field = |name: &str| {
            let line = text.lines().find(|l| l.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        field("model name")
            .or_else(|| field("Hardware"))
            .or_else(|| field("CPU implementer").map(|i| format!("Arm CPU, implementer {i}")))
    });
    from_proc.or_else(|| sysctl("machdep.cpu.brand_string")).unwrap_or_else(|| "CPU".into())
}

/// Returns the bytes of host memory that a program can get without swapping out other programs, as reported by
/// Linux; `None` on other systems.
#[must_use]
pub fn free_host_memory() -> Option<u64> {
    meminfo("MemAvailable:")
}

fn meminfo(field: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|l| l.starts_with(field))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
}

fn memory_bytes() -> u64 {
    meminfo("MemTotal:").or_else(|| sysctl("hw.memsize")?.parse().ok()).unwrap_or(0)
}

/// Returns the size in bytes of the largest cache that the first core can use.
fn last_cache_bytes() -> Option<u64> {
    let sizes = std::fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?.flatten().filter_map(|index| {
        let text = std::fs::read_to_string(index.path().join("size")).ok()?;
        let text = text.trim();
        let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        let scale = match unit {
            "K" => 1 << 10,
            "M" => 1 << 20,
            _ => 1,
        };
        Some(digits.parse::<u64>().ok()? * scale)
    });
    sizes.max()
}

/// Reads a value by its name with `sysctl`; `None` on systems other than macOS.
fn sysctl(name: &str) -> Option<String> {
    if !cfg!(target_os = "macos") {
        return None;
    }
    let output = std::process::Command::new("sysctl").args(["-n", name]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

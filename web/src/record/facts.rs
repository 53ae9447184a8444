//! A record's environment as names and values, for listing and for comparing.

use super::policy;
use crate::text::format;
use warpbook_record::{Access, DeviceKind, MemoryLevel, Run};

/// A group of facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The section's heading.
    pub title: &'static str,
    /// The facts as pairs of name and value.
    pub facts: Vec<(String, String)>,
}

/// Returns everything that a record says about where and how it was made.
pub fn sections(run: &Run) -> Vec<Section> {
    let sections = [
        Section { title: "Record", facts: record(run) },
        Section { title: "Training", facts: training(run) },
        Section { title: "Device", facts: device(run) },
        Section { title: "Software", facts: software(run) },
        Section { title: "Clocks during the run", facts: clocks(run) },
        Section { title: "Measured ceilings", facts: peaks(run) },
        Section { title: "Timing", facts: timing(run) },
    ];
    sections.into_iter().filter(|s| !s.facts.is_empty()).collect()
}

type Facts = Vec<(String, String)>;

fn put(facts: &mut Facts, name: &str, value: Option<String>) {
    if let Some(value) = value {
        facts.push((name.into(), value));
    }
}

fn record(run: &Run) -> Facts {
    let mut facts = Facts::new();
    put(&mut facts, "Experiment", Some(run.experiment.clone()));
    put(&mut facts, "Run by", author(run).map(str::to_owned));
    put(&mut facts, "Begun", Some(format::date(&run.created)).filter(|d| !d.is_empty()));
    facts
}

/// Returns the facts of the first training with a logged course.
fn training(run: &Run) -> Facts {
    let mut facts = Facts::new();
    let Some((log, course)) = run.train_logs.iter().find_map(|l| Some((l, l.course.as_deref()?))) else { return facts };
    let some = |text: &str| Some(text.to_owned()).filter(|t| !t.is_empty());
    put(&mut facts, "Work", some(&log.problem.label));
    put(&mut facts, "Samples", some(&course.data));
    for (name, what) in &course.recipe {
        put(&mut facts, &format::sentence_case(name), some(what));
    }
    put(&mut facts, "Steps made", Some(course.made().to_string()));
    let skipped = Some(course.skipped_total.to_string()).filter(|_| !course.loss_scales.is_empty());
    put(&mut facts, "Skipped steps", skipped);
    let seconds = Some(course.total_s).filter(|s| s.is_finite());
    put(&mut facts, "Seconds in all", seconds.map(|s| format::significant(s, 4)));
    put(&mut facts, "Peak bytes allocated", course.peak_allocated_bytes.map(format::bytes));
    put(&mut facts, "Peak bytes reserved", course.peak_reserved_bytes.map(format::bytes));
    put(&mut facts, "Ended", some(&course.ended));
    facts
}

/// Returns the record's author, if it names one.
pub fn author(run: &Run) -> Option<&str> {
    run.author.as_deref().map(str::trim).filter(|a| !a.is_empty())
}

fn device(run: &Run) -> Facts {
    let e = &run.environment;
    let d = &e.device;
    let gpu = d.kind != DeviceKind::Cpu;
    let mhz = |v: Option<u32>| v.map(|v| format!("{v} MHz"));
    let mut facts = Facts::new();
    put(&mut facts, "Device", Some(d.name.clone()));
    put(
        &mut facts,
        "Kind",
        Some(match d.kind {
            DeviceKind::Cuda => format!("NVIDIA GPU, number {}", d.index),
            DeviceKind::Cpu => "CPU".into(),
            DeviceKind::Emulator => "Emulator of a GPU, which has no times".into(),
            _ => "A kind that this page does not know".into(),
        }),
    );
    let capability = d.compute_capability.map(|(major, minor)| format!("{major}.{minor}"));
    put(&mut facts, "Compute capability", capability.zip(d.architecture()).map(|(c, a)| format!("{c} ({a})")));
    let (units, memory) = if gpu { ("SMs", "GPU memory") } else { ("Hardware threads", "Memory") };
    put(&mut facts, units, Some(d.multiprocessors.to_string()));
    put(&mut facts, memory, Some(format::bytes(d.memory_bytes)));
    put(&mut facts, "L2", d.l2_bytes.map(format::bytes));
    put(&mut facts, "Shared memory per SM", d.shared_bytes_per_multiprocessor.map(format::bytes));
    put(&mut facts, "Shared memory per block, at most", d.shared_bytes_per_block.map(format::bytes));
    put(&mut facts, "Registers per SM", d.registers_per_multiprocessor.map(|n| n.to_string()));
    put(&mut facts, "Highest SM clock", mhz(d.max_sm_mhz));
    put(&mut facts, "Highest memory clock", mhz(d.max_memory_mhz));
    if gpu {
        put(&mut facts, "CPU", Some(format!("{}, {} threads", e.cpu, e.cpu_threads)));
    } else if e.cpu != d.name {
        put(&mut facts, "CPU", Some(e.cpu.clone()));
    }
    facts
}

fn software(run: &Run) -> Facts {
    let e = &run.environment;
    let mut facts = Facts::new();
    put(&mut facts, "Operating system", Some(e.os.clone()));
    put(&mut facts, "Driver", e.driver.clone());
    put(&mut facts, "CUDA", e.cuda.clone());
    put(&mut facts, "NVRTC", e.nvrtc.clone());
    put(&mut facts, "Warpbook", Some(e.warpbook.clone()));
    put(&mut facts, "Commit", e.commit.clone());
    let assertions = if e.debug_assertions { "On: CPU figures are lower than a release build's" } else { "Off" };
    put(&mut facts, "Debug assertions", Some(assertions.into()));
    for (name, version) in &e.libraries {
        facts.push((name.clone(), version.clone()));
    }
    facts
}

fn clocks(run: &Run) -> Facts {
    let Some(c) = &run.environment.clocks else { return Facts::new() };
    let range = |v: Option<(u32, u32)>| {
        v.map(|(low, high)| if low == high { format!("{low} MHz") } else { format!("{low} to {high} MHz") })
    };
    let mut facts = Facts::new();
    put(&mut facts, "SM clock", range(c.sm_mhz));
    put(&mut facts, "Memory clock", range(c.memory_mhz));
    put(&mut facts, "Highest power", c.max_power_watts.map(|w| format!("{w} W")));
    put(&mut facts, "Highest temperature", c.max_temperature_celsius.map(|t| format!("{t} °C")));
    let throttling = if c.throttling.is_empty() { "None seen".into() } else { c.throttling.join(", ") };
    put(&mut facts, "Throttling", Some(throttling));
    put(&mut facts, "Source", Some(format!("{}, {}", c.source, format::counted(c.readings as usize, "reading"))));
    facts
}

fn peaks(run: &Run) -> Facts {
    let held_against = |measured: f64, datasheet: Option<f64>, show: fn(f64) -> String, method: &str| {
        let mut text = show(measured);
        if let Some(sheet) = datasheet.filter(|s| *s > 0.0) {
            text.push_str(&format!(", {:.0} % of the datasheet's {}", measured / sheet * 100.0, show(sheet)));
        }
        if !method.is_empty() {
            text.push_str(&format!(" ({method})"));
        }
        text
    };
    let mut facts = Facts::new();
    for p in &run.peaks.bandwidth {
        let value = held_against(p.bytes_per_s(), p.datasheet_bytes_per_s, format::bandwidth, &p.method);
        let what = match p.access {
            _ if p.level == MemoryLevel::Link => "Copying over",
            Access::Read => "Reading from",
            Access::Copy => "Copying within",
        };
        facts.push((format!("{what} {}", p.level.label()), value));
    }
    for p in &run.peaks.compute {
        let value = held_against(p.flops_per_s(), p.datasheet_flops_per_s, format::rate, &p.method);
        facts.push((format!("Arithmetic in {}", p.dtype.label()), value));
    }
    facts
}

fn timing(run: &Run) -> Facts {
    let p = &run.policy;
    let mut facts = Facts::new();
    put(&mut facts, "Timed by", Some(policy::clock(p).into()));
    let cache = format::sentence_case(policy::cache_name(run));
    put(&mut facts, &format!("{cache} before a sample"), Some(policy::cache(p).into()));
    put(&mut facts, "Untimed repetitions", Some(p.warmup.to_string()));
    put(&mut facts, "Samples, at most", Some(p.samples.to_string()));
    put(&mut facts, "Time for a measurement", Some(policy::budget(p)));
    put(&mut facts, "Batches for regions below", Some(format!("{} µs", format::plain(p.batch_below_us))));
    put(&mut facts, "Inputs", Some(p.inputs.to_string()).filter(|i| !i.is_empty()));
    let (measured, skipped, failed) = run.counts();
    facts.push(("Measurements".into(), format!("{measured} measured, {skipped} skipped, {failed} failed")));
    facts
}

/// A fact that differs between records; a value is `None` if a record lacks the fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DifferingFact {
    /// The fact's name.
    pub name: String,
    /// The fact's value in each record.
    pub values: Vec<Option<String>>,
}

/// Returns the facts of several records, split into facts that differ and facts that agree, in order of first
/// appearance.
pub fn differences(runs: &[&Run]) -> (Vec<DifferingFact>, Vec<DifferingFact>) {
    let each: Vec<Facts> = runs.iter().map(|run| sections(run).into_iter().flat_map(|s| s.facts).collect()).collect();
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in each.iter().flatten() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let value = |facts: &Facts, name: &str| facts.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
    let all = names.iter().map(|name| DifferingFact {
        name: (*name).clone(),
        values: each.iter().map(|facts| value(facts, name)).collect(),
    });
    all.partition(|d| d.values.windows(2).any(|w| w[0] != w[1]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{sample_run, sample_run_without};

    #[test]
    fn an_environment_is_listed() {
        let run = sample_run();
        let all = sections(&run);
        let get = |name: &str| {
            all.iter().flat_map(|s| &s.facts).find(|(n, _)| n == name).map(|(_, v)| v.as_str()).unwrap_or("missing")
        };
        assert_eq!(get("Compute capability"), "9.0 (sm_90)");
        assert_eq!((get("SMs"), get("GPU memory"), get("L2")), ("132", "140 GiB", "60 MiB"));
        assert_eq!(get("SM clock"), "1980 MHz");
        assert_eq!(get("Throttling"), "power cap");
        assert_eq!(get("L2 before a sample"), "as the previous sample left it");
        assert_eq!(get("Reading from DRAM"), "4521 GB/s, 94 % of the datasheet's 4800 GB/s (sum of 4 GiB)");
        assert_eq!(get("Copying within DRAM"), "4000 GB/s (copy of 1 GB)");
        assert_eq!(get("Arithmetic in fp32"), "65.8 TFLOP/s, 98 % of the datasheet's 67.0 TFLOP/s (fma chains)");
        assert_eq!(get("Run by"), "Ada");
        let anonymous = sample_run_without("author");
        assert!(sections(&anonymous).iter().flat_map(|s| &s.facts).all(|(name, _)| name != "Run by"));
    }

    #[test]
    fn records_are_compared_fact_by_fact() {
        let one = sample_run();
        let mut two = one.clone();
        two.environment.driver = Some("575.1".into());
        two.environment.nvrtc = None;
        two.author = None;
        let (differ, same) = differences(&[&one, &two]);
        let names: Vec<_> = differ.iter().map(|d| d.name.as_str()).collect();
        assert_eq!(names, ["Run by", "Driver", "NVRTC"]);
        assert_eq!(differ[2].values, [Some("13.0".to_owned()), None]);
        assert!(["Experiment", "L2", "Begun"].iter().all(|name| same.iter().any(|d| d.name == *name)));
    }
}

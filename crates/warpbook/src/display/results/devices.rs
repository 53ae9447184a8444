use crate::display::html::{Facts, heading, note, printable, scroll, table};
use crate::display::{Show, figures};
use warpbook_charts::Table;
use warpbook_device::{Device, Inventory};
use warpbook_lab::Lab;
use warpbook_record::{Access, ClockReport, DeviceInfo, DeviceKind, Environment, MemoryLevel, Peaks};

fn capability(d: &DeviceInfo) -> Option<String> {
    d.compute_capability.map(|(major, minor)| format!("{major}.{minor}"))
}

fn version((major, minor): (u32, u32)) -> String {
    format!("{major}.{minor}")
}

fn range((low, high): (u32, u32), unit: &str) -> String {
    if low == high { format!("{low} {unit}") } else { format!("{low} to {high} {unit}") }
}

/// Describes clocks in a few words: "1980 MHz, memory 3201 MHz, 512 W, 41 °C; clocks limited by: power cap".
fn clocks(c: &ClockReport) -> String {
    let mut parts = Vec::new();
    parts.extend(c.sm_mhz.map(|r| range(r, "MHz")));
    parts.extend(c.memory_mhz.map(|r| format!("memory {}", range(r, "MHz"))));
    parts.extend(c.max_power_watts.map(|w| format!("{w} W")));
    parts.extend(c.max_temperature_celsius.map(|t| format!("{t} °C")));
    let mut text = parts.join(", ");
    if !c.throttling.is_empty() {
        text += &format!("; clocks limited by: {}", c.throttling.join(", "));
    }
    text
}

fn facts(d: &DeviceInfo) -> Facts {
    let gpu = matches!(d.kind, DeviceKind::Cuda | DeviceKind::Emulator);
    Facts::new()
        .add("chosen as", d.selector())
        .add("memory", figures::bytes(d.memory_bytes))
        .add(if gpu { "multiprocessors" } else { "threads" }, d.multiprocessors.to_string())
        .maybe("compute capability", capability(d))
        .maybe(if gpu { "L2 cache" } else { "last-level cache" }, d.l2_bytes.map(figures::bytes))
        .maybe("shared memory a multiprocessor", d.shared_bytes_per_multiprocessor.map(figures::bytes))
        .maybe("shared memory a block, at most", d.shared_bytes_per_block.map(figures::bytes))
        .maybe("registers a multiprocessor", d.registers_per_multiprocessor.map(|r| r.to_string()))
        .maybe("fastest clock", d.max_sm_mhz.map(|m| format!("{m} MHz")))
        .maybe("fastest memory clock", d.max_memory_mhz.map(|m| format!("{m} MHz")))
}

impl Show for DeviceInfo {
    fn html(&self) -> String {
        heading(&self.name) + &facts(self).html()
    }

    fn text(&self) -> String {
        format!("{}\n{}", printable(&self.name), facts(self).text())
    }
}

impl Show for Device {
    fn html(&self) -> String {
        self.info().html()
    }

    fn text(&self) -> String {
        self.info().text()
    }
}

fn lab_facts(lab: &Lab) -> Facts {
    let info = lab.device().info();
    let bench = lab.bench();
    let plural = if bench.warmup == 1 { "" } else { "s" };
    let timing =
        format!("{} warm-up{plural}, then up to {} samples within {} s", bench.warmup, bench.samples, bench.budget_s);
    let timing = if lab.is_emulated() { "none: the emulator has no times".into() } else { timing };
    Facts::new()
        .add("device", format!("{} ({})", info.name, info.selector()))
        .maybe("compute capability", capability(info))
        .add("memory", figures::bytes(info.memory_bytes))
        .add("timing", timing)
}

/// Returns a note on each kind of figure that this lab cannot provide.
fn lab_notes(lab: &Lab) -> Vec<String> {
    let mut notes = Vec::new();
    if lab.device().cuda().is_none() {
        notes.push("This lab runs on the CPU: the GPU's rungs will be listed as skipped.".to_owned());
    }
    if cfg!(debug_assertions) {
        notes.push("Debug assertions are on: CPU figures are lower than a release build's.".into());
    }
    notes
}

impl Show for Lab {
    fn html(&self) -> String {
        let notes: String = lab_notes(self).iter().map(|n| note(n)).collect();
        format!("{}{}{notes}", heading("Lab"), lab_facts(self).html())
    }

    fn text(&self) -> String {
        [vec!["Lab".to_owned(), lab_facts(self).text()], lab_notes(self)].concat().join("\n")
    }
}

fn inventory_table(i: &Inventory) -> Table {
    let rows = i.devices.iter().enumerate().map(|(n, d)| {
        let now = i.clocks.get(n).and_then(Option::as_ref).map(clocks).unwrap_or_default();
        let fastest = d.max_sm_mhz.map(|m| format!("up to {m} MHz"));
        let clock = if now.is_empty() { fastest.unwrap_or_default() } else { now };
        [
            d.selector(),
            d.name.clone(),
            figures::bytes(d.memory_bytes),
            d.multiprocessors.to_string(),
            capability(d).unwrap_or_default(),
            clock,
        ]
    });
    table(["device", "name", "memory", "SMs or threads", "compute capability", "clocks"], rows.collect())
}

fn inventory_facts(i: &Inventory) -> Facts {
    Facts::new()
        .maybe("driver", i.driver.clone())
        .maybe("CUDA of the driver", i.cuda.as_ref().ok().copied().map(version))
        .maybe("NVRTC", i.nvrtc.as_ref().ok().map(|n| format!("{} ({})", version(n.version()), n.path().display())))
}

/// Returns notes on missing software or hardware, each with a remedy.
fn inventory_notes(i: &Inventory) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    notes.extend(i.cuda.as_ref().err().map(ToString::to_string));
    notes.extend(i.nvrtc.as_ref().err().map(ToString::to_string));
    if i.cuda.is_ok() && i.gpus().next().is_none() {
        notes.push("The driver shows no GPU. Check CUDA_VISIBLE_DEVICES and nvidia-smi.".into());
    }
    notes
}

impl Show for Inventory {
    fn html(&self) -> String {
        let notes: String = inventory_notes(self).iter().map(|n| note(n)).collect();
        scroll(&inventory_table(self)) + &inventory_facts(self).html() + &notes
    }

    fn text(&self) -> String {
        let mut parts = vec![inventory_table(self).text(), inventory_facts(self).text()];
        parts.extend(inventory_notes(self));
        parts.retain(|p| !p.is_empty());
        parts.join("\n\n")
    }
}

fn environment_facts(e: &Environment) -> Facts {
    let built = match (&e.commit, e.debug_assertions) {
        (Some(c), true) => format!("{} ({c}), with debug assertions", e.warpbook),
        (Some(c), false) => format!("{} ({c})", e.warpbook),
        (None, true) => format!("{}, with debug assertions", e.warpbook),
        (None, false) => e.warpbook.clone(),
    };
    let libraries: Vec<String> = e.libraries.iter().map(|(name, v)| format!("{name} {v}")).collect();
    Facts::new()
        .add("device", e.device.name.clone())
        .maybe("compute capability", capability(&e.device))
        .add("memory", figures::bytes(e.device.memory_bytes))
        .maybe("driver", e.driver.clone())
        .maybe("CUDA of the driver", e.cuda.clone())
        .maybe("NVRTC", e.nvrtc.clone())
        .maybe("clocks", e.clocks.as_ref().map(|c| format!("{} (from {})", clocks(c), c.source)))
        .add("CPU", format!("{}, {} threads", e.cpu, e.cpu_threads))
        .add("system", e.os.clone())
        .add("Warpbook", built)
        .maybe("other frameworks", Some(libraries.join(", ")).filter(|l| !l.is_empty()))
}

impl Show for Environment {
    fn html(&self) -> String {
        environment_facts(self).html()
    }

    fn text(&self) -> String {
        environment_facts(self).text()
    }
}

fn peaks_table(p: &Peaks) -> Table {
    let of_datasheet = |measured: f64, sheet: Option<f64>, rate: fn(f64) -> String| {
        sheet.map_or_else(String::new, |s| format!("{} ({} reached)", rate(s), figures::percent(measured / s)))
    };
    let tera = |v: f64| format!("{} TFLOP/s", figures::number(v / 1e12));
    let bandwidths = p.bandwidth.iter().map(|b| {
        let v = b.bytes_per_s();
        let sheet = of_datasheet(v, b.datasheet_bytes_per_s, figures::bandwidth);
        let what = match (b.level, b.access) {
            (MemoryLevel::Link, _) => "copies over",
            (_, Access::Copy) => "copies within",
            (_, Access::Read) => "reads from",
        };
        [format!("{what} {}", b.level.label()), figures::bandwidth(v), sheet, b.method.clone()]
    });
    let rates = p.compute.iter().map(|c| {
        let v = c.flops_per_s();
        let name = format!("{:?} arithmetic", c.dtype).to_lowercase();
        [name, tera(v), of_datasheet(v, c.datasheet_flops_per_s, tera), c.method.clone()]
    });
    let links = p.links.iter().filter_map(|l| {
        let (point, rate) = l.best()?;
        let size = figures::bytes(point.bytes);
        Some([
            l.transfer.label().into(),
            figures::bandwidth(rate),
            String::new(),
            format!("{}, best at {size}", figures::versions(&l.method)),
        ])
    });
    table(["ceiling", "measured", "datasheet", "how"], bandwidths.chain(rates).chain(links).collect())
}

impl Show for Peaks {
    fn html(&self) -> String {
        scroll(&peaks_table(self))
    }

    fn text(&self) -> String {
        peaks_table(self).text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::display::results::runs::tests::sample_run;
    use warpbook_device::Choice;
    use warpbook_record::BandwidthPeak;

    #[test]
    fn an_inventory_lists_the_cpu_and_every_remedy() {
        let mut inventory = Inventory::take();
        inventory.cuda = Err(warpbook_device::Error::NoDriver);
        let which = warpbook_device::Library::Nvrtc;
        inventory.nvrtc = Err(warpbook_device::Error::Library { which, driver_cuda: None, fault: None });
        for form in [inventory.text(), inventory.html()] {
            assert!(form.contains("cpu") && form.contains("Install the NVIDIA driver"), "{form}");
            assert!(form.contains("pip install nvidia-cuda-nvrtc"), "{form}");
        }
    }

    #[test]
    fn a_lab_says_that_it_runs_on_the_cpu() {
        let lab = Lab::on(Choice::Cpu).unwrap();
        assert!(lab.text().contains("GPU's rungs will be listed as skipped"), "{}", lab.text());
        assert_eq!(lab.html().contains("Debug assertions"), cfg!(debug_assertions));
        assert!(lab.device().text().contains("threads"));
    }

    #[test]
    fn a_hostile_device_stays_text() {
        let mut e = sample_run().environment;
        e.device.name = "<img src=x>\u{1b}[31m".into();
        e.libraries = vec![("<a>".into(), "1".into())];
        assert!(!e.html().contains("<img") && !e.html().contains("<a>"), "{}", e.html());
        assert!(!e.text().contains('\u{1b}') && !e.device.text().contains('\u{1b}'));
        assert!(!e.device.html().contains("<img"));
    }

    #[test]
    fn ceilings_are_shown_with_the_datasheet_s() {
        let peaks = Peaks {
            bandwidth: vec![BandwidthPeak {
                access: Default::default(),
                level: MemoryLevel::Dram,
                method: "plain <read>".into(),
                bytes: 4_000_000,
                samples_us: vec![1.0],
                datasheet_bytes_per_s: Some(5e12),
            }],
            ..Peaks::default()
        };
        assert!(peaks.text().contains("4000 GB/s") && peaks.text().contains("80 % reached"), "{}", peaks.text());
        assert!(peaks.html().contains("plain &lt;read&gt;"));
    }
}

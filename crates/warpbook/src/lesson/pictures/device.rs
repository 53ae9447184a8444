//! Picture of a GPU: its SMs and their threads, and its levels of memory.

use super::{BLUE, GREEN, GREY, VERMILLION, WARP, counted};
use crate::figures;
use crate::lesson::counted::memories;
use crate::lesson::guide::published;
use crate::prelude::*;
use warpbook_charts::ChartError;
use warpbook_charts::diagram::{Diagram, Matrix, Sign};
use warpbook_record::{DeviceInfo, DeviceKind};

/// Name of the record with the memory latencies.
const WALKS: &str = "guide-memory-latency";
/// Width of a level of memory in CSS pixels.
const LEVEL: f64 = 470.0;
/// Number of SMs in the picture of memory, which does not draw all of them.
const SHOWN: usize = 4;

/// Returns the GPU to draw: this device, or the H200 of the published record if this device is not a GPU, with a sentence that says so.
fn gpu_of(device: &DeviceInfo) -> Option<(DeviceInfo, String)> {
    if device.kind == DeviceKind::Cuda {
        return Some((device.clone(), String::new()));
    }
    let record = published(WALKS)?.environment.device;
    let note = format!("There is no GPU in this lab: these are the figures of an {}.", record.name);
    Some((record, note))
}

/// Returns the maximum number of resident threads per SM, as CUDA's programming guide lists it by compute capability.
fn threads_of_an_sm(device: &DeviceInfo) -> usize {
    match device.compute_capability {
        Some((7, 5)) => 1024,
        Some((8, 6 | 7 | 9) | (12, _)) => 1536,
        _ => 2048,
    }
}

/// Draws a GPU with its SMs, an SM with its warps and a warp with its threads, and below it a launch of `blocks` blocks of `threads` threads. The GPU is this
/// device; without a GPU it is the GPU of the published record, and the picture says so.
///
/// # Errors
/// [`ChartError::NothingToDraw`] if a launch has no blocks or no threads, or if there is neither a GPU nor a published record.
pub fn who_is_there(device: &DeviceInfo, blocks: usize, threads: usize) -> std::result::Result<Chart, ChartError> {
    let Some((gpu, note)) = gpu_of(device) else {
        return Err(ChartError::NothingToDraw("There is no GPU here, and no published record of one.".into()));
    };
    if blocks == 0 || threads == 0 {
        return Err(ChartError::NothingToDraw("A launch needs at least one block of at least one thread.".into()));
    }
    let (sms, per_sm) = (gpu.multiprocessors as usize, threads_of_an_sm(&gpu));
    let warps_of_an_sm = per_sm / WARP;
    let columns = if sms > 48 { 22 } else { 12 };
    let rows = sms.div_ceil(columns);
    let missing = rows * columns - sms;
    let mut all_sms = Matrix::new(&format!("a GPU: {}", counted(sms, "SM")), rows, columns)
        .cell(11.0, 11.0)
        .tint(0..rows, 0..columns, GREY, "SM, streaming multiprocessor")
        .shade(0..1, 0..1, BLUE, "");
    if missing > 0 {
        all_sms = all_sms.caption(&format!("the last {missing} squares are not there"));
    }
    let warps = threads.div_ceil(WARP);
    let lanes = |name: &str, shown: usize| {
        Matrix::new(name, 1, WARP).cell(5.0, 16.0).shade(0..1, 0..shown, GREEN, "thread").frame(0..1, 0..1)
    };
    let shown_blocks = blocks.min(48);
    let more = |all: usize, shown: usize| if all > shown { format!("{shown} of them drawn") } else { String::new() };
    let total = blocks * threads;
    Diagram::new("A GPU holds SMs, an SM holds warps, a warp holds 32 threads")
        .subtitle(&gpu.name)
        .describe(&format!(
            "{} has {sms} SMs; each holds up to {per_sm} threads, which are {warps_of_an_sm} warps of {WARP}. The launch has {} of {}, \
             so {} in a block and {total} threads in all.",
            gpu.name,
            counted(blocks, "block"),
            counted(threads, "thread"),
            counted(warps, "warp"),
        ))
        .note(&note)
        .row("What the GPU has")
        .put(all_sms)
        .put(Sign::arrow("one of them"))
        .put(
            Matrix::new(&format!("an SM: up to {warps_of_an_sm} warps"), 4, warps_of_an_sm.div_ceil(4))
                .cell(9.0, 14.0)
                .tint(0..4, 0..warps_of_an_sm, VERMILLION, "warp, 32 threads that step together")
                .shade(0..1, 0..1, VERMILLION, ""),
        )
        .put(Sign::arrow("one of them"))
        .put(lanes("a warp: 32 threads", WARP))
        .row(&format!("What you launch: kernel<<<{blocks}, {threads}>>>"))
        .put(
            Matrix::new(&format!("a grid: {}", counted(blocks, "block")), shown_blocks.div_ceil(16), shown_blocks.min(16))
                .cell(13.0, 13.0)
                .fill("block, runs on one SM", |row, column| (row * 16 + column < shown_blocks).then_some(BLUE))
                .caption(&more(blocks, shown_blocks)),
        )
        .put(Sign::arrow("one of them"))
        .put(
            Matrix::new(&format!("a block: {}", counted(threads, "thread")), warps.min(32), 1)
                .cell(90.0, 12.0)
                .shade(0..warps.min(32), 0..1, VERMILLION, "")
                .caption(&counted(warps, "warp")),
        )
        .put(Sign::arrow("one of them"))
        .put(lanes(
            &match threads % WARP {
                0 => "a warp: 32 threads".to_owned(),
                used => format!("its last warp: {used} of 32 lanes used"),
            },
            if threads.is_multiple_of(WARP) { WARP } else { threads % WARP },
        ))
        .table(["what", "how many"])
        .figures(["SMs of the GPU".to_owned(), sms.to_string()])
        .figures(["threads that an SM holds at most".to_owned(), per_sm.to_string()])
        .figures(["blocks of the launch".to_owned(), blocks.to_string()])
        .figures(["threads of a block".to_owned(), threads.to_string()])
        .figures(["warps of a block".to_owned(), warps.to_string()])
        .figures(["threads of the launch".to_owned(), total.to_string()])
        .draw()
}

/// Draws the levels of a GPU's memory with their sizes, what shares each level, and how long a load from it takes. The GPU is this device; without a GPU it is
/// the GPU of the published record. The latencies come from the published record, and are left out for GPUs with another name.
///
/// # Errors
/// [`ChartError::NothingToDraw`] if there is neither a GPU nor a published record.
pub fn memory_levels(device: &DeviceInfo) -> std::result::Result<Chart, ChartError> {
    let Some((gpu, note)) = gpu_of(device) else {
        return Err(ChartError::NothingToDraw("There is no GPU here, and no published record of one.".into()));
    };
    let walks = published(WALKS).filter(|run| run.environment.device.name == gpu.name);
    let ns = |level: &str| {
        let found = walks.as_ref().map(|run| memories(run, &gpu))?;
        found.iter().find(|(name, _)| *name == level).map(|(_, ns)| *ns).filter(|ns| ns.is_finite())
    };
    let sms = u64::from(gpu.multiprocessors);
    let size = |bytes: Option<u64>| bytes.map_or("size not known".to_owned(), figures::bytes);
    let registers = gpu.registers_per_multiprocessor.map(|count| 4 * count);
    let shared = gpu.shared_bytes_per_multiprocessor;
    let levels = [
        ("registers", size(registers), "a thread has its own", None),
        ("shared memory, L1", size(shared), "a block shares it", ns("shared memory")),
        ("L2", size(gpu.l2_bytes), "all SMs share it", ns("L2")),
        ("DRAM", size(Some(gpu.memory_bytes)), "all SMs share it, and the host copies to it", ns("DRAM")),
    ];
    let after = |ns: Option<f64>| ns.map_or(String::new(), |ns| format!(" · {ns:.0} ns"));
    let mut diagram = Diagram::new("The levels of memory: the nearer, the smaller")
        .subtitle(&format!("{}, {} of its {sms} SMs drawn", gpu.name, SHOWN))
        .describe(&format!(
            "{}: registers {} an SM, shared memory and L1 {} an SM, L2 {} for all, DRAM {} for all.",
            gpu.name, levels[0].1, levels[1].1, levels[2].1, levels[3].1
        ))
        .note(&note)
        .note(if walks.is_some() {
            "Nanoseconds: one load from there, nothing else in flight (lesson 43 measures it)."
        } else {
            ""
        })
        .table(["level", "size", "who has it", "latency (ns)"]);
    for (level, (name, size, who, ns)) in levels.into_iter().enumerate() {
        let of_an_sm = level < 2;
        let boxes = if of_an_sm { SHOWN } else { 1 };
        let text = if of_an_sm { size.clone() } else { format!("{size}{}", after(ns)) };
        let heading =
            if of_an_sm { format!("{name}: {who}, an SM has {size}{}", after(ns)) } else { format!("{name}: {who}") };
        diagram = diagram
            .row(&heading)
            .put(
                Matrix::new("", 1, boxes)
                    .cell(LEVEL / boxes as f64, 26.0)
                    .shade(0..1, 0..boxes, [GREEN, BLUE, VERMILLION, GREY][level], "")
                    .write(|_, column| if of_an_sm { format!("SM {column}: {text}") } else { text.clone() }),
            )
            .figures([name.to_owned(), size, who.to_owned(), ns.map_or(String::new(), |ns| format!("{ns:.1}"))]);
    }
    diagram.draw()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu() -> DeviceInfo {
        published(WALKS).unwrap().environment.device
    }

    #[test]
    fn a_gpu_is_drawn_with_its_own_figures() {
        let chart = who_is_there(&gpu(), 4, 256).unwrap();
        assert!(
            chart.description.contains("132 SMs") && chart.description.contains("8 warps in a block"),
            "{}",
            chart.description
        );
        assert_eq!(chart.table.rows[5], ["threads of the launch", "1024"]);
        assert!(!chart.svg.to_string().contains("no GPU in this lab"));
        let small = DeviceInfo { multiprocessors: 40, compute_capability: Some((7, 5)), ..gpu() };
        assert!(who_is_there(&small, 1, 27).unwrap().description.contains("up to 1024 threads"));
    }

    #[test]
    fn without_a_gpu_the_published_one_is_drawn_and_named() {
        let cpu = DeviceInfo { kind: DeviceKind::Cpu, ..gpu() };
        assert!(who_is_there(&cpu, 1, 32).unwrap().svg.to_string().contains("no GPU in this lab"));
        assert!(who_is_there(&cpu, 0, 32).unwrap_err().to_string().contains("at least one block"));
    }

    #[test]
    fn levels_of_memory_have_sizes_and_the_latencies_of_that_gpu_only() {
        let chart = memory_levels(&gpu()).unwrap();
        assert_eq!(chart.table.rows.len(), 4);
        let ns: f64 = chart.table.rows[3][3].parse().unwrap();
        assert!((100.0..2000.0).contains(&ns), "{ns}");
        let other = DeviceInfo { name: "Another".into(), ..gpu() };
        assert_eq!(memory_levels(&other).unwrap().table.rows[3][3], "");
    }
}

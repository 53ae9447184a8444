//! Converts marks into a record's X-ray.

use super::keep::{Kept, Limits, keep};
use std::collections::BTreeMap;
use warpbook_device::{KernelMarks, Marks, UnmarkedKernel, WarpMarks};
use warpbook_kernels::xray::Marks as Names;
use warpbook_record::xray::phase;
use warpbook_record::{Problem, Xray, XrayBlock, XrayKernel, XraySm, XrayWarp};

/// The contents of an X-ray apart from the marks.
pub(super) struct Taken {
    pub(super) rung: String,
    pub(super) problem: Problem,
    pub(super) marked_us: Vec<f64>,
    pub(super) unmarked_us: Vec<f64>,
}

/// Returns the X-ray of a run, with notes for readers.
///
/// # Errors
/// If there are no marks, or the clock of an SM was not compared.
pub(super) fn assemble(marks: &Marks, taken: Taken, limits: &Limits) -> Result<(Xray, Vec<String>), String> {
    let phases = phases(&marks.kernels);
    let begin_ns =
        begin(marks)?.ok_or("The kernels were launched and marked nothing: their marks lie where no warp passes.")?;
    let mut all: Vec<XrayBlock> = Vec::new();
    for (place, kernel) in marks.kernels.iter().enumerate() {
        let mut blocks: BTreeMap<u64, XrayBlock> = BTreeMap::new();
        for (block, warp, marked) in &kernel.marks {
            let timed = |clock: u64| {
                let ns = marks.clocks.ns(marked.sm, clock).unwrap_or(begin_ns) - begin_ns;
                ns.max(0.0).round() as u64
            };
            let warp_phases = warp_of(*warp, marked, &kernel.phases, &phases, timed);
            let end_ns = warp_phases.start_ns + warp_phases.phases.iter().map(|(_, ns)| ns).sum::<u64>();
            let entry = blocks.entry(*block).or_insert_with(|| XrayBlock {
                kernel: place as u64,
                block: *block,
                sm: u64::from(marked.sm),
                start_ns: warp_phases.start_ns,
                end_ns,
                warps: Vec::new(),
            });
            entry.start_ns = entry.start_ns.min(warp_phases.start_ns);
            entry.end_ns = entry.end_ns.max(end_ns);
            // A warp that only begins and ends does no work. In a group of producer warps, three of the four do this.
            if warp_phases.phases.len() > 1 {
                entry.warps.push(warp_phases);
            }
        }
        all.extend(blocks.into_values());
    }
    all.sort_by_key(|b| (b.start_ns, b.kernel, b.block));
    let recorded = all.len() as u64;
    let Kept { blocks, notes } = keep(all, &phases, limits);
    let xray = Xray {
        rung: taken.rung,
        problem: taken.problem,
        kernels: marks.kernels.iter().map(kernel_of).collect(),
        unmarked_kernels: unmarked(marks),
        sms: marks
            .clocks
            .sms()
            .map(|sm| XraySm { sm: u64::from(sm), error_ns: marks.clocks.error_ns(sm).unwrap_or(f64::NAN) })
            .collect(),
        blocks,
        clock_mhz: marks.clocks.mhz(),
        marked_us: taken.marked_us,
        unmarked_us: taken.unmarked_us,
        phases,
    };
    let launched: u64 = xray.kernels.iter().map(|k| k.blocks).sum();
    let mut said = Vec::new();
    if recorded < launched {
        said.push(format!("The memory set aside for marks had room for {recorded} of {launched} blocks."));
    }
    said.extend(notes);
    said.push("Only the last launch of each kernel is shown.".into());
    Ok((xray, said))
}

/// Returns the time of the first mark. The error names an SM whose clock was not compared.
fn begin(marks: &Marks) -> Result<Option<f64>, String> {
    let mut begin: Option<f64> = None;
    for (.., warp) in marks.kernels.iter().flat_map(|k| &k.marks) {
        let Some((_, clock)) = warp.marks.first() else { continue };
        let ns = marks.clocks.ns(warp.sm, *clock);
        let ns = ns.ok_or_else(|| format!("The clock of SM {} could not be compared with the others.", warp.sm))?;
        begin = Some(begin.map_or(ns, |b| b.min(ns)));
    }
    Ok(begin)
}

/// Returns the phases of all kernels without duplicates and without the end mark. The name for dropped marks comes
/// last.
fn phases(kernels: &[KernelMarks]) -> Vec<String> {
    let mut all: Vec<String> = vec![phase::START.into()];
    for name in kernels.iter().flat_map(|k| k.phases.iter().skip(Names::END + 1)) {
        if !all.contains(name) {
            all.push(name.clone());
        }
    }
    all.push(phase::NOT_KEPT.into());
    all
}

/// Returns the names of kernels without marks, with their files if names repeat.
fn unmarked(marks: &Marks) -> Vec<String> {
    let all = || marks.unmarked.iter().map(|k| &k.entry).chain(marks.kernels.iter().map(|k| &k.entry));
    let name = |k: &UnmarkedKernel| match all().filter(|entry| **entry == k.entry).count() {
        1 => k.entry.clone(),
        _ => format!("{} ({})", k.entry, k.file),
    };
    marks.unmarked.iter().map(name).collect()
}

fn kernel_of(k: &KernelMarks) -> XrayKernel {
    XrayKernel { entry: k.entry.clone(), file: k.file.clone(), tile: k.tile.clone(), blocks: k.blocks, warps: k.warps }
}

/// Converts a warp's marks into phases with durations; each phase lasts until the next mark.
fn warp_of(warp: u64, marked: &WarpMarks, own: &[String], all: &[String], ns: impl Fn(u64) -> u64) -> XrayWarp {
    let times: Vec<u64> = marked.marks.iter().map(|(_, clock)| ns(*clock)).collect();
    let not_kept = all.len() as u64 - 1;
    let place = |p: u8| {
        let name = own.get(usize::from(p));
        name.and_then(|n| all.iter().position(|a| a == n)).map_or(not_kept, |at| at as u64)
    };
    let mut phases = Vec::new();
    for (i, pair) in times.windows(2).enumerate() {
        let hidden = marked.gaps.contains(&(i + 1));
        let (mark, _) = marked.marks[i];
        phases.push((if hidden { not_kept } else { place(mark) }, pair[1].saturating_sub(pair[0])));
    }
    XrayWarp { warp, start_ns: times.first().copied().unwrap_or(0), phases, stands_for: 1 }
}

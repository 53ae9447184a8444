use super::assemble::{Taken, assemble};
use super::keep::{Limits, keep};
use crate::sample::{Sample, problem};
use crate::{Experiment, Lab};
use proptest::prelude::*;
use warpbook_record::xray::phase;
use warpbook_record::{Xray, XrayBlock, XrayWarp};

fn names() -> Vec<String> {
    [phase::START, phase::LOAD, phase::WAIT, phase::MULTIPLY, phase::NOT_KEPT].map(str::to_owned).into()
}

fn total(w: &XrayWarp) -> u64 {
    w.phases.iter().map(|(_, ns)| ns).sum()
}

/// Returns blocks in waves over the SMs, whose last warp has a different role; phases last a few microseconds, like the
/// phases of an epoch.
fn blocks(sms: u64, per_sm: u64, warps: u64, marks: usize) -> Vec<XrayBlock> {
    let warp = |warp: u64, start_ns: u64| XrayWarp {
        warp,
        start_ns,
        stands_for: 1,
        phases: (0..marks)
            .map(|i| (if warp + 1 == warps { 1 } else { 2 + (i % 2) as u64 }, 3003 + (i % 5) as u64))
            .collect(),
    };
    let block = |b: u64| {
        let start_ns = b / sms * 5_000_000;
        let warps: Vec<XrayWarp> = (0..warps).map(|w| warp(w, start_ns)).collect();
        let end_ns = warps.iter().map(|w| w.start_ns + total(w)).max().unwrap();
        XrayBlock { kernel: 0, block: b, sm: b % sms, start_ns, end_ns, warps }
    };
    (0..sms * per_sm).map(block).collect()
}

fn phases_of(blocks: &[XrayBlock]) -> usize {
    blocks.iter().flat_map(|b| &b.warps).map(|w| w.phases.len()).sum()
}

/// Returns the bytes that an X-ray adds to a record's file.
fn bytes_of(blocks: Vec<XrayBlock>) -> usize {
    let lab = Lab::open("cpu").unwrap();
    let mut run = crate::driver::empty(&lab, &Sample.plan(None).unwrap());
    let before = run.to_json().unwrap().len();
    run.xrays.push(Xray {
        rung: "05_persistent".into(),
        problem: problem(),
        phases: names(),
        kernels: Vec::new(),
        unmarked_kernels: Vec::new(),
        sms: Vec::new(),
        blocks,
        clock_mhz: 1980.0,
        marked_us: Vec::new(),
        unmarked_us: Vec::new(),
    });
    run.to_json().unwrap().len() - before
}

proptest! {
    #[test]
    fn what_is_left_out_keeps_every_begin_and_end(
        sms in 1..140u64,
        per_sm in 1..12u64,
        warps in 1..9u64,
        marks in 2..900usize,
    ) {
        let all = blocks(sms, per_sm, warps, marks);
        let kept = keep(all.clone(), &names(), &Limits::default());
        prop_assert_eq!(kept.blocks.len(), all.len());
        for (after, before) in kept.blocks.iter().zip(&all) {
            prop_assert_eq!((after.block, after.sm, after.start_ns, after.end_ns), (before.block, before.sm, before.start_ns, before.end_ns));
            for w in &after.warps {
                let original = before.warps.iter().find(|b| b.warp == w.warp).unwrap();
                prop_assert_eq!((w.start_ns, total(w)), (original.start_ns, total(original)), "a warp takes as long as before");
            }
        }
        let phases = phases_of(&kept.blocks);
        prop_assert!(phases <= 160_000, "{phases}");
        for (after, before) in kept.blocks.iter().zip(&all).filter(|(b, _)| !b.warps.is_empty()) {
            let stood_for: u64 = after.warps.iter().map(|w| w.stands_for).sum();
            prop_assert_eq!(stood_for, before.warps.len() as u64, "each warp is kept or stood for");
        }
        // All warps of SM 0 are kept.
        prop_assert_eq!(kept.blocks[0].warps.len() as u64, warps);
        let left_out = kept.blocks.iter().map(|b| b.warps.len()).sum::<usize>() < (sms * per_sm * warps) as usize;
        prop_assert!(kept.notes.iter().any(|n| n.contains("warps were kept")) == left_out, "{:?}", kept.notes);
    }

    #[test]
    fn a_record_s_file_grows_by_what_it_may(
        sms in 1..140u64,
        per_sm in 1..12u64,
        warps in 1..33u64,
        marks in 2..900usize,
        kib in 40..600usize,
    ) {
        let all = blocks(sms, per_sm, warps, marks);
        let kept = keep(all.clone(), &names(), &Limits::of_bytes(kib << 10));
        prop_assert!(!kept.blocks.is_empty() && phases_of(&kept.blocks) > 0);
        // The X-ray itself takes a few hundred bytes in addition.
        let bytes = bytes_of(kept.blocks);
        prop_assert!(bytes <= (kib << 10) * 11 / 10 + 1000, "{bytes} bytes of {kib} KiB");
    }
}

#[test]
fn the_sms_of_which_all_is_kept_have_the_most_room() {
    // A persistent kernel with 200 epochs on an H200 has this many marks, more than a published record can take.
    let all = blocks(132, 1, 16, 800);
    let kept = keep(all.clone(), &names(), &Limits::of_bytes(400 << 10));
    let most = |is_counted: &dyn Fn(&XrayBlock) -> bool| {
        let warps = kept.blocks.iter().filter(|b| is_counted(b)).flat_map(|b| &b.warps);
        warps.map(|w| w.phases.len()).max().unwrap()
    };
    let has_all = |b: &XrayBlock| b.warps.len() == 16;
    // The lowest SM is also the first to finish.
    assert_eq!(kept.blocks.iter().filter(|b| has_all(b)).count(), 3);
    assert!(most(&has_all) > 300 && (16..200).contains(&most(&|b| !has_all(b))), "{:?}", kept.notes);
    assert_eq!(kept.notes.iter().filter(|n| n.contains("first and last")).count(), 2, "{:?}", kept.notes);
    // By default, blocks are kept unchanged if they fit.
    let few = blocks(132, 1, 16, 100);
    let [within, whole] = [Limits::of_bytes(400 << 10), Limits::default()].map(|l| keep(few.clone(), &names(), &l));
    assert_eq!((within.blocks, within.notes), (whole.blocks, whole.notes));
}

#[test]
fn a_run_without_marks_is_an_error_in_words() {
    let problem = problem();
    let taken =
        || Taken { rung: "02_fused".into(), problem: problem.clone(), marked_us: Vec::new(), unmarked_us: Vec::new() };
    let marks = warpbook_device::testing::marks(Vec::new(), &[(0, 0.0, 0.0)]);
    assert!(assemble(&marks, taken(), &Limits::default()).unwrap_err().contains("marked nothing"));
}

#[test]
fn marks_become_phases_on_one_scale() {
    use warpbook_device::{KernelMarks, UnmarkedKernel, WarpMarks};
    let problem = problem();
    let taken = Taken { rung: "02_fused".into(), problem, marked_us: vec![12.0], unmarked_us: vec![10.0] };
    // SM 1's clock is 1000 ticks ahead; two ticks are one nanosecond.
    let warp = |sm, marks: &[(u8, u64)], gaps: &[usize]| WarpMarks { sm, marks: marks.to_vec(), gaps: gaps.to_vec() };
    let phases = ["start", "end", "load", "compute"].map(str::to_owned).to_vec();
    let kernel = KernelMarks {
        entry: "pass".into(),
        file: "regression/02_fused.cu".into(),
        tile: "t".into(),
        phases,
        blocks: 3,
        warps: 2,
        marks: vec![
            (0, 0, warp(0, &[(0, 500), (2, 520), (3, 600), (1, 700)], &[])),
            (0, 1, warp(0, &[(0, 500), (1, 800)], &[])),
            (1, 0, warp(1, &[(0, 1510), (2, 1530), (2, 1930), (1, 1990)], &[2])),
        ],
    };
    let mut marks = warpbook_device::testing::marks(vec![kernel], &[(0, 0.0, 0.0), (1, 1000.0, 80.0)]);
    let unmarked = |entry: &str, file: &str| UnmarkedKernel { entry: entry.into(), file: file.into() };
    marks.unmarked = vec![unmarked("forward", "nn/relu.cu"), unmarked("adam", "nn/adam.cu")];
    marks.unmarked.push(unmarked("forward", "nn/dropout.cu"));
    let (x, notes) = assemble(&marks, taken, &Limits::default()).unwrap();
    assert_eq!(x.unmarked_kernels, ["forward (nn/relu.cu)", "adam", "forward (nn/dropout.cu)"]);
    let said = x.unmarked_in_words().unwrap();
    assert!(said.starts_with("3 kernels of the run have no marks") && said.contains(", adam and forward"), "{said}");
    assert_eq!(x.phases, ["start", "load", "compute", "not kept"]);
    let blocks: Vec<_> = x.blocks.iter().map(|b| (b.block, b.sm, b.start_ns, b.end_ns, b.warps.len())).collect();
    assert_eq!(blocks, [(0, 0, 0, 150, 1), (1, 1, 5, 245, 1)], "the idle warp counts for the block's end");
    assert_eq!(x.blocks[0].warps[0].phases, [(0, 10), (1, 40), (2, 50)]);
    assert_eq!(x.blocks[1].warps[0].phases, [(0, 10), (3, 200), (1, 30)], "over a gap nothing is known");
    assert_eq!((x.sms[1].error_ns, x.clock_mhz, x.perturbation()), (40.0, 2000.0, Some(1.2)));
    assert!(notes.iter().any(|n| n.contains("room for 2 of 3 blocks")), "{notes:?}");
}

#[test]
fn the_command_repeats_an_x_ray() {
    let plan = Sample.plan(None).unwrap();
    let text = super::command(&plan.name, &plan.command_on("cuda:0"), "05_persistent");
    assert!(text.starts_with("warpbook xray sample --rung 05_persistent --points 1000"), "{text}");
}

//! Tests of the guide's pairs: every half gives the right result, on the CPU and on a GPU, and the record states the pair's ratio and reason.

use std::collections::BTreeSet;
use warpbook::Pair;
use warpbook::device::testing;
use warpbook::prelude::*;
use warpbook::settings::Configurable;

fn quick(pair: &Pair) -> Guide {
    Guide::pair(pair.name).unwrap().quick()
}

fn lab(choice: Choice) -> Lab {
    Lab::on(choice).unwrap().with_bench(Bench { samples: 3, budget_s: 0.05, ..Bench::quick() })
}

#[test]
fn every_half_of_the_cpu_is_right() {
    let lab = lab(Choice::Cpu);
    for pair in PAIRS {
        let run = lab.run(&quick(pair)).unwrap();
        let (measured, skipped, failed) = run.counts();
        assert!(measured > 0 && skipped > 0 && failed == 0, "{pair:?}: {measured} {skipped} {failed}");
        assert!(run.measurements.iter().filter(|m| m.is_valid()).all(|m| m.rung.starts_with("cpu_")));
        let halves = run.rungs.iter().filter(|r| r.is_cpu()).count();
        let notes = run.notes.iter().filter(|n| n.contains(pair.reason)).count();
        assert_eq!(notes, usize::from(halves > 1), "{pair:?} says its ratio: {:?}", run.notes);
    }
}

#[test]
fn every_half_of_the_gpu_is_right() {
    if testing::gpu("every_half_of_the_gpu_is_right").is_none() {
        return;
    }
    let lab = lab(Choice::Best);
    for pair in PAIRS {
        let run = lab.run(&quick(pair)).unwrap();
        let (_, skipped, failed) = run.counts();
        let why: Vec<_> = run.measurements.iter().filter(|m| !m.is_valid()).map(|m| (&m.rung, &m.outcome)).collect();
        // One half of memory-latency supports only the smaller sizes, and an older GPU has neither tf32 nor bf16.
        let lacks = |m: &warpbook::record::Measurement| {
            let rung = run.rung(&m.rung).unwrap();
            pair.name == "memory-latency" || lab.obstacle(rung).is_some()
        };
        let all_known = run.measurements.iter().filter(|m| !m.is_valid()).all(lacks);
        assert!(skipped <= 4 && failed == 0 && all_known, "{pair:?}: {why:?}");
        let note = run.notes.iter().find(|n| n.contains(pair.reason)).unwrap_or_else(|| panic!("{pair:?}"));
        println!("{}: {note}", pair.name);
    }
}

#[test]
fn names_sizes_and_words_agree() {
    let names: BTreeSet<&str> = PAIRS.iter().map(|p| p.name).collect();
    assert_eq!(names.len(), PAIRS.len());
    let listed = Guide::DETAILS.rsplit_once("The pairs: ").unwrap().1.trim_end_matches('.');
    assert_eq!(listed, PAIRS.iter().map(|p| p.name).collect::<Vec<_>>().join(", "));
    let option = Guide::offered().into_iter().find(|s| s.name == "pair").unwrap();
    for pair in PAIRS {
        assert!(option.help.contains(pair.name), "{pair:?}");
        let guide = Guide::pair(pair.name).unwrap();
        let plan = guide.plan(None).unwrap();
        assert_eq!(plan.name, format!("guide-{}", pair.name));
        assert!(plan.problems.contains(&plan.main_problem.unwrap()));
        assert!(plan.rungs.len() >= 3, "{pair:?}");
        for text in [pair.about, pair.reason, pair.on_a_smaller_gpu] {
            assert!(text.ends_with('.') && !text.contains("  "), "{text}");
        }
        let words = pair.on_a_smaller_gpu.replace("L2", "");
        assert!(!pair.on_a_smaller_gpu.contains("%") && !words.chars().any(|c| c.is_ascii_digit()));
    }
}

#[test]
fn it_is_one_pair_or_all_of_them() {
    let all = Guide::all();
    let each: Vec<String> = all.clone().each().iter().map(|e| e.plan(None).unwrap().name).collect();
    assert_eq!(each, PAIRS.iter().map(|p| format!("guide-{}", p.name)).collect::<Vec<_>>());
    assert_eq!(Guide::pair("pinned").unwrap().each().len(), 1);
    let lab = lab(Choice::Cpu);
    let error = |guide: &Guide| lab.run(guide).unwrap_err().to_string();
    assert!(error(&all).contains("made-on-device, coalescing, bank-conflicts"), "{}", error(&all));
    let odd = Guide::pair("pinned").unwrap().sizes([5]);
    assert!(error(&odd).contains("has no size 5. Choose from 4, 64"), "{}", error(&odd));
    let unknown = Guide::pair("pined").unwrap_err().to_string();
    assert!(unknown.contains("nearest are pinned"), "{unknown}");
    let one = Guide::pair("pinned").unwrap().quick().sizes([4]).rungs(["cpu_copy"]);
    let command = one.plan(None).unwrap().command_on("cpu");
    assert_eq!(command, "warpbook run guide --pair pinned --size 4 --small --rungs cpu_copy --device cpu");
}

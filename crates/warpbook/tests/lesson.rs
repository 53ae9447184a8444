//! The sentences of the lesson, over the published record.

use std::path::Path;
use warpbook::lesson::*;
use warpbook::prelude::*;

fn published() -> Run {
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    read_record(Path::new(&here).join("../../data/results/regression-h200.json")).unwrap()
}

#[test]
fn a_prediction_is_the_bytes_over_the_ceiling() {
    let run = published();
    let problem = run.main_problem().unwrap().clone();
    let (fused_us, _) = predict(&run, &problem, 2, 2).unwrap();
    let ceiling = run.ceiling(&problem).unwrap().bytes_per_s();
    let want = problem.bytes() as f64 / ceiling * 1e6;
    assert!((fused_us - want).abs() < 1e-6 * want, "{fused_us} {want}");
    // Four times the bytes from a slower place: at least four times as long.
    let (unfused_us, _) = predict(&run, &problem, 8, 4).unwrap();
    assert!(unfused_us >= 4.0 * fused_us, "{unfused_us} {fused_us}");
}

#[test]
fn a_part_of_a_record_keeps_what_was_asked_for() {
    let run = published();
    let part = only(&run, &["02_fused"]);
    assert_eq!(part.rungs.len(), 1);
    assert_eq!(part.measurements.len(), 1);
    assert!(part.spans.iter().all(|s| s.rung == "02_fused") && !part.spans.is_empty());
    assert_eq!(
        median_us(&part, "02_fused"),
        run.measurement("02_fused", run.main_problem().unwrap()).unwrap().median_us()
    );
    assert_eq!(median_us(&part, "01_unfused"), None);
}

#[test]
fn comparisons_are_computed_and_missing_rungs_said() {
    let run = published();
    let faster = against(&run, "02_fused", "01_unfused");
    let ratio = median_us(&run, "01_unfused").unwrap() / median_us(&run, "02_fused").unwrap();
    assert!(faster.contains(&format!("{ratio:.2}")) || faster.contains(&format!("{ratio:.1}")), "{faster}");
    let nothing = only(&run, &[]);
    for sentence in [
        against(&nothing, "02_fused", "01_unfused"),
        outcome(&nothing, "02_fused", 2, 2),
        does_it_help(&nothing, "Does it?", "02b_fused_staged", "02_fused"),
        between_kernels(&nothing, "02_fused"),
        price_of_the_data(&nothing),
        last_word(&nothing),
    ] {
        assert!(!sentence.is_empty() && !sentence.contains("NaN"), "{sentence}");
    }
}

#[test]
fn the_kernels_of_the_unfused_rung_are_named() {
    let run = published();
    let table = kernels_against_bytes(&run, &run.main_problem().unwrap().clone());
    let names: Vec<&str> = table.rows.iter().map(|r| r[0].as_str()).collect();
    assert!(["forward", "loss", "gradient w", "gradient b"].iter().all(|n| names.contains(n)), "{names:?}");
}

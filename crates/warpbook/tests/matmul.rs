//! Tests of the matrix product as an experiment: on the CPU, and on a GPU if there is one.

use warpbook::device::{Bench, testing};
use warpbook::kernels::matmul::{Row, rows, rungs, shape_of, transposed};
use warpbook::record::{Dtype, Measurement, Outcome, PartGroup, Problem, Run};
use warpbook::{Error, Experiment, Lab, Matmul};

fn quick(device: &str) -> Lab {
    Lab::open(device).unwrap().with_bench(Bench { samples: 3, budget_s: 0.05, warmup: 1, ..Bench::default() })
}

fn measurement<'a>(run: &'a Run, rung: &str) -> &'a Measurement {
    run.measurements.iter().find(|m| m.rung == rung).unwrap_or_else(|| panic!("no row of {rung}"))
}

#[test]
fn the_cpu_s_rungs_are_right_at_odd_sizes() {
    let experiment = Matmul::new().shapes([(1, 1, 1), (67, 129, 33), (200, 1, 77)]).dtypes([Dtype::F32]);
    let run = quick("cpu").run(&experiment).unwrap();
    for m in run.measurements.iter().filter(|m| m.rung.starts_with("cpu")) {
        assert!(m.is_valid(), "{} at {}: {:?} {:?}", m.rung, m.problem.label, m.outcome, m.check);
    }
    assert_eq!(run.counts(), (12, 3 * (rungs().len() - 4), 0));
}

#[test]
fn transposed_matrices_give_the_same_rows() {
    let experiment = Matmul::new().shapes([(65, 40, 31)]).dtypes([Dtype::F32]).transposed(true, true);
    let run = quick("cpu").run(&experiment).unwrap();
    assert!(measurement(&run, "cpu_blocked").is_valid());
    assert!(run.measurements[0].problem.label.contains("A and B transposed"));
}

#[test]
fn what_the_cpu_does_not_do_says_why() {
    let run = quick("cpu").run(&Matmul::new().shapes([(64, 64, 64)]).dtypes([Dtype::Bf16])).unwrap();
    let why = |rung: &str| match &measurement(&run, rung).outcome {
        Outcome::Skipped { why } => why.clone(),
        other => panic!("{rung}: {other:?}"),
    };
    assert!(why("cpu_naive").contains("fp32"), "{}", why("cpu_naive"));
    assert!(why("14_overlapped_store").contains("sm_90a"), "{}", why("14_overlapped_store"));
    assert!(why("cublas").contains("CPU"), "{}", why("cublas"));
    let large = quick("cpu").run(&Matmul::new().shapes([(8192, 8192, 8192)]).dtypes([Dtype::F32]).rungs(["cpu_naive"]));
    assert!(
        matches!(&measurement(&large.unwrap(), "cpu_naive").outcome, Outcome::Skipped { why } if why.contains("would take"))
    );
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let lab = quick("cpu");
    let check = |e: Matmul, expect: &str| {
        let error = lab.run(&e).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    check(Matmul::new().shapes([]), "No shape");
    check(Matmul::new().dtypes([]), "No shape or no type");
    check(Matmul::new().shapes([(0, 1, 1)]), "each size is from 1");
    check(Matmul::new().shapes([(1, 1, 2 << 20)]), "each size is from 1");
    check(Matmul::new().dtypes([Dtype::F64]), "choose fp32");
    check(Matmul::new().rungs(Vec::<String>::new()), "No rung was named");
    check(Matmul::new().tile("nonsense"), "There is no tile");
    assert!(
        matches!(lab.run(&Matmul::new().rungs(["14_overlaped"])), Err(Error::UnknownRung { nearest, .. }) if nearest[0] == "14_overlapped_store")
    );
}

#[test]
fn the_command_repeats_the_settings() {
    let e = Matmul::new()
        .shapes([(1, 2, 3)])
        .dtypes([Dtype::Tf32])
        .transposed(true, false)
        .tile("128x64s8c1g8")
        .also((4, 5, 6), Dtype::F16, (false, false))
        .also((7, 8, 9), Dtype::Bf16, (false, true))
        .transfers(false);
    assert_eq!(
        e.plan(None).unwrap().command_on("cuda:0"),
        "warpbook run matmul --shape 1x2x3 --dtype tf32 --also 4x5x6:fp16,7x8x9:bf16:nt --trans-a --seed 1 --no-transfers --tile 128x64s8c1g8 --device cuda:0"
    );
}

#[test]
fn layers_are_products_forward_and_backward() {
    let all = Matmul::layers().problems();
    assert_eq!(all.len(), 7 * 3 * 2);
    let stored = |p: &Problem| (shape_of(p).unwrap(), transposed(p));
    // The AMP recipe has three products: images by outputs, images by inputs, outputs by inputs.
    for expect in
        [((512, 4096, 4096), (false, true)), ((512, 4096, 4096), (false, false)), ((4096, 4096, 512), (true, false))]
    {
        assert_eq!(all.iter().filter(|p| stored(p) == expect).count(), 2, "{expect:?}");
    }
    let command = Matmul::layers().plan(None).unwrap().command_on("cuda:0");
    assert!(command.contains("--shape none") && command.contains("512x128x9216:fp16:nt"), "{command}");
    let sweep = Matmul::sweep().problems();
    assert!(sweep.iter().any(|p| stored(p) == ((3000, 5000, 7000), (false, true)) && p.dtype == Dtype::Bf16));
}

#[test]
fn every_rung_is_measured_or_says_why_on_a_gpu() {
    if testing::gpu("every_rung_is_measured_or_says_why_on_a_gpu").is_none() {
        return;
    }
    let experiment = Matmul::new().shapes([(264, 520, 136)]).dtypes([Dtype::F32, Dtype::Bf16]).tiles(false);
    let run = quick("cuda:0").run(&experiment).unwrap();
    assert_eq!(run.measurements.len(), 2 * rungs().len());
    for m in &run.measurements {
        let (dtype, rung) = (m.problem.dtype, run.rung(&m.rung).unwrap());
        match &m.outcome {
            Outcome::Measured => assert!(m.is_valid(), "{}: {:?}", m.rung, m.check),
            Outcome::Skipped { why } => {
                let row: Option<Row> = rows().into_iter().find(|r| r.rung.id == m.rung);
                let expected = rung.is_library()
                    || rung.is_cpu()
                    || row.is_some_and(|r| r.capabilities().is_some_and(|c| !c.takes(dtype)))
                    || why.contains("needs");
                assert!(expected, "{} skipped: {why}", m.rung);
            }
            Outcome::Failed { error } => panic!("{}: {error}", m.rung),
        }
    }
    assert!(run.parts.iter().any(|s| s.group == PartGroup::Transfer));
    assert!(
        run.measurements.iter().filter(|m| !m.kernels.is_empty()).all(|m| m.tile.is_some() && !m.traffic.is_empty())
    );
}

#[test]
fn the_chosen_rung_is_named_on_a_gpu() {
    if testing::gpu("the_chosen_rung_is_named_on_a_gpu").is_none() {
        return;
    }
    let experiment = Matmul::new()
        .shapes([(264, 520, 136), (129, 77, 65)])
        .dtypes([Dtype::F32, Dtype::Bf16])
        .transfers(false)
        .rungs(["08_double_buffered", "cublaslt", "as_chosen"]);
    let run = quick("cuda:0").run(&experiment).unwrap();
    let chosen: Vec<&Measurement> = run.measurements.iter().filter(|m| m.rung == "as_chosen").collect();
    assert_eq!(chosen.len(), 4);
    for m in chosen {
        assert!(m.is_valid() && m.samples_us.len() > 1, "{}: {:?} {:?}", m.problem.label, m.outcome, m.check);
        let (choice, tile) = (m.choice.clone().unwrap_or_default(), m.tile.clone().unwrap_or_default());
        let row = rows().into_iter().find(|r| choice.starts_with(&*r.rung.id)).unwrap_or_else(|| panic!("{choice}"));
        assert!(row.kernel().is_some_and(|k| k.tile(&tile).is_some()), "{choice}, but the tile is {tile}");
        assert!(choice.contains(&tile) && !m.kernels.is_empty(), "{choice}");
        // The choice is not listed as the second fastest kernel if its rung was also measured.
        let best = run.fastest_kernels(&m.problem).map(|(best, _)| best.rung.as_str());
        let measured = run.measurement("08_double_buffered", &m.problem).and_then(Measurement::median_us);
        let is_faster = row.rung.id != "08_double_buffered" && m.median_us() < measured;
        assert_eq!(best, Some(if is_faster { "as_chosen" } else { "08_double_buffered" }), "{choice}");
    }
}

#[test]
fn all_tiles_of_a_rung_are_timed_on_a_gpu() {
    if testing::gpu("all_tiles_of_a_rung_are_timed_on_a_gpu").is_none() {
        return;
    }
    let experiment = Matmul::new().shapes([(256, 256, 256)]).dtypes([Dtype::F32]).rungs(["06_vectorised"]);
    let run = quick("cuda:0").run(&experiment).unwrap();
    let rung = &Experiment::rungs(&experiment)[0];
    let tiles: Vec<_> = run.parts.iter().filter(|s| s.group == PartGroup::Tile).collect();
    assert_eq!(tiles.len(), rung.kernels()[0].tiles.len());
    let least = tiles.iter().filter_map(|s| s.median_us()).fold(f64::INFINITY, f64::min);
    let chosen =
        tiles.iter().find(|s| run.measurements[0].tile.as_ref() == Some(&s.name)).unwrap().median_us().unwrap();
    // Tiles with similar times are timed a second time before they are compared.
    assert!(chosen <= 1.2 * least, "{chosen} us was chosen where {least} us was seen");
}

/// Tiles with a single chunk of columns use one buffer: the next tile must not be written into it before it was stored.
#[test]
fn many_tiles_with_short_sums_are_right_on_a_gpu() {
    if testing::gpu("many_tiles_with_short_sums_are_right_on_a_gpu").is_none() {
        return;
    }
    let rung = "14_overlapped_store";
    let row = rows().into_iter().find(|r| r.rung.id == rung).unwrap();
    let mut checked = 0;
    for tile in &row.kernel().unwrap().tiles {
        let experiment = Matmul::new()
            .shapes([(8192, 4096, 8), (8192, 4096, 64), (4096, 8192, 136)])
            .dtypes([Dtype::F16, Dtype::Bf16])
            .transfers(false)
            .rungs([rung])
            .tile(tile.id.clone());
        for m in &quick("cuda:0").run(&experiment).unwrap().measurements {
            match &m.outcome {
                Outcome::Measured => assert!(m.is_valid(), "{} at {}: {:?}", tile.id, m.problem.label, m.check),
                Outcome::Skipped { why } => {
                    assert!(why.contains("needs"), "{why}");
                    continue;
                }
                Outcome::Failed { error } => panic!("{} at {}: {error}", tile.id, m.problem.label),
            }
            checked += 1;
        }
    }
    println!("{checked} products of {rung} are right");
}

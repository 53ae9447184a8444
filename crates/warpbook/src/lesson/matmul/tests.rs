use super::*;
use crate::lesson::Guesses;
use warpbook_device::testing;
use warpbook_experiments::Attempts;
use warpbook_record::DeviceKind;
use warpbook_record::{Check, ComputePeak, KernelStats, Outcome};
use warpbook_record::{Part, PartGroup, Runner};

/// Returns the record of a ladder on an H200, without measurements.
fn empty() -> Run {
    let here = testing::manifest_dir(env!("CARGO_MANIFEST_DIR"));
    let mut run = read_record(here.join("../../data/results/regression-h200.json")).unwrap();
    run.rungs = rungs();
    (run.measurements, run.parts, run.train_logs) = (Vec::new(), Vec::new(), Vec::new());
    for (dtype, rate) in [(Dtype::Tf32, 4e14), (Dtype::F16, 8e14), (Dtype::Bf16, 8e14)] {
        let (flops, samples_us) = (1 << 40, vec![(1u64 << 40) as f64 / rate * 1e6]);
        let peak = ComputePeak { dtype, method: String::new(), flops, samples_us, datasheet_flops_per_s: None };
        run.peaks.compute.push(peak);
    }
    run
}

fn cube(edge: u64, dtype: Dtype) -> Problem {
    Matmul::new().shapes([(edge, edge, edge)]).dtypes([dtype]).problems().remove(0)
}

fn put(run: &mut Run, problem: &Problem, id: &str, us: f64) {
    let mut m = Measurement::without_samples(id, problem.clone(), Outcome::Measured);
    m.set_samples(vec![us * 0.999, us, us * 1.001], Vec::new());
    m.check = Some(Check::compare("f64", &[(1.0, 1.0)], 1.0, 1e-3));
    run.measurements.push(m);
}

#[test]
fn a_rung_s_counts_follow_from_its_tile() {
    let check = |id: &str, dtype, instructions: Option<f64>, wavefronts: f64| {
        let all = rungs();
        let tile = &all.iter().find(|r| r.id == id).unwrap().kernels()[0].tiles[0];
        let d = demand(id, tile, dtype).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
        assert!(near(d.wavefronts, wavefronts), "{id}: {d:?}");
        assert!(near(d.instructions.unwrap_or(0.0), instructions.unwrap_or(0.0)), "{id}: {d:?}");
        assert_eq!(d.instructions.is_some(), instructions.is_some(), "{id}");
    };
    check("01_naive", Dtype::F32, Some(3.0), 33.0);
    check("02_coalesced", Dtype::F32, Some(3.0), 2.0);
    check("03_shared_tile", Dtype::F32, Some(3.125), 2.0625);
    check("04_register_1d", Dtype::F32, Some(1.0 + 9.0 / 8.0 + 4.0 / 64.0), 9.0 / 8.0 + 2.0 / 64.0);
    check("05_register_2d", Dtype::F32, Some(1.25 + 4.0 / 128.0), 0.25 + 2.0 / 128.0);
    check(TF32_RUNG, Dtype::Tf32, None, 1.0 / 256.0 + 1.0 / 64.0);
    // A quarter of the reads remain, and each is served half a warp at a time. In rung 06, half a warp reads one group of four elements of A and sixteen groups
    // of B, which take two wavefronts. In rung 07, it reads four groups of each.
    check("06_vectorised", Dtype::F32, Some(1.0625 + 1.75 / 128.0), 12.0 / 64.0 + 2.0 / 128.0);
    check("07_warp_tile", Dtype::F32, Some(1.0625 + 1.75 / 128.0), 8.0 / 64.0 + 2.0 / 128.0);
    check("10_mma_swizzled", Dtype::Bf16, None, 2.0 * (1.0 / 64.0 + 1.0 / 64.0) / 4.0);
    check("14_overlapped_store", Dtype::Bf16, None, 2.0 * (1.0 / 64.0 + 1.0 / 256.0) / 4.0);
    let tile = Tile::new("", &[]);
    assert_eq!(demand("cublas", &tile, Dtype::F32), None);
    assert_eq!(demand("cpu_naive", &tile, Dtype::F32), None);
}

#[test]
fn every_rung_of_ours_has_a_forecast_by_its_own_bound() {
    let run = empty();
    let check = |id: &str, dtype, by: &str| {
        let f = forecast(&run, &cube(4096, dtype), id).unwrap();
        assert_eq!(f.bound().0, by, "{id}: {f:?}");
    };
    check("01_naive", Dtype::F32, "L1");
    check("02_coalesced", Dtype::F32, "L1");
    check("03_shared_tile", Dtype::F32, "shared memory");
    check("04_register_1d", Dtype::F32, "shared memory");
    for id in &CUDA_CORES[4..] {
        check(id, Dtype::F32, "instructions");
    }
    // Tiles of 128 x 128 request more from L2 than it can deliver while tensor cores work; 128 x 256 in clusters do not.
    check("09_wmma", Dtype::Bf16, "L2");
    check("14_overlapped_store", Dtype::Bf16, "tensor cores");
    let others = [TF32_RUNG, STREAM_K_RUNG].into_iter().chain(UNALIGNED_RUNGS).chain(LIBRARIES);
    let all: Vec<&str> = CUDA_CORES.into_iter().chain(TENSOR_CORES).chain(others).collect();
    let has_none = |r: &Rung| r.is_cpu() || matches!(r.runner, Runner::Chosen(_));
    assert!(rungs().iter().all(|r| has_none(r) || all.contains(&&*r.id)));
    assert!(prediction(&run, &cube(4096, Dtype::F32), "03_shared_tile").contains("the bound: shared memory, so "));
    // The forecast needs no rung in the record.
    let early = Run { rungs: Vec::new(), ..run.clone() };
    assert!(prediction(&early, &cube(4096, Dtype::F32), "03_shared_tile").contains("Shared tiles with tile 32x32x32"));
    // A small product stays in L2 and is not read from memory.
    let parts = |edge| forecast(&run, &cube(edge, Dtype::F32), "03_shared_tile").unwrap().parts;
    assert!(parts(4096).iter().any(|p| p.0 == "DRAM") && parts(512).iter().all(|p| p.0 != "DRAM"));
}

#[test]
fn an_outcome_says_how_much_of_it_was_foreseen() {
    let p = cube(4096, Dtype::F32);
    let bound = forecast(&empty(), &p, "05_register_2d").unwrap().bound().1;
    let check = |times: f64, expect: &str| {
        let mut run = empty();
        put(&mut run, &p, "05_register_2d", bound * times);
        let said = outcome(&run, &p, "05_register_2d");
        assert!(said.contains(expect) && said.contains("TFLOP/s") && said.ends_with('.'), "{said}");
    };
    check(0.9, "less than was counted for its instructions");
    check(0.98, "Its instructions take 102 % of that: by the count they are the limit. The ceiling in the bound");
    check(1.1, "Its instructions take 91 % of that: by the count they are the limit.");
    check(1.7, "Counting cannot explain the rest: look at the stall reasons.");
    check(4.0, "no more than 25 % of that: by the count none of the limits is near. Counting cannot explain the rest");
    let mut run = empty();
    let bound = forecast(&run, &p, "03_shared_tile").unwrap().bound().1;
    put(&mut run, &p, "03_shared_tile", bound * 1.1);
    assert!(
        outcome(&run, &p, "03_shared_tile").contains("shared memory takes 91 % of that: by the count it is the limit")
    );
}

#[test]
fn the_relief_of_a_step_is_compared_with_its_time() {
    let (run, p) = (empty(), cube(4096, Dtype::Bf16));
    let said = |old: f64, new: f64| {
        let mut run = run.clone();
        put(&mut run, &p, "12_warp_specialised", old);
        put(&mut run, &p, "13_persistent_cluster", new);
        relieved(&run, &p, "13_persistent_cluster", "12_warp_specialised")
    };
    // Clusters of two fetch B once for both, which saves a third of L2's traffic.
    let nothing = said(200.0, 198.0);
    assert!(nothing.contains("33 % less of its L2") && nothing.contains("falls by 1.0 %: so L2 was not"), "{nothing}");
    assert!(said(200.0, 140.0).contains("falls by 30 %: as it would"), "{}", said(200.0, 140.0));
    assert!(said(200.0, 165.0).contains("only a part"), "{}", said(200.0, 165.0));
    assert!(said(200.0, 220.0).contains("grows by 10 %"), "{}", said(200.0, 220.0));
    assert!(relieved(&run, &p, "13_persistent_cluster", "12_warp_specialised").ends_with("not both measured."));
    assert!(relieved(&run, &p, "12_warp_specialised", "13_persistent_cluster").contains("relieves nothing"));
    assert!(relieved(&run, &p, "cublas", "12_warp_specialised").contains("no counts"));
}

#[test]
fn guesses_are_compared_with_the_measurement_and_drawn() {
    let (mut run, p) = (empty(), cube(4096, Dtype::F32));
    put(&mut run, &p, "01_naive", 1000.0);
    put(&mut run, &p, "02_coalesced", 100.0);
    let said = |guess: f64| Guesses::new("").faster(&run, &p, "02_coalesced", "01_naive", guess);
    assert!(
        said(9.5).ends_with("“Coalesced” is 10.0× as fast as “Naive”. You guessed 9.50×, a good guess."),
        "{}",
        said(9.5)
    );
    let mut guesses = Guesses::new("");
    let _ = guesses.faster(&run, &p, "02_coalesced", "01_naive", 9.5);
    let kept: Vec<&str> = guesses.all().iter().map(|guessed| &*guessed.what).collect();
    assert_eq!(kept, [format!("Coalesced is so many times as fast as Naive, {}", p.label)]);
    assert!(said(30.0).ends_with("You guessed 30.0×, 3.00× too high."), "{}", said(30.0));
    assert!(said(2.0).ends_with("You guessed 2.00×, 5.00× too low."), "{}", said(2.0));
    for nothing in [0.0, -1.0, f64::NAN] {
        assert!(said(nothing).contains("is not a guess"), "{}", said(nothing));
    }
    assert!(Guesses::new("").faster(&run, &p, "03_shared_tile", "01_naive", 2.0).contains("not both measured"));
    let drawn =
        |guess: f64| guessed(&run, &p, ("02_coalesced", "01_naive"), guess, &[]).unwrap().svg.as_str().to_owned();
    assert!(drawn(5.0).contains("your guess for Coalesced"), "{}", drawn(5.0));
    assert!(!drawn(-1.0).contains("your guess"));
    let untouched = Guesses::new("").faster(&run, &p, "02_coalesced", "01_naive", None);
    assert!(
        untouched.starts_with("You made no guess. On ") && untouched.ends_with("10.0× as fast as “Naive”."),
        "{untouched}"
    );
    assert!(guessed(&run, &cube(64, Dtype::F32), ("02_coalesced", "01_naive"), 2.0, &[]).is_err());
}

#[test]
fn attempts_stand_next_to_each_other() {
    let lab = Lab::open("cpu").unwrap();
    let live = |name: &str| LiveKernel::for_rung("02_coalesced").unwrap().named(name);
    let broken = live("broken").replacing("float sum = 0.0f;", "float sum = none;").unwrap();
    let tried = [lab.attempt(&live("as_it_is")).unwrap(), lab.attempt(&broken).unwrap()];
    let rows = attempts(&tried).rows;
    assert_eq!(
        (&*rows[0][0], &*rows[1][0], &*rows[1][1]),
        ("02_coalesced+as_it_is", "02_coalesced+broken", "does not compile")
    );
    assert_eq!(rows[0][2], "not measured");
}

#[test]
fn a_step_that_brings_nothing_says_so() {
    let (mut run, p) = (empty(), cube(4096, Dtype::F32));
    for (id, us) in [("05_register_2d", 4000.0), ("06_vectorised", 3000.0), ("07_warp_tile", 3005.0)] {
        put(&mut run, &p, id, us);
    }
    let t = steps(&run, &p, &["05_register_2d", "06_vectorised", "07_warp_tile", "08_double_buffered"]);
    assert_eq!(t.rows[1][3..], ["1.33× as fast", "1.33×"]);
    assert_eq!(t.rows[2][3], "no difference beyond the noise");
    assert_eq!(t.rows[3][1], "not measured");
    assert!(step(&run, &p, "07_warp_tile", "06_vectorised").ends_with("beyond the noise."));
    // Measurements at other sizes do not count.
    put(&mut run, &cube(4096, Dtype::Bf16), "07_warp_tile", 1.0);
    assert!(step(&run, &p, "07_warp_tile", "06_vectorised").ends_with("beyond the noise."));
}

#[test]
fn rungs_are_compared_with_the_faster_library() {
    let (mut run, p) = (empty(), cube(4096, Dtype::Bf16));
    assert!(the_line(&run, &p).starts_with("No library was measured"));
    for (id, us) in
        [("cublas", 200.0), ("cublaslt", 190.0), ("13_persistent_cluster", 200.0), ("14_overlapped_store", 180.0)]
    {
        put(&mut run, &p, id, us);
    }
    assert!(the_line(&run, &p).contains("The line is cuBLASLt, best of 32, at "));
    assert!(
        relative_to_library(&run, &p).contains("is 1.06× as fast as cuBLASLt"),
        "{}",
        relative_to_library(&run, &p)
    );
    assert_eq!(every_rung(&run, &p).rows[3][4], "1.06×");
    let t = by_type(&run, &p, &[Dtype::F32, Dtype::Bf16]);
    assert_eq!((t.rows.len(), t.rows[0][0].as_str(), t.rows[0][5].as_str()), (1, "bf16", "1.06×"));
    // If B is stored differently, the product is a different problem.
    put(&mut run, &along_k(&p), "14_overlapped_store", 100.0);
    let t = ratios(&run, &[Dtype::F32, Dtype::Bf16]);
    assert_eq!(t.rows, [["4096³", "", "1.06× (Stores overlapped)"]]);
    assert!(last_word(&run, &p, &TENSOR_CORES).contains("Stores overlapped with"));
}

#[test]
fn a_copy_is_compared_with_b_along_k() {
    let (mut run, p) = (empty(), cube(4096, Dtype::Tf32));
    put(&mut run, &p, "14_overlapped_store", 400.0);
    assert!(copy_cost(&run, &p, "14_overlapped_store").contains("copies nothing"));
    run.measurements[0].choice = Some("B is transposed first, inside the timed region.".into());
    assert!(copy_cost(&run, &p, "14_overlapped_store").contains("128 MiB in all"));
    assert!(copy_cost(&run, &p, "14_overlapped_store").ends_with("was not measured here."));
    put(&mut run, &along_k(&p), "14_overlapped_store", 320.0);
    assert!(copy_cost(&run, &p, "14_overlapped_store").ends_with("it takes 320 µs: the copy costs 25 %."));
}

#[test]
fn tiles_fill_the_chip_or_do_not() {
    let mut run = empty();
    let thin = Matmul::new().shapes([(128, 8192, 8192)]).dtypes([Dtype::Bf16]).problems().remove(0);
    let said = waves(&run, &thin, "12_warp_specialised");
    assert!(said.contains("32 tiles of 128 × 256") && said.contains("24 % of them have work"), "{said}");
    assert!(waves(&run, &thin, "15_split_k").contains("64 tiles of 128 × 128, each by 2 blocks"));
    assert!(waves(&run, &cube(4096, Dtype::Bf16), "12_warp_specialised").contains("4 rounds, filled to 97 %"));
    // As many blocks as fit onto an SM work at the same time.
    put(&mut run, &cube(4096, Dtype::F32), "07_warp_tile", 1.0);
    run.measurements[0].kernels.push(KernelStats { blocks_per_multiprocessor: Some(2), ..Default::default() });
    assert!(
        waves(&run, &cube(4096, Dtype::F32), "07_warp_tile")
            .ends_with("2 blocks at a time on each: 4 rounds, filled to 97 %.")
    );
}

#[test]
fn parts_become_sentences() {
    let (mut run, p) = (empty(), cube(4096, Dtype::F32));
    let part = |group, name: &str, us: f64| Part {
        rung: if group == PartGroup::Tile { "08_double_buffered".into() } else { String::new() },
        problem: p.clone(),
        group,
        name: name.into(),
        samples_us: vec![us],
    };
    run.parts.extend([part(PartGroup::Tile, "a", 30.0), part(PartGroup::Tile, "b", 20.0)]);
    put(&mut run, &p, "08_double_buffered", 25.0);
    for (name, us) in [("to the device", 50.0), ("to the host", 25.0)] {
        run.parts.push(part(PartGroup::Transfer, name, us));
    }
    assert_eq!(
        tile_ranges(&run, &p, &["07_warp_tile", "08_double_buffered"]),
        ["Double-buffered: of 2 tiles b is the fastest with 20.0 µs; a takes 1.50× the time."]
    );
    assert!(there_and_back(&run, &p).contains("The product is 25 % of that"));
}

/// Without a GPU and without a record every cell still has a sentence.
#[test]
fn nothing_measured_is_said_in_sentences() {
    let (mut bare, p) = (empty(), cube(512, Dtype::F32));
    bare.peaks = Default::default();
    bare.environment.device.kind = DeviceKind::Cpu;
    assert!(
        waves(&bare, &p, "05_register_2d")
            .ends_with("16 tiles of 128 × 128. How well they fill a GPU depends on how many SMs it has.")
    );
    // Counts from the source need no GPU.
    assert!(
        prediction(&bare, &p, "05_register_2d").contains("1.28 instructions and 0.266 wavefronts of shared memory")
    );
    assert_eq!(demands(&bare, &p, &["05_register_2d"]).rows[0][1..4], ["1.28", "0.266", ""]);
    for run in [bare, empty()] {
        let mut said = vec![
            prediction(&run, &p, "05_register_2d"),
            outcome(&run, &p, "05_register_2d"),
            step(&run, &p, "05_register_2d", "04_register_1d"),
            the_line(&run, &p),
            relative_to_library(&run, &p),
            without_reuse(&run, &p),
            waves(&run, &p, "05_register_2d"),
            store_cost(&run, &p),
            there_and_back(&run, &p),
            copy_cost(&run, &p, "14_overlapped_store"),
            last_word(&run, &p, &CUDA_CORES),
        ];
        said.extend(tile_ranges(&run, &p, &CUDA_CORES));
        for sentence in said {
            assert!(sentence.ends_with('.') && !sentence.contains("NaN") && !sentence.contains("inf"), "{sentence}");
        }
        assert_eq!(steps(&run, &p, &CUDA_CORES).rows.len(), 8);
        assert_eq!(demands(&run, &p, &CUDA_CORES).rows.len(), 8);
        assert!(every_rung(&run, &p).rows.is_empty() && checks(&run, &p).rows.is_empty());
        assert!(ratios(&run, &[Dtype::F32]).rows.is_empty() && by_type(&run, &p, &[Dtype::F32]).rows.is_empty());
    }
}

#[test]
fn a_rung_that_was_not_measured_has_the_tile_that_the_costs_choose() {
    let folder = testing::manifest_dir(env!("CARGO_MANIFEST_DIR"));
    let record = read_record(folder.join("../../data/results/matmul-h200.json")).unwrap();
    let run = without(&record, &["14_overlapped_store"]);
    let thin = Matmul::new().shapes([(128, 8192, 8192)]).dtypes([Dtype::Bf16]).problems().remove(0);
    let tile = |p: &Problem| tile_of(&run, p, "14_overlapped_store").unwrap().id.to_string();
    assert!(waves(&run, &thin, "14_overlapped_store").contains(&tile(&thin)));
    assert_ne!(
        tile(&thin),
        tile(&cube(4096, Dtype::Bf16)),
        "a tile of 128 rows and 256 columns leaves most SMs without work"
    );
}

//! Tests of X-rays on a GPU, for every rung that lessons X-ray.

use std::time::{Duration, Instant};
use warpbook::device::{Bench, CudaDevice, testing};
use warpbook::record::xray::phase;
use warpbook::record::{ChartKind, Dtype, Run, Xray};
use warpbook::{Event, Experiment, Lab, Matmul, Regression, Training};

/// Largest error of an SM's clock in nanoseconds; a message to L2 and back takes less.
const MOST_ERROR_NS: f64 = 2000.0;

fn lab() -> Lab {
    Lab::open("cuda:0").unwrap().with_bench(Bench { samples: 9, budget_s: 0.3, warmup: 2, ..Bench::default() })
}

/// Seconds that an X-ray may take, including compilation. A kernel that hangs fails long before.
const LIMIT_S: u64 = 180;

/// Returns the result of `work`, which gets a lab that notes its stages; panics after the time limit, naming the
/// current stage.
fn within_the_limit<R: Send + 'static>(what: &str, work: impl FnOnce(Lab) -> R + Send + 'static) -> R {
    use std::sync::{Arc, Mutex, mpsc};
    let begun = Instant::now();
    let stages: Arc<Mutex<Vec<(f64, String)>>> = Arc::default();
    let noted = stages.clone();
    let lab = lab().with_listener(move |event| {
        if let Event::Preparing(stage) = event {
            noted.lock().unwrap().push((begun.elapsed().as_secs_f64(), (*stage).to_owned()));
        }
    });
    let (give, take) = mpsc::channel();
    let worker = std::thread::spawn(move || give.send(work(lab)));
    let made = take.recv_timeout(Duration::from_secs(LIMIT_S));
    let stages = stages.lock().unwrap().clone();
    for (s, stage) in &stages {
        println!("{what}: at {s:.1} s {stage}");
    }
    match made {
        Ok(made) => {
            println!("{what}: ended at {:.1} s", begun.elapsed().as_secs_f64());
            made
        }
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(worker.join().expect_err("it sends what it makes"))
        }
        Err(mpsc::RecvTimeoutError::Timeout) => panic!(
            "{what} did not end within {LIMIT_S} s. This is slow work of the host, in the last of these stages, and no kernel that hangs: that would \
             have been an error after some seconds. {stages:?}"
        ),
    }
}

/// Takes an X-ray and checks properties that hold for every X-ray.
fn looked_at(device: &CudaDevice, lab: &Lab, experiment: &dyn Experiment, rung: &str) -> Xray {
    let taken = lab.xray(experiment, rung).unwrap_or_else(|e| panic!("{rung}: {e}"));
    let run = &taken.run;
    // Results are checked with marks and during the recording; a wrong result is an error.
    assert!(run.measurements[0].is_valid(), "{rung}: {:?}", run.measurements[0].check);
    let x = run.xrays[0].clone();
    let said = |what: &str| format!("{rung}: {what}: {:?}, notes {:?}", x.kernels, run.notes);
    assert!(!x.kernels.is_empty() && !x.blocks.is_empty(), "{}", said("kernels and blocks"));
    assert_eq!(x.sms.len() as u32, device.info().multiprocessors, "{}", said("every SM was asked"));
    let error = x.error_ns();
    assert!((0.0..MOST_ERROR_NS).contains(&error), "{}: {error} ns", said("the error of the clocks"));
    assert!(x.sms.iter().filter(|s| s.error_ns > 0.0).count() + 1 == x.sms.len(), "{}", said("one SM asked"));
    assert!((300.0..4000.0).contains(&x.clock_mhz), "{}: {} MHz", said("the clock"), x.clock_mhz);
    let perturbation = x.perturbation().unwrap();
    assert!((0.5..20.0).contains(&perturbation), "{}: {perturbation}", said("the perturbation"));
    let mut named = 0;
    for block in &x.blocks {
        assert!(block.start_ns <= block.end_ns && block.end_ns <= x.end_ns(), "{}", said("a block's times"));
        assert!(x.sms.iter().any(|s| s.sm == block.sm), "{}", said("a block's SM"));
        for warp in &block.warps {
            // Marks are in order, and together they cover the warp's whole time.
            let spans: Vec<_> = warp.spans(&x.phases).collect();
            assert_eq!(spans.len(), warp.phases.len(), "{}", said("every phase has a name"));
            assert!(spans.windows(2).all(|w| w[0].to == w[1].from), "{}", said("phases follow each other"));
            let end = spans.last().map_or(0, |s| s.to);
            assert!(warp.start_ns >= block.start_ns && end <= block.end_ns, "{}", said("a warp is in its block"));
            assert_eq!(spans.first().map(|s| s.phase), Some(phase::START), "{}", said("a warp begins"));
            named += spans.iter().filter(|s| ![phase::START, phase::NOT_KEPT].contains(&s.phase)).count();
        }
    }
    assert!(named > 0, "{}", said("phases"));
    for (k, kernel) in x.kernels.iter().enumerate() {
        // In a graph, launches of the same kernel may have different grids.
        let seen = x.blocks_of(k).count() as u64;
        assert!(seen == kernel.blocks || run.experiment == "training", "{}: {seen}", said("every block is there"));
    }
    let again = Run::from_json(run.to_json().unwrap().as_bytes()).unwrap();
    assert_eq!(again.xrays, run.xrays, "{rung}: the record is read as it was written");
    let chart = taken.chart().unwrap();
    assert!(warpbook::charts::draw().lighter().chart(&again, &x.problem, ChartKind::Xray).unwrap() == chart);
    println!("{rung}: {}\n{}", chart.description, chart.table.text());
    x
}

/// Checks that the time from the first mark to the last is about as long as the run.
fn covers(x: &Xray, rung: &str) {
    let (end_us, run_us) = (x.end_ns() as f64 / 1e3, warpbook::record::stats::median(&x.marked_us).unwrap());
    assert!(end_us > 0.3 * run_us - 5.0 && end_us < 2.0 * run_us + 10.0, "{rung}: {end_us} us of {run_us} us");
}

#[test]
fn rungs_of_the_product_are_looked_into() {
    let _one = testing::one_at_a_time();
    let Some(device) = testing::gpu("rungs_of_the_product_are_looked_into") else { return };
    let lab = lab();
    for rung in ["03_shared_tile", "08_double_buffered"] {
        let product = Matmul::new().shapes([(777, 1000, 515)]).dtypes([Dtype::F32]).transfers(false).tiles(false);
        let x = looked_at(&device, &lab, &product, rung);
        covers(&x, rung);
        assert!(x.spread_in_blocks(0).is_some(), "{rung}: blocks have barriers");
        let lead = x.lead(0).unwrap_or_else(|| panic!("{rung}: tiles are loaded and multiplied"));
        let ring = rung == "08_double_buffered";
        assert_eq!(lead.median_tiles > 1.0, ring, "{rung}: {lead:?}");
    }
    if device.info().compute_capability != Some((9, 0)) {
        return testing::skip("rungs_of_the_product_are_looked_into", "needs a Hopper GPU", "this is another one");
    }
    let rungs = [
        ("11_wgmma_tma", Dtype::Bf16),
        ("12_warp_specialised", Dtype::Bf16),
        ("13_persistent_cluster", Dtype::Bf16),
        ("14_overlapped_store", Dtype::Bf16),
        ("15_split_k", Dtype::Bf16),
        ("16_tf32_registers", Dtype::Tf32),
    ];
    for (rung, dtype) in rungs {
        let product = Matmul::new().shapes([(2048, 1536, 1024)]).dtypes([dtype]).transfers(false).tiles(false);
        let x = looked_at(&device, &lab, &product, rung);
        covers(&x, rung);
        let lead = x.lead(0).unwrap_or_else(|| panic!("{rung}: no lead"));
        assert!(lead.median_tiles >= 1.0 && lead.median_ns > 0.0, "{rung}: {lead:?}");
        assert!(x.tail(0).is_some_and(|t| (0.0..1.0).contains(&t.lost)), "{rung}: {:?}", x.tail(0));
    }
}

/// All settings are the defaults; only one of the ladder's hundred tiles is compiled.
#[test]
fn a_product_has_its_tile_without_a_search() {
    let _one = testing::one_at_a_time();
    let Some(device) = testing::gpu("a_product_has_its_tile_without_a_search") else { return };
    if device.info().compute_capability != Some((9, 0)) {
        return testing::skip("a_product_has_its_tile_without_a_search", "needs a Hopper GPU", "this is another one");
    }
    let product = || Matmul::new().shapes([(2048, 2048, 2048)]).dtypes([Dtype::Bf16]);
    let taken = within_the_limit("14_overlapped_store at 2048", move |lab| {
        lab.xray(&product(), "14_overlapped_store").unwrap_or_else(|e| panic!("{e}"))
    });
    let by_costs = warpbook_gemm::choose_from(
        &[warpbook_kernels::matmul::rows().into_iter().find(|r| r.rung.id == "14_overlapped_store").unwrap()],
        &warpbook_gemm::Product::new(2048, 2048, 2048, warpbook_kernels::matmul::Form::plain(Dtype::Bf16)),
        device.info(),
        &warpbook_gemm::Findings::published(device.info()),
    );
    let tile = taken.run.measurements[0].tile.clone();
    assert_eq!(tile.as_deref(), by_costs.as_ref().map(|c| &*c.tile.id));
    assert_eq!(Some(&taken.run.xrays[0].kernels[0].tile), tile.as_ref());
    // A requested tile whose blocks come in clusters behaves in the same way.
    let asked = within_the_limit("the same in clusters of two", move |lab| {
        lab.xray(&product().tile("128x256s4c2g8"), "14_overlapped_store").unwrap_or_else(|e| panic!("{e}"))
    });
    assert_eq!(asked.run.xrays[0].kernels[0].tile, "128x256s4c2g8");
    assert!(asked.run.parts.is_empty(), "no tile was timed to choose it");
}

#[test]
fn rungs_of_the_regression_are_looked_into() {
    let _one = testing::one_at_a_time();
    let Some(device) = testing::gpu("rungs_of_the_regression_are_looked_into") else { return };
    let lab = lab();
    for rung in ["02_fused", "05_persistent", "06_on_chip"] {
        for points in [100_003, 3_000_000] {
            let descent = Regression::new().points([points]).epochs(20).parts(false);
            let x = looked_at(&device, &lab, &descent, rung);
            match rung {
                "02_fused" => assert_eq!(x.kernels.len(), 2, "a pass and an update: {:?}", x.kernels),
                _ => covers(&x, rung),
            }
            if rung == "05_persistent" {
                let spread = x.spread_over_blocks(0).expect("all blocks run at once");
                assert_eq!(spread.count, 20, "a barrier an epoch");
            }
        }
    }
}

/// Takes an X-ray as for a published record: with a different number of epochs from the ladder, and with fewer marks.
#[test]
fn an_x_ray_joins_the_record_of_its_ladder() {
    let _one = testing::one_at_a_time();
    if testing::gpu("an_x_ray_joins_the_record_of_its_ladder").is_none() {
        return;
    }
    let lab = lab();
    let descent = Regression::new().points([1_000_000]).parts(false).timelines(false);
    let ladder = lab.run(&descent.clone().rungs(["02_fused", "05_persistent"])).unwrap();
    let limit = 64 << 10;
    let mut joined = ladder.clone();
    for epochs in [20, 200] {
        let taken = lab.xray_within(&descent.clone().epochs(epochs), "05_persistent", limit).unwrap();
        assert!(taken.run.notes.iter().all(|n| n.starts_with("X-ray of 05_persistent: ")), "{:?}", taken.run.notes);
        assert_eq!(taken.run.measurements.len(), 1);
        joined.absorb(taken.run).unwrap_or_else(|why| panic!("{epochs} epochs: {why}"));
    }
    assert_eq!((&joined.measurements, &joined.rungs), (&ladder.measurements, &ladder.rungs), "no rows are added");
    let [short, whole] = &joined.xrays[..] else { panic!("{} X-rays", joined.xrays.len()) };
    assert!(short.problem != whole.problem && joined.main_problem() == Some(&whole.problem));
    let [before, after] = [&ladder, &joined].map(|run| run.to_json().unwrap().len());
    // The record contains the SMs' clocks and the samples in addition to the marks.
    assert!(after - before < 2 * (limit + 40_000), "{} bytes for two X-rays", after - before);
    let again = Run::from_json(joined.to_json().unwrap().as_bytes()).unwrap();
    assert!(warpbook::charts::draw().chart(&again, &short.problem, ChartKind::Xray).is_ok());
}

#[test]
fn a_step_of_training_is_looked_into() {
    let _one = testing::one_at_a_time();
    let Some(device) = testing::gpu("a_step_of_training_is_looked_into") else { return };
    if device.info().compute_capability != Some((9, 0)) {
        return testing::skip("a_step_of_training_is_looked_into", "needs a Hopper GPU", "this is another one");
    }
    let step = Training::quick().batches([64]).steps(2);
    // In fp16, the step also computes the norm of the gradients.
    let x = looked_at(&device, &lab(), &step, "13_last_block_fp16");
    for entry in ["shifted_windows", "shifted_gradient", "few_forward", "few_gradient", "sum_squares_last"] {
        let place = x.kernels.iter().position(|k| k.entry == entry);
        let times = x.phase_times(place.unwrap_or_else(|| panic!("{entry} of {:?}", x.kernels)));
        assert!(times.len() > 1, "{entry}: {times:?}");
    }
    // The small kernels around the marked ones have no marks.
    assert!(x.unmarked_kernels.len() > 3, "{:?}", x.unmarked_kernels);
    assert!(x.unmarked_kernels.iter().all(|u| x.kernels.iter().all(|k| k.entry != *u)), "{:?}", x.unmarked_kernels);
}

/// Kernels loaded after an X-ray have no marks, and a failed X-ray leaves nothing behind.
#[test]
fn marks_are_off_afterwards() {
    let _one = testing::one_at_a_time();
    let Some(_) = testing::gpu("marks_are_off_afterwards") else { return };
    let lab = lab();
    let product = Matmul::new().shapes([(256, 256, 256)]).dtypes([Dtype::F32]).transfers(false).tiles(false);
    let product = product.rungs(["03_shared_tile"]);
    let before = lab.run(&product).unwrap().measurements[0].kernels.clone();
    lab.xray(&product, "03_shared_tile").unwrap();
    assert!(lab.xray(&product, "nothing").is_err());
    lab.xray(&product, "03_shared_tile").unwrap();
    assert_eq!(lab.run(&product).unwrap().measurements[0].kernels, before);
}

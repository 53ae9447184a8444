//! A rung consists of a `.cu` file and a row. These tests add a rung to each experiment, from sources outside the
//! catalogue.

use warpbook::device::{Bench, CudaDevice, testing};
use warpbook::kernels::{matmul, regression};
use warpbook::nn::ops::conv2d::cuda::Method;
use warpbook::nn::train::{CudaOptions, Way, ways};
use warpbook::record::{Dtype, KernelSpec, Outcome, Run, Runner, Tile};
use warpbook::{Experiment, Lab, Matmul, Regression, Training};

const GEMM: &str = include_str!("a_new_rung/17_four_columns.cu");
const PASS: &str = include_str!("a_new_rung/09_scalar.cu");
const OF_MATMUL: &str = "17_four_columns";
const OF_REGRESSION: &str = "09_scalar";
const OF_TRAINING: &str = "10_im2col_graph";

/// Returns the row of a rung that launches like the coalesced rung, but with a wider tile.
fn gemm_row() -> matmul::Row {
    let like = matmul::rows().into_iter().find(|r| r.rung.id == "02_coalesced").unwrap();
    let tile = Tile::new("8x128", &[("THREADS", 256), ("BM", 8), ("BN", 128), ("BK", 1)]);
    let with =
        |spec: &KernelSpec| KernelSpec { tiles: vec![tile.clone()], ..own(spec, "matmul/17_four_columns.cu", GEMM) };
    matmul::Row { rung: renamed(&like.rung, OF_MATMUL, "Four columns", with), figure: None, ..like }
}

fn pass_row() -> regression::RegressionRow {
    let like = regression::rows().into_iter().find(|r| r.rung.id == "02_fused").unwrap();
    let with = |spec: &KernelSpec| own(spec, "regression/09_scalar.cu", PASS);
    regression::RegressionRow { rung: renamed(&like.rung, OF_REGRESSION, "Fused, scalar loads", with), ..like }
}

/// Returns a way of training, which consists only of a row of options and has no source.
fn way() -> Way {
    let like = ways().into_iter().find(|w| w.id == "09_overlap_bf16").unwrap();
    Way {
        id: OF_TRAINING,
        title: "im2col in a graph",
        idea: "The columns are written out after all, in the same graph.",
        base: Some(like.id),
        options: CudaOptions { convolution: Method::Im2col, ..like.options },
        ..like
    }
}

fn own(spec: &KernelSpec, file: &'static str, text: &'static str) -> KernelSpec {
    KernelSpec { file: file.into(), source: text.into(), ..spec.clone() }
}

fn renamed(
    like: &warpbook::record::Rung,
    id: &'static str,
    title: &'static str,
    with: impl Fn(&KernelSpec) -> KernelSpec,
) -> warpbook::record::Rung {
    let Runner::Kernels { specs, schedule } = &like.runner else { panic!("{} has kernels", like.id) };
    let runner = Runner::Kernels { specs: specs.iter().map(with).collect(), schedule: *schedule };
    warpbook::record::Rung { id: id.into(), title: title.into(), idea: title.into(), runner, ..like.clone() }
}

fn product() -> Matmul {
    Matmul::new().shapes([(333, 258, 129)]).dtypes([Dtype::F32, Dtype::Bf16]).transfers(false).row(gemm_row())
}

fn descent() -> Regression {
    Regression::new().points([100_003]).epochs(20).row(pass_row())
}

fn training() -> Training {
    Training::quick().batches([8]).steps(2).way(way())
}

fn quick(device: &str) -> Lab {
    Lab::open(device).unwrap().with_bench(Bench { samples: 3, budget_s: 0.05, warmup: 1, ..Bench::default() })
}

/// Checks the record's entries for the rung, on any device.
fn look(run: &Run, id: &str, file: &str, text: &str) {
    assert!(run.rung(id).is_some_and(|r| r.kernels().iter().all(|k| k.file == file)));
    assert_eq!(run.sources.get(file).map(|s| &**s), Some(text));
    for problem in &run.problems {
        assert_eq!(run.ladder(problem).iter().filter(|row| row.measurement.rung == id).count(), 1);
    }
}

#[test]
fn it_compiles_and_is_a_row_without_a_gpu() {
    let lab = quick("cpu");
    let runs = [lab.run(&product()).unwrap(), lab.run(&descent()).unwrap()];
    look(&runs[0], OF_MATMUL, "matmul/17_four_columns.cu", GEMM);
    look(&runs[1], OF_REGRESSION, "regression/09_scalar.cu", PASS);
    for (run, id) in runs.iter().zip([OF_MATMUL, OF_REGRESSION]) {
        for m in run.measurements.iter().filter(|m| m.rung == id) {
            assert!(matches!(&m.outcome, Outcome::Skipped { why } if why.contains("GPU")), "{:?}", m.outcome);
        }
    }
    let run = lab.run(&training()).unwrap();
    let rung = run.rung(OF_TRAINING).unwrap();
    assert!(rung.kernels().iter().any(|k| k.file == "nn/02_im2col.cu"));
    assert!(rung.kernels().iter().all(|k| run.sources.contains_key(&*k.file)));
    let row = run.measurements.iter().find(|m| m.rung == OF_TRAINING).unwrap();
    assert!(matches!(&row.outcome, Outcome::Skipped { why } if why.contains("GPU")), "{:?}", row.outcome);
    let compiler = warpbook::device::Compiler::new(None).unwrap_or_else(|e| panic!("{e}"));
    let experiments: [(&dyn Experiment, &str, &str); 2] =
        [(&product(), OF_MATMUL, "gemm"), (&descent(), OF_REGRESSION, "pass")];
    for (experiment, id, kernel) in experiments {
        let rung = experiment.rungs().into_iter().find(|r| r.id == id).unwrap();
        for problem in experiment.problems() {
            let spec = experiment.compiled(&lab, &rung, &problem).unwrap();
            let built = compiler.compile(&spec, &spec.tiles[0], "sm_90").unwrap_or_else(|e| panic!("{e}"));
            assert!(built.stats_of(kernel).is_some_and(|s| s.registers > 0), "{id} at {}", problem.label);
        }
    }
    for spec in rung.kernels() {
        let built = compiler.compile(spec, &spec.tiles[0], "sm_90").unwrap_or_else(|e| panic!("{e}"));
        assert!(built.stats_of(&spec.entry).is_some_and(|s| s.registers > 0), "{} of {OF_TRAINING}", spec.entry);
    }
}

#[test]
fn it_is_chosen_by_name_like_any_other() {
    let lab = quick("cpu");
    let only = lab.run(&product().rungs([OF_MATMUL])).unwrap();
    assert!(!only.measurements.is_empty() && only.measurements.iter().all(|m| m.rung == OF_MATMUL));
    let only = lab.run(&descent().rungs([OF_REGRESSION])).unwrap();
    assert!(!only.measurements.is_empty() && only.measurements.iter().all(|m| m.rung == OF_REGRESSION));
    let only = lab.run(&training().rungs([OF_TRAINING])).unwrap();
    assert!(!only.measurements.is_empty() && only.measurements.iter().all(|m| m.rung == OF_TRAINING));
    // Without its row, the rung's name is unknown.
    assert!(lab.run(&Training::quick().batches([8]).steps(2).rungs([OF_TRAINING])).is_err());
    assert!(lab.run(&Matmul::new().rungs([OF_MATMUL])).is_err());
    assert!(lab.run(&Regression::new().rungs([OF_REGRESSION])).is_err());
}

#[test]
fn it_is_checked_and_timed_on_a_gpu() {
    let Some(_): Option<CudaDevice> = testing::gpu("it_is_checked_and_timed_on_a_gpu") else { return };
    let lab = quick("cuda:0");
    let runs = [
        lab.run(&product().rungs([OF_MATMUL, "02_coalesced"])).unwrap(),
        lab.run(&descent().rungs([OF_REGRESSION, "02_fused"])).unwrap(),
    ];
    for run in &runs {
        assert!(run.measurements.len() >= 2);
        for m in &run.measurements {
            assert!(m.is_valid(), "{} at {}: {:?} {:?}", m.rung, m.problem.label, m.outcome, m.check);
            assert!(!m.traffic.is_empty() && !m.kernels.is_empty(), "{}", m.rung);
        }
    }
    let run = lab.run(&training().batches([32]).rungs([OF_TRAINING, "09_overlap_bf16"])).unwrap();
    assert_eq!(run.measurements.len(), 2);
    for m in &run.measurements {
        assert!(m.is_valid(), "{} at {}: {:?} {:?}", m.rung, m.problem.label, m.outcome, m.check);
        assert!(m.kernels.iter().any(|k| k.entry == "unroll") == (m.rung == OF_TRAINING), "{}", m.rung);
    }
}

//! Tests of convolutions as an experiment: on the CPU, and on a GPU if there is one.

use warpbook::device::{Bench, testing};
use warpbook::nn::ops::conv2d::cuda::Pass;
use warpbook::record::{Dtype, Measurement, Outcome, Run};
use warpbook::{ConvolutionLayer, Convolutions, Experiment, LAYERS, Lab};

fn quick(device: &str) -> Lab {
    Lab::open(device).unwrap().with_bench(Bench { samples: 3, budget_s: 0.05, warmup: 1, ..Bench::default() })
}

fn layer(name: &str) -> &'static ConvolutionLayer {
    ConvolutionLayer::named(name).unwrap()
}

fn skipped<'a>(run: &'a Run, rung: &str) -> &'a str {
    let m = run.measurements.iter().find(|m| m.rung == rung).unwrap_or_else(|| panic!("no row of {rung}"));
    match &m.outcome {
        Outcome::Skipped { why } => why,
        other => panic!("{rung}: {other:?}"),
    }
}

#[test]
fn the_cpu_is_right_at_every_layer_and_pass() {
    let experiment = Convolutions::new().batches([2]).dtypes([Dtype::F32]);
    let run = quick("cpu").run(&experiment).unwrap();
    // Two of the layers are the first of their network and have no input gradient.
    assert_eq!(run.problems.len(), LAYERS.len() * 3 - 2);
    let of_cpu: Vec<&Measurement> = run.measurements.iter().filter(|m| m.rung == "cpu_all_threads").collect();
    assert_eq!(of_cpu.len(), run.problems.len());
    for m in of_cpu {
        assert!(m.is_valid(), "{}: {:?} {:?}", m.problem.label, m.outcome, m.check);
        assert!(m.check.as_ref().is_some_and(|c| c.max_rel_error > 0.0), "{}: compared with itself?", m.problem.label);
    }
    assert_eq!(run.main_problem.as_deref(), Some(&*experiment.plan(None).unwrap().main_problem.unwrap().id));
}

#[test]
fn what_is_left_out_says_why() {
    let run = |dtype| {
        let experiment = Convolutions::new().layers([layer("mnist-1")]).passes([Pass::Forward]).batches([2]);
        quick("cpu").run(&experiment.dtypes([dtype])).unwrap()
    };
    let half = run(Dtype::F16);
    assert!(skipped(&half, "cpu_all_threads").contains("fp32"));
    assert!(skipped(&half, "05_shifted_windows").contains("sm_90a"));
    let run = quick("cpu").run(&Convolutions::new().layers([layer("mnist-2")]).batches([1024]).dtypes([Dtype::F32]));
    assert!(skipped(&run.unwrap(), "cpu_all_threads").contains("would take"));
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let lab = quick("cpu");
    let check = |e: Convolutions, expect: &str| {
        let error = lab.run(&e).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    check(Convolutions::new().layers([]), "Name at least one of each");
    check(Convolutions::new().batches([]), "Name at least one of each");
    check(Convolutions::new().layers([&LAYERS[0]]).passes([Pass::InputGradient]), "has no input gradient");
    check(Convolutions::new().batches([0]), "choose from 1 to");
    check(Convolutions::new().dtypes([Dtype::F64]), "choose fp32");
    check(Convolutions::new().rungs(["05_shifted_window"]), "05_shifted_windows");
}

#[test]
fn the_command_repeats_the_settings() {
    let e = Convolutions::new().layers([layer("mnist-2"), layer("cifar10-1")]).batches([3, 4]).passes([Pass::Forward]);
    assert_eq!(
        e.rungs(["cudnn"]).plan(None).unwrap().command_on("cuda:0"),
        "warpbook run convolution --layer mnist-2,cifar10-1 --batch 3,4 --pass forward --dtype fp16 --seed 1 --rungs cudnn --device cuda:0"
    );
    let all = Convolutions::new().plan(None).unwrap().command;
    assert!(all.contains("--pass forward,input-gradient,weight-gradient") && !all.contains("--batch"), "{all}");
}

#[test]
fn every_rung_is_right_or_says_why_on_a_gpu() {
    let Some(device) = testing::gpu("every_rung_is_right_or_says_why_on_a_gpu") else { return };
    let dtypes = [Dtype::F32, Dtype::Tf32, Dtype::F16, Dtype::Bf16];
    let run = quick("cuda:0").run(&Convolutions::new().batches([5]).dtypes(dtypes)).unwrap();
    let is_hopper = device.info().compute_capability == Some((9, 0));
    for m in &run.measurements {
        let what = format!("{} at {}", m.rung, m.problem.label);
        match &m.outcome {
            Outcome::Measured => assert!(m.is_valid(), "{what}: {:?}", m.check),
            Outcome::Skipped { why } => {
                let text = |name: &str| m.problem.text(name).unwrap().to_owned();
                let expected = match &*m.rung {
                    "cpu_all_threads" | "01_direct" | "03_implicit_gemm" => m.problem.dtype != Dtype::F32,
                    "02_im2col" => false,
                    "04_implicit_tensor_cores" => m.problem.dtype == Dtype::F32,
                    "05_shifted_windows" | "06_shifted_gradient" => {
                        !is_hopper
                            || !matches!(m.problem.dtype, Dtype::F16 | Dtype::Bf16)
                            || text("layer").ends_with("-1")
                            || text("layer").starts_with("speedrun")
                            || (text("pass") == "weight-gradient") == (m.rung == "05_shifted_windows")
                    }
                    "07_few_channels" => {
                        !matches!(m.problem.dtype, Dtype::F16 | Dtype::Bf16)
                            || !text("layer").ends_with("-1")
                            || text("pass") == "input-gradient"
                    }
                    "08_tma_im2col" => {
                        let gathers = match text("layer") {
                            layer if layer == "speedrun-4" => text("pass") == "input-gradient",
                            layer if layer == "speedrun-5" => text("pass") != "weight-gradient",
                            _ => false,
                        };
                        !is_hopper || !matches!(m.problem.dtype, Dtype::F16 | Dtype::Bf16) || !gathers
                    }
                    _ => why.contains("cuDNN"),
                };
                assert!(expected, "{what} is skipped: {why}");
            }
            // The library must support the types that training uses, not every type.
            Outcome::Failed { error } => {
                let is_needed = matches!(m.problem.dtype, Dtype::F16 | Dtype::F32);
                assert!(m.rung == "cudnn" && !is_needed, "{what}: {error}");
            }
        }
    }
}

/// Uses as many tiles per block as the published batches do, and fewer stages than warpgroups.
#[test]
fn large_batches_are_right_on_a_gpu() {
    if testing::gpu("large_batches_are_right_on_a_gpu").is_none() {
        return;
    }
    let ids = [
        "02_im2col",
        "04_implicit_tensor_cores",
        "05_shifted_windows",
        "06_shifted_gradient",
        "07_few_channels",
        "08_tma_im2col",
    ];
    let run = quick("cuda:0").run(&Convolutions::new().batches([512]).rungs(ids)).unwrap();
    let measured: Vec<&Measurement> = run.measurements.iter().filter(|m| m.outcome == Outcome::Measured).collect();
    assert!(measured.len() >= run.problems.len());
    for m in measured {
        assert!(m.is_valid(), "{} at {}: {:?}", m.rung, m.problem.label, m.check);
    }
}

//! A training run of PyTorch's, step by step: `WARPBOOK_GOLDEN` names the folder that holds it, `WARPBOOK_DATA` that of MNIST.

use std::path::PathBuf;
use warpbook_device::testing;
use warpbook_nn::data::{self, Dataset};
use warpbook_nn::network::{Arrangement, Network, Node, Op, mnist_cnn};
use warpbook_nn::ops::augment::{self, Augment};
use warpbook_nn::ops::conv2d::cuda::Method;
use warpbook_nn::ops::cross_entropy::CrossEntropy;
use warpbook_nn::ops::optimizer::Optimizer;
use warpbook_nn::ops::reference;
use warpbook_nn::ops::schedule::Schedule;
use warpbook_nn::train::{
    CpuEngine, CudaOptions, Event, Flow, GradScaler, Loss, Mode, Place, Precision, Recipe, Target, Trainer, ways,
};
use warpbook_nn::weights::Weights;

const BATCH: usize = 512;
const MEAN: [f32; 1] = [0.1307];
const DEVIATION: [f32; 1] = [0.3081];

struct Golden {
    folder: PathBuf,
    json: serde_json::Value,
    data: data::Splits,
}

impl Golden {
    /// What PyTorch left, where it is there; otherwise says that the test was skipped.
    fn open(test: &str) -> Option<Self> {
        if cfg!(debug_assertions) {
            println!("skipped: {test}: takes minutes without optimisation; use cargo test --release");
            return None;
        }
        let (Some(folder), Some(_)) = (std::env::var_os("WARPBOOK_GOLDEN"), std::env::var_os("WARPBOOK_DATA")) else {
            let all_have_to_run = std::env::var("WARPBOOK_REQUIRE_GPU").as_deref() == Ok("1");
            assert!(!all_have_to_run, "{test} needs WARPBOOK_GOLDEN and WARPBOOK_DATA");
            println!("skipped: {test}: needs WARPBOOK_GOLDEN and WARPBOOK_DATA");
            return None;
        };
        let folder = PathBuf::from(folder);
        let text = std::fs::read_to_string(folder.join("mnist_cnn.golden.json")).unwrap();
        Some(Self { folder, json: serde_json::from_str(&text).unwrap(), data: data::open("mnist", None).unwrap() })
    }

    fn losses(&self) -> Vec<f64> {
        self.json["losses"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
    }

    fn weights(&self, network: &Network) -> Weights {
        Weights::load(network, self.folder.join("mnist_cnn.init.safetensors")).unwrap()
    }

    fn engine(&self, optimizer: &Optimizer) -> CpuEngine {
        let network = mnist_cnn(0.0, 0.0);
        CpuEngine::new(&network, BATCH, &self.weights(&network), optimizer).unwrap()
    }

    /// The run's first steps.
    fn recipe(&self, steps: u64) -> Recipe {
        Recipe {
            learning_rate: 0.01,
            schedule: Schedule::Constant,
            epochs: 1,
            steps: Some(steps),
            shuffle: false,
            network: mnist_cnn(0.0, 0.0),
            ..Recipe::mnist()
        }
    }

    /// Losses of the first steps, and the accuracy over the test images.
    fn on(&self, place: &Place, steps: u64) -> (Vec<f64>, f64) {
        let recipe = self.recipe(steps);
        let weights = self.weights(&recipe.network);
        let mut trainer = Trainer::on(place, recipe, &self.data.train, Some(&weights)).unwrap();
        let mut losses = Vec::new();
        let listener = &mut |event: Event| {
            if let Event::Step { loss, .. } = event {
                losses.push(loss);
            }
            Flow::Continue
        };
        trainer.train(&self.data.train, &self.data.test, 100, listener).unwrap();
        (losses, trainer.evaluate(&self.data.test).unwrap().accuracy())
    }
}

/// Puts the images from `first` on into the engine, and gives their labels.
fn fill(engine: &mut CpuEngine, set: &Dataset, first: usize, n: usize) -> Vec<u8> {
    let normalise = Augment {
        channels: 1,
        height: 28,
        width: 28,
        mean: &MEAN,
        deviation: &DEVIATION,
        padding: 0,
        flip: false,
        seed: 0,
        step: 0,
    };
    let indices: Vec<u32> = (first..first + n).map(|i| i as u32).collect();
    augment::cpu::gather(&normalise, set.images(), &indices, engine.input(n)).unwrap();
    set.labels()[first..first + n].to_vec()
}

#[test]
fn twenty_steps_on_the_cpu_follow_pytorch() {
    let Some(golden) = Golden::open("twenty_steps_on_the_cpu_follow_pytorch") else { return };
    let optimizer = Optimizer::Sgd { momentum: 0.9, nesterov: false, weight_decay: 0.0 };
    let mut engine = golden.engine(&optimizer);
    let loss = Loss::CrossEntropy { smoothing: 0.0 };
    // All hundred where time is no matter.
    let steps = std::env::var("WARPBOOK_GOLDEN_STEPS").ok().and_then(|s| s.parse().ok()).unwrap_or(20);
    let expected = golden.losses();
    let started = std::time::Instant::now();
    for (step, expect) in expected.iter().enumerate().take(steps) {
        let labels = fill(&mut engine, &golden.data.train, step * BATCH, BATCH);
        engine.forward(BATCH, Mode::Training { seed: 1, step: step as u32 }).unwrap();
        let got = engine.backward(loss, Target::Labels(&labels), BATCH, 1.0).unwrap().mean;
        engine.update(&optimizer, 0.01, step as u64 + 1).unwrap();
        let bound = match step {
            0 => 1e-5,
            1..20 => 2e-4,
            _ => 0.03,
        };
        let error = (got - expect).abs() / expect;
        assert!(error <= bound, "step {step}: loss {got}, PyTorch's {expect}, relative error {error:.1e}");
    }
    println!("{steps} steps in {:.1} s", started.elapsed().as_secs_f64());
    if steps == expected.len() {
        let (test, mut correct) = (&golden.data.test, 0);
        for first in (0..test.len()).step_by(BATCH) {
            let n = BATCH.min(test.len() - first);
            let labels = fill(&mut engine, test, first, n);
            engine.forward(n, Mode::Inference).unwrap();
            correct += engine.loss(loss, Target::Labels(&labels), n).unwrap().correct;
        }
        let (got, expect) = (correct as f64 / test.len() as f64, golden.json["test_accuracy"].as_f64().unwrap());
        assert!((got - expect).abs() <= 0.003, "test accuracy {got}, PyTorch's {expect}");
    }
}

/// Bounds of the relative errors as of [`bounds`].
fn check_losses(what: &str, got: &[f64], want: &[f64], [first, twenty, all, mean]: [f64; 4]) {
    for (step, (got, want)) in got.iter().zip(want).enumerate() {
        let bound = match step {
            0 => first,
            1..20 => twenty,
            _ => all,
        };
        let error = (got - want).abs() / want;
        assert!(error <= bound, "{what}, step {step}: loss {got}, PyTorch's {want}, relative error {error:.1e}");
    }
    if got.len() == want.len() {
        let of = |losses: &[f64]| losses[50..].iter().sum::<f64>() / 50.0;
        let error = (of(got) / of(want) - 1.0).abs();
        assert!(error <= mean, "{what}: the mean of the last 50 losses is off by {error:.1e}");
    }
}

/// The bounds of a precision: of the first loss, of the first twenty, of all, and of the mean of the last fifty.
fn bounds(precision: Precision) -> [f64; 4] {
    if precision == Precision::Fp32 { [1e-5, 2e-4, 0.03, 0.03] } else { [0.01, 0.01, 0.06, 0.02] }
}

#[test]
fn every_rung_follows_pytorch() {
    const TEST: &str = "every_rung_follows_pytorch";
    let Some(device) = testing::gpu(TEST) else { return };
    let Some(golden) = Golden::open(TEST) else { return };
    let (want, recipe) = (golden.losses(), golden.recipe(20));
    for way in ways().into_iter().filter(|w| w.requires.met_by(device.info().compute_capability)) {
        if let Some(why) = way.obstacle(&device, &recipe) {
            testing::skip(TEST, "needs cuDNN and cuBLAS", format!("{}: {why}", way.id));
            continue;
        }
        let mut options = way.options;
        if way.base.is_some() {
            // A library's weight gradients are in fp16 with its products: at the usual scale some overflow, and their steps are skipped.
            options.scaler = GradScaler { init_scale: 256.0, ..GradScaler::default() };
        }
        let (got, _) = golden.on(&Place::Cuda(device.clone(), options), 20);
        let worst = got.iter().zip(&want).fold(0.0f64, |worst, (g, w)| worst.max((g - w).abs() / w));
        println!("{}: relative errors of at most {worst:.1e}", way.id);
        check_losses(way.id, &got, &want, bounds(options.precision));
    }
}

#[test]
fn a_hundred_steps_on_a_gpu_follow_pytorch() {
    const TEST: &str = "a_hundred_steps_on_a_gpu_follow_pytorch";
    let Some(device) = testing::gpu(TEST) else { return };
    let Some(golden) = Golden::open(TEST) else { return };
    let (want, accuracy) = (golden.losses(), golden.json["test_accuracy"].as_f64().unwrap());
    let of_turing = CudaOptions { convolution: Method::ImplicitGemmTuring, ..CudaOptions::new(Precision::AmpFp16) };
    for options in Precision::ALL.map(CudaOptions::new).into_iter().chain([of_turing]) {
        let (precision, what) = (options.precision, format!("{} by {:?}", options.precision, options.convolution));
        let (got, right) = golden.on(&Place::Cuda(device.clone(), options), 100);
        check_losses(&what, &got, &want, bounds(precision));
        assert!((right - accuracy).abs() <= 0.003, "{what}: test accuracy {right}, PyTorch's {accuracy}");
    }
}

/// The gradients of all parameters in f64, as the engine stores them: of a network of convolutions, ReLU, max pools and linear layers.
fn gradients_in_f64(network: &Network, stored: &[Vec<f64>], x: Vec<f64>, labels: &[u8]) -> Vec<Vec<f64>> {
    let (n, mut values) = (labels.len(), vec![x]);
    let geometry = |node: &Node| network.conv_geometry(node, n);
    let windows = |node: &Node| network.pool_geometry(node, n);
    let sizes = |node: &Node| network.linear_sizes(node, n);
    for node in network.nodes() {
        let x = &values[node.input];
        let param = |i: usize| &stored[node.params[i]][..];
        values.push(match node.op {
            Op::Conv2d(_) => reference::conv2d(&geometry(node), x, param(0), Some(param(1))),
            Op::Linear { .. } => reference::linear(&sizes(node), x, param(0), Some(param(1))),
            Op::Activation(f) => reference::activation(f, x),
            Op::Pool(_) => reference::max_pool(&windows(node), x).0,
            Op::Flatten => x.clone(),
            _ => panic!("{} is not in this network", node.name),
        });
    }
    let logits = values.last().unwrap();
    let loss = CrossEntropy { batch: n, classes: logits.len() / n, smoothing: 0.0 };
    let mut dy = reference::cross_entropy_gradient(&loss, logits, labels);
    let mut gradients = vec![Vec::new(); stored.len()];
    for node in network.nodes().iter().rev() {
        let x = &values[node.input];
        let weight = node.params.first().map_or(&[][..], |id| &stored[*id]);
        dy = match node.op {
            Op::Conv2d(_) => {
                let g = geometry(node);
                gradients[node.params[0]] = reference::conv2d_weight_gradient(&g, x, &dy);
                gradients[node.params[1]] = reference::conv2d_bias_gradient(&g, &dy);
                reference::conv2d_input_gradient(&g, &dy, weight)
            }
            Op::Linear { .. } => {
                let s = sizes(node);
                gradients[node.params[0]] = reference::linear_weight_gradient(&s, x, &dy);
                gradients[node.params[1]] = reference::linear_bias_gradient(&dy, s.outputs);
                reference::linear_input_gradient(&s, &dy, weight)
            }
            Op::Activation(f) => reference::activation_gradient(f, x, &dy),
            Op::Pool(_) => reference::max_pool_gradient(&windows(node), x, &dy),
            _ => dy,
        };
    }
    gradients
}

#[test]
fn gradients_of_the_first_step_are_those_in_f64() {
    let Some(golden) = Golden::open("gradients_of_the_first_step_are_those_in_f64") else { return };
    const N: usize = 32;
    let sgd = Optimizer::sgd();
    let mut engine = golden.engine(&sgd);
    let network = engine.network().clone();
    let arrangement = Arrangement::of(&network);
    let exact = |v: &[f32]| v.iter().map(|v| f64::from(*v)).collect::<Vec<f64>>();
    let in_order = |w: &Weights| -> Vec<Vec<f64>> {
        w.values().iter().enumerate().map(|(id, v)| exact(&arrangement.store(id, v))).collect()
    };
    let labels = fill(&mut engine, &golden.data.train, 0, N);
    let x = exact(engine.input(N));
    let want = gradients_in_f64(&network, &in_order(&engine.weights().unwrap()), x, &labels);
    engine.forward(N, Mode::Training { seed: 1, step: 0 }).unwrap();
    engine.backward(Loss::CrossEntropy { smoothing: 0.0 }, Target::Labels(&labels), N, 1.0).unwrap();
    let got = in_order(&engine.gradients().unwrap());
    for ((spec, got), want) in network.params().iter().zip(&got).zip(&want) {
        let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|v| v * v).sum::<f64>().sqrt();
        let error = norm(&mut got.iter().zip(want).map(|(a, b)| a - b)) / norm(&mut want.iter().copied());
        assert!(error <= 1e-5, "{}: relative error {error:.1e}", spec.name);
    }
}

#[test]
fn gradients_of_the_first_step_on_a_gpu_are_those_in_f64() {
    const TEST: &str = "gradients_of_the_first_step_on_a_gpu_are_those_in_f64";
    let Some(device) = testing::gpu(TEST) else { return };
    let Some(golden) = Golden::open(TEST) else { return };
    const N: usize = 32;
    let recipe = Recipe { batch: N, ..golden.recipe(1) };
    let network = recipe.network.clone();
    let (weights, arrangement) = (golden.weights(&network), Arrangement::of(&network));
    let mut engine = CpuEngine::new(&network, N, &weights, &Optimizer::sgd()).unwrap();
    let labels = fill(&mut engine, &golden.data.train, 0, N);
    let exact = |v: &[f32]| v.iter().map(|v| f64::from(*v)).collect::<Vec<f64>>();
    let in_order = |w: &Weights| -> Vec<Vec<f64>> {
        w.values().iter().enumerate().map(|(id, v)| exact(&arrangement.store(id, v))).collect()
    };
    let x = exact(engine.input(N));
    let want = gradients_in_f64(&network, &in_order(&weights), x, &labels);
    for precision in Precision::ALL {
        let place = Place::Cuda(device.clone(), CudaOptions::new(precision));
        let mut trainer = Trainer::on(&place, recipe.clone(), &golden.data.train, Some(&weights)).unwrap();
        trainer.train(&golden.data.train, &golden.data.test, 1, &mut |_| Flow::Continue).unwrap();
        let got = in_order(&trainer.gradients().unwrap());
        let bound = match precision {
            Precision::Fp32 => 1e-5,
            // 11 bits of a mantissa, or 8; the terms of the first layer's sums nearly cancel.
            Precision::Tf32 | Precision::AmpFp16 => 5e-2,
            Precision::AmpBf16 => 4e-1,
        };
        for ((spec, got), want) in network.params().iter().zip(&got).zip(&want) {
            let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|v| v * v).sum::<f64>().sqrt();
            let error = norm(&mut got.iter().zip(want).map(|(a, b)| a - b)) / norm(&mut want.iter().copied());
            println!("{precision}, {}: relative error {error:.1e}", spec.name);
            assert!(error <= bound, "{precision}, {}: relative error {error:.1e}", spec.name);
        }
    }
}

//! A training run of PyTorch's, step by step: `WARPBOOK_GOLDEN` names the folder that holds it, `WARPBOOK_DATA` that of MNIST.

use std::path::PathBuf;
use warpbook_nn::data::{self, Dataset};
use warpbook_nn::network::mnist_cnn;
use warpbook_nn::ops::augment::{self, Augment};
use warpbook_nn::ops::optimizer::Optimizer;
use warpbook_nn::train::{CpuEngine, Loss, Mode, Target};
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

    fn engine(&self, optimizer: &Optimizer) -> CpuEngine {
        let network = mnist_cnn(0.0, 0.0);
        let weights = Weights::load(&network, self.folder.join("mnist_cnn.init.safetensors")).unwrap();
        CpuEngine::new(&network, BATCH, &weights, optimizer).unwrap()
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
}

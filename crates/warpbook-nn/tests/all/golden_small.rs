//! Twenty steps of a small network in PyTorch, repeated on the CPU and on a GPU. `notebooks/pytorch/golden.py` wrote `tests/golden`.

use safetensors::SafeTensors;
use std::path::PathBuf;
use warpbook_data::Dataset;
use warpbook_device::testing;
use warpbook_nn::network::*;
use warpbook_nn::ops::augment::{self, Augment};
use warpbook_nn::ops::optimizer::Optimizer;
use warpbook_nn::ops::schedule::Schedule;
use warpbook_nn::train::{
    CpuEngine, CudaOptions, Event, Flow, GradScaler, Loss, Mode, Place, Precision, Recipe, Target, Trainer,
};
use warpbook_nn::weights::Weights;

const SHAPE: [usize; 3] = [3, 12, 12];

fn network() -> Network {
    let layers = [
        conv2d(8, 3).stride(2).padding(1),
        batch_norm(),
        gelu(),
        residual([conv2d(8, 3).padding(1).without_bias(), batch_norm(), relu()]),
        max_pool(2).stride(1),
        conv2d(12, 2),
        gelu(),
        avg_pool(2),
        flatten(),
        linear(16),
        relu(),
        dropout(0.0),
        linear(5),
    ];
    Network::new(SHAPE, layers).unwrap()
}

struct Golden {
    json: serde_json::Value,
    weights: Weights,
    images: Vec<u8>,
    labels: Vec<u8>,
}

impl Golden {
    fn open() -> Self {
        let folder = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("tests/golden");
        let file = std::fs::read(folder.join("small.images.safetensors")).unwrap();
        let tensors = SafeTensors::deserialize(&file).unwrap();
        let bytes = |name: &str| tensors.tensor(name).unwrap().data().to_vec();
        Self {
            json: serde_json::from_slice(&std::fs::read(folder.join("small.golden.json")).unwrap()).unwrap(),
            weights: Weights::load(&network(), folder.join("small.init.safetensors")).unwrap(),
            images: bytes("images"),
            labels: bytes("labels"),
        }
    }

    fn floats(value: &serde_json::Value) -> Vec<f64> {
        value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
    }

    /// Writes `n` images, starting at `first`, into the engine, and returns their labels.
    fn fill(&self, engine: &mut CpuEngine, first: usize, n: usize) -> Vec<u8> {
        let channel = |name: &str| Self::floats(&self.json[name]).into_iter().map(|v| v as f32).collect::<Vec<_>>();
        let (mean, deviation) = (channel("mean"), channel("deviation"));
        let normalise = Augment::normalise(SHAPE, &mean, &deviation);
        let indices: Vec<u32> = (first..first + n).map(|i| i as u32).collect();
        augment::cpu::gather(&normalise, &self.images, &indices, engine.input(n)).unwrap();
        self.labels[first..first + n].to_vec()
    }

    /// Trains like PyTorch, and compares losses, the first gradients and the final logits.
    fn follow(&self, name: &str, optimizer: &Optimizer) {
        let run = &self.json["runs"][name];
        let batch = self.json["batch"].as_u64().unwrap() as usize;
        let loss = Loss::CrossEntropy { smoothing: self.json["smoothing"].as_f64().unwrap() as f32 };
        let learning_rate = run["learning_rate"].as_f64().unwrap();
        let mut engine = CpuEngine::new(&network(), batch, &self.weights, optimizer).unwrap();
        let losses = Self::floats(&run["losses"]);
        assert_eq!(losses.len(), 20);
        for (step, want) in losses.iter().enumerate() {
            let labels = self.fill(&mut engine, step * batch % self.labels.len(), batch);
            engine.forward(batch, Mode::Training { seed: 1, step: step as u32 }).unwrap();
            let got = engine.backward(loss, Target::Labels(&labels), batch, 1.0).unwrap().mean;
            if step == 0 {
                assert!((got - want).abs() <= 1e-5, "{name}: the first loss is {got}, PyTorch's {want}");
                compare_gradients(name, &engine.gradients().unwrap(), &run["gradient_norms"]);
            }
            let error = (got - want).abs() / want;
            assert!(error <= 1e-3, "{name}, step {step}: loss {got}, PyTorch's {want}, relative error {error:.1e}");
            engine.update(optimizer, learning_rate, step as u64 + 1).unwrap();
        }
        self.fill(&mut engine, 0, 4);
        engine.forward(4, Mode::Inference).unwrap();
        let logits = run["logits"].as_array().unwrap().iter().flat_map(Self::floats);
        for (got, want) in engine.outputs(4).iter().zip(logits) {
            assert!((f64::from(*got) - want).abs() <= 1e-3, "{name}: a logit is {got}, PyTorch's {want}");
        }
    }
}

impl Golden {
    /// Trains a recipe on a device, and compares losses and the running statistics' effect on the logits.
    fn follow_on(&self, place: &Place, name: &str, optimizer: Optimizer, allowed: f64) {
        let run = &self.json["runs"][name];
        let classes = ["a", "b", "c", "d", "e"];
        let data = Dataset::from_arrays("golden", SHAPE, self.images.clone(), self.labels.clone(), classes).unwrap();
        let channel = |name: &str| Self::floats(&self.json[name]).into_iter().map(|v| v as f32).collect();
        let recipe = Recipe {
            name: "golden".into(),
            network: network(),
            loss: Loss::CrossEntropy { smoothing: self.json["smoothing"].as_f64().unwrap() as f32 },
            optimizer,
            learning_rate: run["learning_rate"].as_f64().unwrap(),
            schedule: Schedule::Constant,
            batch: self.json["batch"].as_u64().unwrap() as usize,
            epochs: 4,
            mean: channel("mean"),
            deviation: channel("deviation"),
            shuffle: false,
            ..Recipe::mnist()
        };
        let mut trainer = Trainer::on(place, recipe, &data, Some(&self.weights)).unwrap();
        let mut losses = Vec::new();
        let listener = &mut |event: Event| {
            if let Event::Step { loss, .. } = event {
                losses.push(loss);
            }
            Flow::Continue
        };
        trainer.train(&data, &data, 100, listener).unwrap();
        let want = Self::floats(&run["losses"]);
        assert_eq!(losses.len(), want.len());
        for (step, (got, want)) in losses.iter().zip(&want).enumerate() {
            let error = (got - want).abs() / want;
            assert!(
                error <= allowed,
                "{name} on {place}, step {step}: loss {got}, PyTorch's {want}, off by {error:.1e}"
            );
        }
        let mut engine = CpuEngine::new(&network(), 4, &trainer.weights().unwrap(), &optimizer).unwrap();
        self.fill(&mut engine, 0, 4);
        engine.forward(4, Mode::Inference).unwrap();
        let logits: Vec<f64> = run["logits"].as_array().unwrap().iter().flat_map(Self::floats).collect();
        let apart = engine.outputs(4).iter().zip(&logits).fold(0.0f64, |most, (got, want)| {
            let apart = (f64::from(*got) - want).abs();
            if apart.is_nan() { f64::INFINITY } else { most.max(apart) }
        });
        println!("{name} on {place}: logits differ by at most {apart:.1e}");
        assert!(apart <= 10.0 * allowed, "{name} on {place}: logits differ by {apart:.1e}");
    }
}

const ADAM: Optimizer = Optimizer::Adam { betas: [0.9, 0.999], epsilon: 1e-8, weight_decay: 1e-3 };
const NESTEROV: Optimizer = Optimizer::Sgd { momentum: 0.9, nesterov: true, weight_decay: 5e-4 };

fn compare_gradients(name: &str, got: &Weights, want: &serde_json::Value) {
    let trained = got.specs().iter().zip(got.values()).filter(|(s, _)| s.role.is_trained());
    let mut compared = 0;
    for (spec, values) in trained {
        let norm = values.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
        let want = want[&spec.name].as_f64().unwrap_or_else(|| panic!("PyTorch has no {}", spec.name));
        // The gradient of a bias before a batch normalisation is only rounding error.
        assert!((norm - want).abs() <= 1e-4 * want + 1e-6, "{name}, {}: norm {norm}, PyTorch's {want}", spec.name);
        compared += 1;
    }
    assert_eq!(compared, want.as_object().unwrap().len());
}

#[test]
fn adam_follows_pytorch() {
    let golden = Golden::open();
    golden.follow("adam", &ADAM);
    golden.follow_on(&Place::Cpu, "adam", ADAM, 1e-3);
}

#[test]
fn nesterov_s_momentum_follows_pytorch() {
    let golden = Golden::open();
    golden.follow("sgd_nesterov", &NESTEROV);
    golden.follow_on(&Place::Cpu, "sgd_nesterov", NESTEROV, 1e-3);
}

#[test]
fn a_gpu_follows_pytorch_in_every_precision() {
    let Some(device) = testing::gpu("a_gpu_follows_pytorch_in_every_precision") else { return };
    let golden = Golden::open();
    // Small batches have large gradients, so at the usual scale a step could be skipped.
    let scaler = GradScaler { init_scale: 256.0, ..GradScaler::default() };
    for precision in Precision::ALL {
        let place = Place::Cuda(device.clone(), CudaOptions { scaler, ..CudaOptions::new(precision) });
        let allowed = match precision {
            Precision::Fp32 => 1e-3,
            Precision::Tf32 | Precision::AmpFp16 => 5e-3,
            Precision::AmpBf16 => 2e-2,
        };
        for (name, optimizer) in [("adam", ADAM), ("sgd_nesterov", NESTEROV)] {
            golden.follow_on(&place, name, optimizer, allowed);
        }
    }
}

//! Twenty steps of a small network in PyTorch, followed on the CPU: `notebooks/pytorch/golden.py` made `tests/golden`.

use safetensors::SafeTensors;
use std::path::PathBuf;
use warpbook_nn::network::*;
use warpbook_nn::ops::augment::{self, Augment};
use warpbook_nn::ops::optimizer::Optimizer;
use warpbook_nn::train::{CpuEngine, Loss, Mode, Target};
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

    /// Puts `n` images from `first` on into the engine, and gives their labels.
    fn fill(&self, engine: &mut CpuEngine, first: usize, n: usize) -> Vec<u8> {
        let channel = |name: &str| Self::floats(&self.json[name]).into_iter().map(|v| v as f32).collect::<Vec<_>>();
        let [channels, height, width] = SHAPE;
        let normalise = Augment {
            channels,
            height,
            width,
            mean: &channel("mean"),
            deviation: &channel("deviation"),
            padding: 0,
            flip: false,
            seed: 0,
            step: 0,
        };
        let indices: Vec<u32> = (first..first + n).map(|i| i as u32).collect();
        augment::cpu::gather(&normalise, &self.images, &indices, engine.input(n)).unwrap();
        self.labels[first..first + n].to_vec()
    }

    /// Trains as PyTorch did, and compares losses, the first gradients and the logits at the end.
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

fn compare_gradients(name: &str, got: &Weights, want: &serde_json::Value) {
    let trained = got.specs().iter().zip(got.values()).filter(|(s, _)| s.role.is_trained());
    let mut compared = 0;
    for (spec, values) in trained {
        let norm = values.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
        let want = want[&spec.name].as_f64().unwrap_or_else(|| panic!("PyTorch has no {}", spec.name));
        // A bias before a batch normalisation has no gradient but rounding.
        assert!((norm - want).abs() <= 1e-4 * want + 1e-6, "{name}, {}: norm {norm}, PyTorch's {want}", spec.name);
        compared += 1;
    }
    assert_eq!(compared, want.as_object().unwrap().len());
}

#[test]
fn adam_follows_pytorch() {
    Golden::open().follow("adam", &Optimizer::Adam { betas: [0.9, 0.999], epsilon: 1e-8, weight_decay: 1e-3 });
}

#[test]
fn nesterov_s_momentum_follows_pytorch() {
    Golden::open().follow("sgd_nesterov", &Optimizer::Sgd { momentum: 0.9, nesterov: true, weight_decay: 5e-4 });
}

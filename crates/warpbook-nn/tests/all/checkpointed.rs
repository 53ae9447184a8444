//! Gradient checkpointing: the same bits with less memory.

use warpbook_data::synthetic_digits;
use warpbook_device::testing;
use warpbook_nn::network::*;
use warpbook_nn::ops::optimizer::Optimizer;
use warpbook_nn::train::{CudaOptions, Event, Flow, Place, Precision, Recipe, Trainer};

/// Convolutions, batch norms, dropouts, pools and residual branches, one of which begins and ends in other segments.
fn deep() -> Network {
    let conv = || conv2d(8, 3).padding(1);
    let mut layers = vec![conv(), batch_norm(), relu(), conv(), relu(), max_pool(2), dropout(0.2)];
    layers.extend([residual([conv(), batch_norm(), relu(), dropout(0.1), conv(), batch_norm()]), relu()]);
    layers.extend([conv(), gelu(), conv(), relu(), avg_pool(2), residual([conv(), relu(), conv()]), batch_norm()]);
    layers.extend([relu(), flatten(), linear(32), relu(), dropout(0.5), linear(10)]);
    Network::new([1, 28, 28], layers).unwrap()
}

fn recipe(network: Network) -> Recipe {
    let steps = Some(5);
    Recipe { network, optimizer: Optimizer::adam(), learning_rate: 1e-3, batch: 16, steps, ..Recipe::mnist() }
}

/// The results of [`bits`], and the bytes of the training.
type Bits = (Vec<u64>, Vec<Vec<u32>>, Vec<Vec<u32>>, u64);

/// Returns losses, weights with running statistics, and gradients.
fn bits(place: &Place, recipe: Recipe) -> Bits {
    let digits = synthetic_digits(40, 16, 3);
    let mut trainer = Trainer::on(place, recipe, &digits.train, None).unwrap();
    let mut losses = Vec::new();
    let mut hear = |event| {
        if let Event::Step { loss, .. } = event {
            losses.push(loss.to_bits());
        }
        Flow::Continue
    };
    trainer.train(&digits.train, &digits.test, 1, &mut hear).unwrap();
    let bits_of = |weights: warpbook_nn::weights::Weights| -> Vec<Vec<u32>> {
        weights.values().iter().map(|v| v.iter().map(|x| x.to_bits()).collect()).collect()
    };
    let (weights, gradients) = (trainer.weights().unwrap(), trainer.gradients().unwrap());
    (losses, bits_of(weights), bits_of(gradients), trainer.bytes())
}

#[test]
fn a_checkpointed_training_has_the_same_bits() {
    let plain = bits(&Place::Cpu, recipe(deep()));
    assert_eq!(plain.0.len(), 5);
    for segments in [2, 3, 5, 9, 14] {
        let network = deep().checkpointed(segments).unwrap();
        assert_eq!(network.segments().len(), segments);
        let other = bits(&Place::Cpu, recipe(network));
        assert!(plain.0 == other.0 && plain.1 == other.1 && plain.2 == other.2, "{segments} segments");
        // The CPU always keeps the last segment's activations.
        assert!(other.3 < plain.3 || segments == 2, "{} of {} bytes in {segments} segments", other.3, plain.3);
    }
}

#[test]
fn memory_of_equal_layers_grows_with_the_root_of_their_number() {
    let footprint_of = |layers: usize, segments: usize, overlap: bool| {
        let stack = (0..layers).flat_map(|_| [conv2d(16, 3).padding(1), gelu()]);
        let network = Network::new([16, 32, 32], stack).unwrap().checkpointed(segments).unwrap();
        let recipe = Recipe { network, batch: 32, ..Recipe::mnist() };
        let options = CudaOptions { overlap, ..CudaOptions::new(Precision::Fp32) };
        recipe.summary(&options).memory.activations as f64
    };
    for overlap in [false, true] {
        // Compares four times as many layers in twice as many segments.
        let [small, large] = [footprint_of(16, 4, overlap), footprint_of(64, 8, overlap)];
        assert!((1.5..2.6).contains(&(large / small)), "{small} {large}");
        assert!(footprint_of(64, 1, overlap) / large > 3.0, "{} {large}", footprint_of(64, 1, overlap));
    }
}

#[test]
fn a_gpu_s_checkpointed_training_has_the_same_bits() {
    let Some(device) = testing::gpu("a_gpu_s_checkpointed_training_has_the_same_bits") else { return };
    for precision in [Precision::Fp32, Precision::AmpFp16] {
        for (graph, overlap, fused) in [(false, false, false), (false, true, true), (true, true, true)] {
            let options = CudaOptions { graph, overlap, fused, ..CudaOptions::new(precision) };
            let place = Place::Cuda(device.clone(), options);
            let plain = bits(&place, recipe(deep()));
            for segments in [3, 7] {
                let other = bits(&place, recipe(deep().checkpointed(segments).unwrap()));
                let same = plain.0 == other.0 && plain.1 == other.1 && plain.2 == other.2;
                assert!(same, "{precision:?}, {segments} segments, graph {graph}, overlap {overlap}, fused {fused}");
            }
        }
    }
}

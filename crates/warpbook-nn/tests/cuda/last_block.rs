//! A kernel's last block gives the same bits as the kernels that it replaces: the rungs `12_dependent_launch` and `13_last_block`.

use warpbook_data::philox;
use warpbook_data::{Dataset, Rows};
use warpbook_device::{CudaDevice, Slice, testing};
use warpbook_gemm::DeviceArray;
use warpbook_nn::network::{amp_recipe, batch_norm, conv2d, flatten, linear, relu};
use warpbook_nn::ops::cross_entropy::{self, CrossEntropy};
use warpbook_nn::ops::mse;
use warpbook_nn::ops::optimizer::Optimizer;
use warpbook_nn::train::{
    CudaOptions, Event, Flow, GradScaler, Place, Precision, Recipe, Samples, Score, StepOutcome, TrainError, Trainer,
};
use warpbook_nn::weights::Weights;
use warpbook_record::Dtype;

/// Returns the options with separate kernels in place of last blocks, and with last blocks.
fn both(options: CudaOptions) -> [CudaOptions; 2] {
    [false, true].map(|last_block| CudaOptions { last_block, ..options })
}

fn on(device: &CudaDevice, options: CudaOptions) -> Place {
    Place::Cuda(device.clone(), options)
}

/// Noise images; images with a higher label are brighter.
fn images(shape: [usize; 3], n: usize) -> Dataset {
    let len = shape.iter().product::<usize>();
    let labels: Vec<u8> = (0..n).map(|i| (i % 10) as u8).collect();
    let pixel = |i: usize| {
        let base = 15.0 * f32::from(labels[i / len]) + 50.0;
        (base + 30.0 * philox::gaussian(3, i as u64, 0)).clamp(0.0, 255.0) as u8
    };
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    Dataset::from_arrays("noise", shape, (0..n * len).map(pixel).collect(), labels, names).unwrap()
}

enum Data {
    Images(Dataset),
    Rows(Rows),
}

impl Data {
    fn samples(&self) -> Samples<'_> {
        match self {
            Self::Images(set) => set.into(),
            Self::Rows(rows) => rows.into(),
        }
    }
}

/// The three networks, with samples for two batches of 32 and one of 16, so that launches of two shapes share the counters of blocks.
fn trainings() -> Vec<(Recipe, Data)> {
    let small = |r: Recipe| Recipe { batch: 32, epochs: 9, learning_rate: 1e-3, ..r };
    vec![
        (small(Recipe::mnist()), Data::Images(images([1, 28, 28], 80))),
        (small(Recipe::cifar10()), Data::Images(images([3, 32, 32], 80))),
        (
            small(Recipe { network: amp_recipe(200), ..Recipe::amp_recipe() }),
            Data::Rows(Rows::gaussian(80, [200; 2], 5)),
        ),
    ]
}

fn optimizers() -> [Optimizer; 4] {
    [
        Optimizer::sgd(),
        Optimizer::Sgd { momentum: 0.9, nesterov: true, weight_decay: 1e-3 },
        Optimizer::adam(),
        Optimizer::adam_w(),
    ]
}

/// Complete results of a training.
#[derive(Debug)]
struct Came {
    outcomes: Vec<StepOutcome>,
    weights: Weights,
    gradients: Weights,
    state: String,
    score: Score,
}

fn came(trainer: &mut Trainer, outcomes: Vec<StepOutcome>, data: &Data) -> Came {
    Came {
        outcomes,
        weights: trainer.weights().unwrap(),
        gradients: trainer.gradients().unwrap(),
        state: state(trainer),
        score: trainer.evaluate(data.samples()).unwrap(),
    }
}

/// Returns the number of updates and the scaler, and a checksum of the weights and the optimiser's arrays in a checkpoint.
fn state(trainer: &Trainer) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.safetensors");
    trainer.save(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    // A file begins with the length of its header.
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let arrays = bytes[header..].iter().fold(0xcbf2_9ce4_8422_2325, fnv);
    let kept = trainer.optimizer_state().unwrap();
    format!("{} updates, {:?}, {} bytes of arrays: {arrays:016x}", kept.updates, kept.scaler, bytes.len() - header)
}

fn train(place: &Place, recipe: &Recipe, data: &Data) -> Came {
    let mut trainer = Trainer::on(place, recipe.clone(), data.samples(), None).unwrap_or_else(|e| panic!("{e}"));
    let mut outcomes = Vec::new();
    let listener = &mut |event: Event| {
        if let Event::Step { outcome, .. } = event {
            outcomes.push(outcome);
        }
        Flow::Continue
    };
    trainer.train(data.samples(), data.samples(), 1, listener).unwrap_or_else(|e| panic!("{e}"));
    came(&mut trainer, outcomes, data)
}

#[track_caller]
fn same(who: &str, apart: &Came, last: &Came) {
    for (step, (a, b)) in apart.outcomes.iter().zip(&last.outcomes).enumerate() {
        // Outcomes are compared as text, in which a NaN norm equals itself.
        let [a, b] = [a, b].map(|outcome| format!("{outcome:?}"));
        assert_eq!(a, b, "{who}: step {step}, by kernels and by last blocks");
    }
    assert_eq!(apart.outcomes.len(), last.outcomes.len(), "{who}");
    assert_eq!(apart.score, last.score, "{who}: the evaluation");
    for (what, a, b) in [("gradients", &apart.gradients, &last.gradients), ("weights", &apart.weights, &last.weights)] {
        for (spec, (a, b)) in a.specs().iter().zip(a.values().iter().zip(b.values())) {
            let differ = a.iter().zip(b).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
            assert_eq!(differ, 0, "{who}: {what} of {}: {differ} of {} differ", spec.name, a.len());
        }
    }
    assert_eq!(apart.state, last.state, "{who}: the optimiser's state");
}

#[test]
fn every_training_has_the_same_bits() {
    let Some(device) = testing::gpu("every_training_has_the_same_bits with last blocks") else { return };
    // The first steps overflow, and later the scale grows.
    let scaler = GradScaler { init_scale: 1e9, growth_interval: 5, ..GradScaler::default() };
    for (recipe, data) in trainings() {
        for optimizer in optimizers() {
            for (clip, precision) in [None, Some(0.05)]
                .iter()
                .flat_map(|c| [Precision::Fp32, Precision::AmpFp16, Precision::AmpBf16].map(|p| (*c, p)))
            {
                let r = Recipe { optimizer, clip, ..recipe.clone() };
                let who = format!("{} with {optimizer:?}, clipped to {clip:?}, in {precision}", r.name);
                let options = CudaOptions { scaler, ..CudaOptions::new(precision) };
                let [apart, last] = both(options).map(|options| train(&on(&device, options), &r, &data));
                assert_eq!(last.outcomes.len(), 27, "{who}");
                let skipped = last.outcomes.iter().filter(|o| o.skipped).count();
                assert_eq!(skipped > 0, precision == Precision::AmpFp16, "{who}: {skipped} steps were skipped");
                assert!(skipped < 24, "{who}: {skipped} steps were skipped");
                let has_norm = clip.is_some() || precision == Precision::AmpFp16;
                assert!(last.outcomes.iter().all(|o| o.gradient_norm.is_some() == has_norm), "{who}");
                same(&who, &apart, &last);
            }
        }
    }
}

#[test]
fn launches_one_by_one_have_the_same_bits() {
    let Some(device) = testing::gpu("launches_one_by_one_have_the_same_bits with last blocks") else { return };
    for (recipe, data) in trainings() {
        for precision in [Precision::Fp32, Precision::AmpFp16, Precision::AmpBf16] {
            let best = CudaOptions::new(precision);
            let ways = [
                CudaOptions { last_block: false, ..best },
                CudaOptions { graph: false, ..best },
                CudaOptions { graph: false, overlap: false, dependent: false, ..best },
                CudaOptions { overlap: !best.overlap, ..best },
                CudaOptions { dependent: false, ..best },
            ];
            let [apart, last @ ..] = ways.map(|options| train(&on(&device, options), &recipe, &data));
            for (last, options) in last.iter().zip(&ways[1..]) {
                same(&format!("{} by {options:?}", recipe.name), &apart, last);
            }
        }
    }
}

/// A counter that did not return to 0, or a sum that was read too early, would show sooner or later.
#[test]
fn a_step_that_is_replayed_thousands_of_times_has_the_same_bits() {
    let test = "a_step_that_is_replayed_thousands_of_times_has_the_same_bits";
    let Some(device) = testing::gpu(test) else { return };
    for (recipe, data) in trainings() {
        for precision in [Precision::AmpFp16, Precision::AmpBf16] {
            let mut trainers = both(CudaOptions::new(precision)).map(|options| {
                let mut trainer = Trainer::on(&on(&device, options), recipe.clone(), data.samples(), None).unwrap();
                trainer.prepare_steps(data.samples()).unwrap();
                trainer
            });
            for round in 0..40 {
                let [apart, last] = trainers.each_mut().map(|trainer| {
                    for _ in 0..128 {
                        trainer.queue_step().unwrap();
                    }
                    trainer.step_outcomes(128).unwrap()
                });
                for (step, (a, b)) in apart.iter().zip(&last).enumerate() {
                    assert_eq!(a, b, "{} in {precision}, step {}", recipe.name, 128 * round + step);
                }
                assert!(last.iter().all(|o| o.loss.is_finite()), "{} in {precision}, round {round}", recipe.name);
            }
            let [apart, last] = trainers.each_mut().map(|trainer| came(trainer, Vec::new(), &data));
            same(&format!("{} in {precision} after 5120 steps", recipe.name), &apart, &last);
        }
    }
}

#[test]
fn a_step_taken_apart_has_fewer_operations_and_the_same_bits() {
    let Some(device) = testing::gpu("a_step_taken_apart_has_fewer_operations with last blocks") else { return };
    let (recipe, data) = trainings().remove(0);
    for (precision, norm) in [(Precision::AmpFp16, true), (Precision::AmpBf16, false)] {
        let [(apart, before), (last, now)] = both(CudaOptions::new(precision)).map(|options| {
            let mut trainer = Trainer::on(&on(&device, options), recipe.clone(), data.samples(), None).unwrap();
            trainer.prepare_steps(data.samples()).unwrap();
            let mut names = Vec::new();
            for _ in 0..3 {
                names.clear();
                let note = &mut |o: &warpbook_nn::train::StepOperation| {
                    names.push(o.name.clone());
                    Ok::<(), TrainError>(())
                };
                trainer.step_by_operation(note).unwrap();
            }
            let outcomes = trainer.step_outcomes(3).unwrap();
            (came(&mut trainer, outcomes, &data), names)
        });
        same(&format!("taken apart in {precision}"), &apart, &last);
        let gone: Vec<&String> = before.iter().filter(|name| !now.contains(name)).collect();
        assert_eq!(gone, ["check", "end of the step"], "{before:?} and {now:?}");
        assert_eq!(now.len() + 2, before.len());
        assert_eq!(now.iter().any(|name| name == "norm of the gradients"), norm, "{now:?}");
        assert_eq!(now.last().map(String::as_str), Some("optimiser"));
    }
}

/// A broken loss halts the steps that were queued after it, both if the loss and if the norm decides whether a step is applied.
#[test]
fn a_training_that_is_halted_keeps_the_same_bits() {
    let Some(device) = testing::gpu("a_training_that_is_halted_keeps_the_same_bits with last blocks") else { return };
    let (recipe, data) = trainings().remove(0);
    let network = |layers| warpbook_nn::network::Network::new([1, 28, 28], layers).unwrap();
    let layers = vec![conv2d(4, 3), batch_norm(), relu(), flatten(), linear(8), linear(10)];
    let recipe = Recipe { network: network(layers), learning_rate: 1e25, optimizer: Optimizer::sgd(), ..recipe };
    for clip in [None, Some(1e30)] {
        for graph in [true, false] {
            let r = Recipe { clip, ..recipe.clone() };
            let [apart, last] = both(CudaOptions { graph, ..CudaOptions::new(Precision::Fp32) }).map(|options| {
                let mut trainer = Trainer::on(&on(&device, options), r.clone(), data.samples(), None).unwrap();
                let error = trainer.train(data.samples(), data.samples(), 1, &mut |_| Flow::Continue).unwrap_err();
                assert!(matches!(error, TrainError::NotFinite(_)), "{error}");
                (error.to_string(), trainer.step(), trainer.weights().unwrap(), state(&trainer))
            });
            assert!(
                last.2.values().iter().flatten().all(|w| w.is_finite()),
                "clip {clip:?}, graph {graph}: {}",
                last.0
            );
            assert_eq!((&apart.0, apart.1, &apart.3), (&last.0, last.1, &last.3), "clip {clip:?}, graph {graph}");
            assert!(apart.2 == last.2, "clip {clip:?}, graph {graph}: the weights differ");
        }
    }
}

#[test]
fn a_training_goes_on_the_other_way() {
    let Some(device) = testing::gpu("a_training_goes_on_the_other_way, with last blocks") else { return };
    let scaler = GradScaler { init_scale: 1e9, growth_interval: 3, ..GradScaler::default() };
    let (recipe, data) = trainings().remove(1);
    let places = both(CudaOptions { scaler, ..CudaOptions::new(Precision::AmpFp16) }).map(|o| on(&device, o));
    let whole = train(&places[1], &recipe, &data);
    let folder = tempfile::tempdir().unwrap();
    for (from, to) in [(0, 1), (1, 0), (1, 1)] {
        let path = folder.path().join(format!("{from}{to}.safetensors"));
        let mut first = Trainer::on(&places[from], recipe.clone(), data.samples(), None).unwrap();
        first.train_until(11, data.samples(), data.samples(), 1, &mut |_| Flow::Continue).unwrap();
        first.save(&path).unwrap();
        let mut second = Trainer::on(&places[to], recipe.clone(), data.samples(), None).unwrap();
        second.resume(&path).unwrap();
        second.train(data.samples(), data.samples(), 1, &mut |_| Flow::Continue).unwrap();
        assert!(second.weights().unwrap() == whole.weights, "from {from} to {to}: the weights differ");
        assert_eq!(state(&second), whole.state, "from {from} to {to}");
    }
}

/// The sizes give one block, several blocks, and more than one block for each thread of the second level.
#[test]
fn losses_of_any_number_of_blocks_have_the_same_bits() {
    let Some(device) = testing::gpu("losses_of_any_number_of_blocks_have_the_same_bits") else { return };
    let stream = device.stream().unwrap();
    let random = |n: usize, of: u32| -> Vec<f32> { (0..n as u64).map(|i| philox::gaussian(17, i, of)).collect() };
    let floats = |values: &[f32]| -> Slice<f32> { device.buffer_from(values).unwrap().range(..) };
    let results = |means: &Slice<f64>, correct: &Slice<u32>| {
        stream.synchronize().unwrap();
        (means.to_vec().unwrap()[1].to_bits(), correct.to_vec().unwrap())
    };
    let slot = device.buffer_from(&[1u32]).unwrap();
    let new_slots =
        || (device.buffer_from(&[0.0f64; 3]).unwrap().range(..), device.buffer_from(&[7u32; 3]).unwrap().range(..));
    let losses = [cross_entropy::cuda::LossKernels::new, cross_entropy::cuda::LossKernels::with_last_block]
        .map(|new| new(&device, Dtype::F32).unwrap());
    for (batch, classes) in [(1, 10), (8, 10), (9, 10), (67, 3), (2100, 10), (100_003, 10)] {
        let c = CrossEntropy { batch, classes, smoothing: 0.1 };
        let logits = DeviceArray::from(&floats(&random(batch * classes, 1)));
        let labels: Vec<u8> = (0..batch).map(|i| (i * 7 % classes) as u8).collect();
        let labels = device.buffer_from(&labels).unwrap().range(..);
        let blocks = cross_entropy::cuda::LossKernels::blocks(batch);
        let (partial, hits) = (device.zeros::<f64>(blocks).unwrap(), device.zeros::<u32>(blocks).unwrap());
        let work = cross_entropy::cuda::LossWorkspace { losses: &partial, hits: &hits };
        let [want, got] = losses.each_ref().map(|loss| {
            let gradient = DeviceArray::from(&floats(&vec![f32::NAN; batch * classes]));
            let mut all = Vec::new();
            for _ in 0..50 {
                let (means, correct) = new_slots();
                let to = cross_entropy::cuda::LossSlots { slot: &slot, losses: &means, correct: Some(&correct) };
                loss.loss_and_gradient(&stream, &c, (&logits, &labels), None, Some(&gradient), (work, to)).unwrap();
                all.push(results(&means, &correct));
            }
            (all, gradient.to_f32().unwrap())
        });
        assert_eq!(got, want, "a batch of {batch}, {classes} classes");
        assert!(got.0.iter().all(|one| *one == got.0[0]), "a batch of {batch}");
    }
    let losses = [mse::cuda::SquaredErrorKernels::new, mse::cuda::SquaredErrorKernels::with_last_block]
        .map(|new| new(&device, Dtype::F32).unwrap());
    for n in [1, 4096, 4097, 100_003, 3_000_001] {
        let (output, target) = (DeviceArray::from(&floats(&random(n, 1))), floats(&random(n, 2)));
        let work = device.zeros::<f64>(losses[0].blocks(n)).unwrap();
        let [want, got] = losses.each_ref().map(|loss| {
            let gradient = DeviceArray::from(&floats(&vec![f32::NAN; n]));
            let mut all = Vec::new();
            for _ in 0..50 {
                let (means, correct) = new_slots();
                let to = cross_entropy::cuda::LossSlots { slot: &slot, losses: &means, correct: None };
                loss.loss_and_gradient(&stream, (&output, &target), None, Some(&gradient), (&work, to)).unwrap();
                all.push(results(&means, &correct));
            }
            (all, gradient.to_f32().unwrap())
        });
        assert_eq!(got, want, "{n} elements");
    }
}

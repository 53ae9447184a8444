//! Gradient accumulation: a batch in parts gives the same weights as the whole batch.

use warpbook_data::{Rows, synthetic_digits};
use warpbook_device::testing;
use warpbook_nn::network::*;
use warpbook_nn::ops::optimizer::Optimizer;
use warpbook_nn::train::{
    Augmentation, CudaOptions, Event, Flow, GradScaler, Loss, Place, Precision, Recipe, StepOutcome, TrainError,
    Trainer,
};
use warpbook_nn::weights::Weights;

/// Layers without batch normalisation and dropout.
fn plain() -> Vec<Layer> {
    vec![conv2d(4, 5), relu(), max_pool(2), flatten(), linear(24), gelu(), linear(10)]
}

/// 50 images in batches of 16; the last batch has 2.
fn recipe(layers: Vec<Layer>, optimizer: Optimizer, accumulate: usize) -> Recipe {
    let network = Network::new([1, 28, 28], layers).unwrap();
    Recipe { network, optimizer, learning_rate: 0.01, batch: 16, epochs: 2, accumulate, ..Recipe::mnist() }
}

fn trained(place: &Place, recipe: Recipe) -> (Vec<StepOutcome>, Trainer) {
    let digits = synthetic_digits(50, 16, 3);
    let mut trainer = Trainer::on(place, recipe, &digits.train, None).unwrap_or_else(|e| panic!("{e}"));
    let mut outcomes = Vec::new();
    let listener = &mut |event: Event| {
        if let Event::Step { outcome, .. } = event {
            outcomes.push(outcome);
        }
        Flow::Continue
    };
    trainer.train(&digits.train, &digits.test, 1, listener).unwrap_or_else(|e| panic!("{e}"));
    (outcomes, trainer)
}

/// Largest difference of a value, relative to the largest value of its parameter.
fn apart(a: &Weights, b: &Weights) -> f64 {
    let difference = |(a, b): (&Vec<f32>, &Vec<f32>)| {
        let most = b.iter().fold(1e-12f32, |m, v| m.max(v.abs()));
        a.iter().zip(b).map(|(a, b)| f64::from((a - b).abs() / most)).fold(0.0, f64::max)
    };
    a.values().iter().zip(b.values()).map(difference).fold(0.0, f64::max)
}

fn assert_alike(what: &str, got: &(Vec<StepOutcome>, Trainer), want: &(Vec<StepOutcome>, Trainer), bound: f64) {
    assert_eq!(got.0.len(), want.0.len(), "{what}: as many steps");
    for (step, (a, b)) in got.0.iter().zip(&want.0).enumerate() {
        assert!((a.loss - b.loss).abs() <= bound * b.loss.abs(), "{what}, step {step}: loss {} and {}", a.loss, b.loss);
        let norms = a.gradient_norm.zip(b.gradient_norm);
        assert!(norms.is_none_or(|(a, b)| (a - b).abs() <= bound * b), "{what}, step {step}: norm {norms:?}");
        assert_eq!((a.loss_scale, a.skipped), (b.loss_scale, b.skipped), "{what}, step {step}: the scaler");
    }
    let off = apart(&got.1.weights().unwrap(), &want.1.weights().unwrap());
    assert!(off <= bound, "{what}: weights differ by {off:.1e}");
    let off = apart(&got.1.gradients().unwrap(), &want.1.gradients().unwrap());
    assert!(off <= 10.0 * bound, "{what}: gradients differ by {off:.1e}");
}

#[test]
fn a_batch_in_parts_trains_as_the_batch_at_once() {
    let momentum = Optimizer::Sgd { momentum: 0.9, nesterov: false, weight_decay: 1e-3 };
    for (optimizer, bound) in [(momentum, 2e-5), (Optimizer::adam(), 2e-3)] {
        let whole = trained(&Place::Cpu, recipe(plain(), optimizer, 1));
        assert_eq!(whole.0.len(), 8);
        for accumulate in [2, 3, 16] {
            let parts = trained(&Place::Cpu, recipe(plain(), optimizer, accumulate));
            assert_alike(&format!("{optimizer:?} in {accumulate} parts"), &parts, &whole, bound);
            assert!(parts.1.bytes() < whole.1.bytes(), "{} of {} bytes", parts.1.bytes(), whole.1.bytes());
            let correct = |of: &[StepOutcome]| of.iter().map(|o| o.correct).sum::<usize>();
            assert_eq!(correct(&parts.0), correct(&whole.0), "{optimizer:?} in {accumulate} parts");
        }
    }
}

/// On the CPU an image's position in the batch decides its random draws, regardless of the part that contains it.
#[test]
fn dropout_and_augmentation_are_those_of_the_whole_batch_and_clipping_is_of_the_sum() {
    let layers = || vec![conv2d(4, 5), relu(), max_pool(2), flatten(), dropout(0.3), linear(24), relu(), linear(10)];
    let in_parts = |accumulate| Recipe {
        augmentation: Some(Augmentation::new(2, true)),
        clip: Some(0.5),
        ..recipe(layers(), Optimizer::sgd(), accumulate)
    };
    let whole = trained(&Place::Cpu, in_parts(1));
    for segments in [1, 3] {
        let r = in_parts(4);
        let r = Recipe { network: r.network.checkpointed(segments).unwrap(), ..r };
        assert_alike(&format!("{segments} segments"), &trained(&Place::Cpu, r), &whole, 1e-5);
    }
}

/// Numbers whose products and sums fp32 represents exactly, so that the order of the sums does not
/// matter.
fn exact() -> (Recipe, Rows, Weights) {
    let number = |i: usize| ((i * 7 + i / 5) % 9) as f32 - 4.0;
    let rows =
        Rows::new((0..8 * 4).map(number).collect(), (0..8 * 2).map(|i| number(i + 3)).collect(), [4, 2]).unwrap();
    let network = Network::new(Shape::Vector(4), [linear(4), relu(), linear(2)]).unwrap();
    let recipe = Recipe {
        network,
        loss: Loss::Mse,
        optimizer: Optimizer::sgd(),
        learning_rate: 0.0625,
        batch: 8,
        epochs: 1,
        shuffle: false,
        ..Recipe::amp_recipe()
    };
    let values = recipe.network.params().iter().map(|p| (0..p.len()).map(|i| number(i + 1) * 0.25).collect()).collect();
    let weights = Weights::new(&recipe.network, values).unwrap();
    (recipe, rows, weights)
}

fn exact_on(place: &Place, accumulate: usize) -> (Weights, Weights, f64) {
    let (recipe, rows, weights) = exact();
    let mut trainer = Trainer::on(place, Recipe { accumulate, ..recipe }, &rows, Some(&weights)).unwrap();
    let mut loss = 0.0;
    let listener = &mut |event: Event| {
        if let Event::Step { loss: of, .. } = event {
            loss = of;
        }
        Flow::Continue
    };
    trainer.train(&rows, &rows, 1, listener).unwrap();
    (trainer.weights().unwrap(), trainer.gradients().unwrap(), loss)
}

#[test]
fn where_sums_are_exact_the_bits_are_those_of_the_batch_at_once() {
    let whole = exact_on(&Place::Cpu, 1);
    assert!(whole.2 > 0.0 && whole.1.values().iter().flatten().any(|g| *g != 0.0));
    for accumulate in [2, 4, 8] {
        assert_eq!(exact_on(&Place::Cpu, accumulate), whole, "{accumulate} parts");
    }
}

/// Checks that a resumed training in parts has the same bits as one without interruption.
fn resumes(place: &Place, recipe: &Recipe) {
    let digits = synthetic_digits(50, 16, 3);
    let path = std::env::temp_dir().join(format!(
        "warpbook-accumulate-{}-{}.safetensors",
        std::process::id(),
        place.to_string().len()
    ));
    let quiet = &mut |_: Event| Flow::Continue;
    let new = || Trainer::on(place, recipe.clone(), &digits.train, None).unwrap();
    let mut whole = new();
    whole.train(&digits.train, &digits.test, 1, quiet).unwrap();
    let mut first = new();
    // Step 6 is in the middle of the second epoch.
    first.train_until(6, &digits.train, &digits.test, 1, quiet).unwrap();
    first.save(&path).unwrap();
    let mut second = new();
    second.resume(&path).unwrap();
    assert_eq!(second.step(), 6);
    second.train(&digits.train, &digits.test, 1, quiet).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(second.weights().unwrap() == whole.weights().unwrap(), "the weights differ");
}

fn with_everything(accumulate: usize) -> Recipe {
    let layers =
        vec![conv2d(4, 5), batch_norm(), relu(), max_pool(2), flatten(), dropout(0.3), linear(24), relu(), linear(10)];
    recipe(layers, Optimizer::adam(), accumulate)
}

#[test]
fn a_resumed_training_in_parts_has_the_same_bits() {
    resumes(&Place::Cpu, &with_everything(3));
}

/// Each part has its own statistics, and updates the running statistics.
#[test]
fn batch_normalisation_takes_the_statistics_of_a_part() {
    let layers = || vec![conv2d(3, 5), batch_norm().momentum(0.5), relu(), flatten(), linear(10)];
    let variance = |accumulate| {
        let (_, trainer) =
            trained(&Place::Cpu, Recipe { steps: Some(1), ..recipe(layers(), Optimizer::sgd(), accumulate) });
        trainer.weights().unwrap().get("bn1.running_var").unwrap().to_vec()
    };
    let [whole, parts] = [variance(1), variance(2)];
    // The variance starts at 1, and moves half of the way to the batch's variance once, or twice.
    for (whole, parts) in whole.iter().zip(&parts) {
        let batch = 2.0 * whole - 1.0;
        assert!(((parts - 0.25) / 0.75 - batch).abs() < 0.25 * batch, "{parts} after two parts, {whole} after one");
        assert!(whole != parts);
    }
}

#[test]
fn a_loss_that_is_no_number_in_a_later_part_is_named_and_changes_nothing() {
    let at = |place: &Place| {
        let layers = vec![conv2d(3, 5), batch_norm(), relu(), flatten(), linear(10)];
        let r = Recipe { learning_rate: 1e30, ..recipe(layers, Optimizer::sgd(), 4) };
        let digits = synthetic_digits(50, 16, 3);
        let mut trainer = Trainer::on(place, r.clone(), &digits.train, None).unwrap();
        let error = trainer.train(&digits.train, &digits.test, 1, &mut |_| Flow::Continue).unwrap_err();
        assert!(matches!(error, TrainError::NotFinite(_)), "{error}");
        let weights = trainer.weights().unwrap();
        let mut before = Trainer::on(place, r, &digits.train, None).unwrap();
        before.train_until(trainer.step(), &digits.train, &digits.test, 1, &mut |_| Flow::Continue).unwrap();
        assert!(weights == before.weights().unwrap(), "the broken step has left something: {error}");
    };
    at(&Place::Cpu);
    let Some(device) = testing::gpu("a_loss_that_is_no_number_in_a_later_part_is_named") else { return };
    for graph in [false, true] {
        at(&Place::Cuda(device.clone(), CudaOptions { graph, ..CudaOptions::new(Precision::Fp32) }));
    }
}

#[test]
fn a_gpu_s_batch_in_parts_trains_as_the_batch_at_once_and_draws_the_same() {
    let Some(device) = testing::gpu("a_gpu_s_batch_in_parts_trains_as_the_batch_at_once_and_draws_the_same") else {
        return;
    };
    let momentum = Optimizer::Sgd { momentum: 0.9, nesterov: false, weight_decay: 1e-3 };
    for precision in Precision::ALL {
        // In 16-bit types the gradients of linear layers are rounded, part by part.
        let bound = if precision == Precision::Fp32 { 1e-4 } else { 3e-2 };
        for (graph, overlap, last_block) in [(false, false, false), (false, true, true), (true, true, true)] {
            let base = CudaOptions { graph, overlap, last_block, ..CudaOptions::new(precision) };
            let options = CudaOptions {
                scaler: GradScaler { init_scale: 128.0, growth_interval: 3, ..GradScaler::default() },
                ..base
            };
            let place = Place::Cuda(device.clone(), options);
            // With 25 features, a part's first feature is rarely the first of a Philox block.
            let layers = || {
                vec![
                    conv2d(4, 5),
                    relu(),
                    max_pool(2),
                    dropout(0.2),
                    flatten(),
                    linear(25),
                    gelu(),
                    dropout(0.3),
                    linear(10),
                ]
            };
            let in_parts = |accumulate| Recipe {
                augmentation: Some(Augmentation::new(2, true)),
                clip: Some(5.0),
                ..recipe(layers(), momentum, accumulate)
            };
            let whole = trained(&place, in_parts(1));
            for accumulate in [2, 5] {
                let what = format!("{precision} in {accumulate} parts, graph {graph}, overlap {overlap}");
                let (outcomes, trainer) = trained(&place, in_parts(accumulate));
                for (step, (a, b)) in outcomes.iter().zip(&whole.0).enumerate() {
                    assert!(
                        (a.loss - b.loss).abs() <= bound * b.loss,
                        "{what}, step {step}: {} and {}",
                        a.loss,
                        b.loss
                    );
                    assert_eq!((a.loss_scale, a.skipped), (b.loss_scale, b.skipped), "{what}, step {step}: the scaler");
                }
                let off = apart(&trainer.weights().unwrap(), &whole.1.weights().unwrap());
                assert!(off <= bound, "{what}: weights differ by {off:.1e}");
                let again = trained(&place, in_parts(accumulate));
                assert!(
                    again.1.weights().unwrap() == trainer.weights().unwrap(),
                    "{what}: other bits on the second run"
                );
            }
        }
    }
}

#[test]
fn a_gpu_s_sums_are_exact_where_the_cpu_s_are_and_it_resumes() {
    let Some(device) = testing::gpu("a_gpu_s_sums_are_exact_where_the_cpu_s_are_and_it_resumes") else { return };
    let whole = exact_on(&Place::Cpu, 1);
    for (graph, overlap) in [(false, false), (true, true)] {
        let options = CudaOptions { graph, overlap, ..CudaOptions::new(Precision::Fp32) };
        let place = Place::Cuda(device.clone(), options);
        for accumulate in [1, 2, 8] {
            assert_eq!(exact_on(&place, accumulate), whole, "{accumulate} parts, graph {graph}");
        }
        resumes(&place, &with_everything(3));
        let whole = trained(&place, with_everything(3));
        let r = with_everything(3);
        let checkpointed = Recipe { network: r.network.checkpointed(3).unwrap(), ..r };
        let segments = trained(&place, checkpointed);
        assert!(
            segments.1.weights().unwrap() == whole.1.weights().unwrap(),
            "checkpointing changes bits, graph {graph}"
        );
    }
}

/// Images are copied batch by batch, and the memory depends on the part's size.
#[test]
fn a_gpu_s_memory_is_that_of_a_part() {
    use warpbook_nn::train::{Loader, Residency};
    let Some(device) = testing::gpu("a_gpu_s_memory_is_that_of_a_part") else { return };
    let wide = |accumulate| {
        let layers = vec![conv2d(32, 5).padding(2), gelu(), conv2d(32, 5).padding(2), gelu(), flatten(), linear(10)];
        Recipe { batch: 48, epochs: 1, ..recipe(layers, Optimizer::sgd(), accumulate) }
    };
    let place = Place::Cuda(device.clone(), CudaOptions::new(Precision::Fp32));
    let [whole, parts] = [1, 8].map(|accumulate| {
        let (_, trainer) = trained(&place, wide(accumulate));
        trainer.bytes()
    });
    assert!(parts < whole, "{parts} of {whole} bytes");
    let options = CudaOptions {
        loader: Loader { resident: Residency::Off, ..Loader::default() },
        ..CudaOptions::new(Precision::Fp32)
    };
    let [resident, copied] =
        [place, Place::Cuda(device, options)].map(|place| trained(&place, wide(4)).1.weights().unwrap());
    assert!(resident == copied, "images that are not resident give other bits");
}

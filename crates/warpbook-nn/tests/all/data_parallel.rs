//! Data-parallel training in one process: replicas are compared with a single training on the same
//! batch.

use warpbook_data::synthetic_digits;
use warpbook_device::{CudaDevice, testing};
use warpbook_nn::network::{Network, batch_norm, conv2d, dropout, flatten, linear, max_pool, relu};
use warpbook_nn::train::{Augmentation, CudaOptions, DataParallel, Place, Precision, Recipe, Samples, Trainer};
use warpbook_nn::weights::Weights;

const STEPS: usize = 7;

fn recipe(network: Network) -> Recipe {
    Recipe { network, batch: 24, learning_rate: 0.02, ..Recipe::mnist() }
}

/// A recipe with dropout and augmentation, whose random numbers depend on the position in the batch.
fn drawing() -> Recipe {
    let layers = [conv2d(4, 5), relu(), max_pool(2), flatten(), dropout(0.3), linear(12), relu(), linear(10)];
    let augmentation = Some(Augmentation::new(2, true));
    Recipe { augmentation, clip: Some(5.0), ..recipe(Network::new([1, 28, 28], layers).unwrap()) }
}

fn plain() -> Recipe {
    let layers = [conv2d(8, 5), relu(), max_pool(2), flatten(), linear(32), relu(), linear(10)];
    recipe(Network::new([1, 28, 28], layers).unwrap())
}

type Course = (Vec<f64>, Weights);

fn alone(place: &Place, recipe: &Recipe) -> Course {
    let set = synthetic_digits(98, 8, 3).train;
    let mut trainer = Trainer::on(place, recipe.clone(), &set, None).unwrap();
    trainer.prepare_steps(&set).unwrap();
    (0..STEPS).for_each(|_| trainer.queue_step().unwrap());
    (trainer.step_outcomes(STEPS).unwrap().iter().map(|o| o.loss).collect(), trainer.weights().unwrap())
}

fn together(places: &[Place], recipe: &Recipe) -> Course {
    let set = synthetic_digits(98, 8, 3).train;
    let mut training = DataParallel::new(places, recipe.clone(), &set, None).unwrap();
    training.prepare_steps(&set).unwrap();
    (0..STEPS).for_each(|_| training.queue_step().unwrap());
    let outcomes = training.step_outcomes(STEPS).unwrap();
    assert!(outcomes.iter().all(|o| o.correct <= recipe.batch));
    (outcomes.iter().map(|o| o.loss).collect(), training.weights().unwrap())
}

fn apart(a: &Course, b: &Course) -> f64 {
    assert_eq!((a.0.len(), b.0.len()), (STEPS, STEPS));
    let losses = a.0.iter().zip(&b.0).map(|(a, b)| (a - b).abs() / b.abs()).fold(0.0, f64::max);
    let weights = a.1.values().iter().zip(b.1.values()).map(|(a, b)| {
        let most = b.iter().fold(f32::MIN_POSITIVE, |m, v| m.max(v.abs()));
        a.iter().zip(b).map(|(a, b)| f64::from((a - b).abs() / most)).fold(0.0, f64::max)
    });
    weights.fold(losses, f64::max)
}

#[test]
fn replicas_on_the_cpu_train_as_one_with_the_same_batch() {
    for recipe in [plain(), drawing()] {
        let want = alone(&Place::Cpu, &recipe);
        let initial = recipe.initial_weights(&synthetic_digits(98, 8, 3).train).unwrap();
        assert!(want.1 != initial, "it trains: {:?}", want.0);
        assert_eq!(together(&[Place::Cpu], &recipe), want, "one replica has the bits of a training");
        for n in [2, 3, 5] {
            let places = vec![Place::Cpu; n];
            let got = together(&places, &recipe);
            // The difference comes from seven steps of f32 sums in another order.
            let most = apart(&got, &want);
            assert!(most <= 2e-4, "{n} replicas differ by {most:.1e}");
            assert_eq!(got, together(&places, &recipe), "{n} replicas have the same bits on every run");
        }
    }
}

#[test]
fn batch_normalisation_is_that_of_each_part() {
    let layers = [conv2d(4, 5).without_bias(), batch_norm(), relu(), max_pool(2), flatten(), linear(10)];
    let recipe = recipe(Network::new([1, 28, 28], layers).unwrap());
    let (one, two) = (alone(&Place::Cpu, &recipe), together(&[Place::Cpu, Place::Cpu], &recipe));
    assert!(
        two.0.iter().all(|loss| loss.is_finite()) && apart(&two, &one) > 1e-3,
        "statistics of fewer samples are others"
    );
}

#[test]
fn what_a_step_copies_is_counted() {
    let set = synthetic_digits(48, 8, 3).train;
    let made = |n: usize| DataParallel::new(&vec![Place::Cpu; n], plain(), &set, None).unwrap();
    let bytes = 4 * plain().network.parameter_count() as u64;
    assert_eq!((made(1).copied_bytes(), made(3).copied_bytes(), made(3).devices()), ([0, 0], [2 * bytes; 2], 3));
}

#[test]
fn what_cannot_be_split_is_refused() {
    let set = synthetic_digits(48, 8, 3).train;
    let why = |n: usize, batch: usize| {
        DataParallel::new(&vec![Place::Cpu; n], Recipe { batch, ..plain() }, &set, None).unwrap_err().to_string()
    };
    assert!(why(0, 24).contains("at least one device"));
    assert!(why(3, 2).contains("A batch of 2 cannot be split over 3 devices"));
    let in_parts = DataParallel::new(&vec![Place::Cpu; 2], Recipe { accumulate: 2, ..plain() }, &set, None);
    assert!(in_parts.unwrap_err().to_string().contains("leave out accumulate = 2"));
    let mut unprepared = DataParallel::new(&vec![Place::Cpu; 2], plain(), &set, None).unwrap();
    assert!(unprepared.queue_step().unwrap_err().to_string().contains("No steps were prepared"));
    let mut diverges =
        DataParallel::new(&vec![Place::Cpu; 2], Recipe { learning_rate: 1e30, ..plain() }, &set, None).unwrap();
    diverges.prepare_steps(Samples::from(&set)).unwrap();
    let failed = (0..9).find_map(|_| diverges.queue_step().err()).unwrap().to_string();
    assert!(failed.contains("the loss is") && failed.contains("Lower the learning rate"), "{failed}");
}

fn places(devices: &[CudaDevice], precision: Precision) -> Vec<Place> {
    devices.iter().map(|device| Place::Cuda(device.clone(), CudaOptions::new(precision))).collect()
}

#[test]
fn one_gpu_trains_as_without_replicas() {
    let Some(device) = testing::gpu("one_gpu_trains_as_without_replicas") else { return };
    for (precision, allowed) in [(Precision::Fp32, 2e-4), (Precision::AmpBf16, 3e-2)] {
        let places = places(std::slice::from_ref(&device), precision);
        let most = apart(&together(&places, &plain()), &alone(&places[0], &plain()));
        assert!(most <= allowed, "{precision}: {most:.1e}");
    }
    let set = synthetic_digits(48, 8, 3).train;
    let refused = |places: &[Place]| DataParallel::new(places, plain(), &set, None).unwrap_err().to_string();
    let gpu = |precision| Place::Cuda(device.clone(), CudaOptions::new(precision));
    assert!(refused(&[gpu(Precision::Fp32), gpu(Precision::Fp32)]).contains("is named twice"));
    assert!(refused(&[gpu(Precision::Fp32), Place::Cpu]).contains("not on both"));
    assert!(refused(&[gpu(Precision::AmpFp16)]).contains("scales the loss"));
}

#[test]
fn two_gpus_in_one_process_train_as_one_with_the_same_batch() {
    const TEST: &str = "two_gpus_in_one_process_train_as_one_with_the_same_batch";
    let Some(devices) = testing::two_gpus(TEST) else { return };
    for (precision, allowed) in [(Precision::Fp32, 2e-3), (Precision::AmpBf16, 3e-2)] {
        let places = places(&devices, precision);
        for recipe in [plain(), drawing()] {
            let (want, got) = (alone(&places[0], &recipe), together(&places, &recipe));
            let most = apart(&got, &want);
            assert!(
                most <= allowed,
                "{precision}: losses or weights differ by {most:.1e}: {:?} and {:?}",
                got.0,
                want.0
            );
            assert_eq!(got, together(&places, &recipe), "{precision}: the same bits on every run");
        }
    }
}

//! Data-parallel training on GPUs, over NCCL.

use std::net::TcpListener;
use std::time::Duration;
use warpbook_data::{Dataset, synthetic_digits};
use warpbook_device::{CudaDevice, Library, NcclId, testing};
use warpbook_nn::network::{Network, batch_norm, conv2d, dropout, flatten, linear, max_pool, relu};
use warpbook_nn::ops::optimizer::Optimizer;
use warpbook_nn::train::{
    Augmentation, CudaOptions, Event, Flow, GradScaler, Place, Precision, Ranks, RanksOptions, Recipe, Trainer,
};
use warpbook_nn::weights::Weights;
use warpbook_ranks::{Alone, Group, Launcher, Limits, Placement, Wire};

/// Returns a GPU if NCCL is installed.
fn gpu(test: &str) -> Option<CudaDevice> {
    let device = testing::gpu(test)?;
    match NcclId::new(&device) {
        Ok(_) => Some(device),
        Err(why) if why.is_missing(Library::Nccl) => {
            testing::skip(test, "needs NCCL", why);
            None
        }
        Err(why) => panic!("{why}"),
    }
}

/// Returns two GPUs if NCCL is installed. A machine with only one GPU skips the test.
fn two_gpus(test: &str) -> Option<[CudaDevice; 2]> {
    gpu(test)?;
    testing::two_gpus(test)
}

/// A recipe with dropout and augmentation, whose random numbers depend on a sample's position in the global batch.
fn recipe() -> Recipe {
    let layers =
        [conv2d(8, 5), relu(), max_pool(2), dropout(0.2), flatten(), linear(33), relu(), dropout(0.3), linear(10)];
    let network = Network::new([1, 28, 28], layers).unwrap();
    Recipe {
        network,
        augmentation: Some(Augmentation::new(2, true)),
        batch: 24,
        epochs: 2,
        learning_rate: 0.02,
        ..Recipe::mnist()
    }
}

fn normalised() -> Recipe {
    let layers = [conv2d(8, 5).without_bias(), batch_norm(), relu(), max_pool(2), flatten(), linear(10)];
    Recipe { network: Network::new([1, 28, 28], layers).unwrap(), clip: Some(5.0), ..recipe() }
}

/// 97 images make four batches of 24 and one of 1, which leaves a rank of two without samples.
fn digits() -> (Dataset, Dataset) {
    let digits = synthetic_digits(97, 41, 3);
    (digits.train, digits.test)
}

type Course = (Vec<f64>, Weights);

fn course(mut trainer: Trainer) -> Course {
    let (train, test) = digits();
    let mut losses = Vec::new();
    trainer
        .train(&train, &test, 100, &mut |event| {
            if let Event::Step { loss, .. } = event {
                losses.push(loss);
            }
            Flow::Continue
        })
        .unwrap();
    (losses, trainer.weights().unwrap())
}

fn options() -> Vec<CudaOptions> {
    let best = CudaOptions::new(Precision::Fp32);
    let plain = CudaOptions { graph: false, overlap: false, last_block: false, ..best };
    vec![best, plain, CudaOptions::new(Precision::AmpFp16)]
}

#[test]
fn one_rank_has_the_bits_of_a_training_without_ranks() {
    let _one = testing::one_at_a_time();
    let Some(device) = gpu("one_rank_has_the_bits_of_a_training_without_ranks") else { return };
    for (recipe, synchronised_norm) in [(recipe(), false), (normalised(), false), (normalised(), true)] {
        for options in options() {
            let place = Place::Cuda(device.clone(), options);
            let alone = course(Trainer::on(&place, recipe.clone(), &digits().0, None).unwrap());
            let small = RanksOptions { bucket_bytes: 4000, synchronised_norm, ..RanksOptions::default() };
            let ranks = Ranks::new(Box::new(Alone::default()), small);
            let one = course(Trainer::on_ranks(&place, recipe.clone(), &digits().0, None, &ranks).unwrap());
            ranks.finish().unwrap();
            assert!(one == alone, "{options:?}: {:?} and {:?}", one.0, alone.0);
        }
    }
}

/// Runs two ranks as threads, each with its own GPU.
fn as_ranks<T: Send>(
    devices: &[CudaDevice; 2],
    options: RanksOptions,
    work: impl Fn(&CudaDevice, &Ranks) -> T + Sync,
) -> Vec<T> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut listener = Some(listener);
    std::thread::scope(|scope| {
        let mut all = Vec::new();
        for (rank, device) in devices.iter().enumerate() {
            let (listener, work) = (listener.take(), &work);
            let (host, token) = ("127.0.0.1".to_owned(), "test".to_owned());
            let placement =
                Placement { rank, local_rank: rank, world: 2, host, port, token, launcher: Launcher::Warpbook };
            all.push(scope.spawn(move || {
                let limits = Limits { join: Duration::from_secs(120), ..Limits::stall_after(Duration::from_secs(120)) };
                let ranks = Ranks::new(Box::new(Group::join(&placement, limits, listener).unwrap()), options);
                work(device, &ranks)
            }));
        }
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// The results of each rank's training.
fn on_both(
    devices: &[CudaDevice; 2],
    recipe: &Recipe,
    options: CudaOptions,
    ranks_options: RanksOptions,
) -> Vec<Course> {
    as_ranks(devices, ranks_options, |device, ranks| {
        let place = Place::Cuda(device.clone(), options);
        let made = course(Trainer::on_ranks(&place, recipe.clone(), &digits().0, None, ranks).unwrap());
        ranks.finish().unwrap();
        made
    })
}

#[test]
fn a_loss_that_is_no_number_ends_both_with_its_step() {
    let _one = testing::one_at_a_time();
    let Some(devices) = two_gpus("a_loss_that_is_no_number_ends_both_with_its_step") else { return };
    let wild = Recipe { learning_rate: 1e30, ..recipe() };
    for precision in [Precision::Fp32, Precision::AmpBf16] {
        let errors = as_ranks(&devices, RanksOptions::default(), |device, ranks| {
            let place = Place::Cuda(device.clone(), CudaOptions::new(precision));
            let (train, test) = digits();
            let mut trainer = Trainer::on_ranks(&place, wild.clone(), &train, None, ranks).unwrap();
            trainer.train(&train, &test, 100, &mut |_| Flow::Continue).unwrap_err().to_string()
        });
        for why in errors {
            assert!(why.starts_with("Step ") && why.contains(" on rank "), "{precision:?}: {why}");
        }
    }
}

#[test]
fn a_type_for_gradients_is_refused() {
    let _one = testing::one_at_a_time();
    let Some(device) = gpu("a_type_for_gradients_is_refused") else { return };
    let ranks = Ranks::new(Box::new(Alone::default()), RanksOptions { wire: Wire::Bf16, ..RanksOptions::default() });
    let place = Place::Cuda(device, CudaOptions::new(Precision::Fp32));
    let why = Trainer::on_ranks(&place, recipe(), &digits().0, None, &ranks).unwrap_err().to_string();
    assert!(why.contains("choose another precision"), "{why}");
}

#[test]
fn two_gpus_train_as_one_with_the_same_global_batch() {
    let _one = testing::one_at_a_time();
    let Some(devices) = two_gpus("two_gpus_train_as_one_with_the_same_global_batch") else { return };
    let in_parts = Recipe { accumulate: 2, ..recipe() };
    let all = options().into_iter().map(|options| (recipe(), options));
    for (recipe, options) in all.chain([(in_parts, CudaOptions::new(Precision::AmpFp16))]) {
        let place = Place::Cuda(devices[0].clone(), options);
        let (want, _) = course(Trainer::on(&place, recipe.clone(), &digits().0, None).unwrap());
        let small = RanksOptions { bucket_bytes: 4000, ..RanksOptions::default() };
        let both = on_both(&devices, &recipe, options, small);
        assert!(both[0] == both[1], "{options:?}: both have the same bits");
        assert!(both == on_both(&devices, &recipe, options, small), "{options:?}: on every run");
        let allowed = if options.precision == Precision::Fp32 { 2e-3 } else { 3e-2 };
        let most = both[0].0.iter().zip(&want).map(|(a, b)| (a - b).abs() / b.abs()).fold(0.0, f64::max);
        assert!(both[0].0.len() == want.len() && most <= allowed, "{options:?}: losses differ by {most:.1e}");
    }
}

/// Options with loss scales, found by halving, at which the first steps overflow: in all gradients, or in only a few.
fn overflowing() -> Vec<CudaOptions> {
    let scaled_from = |init_scale| {
        let scaler = GradScaler { init_scale, ..GradScaler::default() };
        CudaOptions { scaler, ..CudaOptions::new(Precision::AmpFp16) }
    };
    [2f32.powi(26), 2f32.powi(21)].map(scaled_from).into()
}

/// Optimisers with different numbers of state arrays.
fn optimizers() -> [Optimizer; 3] {
    let sgd = |momentum| Optimizer::Sgd { momentum, nesterov: false, weight_decay: 1e-3 };
    [sgd(0.0), sgd(0.9), Optimizer::Adam { betas: [0.9, 0.999], epsilon: 1e-8, weight_decay: 0.0 }]
}

/// An update made before all gradients are known gives the same bits as an update that waits for them, both in steps that overflow and in steps
/// that do not.
#[test]
fn an_update_that_is_taken_back_leaves_the_same_bits() {
    let _one = testing::one_at_a_time();
    let name = "an_update_that_is_taken_back_leaves_the_same_bits";
    let Some(device) = gpu(name) else { return };
    let small = RanksOptions { bucket_bytes: 4000, ..RanksOptions::default() };
    let rank = |options: CudaOptions, recipe: &Recipe| {
        let ranks = Ranks::new(Box::new(Alone::default()), small);
        let place = Place::Cuda(device.clone(), options);
        let (train, test) = digits();
        let mut trainer = Trainer::on_ranks(&place, recipe.clone(), &train, None, &ranks).unwrap();
        let (mut losses, mut skipped) = (Vec::new(), Vec::new());
        let mut listener = |event: Event| {
            if let Event::Step { loss, outcome, .. } = event {
                losses.push(loss);
                skipped.push(outcome.skipped);
            }
            Flow::Continue
        };
        trainer.train(&train, &test, 100, &mut listener).unwrap();
        let made = (losses, trainer.weights().unwrap());
        ranks.finish().unwrap();
        (made, skipped)
    };
    for optimizer in optimizers() {
        for options in overflowing() {
            let recipe = Recipe { optimizer, epochs: 4, learning_rate: 0.002, ..recipe() };
            let (early, skipped) = rank(options, &recipe);
            let waits = rank(CudaOptions { last_block: false, ..options }, &recipe);
            assert!(skipped.contains(&true) && skipped.contains(&false), "{optimizer:?}: {skipped:?}");
            assert_eq!(skipped, waits.1, "{optimizer:?}");
            assert!(early == waits.0, "{optimizer:?}: {:?} and {:?}", early.0, waits.0.0);
        }
    }
}

#[test]
fn two_gpus_take_an_update_back_together() {
    let _one = testing::one_at_a_time();
    let Some(devices) = two_gpus("two_gpus_take_an_update_back_together") else { return };
    let small = RanksOptions { bucket_bytes: 4000, ..RanksOptions::default() };
    for optimizer in optimizers() {
        let recipe = Recipe { optimizer, epochs: 4, learning_rate: 0.002, ..recipe() };
        for options in overflowing() {
            let both = on_both(&devices, &recipe, options, small);
            assert!(both[0] == both[1], "{optimizer:?}: both have the same bits");
            let waits = on_both(&devices, &recipe, CudaOptions { last_block: false, ..options }, small);
            assert!(both == waits, "{optimizer:?}: {:?} and {:?}", both[0].0, waits[0].0);
        }
    }
}

#[test]
fn running_statistics_are_the_same_on_both() {
    let _one = testing::one_at_a_time();
    let Some(devices) = two_gpus("running_statistics_are_the_same_on_both") else { return };
    let both = on_both(&devices, &normalised(), CudaOptions::new(Precision::Fp32), RanksOptions::default());
    assert!(both[0] == both[1] && both[0].0.iter().all(|loss| loss.is_finite()), "{:?}", both[0].0);
}

#[test]
fn synchronised_statistics_are_those_of_the_global_batch() {
    let _one = testing::one_at_a_time();
    let Some(devices) = two_gpus("synchronised_statistics_are_those_of_the_global_batch") else { return };
    let recipe = normalised();
    for precision in [Precision::Fp32, Precision::AmpFp16] {
        let options = CudaOptions::new(precision);
        let place = Place::Cuda(devices[0].clone(), options);
        let (want, weights) = course(Trainer::on(&place, recipe.clone(), &digits().0, None).unwrap());
        let differs = |both: &[Course]| {
            let most = |pairs: &mut dyn Iterator<Item = (f64, f64)>| {
                pairs.map(|(a, b)| (a - b).abs() / b.abs().max(1.0)).fold(0.0, f64::max)
            };
            let running = |of: &Weights| of.values()[3..5].concat();
            let [a, b] = [running(&both[0].1), running(&weights)];
            assert!(both[0].0.len() == want.len() && a.len() == 16, "losses, and two statistics of 8 channels");
            [
                most(&mut both[0].0.iter().copied().zip(want.iter().copied())),
                most(&mut a.iter().map(|v| f64::from(*v)).zip(b.iter().map(|v| f64::from(*v)))),
            ]
        };
        let options_with = |synchronised_norm| RanksOptions { synchronised_norm, ..RanksOptions::default() };
        let together = on_both(&devices, &recipe, options, options_with(true));
        assert!(together[0] == together[1], "{precision:?}: both have the same bits");
        let allowed = if precision == Precision::Fp32 { 2e-3 } else { 3e-2 };
        let [losses, statistics] = differs(&together);
        assert!(losses <= allowed && statistics <= allowed, "{precision:?}: {losses:.1e} and {statistics:.1e}");
        let [of_own_rows, _] = differs(&on_both(&devices, &recipe, options, options_with(false)));
        assert!(of_own_rows > losses, "{precision:?}: each rank's own statistics differ by {of_own_rows:.1e}");
    }
}

#[test]
fn two_ranks_on_the_same_gpu_are_refused() {
    let _one = testing::one_at_a_time();
    let Some(device) = gpu("two_ranks_on_the_same_gpu_are_refused") else { return };
    let same = [device.clone(), device];
    as_ranks(&same, RanksOptions::default(), |device, ranks| {
        let place = Place::Cuda(device.clone(), CudaOptions::new(Precision::Fp32));
        let made = Trainer::on_ranks(&place, recipe(), &digits().0, None, ranks);
        let why = made.unwrap_err().to_string();
        assert!(why.contains("Ranks 0 and 1 have the same GPU"), "{why}");
    });
}

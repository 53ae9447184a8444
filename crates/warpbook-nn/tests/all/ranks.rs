//! Data-parallel training on the CPU: ranks are threads of this process, with the same collectives as processes.

use std::net::TcpListener;
use std::time::Duration;
use warpbook_data::{Dataset, synthetic_digits};
use warpbook_nn::network::{Network, batch_norm, conv2d, dropout, flatten, linear, max_pool, relu};
use warpbook_nn::ops::optimizer::Optimizer;
use warpbook_nn::train::{
    Augmentation, Ended, Event, Flow, Place, Ranks, RanksOptions, Recipe, Score, TrainError, Trainer,
};
use warpbook_nn::weights::Weights;
use warpbook_ranks::{Alone, Group, Launcher, Limits, Placement, Wire};

fn limits() -> Limits {
    Limits { join: Duration::from_secs(60), silence: Duration::from_secs(30), stall: Duration::from_secs(60) }
}

/// Runs `work` on each rank, and returns the results in the order of ranks.
fn together<R: Send>(world: usize, options: RanksOptions, work: impl Fn(&Ranks) -> R + Sync) -> Vec<R> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut listener = Some(listener);
    std::thread::scope(|scope| {
        let mut all = Vec::new();
        for rank in 0..world {
            let (listener, work) = (listener.take(), &work);
            let (host, token) = ("127.0.0.1".to_owned(), "test".to_owned());
            let placement =
                Placement { rank, local_rank: rank, world, host, port, token, launcher: Launcher::Warpbook };
            all.push(scope.spawn(move || {
                let group = Group::join(&placement, limits(), listener).unwrap();
                let ranks = Ranks::new(Box::new(group), options);
                let made = work(&ranks);
                // `finish` fails if the work has failed.
                let _ = ranks.finish();
                made
            }));
        }
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn recipe(network: Network) -> Recipe {
    Recipe { network, batch: 24, epochs: 2, learning_rate: 0.02, clip: Some(5.0), ..Recipe::mnist() }
}

fn plain() -> Recipe {
    let layers = [conv2d(4, 5), relu(), max_pool(2), flatten(), dropout(0.3), linear(12), relu(), linear(10)];
    let augmentation = Some(Augmentation::new(2, true));
    Recipe { augmentation, ..recipe(Network::new([1, 28, 28], layers).unwrap()) }
}

fn normalised() -> Recipe {
    let layers = [conv2d(4, 5).without_bias(), batch_norm(), relu(), max_pool(2), flatten(), linear(10)];
    recipe(Network::new([1, 28, 28], layers).unwrap())
}

/// 98 images make four batches of 24 and one of 2, which is fewer than three ranks need.
fn digits() -> (Dataset, Dataset) {
    let digits = synthetic_digits(98, 41, 3);
    (digits.train, digits.test)
}

#[derive(Debug, Clone, PartialEq)]
struct Course {
    losses: Vec<f64>,
    scores: Vec<Score>,
    weights: Weights,
}

fn course(trainer: &mut Trainer, until: u64) -> Result<Course, TrainError> {
    let (train, test) = digits();
    let (mut losses, mut scores) = (Vec::new(), Vec::new());
    trainer.train_until(until, &train, &test, 100, &mut |event| {
        match event {
            Event::Step { loss, .. } => losses.push(loss),
            Event::Epoch { test, .. } => scores.push(test),
            _ => {}
        }
        Flow::Continue
    })?;
    Ok(Course { losses, scores, weights: trainer.weights()? })
}

fn alone(recipe: &Recipe) -> Course {
    course(&mut Trainer::new(recipe.clone(), &digits().0, None).unwrap(), u64::MAX).unwrap()
}

fn on_ranks(recipe: &Recipe, world: usize, options: RanksOptions) -> Vec<Course> {
    together(world, options, |ranks| {
        let mut trainer = Trainer::on_ranks(&Place::Cpu, recipe.clone(), &digits().0, None, ranks).unwrap();
        course(&mut trainer, u64::MAX).unwrap()
    })
}

/// Largest differences of losses and of weights, relative to the largest loss or weight.
fn apart(a: &Course, b: &Course) -> [f64; 2] {
    assert_eq!(a.losses.len(), b.losses.len());
    let losses = a.losses.iter().zip(&b.losses).map(|(a, b)| (a - b).abs() / b.abs()).fold(0.0, f64::max);
    let pairs = a.weights.values().iter().zip(b.weights.values()).map(|(a, b)| {
        let most = b.iter().fold(0f32, |m, v| m.max(v.abs()));
        a.iter().zip(b).map(|(a, b)| f64::from((a - b).abs() / most)).fold(0.0, f64::max)
    });
    [losses, pairs.fold(0.0, f64::max)]
}

fn assert_close(what: &str, got: &Course, want: &Course, allowed: f64) {
    let [losses, weights] = apart(got, want);
    assert!(losses <= allowed && weights <= allowed, "{what}: losses differ by {losses:.1e}, weights by {weights:.1e}");
    for (got, want) in got.scores.iter().zip(&want.scores) {
        assert!(
            got.of == want.of && (got.loss - want.loss).abs() <= allowed * want.loss,
            "{what}: {got:?} and {want:?}"
        );
    }
}

#[test]
fn several_ranks_train_as_one_with_the_same_global_batch() {
    let recipe = plain();
    let want = alone(&recipe);
    for world in [2, 3, 5] {
        let all = on_ranks(&recipe, world, RanksOptions { bucket_bytes: 2000, ..RanksOptions::default() });
        assert!(all.iter().all(|course| *course == all[0]), "{world} ranks have the same bits");
        // The difference comes from ten steps of f32 sums in another order.
        assert_close(&format!("{world} ranks"), &all[0], &want, 2e-4);
    }
}

#[test]
fn one_rank_has_the_bits_of_a_training_without_ranks() {
    for recipe in [plain(), normalised()] {
        for synchronised_norm in [false, true] {
            let ranks =
                Ranks::new(Box::new(Alone::default()), RanksOptions { synchronised_norm, ..RanksOptions::default() });
            let mut trainer = Trainer::on_ranks(&Place::Cpu, recipe.clone(), &digits().0, None, &ranks).unwrap();
            assert_eq!(course(&mut trainer, u64::MAX).unwrap(), alone(&recipe));
            ranks.finish().unwrap();
        }
    }
}

#[test]
fn the_same_number_of_ranks_gives_the_same_bits() {
    let recipe = plain();
    let options = RanksOptions { bucket_bytes: 2000, ..RanksOptions::default() };
    let first = on_ranks(&recipe, 3, options);
    assert_eq!(first, on_ranks(&recipe, 3, options));
    // A single bucket adds in another order, but stays within the same bound.
    assert_close("one bucket", &on_ranks(&recipe, 3, RanksOptions::default())[0], &first[0], 2e-4);
}

#[test]
fn gradients_may_travel_in_16_bits() {
    let recipe = plain();
    let want = alone(&recipe);
    for (wire, allowed) in [(Wire::Bf16, 5e-2), (Wire::F16, 1e-2)] {
        let all = on_ranks(&recipe, 2, RanksOptions { wire, ..RanksOptions::default() });
        assert!(all[0] == all[1], "{wire:?}: the ranks have the same bits");
        assert_close(&format!("{wire:?}"), &all[0], &want, allowed);
        assert!(apart(&all[0], &want)[1] > 1e-6, "{wire:?} rounds");
    }
}

#[test]
fn batch_normalisation_is_local_or_synchronised() {
    // A batch of 2 leaves ranks without samples; with local statistics one image has enough pixels for a variance.
    let recipe = Recipe { clip: None, ..normalised() };
    let want = alone(&recipe);
    let synchronised = RanksOptions { synchronised_norm: true, ..RanksOptions::default() };
    for world in [2, 3] {
        let all = on_ranks(&recipe, world, synchronised);
        assert!(all.iter().all(|course| *course == all[0]));
        assert_close(&format!("synchronised on {world} ranks"), &all[0], &want, 1e-3);
        let local = on_ranks(&recipe, world, RanksOptions::default());
        assert!(local.iter().all(|course| *course == local[0]), "also the running statistics");
        assert!(apart(&local[0], &want)[0] > 1e-3, "statistics of fewer samples are others");
        assert!(local[0].losses.iter().all(|loss| loss.is_finite()));
    }
}

#[test]
fn a_training_goes_on_with_another_number_of_ranks() {
    let recipe = Recipe { optimizer: Optimizer::adam(), learning_rate: 1e-3, ..plain() };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.safetensors");
    let options = RanksOptions::default();
    // Resumes within an epoch; only rank 0 knows the file.
    let whole = together(3, options, |ranks| {
        let mut trainer = Trainer::on_ranks(&Place::Cpu, recipe.clone(), &digits().0, None, ranks).unwrap();
        if ranks.rank() == 0 {
            trainer = trainer.checkpoint(&path);
        }
        let first = course(&mut trainer, 3).unwrap();
        // Makes sure that the file is written before the other ranks continue.
        ranks.all_gather(&[]).unwrap();
        let kept = std::fs::read(&path).unwrap();
        ranks.all_gather(&[]).unwrap();
        let rest = course(&mut trainer, u64::MAX).unwrap();
        (Course { losses: [first.losses, rest.losses].concat(), ..rest }, kept)
    });
    let (whole, kept) = whole[0].clone();
    let resumed = |world: usize| {
        std::fs::write(&path, &kept).unwrap();
        let nowhere = folder.path().join("other ranks do not read it");
        let all = together(world, options, |ranks| {
            let mut trainer = Trainer::on_ranks(&Place::Cpu, recipe.clone(), &digits().0, None, ranks).unwrap();
            trainer.resume(if ranks.rank() == 0 { &path } else { &nowhere }).unwrap();
            assert_eq!(trainer.step(), 3);
            course(&mut trainer, u64::MAX).unwrap()
        });
        Course { losses: [&whole.losses[..3], &all[0].losses].concat(), ..all[0].clone() }
    };
    assert_eq!(resumed(3), whole, "the same number of ranks goes on to the same bits");
    assert_close("two ranks", &resumed(2), &whole, 2e-3);
    let mut one = Trainer::new(recipe.clone(), &digits().0, None).unwrap();
    std::fs::write(&path, &kept).unwrap();
    one.resume(&path).unwrap();
    let rest = course(&mut one, u64::MAX).unwrap();
    let one = Course { losses: [&whole.losses[..3], &rest.losses].concat(), ..rest };
    assert_close("one rank", &one, &whole, 2e-3);
}

#[test]
fn a_loss_that_is_no_number_ends_all_and_names_the_rank() {
    let recipe = Recipe { learning_rate: 1e30, clip: None, ..plain() };
    let all = together(3, RanksOptions::default(), |ranks| {
        let mut trainer = Trainer::on_ranks(&Place::Cpu, recipe.clone(), &digits().0, None, ranks).unwrap();
        course(&mut trainer, u64::MAX).unwrap_err().to_string()
    });
    for why in &all {
        // A rank may learn of the error from a faster rank.
        assert!(why.contains("Step ") && why.contains(" on rank ") && why.contains("Lower the learning rate"), "{why}");
    }
}

#[test]
fn one_rank_that_is_told_to_stop_stops_all() {
    let all = together(2, RanksOptions::default(), |ranks| {
        let (train, test) = digits();
        let mut trainer = Trainer::on_ranks(&Place::Cpu, plain(), &train, None, ranks).unwrap();
        let rank = ranks.rank();
        let ended = trainer.train(&train, &test, 100, &mut |event| match event {
            Event::Step { step: 3, .. } if rank == 1 => Flow::Stop,
            _ => Flow::Continue,
        });
        (ended.unwrap(), trainer.step())
    });
    assert_eq!(all, [(Ended::Stopped, 3); 2]);
}

#[test]
fn a_time_budget_is_that_of_rank_0() {
    let all = together(2, RanksOptions::default(), |ranks| {
        let (train, test) = digits();
        let recipe = Recipe { epochs: 100_000, ..plain() };
        let trainer = Trainer::on_ranks(&Place::Cpu, recipe, &train, None, ranks).unwrap();
        // Rank 0 has a short time budget, and the other rank a much longer one.
        let budget = if ranks.rank() == 0 { Duration::from_millis(300) } else { Duration::from_secs(600) };
        let mut trainer = trainer.time_budget(budget);
        (trainer.train(&train, &test, 100, &mut |_| Flow::Continue).unwrap(), trainer.step())
    });
    assert!(all[0] == all[1] && all[0].0 == Ended::OutOfTime, "{all:?}");
}

#[test]
fn ranks_that_train_different_things_say_so() {
    let whys = |change: &(dyn Fn(usize) -> (Recipe, Dataset) + Sync)| {
        together(2, RanksOptions::default(), |ranks| {
            let (recipe, data) = change(ranks.rank());
            Trainer::on_ranks(&Place::Cpu, recipe, &data, None, ranks).unwrap_err().to_string()
        })
    };
    let check = |whys: Vec<String>, expect: &str| {
        assert!(whys.iter().all(|why| why.contains(expect)), "{whys:?}");
    };
    let seeded = |rank: usize| (Recipe { seed: 1 + rank as u64, ..plain() }, digits().0);
    check(whys(&seeded), "Rank 1 trains with another recipe than rank 0");
    let other = |rank: usize| (plain(), synthetic_digits(98, 1, 3 + rank as u64).train);
    check(whys(&other), "Rank 1 trains with another data set than rank 0");
    check(whys(&|_| (Recipe { batch: 1, ..plain() }, digits().0)), "fewer samples than the 2 ranks");
}

#[test]
fn a_checkpoint_that_is_not_there_ends_all() {
    let all = together(2, RanksOptions::default(), |ranks| {
        let mut trainer = Trainer::on_ranks(&Place::Cpu, plain(), &digits().0, None, ranks).unwrap();
        // Rank 0 ends all ranks at its first check, when no other rank may still be creating its trainer. This call
        // may fail.
        let _ = ranks.all_gather(&[]);
        trainer.resume("/nowhere/c.safetensors").unwrap_err().to_string()
    });
    assert!(all.iter().all(|why| why.contains("/nowhere/c.safetensors")), "{all:?}");
}

/// Gradients are reduced once, after the last part.
#[test]
fn ranks_whose_batches_come_in_parts_train_as_one() {
    for recipe in [plain(), Recipe { clip: None, ..plain() }] {
        let want = alone(&recipe);
        let parts = Recipe { accumulate: 3, ..recipe };
        assert_close("one in parts", &alone(&parts), &want, 1e-4);
        for world in [2, 3] {
            let courses = on_ranks(&parts, world, RanksOptions::default());
            assert_close(&format!("{world} ranks in parts"), &courses[0], &want, 1e-4);
            assert!(
                courses.iter().all(|c| c.weights == courses[0].weights),
                "{world} ranks: all have the same weights"
            );
        }
    }
}

#[test]
fn statistics_of_all_ranks_are_refused_of_batches_in_parts() {
    let recipe = Recipe { accumulate: 2, ..normalised() };
    let options = RanksOptions { synchronised_norm: true, ..RanksOptions::default() };
    let refused = together(2, options, |ranks| {
        Trainer::on_ranks(&Place::Cpu, recipe.clone(), &digits().0, None, ranks).err().map(|e| e.to_string())
    });
    for why in refused {
        assert!(why.is_some_and(|why| why.contains("accumulate splits the batch")));
    }
}

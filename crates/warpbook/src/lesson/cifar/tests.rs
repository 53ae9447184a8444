use super::*;
use warpbook_experiments::Trains;
use warpbook_nn::train::{Loader, Residency, Score};

/// Returns a small network of the lesson's kind, on digits in colour.
fn small() -> (Recipe, Splits) {
    let layers = [conv2d(4, 3).padding(1), batch_norm(), relu(), max_pool(4), flatten(), linear(10)];
    let recipe = Recipe {
        network: Network::new([3, SIDE, SIDE], layers).unwrap(),
        optimizer: Optimizer::Sgd { momentum: 0.9, nesterov: true, weight_decay: 5e-4 },
        learning_rate: 0.02,
        batch: 32,
        epochs: 2,
        ..Recipe::cifar10()
    };
    (recipe, coloured_digits(64, 40, 3).unwrap())
}

fn cpu() -> Lab {
    Lab::open("cpu").unwrap()
}

#[test]
fn drawn_digits_are_in_colour_and_say_so() {
    let splits = coloured_digits(50, 20, 3).unwrap();
    let set = &splits.train;
    assert_eq!((set.shape(), set.len(), splits.test.len()), ([3, SIDE, SIDE], 50, 20));
    assert!(set.note().contains("drawn by a program (seed 3)"), "{}", set.note());
    let drawn = synthetic_digits(50, 20, 3).train;
    assert_eq!(set.labels(), drawn.labels());
    for i in 0..50 {
        let image = set.image(i);
        let plane = |c: usize| &image[c * SIDE * SIDE..][..SIDE * SIDE];
        // The first pixel shows the background; the digit is brighter in every channel.
        let paper: Vec<u8> = (0..3).map(|c| plane(c)[0]).collect();
        let inked = |at: usize| (0..3).all(|c| plane(c)[at] > paper[c]);
        let full = (0..784).filter(|p| drawn.image(i)[*p] == 255).collect::<Vec<_>>();
        assert!(full.iter().all(|p| inked((2 + p / 28) * SIDE + 2 + p % 28)), "image {i}");
        assert!((0..SIDE).all(|x| !inked(x)), "image {i}");
    }
    let papers: std::collections::BTreeSet<u8> = (0..50).map(|i| set.image(i)[0]).collect();
    assert!(papers.len() > 20, "{} colours", papers.len());
    let (found, said) = photographs(40, 10).unwrap();
    assert!(found.train.len() == 40 && said.starts_with("40 images to train on and 10 for the test: "), "{said}");
}

#[test]
fn curves_and_gaps_are_those_of_the_trainings() {
    let (recipe, splits) = small();
    let lab = cpu();
    let mut with = lab.train(recipe.clone(), &splits).run().unwrap();
    let mut without = lab.train(Recipe { augmentation: None, ..recipe }, &splits).run().unwrap();
    let chart = accuracy_curves(&[("with", &with), ("without", &without)]).unwrap();
    let last = with.last_epoch().unwrap().test.unwrap().accuracy().unwrap();
    assert_eq!(chart.table.headers, ["epoch", "with: test", "with: training", "without: test", "without: training"]);
    assert_eq!(chart.table.rows[1][1], figures::significant(100.0 * last, 4));
    let own = with.trainer().evaluate(&splits.train).unwrap();
    let rows = gaps(&mut [("with", &mut with), ("without", &mut without)], &splits).unwrap().rows;
    assert_eq!((rows[0][1].as_str(), rows[0][2].as_str()), (&*share(own.accuracy()), &*share(last)));
    assert_eq!(rows[0][3], format!("{:.2} points", 100.0 * (own.accuracy() - last)));
    assert_eq!((rows.len(), rows[0].len()), (2, 6), "no error, so no column for one");
}

#[test]
fn ways_of_feeding_are_compared_with_the_first() {
    let (recipe, splits) = small();
    let ways = feedings(4);
    let off = |w: &&Feeding| w.loader.resident == Residency::Off;
    assert_eq!((ways.len(), ways.iter().filter(off).count()), (6, 4));
    assert!(
        ways[3].name.contains('4') && ways[3].loader == Loader { resident: Residency::Off, workers: 4, pinned: true }
    );
    let mut all: Vec<Fed> =
        ways[..2].iter().map(|w| fed(&cpu(), &recipe, &splits, Precision::Fp32, w).unwrap()).collect();
    assert_eq!((all[0].losses.len(), all[0].peak_bytes), (4, None));
    assert!((all[0].step_us * all[0].images_per_s / 32e6 - 1.0).abs() < 1e-9, "two steps of 32");
    assert!(same_losses(&all).contains("All 2 ways gave the same losses in 4 steps"));
    assert!(same_losses(&all[..1]).contains("one way only"));
    all[1].losses[3] += 1e-9;
    assert!(same_losses(&all).contains("differ from those of the first: copied one by one."));
    all[1].images_per_s = 3.0 * all[0].images_per_s;
    assert_eq!(feeds(&all).rows[1][3], figures::times(3.0));
    let host = on_the_host(&recipe, &splits.train).unwrap().rows;
    assert_eq!([&host[0][3], &host[1][3]], [&figures::bytes(32 * 3072), &figures::bytes(4 * 32 * 3072)]);
    assert!(on_the_host(&Recipe::mnist(), &splits.train).is_err());
}

#[test]
fn a_sweep_scales_the_learning_rate_with_the_batch() {
    let (recipe, splits) = small();
    let all = sweep_batches(&cpu(), &recipe, &splits, Precision::Fp32, &[16, 64]).unwrap();
    let rates: Vec<(usize, bool, f64, u64)> = all.iter().map(|s| (s.batch, s.scaled, s.rate, s.steps)).collect();
    assert_eq!(rates, [(16, false, 0.02, 8), (16, true, 0.01, 8), (64, false, 0.02, 2), (64, true, 0.04, 2)]);
    assert!(all.iter().all(|s| s.accuracy.is_some() && s.images_per_s > 0.0));
    let rows = batches(&all).rows;
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[1][4], share(all[2].accuracy.unwrap()));
    assert_eq!(
        (accuracy_by_batch(&all).unwrap().table.rows.len(), rate_by_batch(&all).unwrap().table.rows.len()),
        (2, 2)
    );
}

#[test]
fn a_training_that_diverged_is_named_and_not_drawn() {
    let (recipe, splits) = small();
    let wild = Recipe { learning_rate: 1e30, ..recipe };
    let all = sweep_batches(&cpu(), &wild, &splits, Precision::Fp32, &[32]).unwrap();
    assert!(all.iter().all(|s| s.accuracy.is_none()), "{all:?}");
    assert_eq!(batches(&all).rows[0][4], "diverged");
    assert!(accuracy_by_batch(&all).is_err());
    assert_eq!(what_batches_cost(&all), "No training reached its end.");
}

#[test]
fn the_cost_of_a_large_batch_is_said() {
    let swept =
        |batch, scaled, images_per_s, accuracy| Swept { batch, scaled, rate: 0.1, steps: 1, images_per_s, accuracy };
    let all = [
        swept(32, false, 10.0, Some(0.9)),
        swept(32, true, 11.0, Some(0.88)),
        swept(512, false, 44.0, Some(0.8)),
        swept(512, true, 40.0, None),
    ];
    let said = what_batches_cost(&all);
    for part in [
        &*format!("Batches of 512 pass through {} as fast", figures::times(4.0)),
        "at a batch of 32 and a learning rate of 0.1: 90.00 %",
        "10.0 points below that with the same learning rate, and diverged with the scaled one",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(batches(&all).rows[0][2], figures::item_rate(11.0, "images"));
    assert_eq!(accuracy_by_batch(&all).unwrap().title, "A batch of 32 learns the most: 90.00 %");
    let faster = format!("Training with batches of 512 is {} as fast as with batches of 32", figures::times(4.0));
    assert_eq!(rate_by_batch(&all).unwrap().title, faster);
}

#[test]
fn what_is_kept_is_measured_and_compared() {
    let (recipe, splits) = small();
    let weights = Weights::init(&recipe.network, 1);
    let frozen = Frozen::new(&recipe, &weights, splits.test.classes()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frozen.safetensors");
    frozen.save(&path).unwrap();
    let rows = files(&[("frozen", &path)], 100).unwrap().rows;
    let bytes = std::fs::metadata(&path).unwrap().len();
    assert_eq!((&rows[0][2], &rows[0][3]), (&figures::bytes(bytes), &figures::number(bytes as f64 / 100.0)));
    assert!(files(&[("none", &folder.path().join("x"))], 1).unwrap_err().to_string().contains("cannot be read"));

    let bench = Bench { samples: 3, warmup: 1, ..Bench::quick() };
    let rows = latencies(&[("fp32", &frozen)], &splits.test, &[1, 8], &bench).unwrap().rows;
    assert_eq!(rows.iter().map(|r| r[1].as_str()).collect::<Vec<_>>(), ["1", "8"]);
    assert!(
        latencies(&[("fp32", &frozen)], &splits.test, &[41], &bench).unwrap_err().to_string().contains("40 images")
    );

    assert_eq!(same_bits(&[1.0, f32::NAN], &[1.0, f32::NAN]), "All 2 numbers have the same bits.");
    assert_eq!(
        same_bits(&[1.0, 0.0], &[1.5, 0.0]),
        format!("1 of 2 numbers differ, by at most {}.", figures::number(0.5))
    );
    assert!(same_bits(&[0.0], &[-0.0]).starts_with("1 of 1"), "bits, not values");
    assert_eq!(same_bits(&[1.0], &[]), "There are 1 numbers and 0.");
    let rows = scores(&[("a", Score { loss: 0.5, correct: 3, of: 4 })]).rows;
    assert_eq!(rows[0], ["a", "0.500000", "3 of 4", "75.00 %"]);
}

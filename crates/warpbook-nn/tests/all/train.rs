//! Training on the CPU: the loss falls, gradients are right through every kind of layer, and an interruption changes no
//! bit.

use std::time::Duration;
use warpbook_data::philox;
use warpbook_data::{Dataset, synthetic_digits};
use warpbook_nn::network::*;
use warpbook_nn::ops::optimizer::Optimizer;
use warpbook_nn::train::{CpuEngine, Ended, Event, Flow, Loss, Mode, Recipe, Target, TrainError, Trainer};
use warpbook_nn::weights::Weights;

/// A recipe small enough for a test, with every kind of layer that a checkpoint has to keep.
fn recipe() -> Recipe {
    let layers = [
        conv2d(6, 3).stride(2),
        batch_norm(),
        relu(),
        residual([conv2d(6, 3).padding(1), batch_norm(), gelu()]),
        max_pool(2),
        dropout(0.1),
        flatten(),
        linear(10),
    ];
    Recipe {
        network: Network::new([1, 28, 28], layers).unwrap(),
        optimizer: Optimizer::adam(),
        learning_rate: 3e-3,
        batch: 64,
        epochs: 2,
        ..Recipe::mnist()
    }
}

fn train(trainer: &mut Trainer, set: &Dataset, stop_at: Option<u64>) -> Vec<Event> {
    let mut events = Vec::new();
    let listener = &mut |event: Event| {
        if !matches!(event, Event::Step { .. }) {
            events.push(event.clone());
        }
        match (event, stop_at) {
            (Event::Step { step, .. }, Some(at)) if step >= at => Flow::Stop,
            _ => Flow::Continue,
        }
    };
    trainer.train(set, set, 1, listener).unwrap();
    events
}

#[test]
fn a_small_network_learns_synthetic_digits() {
    let digits = synthetic_digits(700, 10, 1);
    let mut trainer = Trainer::new(Recipe { epochs: 4, ..recipe() }, &digits.train, None).unwrap();
    let before = trainer.evaluate(&digits.train).unwrap();
    let events = train(&mut trainer, &digits.train, None);
    // 700 images make ten whole batches and one batch of 60.
    assert_eq!(trainer.step(), 44);
    assert_eq!(events.len(), 48, "a line a batch and one an epoch");
    let Some(Event::Epoch { epoch: 4, test, .. }) = events.last() else { panic!("{events:?}") };
    assert!(before.accuracy() < 0.3 && test.accuracy() > 0.6, "{before:?}, then {test:?}");
    assert!(test.loss < before.loss);
}

#[test]
fn a_resumed_training_has_the_same_bits() {
    let digits = synthetic_digits(200, 10, 1);
    let mut whole = Trainer::new(recipe(), &digits.train, None).unwrap();
    train(&mut whole, &digits.train, None);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint.safetensors");
    let mut first = Trainer::new(recipe(), &digits.train, None).unwrap();
    train(&mut first, &digits.train, Some(3));
    first.save(&path).unwrap();
    let mut second = Trainer::new(recipe(), &digits.train, None).unwrap();
    second.resume(&path).unwrap();
    let again = folder.path().join("again.safetensors");
    second.save(&again).unwrap();
    assert!(std::fs::read(&again).unwrap() == std::fs::read(&path).unwrap(), "the files differ");
    assert_eq!(second.step(), 3);
    train(&mut second, &digits.train, None);
    assert!(second.weights().unwrap() == whole.weights().unwrap(), "the weights differ");
    // A checkpoint can be read as plain weights, without the optimiser's state.
    assert!(Weights::load(&recipe().network, &path).unwrap() == first.weights().unwrap(), "the weights differ");
    let refused = |r: Recipe| Trainer::new(r, &digits.train, None).unwrap().resume(&path).unwrap_err().to_string();
    assert!(refused(Recipe { seed: 2, ..recipe() }).contains("seed"));
    let sgd = Optimizer::Sgd { momentum: 0.9, nesterov: false, weight_decay: 0.0 };
    assert!(refused(Recipe { optimizer: sgd, ..recipe() }).contains("another optimiser"));
    first.weights().unwrap().save(&path).unwrap();
    assert!(refused(recipe()).contains("--init"));
}

#[test]
fn steps_that_are_taken_back_leave_nothing() {
    let digits = synthetic_digits(200, 10, 1);
    let mut whole = Trainer::new(recipe(), &digits.train, None).unwrap();
    train(&mut whole, &digits.train, None);
    let mut trainer = Trainer::new(recipe(), &digits.train, None).unwrap();
    train(&mut trainer, &digits.train, Some(3));
    let before = trainer.weights().unwrap();
    let between = trainer.with_state_restored(|trainer| {
        trainer.prepare_steps(&digits.train)?;
        (0..2).try_for_each(|_| trainer.queue_step())?;
        trainer.weights()
    });
    assert!(between.unwrap() != before, "the steps changed the weights");
    assert!(trainer.weights().unwrap() == before && trainer.step() == 3, "all is what it was");
    // An error of the closure is passed on, and the state is restored, too.
    let refused = trainer.with_state_restored(|trainer| {
        trainer.queue_step()?;
        Err::<(), _>(TrainError::Setting("no".into()))
    });
    assert!(refused.unwrap_err().to_string() == "no" && trainer.weights().unwrap() == before);
    train(&mut trainer, &digits.train, None);
    assert!(trainer.weights().unwrap() == whole.weights().unwrap(), "it goes on as one without those steps");
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let digits = synthetic_digits(130, 10, 1);
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut trainer = Trainer::new(Recipe { epochs: 1, ..recipe() }, &digits.train, None).unwrap();
            train(&mut trainer, &digits.train, None);
            trainer.weights().unwrap()
        })
    };
    assert!(with(1) == with(3), "the weights differ");
}

/// A network whose steps take almost no time.
fn small() -> Recipe {
    let network = Network::new([1, 28, 28], [avg_pool(7), flatten(), linear(10)]).unwrap();
    Recipe { network, optimizer: Optimizer::sgd(), batch: 32, epochs: 1000, ..recipe() }
}

/// The results are also equal after a restart, and after an early end.
#[test]
fn all_steps_without_evaluations_are_those_of_a_watched_training() {
    // Each epoch has five batches; the last one may be smaller.
    for samples in [150, 160] {
        let digits = synthetic_digits(samples, 8, 1);
        let recipe = Recipe { batch: 32, epochs: 3, ..recipe() };
        let mut watched = Trainer::new(recipe.clone(), &digits.train, None).unwrap();
        train(&mut watched, &digits.train, None);
        let expected = watched.weights().unwrap();
        let mut trainer = Trainer::new(recipe, &digits.train, None).unwrap();
        for _ in 0..2 {
            let mut losses = Vec::new();
            let ended = trainer.train_remaining_steps(&digits.train, &mut |outcomes| {
                losses.extend(outcomes.iter().map(|o| o.loss));
                Flow::Continue
            });
            assert_eq!((ended.unwrap(), losses.len(), trainer.step()), (Ended::Finished, 15, 15));
            assert!(trainer.weights().unwrap() == expected, "{samples} samples");
            trainer.restart(&digits.train).unwrap();
            assert_eq!(trainer.step(), 0);
        }
        let stopped = trainer.train_remaining_steps(&digits.train, &mut |_| Flow::Stop).unwrap();
        assert_eq!((stopped, trainer.step()), (Ended::Stopped, 1));
        let ended = trainer.train_remaining_steps(&digits.train, &mut |_| Flow::Continue).unwrap();
        assert!(ended == Ended::Finished && trainer.weights().unwrap() == expected, "{samples} samples");
    }
}

#[test]
fn a_time_budget_ends_a_training_with_an_evaluation_and_its_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.safetensors");
    let digits = synthetic_digits(320, 32, 1);
    let mut trainer =
        Trainer::new(small(), &digits.train, None).unwrap().time_budget(Duration::from_millis(200)).checkpoint(&path);
    let (mut events, mut steps) = (Vec::new(), 0);
    let ended = trainer.train(&digits.train, &digits.test, 1000, &mut |event| {
        match event {
            Event::Step { step, .. } => steps = step,
            event => events.push(event),
        }
        Flow::Continue
    });
    assert_eq!(ended.unwrap(), Ended::OutOfTime);
    assert!(steps == trainer.step() && steps > 0 && steps < 10_000, "{steps}");
    match events.last().unwrap() {
        Event::OutOfTime { step, test, epoch, .. } => {
            assert_eq!((*step, test.of, u64::from(*epoch)), (steps, 32, steps / 10 + 1));
            // Pending events are sent first.
            let Event::Batches { step, .. } = events[events.len() - 2] else { panic!("{events:?}") };
            assert_eq!(step, steps);
        }
        Event::Epoch { step, .. } => assert_eq!((*step, steps % 10), (steps, 0), "it ended with an epoch"),
        other => panic!("{other:?}"),
    }
    let mut again = Trainer::new(small(), &digits.train, None).unwrap();
    again.resume(&path).unwrap();
    assert_eq!(again.step(), steps);
    assert!(again.weights().unwrap() == trainer.weights().unwrap());
    // A budget that is used up at once still allows one step.
    let mut hasty = again.time_budget(Duration::ZERO);
    assert_eq!(hasty.train(&digits.train, &digits.test, 1, &mut |_| Flow::Continue).unwrap(), Ended::OutOfTime);
    assert_eq!(hasty.step(), steps + 1);
    let enough = Recipe { epochs: 1, ..small() };
    let mut enough = Trainer::new(enough, &digits.train, None).unwrap().time_budget(Duration::from_secs(600));
    assert_eq!(enough.train(&digits.train, &digits.test, 1, &mut |_| Flow::Continue).unwrap(), Ended::Finished);
}

#[test]
fn a_checkpoint_is_kept_after_every_epoch_and_where_it_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.safetensors");
    let digits = synthetic_digits(320, 32, 1);
    let mut trainer = Trainer::new(small(), &digits.train, None).unwrap().checkpoint(&path);
    // Returns the step in the file when steps 11 and 21 are reported, and when a listener stops the training.
    let kept = |path: &std::path::Path| {
        let mut reader = Trainer::new(small(), &digits.train, None).unwrap();
        reader.resume(path).unwrap();
        reader.step()
    };
    let mut seen = Vec::new();
    let ended = trainer.train(&digits.train, &digits.test, 1, &mut |event| match event {
        Event::Step { step, .. } if step % 10 == 1 && step > 1 => {
            seen.push(kept(&path));
            Flow::Continue
        }
        Event::Step { step: 25, .. } => Flow::Stop,
        _ => Flow::Continue,
    });
    assert_eq!((ended.unwrap(), seen, kept(&path)), (Ended::Stopped, vec![10, 20], 25));
}

#[test]
fn a_loss_that_is_no_number_ends_the_training() {
    let digits = synthetic_digits(200, 10, 1);
    let sgd = Optimizer::sgd();
    let network = Network::new([1, 28, 28], [conv2d(4, 3), relu(), flatten(), linear(10)]).unwrap();
    let wild = Recipe { network, optimizer: sgd, learning_rate: 1e30, ..recipe() };
    let mut trainer = Trainer::new(wild, &digits.train, None).unwrap();
    let error = trainer.train(&digits.train, &digits.test, 1, &mut |_| Flow::Continue).unwrap_err();
    assert!(matches!(error, TrainError::NotFinite(_)));
    let sentence = error.to_string();
    assert!(sentence.starts_with("Step 2") || sentence.starts_with("Step 3"), "{sentence}");
    assert!(sentence.contains("output of") && sentence.contains("Lower the learning rate"), "{sentence}");
}

#[test]
fn a_loss_that_is_no_number_leaves_the_running_statistics_of_the_step_before() {
    let digits = synthetic_digits(200, 10, 1);
    let layers = [conv2d(4, 3), batch_norm(), relu(), flatten(), linear(8), linear(10)];
    let network = Network::new([1, 28, 28], layers).unwrap();
    let wild = Recipe { network, optimizer: Optimizer::sgd(), learning_rate: 1e25, ..recipe() };
    let mut broken = Trainer::new(wild.clone(), &digits.train, None).unwrap();
    let error = broken.train(&digits.train, &digits.test, 1, &mut |_| Flow::Continue).unwrap_err();
    assert!(matches!(error, TrainError::NotFinite(_)) && broken.step() == 1, "{error}");
    let mut before = Trainer::new(wild, &digits.train, None).unwrap();
    before.train_until(1, &digits.train, &digits.test, 1, &mut |_| Flow::Continue).unwrap();
    let (got, want) = (broken.weights().unwrap(), before.weights().unwrap());
    let variance = want.get("bn1.running_var").unwrap();
    assert!(variance.iter().all(|v| v.is_finite() && *v != 1.0), "{variance:?}");
    assert_eq!(got, want);
}

#[test]
fn a_checkpoint_that_cannot_be_written_is_refused_before_the_first_step() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "text").unwrap();
    let digits = synthetic_digits(64, 32, 1);
    for path in [folder.path().to_owned(), file.join("c.safetensors")] {
        let mut trainer = Trainer::new(small(), &digits.train, None).unwrap().checkpoint(&path);
        let error = trainer.train(&digits.train, &digits.test, 1, &mut |_| panic!("a step was made")).unwrap_err();
        let sentence = error.to_string();
        assert!(sentence.contains("cannot be written") && sentence.contains("Nothing was trained"), "{sentence}");
    }
    let mut trainer = Trainer::new(small(), &digits.train, None).unwrap().checkpoint(folder.path().join("new/c"));
    trainer.train_until(1, &digits.train, &digits.test, 1, &mut |_| Flow::Continue).unwrap();
    assert!(folder.path().join("new/c").is_file());
}

#[test]
fn a_clipped_gradient_has_at_most_that_norm() {
    let network = Network::new(5, [linear(3)]).unwrap();
    let sgd = Optimizer::sgd();
    let mut engine = CpuEngine::new(&network, 2, &Weights::init(&network, 1), &sgd).unwrap();
    engine.input(2).fill(3.0);
    engine.forward(2, Mode::Inference).unwrap();
    engine.backward(Loss::Mse, Target::Values(&[100.0; 6]), 2, 1.0).unwrap();
    let norm = |e: &CpuEngine| {
        let gradients = e.gradients().unwrap();
        gradients.values().iter().flatten().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt()
    };
    let before = norm(&engine);
    assert!((engine.clip(1.0).unwrap() - before).abs() < 1e-3 * before);
    assert!((norm(&engine) - 1.0).abs() < 1e-5);
}

/// Returns the loss's slope along a random direction of all weights: by differences, and by the gradient.
fn slopes(layers: Vec<Layer>) -> (f64, f64) {
    const N: usize = 5;
    let network = Network::new([2, 6, 7], layers).unwrap();
    let sgd = Optimizer::sgd();
    let weights = Weights::init(&network, 3);
    let outputs = network.output().elements();
    let targets: Vec<f32> = (0..N * outputs).map(|i| philox::gaussian(5, i as u64, 0)).collect();
    let run = |weights: &Weights| {
        let mut engine = CpuEngine::new(&network, N, weights, &sgd).unwrap();
        philox::fill_gaussians(engine.input(N), 4, 0, 0);
        engine.forward(N, Mode::Training { seed: 9, step: 2 }).unwrap();
        let loss = engine.backward(Loss::Mse, Target::Values(&targets), N, 1.0).unwrap().mean;
        (loss, engine.gradients().unwrap())
    };
    let (_, gradient) = run(&weights);
    let direction: Vec<Vec<f32>> = weights
        .specs()
        .iter()
        .enumerate()
        .map(|(id, s)| {
            let direction = |i: usize| if s.role.is_trained() { philox::gaussian(6, i as u64, id as u32) } else { 0.0 };
            (0..s.len()).map(direction).collect()
        })
        .collect();
    let moved = |step: f32| {
        let pairs = weights.values().iter().zip(&direction);
        let values = pairs.map(|(w, d)| w.iter().zip(d).map(|(w, d)| w + step * d).collect()).collect();
        run(&Weights::new(&network, values).unwrap()).0
    };
    let step = 1e-3f32;
    let by_differences = (moved(step) - moved(-step)) / (2.0 * f64::from(step));
    let product =
        |(g, d): (&Vec<f32>, &Vec<f32>)| g.iter().zip(d).map(|(g, d)| f64::from(*g) * f64::from(*d)).sum::<f64>();
    (by_differences, gradient.values().iter().zip(&direction).map(product).sum())
}

#[test]
fn gradients_go_through_every_kind_of_layer() {
    let check = |layers: Vec<Layer>| {
        let written: Vec<String> = layers.iter().map(ToString::to_string).collect();
        let (difference, gradient) = slopes(layers);
        assert!(
            (difference - gradient).abs() < 5e-3 * gradient.abs().max(0.1),
            "{written:?}: {difference}, {gradient}"
        );
    };
    check(vec![conv2d(4, 3), gelu(), flatten(), linear(3)]);
    check(vec![conv2d(4, 3).strides([2, 3]).paddings([1, 0]).without_bias(), gelu(), flatten(), linear(3)]);
    check(vec![conv2d(4, 3), gelu(), avg_pool(2), flatten(), linear(3).without_bias()]);
    check(vec![conv2d(3, 1), batch_norm(), gelu(), max_pool(3).stride(2).padding(1), flatten(), linear(3)]);
    check(vec![batch_norm(), conv2d(3, 3), dropout(0.4), flatten(), batch_norm(), linear(3)]);
    check(vec![conv2d(2, 1), residual([conv2d(2, 3).padding(1), gelu(), residual([gelu()])]), flatten(), linear(3)]);
    // Features of a flattened image are added to others, so the image has to be transposed.
    check(vec![conv2d(2, 3), flatten(), residual([linear(40), gelu()]), linear(3)]);
    check(vec![residual([conv2d(2, 3).padding(1)]), gelu(), flatten(), linear(3)]);
    check(vec![conv2d(2, 2), gelu(), flatten()]);
}

/// A batch normalisation over vectors needs two rows in every batch. A violation is reported before the first step.
#[test]
fn a_batch_of_one_row_is_refused_before_the_first_step() {
    let network = Network::new([1, 28, 28], [flatten(), linear(4), batch_norm(), linear(10)]).unwrap();
    let digits = synthetic_digits(9, 4, 1);
    let trainer = |batch, accumulate| {
        let recipe = Recipe { network: network.clone(), batch, accumulate, epochs: 1, ..Recipe::mnist() };
        Trainer::new(recipe, &digits.train, None).unwrap()
    };
    for (batch, accumulate) in [(4, 1), (8, 1), (1, 1), (3, 3)] {
        let mut steps = 0;
        let watched = trainer(batch, accumulate).train(&digits.train, &digits.test, 1, &mut |event| {
            steps += u32::from(matches!(event, Event::Step { .. }));
            Flow::Continue
        });
        let at_once = trainer(batch, accumulate).prepare_whole_training(&digits.train, &digits.test);
        for why in [watched.unwrap_err(), at_once.unwrap_err()] {
            assert!(why.to_string().contains("bn1") && why.to_string().contains("single row"), "{why}");
        }
        assert_eq!(steps, 0);
    }
    for (batch, accumulate) in [(3, 1), (9, 1), (9, 4)] {
        trainer(batch, accumulate).prepare_whole_training(&digits.train, &digits.test).unwrap();
    }
}

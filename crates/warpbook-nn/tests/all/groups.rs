//! Groups of parameters, Muon, frozen layers, alternating flips and averaged views: trainings on the CPU, and trainings on a GPU
//! compared with f64 and with the CPU.

use crate::in_f64::{ParameterState, muon_step, optimizer_step};
use warpbook_data::philox::gaussian;
use warpbook_data::synthetic_digits;
use warpbook_device::testing;
use warpbook_gemm::DeviceArray;
use warpbook_gemm::storage::rounded;
use warpbook_nn::network::{Network, batch_norm, conv2d, flatten, gelu, linear, max_pool};
use warpbook_nn::ops::muon::Muon;
use warpbook_nn::ops::muon::cuda::FilterPlace;
use warpbook_nn::ops::optimizer::Optimizer;
use warpbook_nn::ops::optimizer::cuda::{Control, Parameters, STEP_WORDS};
use warpbook_nn::ops::optimizer::grouped::{GroupRates, GroupedUpdate};
use warpbook_nn::ops::optimizer::groups::{Group, Grouped, Rule};
use warpbook_nn::ops::schedule::Schedule;
use warpbook_nn::train::{
    Augmentation, CudaOptions, Flow, GradScaler, Initial, Place, Precision, Recipe, StepOutcome, Trainer, Views,
};
use warpbook_record::Dtype;

fn random(n: usize, stream: u32) -> Vec<f32> {
    (0..n as u64).map(|i| gaussian(23, i, stream)).collect()
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|v| f64::from(*v)).collect()
}

fn norm(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|v| v * v).sum::<f64>().sqrt()
}

fn sgd(momentum: f64, nesterov: bool, weight_decay: f64) -> Optimizer {
    Optimizer::Sgd { momentum, nesterov, weight_decay }
}

/// Parameters of every kind: filters that are wide, tall, and of many tiles, and arrays for SGD.
struct Case {
    places: Vec<FilterPlace>,
    grouped: Grouped,
    n: usize,
}

fn case(muon: Muon, nesterov: bool) -> Case {
    let shapes = [(24, 108), (5, 3), (200, 72), (1, 200), (130, 600), (128, 128), (10, 257)];
    let groups = [Some(1), Some(0), Some(1), Some(2), Some(1), Some(1), None];
    let mut end = 0;
    let mut place = |(out, columns): (usize, usize)| {
        let first = end;
        end = (first + out * columns).next_multiple_of(64);
        FilterPlace { at: first..first + out * columns, out }
    };
    let places: Vec<FilterPlace> = shapes.into_iter().map(&mut place).collect();
    let rule = |rate, optimizer, muon| Rule { rate, schedule: None, optimizer, muon };
    let rules = vec![
        rule(1.0, sgd(0.9, nesterov, 0.01), None),
        rule(0.5, sgd(0.6, nesterov, 0.0), Some(muon)),
        rule(3.0, sgd(0.5, nesterov, 0.2), None),
    ];
    Case { places, grouped: Grouped { rules, rule_of_parameter: groups.to_vec() }, n: end }
}

#[test]
fn grouped_steps_are_the_references() {
    let Some(device) = testing::gpu("grouped_steps_are_the_references") else { return };
    let stream = device.stream().unwrap();
    let settings = [(Muon { steps: 3, normalise: true }, true), (Muon { steps: 4, normalise: false }, false)];
    for (dtype, (muon, nesterov)) in
        [Dtype::F32, Dtype::F16, Dtype::Bf16].into_iter().flat_map(|d| settings.map(|s| (d, s)))
    {
        let Case { places, grouped, n } = case(muon, nesterov);
        let kernels = GroupedUpdate::new(&device, (sgd(0.9, nesterov, 0.01), &grouped), (n, &places), dtype).unwrap();
        // The gaps between parameters of an arena hold only zeros.
        let inside = |values: Vec<f32>| -> Vec<f32> {
            let is_inside = |i: usize| places.iter().any(|p| p.at.contains(&i));
            values.into_iter().enumerate().map(|(i, v)| if is_inside(i) { v } else { 0.0 }).collect()
        };
        let start = inside(random(n, 1));
        let weights = device.buffer_from(&start).unwrap().range(..);
        let momentum = device.zeros::<f32>(n).unwrap().range(..);
        let copy: Option<DeviceArray> = match dtype {
            Dtype::F16 => Some((&device.zeros::<half::f16>(n).unwrap().range(..)).into()),
            Dtype::Bf16 => Some((&device.zeros::<half::bf16>(n).unwrap().range(..)).into()),
            _ => None,
        };
        let control = device.buffer_from(&[0.0f64, 0.0]).unwrap().range(..);
        let step = device.zeros::<u32>(STEP_WORDS).unwrap().range(..);
        let counters = device.zeros::<u32>(4).unwrap().range(..);
        let rates = device.zeros::<f32>(4 * 3).unwrap().range(..);
        let found = device.zeros::<u32>(1).unwrap().range(..);
        let scale = device.buffer_from(&[4.0f32]).unwrap().range(..);
        let mut want = wide(&start);
        let mut of_muon = vec![0.0; n];
        let mut of_sgd: Vec<ParameterState> = vec![ParameterState::default(); places.len()];
        for k in 0..3u32 {
            let gradients = inside(random(n, 10 + k));
            let scaled: Vec<f32> = gradients.iter().map(|g| 4.0 * g).collect();
            let gradients_at = device.buffer_from(&scaled).unwrap().range(..);
            let now: Vec<f64> = grouped.rates(0.1 / f64::from(k + 1), 0.1, 0).unwrap();
            // The third counter is the slot of the step.
            counters.write(&[0, k, 2, 0]).unwrap();
            rates.range(6..9).write(&now.iter().map(|r| *r as f32).collect::<Vec<_>>()).unwrap();
            let p = Parameters {
                weights: &weights,
                gradients: &gradients_at,
                rounded: None,
                state: std::slice::from_ref(&momentum),
                copy: copy.as_ref(),
            };
            let c = Control {
                rate_and_steps: &control,
                step: &step,
                found: Some(&found),
                loss_scale: Some(&scale),
                clip: None,
            };
            let before = weights.to_vec().unwrap();
            found.write(&[1]).unwrap();
            kernels.step(&stream, p, c, GroupRates { counters: &counters, rates: &rates }).unwrap();
            stream.synchronize().unwrap();
            assert!(weights.to_vec().unwrap() == before, "a step that is skipped changes nothing");
            found.write(&[0]).unwrap();
            kernels.step(&stream, p, c, GroupRates { counters: &counters, rates: &rates }).unwrap();
            stream.synchronize().unwrap();
            let got = weights.to_vec().unwrap();
            for (at, (place, of)) in places.iter().zip(&grouped.rule_of_parameter).enumerate() {
                let (range, Some(of)) = (place.at.clone(), *of) else {
                    assert!(got[place.at.clone()] == start[place.at.clone()], "what is frozen stays");
                    continue;
                };
                let rule = grouped.rules[of];
                let g = wide(&gradients[range.clone()]);
                let start_of_step = want[range.clone()].to_vec();
                match rule.muon {
                    Some(muon) => {
                        let numbers = (now[of], 0.6, nesterov);
                        let state = &mut of_muon[range.clone()];
                        muon_step(&muon, numbers, place.out, &mut want[range.clone()], &g, state);
                    }
                    None => optimizer_step(&rule.optimizer, now[of], &mut want[range.clone()], &g, &mut of_sgd[at]),
                }
                // The iteration uses bf16, so its error is relative to the change of the weights, not to the weights.
                let change = norm(want[range.clone()].iter().zip(&start_of_step).map(|(a, b)| a - b));
                let error = norm(got[range.clone()].iter().zip(&want[range.clone()]).map(|(a, b)| f64::from(*a) - b));
                let bound = if rule.muon.is_some() { 0.03 * f64::from(k + 1) } else { 1e-5 };
                assert!(
                    error <= bound * change,
                    "{dtype:?} {muon:?} step {k}, parameter {at}: {error:.2e} of {change:.2e}"
                );
                let rest = range.end..range.end.next_multiple_of(64);
                assert!(got[rest.clone()] == start[rest], "what is between parameters stays");
            }
            if let Some(copy) = &copy {
                let for_step = |i: usize| {
                    places.iter().zip(&grouped.rule_of_parameter).any(|(p, of)| of.is_some() && p.at.contains(&i))
                };
                let halves = copy.to_f32().unwrap();
                let wrong = (0..n).filter(|i| for_step(*i)).find(|i| halves[*i] != rounded(got[*i], dtype));
                assert_eq!(wrong, None, "the copy is the weights, rounded");
            }
        }
    }
}

/// A recipe with a small network like the network of the speedrun.
fn recipe() -> Recipe {
    let layers = [
        conv2d(8, 2).frozen().named("whiten"),
        gelu(),
        conv2d(16, 3).padding(1).without_bias(),
        max_pool(2),
        batch_norm().momentum(0.4).without_scale(),
        gelu(),
        conv2d(24, 3).padding(1).without_bias(),
        batch_norm().momentum(0.4).without_scale(),
        gelu(),
        max_pool(3),
        flatten(),
        linear(10).without_bias().named("head"),
    ];
    let muon = Group { rate: 0.24, momentum: Some(0.6), muon: Some(Muon::default()), ..Group::new("conv*.weight") };
    let whiten =
        Group { rate: 2.0, schedule: Some(Schedule::Linear { total: 6, end: 0.0 }), ..Group::new("whiten.bias") };
    Recipe {
        network: Network::new([1, 28, 28], layers).unwrap(),
        optimizer: sgd(0.85, true, 1e-4),
        groups: vec![muon, whiten, Group { weight_decay: Some(1e-3), ..Group::new("bn*.bias") }],
        initial: Initial { whiten: Some("whiten".into()), identity: true, factors: vec![] },
        views: Views::FlipsAndShifts,
        augmentation: Some(Augmentation { crop: 2, flip: true, reflect: true, alternate: true }),
        learning_rate: 0.1,
        schedule: Schedule::Linear { total: 12, end: 0.0 },
        schedule_by_step: true,
        batch: 32,
        epochs: 3,
        ..Recipe::mnist()
    }
}

fn losses(place: &Place, recipe: &Recipe) -> (Vec<StepOutcome>, Trainer) {
    let digits = synthetic_digits(128, 70, 5);
    let mut trainer = Trainer::on(place, recipe.clone(), &digits.train, None).unwrap();
    let mut all = Vec::new();
    trainer
        .train(&digits.train, &digits.test, 1, &mut |event| {
            if let warpbook_nn::train::Event::Step { outcome, .. } = event {
                all.push(outcome);
            }
            Flow::Continue
        })
        .unwrap();
    (all, trainer)
}

#[test]
fn a_training_in_groups_is_that_of_the_cpu() {
    let Some(device) = testing::gpu("a_training_in_groups_is_that_of_the_cpu") else { return };
    let digits = synthetic_digits(128, 70, 5);
    // At the recipe's own rate the first losses grow, and every rounding difference grows with them.
    let recipe = || Recipe { learning_rate: 0.03, ..recipe() };
    let (want, mut cpu) = losses(&Place::Cpu, &recipe());
    for precision in [Precision::Fp32, Precision::AmpBf16, Precision::AmpFp16] {
        // At the usual scale gradients in fp16 overflow at first, and the steps would be skipped.
        let scaler = GradScaler { init_scale: 256.0, ..GradScaler::default() };
        let place = Place::Cuda(device.clone(), CudaOptions { scaler, ..CudaOptions::new(precision) });
        let (got, mut gpu) = losses(&place, &recipe());
        for (step, (got, want)) in got.iter().zip(&want).enumerate() {
            // Muon's iteration always uses bf16, and the error of a filter is proportional to the learning rate.
            let bound = if precision == Precision::Fp32 { 0.02 } else { 0.08 };
            let error = (got.loss - want.loss).abs() / want.loss;
            assert!(
                error < if step == 0 { bound / 4.0 } else { bound },
                "{precision}, step {step}: {} and {}",
                got.loss,
                want.loss
            );
        }
        let (of_gpu, of_cpu) = (gpu.weights().unwrap(), cpu.weights().unwrap());
        for name in ["whiten.weight", "bn1.weight", "bn2.weight"] {
            assert_eq!(of_gpu.get(name), of_cpu.get(name), "{name} stays");
        }
        assert_ne!(of_gpu.get("whiten.bias"), recipe().initial_weights(&digits.train).unwrap().get("whiten.bias"));
        // The same weights give the same results on test images as on the CPU, so the views agree.
        let mut judge = Trainer::new(recipe(), &digits.train, Some(&of_gpu)).unwrap();
        let (got, want) = (gpu.evaluate(&digits.test).unwrap(), judge.evaluate(&digits.test).unwrap());
        let bound = if precision == Precision::Fp32 { 1e-4 } else { 0.05 };
        assert!((got.loss - want.loss).abs() < bound * want.loss, "{precision}: {} and {}", got.loss, want.loss);
        assert!(cpu.evaluate(&digits.test).unwrap().loss.is_finite());
    }
}

#[test]
fn a_training_at_once_repeats_to_the_bit() {
    let Some(device) = testing::gpu("a_training_at_once_repeats_to_the_bit") else { return };
    let digits = synthetic_digits(128, 70, 5);
    let place = Place::Cuda(device, CudaOptions::new(Precision::AmpBf16));
    let (steps, watched) = losses(&place, &recipe());
    let mut trainer = Trainer::on(&place, recipe(), &digits.train, None).unwrap();
    trainer.prepare_whole_training(&digits.train, &digits.test).unwrap();
    let first = trainer.run_whole_training(&digits.train, &digits.test).unwrap();
    let second = trainer.run_whole_training(&digits.train, &digits.test).unwrap();
    assert_eq!((first.loss, first.test), (second.loss, second.test), "a second one begins anew");
    assert_eq!(first.loss, steps.last().unwrap().loss);
    assert!(trainer.weights().unwrap() == watched.weights().unwrap(), "as step by step");
}

#[test]
fn the_loss_falls_on_the_cpu() {
    let digits = synthetic_digits(256, 100, 5);
    let schedule = Schedule::Linear { total: 96, end: 0.0 };
    // Images are not mirrored, because mirrored digits are different digits.
    let augmentation = Some(Augmentation { crop: 1, flip: false, reflect: true, alternate: false });
    let mut recipe = Recipe { epochs: 12, learning_rate: 0.2, schedule, augmentation, views: Views::One, ..recipe() };
    recipe.groups[0].rate = 1.2;
    let mut trainer = Trainer::new(recipe.clone(), &digits.train, None).unwrap();
    let started = trainer.evaluate(&digits.test).unwrap();
    trainer.prepare_whole_training(&digits.train, &digits.test).unwrap();
    let first = trainer.run_whole_training(&digits.train, &digits.test).unwrap();
    assert!(first.test.loss < 0.5 * started.loss, "from {} to {}", started.loss, first.test.loss);
    assert!(first.test.accuracy() > 0.4, "{:?}", first.test);
    let (initial, ended) = (recipe.initial_weights(&digits.train).unwrap(), trainer.weights().unwrap());
    for name in ["whiten.weight", "bn1.weight", "bn2.weight"] {
        assert_eq!(initial.get(name), ended.get(name), "{name} stays");
    }
    for name in ["whiten.bias", "conv2.weight", "conv3.weight", "bn1.bias", "head.weight"] {
        assert_ne!(initial.get(name), ended.get(name), "{name} is trained");
    }
    // Before the last step, whose rate is close to 0, a filter's norm was the root of its number of rows.
    let norm = norm(ended.get("conv3.weight").unwrap().iter().map(|w| f64::from(*w)));
    assert!((norm - 24f64.sqrt()).abs() < 0.1, "{norm}");
    let second = trainer.run_whole_training(&digits.train, &digits.test).unwrap();
    assert_eq!((first.loss, first.test), (second.loss, second.test), "a second one begins anew");
    let (steps, watched) = {
        let mut watched = Trainer::new(recipe, &digits.train, None).unwrap();
        let mut steps = Vec::new();
        watched
            .train(&digits.train, &digits.test, 1, &mut |event| {
                if let warpbook_nn::train::Event::Step { loss, .. } = event {
                    steps.push(loss);
                }
                Flow::Continue
            })
            .unwrap();
        (steps, watched)
    };
    assert_eq!(steps.last(), Some(&first.loss));
    assert!(watched.weights().unwrap() == ended, "as step by step");
}

#[test]
fn a_bias_is_frozen_when_its_rate_is_0() {
    let digits = synthetic_digits(64, 32, 5);
    let recipe = Recipe { epochs: 4, schedule: Schedule::Linear { total: 8, end: 0.5 }, ..recipe() };
    let mut trainer = Trainer::new(recipe, &digits.train, None).unwrap();
    let bias = |trainer: &Trainer| trainer.weights().unwrap().get("whiten.bias").unwrap().to_vec();
    let mut until = |steps| {
        trainer.train_until(steps, &digits.train, &digits.test, 1, &mut |_| Flow::Continue).unwrap();
        bias(&trainer)
    };
    let [five, six, eight] = [5, 6, 8].map(&mut until);
    assert_ne!(five, six, "the sixth step has a rate yet");
    assert_eq!(six, eight, "the seventh has none");
}

#[test]
fn the_first_layers_are_settled_when_their_rates_stay_0() {
    let settled = |recipe: &Recipe, time| {
        let grouped = Grouped::new(&recipe.network, &recipe.optimizer, &recipe.groups).unwrap().unwrap();
        grouped.settled(&recipe.network, time)
    };
    assert_eq!([0, 5].map(|time| settled(&recipe(), time)), [0; 2], "the bias is still trained");
    assert_eq!([6, 100].map(|time| settled(&recipe(), time)), [2; 2], "the layer and its activation");
    let mut never = recipe();
    never.groups[1].schedule = Some(Schedule::Linear { total: 6, end: 0.1 });
    assert_eq!(settled(&never, 100), 0);
    // Muon rescales filters to their norm even if the rate is 0, so they never settle.
    never.groups[1].schedule = None;
    never.groups[0].schedule = Some(Schedule::Linear { total: 1, end: 0.0 });
    assert_eq!(settled(&never, 100), 0);
}

#[test]
fn settled_layers_change_nothing_but_the_time() {
    let Some(device) = testing::gpu("settled_layers_change_nothing_but_the_time") else { return };
    let place = Place::Cuda(device, CudaOptions::new(Precision::AmpBf16));
    let ended = |end: f64| {
        let mut recipe = recipe();
        recipe.groups[1].schedule = Some(Schedule::Linear { total: 6, end });
        let (steps, trainer) = losses(&place, &recipe);
        (steps.last().unwrap().loss, trainer.weights().unwrap())
    };
    // In f32 a rate of 1e-60 is 0, too, but the layer is not settled.
    assert!(ended(0.0) == ended(1e-60));
}

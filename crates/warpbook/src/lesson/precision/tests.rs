use super::*;
use std::time::Duration;
use warpbook_device::testing;
use warpbook_experiments::Trains;
use warpbook_nn::train::GradScaler;

fn published() -> Run {
    read_record(testing::manifest_dir(env!("CARGO_MANIFEST_DIR")).join("../../data/results/training-h200.json"))
        .unwrap()
}

fn small() -> Recipe {
    Recipe { batch: 8, epochs: 1, ..Recipe::mnist() }
}

#[test]
fn half_rounds_as_the_chart_s_range_says() {
    let power = |e: i32| 2f64.powi(e) as f32;
    // Numbers below half of the smallest subnormal number are rounded to 0. Exactly half is also rounded to 0, by rounding to even.
    assert_eq!(
        (fate(power(-26) * 1.99), fate(power(-25)), fate(power(-25) * 1.01)),
        (Fate::Vanishes, Fate::Vanishes, Fate::LosesDigits)
    );
    assert_eq!((fate(power(-14) * 0.99), fate(power(-14))), (Fate::LosesDigits, Fate::Kept));
    assert_eq!(
        (fate(65504.0), fate(-65519.0), fate(65520.0), fate(f32::NAN)),
        (Fate::Kept, Fate::Kept, Fate::Overflows, Fate::Overflows)
    );
    assert_eq!((fate(0.0), fate(-0.0)), (Fate::Zero, Fate::Zero));
    assert_eq!(
        (f16::MAX.to_f64().log2().floor() as i32, f16::MIN_POSITIVE.to_f64().log2() as i32),
        (FP16.largest, FP16.normal)
    );
    assert_eq!(f64::from(f16::from_bits(1)).log2() as i32 - 1, FP16.least);
}

#[test]
fn the_first_step_is_that_of_a_training() {
    let digits = synthetic_digits(16, 8, 1);
    let recipe = Recipe { shuffle: false, steps: Some(1), ..small() };
    let step = first_step(&recipe, &digits.train).unwrap();
    let mut losses = Vec::new();
    let mut trainer = Trainer::new(recipe, &digits.train, None).unwrap();
    let listener = &mut |event| {
        if let warpbook_nn::train::Event::Step { loss, .. } = event {
            losses.push(loss);
        }
        warpbook_nn::train::Flow::Continue
    };
    trainer.train(&digits.train, &digits.test, 1, listener).unwrap();
    assert_eq!((losses, step.batch), (vec![step.loss], 8));
    let gradients = trainer.gradients().unwrap();
    assert_eq!(step.weights.len(), 8);
    assert!(step.weights.iter().all(|(name, g)| gradients.get(name) == Some(g)));
    let names: Vec<&str> = step.outputs.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["conv1", "conv2", "fc1", "fc2"]);
    let lens: Vec<usize> = step.outputs.iter().map(|(_, g)| g.len()).collect();
    assert_eq!(lens, [8 * 32 * 676, 8 * 64 * 576, 8 * 128, 8 * 10]);
    let wrong = Recipe { network: Recipe::cifar10().network, ..small() };
    assert!(first_step(&wrong, &digits.train).unwrap_err().to_string().contains("takes 3 x 32 x 32"));
}

/// Returns the gradients of an output, one of whose values vanishes in fp16, and of a weight with zeros only.
fn made() -> Gradients {
    let output = vec![1.0, 2f32.powi(-30), 2f32.powi(-20), 0.0];
    Gradients {
        loss: 1.0,
        batch: 1,
        outputs: vec![("fc1".into(), output)],
        weights: vec![("fc1.bias".into(), vec![0.0; 3])],
    }
}

#[test]
fn what_is_lost_is_counted_before_and_after_scaling() {
    let chart = exponents(&made(), 65536.0).unwrap();
    // 1 becomes 65536, which overflows in fp16.
    assert_eq!(chart.title, "fp16 has all digits of 33 % of the gradients as they are, and of 67 % times 2^16");
    assert_eq!(chart.table.rows[0][1..6], ["1", "1", "1", "1", "0"]);
    assert_eq!(chart.table.rows[1][1..6], ["1", "0", "0", "2", "1"]);
    let rows = fates(&made(), 65536.0).rows;
    assert_eq!(rows[0], ["output of fc1", "4", "25 %", "33 %", "33 %", "", "", "", "33 %"]);
    assert_eq!(rows[1], ["fc1.bias", "3", "100 %", "", "", "", "", "", ""]);
    assert_eq!((power(65536.0), power(1.0), power(3.0)), ("2^16".into(), "2^0".into(), "3".into()));
    assert_eq!(made().largest_scale(), 32768.0);
    assert_eq!(made().in_fp16(32768.0), [32768.0, 2f32.powi(-15), 2f32.powi(-5), 0.0]);
    let nothing = Gradients { outputs: vec![("fc1".into(), vec![0.0])], ..made() };
    assert!(exponents(&nothing, 2.0).is_err());
}

#[test]
fn a_later_step_is_one_from_other_weights() {
    let digits = synthetic_digits(16, 8, 1);
    let recipe = Recipe { shuffle: false, steps: Some(1), ..small() };
    let first = first_step(&recipe, &digits.train).unwrap();
    let weights = recipe.initial_weights(&digits.train).unwrap();
    assert_eq!(step_from(&recipe, &digits.train, &weights).unwrap(), first);
    let mut trainer = Trainer::new(recipe.clone(), &digits.train, None).unwrap();
    trainer.train(&digits.train, &digits.test, 1, &mut |_| warpbook_nn::train::Flow::Continue).unwrap();
    let later = step_from(&recipe, &digits.train, &trainer.weights().unwrap()).unwrap();
    assert!(later.loss < first.loss, "the same batch once it was learned: {} and {}", later.loss, first.loss);
    let other = Weights::init(&Recipe::cifar10().network, 1);
    assert!(step_from(&recipe, &digits.train, &other).is_err());
    let smaller = Gradients { loss: 0.25, outputs: vec![("fc1".into(), vec![2f32.powi(-30); 4])], ..made() };
    let chart = earlier_and_later(("the first step", &made()), ("later", &smaller)).unwrap();
    assert_eq!(
        chart.title,
        "Of the gradients that are not 0, fp16 turns 33 % into 0 in the first step, and 100 % later"
    );
    let names: Vec<&str> = chart.table.rows.iter().map(|r| r[0].as_str()).collect();
    assert_eq!(names, ["The first step: a loss of 1.00", "Later: a loss of 0.250"]);
}

#[test]
fn the_best_scale_is_below_the_first_that_overflows() {
    let rows = by_scale(&made(), &[1.0, 32768.0, 65536.0]).rows;
    assert_eq!(rows[0][..4], ["2^0", "33 %", "33 %", "none"]);
    assert_eq!(rows[1][1..], ["0 %", "33 %", "none", "0"]);
    assert_eq!(rows[2][3..], ["33 %", "the step is skipped"]);
    let error: f64 = rows[0][4].parse().unwrap();
    assert!((error / 2f64.powi(-30) - 1.0).abs() < 0.01, "what vanished, over the norm of nearly 1: {error}");
}

#[test]
fn a_scaler_s_attempts_end_at_the_largest_scale_that_fits() {
    let scaler = GradScaler { init_scale: 131_072.0, growth_interval: 2, ..GradScaler::default() };
    let rows = attempts(&made(), &scaler, 7).rows;
    let column = |i: usize| rows.iter().map(|r| r[i].as_str()).collect::<Vec<_>>();
    assert_eq!(column(1), ["2^17", "2^16", "2^15", "2^15", "2^16", "2^15", "2^15"]);
    assert_eq!(column(2), ["1", "1", "0", "0", "1", "0", "0"]);
    assert_eq!(
        column(3),
        ["skipped", "skipped", "made (1 so far)", "made (2 so far)", "skipped", "made (3 so far)", "made (4 so far)"]
    );
    assert_eq!(column(4), ["smaller", "smaller", "", "larger", "smaller", "", "larger"]);
}

#[test]
fn a_record_without_a_scale_says_so() {
    let lab = Lab::open("cpu").unwrap();
    let training = lab.train(Recipe { steps: Some(1), ..small() }, &synthetic_digits(16, 8, 1)).run().unwrap();
    assert!(scaled(training.record()).contains("was not scaled"));
    let nothing = Run { train_logs: Vec::new(), ..training.record().clone() };
    assert!(scaled(&nothing).contains("no training"));
}

#[test]
fn small_updates_are_lost_in_half() {
    let rows = updates(&[1e-2, 1e-3, 1e-4, 1e-8]).rows;
    let lost: Vec<[bool; 3]> = rows.iter().map(|r| [&r[1], &r[2], &r[3]].map(|c| c == "lost")).collect();
    assert_eq!(lost, [[false; 3], [false, false, true], [false, true, true], [true; 3]]);
}

#[test]
fn precisions_differ_in_little_else() {
    let ways = by_precision();
    assert_eq!(ways.iter().map(|w| w.options.precision).collect::<Vec<_>>(), Precision::ALL);
    for way in &ways {
        // In fp32 one stream is faster than two.
        let overlap = way.options.precision != Precision::Fp32;
        let expected = CudaOptions { precision: way.options.precision, overlap, ..ways[0].options };
        assert_eq!(way.options, expected, "{}", way.id);
    }
    let ids = |t: Training| Experiment::rungs(&t).iter().map(|r| r.id.to_string()).collect::<Vec<_>>();
    assert_eq!(ids(in_every_precision(Training::new(), true)), ["fp32", "tf32", "amp_fp16", "amp_bf16"]);
    assert_eq!(ids(in_every_precision(Training::new(), false)), ["cpu_all_threads"]);
    let ladder = of_ladder(&published(), Workload::AmpRecipe).unwrap();
    let titles: Vec<&str> = ladder.rungs.iter().map(|r| &*r.title).collect();
    assert_eq!(
        titles,
        ["fp32 (03_implicit_gemm)", "tf32 (05_nhwc)", "AMP, fp16 (06_amp_fp16)", "AMP, bf16 (06_amp_bf16)"]
    );
    let problem = ladder.main_problem().unwrap();
    assert_eq!(problem.text("network"), Some("amp-recipe"));
    assert!(
        titles.len() == ladder.measurements.len() && ladder.measurements.iter().all(|m| m.problem.id == problem.id)
    );
    let none = at(&published(), problem);
    assert!(of_ladder(&none, Workload::Mnist).is_none(), "the record has no such network");
}

#[test]
fn time_and_memory_are_those_of_the_record() {
    let run = published();
    let problem = run.problems().into_iter().find(|p| p.text("network") == Some("amp-recipe")).unwrap().clone();
    let rows = time_and_memory(&at(&run, &problem), 150).rows;
    let us = |id: &str| run.measurement(id, &problem).unwrap().median_us().unwrap();
    assert_eq!(rows.len(), 4);
    let half = &rows[2];
    assert_eq!((half[0].as_str(), half[3].clone()), ("512", figures::time(150.0 * us("06_amp_fp16"))));
    assert_eq!(half[4], figures::times(us("03_implicit_gemm") / us("06_amp_fp16")));
    let bytes = |id: &str| run.measurement(id, &problem).unwrap().peak_bytes.unwrap();
    assert_eq!(half[6], difference(bytes("03_implicit_gemm"), bytes("06_amp_fp16")));
    // Without a GPU the table shows the CPU.
    let cpu = only(&at(&run, &problem), &["cpu_all_threads"]);
    assert_eq!(time_and_memory(&cpu, 150).rows.len(), 1);
}

#[test]
fn the_recipe_pays_for_its_copy_and_the_cnn_does_not() {
    let (wide, cnn) = (Recipe::amp_recipe(), Recipe::mnist());
    let rows = parts(&wide).rows;
    // Three matrices of 4096 x 4096, with biases, take 2 bytes per number.
    assert_eq!(rows[1], ["their copy in half", "0 B", "96 MiB", "+96 MiB"]);
    assert_eq!(rows[3][3], "", "the state of SGD is nothing in both");
    let [few, many] = [pays_from(&cnn).unwrap(), pays_from(&wide).unwrap()];
    assert!(few < 512 && many > 512, "{few} and {many}");
    for (recipe, from) in [(&cnn, few), (&wide, many)] {
        let saves = |batch: usize| {
            let memory = |p| Recipe { batch, ..recipe.clone() }.summary(&CudaOptions::new(p)).memory;
            let (full, half) = (memory(Precision::Fp32), memory(Precision::AmpFp16));
            full.activations as i128 - half.activations as i128 - half.half_copy as i128
        };
        assert!(saves(from) > 0 && saves(from - 1) <= 0);
    }
    let said = as_planned(&wide);
    assert!(
        said.starts_with("amp-recipe: a copy of the weights in half takes 96 MiB, and at a batch of 512"),
        "{said}"
    );
    assert!(said.ends_with(&format!("from a batch of {} on.", figures::plain(many as f64))), "{said}");
    let measured = peaks(&[&published(), &published()]).rows;
    // Both frameworks have five trainings, each listed once, and the T4 has one.
    assert_eq!(measured.len(), 11, "{measured:?}");
    let row =
        |who: &str, what: &str| measured.iter().find(|r| r[1].starts_with(who) && r[0].starts_with(what)).unwrap();
    assert!(row("PyTorch on NVIDIA H200", "amp-recipe")[4].starts_with('+'), "{measured:?}");
    assert!(row("PyTorch on NVIDIA H200", "mnist")[4].starts_with('−') && row("Warpbook", "mnist")[4].starts_with('−'));
    let source = "a public comparison of 2022 on a T4, PyTorch 1.11";
    assert!(row(source, "amp-recipe")[4].starts_with('+'));
    assert!(t4().headers.iter().any(|h| h.contains(source)), "{:?}", t4().headers);
}

#[test]
fn the_largest_batch_fits_and_one_more_does_not() {
    let recipe = Recipe::mnist();
    for precision in Precision::ALL {
        let budget = 1 << 30;
        let most = largest_batch(&recipe, precision, budget).unwrap();
        let bytes = |batch| Recipe { batch, ..recipe.clone() }.summary(&CudaOptions::new(precision)).memory.total();
        assert!(bytes(most) <= budget && bytes(most + 1) > budget, "{precision}: {most}");
    }
    assert_eq!(largest_batch(&recipe, Precision::Fp32, 1 << 20), None, "the weights alone are more");
    let rows = largest_batches(&[recipe], &[1 << 20, 1 << 30]).rows;
    assert_eq!((rows[0][2].as_str(), rows[0][6].as_str()), ("none fits", ""));
    let ratio: f64 = rows[1][6].trim_end_matches('×').parse().unwrap();
    assert!((1.5..2.5).contains(&ratio), "{rows:?}");
}

#[test]
fn loops_on_the_cpu_train_and_are_compared() {
    let lab = Lab::open("cpu").unwrap();
    let digits = synthetic_digits(64, 16, 1);
    let loop_fed_by = |feed| timed_loop(&lab, &small(), &digits, Precision::Fp32, feed).unwrap();
    let [first, last] = [loop_fed_by(Feed::Resident), loop_fed_by(Feed::LoaderAndLosses)];
    assert_eq!((first.steps, first.peak_bytes, first.accuracy), (8, None, last.accuracy));
    assert!(first.seconds > 0.0 && (first.step_us() - first.seconds / 8.0 * 1e6).abs() < 1e-6);
    let rows = loops(&[first.clone(), last]).rows;
    assert_eq!((rows[0][6].as_str(), rows[1][6].as_str()), (&*figures::times(1.0), &*figures::times(1.0)));
    assert!(brought(std::slice::from_ref(&first)).contains("fp16 needs a GPU"));
    let half = |seconds| Loop { precision: Precision::AmpFp16, seconds, ..first.clone() };
    let said = brought(&[Loop { seconds: 3.0, ..first.clone() }, half(1.5)]);
    assert!(said.contains(&format!("{} with images on the GPU", figures::times(2.0))), "{said}");
    // A step of 1 ms for 8 images leaves two workers 250 us an image.
    let room = room_for_a_loader(&[Loop { steps: 8, seconds: 0.008, ..first }]).rows;
    assert_eq!(room[0][3], figures::time(250.0));
    let error = timed_loop(&lab, &small(), &digits, Precision::AmpFp16, Feed::Loader).unwrap_err().to_string();
    assert!(error.contains("fp32"), "{error}");
}

#[test]
fn loops_are_compared_with_pytorch_s_of_the_same_work() {
    let loop_fed_by = |feed| Loop {
        batch: 8,
        precision: Precision::Fp32,
        feed,
        steps: 10,
        seconds: 3.0,
        peak_bytes: Some(1 << 20),
        accuracy: Some(0.9),
    };
    let theirs = PyTorchLoops {
        torch: "2.11".into(),
        device: "G".into(),
        epochs: 1,
        loops: [Feed::Loader, Feed::LoaderAndLosses].map(loop_fed_by).to_vec(),
    };
    let ours = Loop { seconds: 1.5, ..loop_fed_by(Feed::Loader) };
    let other = Loop { batch: 16, ..ours.clone() };
    let rows = next_to_pytorch(&[ours, other], &theirs).rows;
    assert_eq!(rows.len(), 1, "only what both have");
    assert_eq!(rows[0][3..6], [figures::time(1.5e6), figures::time(3e6), figures::times(2.0)]);
}

#[test]
fn a_slow_loader_sets_the_pace() {
    let lab = Lab::open("cpu").unwrap();
    let digits = synthetic_digits(160, 16, 1);
    let run_loader = |image, steps| slow_loader(&lab, &small(), &digits, Precision::Fp32, (image, steps));
    let quick = run_loader(Duration::ZERO, 4).unwrap();
    // Two workers that take 8 images one by one give a batch in the time of 4 images, which is ten of this machine's steps.
    let image = Duration::from_micros((2.5 * quick.step_us) as u64).max(Duration::from_millis(50));
    let slow = run_loader(image, 4).unwrap();
    // Batches may have been ready when counting began, and the machine may be busier now than before: the bound allows for both.
    assert!(slow.step_us > 2.0 * quick.step_us, "{quick:?} {slow:?}");
    assert!(slow.waited_us > 0.0 && slow.waited_us < slow.step_us, "{slow:?}");
    assert_eq!(slowed(&[slow, quick]).rows[0][6], figures::times(1.0));
    assert!(run_loader(Duration::ZERO, 20).unwrap_err().to_string().contains("an epoch, which has 20"));
}

#[test]
fn the_t4_s_loop_is_what_was_measured_elsewhere() {
    let rows = t4().rows;
    assert_eq!((rows.len(), rows[0][2].as_str(), rows[2][5].as_str()), (3, "107 s", &*figures::times(107.2 / 100.5)));
    // The loop takes 107.2 s for 1.2 million images, with two workers.
    assert_eq!(t4_image().as_micros(), 178);
}

#[test]
fn a_gpu_s_loops_learn_the_same_however_they_are_fed() {
    let test = "a_gpu_s_loops_learn_the_same_however_they_are_fed";
    if testing::gpu(test).is_none() {
        return;
    }
    let lab = Lab::new().unwrap();
    let digits = synthetic_digits(1024, 256, 1);
    let recipe = Recipe { batch: 64, epochs: 2, ..Recipe::mnist() };
    for precision in [Precision::Fp32, Precision::AmpFp16] {
        let all = Feed::ALL.map(|feed| timed_loop(&lab, &recipe, &digits, precision, feed).unwrap());
        assert!(
            all.iter().all(|l| l.steps == 32 && l.accuracy == all[0].accuracy && l.peak_bytes.is_some()),
            "{all:?}"
        );
    }
    let slow = slow_loader(&lab, &recipe, &digits, Precision::AmpFp16, (Duration::from_millis(1), 4)).unwrap();
    // Two workers that take 64 ms a batch give one every 32 ms, in pairs; the four steps may begin and end in the middle of a pair.
    assert!(slow.step_us > 0.5 * 32e3, "{slow:?}");
    let run = lab.run(&in_every_precision(Training::quick(), true)).unwrap();
    let (measured, _, failed) = run.counts();
    assert!(measured >= 2 && failed == 0, "{:?}", run.measurements);
    assert_eq!(time_and_memory(&run, 10).rows.len(), measured);
}

//! Tests of a training in a lab: its record, its display, and the ways in which it ends.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::time::Duration;
use warpbook::data::{Rows, synthetic_digits};
use warpbook::nn::train::{Ended, GradScaler};
use warpbook::prelude::nn::*;
use warpbook::prelude::*;
use warpbook::record::ChartKind;

/// A text that each chart in an output contains once.
const SVG: &str = "data:image/svg+xml";

/// Returns a page with the text of its pictures, which are data URIs.
fn with_pictures(html: &str) -> String {
    let encoded = html.split("data:image/svg+xml;base64,").skip(1).filter_map(|rest| rest.split('"').next());
    let pictures = encoded.map(|picture| String::from_utf8(STANDARD.decode(picture).unwrap()).unwrap());
    std::iter::once(html.to_owned()).chain(pictures).collect()
}

/// Returns a recipe for a network whose steps take almost no time.
fn recipe() -> Recipe {
    let network = Network::new([1, 28, 28], [avg_pool(7), flatten(), linear(10)]).unwrap();
    Recipe {
        name: "small".into(),
        network,
        batch: 32,
        epochs: 2,
        schedule: Schedule::Step { every: 1, gamma: 0.5 },
        ..Recipe::mnist()
    }
}

fn lab() -> Lab {
    Lab::open("cpu").unwrap()
}

#[test]
fn a_training_is_a_record_with_all_that_was_logged() {
    let folder = tempfile::tempdir().unwrap();
    let digits = synthetic_digits(100, 20, 1);
    let out = folder.path().join("r.json");
    // There are eight steps: each epoch has three full batches and one of 4 images.
    let run = lab().train(Recipe { clip: Some(1.0), ..recipe() }, &digits).log_every(1).out(&out).run().unwrap();
    assert_eq!((run.ended(), run.written().unwrap().unwrap()), (Some(Ended::Finished), out.as_path()));
    let record = read_record(&out).unwrap();
    assert_eq!(&record, run.record());
    let log = &record.train_logs[0];
    let course = log.course.as_deref().unwrap();
    assert_eq!(
        log.losses.iter().map(|p| (p.epoch, p.step)).collect::<Vec<_>>(),
        (1..=8).map(|s| (1 + s / 5, Some(s))).collect::<Vec<_>>()
    );
    assert_eq!((course.log_every, course.steps, course.steps_per_epoch, course.first_step), (1, 8, 4, 0));
    assert_eq!(course.learning_rates.iter().map(|p| (p.step, p.value)).collect::<Vec<_>>(), [(1, 0.05), (5, 0.025)]);
    assert_eq!((course.gradient_norms.len(), course.loss_scales.len(), course.skipped_total), (8, 0, 0));
    assert!(course.gradient_norms.iter().all(|p| p.value > 0.0));
    assert_eq!(course.epochs.iter().map(|p| (p.epoch, p.step)).collect::<Vec<_>>(), [(1, 4), (2, 8)]);
    let last = course.epochs[1];
    assert_eq!((last.train.unwrap().of, last.test.unwrap().of), (100, 20));
    let mean = log.losses[4..].iter().map(|p| p.loss).sum::<f64>() / 4.0;
    assert!(
        (last.train_loss - mean).abs() < 1e-12 && log.train_loss == last.train_loss && log.test_loss == last.test_loss
    );
    assert!(
        course.total_s > 0.0 && course.peak_allocated_bytes.unwrap() > 1000 && course.peak_reserved_bytes.is_none()
    );
    assert_eq!(course.ended, "finished");
    assert!(course.recipe.iter().any(|(name, what)| name == "optimiser" && what == "SGD, momentum 0.9"));
    // Every display of synthetic digits says that they are synthetic.
    assert!(log.problem.label.ends_with("synthetic digits") && record.notes[0].contains("drawn by a program (seed 1)"));
    assert!(record.policy.inputs.to_string().contains("drawn by a program"));
    assert!(record.measurements.is_empty() && record.main_problem() == Some(&log.problem));
}

#[test]
fn with_longer_lines_a_loss_is_the_mean_of_its_steps() {
    let digits = synthetic_digits(100, 20, 1);
    let each = lab().train(recipe(), &digits).log_every(1).run().unwrap();
    let some = lab().train(recipe(), &digits).log_every(3).run().unwrap();
    let losses = |run: &TrainingRun| run.log().losses.iter().map(|p| p.loss).collect::<Vec<_>>();
    let (each, means) = (losses(&each), losses(&some));
    let mean = |of: std::ops::Range<usize>| each[of.clone()].iter().sum::<f64>() / of.len() as f64;
    let expect = [mean(0..3), mean(3..4), mean(4..7), mean(7..8)];
    assert_eq!(means.len(), 4);
    assert!(means.iter().zip(expect).all(|(a, b)| (a - b).abs() < 1e-12), "{means:?}, {expect:?}");
    assert_eq!(some.record().descriptor.loss, "mean loss of 3 batches");
}

#[test]
fn a_training_shows_its_charts_and_its_numbers() {
    let digits = synthetic_digits(100, 20, 1);
    let run = lab().train(recipe(), &digits).log_every(1).run().unwrap();
    let html = run.html();
    assert_eq!(html.matches(SVG).count(), 3, "losses, accuracy, learning rate; nothing was scaled or clipped");
    for part in
        ["Training of small: loss", "test accuracy", "total time", "peak bytes allocated", "synthetic digits: drawn"]
    {
        assert!(with_pictures(&html).contains(part), "{part}");
    }
    let text = run.text();
    for part in ["Training of small on", "finished", " of 20)", "SGD, momentum 0.9", "epoch  step"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    // A record from a file shows the same figures.
    let text = run.record().text();
    assert!(text.contains("test accuracy") && !text.contains("Nothing was measured"), "{text}");
    let folder = tempfile::tempdir().unwrap();
    let saved = run.save(folder.path().join("x.json")).unwrap();
    assert_eq!(&read_record(saved).unwrap(), run.record());
}

#[test]
fn the_lab_hears_lines_and_can_stop_it() {
    let digits = synthetic_digits(100, 20, 1);
    let lines = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let heard = lines.clone();
    let lab = lab().with_listener(move |event| {
        if let Event::Training(line) = event {
            heard.lock().unwrap().push((*line).to_owned());
        }
    });
    let run = lab.train(recipe(), &digits).log_every(1).run().unwrap();
    assert_eq!(run.log().losses.len(), 8);
    let lines = lines.lock().unwrap().clone();
    // The first line is immediate; for the next second, only evaluations follow.
    assert!(lines[0].starts_with("epoch 1, batch 1, step 1: loss 2."), "{lines:?}");
    assert_eq!(lines.iter().filter(|l| l.contains("accuracy")).count(), 2);
    assert!(lines.len() < 6, "{lines:?}");
    lab.cancel().cancel();
    let folder = tempfile::tempdir().unwrap();
    let (out, kept) = (folder.path().join("r.json"), folder.path().join("c.safetensors"));
    let stopped = lab.train(recipe(), &digits).out(&out).checkpoint(&kept).run().unwrap();
    assert_eq!(stopped.ended(), Some(Ended::Stopped));
    assert!(kept.exists());
    let record = read_record(&out).unwrap();
    assert_eq!(record.train_logs[0].losses.len(), 1, "what was not logged yet is");
    assert!(record.notes.iter().any(|n| n == "The training was stopped after step 1 of 8."), "{:?}", record.notes);
    // The training continues from there, in a lab that was not cancelled.
    let rest = self::lab().train(recipe(), &digits).resume(&kept).log_every(1).run().unwrap();
    let course = rest.log().course.as_deref().unwrap();
    assert_eq!((course.first_step, course.steps, rest.log().losses[0].step), (1, 8, Some(2)));
    assert_eq!(course.epochs[0].train.unwrap().of, 68, "of the batches that it saw");
}

#[test]
fn out_of_time_and_out_of_bounds_are_in_the_record() {
    let digits = synthetic_digits(640, 20, 1);
    let long = Recipe { epochs: 100_000, ..recipe() };
    let run = lab().train(long, &digits).time_budget(Duration::from_millis(100)).run().unwrap();
    assert_eq!(run.ended(), Some(Ended::OutOfTime));
    let (course, step) = (run.log().course.as_deref().unwrap(), run.record().notes.last().unwrap().clone());
    assert!(step.starts_with("The training ran out of time after step "), "{step}");
    assert_eq!(course.epochs.last().unwrap().step, course.steps);
    assert_eq!(run.last_epoch().unwrap().test.unwrap().of, 20);

    let wild = Recipe { learning_rate: 1e300, ..recipe() };
    let run = lab().train(wild, &digits).log_every(1).run().unwrap();
    assert!(run.error().unwrap().to_string().contains("Lower the learning rate"));
    assert!(run.log().diverged() && run.log().losses.last().unwrap().loss.is_nan());
    assert!(run.html().contains("diverged at step") && run.html().contains("Lower the learning rate"));
}

#[test]
fn numbers_have_losses_and_no_accuracy() {
    let rows = [Rows::gaussian(64, [8, 4], 1), Rows::gaussian(16, [8, 4], 2)];
    let network = Network::new(8, [linear(4)]).unwrap();
    let recipe = Recipe { network, batch: 16, epochs: 2, ..Recipe::amp_recipe() };
    let run = lab().train(recipe, (&rows[0], &rows[1])).log_every(1).run().unwrap();
    assert!(!run.record().descriptor.has(ChartKind::Accuracy) && run.last_epoch().unwrap().test.is_none());
    assert!(run.html().contains(SVG) && !run.text().contains("accuracy:"));
    assert!(run.log().course.as_deref().unwrap().data.contains("drawn by a program (seed 1)"));
}

#[test]
fn what_cannot_be_trained_is_refused() {
    let digits = synthetic_digits(64, 20, 1);
    let refused = |session: Result<TrainingRun>, part: &str| {
        let sentence = session.unwrap_err().to_string();
        assert!(sentence.contains(part), "{sentence}");
    };
    let lab = lab();
    refused(lab.train(recipe(), &digits).precision(Precision::AmpFp16).run(), "The CPU computes in fp32");
    refused(lab.train(Recipe { batch: 0, ..recipe() }, &digits).run(), "at least 1");
    refused(lab.train(recipe(), &digits).resume("none.safetensors").run(), "none.safetensors");
    refused(lab.train(recipe(), &digits).rung("09_none").and_then(|s| s.run()), "`09_none` is not a rung");
    let run = lab.train(Recipe { epochs: 1, ..recipe() }, &digits).out("none/r.json").run().unwrap();
    assert!(run.written().unwrap().is_err() && run.text().contains("none/r.json cannot be written"));
}

/// A scale that overflows at once is halved until it fits; each halving is a skipped step.
#[test]
fn a_training_in_fp16_has_its_loss_scale_and_the_steps_that_were_skipped() {
    let Some(_) = warpbook::device::testing::gpu("a training in fp16") else { return };
    use warpbook::nn::train::CudaOptions;
    let digits = synthetic_digits(2048, 512, 1);
    let lab = Lab::open("cuda:0").unwrap();
    let scaler = GradScaler { init_scale: 1e30, ..GradScaler::default() };
    let options = CudaOptions { scaler, ..CudaOptions::new(Precision::AmpFp16) };
    let long = Recipe { batch: 128, epochs: 8, ..Recipe::mnist() };
    let run = lab.train(long, &digits).options(options).log_every(1).run().unwrap();
    let (log, course) = (run.log(), run.log().course.as_deref().unwrap());
    println!("{} skipped: {:?}; scales {:?}", course.skipped_total, course.skipped_steps, course.loss_scales);
    assert_eq!((log.losses.len() as u64, course.steps), (128, 128));
    assert!(course.skipped_total > 3 && course.skipped_total as usize == course.skipped_steps.len());
    assert_eq!(course.skipped_steps[..3], [1, 2, 3]);
    assert_eq!(course.loss_scales[0].value, f64::from(1e30f32));
    // Every change follows a skipped step and halves the scale.
    for pair in course.loss_scales.windows(2) {
        assert_eq!(pair[1].value, pair[0].value / 2.0);
        assert!(course.skipped_steps.contains(&(pair[1].step - 1)), "{pair:?}");
    }
    // Skipped steps have no norm.
    assert_eq!(course.gradient_norms.len() as u64, course.steps - course.skipped_total);
    assert!(course.gradient_norms.iter().all(|p| p.value.is_finite() && p.value > 0.0));
    let (allocated, reserved) = (course.peak_allocated_bytes.unwrap(), course.peak_reserved_bytes.unwrap());
    println!("{allocated} B allocated, {reserved} B reserved");
    assert!(allocated > 5 << 20 && reserved >= allocated);
    assert_eq!(run.record().rungs[0].id, "13_last_block_fp16", "the ladder's way, with another scale");
    assert!(!run.record().sources.is_empty());
    assert_eq!(run.html().matches(SVG).count(), 5);
    // A time budget ends the training in the middle, although a GPU queues many steps at once.
    let endless = Recipe { batch: 128, epochs: 1_000_000, ..Recipe::mnist() };
    let session = lab.train(endless, &digits).precision(Precision::AmpFp16).time_budget(Duration::from_secs(2));
    let run = session.run().unwrap();
    assert_eq!(run.ended(), Some(Ended::OutOfTime));
    // The budget counts the time for planning, too, which the clock of the epochs leaves out.
    let course = run.log().course.as_deref().unwrap();
    let seconds = course.total_s + course.planning_s.unwrap_or(0.0);
    assert!((2.0..6.0).contains(&seconds), "{seconds} s");
}

//! A training in fp16, as `warpbook train mnist --log-every 1 --out` records it.

use super::empty;
use std::collections::BTreeMap;
use warpbook_record::{
    ChartKind, Course, Descriptor, DeviceKind, Dtype, EpochPoint, LossPoint, Problem, Right, Run, StepValue, TrainLog,
    count, setting,
};

pub const STEPS: u64 = 590;
const PER_EPOCH: u64 = 118;

pub fn training_problem() -> Problem {
    let sizes = vec![setting("network", "mnist"), count("batch", 512, "samples"), count("steps", STEPS, "")];
    Problem::new("mnist, batch 512, synthetic digits", "mnist 512", sizes, Dtype::F32)
}

fn values(of: impl IntoIterator<Item = (u64, f64)>) -> Vec<StepValue> {
    of.into_iter().map(|(step, value)| StepValue { step, value }).collect()
}

/// Returns a falling loss with noise.
fn loss(step: u64) -> f64 {
    let noise = ((step * 7919 % 101) as f64 / 50.0 - 1.0) * 0.2;
    0.08 + 2.2 * (-(step as f64) / 60.0).exp() * (1.0 + noise) + 0.03 * noise
}

pub fn course() -> Course {
    let epoch = |epoch: u64| EpochPoint {
        epoch,
        step: epoch * PER_EPOCH,
        seconds: 0.08,
        train_loss: loss(epoch * PER_EPOCH - 50),
        test_loss: loss(epoch * PER_EPOCH) * 0.7,
        train: Some(Right { correct: 60_000 - 9_000 / epoch, of: 60_000 }),
        test: Some(Right { correct: 10_000 - 400 / epoch, of: 10_000 }),
    };
    Course {
        recipe: vec![("optimiser".into(), "SGD, momentum 0.9".into())],
        data: "synthetic digits: drawn by a program (seed 1)".into(),
        log_every: 1,
        steps: STEPS,
        steps_per_epoch: PER_EPOCH,
        learning_rates: values([(1, 0.05), (237, 0.025), (473, 0.0125)]),
        loss_scales: values([(1, 65536.0), (3, 32768.0), (4, 16384.0), (300, 32768.0), (302, 16384.0)]),
        skipped_steps: vec![2, 3, 301],
        skipped_total: 3,
        gradient_norms: values((4..=STEPS).map(|s| (s, 3.0 * loss(s)))),
        epochs: (1..=5).map(epoch).collect(),
        total_s: 0.61,
        peak_allocated_bytes: Some(123 << 20),
        peak_reserved_bytes: Some(180 << 20),
        ended: "finished".into(),
        ..Course::default()
    }
}

pub fn trained() -> Run {
    let mut run = empty("NVIDIA H200", DeviceKind::Cuda);
    run.experiment = "train".into();
    run.title = "Training of mnist".into();
    run.descriptor = Descriptor {
        charts: vec![
            ChartKind::Loss,
            ChartKind::Accuracy,
            ChartKind::LearningRate,
            ChartKind::LossScale,
            ChartKind::GradientNorm,
        ],
        loss: "loss of the batch".into(),
        ..Descriptor::default()
    };
    let point = |step: u64| LossPoint { epoch: (step - 1) / PER_EPOCH + 1, step: Some(step), loss: loss(step) };
    run.train_logs = vec![TrainLog {
        rung: "04_fused_graph".into(),
        problem: training_problem(),
        losses: (1..=STEPS).map(point).collect(),
        parameters: BTreeMap::new(),
        train_loss: 0.09,
        test_loss: 0.07,
        course: Some(Box::new(course())),
    }];
    run
}

//! Any record that can be made can be written and read again, and any bytes can be given to the reader.

mod common;

use common::{assert_same, expected, golden};
use proptest::prelude::*;
use std::collections::BTreeMap;
use warpbook_record::{
    Check, Dtype, LossPoint, Measurement, MemoryLevel, Outcome, Problem, Requires, Run, Rung, Runner, Schedule, Span,
    SpanGroup, Traffic, TrainLog,
};

fn real() -> impl Strategy<Value = f64> {
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::MIN_POSITIVE / 2.0, f64::MAX, 0.1, 1e21, 1e-7];
    prop_oneof![any::<f64>(), proptest::sample::select(odd.to_vec()), Just(f64::from(0.1f32))]
}

fn reals() -> impl Strategy<Value = Vec<f64>> {
    proptest::collection::vec(real(), 0..8)
}

fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec(any::<char>(), 0..12).prop_map(|c| c.into_iter().collect())
}

fn problem() -> impl Strategy<Value = Problem> {
    let dtype = proptest::sample::select(vec![Dtype::F64, Dtype::F32, Dtype::Tf32, Dtype::F16, Dtype::Bf16]);
    (any::<[u64; 4]>(), real(), real(), dtype).prop_map(
        |([points, train_points, epochs, seed], learning_rate, noise, dtype)| Problem::Regression {
            points,
            train_points,
            features: seed,
            epochs,
            learning_rate,
            noise,
            seed,
            dtype,
        },
    )
}

fn measurement() -> impl Strategy<Value = Measurement> {
    let outcome = prop_oneof![
        Just(Outcome::Measured),
        text().prop_map(|why| Outcome::Skipped { why }),
        text().prop_map(|error| Outcome::Failed { error }),
    ];
    let check = (text(), any::<bool>(), [real(), real(), real()]).prop_map(|(reference, passed, [a, b, c])| Check {
        reference,
        max_abs_error: a,
        max_rel_error: b,
        tolerance: c,
        passed,
    });
    (text(), problem(), outcome, reals(), reals(), proptest::option::of(check), any::<u64>()).prop_map(
        |(rung, problem, outcome, samples_us, wall_us, check, samples_total)| Measurement {
            samples_us,
            wall_us,
            check,
            samples_total,
            traffic: vec![Traffic { level: MemoryLevel::L2, bytes: samples_total }],
            choice: Some(rung.clone()),
            flops: Some(samples_total),
            ..Measurement::without_samples(rung, problem, outcome)
        },
    )
}

fn train_log() -> impl Strategy<Value = TrainLog> {
    let losses = proptest::collection::vec((any::<u64>(), real()), 0..5);
    let parameters = proptest::collection::vec((text(), real()), 0..3);
    (text(), problem(), losses, parameters, real(), real()).prop_map(
        |(rung, problem, losses, parameters, train_loss, test_loss)| TrainLog {
            rung,
            problem,
            losses: losses.into_iter().map(|(epoch, loss)| LossPoint { epoch, loss }).collect(),
            parameters: BTreeMap::from_iter(parameters),
            train_loss,
            test_loss,
        },
    )
}

fn rung() -> impl Strategy<Value = Rung> {
    let schedule = prop_oneof![
        Just(Schedule::Launches),
        any::<u32>().prop_map(Schedule::Streams),
        Just(Schedule::Graph),
        Just(Schedule::Cooperative),
        any::<u32>().prop_map(Schedule::Cluster),
    ];
    let requires = prop_oneof![
        Just(Requires::Nothing),
        any::<(u32, u32)>().prop_map(|(a, b)| Requires::AtLeast(a, b)),
        text().prop_map(|t| Requires::Exactly(t.into())),
    ];
    let runner = prop_oneof![
        schedule.prop_map(|schedule| Runner::Kernels { specs: Vec::new(), schedule }),
        text().prop_map(|t| Runner::Library(t.into())),
        text().prop_map(|t| Runner::Cpu(t.into())),
        text().prop_map(|t| Runner::External(t.into())),
    ];
    ([text(), text(), text()], requires, runner).prop_map(|([id, title, idea], requires, runner)| Rung {
        id: id.into(),
        title: title.into(),
        idea: idea.into(),
        requires,
        runner,
    })
}

fn run() -> impl Strategy<Value = Run> {
    let span = (text(), problem(), text(), reals()).prop_map(|(rung, problem, name, samples_us)| Span {
        rung,
        problem,
        group: SpanGroup::Ablation,
        name,
        samples_us,
    });
    let lists = (
        proptest::collection::vec(measurement(), 0..4),
        proptest::collection::vec(train_log(), 0..3),
        proptest::collection::vec(span, 0..3),
        proptest::collection::vec(rung(), 0..4),
    );
    (lists, [text(), text(), text()], reals(), real(), real()).prop_map(
        |((measurements, train_logs, spans, rungs), [title, name, source], samples, budget_s, batch_below_us)| {
            let mut run = Run { title, measurements, train_logs, spans, rungs, ..expected() };
            run.environment.device.name = name;
            run.sources = BTreeMap::from([(source.clone(), source)]);
            run.peaks.bandwidth[0].samples_us.clone_from(&samples);
            run.peaks.compute[0].samples_us = samples;
            (run.policy.budget_s, run.policy.batch_below_us) = (budget_s, batch_below_us);
            run
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(run in run()) {
        let text = run.to_json().unwrap();
        let again = Run::from_json(text.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_same(&run, &again);
        prop_assert_eq!(again.to_json().unwrap(), text);
        // Nor do the methods mind what is in it.
        for problem in run.problems() {
            _ = (problem.flops(), problem.bytes(), problem.label(), run.best(problem), run.ceiling(problem));
            _ = run.ladder(problem);
        }
        _ = (run.main_problem(), run.counts());
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        _ = Run::from_json(&bytes);
    }

    #[test]
    fn a_damaged_record_is_read_or_refused(at in any::<proptest::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = golden().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Err(e) = Run::from_json(&bytes) {
            prop_assert!(e.to_string().starts_with("The "), "{}", e);
        }
    }
}

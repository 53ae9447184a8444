//! Tests with random records and diagrams.

use crate::common::{QUANTITIES, all, check_svg, check_table, diagram_of, of_products, of_recorded, of_trainings};
use crate::comparisons;
use crate::hostile::HOSTILE;
use crate::sample;
use proptest::prelude::*;
use std::collections::BTreeMap;
use warpbook_charts::*;
use warpbook_record::{
    Baseline, Breakdown, Check, Column, ComputePeak, Course, Descriptor, DeviceKind, Dtype, EpochPoint, LossPoint,
    Measurement, MemoryLevel, OperationTime, Outcome, Part, PartGroup, Problem, Requires, Right, Run, Rung, Runner,
    Schedule, Span, StepValue, SweepAxis, SweepPoint, Traffic, TrainLog, Xray, XrayBlock, XrayKernel, XraySm, XrayWarp,
    count, setting,
};

fn real() -> impl Strategy<Value = f64> {
    let odd = [0.0, -1.0, 1e-300, 1e300, f64::MAX, f64::MIN_POSITIVE, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    prop_oneof![4 => 0.01..1e7, 1 => proptest::sample::select(odd.to_vec()), 1 => any::<f64>()]
}

fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(HOSTILE.map(str::to_owned).to_vec()),
        "[a-z<>&\"' ]{0,40}",
        proptest::collection::vec(any::<char>(), 0..20).prop_map(|c| c.into_iter().collect()),
    ]
}

fn dtype() -> impl Strategy<Value = Dtype> {
    prop_oneof![6 => Just(Dtype::F32), 1 => proptest::sample::select(vec![Dtype::F64, Dtype::Tf32, Dtype::Bf16, Dtype::Other])]
}

fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(0), 2 => Just(u64::MAX), 2 => Just(5_000_000), 6 => 0..1_000_000_000u64]
}

fn any_problem() -> impl Strategy<Value = Problem> {
    let size = prop_oneof![3 => Just(64), 3 => Just(4096), 1 => Just(0), 1 => Just(u64::MAX), 2 => 0..10_000u64];
    let line = proptest::sample::select(vec!["fp32".to_owned(), "200 epochs".into(), String::new(), HOSTILE[0].into()]);
    let sweep = proptest::option::weighted(0.8, (size, line).prop_map(|(size, line)| SweepPoint { size, line }));
    let work = (amount(), amount(), amount(), amount(), proptest::option::of(amount()));
    let any = ((words(), words()), work, sweep, real(), dtype()).prop_map(
        |((label, short), (flops, bytes, working_set, passes, items), sweep, v, dtype)| {
            let size = sweep.as_ref().map_or(7, |s| s.size);
            let line = sweep.as_ref().map_or("none", |s| s.line.as_str());
            let sizes = vec![count("n", size, ""), setting("learning_rate", v), setting("line", line)];
            Problem::new(label, short, sizes, dtype).with(|p| {
                (p.flops, p.bytes, p.working_set_bytes) = (flops, bytes, working_set);
                (p.passes, p.items, p.sweep) = (passes, items, sweep.clone());
            })
        },
    );
    prop_oneof![
        8 => any,
        2 => Just(sample::problem(5_000_000)),
        2 => Just(sample::cube(64, Dtype::F32)),
        2 => Just(sample::rows(1024)),
    ]
}

fn any_descriptor() -> impl Strategy<Value = Descriptor> {
    let quantity = proptest::sample::select(QUANTITIES.to_vec());
    let baseline =
        prop_oneof![Just(Baseline::FirstValid), Just(Baseline::FastestLibrary), id().prop_map(Baseline::Rung),];
    let columns = proptest::collection::vec(proptest::sample::select(Column::ALL.to_vec()), 0..6);
    let levels = proptest::collection::vec(proptest::sample::select(LEVELS.to_vec()), 0..4);
    let axis =
        (words(), words(), any::<bool>()).prop_map(|(caption, unit, doubling)| SweepAxis { caption, unit, doubling });
    (quantity, baseline, columns, levels, axis, words()).prop_map(
        |(headline, baseline, columns, levels, axis, text)| {
            let (pass, item, loss, above_bound) = (text.clone(), text.clone(), text.clone(), text);
            Descriptor {
                headline,
                baseline,
                columns,
                levels,
                axis,
                pass,
                item,
                loss,
                above_bound,
                ..Descriptor::default()
            }
        },
    )
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![4 => proptest::sample::select(vec!["a".to_owned(), "b".into(), "c".into()]), 1 => words()]
}

fn reals() -> impl Strategy<Value = Vec<f64>> {
    proptest::collection::vec(real(), 0..5)
}

const LEVELS: [MemoryLevel; 5] =
    [MemoryLevel::Dram, MemoryLevel::L2, MemoryLevel::Shared, MemoryLevel::Registers, MemoryLevel::Other];

fn measurement() -> impl Strategy<Value = Measurement> {
    let outcome = prop_oneof![
        6 => Just(Outcome::Measured),
        1 => words().prop_map(|why| Outcome::Skipped { why }),
        1 => words().prop_map(|error| Outcome::Failed { error }),
    ];
    let check = proptest::option::weighted(0.9, (real(), any::<bool>()));
    let level = proptest::sample::select(LEVELS.to_vec());
    let bytes = prop_oneof![Just(0), Just(u64::MAX), 1..1_000_000_000_000u64];
    let traffic = proptest::collection::vec((level, bytes).prop_map(|(level, bytes)| Traffic { level, bytes }), 0..4);
    let counts = [0; 2].map(|_| proptest::option::of(any::<u64>()));
    let parts = (id(), any_problem(), outcome, reals(), check, traffic, counts);
    parts.prop_map(|(rung, problem, outcome, samples, check, traffic, [flops, peak_bytes])| {
        let mut m = Measurement::without_samples(rung, problem, outcome);
        m.set_samples(samples, Vec::new());
        m.tile = Some("a".into());
        (m.traffic, m.flops, m.peak_bytes) = (traffic, flops, peak_bytes);
        m.check = check.map(|(error, passed)| Check {
            reference: String::new(),
            max_abs_error: error,
            max_rel_error: error,
            tolerance: error,
            passed,
        });
        m
    })
}

fn train_log() -> impl Strategy<Value = TrainLog> {
    let place = || prop_oneof![0..300u64, any::<u64>()];
    let point = (place(), proptest::option::of(place()), real());
    let point = point.prop_map(|(epoch, step, loss)| LossPoint { epoch, step, loss });
    let value = || (place(), real()).prop_map(|(step, value)| StepValue { step, value });
    let values = || proptest::collection::vec(value(), 0..5);
    let right = || proptest::option::of((amount(), amount()).prop_map(|(correct, of)| Right { correct, of }));
    let epoch = (place(), place(), real(), right()).prop_map(|(epoch, step, v, right)| EpochPoint {
        epoch,
        step,
        seconds: v,
        train_loss: v,
        test_loss: v,
        train: right,
        test: right,
    });
    let lists = ([values(), values(), values()], proptest::collection::vec(epoch, 0..4));
    let course = (lists, proptest::collection::vec(place(), 0..5), place(), place()).prop_map(
        |(([rates, scales, norms], epochs), skipped_steps, steps, steps_per_epoch)| {
            Box::new(Course {
                learning_rates: rates,
                loss_scales: scales,
                gradient_norms: norms,
                epochs,
                skipped_steps,
                steps,
                steps_per_epoch,
                ..sample::course()
            })
        },
    );
    let all = (id(), any_problem(), proptest::collection::vec(point, 0..6), real(), proptest::option::of(course));
    all.prop_map(|(rung, problem, losses, v, course)| TrainLog {
        rung,
        problem,
        losses,
        parameters: BTreeMap::from([("w".to_owned(), v)]),
        train_loss: v,
        test_loss: v,
        course,
    })
}

fn part() -> impl Strategy<Value = Part> {
    let groups = [
        PartGroup::Operation,
        PartGroup::Ablation,
        PartGroup::Tile,
        PartGroup::Transfer,
        PartGroup::Phase,
        PartGroup::Other,
    ];
    let name = prop_oneof![2 => words(), 1 => proptest::sample::select(vec!["a".to_owned(), "compute".into(), "to the host".into()])];
    let rung = prop_oneof![3 => id(), 1 => Just(String::new())];
    (rung, any_problem(), proptest::sample::select(groups.to_vec()), name, reals())
        .prop_map(|(rung, problem, group, name, samples_us)| Part { rung, problem, group, name, samples_us })
}

/// Makes a breakdown from a part's words and figures.
fn breakdown(p: &Part) -> Breakdown {
    let n = p.samples_us.len() as u64;
    let operation = |flops, bytes, dtype| OperationTime {
        name: p.name.clone(),
        kernels: vec![p.name.clone(); p.samples_us.len()],
        launches: n,
        samples_us: p.samples_us.clone(),
        alone_us: if n.is_multiple_of(2) { p.samples_us.clone() } else { Vec::new() },
        flops,
        bytes,
        written_bytes: n,
        dtype,
    };
    Breakdown {
        rung: p.rung.clone(),
        problem: p.problem.clone(),
        source: p.name.clone(),
        whole_us: p.samples_us.clone(),
        busy_us: p.samples_us.iter().rev().copied().collect(),
        between_us: p.samples_us.iter().skip(1).copied().collect(),
        operations: vec![operation(0, n, None), operation(u64::MAX, u64::MAX, Some(Dtype::Bf16))],
    }
}

fn span(p: &Part, [start_us, duration_us]: [f64; 2]) -> Span {
    let (rung, name, stream) = (p.rung.clone(), p.name.clone(), p.name.clone());
    let (problem, operation) = (p.problem.clone(), format!("a {name}"));
    Span { rung, problem, operation, name, stream, start_us, duration_us, bytes: Some(7), correlation: None }
}

/// Makes an X-ray from a part's words and figures.
fn x_ray(p: &Part) -> Xray {
    let whole = |us: &f64| *us as u64;
    let phases: Vec<(u64, u64)> = p.samples_us.iter().enumerate().map(|(i, us)| (i as u64 % 4, whole(us))).collect();
    let block = |(i, us): (usize, &f64)| XrayBlock {
        kernel: i as u64 % 2,
        block: whole(us),
        sm: whole(us) % 7,
        start_ns: i as u64,
        end_ns: whole(us),
        warps: vec![
            XrayWarp { warp: 0, start_ns: whole(us), phases: phases.clone(), stands_for: whole(us) % 5 };
            i % 3
        ],
    };
    let (entry, file, tile) = (p.name.clone(), p.name.clone(), p.name.clone());
    Xray {
        rung: p.rung.clone(),
        problem: p.problem.clone(),
        phases: vec![p.name.clone(), "load".into(), "multiply".into()],
        kernels: vec![XrayKernel { entry, file, tile, blocks: u64::MAX, warps: 1 }],
        unmarked_kernels: vec![p.name.clone(); 2],
        sms: p.samples_us.iter().map(|us| XraySm { sm: whole(us), error_ns: *us }).collect(),
        blocks: p.samples_us.iter().enumerate().map(block).collect(),
        clock_mhz: p.samples_us.first().copied().unwrap_or(0.0),
        marked_us: p.samples_us.clone(),
        unmarked_us: p.samples_us.iter().rev().copied().collect(),
    }
}

fn run() -> impl Strategy<Value = Run> {
    let many = |n| 0..n;
    let all = (
        proptest::collection::vec(measurement(), many(24)),
        proptest::collection::vec(train_log(), many(6)),
        proptest::collection::vec(part(), many(12)),
        proptest::collection::vec((id(), words(), 0..4), many(4)),
        (reals(), words(), any::<bool>(), proptest::option::of(any::<u64>()), reals()),
        any_descriptor(),
    );
    all.prop_map(|(measurements, train_logs, parts, rungs, (peaks, name, gpu, l2, flops), descriptor)| {
        let mut run = sample::empty(&name, if gpu { DeviceKind::Cuda } else { DeviceKind::Cpu });
        run.descriptor = descriptor;
        run.title.clone_from(&name);
        run.environment.device.l2_bytes = l2;
        run.rungs = rungs
            .into_iter()
            .map(|(id, title, of)| Rung {
                id: id.into(),
                title: title.into(),
                idea: "".into(),
                variant_of: None,
                requires: if of == 0 { Requires::Nothing } else { Requires::AtLeast(7, 5) },
                runner: match of {
                    0 => Runner::Cpu("1 thread".into()),
                    1 => Runner::External(name.clone().into()),
                    2 => Runner::Library(name.clone().into()),
                    _ => Runner::Kernels { specs: Vec::new(), schedule: Schedule::Graph },
                },
            })
            .collect();
        for level in LEVELS {
            let mut peak = sample::peak(level, 1e12);
            peak.samples_us.clone_from(&peaks);
            run.peaks.bandwidth.push(peak);
        }
        for dtype in [Dtype::F32, Dtype::Bf16] {
            run.peaks.compute.push(ComputePeak {
                dtype,
                method: name.clone(),
                flops: 1 << 40,
                samples_us: flops.clone(),
                datasheet_flops_per_s: peaks.first().copied(),
            });
        }
        run.xrays = parts.iter().map(x_ray).collect();
        run.breakdowns = parts.iter().map(breakdown).collect();
        run.spans = parts.iter().flat_map(|p| p.samples_us.windows(2).map(|w| span(p, [w[0], w[1]]))).collect();
        (run.measurements, run.train_logs, run.parts) = (measurements, train_logs, parts);
        run
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_record_gives_well_formed_charts_or_an_error(a in run(), b in run()) {
        let mut problems: Vec<Problem> = a.problems().into_iter().cloned().collect();
        problems.extend(a.train_logs.iter().map(|l| l.problem.clone()).chain(a.parts.iter().map(|p| p.problem.clone())));
        problems.truncate(8);
        for p in &problems {
            let of_both = [
                draw().sweep(&[&a, &b]),
                draw().sweep_throughput(&[&a, &b], Some(p.dtype), Some(&["a", "b"])),
                draw().compare(&[&a, &b], p.size()),
            ];
            if let Some(headline) = headline(&a, p) {
                prop_assert!(headline.sentence.ends_with('.') && !headline.tiles.is_empty(), "{headline:?}");
            }
            prop_assert!(sparkline(&a, p).iter().all(|h| (0.0..=1.0).contains(h)));
            check_table(&LadderTable::for_problem(&a, p));
            check_table(&LadderTable::with(&a, p, &Column::ALL));
            let of_each = QUANTITIES.iter().flat_map(|q| [draw().ladder(&a, p, *q), draw().sweep_of(&[&a], *q, Some(p), None)]);
            for chart in all(&a, p).into_iter().chain(of_products(&a, p)).chain(of_trainings(&a, p)).chain(of_recorded(&a, p)).chain(of_both).chain(of_each) {
                match chart {
                    Ok(chart) => check_svg(&chart),
                    Err(e) => prop_assert!(e.to_string().ends_with('.'), "{e}"),
                }
            }
        }
    }

    #[test]
    fn any_records_are_compared_or_refused(all in prop::collection::vec(run(), 0..10), same in any::<bool>()) {
        let runs: Vec<&Run> = if same && !all.is_empty() { vec![&all[0]; all.len()] } else { all.iter().collect() };
        match Comparison::from_runs(&runs) {
            Err(e) => prop_assert!(e.to_string().ends_with('.'), "{e}"),
            Ok(comparison) => {
                comparisons::check(&comparison);
                comparisons::check(&comparison.clone().normalised());
                let problems: Vec<&Problem> = comparison.problems.iter().filter_map(|p| p[0]).collect();
                for p in problems.into_iter().take(3) {
                    comparisons::check(&comparison.at(p));
                }
            }
        }
    }

    #[test]
    fn any_diagram_is_well_formed(
        text in words(),
        rows in 0..60usize,
        columns in prop_oneof![9 => 0..60usize, 1 => Just(1_000_000)],
        tone in any::<usize>(),
    ) {
        check_svg(&diagram_of(&text, (rows, columns), tone).unwrap());
    }
}

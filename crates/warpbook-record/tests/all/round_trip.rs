//! Property tests: every record survives writing and reading, and the reader accepts any bytes without panicking.

use crate::common::{assert_same, expected, golden, golden_v1};
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use serde_json::Value;
use std::collections::BTreeMap;
use warpbook_record::{
    Baseline, Breakdown, ChartKind, Check, Column, CounterValue, Course, Descriptor, Dtype, Emulated, EpochPoint,
    Finding, Gradients, Inputs, KernelCounters, LineCounts, LossPoint, Measurement, MemoryAt, MemoryLevel,
    OperationTime, Outcome, Part, PartGroup, PowerAt, Problem, ProblemData, Profiled, ProfilerOverhead, Quantity,
    Requires, Right, Run, Rung, Runner, Schedule, Size, SizeValue, Span, StepValue, SweepAxis, SweepPoint, Traffic,
    TrainLog, Xray, XrayBlock, XrayKernel, XraySm, XrayWarp,
};

const DTYPES: [Dtype; 6] = [Dtype::F64, Dtype::F32, Dtype::Tf32, Dtype::F16, Dtype::Bf16, Dtype::Other];
const LEVELS: [MemoryLevel; 5] =
    [MemoryLevel::Registers, MemoryLevel::Shared, MemoryLevel::L2, MemoryLevel::Dram, MemoryLevel::Other];
const QUANTITIES: [Quantity; 5] =
    [Quantity::Time, Quantity::SpeedUp, Quantity::Bandwidth, Quantity::Throughput, Quantity::ItemRate];
/// Maximum number of problems in a generated record.
const MAX_PROBLEMS: usize = 4;

fn real() -> impl Strategy<Value = f64> {
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::MIN_POSITIVE / 2.0, f64::MAX, 0.1, 1e21, 1e-7];
    prop_oneof![any::<f64>(), select(odd.to_vec()), Just(f64::from(0.1f32))]
}

fn reals() -> impl Strategy<Value = Vec<f64>> {
    proptest::collection::vec(real(), 0..8)
}

/// Generates times, most of them plausible, so that enough measurements are valid.
fn times() -> impl Strategy<Value = Vec<f64>> {
    prop_oneof![proptest::collection::vec(1e-3..1e6, 1..5), reals()]
}

fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec(any::<char>(), 0..12).prop_map(|c| c.into_iter().collect())
}

fn size() -> impl Strategy<Value = Size> {
    let value = prop_oneof![
        any::<u64>().prop_map(SizeValue::from),
        real().prop_map(SizeValue::from),
        text().prop_map(SizeValue::Text),
    ];
    // There are few names, so that some occur twice.
    let name = prop_oneof![select(vec!["points", "m"]).prop_map(str::to_owned), text()];
    (name, value, proptest::option::of(text())).prop_map(|(name, value, unit)| Size { name, value, unit })
}

fn problem() -> impl Strategy<Value = ProblemData> {
    let passes = prop_oneof![Just(0), Just(1), any::<u64>()];
    let line = prop_oneof![Just("bf16".to_owned()), text()];
    let sweep = (any::<u64>(), line).prop_map(|(size, line)| SweepPoint { size, line });
    (
        [text(), text()],
        proptest::collection::vec(size(), 0..4),
        select(DTYPES.to_vec()),
        any::<[u64; 3]>(),
        passes,
        proptest::option::of(any::<u64>()),
        proptest::option::of(sweep),
    )
        .prop_map(|([label, short], sizes, dtype, [flops, bytes, working_set_bytes], passes, items, sweep)| {
            ProblemData {
                flops,
                bytes,
                working_set_bytes,
                passes,
                items,
                sweep,
                ..ProblemData::clone(&Problem::new(label, short, sizes, dtype))
            }
        })
}

/// Generates problems with different ids.
fn problems() -> impl Strategy<Value = Vec<Problem>> {
    let known = (problem(), proptest::option::of(text())).prop_map(|(p, id)| match id {
        Some(id) => ProblemData { id, ..p },
        None => p,
    });
    proptest::collection::vec(known, 1..=MAX_PROBLEMS).prop_map(|list| {
        let by_id: BTreeMap<String, ProblemData> = list.into_iter().map(|p| (p.id.clone(), p)).collect();
        by_id.into_values().map(Problem::from).collect()
    })
}

/// Generates a placeholder for a problem, which is used until the record's problems are known.
fn nth() -> impl Strategy<Value = Problem> {
    (0..MAX_PROBLEMS).prop_map(|i| Problem::new("", "", Vec::new(), Dtype::Other).with(|p| p.flops = i as u64))
}

fn place(placeholder: &mut Problem, problems: &[Problem]) {
    *placeholder = problems[placeholder.flops as usize % problems.len()].clone();
}

/// Generates an id of a rung: an id from the golden record, or any text.
fn rung_id() -> impl Strategy<Value = String> {
    let known: Vec<String> = expected().rungs.iter().map(|r| r.id.to_string()).collect();
    prop_oneof![select(known), text()]
}

fn measurement() -> impl Strategy<Value = Measurement> {
    let outcome = prop_oneof![
        3 => Just(Outcome::Measured),
        1 => text().prop_map(|why| Outcome::Skipped { why }),
        1 => text().prop_map(|error| Outcome::Failed { error }),
    ];
    let check = (text(), prop::bool::weighted(0.8), [real(), real(), real()]).prop_map(
        |(reference, passed, [max_abs_error, max_rel_error, tolerance])| Check {
            reference,
            max_abs_error,
            max_rel_error,
            tolerance,
            passed,
        },
    );
    let traffic = (select(LEVELS.to_vec()), any::<u64>()).prop_map(|(level, bytes)| Traffic { level, bytes });
    let maybe = || proptest::option::of(any::<u64>());
    let right = any::<(u64, u64)>().prop_map(|(correct, of)| Right { correct, of });
    let right = proptest::collection::vec(right, 0..3);
    let counted = (proptest::collection::vec(traffic, 0..4), [maybe(), maybe(), maybe()], any::<u64>(), right);
    let texts = [proptest::option::of(text()), proptest::option::of(text())];
    (rung_id(), nth(), outcome, [times(), times()], proptest::option::weighted(0.8, check), counted, texts).prop_map(
        |(rung, problem, outcome, [samples_us, wall_us], check, counted, [tile, choice])| {
            let (traffic, [flops, peak_bytes, steps], samples_total, test) = counted;
            let line =
                |requests| LineCounts { file: rung.clone(), requests, bytes: samples_total, ..LineCounts::default() };
            let finding = choice.clone().map(|message| Finding { message, line: Some(7), ..Finding::default() });
            let emulated = steps.map(|steps| Emulated { finding, lines: vec![line(steps)], ..Emulated::default() });
            Measurement {
                emulated: emulated.map(Box::new),
                samples_us,
                wall_us,
                check,
                samples_total,
                traffic,
                choice,
                chosen: tile.clone(),
                gradients: flops.map(|bytes| Gradients { bytes, buckets: 2 }),
                tile,
                flops,
                peak_bytes,
                test,
                steps,
                dtype: peak_bytes.map(|_| Dtype::Bf16),
                ..Measurement::without_samples(rung, problem, outcome)
            }
        },
    )
}

fn train_log() -> impl Strategy<Value = TrainLog> {
    let point = (any::<u64>(), proptest::option::of(any::<u64>()), real()).prop_map(|(epoch, step, loss)| LossPoint {
        epoch,
        step,
        loss,
    });
    let parameters = proptest::collection::vec((text(), real()), 0..3);
    let course = proptest::option::of(course().prop_map(Box::new));
    (rung_id(), nth(), proptest::collection::vec(point, 0..5), parameters, real(), real(), course).prop_map(
        |(rung, problem, losses, parameters, train_loss, test_loss, course)| TrainLog {
            rung,
            problem,
            losses,
            parameters: BTreeMap::from_iter(parameters),
            train_loss,
            test_loss,
            course,
        },
    )
}

fn course() -> impl Strategy<Value = Course> {
    let values =
        || proptest::collection::vec((any::<u64>(), real()).prop_map(|(step, value)| StepValue { step, value }), 0..3);
    let right = || proptest::option::of(any::<(u64, u64)>().prop_map(|(correct, of)| Right { correct, of }));
    let epoch = (any::<(u64, u64)>(), [real(), real(), real()], right(), right()).prop_map(
        |((epoch, step), [seconds, train_loss, test_loss], train, test)| EpochPoint {
            epoch,
            step,
            seconds,
            train_loss,
            test_loss,
            train,
            test,
        },
    );
    let bytes = || proptest::option::of(any::<u64>());
    let recipe = proptest::collection::vec((text(), text()), 0..3);
    let words = (recipe, text(), text());
    let lists = ([values(), values(), values()], proptest::collection::vec(epoch, 0..3), any::<Vec<u64>>());
    let times = (real(), proptest::option::of(0.0..1e6f64));
    (words, lists, any::<[u64; 5]>(), times, bytes(), bytes()).prop_map(
        |(
            (recipe, data, ended),
            ([rates, scales, norms], epochs, skipped_steps),
            counts,
            (total_s, planning_s),
            allocated,
            reserved,
        )| {
            let [log_every, first_step, steps, skipped_total, steps_per_epoch] = counts;
            Course {
                recipe,
                data,
                log_every,
                first_step,
                steps,
                steps_per_epoch,
                learning_rates: rates,
                loss_scales: scales,
                skipped_steps,
                skipped_total,
                gradient_norms: norms,
                epochs,
                total_s,
                planning_s,
                peak_allocated_bytes: allocated,
                peak_reserved_bytes: reserved,
                ended,
            }
        },
    )
}

fn part() -> impl Strategy<Value = Part> {
    let groups =
        vec![PartGroup::Operation, PartGroup::Ablation, PartGroup::Tile, PartGroup::Transfer, PartGroup::Other];
    (rung_id(), nth(), select(groups), text(), reals()).prop_map(|(rung, problem, group, name, samples_us)| Part {
        rung,
        problem,
        group,
        name,
        samples_us,
    })
}

fn span() -> impl Strategy<Value = Span> {
    let of_copy = (proptest::option::of(any::<u64>()), proptest::option::of(any::<u32>()));
    (nth(), [text(), text(), text(), text()], real(), real(), of_copy).prop_map(
        |(problem, [rung, name, operation, stream], start_us, duration_us, (bytes, correlation))| Span {
            rung,
            problem,
            name,
            operation,
            stream,
            start_us,
            duration_us,
            bytes,
            correlation,
        },
    )
}

fn breakdown() -> impl Strategy<Value = Breakdown> {
    let counts = (any::<u64>(), any::<u64>(), any::<u64>(), proptest::option::of(select(DTYPES.to_vec())));
    let operation = (text(), proptest::collection::vec(text(), 0..3), any::<u64>(), [reals(), reals()], counts)
        .prop_map(|(name, kernels, launches, [samples_us, alone_us], (flops, bytes, written_bytes, dtype))| {
            OperationTime { name, kernels, launches, samples_us, alone_us, flops, bytes, written_bytes, dtype }
        });
    let operations = proptest::collection::vec(operation, 0..3);
    (rung_id(), nth(), text(), [reals(), reals(), reals()], operations).prop_map(
        |(rung, problem, source, [whole_us, busy_us, between_us], operations)| Breakdown {
            rung,
            problem,
            source,
            whole_us,
            busy_us,
            between_us,
            operations,
        },
    )
}

fn profiled() -> impl Strategy<Value = Profiled> {
    let at = (real(), any::<[u64; 3]>()).prop_map(
        |(at_us, [allocated_bytes, pool_allocated_bytes, pool_reserved_bytes])| MemoryAt {
            at_us,
            allocated_bytes,
            pool_allocated_bytes,
            pool_reserved_bytes,
        },
    );
    let power = (real(), proptest::option::of(any::<u32>()), any::<[Option<u16>; 2]>(), any::<bool>(), any::<u64>())
        .prop_map(|(at_us, sm_mhz, [watts, limit_watts], capped, flops)| PowerAt {
            at_us,
            sm_mhz,
            watts: watts.map(f64::from),
            limit_watts: limit_watts.map(f64::from),
            capped,
            flops,
        });
    let overhead = (real(), real(), any::<u64>(), any::<bool>(), real()).prop_map(
        |(recorded_us, unrecorded_us, unrecorded_steps, attached_before, noise_us)| ProfilerOverhead {
            recorded_us,
            unrecorded_us,
            unrecorded_steps,
            attached_before,
            noise_us,
        },
    );
    let value = (text(), real()).prop_map(|(metric, value)| CounterValue { metric, value });
    let values = proptest::collection::vec(value, 0..3);
    let grid = proptest::collection::vec(any::<u32>(), 0..4);
    let kernel = (text(), grid, values).prop_map(|(kernel, grid, values)| KernelCounters { kernel, grid, values });
    let lists = (
        proptest::collection::vec(at, 0..3),
        proptest::collection::vec(power, 0..3),
        proptest::collection::vec(kernel, 0..3),
    );
    (rung_id(), nth(), text(), proptest::option::of(overhead), lists).prop_map(
        |(rung, problem, source, overhead, (memory, power, counters))| Profiled {
            rung,
            problem,
            source,
            memory,
            power,
            overhead,
            counters,
        },
    )
}

fn xray() -> impl Strategy<Value = Xray> {
    let warp = (any::<[u64; 3]>(), proptest::collection::vec(any::<(u64, u64)>(), 0..4))
        .prop_map(|([warp, start_ns, stands_for], phases)| XrayWarp { warp, start_ns, phases, stands_for });
    let block = (any::<[u64; 5]>(), proptest::collection::vec(warp, 0..3)).prop_map(
        |([kernel, block, sm, start_ns, end_ns], warps)| XrayBlock { kernel, block, sm, start_ns, end_ns, warps },
    );
    let kernel = ([text(), text(), text()], any::<u64>(), any::<u64>())
        .prop_map(|([entry, file, tile], blocks, warps)| XrayKernel { entry, file, tile, blocks, warps });
    let lists = (
        proptest::collection::vec(text(), 0..4),
        proptest::collection::vec(kernel, 0..3),
        proptest::collection::vec(text(), 0..3),
        proptest::collection::vec((any::<u64>(), real()).prop_map(|(sm, error_ns)| XraySm { sm, error_ns }), 0..4),
        proptest::collection::vec(block, 0..4),
    );
    (rung_id(), nth(), lists, real(), [reals(), reals()]).prop_map(
        |(rung, problem, (phases, kernels, unmarked_kernels, sms, blocks), clock_mhz, [marked_us, unmarked_us])| Xray {
            rung,
            problem,
            phases,
            kernels,
            unmarked_kernels,
            sms,
            blocks,
            clock_mhz,
            marked_us,
            unmarked_us,
        },
    )
}

fn rung() -> impl Strategy<Value = Rung> {
    let schedule = prop_oneof![
        Just(Schedule::Launches),
        any::<u32>().prop_map(Schedule::Streams),
        Just(Schedule::Graph),
        Just(Schedule::OverlappedGraph),
        Just(Schedule::Cooperative),
        Just(Schedule::Clusters),
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
    (rung_id(), [text(), text()], requires, runner, proptest::option::of(text())).prop_map(
        |(id, [title, idea], requires, runner, variant_of)| Rung {
            id: id.into(),
            title: title.into(),
            idea: idea.into(),
            requires,
            runner,
            variant_of: variant_of.map(Into::into),
        },
    )
}

fn descriptor() -> impl Strategy<Value = Descriptor> {
    let charts = vec![ChartKind::Ladder, ChartKind::HeatMap, ChartKind::Transfers, ChartKind::Loss, ChartKind::Other];
    let baseline =
        prop_oneof![Just(Baseline::FirstValid), Just(Baseline::FastestLibrary), rung_id().prop_map(Baseline::Rung),];
    let axis =
        (text(), text(), any::<bool>()).prop_map(|(caption, unit, doubling)| SweepAxis { caption, unit, doubling });
    (
        (select(QUANTITIES.to_vec()), subsequence(QUANTITIES.to_vec(), 0..=QUANTITIES.len())),
        (baseline, axis),
        subsequence(Column::ALL.to_vec(), 0..=Column::ALL.len()),
        subsequence(charts.clone(), 0..=charts.len()),
        subsequence(LEVELS.to_vec(), 0..=LEVELS.len()),
        ([text(), text(), text(), text(), text(), text()], proptest::collection::vec(text(), 0..3)),
    )
        .prop_map(
            |(
                (headline, quantities),
                (baseline, axis),
                columns,
                charts,
                levels,
                ([pass, item, loss, above_bound, sample, reason], compared),
            )| {
                Descriptor {
                    headline,
                    quantities,
                    baseline,
                    axis,
                    columns,
                    charts,
                    pass,
                    item,
                    levels,
                    loss,
                    above_bound,
                    compared,
                    reason,
                    sample,
                }
            },
        )
}

fn run() -> impl Strategy<Value = Run> {
    let lists = (
        problems(),
        proptest::collection::vec(measurement(), 0..6),
        proptest::collection::vec(train_log(), 0..3),
        proptest::collection::vec(part(), 0..3),
        (
            proptest::collection::vec(span(), 0..3),
            proptest::collection::vec(breakdown(), 0..3),
            proptest::collection::vec(profiled(), 0..3),
            proptest::collection::vec(xray(), 0..3),
        ),
        proptest::collection::vec(rung(), 0..5),
    );
    let said = (
        [text(), text(), text()],
        prop_oneof![select(vec!["regression", "matmul"]).prop_map(str::to_owned), text()],
        proptest::option::of(text()),
        proptest::option::of(text()),
    );
    let machine = (times(), real(), real(), proptest::option::of(any::<u64>()), select(DTYPES.to_vec()), any::<u64>());
    (lists, said, machine, descriptor()).prop_map(
        |(
            (
                problems,
                mut measurements,
                mut train_logs,
                mut parts,
                (mut spans, mut breakdowns, mut profiled, mut xrays),
                rungs,
            ),
            ([title, name, source], experiment, author, main_problem),
            (samples, budget_s, batch_below_us, l2_bytes, dtype, work),
            descriptor,
        )| {
            measurements.iter_mut().for_each(|m| place(&mut m.problem, &problems));
            train_logs.iter_mut().for_each(|l| place(&mut l.problem, &problems));
            parts.iter_mut().for_each(|p| place(&mut p.problem, &problems));
            spans.iter_mut().for_each(|s| place(&mut s.problem, &problems));
            breakdowns.iter_mut().for_each(|b| place(&mut b.problem, &problems));
            profiled.iter_mut().for_each(|p| place(&mut p.problem, &problems));
            xrays.iter_mut().for_each(|x| place(&mut x.problem, &problems));
            let mut run = Run {
                experiment,
                title,
                author,
                descriptor,
                main_problem: main_problem.or_else(|| problems.first().map(|p| p.id.clone())),
                problems,
                measurements,
                train_logs,
                parts,
                spans,
                breakdowns,
                profiled,
                xrays,
                rungs,
                ..expected()
            };
            run.environment.device.name = name;
            run.environment.device.l2_bytes = l2_bytes;
            run.sources = BTreeMap::from([(source.clone(), source)]);
            run.peaks.bandwidth[0].bytes = work;
            run.peaks.bandwidth[0].samples_us.clone_from(&samples);
            (run.peaks.compute[0].dtype, run.peaks.compute[0].flops) = (dtype, work);
            run.peaks.compute[0].samples_us = samples;
            (run.policy.budget_s, run.policy.batch_below_us) = (budget_s, batch_below_us);
            run.policy.inputs = Inputs::of_all(run.title.as_str()).with(run.experiment.as_str(), run.title.as_str());
            run
        },
    )
}

/// Calls all methods that read a record, and checks properties that hold for every record.
fn use_methods(run: &Run) {
    let (measured, skipped, failed) = run.counts();
    assert_eq!(measured + skipped + failed, run.measurements.len());
    assert_eq!(run.main_problem().is_some(), !run.every_problem().is_empty());
    for p in &run.problems {
        _ = (p.size(), p.count("points"), p.real("points"), p.text("m"), p.same_line(&run.problems[0]));
        _ = (run.ceiling(p), run.arithmetic(p), run.train_log("02_fused", p), run.fastest_kernels(p));
        _ = run.parts_of("02_fused", p, PartGroup::Operation);
        let positive = |b: warpbook_record::Bound| b.us >= 0.0;
        assert!(run.least_time(p).is_none_or(positive));
        let rows = run.ladder(p);
        assert_eq!(rows.len(), run.measurements.iter().filter(|m| m.problem == *p).count());
        let any_sound = rows.iter().any(|r| run.is_sound(r.measurement));
        let baseline = run.baseline(p);
        assert_eq!(baseline.is_some(), any_sound);
        assert!(baseline.is_none_or(Measurement::is_valid));
        for row in &rows {
            assert_eq!(row.speed_up.is_some(), run.is_sound(row.measurement));
            assert!(row.fraction_of_bound.is_none() || row.measurement.is_valid());
        }
        let fastest = run.fastest(p);
        assert!(fastest.is_none_or(|m| m.is_valid() && !m.does_less()));
        if let Some((library, us)) = run.fastest_library(p) {
            assert!(run.rung(&library.rung).is_some_and(Rung::is_library));
            assert!(fastest.and_then(Measurement::median_us).is_some_and(|least| least <= us));
        }
    }
    for m in &run.measurements {
        assert!(run.bound(m).is_none_or(|b| b.us >= 0.0 && !b.label().is_empty()));
        _ = (run.fraction_of_bound(m), run.on_device(m), m.mad_us(), m.median_wall_us());
        _ = (m.items_per_s(), m.effective_bytes_per_s(), m.flops_per_s());
        assert_eq!(m.pass_us().is_some(), m.problem.passes > 1 && !m.samples_us.is_empty());
    }
    for x in &run.xrays {
        assert!(run.xray(&x.rung, &x.problem).is_some());
        _ = (x.phase_times(0), x.tail(0), x.lead(0), x.spread_in_blocks(0), x.spread_over_blocks(0), x.perturbation());
    }
    for b in &run.breakdowns {
        assert!(run.breakdown(&b.rung, &b.problem).is_some());
        _ = (b.whole_median_us(), b.idle_median_us(), b.between_median_us(), run.spans_of(&b.rung, &b.problem));
        assert!(
            b.sum_us().is_finite() || b.operations.iter().any(|o| o.median_us().is_some_and(|us| us.abs() > 1e300))
        );
        assert!(b.operations.iter().all(|o| run.operation_bound(b, o).is_none_or(|bound| bound.us >= 0.0)));
    }
    for p in &run.profiled {
        assert!(run.profiled_of(&p.rung, &p.problem).is_some());
        assert!(p.overhead.and_then(|o| o.ratio()).is_none_or(f64::is_finite));
        assert!(p.counters.iter().all(|k| k.values.iter().all(|v| k.value(&v.metric).is_none_or(f64::is_finite))));
    }
    for s in &run.spans {
        assert!(s.bytes_per_s().is_none_or(|rate| rate >= 0.0));
        if s.start_us.is_finite() && s.duration_us >= 0.0 {
            assert!(s.end_us() >= s.start_us);
        }
    }
}

/// Returns true if the text is a record, after checking that it can be written and read again and that its methods do
/// not panic.
fn is_record(text: &str) -> bool {
    match Run::from_json(text.as_bytes()) {
        Ok(run) => {
            use_methods(&run);
            let again = run.to_json().unwrap();
            assert_same(&Run::from_json(again.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{again}")), &run);
            true
        }
        Err(e) => {
            assert!(e.to_string().starts_with("The "), "{e}");
            false
        }
    }
}

/// Generates arbitrary JSON that contains names and words from records.
fn any_json() -> impl Strategy<Value = Value> {
    const WORDS: [&str; 31] = [
        "schema",
        "experiment",
        "problem",
        "problems",
        "kind",
        "regression",
        "matmul",
        "points",
        "train_points",
        "epochs",
        "learning_rate",
        "noise",
        "seed",
        "dtype",
        "f32",
        "features",
        "m",
        "n",
        "k",
        "out",
        "trans_a",
        "spans",
        "breakdowns",
        "profiled",
        "xrays",
        "parts",
        "rungs",
        "runner",
        "kernels",
        "cluster",
        "a+b",
    ];
    let word = || prop_oneof![select(WORDS.to_vec()).prop_map(str::to_owned), text()];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec((word(), inner), 0..6).prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

/// Collects the JSON pointers of all values inside a value.
fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match value {
        Value::Array(list) => list.iter().enumerate().for_each(|(i, v)| pointers(v, &format!("{at}/{i}"), all)),
        Value::Object(map) => {
            for (name, v) in map {
                pointers(v, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), all);
            }
        }
        _ => {}
    }
}

/// Replaces some values of a record at random places.
fn mutate(record: &str, changes: Vec<(Index, Value)>) -> String {
    let mut record: Value = serde_json::from_str(record).expect("JSON");
    for (at, value) in changes {
        let mut all = Vec::new();
        pointers(&record, "", &mut all);
        *record.pointer_mut(&all[at.index(all.len())]).expect("a path of the record") = value;
    }
    record.to_string()
}

fn changes() -> impl Strategy<Value = Vec<(Index, Value)>> {
    proptest::collection::vec((any::<Index>(), any_json()), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(run in run()) {
        let text = run.to_json().unwrap();
        let again = Run::from_json(text.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_same(&run, &again);
        prop_assert_eq!(again.to_json().unwrap(), text);
        use_methods(&run);
    }

    #[test]
    fn problems_that_are_not_listed_are_written_too(run in run()) {
        let used = |p: &Problem| {
            run.measurements.iter().any(|m| m.problem == *p)
                || run.train_logs.iter().any(|l| l.problem == *p)
                || run.parts.iter().any(|x| x.problem == *p)
                || run.spans.iter().any(|s| s.problem == *p)
                || run.breakdowns.iter().any(|b| b.problem == *p)
                || run.profiled.iter().any(|x| x.problem == *p)
                || run.xrays.iter().any(|x| x.problem == *p)
        };
        let text = Run { problems: Vec::new(), ..run.clone() }.to_json().unwrap();
        let mut again = Run::from_json(text.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{text}"));
        prop_assert_eq!(again.problems.len(), run.problems.iter().filter(|p| used(p)).count());
        again.problems.clone_from(&run.problems);
        assert_same(&run, &again);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        _ = Run::from_json(&bytes);
    }

    #[test]
    fn a_damaged_record_is_read_or_refused(at in any::<Index>(), byte in any::<u8>()) {
        for golden in [golden(), golden_v1()] {
            let mut bytes = golden.into_bytes();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Err(e) = Run::from_json(&bytes) {
                prop_assert!(e.to_string().starts_with("The "), "{}", e);
            }
        }
    }

    #[test]
    fn a_changed_record_is_read_or_refused(changes in changes()) {
        _ = is_record(&mutate(&golden(), changes.clone()));
        _ = is_record(&mutate(&golden_v1(), changes));
    }

    #[test]
    fn any_json_is_read_or_refused(mut value in any_json(), schema in 0..4u32) {
        if let Some(object) = value.as_object_mut() {
            object.insert("schema".into(), schema.into());
        }
        prop_assert!(!is_record(&value.to_string()));
    }
}

/// Checks that enough of the changed records can still be read for the property test above to be useful.
#[test]
fn changes_that_keep_a_record_are_found() {
    for golden in [golden(), golden_v1()] {
        let record: Value = serde_json::from_str(&golden).expect("JSON");
        let mut all = Vec::new();
        pointers(&record, "", &mut all);
        let kept = |value: &Value| {
            let changed = |at: &String| {
                let mut record = record.clone();
                *record.pointer_mut(at).expect("a path of the record") = value.clone();
                is_record(&record.to_string())
            };
            all.iter().filter(|at| changed(at)).count()
        };
        let numbers = kept(&1.into());
        assert!(numbers > 50 && numbers < all.len(), "{numbers}");
        assert!(kept(&Value::Null) > 0);
    }
}

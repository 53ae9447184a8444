use super::cycle::{Joint, device_work, host_calls};
use super::*;
use std::time::Duration;
use warpbook_device::{Activity, ActivityKind, Call};

fn cpu() -> Lab {
    Lab::open("cpu").unwrap()
}

#[test]
fn steps_wait_warm_up_and_are_kept() {
    let steps = |wait, warm_up, active, repeat| Steps { wait, warm_up, active: Some(active), repeat };
    let phases = |s: Steps| -> String {
        (0..10)
            .map(|i| match (s.phase(i), s.ends(i)) {
                (Phase::Idle, _) => '.',
                (Phase::WarmUp, _) => 'w',
                (Phase::Active, false) => 'a',
                (Phase::Active, true) => 'A',
            })
            .collect()
    };
    assert_eq!(phases(steps(1, 1, 2, 0)), ".waA.waA.w");
    assert_eq!(phases(steps(1, 1, 2, 1)), ".waA......");
    assert_eq!(phases(steps(0, 0, 1, 0)), "AAAAAAAAAA");
    assert_eq!(phases(steps(0, 2, 3, 2)), "wwaaAwwaaA");
    assert_eq!(phases(Steps { wait: 0, warm_up: 0, active: None, repeat: 0 }), "aaaaaaaaaa");
}

#[test]
fn cycles_are_those_of_the_schedule_and_given_as_they_end() {
    let lab = cpu();
    let mut heard = Vec::new();
    let mut active = Vec::new();
    let profile = lab
        .profiler()
        .schedule(1, 1, 2)
        .on_cycle(|c| heard.push((c.number, c.first_step, c.steps.len(), c.ranges.len())))
        .run(|p| {
            for _ in 0..9 {
                active.push(p.is_active());
                p.range("load", |_| std::thread::sleep(Duration::from_millis(1)));
                p.range("compute", |p| p.range("inner", |_| ()));
                p.step()?;
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(heard, [(0, 2, 2, 6), (1, 6, 2, 6)]);
    assert_eq!(active, [false, false, true, true, false, false, true, true, false]);
    assert_eq!(profile.cycles.len(), 2);
    let cycle = &profile.cycles[1];
    assert_eq!(cycle.steps.iter().map(|s| s.number).collect::<Vec<_>>(), [6, 7]);
    let names: Vec<(&str, usize, Option<usize>, u64)> =
        cycle.ranges.iter().map(|r| (&*r.name, r.depth, r.parent, r.step)).collect();
    assert_eq!(names[..3], [("load", 0, None, 6), ("compute", 0, None, 6), ("inner", 1, Some(1), 6)]);
    assert_eq!(names[5], ("inner", 1, Some(4), 7));
    assert!(cycle.ranges[0].duration_us >= 1000.0 && cycle.steps[0].duration_us >= 1000.0);
    let end = |start: f64, duration: f64| start + duration;
    assert!(cycle.ranges[2].start_us >= cycle.ranges[1].start_us);
    assert!(
        end(cycle.ranges[2].start_us, cycle.ranges[2].duration_us)
            <= end(cycle.ranges[1].start_us, cycle.ranges[1].duration_us)
    );
    assert!(cycle.whole_us >= cycle.steps.iter().map(|s| s.duration_us).sum::<f64>());
    assert_eq!((cycle.source.as_str(), cycle.allocated_bytes), ("the host's clock", None));
}

#[test]
fn a_program_without_steps_is_one_cycle_and_its_error_is_kept() {
    let lab = cpu();
    let profile = lab.profile(|p| p.range("all", |_| Ok(()))).unwrap();
    assert_eq!((profile.cycles.len(), profile.cycles[0].steps.len(), profile.cycles[0].ranges.len()), (1, 1, 1));
    let refused = lab.profile(|_| Err(crate::Error::Setting("no".into()))).unwrap_err();
    assert_eq!(refused.to_string(), "no");
    // The program ends before its first active step.
    let early = lab.profiler().schedule(5, 0, 1).run(|p| p.step()).unwrap();
    assert!(early.text().contains("before the schedule's first active step"), "{}", early.text());
    // A cycle that is cut off by the end of the program contains the steps up to that point.
    let cut = lab.profiler().schedule(0, 0, 4).run(|p| p.step()).unwrap();
    assert_eq!((cut.cycles.len(), cut.cycles[0].steps.len()), (1, 1));
    // A step that ends inside a range also ends the range.
    let inside = lab.profiler().schedule(0, 0, 1).run(|p| p.range("r", |p| p.step())).unwrap();
    assert!(inside.cycles[0].ranges[0].duration_us > 0.0);
}

/// Returns a cycle of two steps on a device: a copy and two kernels in ranges, and one kernel outside of any range.
fn recorded() -> Cycle {
    let kernel = ActivityKind::Kernel { grid: [4, 1, 1], block: [128, 1, 1], registers: 32, shared_bytes: 0 };
    let activity = |name: &str, kind: &ActivityKind, start_ns, duration_ns, stream, correlation| Activity {
        name: name.into(),
        kind: kind.clone(),
        start_ns,
        duration_ns,
        stream,
        correlation,
        graph: None,
    };
    let copy = ActivityKind::Copy { bytes: 4000 };
    let activities = [
        activity("copy to the device", &copy, 2_000, 1_000, 7, 1),
        activity("axpy", &kernel, 4_000, 2_000, 7, 2),
        activity("axpy", &kernel, 5_000, 2_000, 8, 2),
        activity("late", &kernel, 10_000, 5_000, 7, 3),
    ];
    let call = |name: &str, start_ns, correlation| Call {
        name: name.into(),
        start_ns,
        duration_ns: 500,
        thread: 11,
        correlation,
    };
    let calls = [
        call("cuptiSetup", 500, 9),
        call("cuMemcpy", 1_500, 1),
        call("cuGraphLaunch", 2_500, 2),
        call("cuLaunchKernel", 3_500, 3),
    ];
    let range = |name: &str, parent, flops| RangeTime {
        name: name.into(),
        parent,
        depth: usize::from(parent.is_some()),
        step: 4,
        start_us: 1.0,
        duration_us: 8.0,
        work: Work { flops, bytes: 0 },
        device_us: 0.0,
        launches: 0,
        allocated_bytes: 0,
    };
    let ranges = BTreeMap::from([(1, 1), (2, 2)]);
    Cycle {
        number: 0,
        first_step: 4,
        source: "CUPTI 130001".into(),
        began_us: 100.0,
        memory: Vec::new(),
        overhead: None,
        counters: Vec::new(),
        operations: None,
        notes: Vec::new(),
        has_device: true,
        allocated_bytes: Some(1 << 20),
        lost: 0,
        whole_us: 20.0,
        steps: vec![StepTime { number: 4, start_us: 0.0, duration_us: 20.0 }],
        work: device_work(&activities, &ranges, Joint { ns: 1_000, us: 0.0 }),
        calls: host_calls(&calls, &ranges, Joint { ns: 1_000, us: 0.0 }),
        ranges: vec![range("step", None, 0), range("load", Some(0), 0), range("multiply", Some(0), 8_000)],
    }
    .with_sums()
}

#[test]
fn the_device_s_work_belongs_to_the_ranges_that_asked_for_it() {
    let cycle = recorded();
    assert_eq!(cycle.work.iter().map(|w| w.range).collect::<Vec<_>>(), [Some(1), Some(2), Some(2), None]);
    let sums: Vec<(f64, u64)> = cycle.ranges.iter().map(|r| (r.device_us, r.launches)).collect();
    assert_eq!(sums, [(5.0, 3), (1.0, 1), (4.0, 2)], "with that of the ranges inside");
    assert_eq!((cycle.work[0].start_us, cycle.work[3].start_us), (1.0, 9.0), "from the cycle's start");
    assert_eq!(cycle.device_us(), 10.0);
    assert_eq!(cycle.busy_us(), 1.0 + 3.0 + 5.0, "what overlaps counts once");
    assert_eq!(
        cycle.calls.iter().map(|c| &*c.name).collect::<Vec<_>>(),
        ["cuMemcpy", "cuGraphLaunch", "cuLaunchKernel"]
    );
}

#[test]
fn tables_begin_with_what_takes_longest() {
    let cycle = recorded();
    let table = cycle.table();
    assert_eq!(table.headers[4], "device, average");
    let column = |t: &warpbook_charts::Table, i: usize| t.rows.iter().map(|r| r[i].clone()).collect::<Vec<_>>();
    assert_eq!(column(&table, 0), ["step", "multiply", "load"]);
    // The kernel does 8000 FLOP in 4 us.
    assert_eq!(table.rows[1][6], warpbook_charts::words::rate(2e9));
    assert_eq!(table.rows[1][5], warpbook_charts::words::percent(0.4));
    assert_eq!(cycle.table_of(1).rows.len(), 1);
    let kernels = cycle.kernels(10);
    assert_eq!(
        kernels.rows[1][5],
        warpbook_charts::words::rate(2e9),
        "the only kernel of a range whose work is known: {kernels:?}"
    );
    assert_eq!(kernels.rows[0][5], "", "in no range");
    assert_eq!(
        (column(&kernels, 0), column(&kernels, 1)),
        (vec!["late".into(), "axpy".into(), "copy to the device".into()], vec!["1".into(), "2".into(), "1".into()])
    );
    assert_eq!(kernels.rows[2][6], warpbook_charts::words::bandwidth(4e9));
    assert_eq!(cycle.driver_calls(2).rows.len(), 2);
    let text = cycle.text();
    assert!(text.contains("CUPTI 13.0.1") && text.contains("multiply") && text.contains("cuGraphLaunch"), "{text}");
}

#[test]
fn ranges_inside_of_one_of_their_name_count_once() {
    let lab = cpu();
    let profile = lab.profile(|p| {
        p.range("a", |p| p.range("b", |p| p.range("a", |_| std::thread::sleep(Duration::from_millis(1)))));
        Ok(())
    });
    let cycle = profile.unwrap().cycles.remove(0);
    let table = cycle.table();
    let row = |name: &str| table.rows.iter().find(|r| r[0] == name).unwrap().clone();
    assert_eq!((row("a")[1].as_str(), row("b")[1].as_str(), table.headers[4].as_str()), ("1", "1", "host, average"));
    assert!(table.rows.iter().all(|r| r[2].is_empty()), "nothing recorded a device: {table:?}");
}

#[test]
fn a_trace_has_every_event_in_its_lane_and_flows_from_calls() {
    let cycle = recorded();
    let folder = tempfile::tempdir().unwrap();
    let path = cycle.save_trace(folder.path().join("trace.json")).unwrap();
    let trace: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let in_phase = |phase: &str| events.iter().filter(|e| e["ph"] == phase).collect::<Vec<_>>();
    assert_eq!(in_phase("X").len(), 1 + 3 + 3 + 4, "steps, ranges, calls and the device's work");
    assert!(in_phase("X").iter().all(|e| e["ts"].as_f64().unwrap() >= 0.0 && e["dur"].as_f64().unwrap() >= 0.0));
    assert_eq!((in_phase("s").len(), in_phase("f").len()), (3, 3), "one for each call that led to something");
    let kernel = in_phase("X").into_iter().find(|e| e["name"] == "late").unwrap();
    assert_eq!(
        (&kernel["cat"], &kernel["args"]["grid"], &kernel["tid"]),
        (&"kernel".into(), &serde_json::json!([4, 1, 1]), &7.into())
    );
    let multiply = in_phase("X").into_iter().filter(|e| e["args"]["range"] == "multiply").count();
    assert_eq!(multiply, 3, "the launch of a graph and its two kernels");
    let refused = cycle.save_trace(folder.path().join("none/trace.json")).unwrap_err();
    assert!(refused.to_string().contains("cannot be written"), "{refused}");
}

#[test]
fn a_record_has_the_timeline_and_the_breakdown_of_each_cycle() {
    let lab = cpu();
    let profile = Profile {
        device: "a GPU".into(),
        cycles: vec![recorded(), Cycle { number: 1, work: Vec::new(), ..recorded() }],
    };
    let run = profile.record(&lab);
    let again = warpbook_record::Run::from_json(run.to_json().unwrap().as_bytes()).unwrap();
    assert_eq!(again.spans.len(), (2 + 4) + 2, "ranges without parts, and the device's work");
    let lanes: Vec<&str> = again.spans[..6].iter().map(|s| &*s.stream).collect();
    assert_eq!(lanes, ["host", "host", "0", "0", "1", "0"]);
    let [breakdown] = &again.breakdowns[..] else { panic!("{:?}", again.breakdowns) };
    let told: Vec<(&str, u64, f64, u64)> =
        breakdown.operations.iter().map(|o| (&*o.name, o.launches, o.samples_us[0], o.flops)).collect();
    assert_eq!(told, [("load", 1, 1.0, 0), ("multiply", 2, 4.0, 8_000), ("late", 1, 5.0, 0)]);
    assert_eq!((breakdown.whole_us[0], breakdown.busy_us[0]), (13.0, 9.0));
    let problem = again.main_problem().unwrap();
    assert!(again.measurements.iter().all(|m| !m.is_valid()), "nothing was checked");
    assert!(warpbook_charts::draw().timeline(&again, problem).unwrap().svg.as_str().contains("multiply"));
}

/// Returns the memory changes of a cycle that starts at `begin`.
fn changes(begin: Instant) -> Vec<warpbook_device::MemoryPoint> {
    let point =
        |us, change, of_pool, [allocated, pool_allocated, pool_reserved]: [u64; 3]| warpbook_device::MemoryPoint {
            at: begin + Duration::from_micros(us),
            change,
            of_pool,
            allocated,
            pool_allocated,
            pool_reserved,
        };
    vec![
        point(0, 0, false, [1000, 0, 0]),
        point(2, 4096, false, [5096, 0, 0]),
        point(3, 512, true, [5096, 512, 4096]),
        point(50, -4096, false, [1000, 0, 0]),
    ]
}

#[test]
fn allocations_are_a_curve_a_column_and_part_of_the_record() {
    let mut cycle = recorded();
    let begin = Instant::now();
    cycle.memory = cycle::memory_changes(&changes(begin), begin, &mut cycle.ranges);
    // All ranges of the sample last from 1 to 9 us; the one that began last is the innermost.
    assert_eq!(cycle.memory.iter().map(|m| m.range).collect::<Vec<_>>(), [None, Some(2), Some(2), None]);
    let allocated: Vec<u64> = cycle.ranges.iter().map(|r| r.allocated_bytes).collect();
    assert_eq!(allocated, [4096, 0, 4096], "with the range around it; what a pool gives asks for nothing");
    let table = cycle.table();
    assert_eq!(
        (table.headers[8].as_str(), table.rows[0][8].as_str()),
        ("allocated", &*warpbook_charts::words::bytes(4096))
    );
    let memory = cycle.memory_table();
    let column = |i: usize| memory.rows.iter().map(|r| r[i].clone()).collect::<Vec<_>>();
    assert_eq!(column(2), [1000, 5096, 1000].map(warpbook_charts::words::bytes));
    assert_eq!(column(4), [0, 4096, 0].map(warpbook_charts::words::bytes));
    let chart = cycle.memory_chart().unwrap();
    let drawn = chart.svg.as_str();
    assert!(["allocated", "reserved by pools", "in use of it"].iter().all(|name| drawn.contains(name)), "{drawn}");
    assert!(
        recorded().memory_chart().is_err() && drawn.contains("4.98 KiB of device memory at most, 1000 B at the end")
    );
    let trace: serde_json::Value = serde_json::from_str(&cycle.chrome_trace()).unwrap();
    let counters: Vec<_> = trace["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "C").collect();
    assert_eq!(counters.len(), 4);
    assert_eq!((&counters[2]["ts"], &counters[2]["args"]["pools in use"]), (&3.0.into(), &512.into()));
    let lab = cpu();
    let run = Profile { device: "a GPU".into(), cycles: vec![cycle] }.record(&lab);
    let again = warpbook_record::Run::from_json(run.to_json().unwrap().as_bytes()).unwrap();
    let profiled = again.profiled_of("program", again.main_problem().unwrap()).unwrap();
    assert_eq!(profiled.memory.iter().map(|m| m.allocated_bytes).collect::<Vec<_>>(), [1000, 5096, 5096, 1000]);
    assert_eq!((profiled.memory[3].at_us, profiled.memory[2].pool_reserved_bytes), (50.0, 4096));
    let copy = again.spans.iter().find(|s| s.name == "copy to the device").unwrap();
    assert_eq!((copy.bytes, copy.correlation, copy.bytes_per_s()), (Some(4000), Some(1), Some(4e9)));
}

/// Returns a step of two ranges timed with events: one on two streams, with a nested range.
fn by_events() -> Cycle {
    let device_work = |range: usize, stream, start_us, duration_us| DeviceWork {
        name: recorded().ranges[range].name.clone(),
        kind: ActivityKind::Range,
        stream,
        correlation: 0,
        graph: None,
        range: Some(range),
        operation: String::new(),
        start_us,
        duration_us,
    };
    let work = vec![
        device_work(0, 0, 1.0, 10.0),
        device_work(1, 0, 1.0, 4.0),
        device_work(2, 0, 5.0, 6.0),
        device_work(2, 1, 7.0, 6.0),
    ];
    let ranges = recorded().ranges.into_iter().map(|r| RangeTime { device_us: 0.0, launches: 0, ..r }).collect();
    Cycle { source: "CUDA events at the ends of each range".into(), work, ranges, calls: Vec::new(), ..recorded() }
        .with_sums()
}

#[test]
fn events_are_counted_once_whether_ranges_are_nested_or_streams_overlap() {
    let cycle = by_events();
    let sums: Vec<f64> = cycle.ranges.iter().map(|r| r.device_us).collect();
    assert_eq!(sums, [10.0, 4.0, 8.0], "the second range works on two streams from 5 to 13");
    assert_eq!((cycle.device_us(), cycle.busy_us()), (12.0, 12.0));
    assert_eq!(cycle.counted_work().count(), 3, "the outer range is those inside of it");
    assert!(cycle.kernels(10).rows.is_empty(), "no kernel is known");
    assert_eq!(cycle.table().rows[1][0], "multiply");
    assert!(cycle.text().contains("CUDA events") && cycle.text().contains("gaps count, too"), "{}", cycle.text());
    let run = Profile { device: "a GPU".into(), cycles: vec![cycle] }.record(&cpu());
    let operations = &run.breakdowns[0].operations;
    assert_eq!(
        operations.iter().map(|o| (&*o.name, o.samples_us[0])).collect::<Vec<_>>(),
        [("load", 4.0), ("multiply", 12.0)]
    );
    assert!(run.spans.iter().all(|s| s.correlation.is_none()));
}

#[test]
fn what_recording_costs_is_measured_by_steps_that_go_by() {
    let lab = cpu();
    let program = |p: &mut Profiler<'_>| {
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(2));
            p.step()?;
        }
        Ok(())
    };
    let profile = lab.profiler().schedule(3, 0, 2).run(program).unwrap();
    let overhead = profile.cycles[0].overhead.unwrap();
    assert_eq!((overhead.unrecorded_steps, overhead.attached_before), (2, false), "the first is left out");
    assert!(overhead.unrecorded_us >= 2000.0 && overhead.recorded_us >= 2000.0, "{overhead:?}");
    let run = profile.record(&lab);
    assert_eq!(run.profiled[0].overhead, Some(overhead));
    assert!(run.notes.iter().any(|n| n.contains("a recorded step took")), "{:?}", run.notes);
    assert!(profile.text().contains("The cost of recording: a recorded step took"), "{}", profile.text());
    // The step before the cycle is the program's first, so the baseline is made of the steps after the cycle, which the
    // cycle's handler cannot know.
    let mut heard = Vec::new();
    let after = lab.profiler().schedule(1, 0, 1).repeat(1).on_cycle(|c| heard.push(c.overhead)).run(program).unwrap();
    assert_eq!((heard, after.cycles[0].overhead.unwrap().unrecorded_steps), (vec![None], 3));
    // One cold and one warm step are not enough for a baseline.
    assert_eq!(lab.profiler().schedule(1, 0, 4).run(program).unwrap().cycles[0].overhead, None);
    assert_eq!(lab.profiler().schedule(2, 0, 3).run(program).unwrap().cycles[0].overhead, None);
    assert_eq!(lab.profiler().schedule(0, 0, 1).run(program).unwrap().cycles[0].overhead, None);
}

#[test]
fn a_slow_first_step_and_noise_are_no_cost_of_recording() {
    let lab = cpu();
    let profile = lab.profiler().schedule(1, 1, 2).repeat(1).run(|p| {
        for step in 0..12 {
            std::thread::sleep(Duration::from_millis(if step == 0 { 40 } else { 2 }));
            p.step()?;
        }
        Ok(())
    });
    let overhead = profile.unwrap().cycles[0].overhead.unwrap();
    assert!(overhead.unrecorded_us < 20_000.0 && overhead.unrecorded_steps == 8, "{overhead:?}");
    let cycle = |recorded_us, noise_us| {
        let overhead = ProfilerOverhead {
            recorded_us,
            unrecorded_us: 100.0,
            unrecorded_steps: 8,
            attached_before: false,
            noise_us,
        };
        Cycle { overhead: Some(overhead), ..recorded() }.overhead_in_words().unwrap()
    };
    assert!(cycle(150.0, 10.0).contains("1.50\u{d7} as long"), "{}", cycle(150.0, 10.0));
    assert!(cycle(105.0, 10.0).contains("not measurable"), "{}", cycle(105.0, 10.0));
    assert!(cycle(65.0, 10.0).contains("not measurable"), "{}", cycle(65.0, 10.0));
}

#[test]
fn cycles_lie_in_one_trace_where_they_were() {
    let cycles = vec![recorded(), Cycle { number: 1, began_us: 500.0, ..recorded() }];
    let profile = Profile { device: "a GPU".into(), cycles };
    let trace: serde_json::Value = serde_json::from_str(&profile.chrome_trace()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let late: Vec<f64> = events.iter().filter(|e| e["name"] == "late").map(|e| e["ts"].as_f64().unwrap()).collect();
    assert_eq!(late, [109.0, 509.0]);
    let lanes = events.iter().filter(|e| e["ph"] == "M").count();
    let of_one: serde_json::Value = serde_json::from_str(&profile.cycles[0].chrome_trace()).unwrap();
    assert_eq!(lanes, of_one["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "M").count());
    let flows: std::collections::BTreeSet<u64> =
        events.iter().filter(|e| e["ph"] == "s").map(|e| e["id"].as_u64().unwrap()).collect();
    assert_eq!(flows.len(), 6, "flows of different cycles are different");
}

#[test]
fn a_range_that_cannot_be_counted_runs_once_and_says_why() {
    let lab = cpu();
    let mut runs = 0;
    let profile = lab.profiler().schedule(1, 0, 2).repeat(1).run(|p| {
        for _ in 0..4 {
            p.range("step", |p| {
                p.counters("multiply", || {
                    runs += 1;
                    Ok(())
                })
            })?;
            p.step()?;
        }
        Ok(())
    });
    let profile = profile.unwrap();
    assert_eq!(runs, 4);
    let cycle = &profile.cycles[0];
    assert_eq!(cycle.ranges.iter().filter(|r| r.name == "multiply" && r.parent.is_some()).count(), 2);
    assert_eq!(cycle.notes, ["No hardware counters of multiply: there is no GPU with counters."]);
    assert!(cycle.text().contains(&cycle.notes[0]) && cycle.counters.is_empty(), "{}", cycle.text());
    assert!(profile.record(&lab).notes.contains(&cycle.notes[0]));
    let failed = lab.profile(|p| p.counters("part", || Err(crate::Error::Setting("no".into()))));
    assert_eq!(failed.unwrap_err().to_string(), "no");
}

#[test]
fn counters_of_a_range_are_a_table_and_are_in_the_record() {
    let value = |metric: &str, value| warpbook_record::CounterValue { metric: metric.into(), value };
    let kernel = warpbook_record::KernelCounters {
        kernel: "axpy".into(),
        grid: vec![4, 1, 1],
        values: vec![value("gpu__time_duration.sum", 2000.0), value("dram__bytes_read.sum", 4096.0)],
    };
    let counters = HardwareCounters { source: "CUPTI 130001".into(), kernels: vec![kernel], notes: Vec::new() };
    let counted = Cycle { counters: vec![RangeCounters { range: Some(2), counters }], ..recorded() };
    let text = counted.text();
    assert!(text.contains("multiply, kernels as counted") && text.contains("4 KiB"), "{text}");
    assert!(text.contains("The kernels of multiply were counted by CUPTI 13.0.1."), "{text}");
    let (lab, cycles) = (cpu(), vec![recorded(), Cycle { number: 1, ..counted }]);
    let profile = Profile { device: "a GPU".into(), cycles };
    let whole = profile.whole().unwrap();
    assert_eq!(whole.counters[0].range, Some(3 + 2), "with the ranges of the cycle before");
    let run = profile.record(&lab);
    assert_eq!(run.profiled.iter().map(|p| p.counters.len()).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn spans_of_the_tracing_crate_are_ranges() {
    let lab = cpu();
    let work = |ms| std::thread::sleep(Duration::from_millis(ms));
    let profile = lab.profiler().schedule(1, 0, 2).repeat(1).run(|p| {
        for _ in 0..4 {
            p.range("batch", |_| {
                let _forward = tracing::trace_span!("forward").entered();
                tracing::trace_span!("forward", operation = "conv1").in_scope(|| work(2));
                tracing::trace_span!("forward", operation = "fc1").in_scope(|| work(1));
            });
            // This span is on a different thread from the program's thread.
            std::thread::scope(|s| s.spawn(|| tracing::trace_span!("elsewhere").in_scope(|| work(1))).join()).unwrap();
            p.step()?;
        }
        Ok(())
    });
    let profile = profile.unwrap();
    let cycle = &profile.cycles[0];
    let found: Vec<_> = cycle.ranges.iter().map(|r| (&*r.name, r.parent, r.depth, r.step)).collect();
    let expected = [
        ("batch", None, 0, 1),
        ("batch", None, 0, 2),
        ("forward", Some(0), 1, 1),
        ("conv1 forward", Some(2), 2, 1),
        ("fc1 forward", Some(2), 2, 1),
        ("forward", Some(1), 1, 2),
        ("conv1 forward", Some(5), 2, 2),
        ("fc1 forward", Some(5), 2, 2),
    ];
    assert_eq!(found, expected);
    assert!(cycle.ranges[3].duration_us >= 2000.0, "{:?}", cycle.ranges[3]);
    let run = profile.record(&lab);
    let operations = &run.breakdowns[0].operations;
    assert_eq!(
        operations.iter().map(|o| (&*o.name, o.launches)).collect::<Vec<_>>(),
        [("conv1 forward", 2), ("fc1 forward", 2)]
    );
    assert!(run.breakdowns[0].busy_us[0] <= run.breakdowns[0].whole_us[0], "{:?}", run.breakdowns);
    assert!(
        tracing::dispatcher::get_default(|d| d.is::<tracing::subscriber::NoSubscriber>()),
        "only while it profiles"
    );
}

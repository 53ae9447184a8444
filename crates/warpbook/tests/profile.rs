//! Tests of a program profiled on a GPU: the device's work belongs to the ranges that queued it.

use std::sync::Mutex;
use warpbook::Trains;
use warpbook::data::synthetic_digits;
use warpbook::device::{Recorder, testing};
use warpbook::gemm::storage::Storage;
use warpbook::gemm::{DeviceArrays, Findings, Plan, Product, Workspace, choose};
use warpbook::kernels::matmul::Form;
use warpbook::nn::train::{CudaOptions, Flow, GradScaler, Place, Precision, Recipe, Trainer};
use warpbook::profile::{Cycle, Work};
use warpbook::record::{Dtype, KernelCounters};
use warpbook::{Error, Lab, Matmul, Regression, Show};

/// A process can have only one recorder at a time.
static ONE: Mutex<()> = Mutex::new(());

/// Opens a lab on a GPU with CUPTI; otherwise notes the test as skipped.
fn lab(test: &str) -> Option<Lab> {
    let device = testing::gpu(test)?;
    match Recorder::find(Some(device.driver_cuda())) {
        Ok(_) => Some(Lab::open("cuda").unwrap()),
        Err(why) => {
            testing::skip(test, "needs CUPTI", why);
            None
        }
    }
}

fn ranges_named<'c>(cycle: &'c Cycle, name: &str) -> Vec<&'c warpbook::profile::RangeTime> {
    cycle.ranges.iter().filter(|r| r.name == name).collect()
}

#[test]
fn fills_and_copies_belong_to_their_ranges() {
    let _one = ONE.lock();
    let Some(lab) = lab("fills_and_copies_belong_to_their_ranges") else { return };
    let device = lab.device().cuda().unwrap().clone();
    let stream = device.stream().unwrap();
    let array = || device.zeros::<f32>(1 << 20).unwrap().range(..);
    let (x, y) = (array(), array());
    let bytes = 2 * x.bytes() as u64;
    let profile = lab
        .profiler()
        .schedule(1, 1, 2)
        .repeat(1)
        .run(|p| {
            for _ in 0..6 {
                p.range("step", |p| {
                    p.range("clear", |_| stream.fill(&y, 0))?;
                    p.range_of("move", Work { flops: 0, bytes }, |_| (0..3).try_for_each(|_| stream.copy(&x, &y)))?;
                    Ok::<_, Error>(stream.fill(&x, 0)?)
                })?;
                p.step()?;
            }
            Ok(())
        })
        .unwrap();
    let [cycle] = &profile.cycles[..] else { panic!("{} cycles", profile.cycles.len()) };
    let told = format!("{cycle:#?}");
    assert!(cycle.source.starts_with("CUPTI") && cycle.first_step == 2 && cycle.steps.len() == 2, "{told}");
    assert_eq!(cycle.lost, 0, "{told}");
    for (name, launches) in [("step", 5), ("clear", 1), ("move", 3)] {
        let all = ranges_named(cycle, name);
        assert_eq!(all.len(), 2, "{told}");
        assert!(all.iter().all(|r| r.launches == launches && r.device_us > 0.0), "{name}: {told}");
    }
    // On any GPU, reading and writing 4 MiB takes between a microsecond and a tenth of a second.
    assert!(cycle.work.iter().all(|w| (0.5..100e3).contains(&w.duration_us)), "{told}");
    assert_eq!(cycle.work.len(), 2 * 5, "{told}");
    assert!(cycle.busy_us() <= cycle.whole_us, "{told}");
    // Each piece of work was queued before it began, by a recorded call; both use the same clock.
    for work in &cycle.work {
        let call = cycle.calls.iter().find(|c| c.correlation == work.correlation);
        let call = call.unwrap_or_else(|| panic!("no call of {work:?}: {told}"));
        assert!(call.start_us <= work.start_us && call.range == work.range, "{call:?} {work:?}");
        let range = &cycle.ranges[work.range.unwrap()];
        assert!(range.start_us <= call.start_us + 50.0, "{range:?} {call:?}");
        assert!(call.start_us <= range.start_us + range.duration_us + 50.0, "{range:?} {call:?}");
    }
    assert!(
        cycle.text().contains("move") && cycle.table().rows.iter().any(|r| r[0] == "move" && !r[7].is_empty()),
        "{}",
        cycle.text()
    );
    let record = profile.record(&lab);
    assert_eq!(record.breakdowns[0].operations.iter().map(|o| o.launches).sum::<u64>(), 10, "{:?}", record.breakdowns);
}

#[test]
fn the_steps_of_a_training_are_profiled() {
    let _one = ONE.lock();
    let Some(lab) = lab("the_steps_of_a_training_are_profiled") else { return };
    let digits = synthetic_digits(256, 32, 1);
    let recipe = Recipe { batch: 64, ..Recipe::mnist() };
    let options = CudaOptions::new(Precision::AmpFp16);
    let place = Place::Cuda(lab.device().cuda().unwrap().clone(), options);
    let mut trainer = Trainer::on(&place, recipe, &digits.train, None).unwrap();
    trainer.prepare_steps(&digits.train).unwrap();
    let profile = lab.profiler().schedule(2, 2, 3).repeat(2).run(|p| {
        for _ in 0..20 {
            p.range("train", |_| trainer.queue_step())?;
            p.step()?;
        }
        Ok(())
    });
    let profile = profile.unwrap();
    assert_eq!(profile.cycles.iter().map(|c| c.first_step).collect::<Vec<_>>(), [4, 11]);
    for cycle in &profile.cycles {
        let all = ranges_named(cycle, "train");
        assert_eq!(all.len(), 3);
        assert!(all.iter().all(|r| r.launches >= 10), "{:?}", cycle.ranges);
        assert!(cycle.calls.iter().any(|c| c.name == "cuGraphLaunch"), "{:?}", cycle.calls);
        let kernels = cycle.kernels(3);
        assert!(kernels.rows.len() == 3 && !cycle.chrome_trace().is_empty(), "{kernels:?}");
    }
    // The training continues as before, without any recording.
    trainer.queue_step().unwrap();
    assert!(trainer.step_outcomes(3).unwrap().iter().all(|o| o.loss.is_finite()));
    drop(Recorder::start(lab.device().cuda().unwrap()).unwrap());
}

/// Tests single kernels, a graph, and a graph with two branches; an evaluation falls into one of the recorded steps.
#[test]
fn the_operations_of_a_training_have_rates() {
    let _one = ONE.lock();
    let Some(lab) = lab("the_operations_of_a_training_have_rates") else { return };
    let digits = synthetic_digits(64 * 6, 64, 1);
    let recipe = Recipe { batch: 64, epochs: 4, steps: Some(20), ..Recipe::mnist() };
    for rung in ["01_direct", "06_amp_fp16", "08_graph_fp16", "09_overlap_fp16"] {
        // No gradient overflows at this scale, so no step is skipped.
        let scaler = GradScaler { init_scale: 1024.0, ..GradScaler::default() };
        let session = lab.train(recipe.clone(), &digits).rung(rung).unwrap();
        let underway = session.change(|options| CudaOptions { scaler, ..options }).start().unwrap();
        let (mut run, profile) = underway.finish_with_profile((3, 6, 4), &mut |_| Flow::Continue).unwrap();
        let [cycle] = &profile.cycles[..] else { panic!("{} cycles", profile.cycles.len()) };
        println!("{rung}: {}", cycle.text());
        let Some(found) = &cycle.operations else { panic!("{rung}: {:?}", cycle.notes) };
        assert!(cycle.notes.is_empty(), "{rung}: {:?}", cycle.notes);
        assert_eq!((found.whole_us.len(), run.trainer().step(), run.error().is_none()), (4, 20, true), "{rung}");
        let told = format!("{rung}: {found:#?}");
        // Every multiplication of a step belongs to an operation, as in a record of steps.
        let whole = recipe.network.training_flops() * 64;
        assert_eq!(found.operations.iter().map(|o| o.flops).sum::<u64>(), whole, "{told}");
        for name in ["conv2 forward", "conv2 weight gradient", "fc1 input gradient", "optimiser"] {
            let o = found.operations.iter().find(|o| o.name == name).unwrap_or_else(|| panic!("no {name}: {told}"));
            let s = o.median_us().unwrap() * 1e-6;
            assert!((1e6..1e14).contains(&(o.bytes as f64 / s)), "{name}: {told}");
            assert!(name == "optimiser" || (1e9..2e15).contains(&(o.flops as f64 / s)), "{name}: {told}");
        }
        let rates = cycle.operations_table(50).rows;
        let conv = rates.iter().find(|r| r[0] == "conv2 forward").unwrap();
        assert!(!conv[5].is_empty() && !conv[6].is_empty(), "{rates:?}");
        let record = profile.record(&lab);
        assert_eq!(record.breakdowns[0].operations.len(), found.operations.len());
        let points =
            warpbook::charts::draw().kernel_roofline(&record, &record.problems[0], None).unwrap().table.rows.len();
        assert!(points >= 6, "{points} points of {rung}");
    }
}

/// While another recorder is active, the profiler cannot record, as without CUPTI.
#[test]
fn events_time_ranges_where_nothing_records() {
    let _one = ONE.lock();
    let Some(lab) = lab("events_time_ranges_where_nothing_records") else { return };
    let device = lab.device().cuda().unwrap().clone();
    let recorder = Recorder::start(&device).unwrap();
    let (stream, x) = (device.stream().unwrap(), device.zeros::<f32>(1 << 24).unwrap().range(..));
    let profile = lab.profiler().schedule(2, 0, 1).repeat(1).run(|p| {
        for _ in 0..4 {
            p.range("outer", |p| {
                p.range("three", |_| (0..3).try_for_each(|_| stream.fill(&x, 0)))?;
                p.range("one", |_| stream.fill(&x, 0))
            })?;
            p.step()?;
        }
        Ok(())
    });
    drop(recorder);
    let profile = profile.unwrap();
    let [cycle] = &profile.cycles[..] else { panic!("{} cycles", profile.cycles.len()) };
    assert!(cycle.source.starts_with("CUDA events") && cycle.source.contains("another recorder"), "{}", cycle.source);
    let us = |name: &str| ranges_named(cycle, name)[0].device_us;
    let told = format!("{cycle:#?}");
    assert_eq!(
        (
            ranges_named(cycle, "three")[0].launches,
            ranges_named(cycle, "one")[0].launches,
            ranges_named(cycle, "outer")[0].launches
        ),
        (3, 1, 4)
    );
    assert!(us("one") > 1.0 && us("three") > us("one"), "{told}");
    assert!(us("outer") >= us("three") && us("outer") <= cycle.whole_us + 50.0, "{told}");
    assert!(cycle.overhead.is_some_and(|o| o.unrecorded_us > 0.0 && o.unrecorded_steps == 2), "{told}");
    let record = profile.record(&lab);
    assert!(record.breakdowns[0].source.starts_with("CUDA events"));
    assert_eq!(record.breakdowns[0].operations.len(), 2, "{:?}", record.breakdowns);
}

#[test]
fn allocations_copies_and_the_cost_of_recording_are_in_the_record() {
    let _one = ONE.lock();
    let Some(lab) = lab("allocations_copies_and_the_cost_of_recording_are_in_the_record") else { return };
    let device = lab.device().cuda().unwrap().clone();
    let (stream, x) = (device.stream().unwrap(), device.zeros::<f32>(1 << 22).unwrap().range(..));
    let profile = lab.profiler().schedule(3, 1, 2).repeat(1).run(|p| {
        for _ in 0..8 {
            p.range("allocate", |_| device.zeros::<f32>(1 << 20).map(drop))?;
            let y = device.zeros::<f32>(1 << 22)?.range(..);
            p.range("copy", |_| stream.copy(&x, &y))?;
            stream.synchronize()?;
            p.step()?;
        }
        Ok(())
    });
    let profile = profile.unwrap();
    let cycle = &profile.cycles[0];
    assert_eq!(
        ranges_named(cycle, "allocate").iter().map(|r| r.allocated_bytes).collect::<Vec<_>>(),
        [4 << 20, 4 << 20]
    );
    let overhead = cycle.overhead.unwrap();
    println!("{overhead:?}");
    assert!(
        overhead.unrecorded_steps == 4 && overhead.ratio().is_none_or(|r| (1.0..100.0).contains(&r)),
        "{overhead:?}"
    );
    let run = profile.record(&lab);
    let profiled = run.profiled_of("program", &run.problems[0]).unwrap();
    assert!(profiled.memory.len() >= 9, "{:?}", profiled.memory);
    let copies: Vec<_> = run.spans.iter().filter(|s| s.operation == "copy").filter(|s| s.stream != "host").collect();
    assert_eq!(copies.len(), 2, "{:?}", run.spans);
    assert!(copies.iter().all(|s| s.bytes == Some(16 << 20) && s.correlation.is_some()), "{copies:?}");
    // 16 MiB are copied at 10 GB/s to 10 TB/s.
    assert!(copies.iter().all(|s| (1e10..1e13).contains(&s.bytes_per_s().unwrap())), "{copies:?}");
    assert!(cycle.chrome_trace().contains("device memory (bytes)"));
}

#[test]
fn rungs_are_profiled_and_counted() {
    let _one = ONE.lock();
    let Some(lab) = lab("rungs_are_profiled_and_counted") else { return };
    let lab = lab.with_bench(warpbook::device::Bench::quick());
    let experiment = Regression::new().points([200_000]).epochs(10).parts(false);
    let measured = lab.run(&experiment).unwrap();
    let profile = lab.profile_rungs(&experiment, &measured).unwrap();
    assert!(profile.cycles.len() >= 4, "{}", profile.cycles.len());
    for cycle in &profile.cycles {
        let names: Vec<&str> = cycle.ranges.iter().map(|r| &*r.name).collect();
        let [name] = names[..] else { panic!("{names:?}") };
        assert!(cycle.ranges[0].device_us > 0.0 && cycle.ranges[0].launches > 0, "{name}: {cycle:#?}");
        assert!(cycle.overhead.is_some_and(|o| o.unrecorded_steps == 2), "{name}");
    }
    let whole = profile.whole().unwrap();
    println!("{}", whole.text());
    assert_eq!(whole.ranges.len(), profile.cycles.len());
    let record = profile.record(&lab);
    let roofline = warpbook::charts::draw().roofline(&record, &record.problems[0]).unwrap();
    assert!(roofline.table.headers[0].contains("kernel"), "{:?}", roofline.table.headers);

    let (counted, notes) = match lab.count_rungs(&experiment, &measured) {
        Ok(found) => found,
        Err(why) => {
            let said = why.to_string();
            assert!(refused(&said), "{said}");
            println!("not counted: {said}");
            return;
        }
    };
    println!("{notes:#?}");
    assert!(counted.len() >= 4, "{notes:?}");
    for rung in &counted {
        println!("{} by {}", rung.rung, rung.source);
        for kernel in &rung.counters {
            let waits: Vec<_> = kernel.stalls().into_iter().take(3).collect();
            println!("  {} {:?} {:?} {waits:?}", kernel.kernel, kernel.grid, kernel.value("gpu__time_duration.sum"));
            assert!(kernel.value("gpu__time_duration.sum").is_some_and(|ns| ns > 0.0), "{}: {kernel:?}", rung.rung);
        }
    }
    // The first rung launches its kernels one by one, so they have names, unless a note gives a reason.
    let unfused = counted.iter().find(|c| c.rung == "01_unfused").unwrap();
    let named = unfused.counters.iter().all(|k| !k.kernel.starts_with("kernel "));
    assert!(named || notes.iter().any(|n| n.starts_with("01_unfused") && n.contains("numbers")), "{notes:?}");
    // If each epoch has its own kernels, two of the ten epochs are launched, and the second one is counted.
    let part =
        notes.iter().find(|n| n.contains("cover only the second of two epochs")).unwrap_or_else(|| panic!("{notes:?}"));
    assert!(part.contains("01_unfused") && !part.contains("05_persistent"), "{part}");
    // A graph may only be countable as a whole.
    assert!(notes.iter().any(|n| n.contains("04_fused_graph") && n.contains("two epochs")), "{notes:?}");
    assert_eq!(unfused.counters.len(), 5, "four kernels and the update: {:?}", unfused.counters);
    let persistent = counted.iter().find(|c| c.rung == "05_persistent").unwrap();
    assert!(
        unfused.source.ends_with("of the second of two epochs")
            && !persistent.source.ends_with("of the second of two epochs")
    );
    let mut run = measured;
    run.profiled.extend(counted);
    assert!(run.text().contains("hardware counters"), "{}", run.text());
    let again = warpbook::record::Run::from_json(run.to_json().unwrap().as_bytes()).unwrap();
    assert_eq!(again.profiled.len(), run.profiled.len());
}

/// Returns true if the error says that the machine forbids reading counters; any other error fails the test.
fn refused(said: &str) -> bool {
    let known = ["ERR_NVGPUCTRPERM", "another process, such as DCGM", "virtual GPU", "CUDA 12.6"];
    known.iter().any(|k| said.contains(k))
}

#[test]
fn a_range_is_counted_within_a_profile() {
    let _one = ONE.lock();
    let Some(lab) = lab("a_range_is_counted_within_a_profile") else { return };
    let device = lab.device().cuda().unwrap().clone();
    let stream = device.stream().unwrap();
    let product = Product::new(512, 512, 512, Form::plain(Dtype::F32));
    let choice = choose(&product, device.info(), &Findings::default()).unwrap();
    let plan = Plan::new(&device, &choice.row, &choice.tile, &product, [true; 2]).unwrap();
    let workspace = Workspace::for_plans(&device, [&plan]).unwrap();
    let matrix = || Storage::zeros(&device, 512 * 512, Dtype::F32).unwrap();
    let (a, b, c) = (matrix(), matrix(), matrix());
    let ran = std::cell::Cell::new(0);
    let multiply = || -> warpbook::Result<()> {
        ran.set(ran.get() + 1);
        Ok(plan.launch_checked(&stream, &DeviceArrays::new(&a, &b, &c), &workspace)?)
    };
    let x = device.zeros::<f32>(1 << 20).unwrap().range(..);
    let begun = std::time::Instant::now();
    let profile = lab.profiler().schedule(0, 1, 2).repeat(1).run(|p| {
        for _ in 0..3 {
            p.range("step", |p| {
                p.range("before", |_| stream.fill(&x, 0))?;
                p.counters("multiply", multiply)?;
                p.range("after", |_| stream.fill(&x, 1))?;
                Ok::<_, Error>(())
            })?;
            p.step()?;
        }
        Ok(())
    });
    let whole_us = begun.elapsed().as_secs_f64() * 1e6;
    let profile = profile.unwrap();
    let [cycle] = &profile.cycles[..] else { panic!("{} cycles", profile.cycles.len()) };
    let told = format!("{cycle:#?}");
    println!("{}", cycle.text());
    // Recordings from before and after the counting belong to their ranges, without the counted runs.
    for (name, least) in [("before", 1), ("multiply", 1), ("after", 1), ("step", 3)] {
        let all = ranges_named(cycle, name);
        assert_eq!(all.len(), 2, "{told}");
        assert!(all.iter().all(|r| r.launches >= least && r.device_us > 0.0), "{name}: {told}");
    }
    let launches: Vec<u64> = ranges_named(cycle, "multiply").iter().map(|r| r.launches).collect();
    assert_eq!(launches[0], launches[1], "{told}");
    assert!(cycle.work.iter().all(|w| w.range.is_some()), "{told}");
    assert!(cycle.work.iter().all(|w| w.start_us + w.duration_us <= cycle.whole_us + 100.0), "{told}");
    assert!(cycle.whole_us <= whole_us, "{told}");
    assert!(cycle.steps.iter().all(|s| s.duration_us <= cycle.whole_us), "{told}");
    let record = profile.record(&lab);
    if cycle.counters.is_empty() {
        let said = cycle.notes.join(" ");
        assert!(refused(&said), "{said}: {told}");
        assert!(record.notes.iter().any(|n| n.contains("No hardware counters of multiply")), "{:?}", record.notes);
        println!("not counted: {said}");
        return;
    }
    // The counted part is listed once, although it ran in both steps and again for the warm-up, for each pass, and for
    // the names.
    let [counted] = &cycle.counters[..] else { panic!("{told}") };
    assert_eq!(counted.range.map(|r| &*cycle.ranges[r].name), Some("multiply"));
    assert!(ran.get() > 3 + 2, "{} runs", ran.get());
    let kernels = &counted.counters.kernels;
    assert!(!kernels.is_empty() && kernels.iter().all(|k| k.value("gpu__time_duration.sum") > Some(0.0)), "{told}");
    const FLOPS: f64 = 2.0 * 512.0 * 512.0 * 512.0;
    let flops: f64 = kernels.iter().filter_map(KernelCounters::flops).map(|f| f.0).sum();
    println!("{flops} of {FLOPS} FLOP counted");
    assert!((0.9..4.0).contains(&(flops / FLOPS)), "{flops}: {kernels:#?}");
    assert!(cycle.text().contains("multiply, kernels as counted"), "{}", cycle.text());
    let profiled = record.profiled_of("program", &record.problems[0]).unwrap();
    assert_eq!(profiled.counters.len(), kernels.len());
    // The recorder still works.
    drop(Recorder::start(&device).unwrap());
}

/// Checks that a chip's counters count a tensor-core multiply-add as two operations.
#[test]
fn the_operations_of_the_tensor_cores_are_counted() {
    let _one = ONE.lock();
    let Some(lab) = lab("the_operations_of_the_tensor_cores_are_counted") else { return };
    let lab = lab.with_bench(warpbook::device::Bench::quick());
    for dtype in [Dtype::F16, Dtype::Bf16, Dtype::Tf32] {
        let experiment = Matmul::new().shapes([(1024, 1024, 1024)]).dtypes([dtype]).transfers(false);
        let measured = lab.run(&experiment).unwrap();
        let (counted, notes) = match lab.count_rungs(&experiment, &measured) {
            Ok(found) => found,
            Err(why) => {
                let said = why.to_string();
                assert!(refused(&said), "{said}");
                println!("not counted: {said}");
                return;
            }
        };
        let problem = measured.main_problem().unwrap().clone();
        let mut found = Vec::new();
        for rung in &counted {
            let sum = |of: &dyn Fn(&KernelCounters) -> Option<f64>| rung.counters.iter().filter_map(of).sum::<f64>();
            let tensor = sum(&|k| k.tensor_flops().map(|f| f.0)) / problem.flops as f64;
            let active = sum(&|k| k.value("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"));
            let types: Vec<_> = rung.counters.iter().filter_map(KernelCounters::tensor_flops).collect();
            println!("{dtype:?} {}: {tensor:.4} of the product's FLOP, pipe {active:.1} %, {types:?}", rung.rung);
            found.push((rung.rung.clone(), tensor, active, types));
        }
        // On an H100, kernels without tensor-core instructions show up to a hundredth of the pipe.
        let on_tensor_cores: Vec<_> = found.iter().filter(|f| f.2 > 2.0).collect();
        assert!(!on_tensor_cores.is_empty(), "{dtype:?}: {notes:?} {found:?}");
        // The sides are multiples of every tile, so no tile computes more than the product; a library may split it
        // differently.
        let ours = on_tensor_cores.iter().filter(|f| f.0.as_bytes()[0].is_ascii_digit());
        for (rung, tensor, ..) in ours {
            assert!((0.99..1.3).contains(tensor), "{dtype:?} {rung}: {tensor} of the product's FLOP: {found:?}");
        }
        let mut run = measured;
        run.profiled.extend(counted);
        let roofline = warpbook::charts::draw().kernel_roofline(&run, &problem, None).unwrap();
        assert!(roofline.table.rows.len() > 2, "{:?}", roofline.table);
    }
}

//! A program profiled on a GPU: what the device did belongs to the ranges that asked for it.

use std::sync::Mutex;
use warpbook::device::{Recorder, testing};
use warpbook::nn::data::synthetic_digits;
use warpbook::nn::train::{CudaOptions, Place, Precision, Recipe, Trainer};
use warpbook::profile::{Cycle, Work};
use warpbook::{Error, Lab, Show};

/// There is one recorder at a time in a process.
static ONE: Mutex<()> = Mutex::new(());

/// A lab on a GPU where CUPTI is.
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

fn of<'c>(cycle: &'c Cycle, name: &str) -> Vec<&'c warpbook::profile::RangeTime> {
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
        let all = of(cycle, name);
        assert_eq!(all.len(), 2, "{told}");
        assert!(all.iter().all(|r| r.launches == launches && r.device_us > 0.0), "{name}: {told}");
    }
    // 4 MiB read and written, on any GPU in more than a microsecond and less than a tenth of a second.
    assert!(cycle.work.iter().all(|w| (0.5..100e3).contains(&w.duration_us)), "{told}");
    assert_eq!(cycle.work.len(), 2 * 5, "{told}");
    assert!(cycle.busy_us() <= cycle.whole_us, "{told}");
    // Each was asked for before it began, by a call that was recorded; the clocks are one.
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
        let all = of(cycle, "train");
        assert_eq!(all.len(), 3);
        assert!(all.iter().all(|r| r.launches >= 10), "{:?}", cycle.ranges);
        assert!(cycle.calls.iter().any(|c| c.name == "cuGraphLaunch"), "{:?}", cycle.calls);
        let kernels = cycle.kernels(3);
        assert!(kernels.rows.len() == 3 && !cycle.chrome_trace().is_empty(), "{kernels:?}");
    }
    // It trains on as it did, and nothing records any more.
    trainer.queue_step().unwrap();
    assert!(trainer.step_outcomes(3).unwrap().iter().all(|o| o.loss.is_finite()));
    drop(Recorder::start(lab.device().cuda().unwrap()).unwrap());
}

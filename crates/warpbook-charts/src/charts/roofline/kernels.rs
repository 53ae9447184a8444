//! The roofline of a profile: each operation of a breakdown whose work is known, and each kernel with counters, is a point.

use super::roofs_and_points;
use crate::draw::{Chart, ChartError, Options};
use crate::record::name;
use std::borrow::Cow;
use warpbook_record::counters::metric::{DRAM, TIME};
use warpbook_record::{
    Check, DeviceKind, Dtype, KernelCounters, Measurement, MemoryLevel, OperationTime, Outcome, Problem, Requires, Run,
    Rung, Runner, Schedule, Traffic,
};

/// Maximum number of points that are made; charts draw fewer.
const MOST: usize = 200;

impl Options {
    /// Draws FLOP/s over FLOP/byte for the profile of a problem. Each point is either an operation of a breakdown whose work is known, with its least bytes, or
    /// a kernel with hardware counters, with its DRAM bytes and counted operations (fp32 and tensor cores). Kernels are left out if they used tensor cores on a
    /// chip that does not count these operations. The points were not checked against a reference. With several rungs, each name begins with the rung's name;
    /// if `rung` is given, only this rung is drawn.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if nothing has both work and bytes, or no ceiling was measured.
    pub fn kernel_roofline(&self, run: &Run, problem: &Problem, rung: Option<&str>) -> Result<Chart, ChartError> {
        let Some(kernels) = as_rungs(run, problem, rung) else {
            return Err(ChartError::NothingToDraw(
                "No operation in the profile has known work: give ranges their work with `range_of`, or record hardware counters for kernels.".into(),
            ));
        };
        let mut roofs = roofs_and_points(self, &kernels, problem)?;
        roofs.noun = "kernel";
        roofs.of_rung = rung.map_or_else(String::new, |id| name(run, id));
        // The roofs depend on the kernels' types here, not on the problem's.
        roofs.dtypes.clear();
        roofs.set_peaks();
        roofs.points.sort_by(|a, b| b.flops_per_s().total_cmp(&a.flops_per_s()));
        roofs.draw()
    }
}

/// Returns the ids of the rungs that have points in [`Options::kernel_roofline`] for a problem, in the record's order.
#[must_use]
pub fn kernel_rungs<'a>(run: &'a Run, problem: &Problem) -> Vec<&'a str> {
    let timed = run.breakdowns.iter().filter(|b| b.problem == *problem && b.operations.iter().any(is_counted));
    let counted =
        run.profiled.iter().filter(|p| p.problem == *problem && p.counters.iter().any(|k| counted(k).is_some()));
    let mut all: Vec<&str> = Vec::new();
    for id in timed.map(|b| &*b.rung).chain(counted.map(|p| &*p.rung)) {
        if !all.contains(&id) {
            all.push(id);
        }
    }
    all.sort_by_cached_key(|id| run.rungs.iter().position(|r| r.id == **id));
    all
}

fn is_counted(o: &OperationTime) -> bool {
    o.flops > 0 && o.bytes > 0
}

/// Returns a record with one rung for each point and no other measurements.
fn as_rungs(run: &Run, problem: &Problem, rung: Option<&str>) -> Option<Run> {
    let is_one = rung.is_some() || kernel_rungs(run, problem).len() < 2;
    let mut made = Run {
        peaks: run.peaks.clone(),
        descriptor: run.descriptor.clone(),
        ..Run::empty(&*run.experiment, &*run.title, run.environment.clone(), run.policy.clone())
    };
    let of_cpu = run.environment.device.kind == DeviceKind::Cpu;
    let mut add =
        |of: &str, kernel: &str, samples_us: Vec<f64>, (flops, dtype): (u64, Option<Dtype>), traffic: Traffic| {
            if made.rungs.len() == MOST {
                return;
            }
            let kernel = if is_one { kernel.to_owned() } else { format!("{}: {kernel}", name(run, of)) };
            // Kernels may share names, so a number makes each id unique.
            let id = format!("{}. {kernel}", made.rungs.len() + 1);
            made.rungs.push(Rung {
                id: id.clone().into(),
                title: Cow::Owned(kernel),
                idea: "".into(),
                requires: if of_cpu { Requires::Nothing } else { Requires::AtLeast(0, 0) },
                runner: Runner::Kernels { specs: Vec::new(), schedule: Schedule::Launches },
                variant_of: None,
            });
            let mut m = Measurement::without_samples(&id, problem.clone(), Outcome::Measured);
            m.samples_total = samples_us.len() as u64;
            (m.samples_us, m.flops, m.dtype) = (samples_us, Some(flops), dtype);
            m.traffic.push(traffic);
            // The chart draws only rungs that passed a check.
            m.check = Some(Check::over("none: it was profiled", [(0.0, 0.0)], 1.0, 0.0));
            made.measurements.push(m);
        };
    let is_wanted = |id: &str| rung.is_none_or(|rung| rung == id);
    for b in run.breakdowns.iter().filter(|b| b.problem == *problem && is_wanted(&b.rung)) {
        for o in b.operations.iter().filter(|o| is_counted(o)) {
            let written = o.written_bytes as f64 / o.bytes as f64;
            let ceiling = run.peaks.ceiling_for(o.bytes, run.environment.device.l2_bytes, written);
            let level = ceiling.map_or(MemoryLevel::Dram, |c| c.level);
            add(&b.rung, &o.name, o.samples_us.clone(), (o.flops, o.dtype), Traffic { level, bytes: o.bytes });
        }
    }
    let of_kernels = run.profiled.iter().filter(|p| p.problem == *problem && is_wanted(&p.rung));
    for (of, k) in of_kernels.flat_map(|p| p.counters.iter().map(|k| (&*p.rung, k))) {
        if let Some((us, (flops, dtype), bytes)) = counted(k) {
            add(of, &k.kernel, vec![us], (flops, Some(dtype)), Traffic { level: MemoryLevel::Dram, bytes });
        }
    }
    (!made.rungs.is_empty()).then_some(made)
}

/// Returns a kernel's time, its operations with their type, and its bytes, if all were counted.
fn counted(kernel: &KernelCounters) -> Option<(f64, (u64, Dtype), u64)> {
    let ((flops, dtype), bytes, us) = (kernel.flops()?, kernel.sum(&DRAM)?, kernel.value(TIME)? / 1e3);
    (flops >= 1.0 && bytes >= 1.0 && us > 0.0).then_some((us, (flops as u64, dtype), bytes as u64))
}

//! Rungs and kernels below the measured roofs of memory and arithmetic.

mod draw;
mod frame;
mod kernels;
mod points;
mod rungs;

pub use kernels::kernel_rungs;
pub use points::{CeilingLine, RoofPoint, RooflinePoints, roofline_points};

use crate::draw::{Axis, ChartError, MAX_ENTRIES, Options, is_narrow};
use crate::record::{arithmetic_name, bound, device, label, name, of_bound, usable, verdict};
use warpbook_record::{Bound, Dtype, LadderRow, Measurement, MemoryLevel, Problem, Run, Runner};

/// Returns the roofs and points of a problem, or an error for the same reasons as [`Options::roofline`].
fn roofs_and_points<'a>(options: &'a Options, run: &'a Run, problem: &'a Problem) -> Result<Roofs<'a>, ChartError> {
    let nothing = |why: String| Err(ChartError::NothingToDraw(why));
    let rows = run.ladder(problem);
    if rows.is_empty() {
        return nothing(format!("The record has no measurement of {}.", label(problem)));
    }
    let roofs = roofs(run, problem);
    if roofs.is_empty() {
        return nothing("No bandwidth of a level of memory was measured for the record, so it has no roofline.".into());
    }
    let mut points = Vec::new();
    let mut uncounted = Vec::new();
    let mut invalid = 0;
    for row in rows.iter().filter(|r| run.on_device(r.measurement)) {
        match point(run, row) {
            Some(p) => points.push(p),
            None if verdict(run, row.measurement).is_err() => invalid += 1,
            None => uncounted.push(name(run, &row.measurement.rung)),
        }
    }
    if points.is_empty() {
        return nothing(format!(
            "No valid rung on {} has counted bytes at {}, so there are no points below its roofs.",
            device(run),
            label(problem)
        ));
    }
    let mut all = Roofs {
        options,
        run,
        problem,
        roofs,
        dtypes: vec![problem.dtype],
        peaks: Vec::new(),
        lower: false,
        points,
        uncounted,
        invalid,
        noun: "rung",
        of_rung: String::new(),
    };
    all.set_peaks();
    Ok(all)
}

/// The measured ceiling of a level of memory.
struct Roof {
    level: MemoryLevel,
    bytes_per_s: f64,
    datasheet: Option<f64>,
}

/// The ceiling of arithmetic on elements of one type.
struct Peak {
    dtype: Dtype,
    flops_per_s: f64,
    datasheet: Option<f64>,
}

struct RooflinePoint<'a> {
    measurement: &'a Measurement,
    us: f64,
    level: MemoryLevel,
    /// Bytes moved at the level `level` of memory.
    bytes: u64,
    bound: Option<(Bound, f64)>,
}

/// Returns the roofs from the fastest to the slowest.
fn roofs(run: &Run, problem: &Problem) -> Vec<Roof> {
    let mut out: Vec<Roof> = Vec::new();
    for level in run.peaks.bandwidth.iter().map(|p| p.level) {
        let Some(p) = run.peaks.level_for(level, problem.written_part()) else { continue };
        let Some(bytes_per_s) = usable(Some(p.bytes_per_s())) else { continue };
        // If a level has two ceilings, the first one is used, as for a bound.
        if out.iter().all(|r| r.level != p.level) {
            out.push(Roof { level: p.level, bytes_per_s, datasheet: usable(p.datasheet_bytes_per_s) });
        }
    }
    out.sort_by(|a, b| b.bytes_per_s.total_cmp(&a.bytes_per_s));
    out.truncate(MAX_ENTRIES);
    out
}

fn peak(run: &Run, dtype: Dtype) -> Option<Peak> {
    let p = run.peaks.compute.iter().find(|p| p.dtype == dtype)?;
    let flops_per_s = usable(Some(p.flops_per_s()))?;
    Some(Peak { dtype, flops_per_s, datasheet: usable(p.datasheet_flops_per_s) })
}

impl Peak {
    fn name(&self) -> String {
        arithmetic_name(self.dtype)
    }
}

/// Makes a point; `None` for a rung without a valid time or counted bytes, and for another framework's rung.
fn point<'a>(run: &Run, row: &LadderRow<'a>) -> Option<RooflinePoint<'a>> {
    let m = row.measurement;
    let us = verdict(run, m).ok()?;
    let elsewhere = matches!(row.rung.map(|r| &r.runner), Some(Runner::External(_) | Runner::Cpu(_)));
    if elsewhere || m.operations() == 0 || run.repeats_a_rung(m) {
        return None;
    }
    let bounded = run.bound(m);
    let most = m.traffic.iter().filter(|t| t.bytes > 0).max_by_key(|t| t.bytes)?.level;
    let level = bounded.and_then(|b| b.level).unwrap_or(most);
    let bytes = m.traffic.iter().find(|t| t.level == level && t.bytes > 0)?.bytes;
    Some(RooflinePoint { measurement: m, us, level, bytes, bound: bound(run, row) })
}

impl RooflinePoint<'_> {
    /// Returns the operations of one GPU, since the roofs are for one GPU.
    fn operations(&self) -> f64 {
        self.measurement.operations() as f64 / f64::from(self.measurement.gpus())
    }

    /// Returns the bytes of one GPU. For the link, these are the bytes of all GPUs, since every GPU waits for them.
    fn bytes(&self) -> f64 {
        let gpus = if self.level == MemoryLevel::Link { 1 } else { self.measurement.gpus() };
        self.bytes as f64 / f64::from(gpus)
    }

    fn intensity(&self) -> f64 {
        self.operations() / self.bytes()
    }

    fn flops_per_s(&self) -> f64 {
        self.operations() / (self.us * 1e-6)
    }

    /// Returns the share of the point's bound, such as "62 % of the shared memory limit".
    fn of_bound(&self) -> Option<String> {
        self.bound.map(|(b, f)| of_bound(&b, self.measurement.arithmetic_type(), f))
    }
}

struct Roofs<'a> {
    options: &'a Options,
    run: &'a Run,
    problem: &'a Problem,
    roofs: Vec<Roof>,
    /// Types of the arithmetic's elements.
    dtypes: Vec<Dtype>,
    /// Measured peaks of these types, the highest first; the roofs of memory end at the highest.
    peaks: Vec<Peak>,
    /// True if `peaks` also has the lower peak of fp32, which some rungs use instead of tensor cores.
    lower: bool,
    points: Vec<RooflinePoint<'a>>,
    /// Titles of the valid rungs whose bytes were not counted.
    uncounted: Vec<String>,
    invalid: usize,
    /// The noun for a point: "rung" or "kernel".
    noun: &'static str,
    /// The rung that all points belong to; empty if the points are rungs.
    of_rung: String,
}

impl Roofs<'_> {
    /// Adds the types of the points, and the peaks of all types.
    fn set_peaks(&mut self) {
        for dtype in self.points.iter().map(|p| p.measurement.arithmetic_type()) {
            if !self.dtypes.contains(&dtype) {
                self.dtypes.push(dtype);
            }
        }
        self.peaks = self.dtypes.iter().filter_map(|dtype| peak(self.run, *dtype)).collect();
        let highest = self.peaks.iter().map(|p| p.flops_per_s).fold(0.0, f64::max);
        let fp32 = peak(self.run, Dtype::F32).filter(|_| !self.dtypes.contains(&Dtype::F32));
        let fp32 = fp32.filter(|p| self.peaks.is_empty() || p.flops_per_s < highest);
        self.lower = fp32.is_some();
        self.peaks.extend(fp32);
        self.peaks.sort_by(|a, b| b.flops_per_s.total_cmp(&a.flops_per_s));
    }

    fn axes(&self) -> (Axis, Axis) {
        let xs: Vec<f64> = self.points.iter().map(RooflinePoint::intensity).collect();
        let ys: Vec<f64> = self.points.iter().map(RooflinePoint::flops_per_s).collect();
        let low = |v: &[f64]| v.iter().copied().fold(f64::INFINITY, f64::min);
        let high = |v: &[f64]| v.iter().copied().fold(0.0, f64::max);
        let (mut left, mut right) = (low(&xs) / 1.8, high(&xs) * 10.0);
        let top = match self.peaks.first() {
            Some(p) => {
                let ridges: Vec<f64> = self.roofs.iter().map(|r| p.flops_per_s / r.bytes_per_s).collect();
                // Leaves room for a piece of the steepest roof, and for the peak of arithmetic to the right of the
                // flattest roof.
                (left, right) = (left.min(low(&ridges) / 7.0), right.max(high(&ridges) * 4.0));
                p.flops_per_s.max(high(&ys)) * 1.6
            }
            None => self.roofs.iter().map(|r| r.bytes_per_s * right).fold(high(&ys), f64::max),
        };
        let bottom = self.peaks.iter().skip(1).map(|p| p.flops_per_s * 0.7).fold(low(&ys) / 2.0, f64::min);
        let (x, y) = (Axis::log([left, right], 0.0), Axis::log([bottom, top], 0.0));
        let ticks = if is_narrow(self.options.px()) { 4 } else { 7 };
        match self.options.window {
            Some(w) => (x.between(w.x).with_ticks(ticks), y.between(w.y).with_ticks(7)),
            None => (x.with_ticks(ticks), y.with_ticks(7)),
        }
    }
}

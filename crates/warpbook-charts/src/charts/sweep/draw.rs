//! Drawing of a sweep's lines, guides and axes.

use super::frame::axis_caption;
use super::look::{dashed_look, look};
use super::{Line, Sweep};
use crate::draw::text;
use crate::draw::text::words::{bandwidth, count, rate, whole};
use crate::draw::{
    Axis, Chart, ChartError, Font, GREY, Guide, LOG_FROM, Lines, MAX_ENTRIES, MarkData, Marker, Paint, Series, Stroke,
    shared_samples,
};
use crate::record::{RunnerKind, arithmetic_name, device, name, of_gpus, usable};
use warpbook_record::{MemoryLevel, Problem, Quantity, Run};

/// Maximum number of guides; more would hide the lines.
const MAX_GUIDES: usize = 8;

impl Sweep<'_> {
    /// Makes the lines. Colours show the rungs' kinds; each rung has its own tone and marker. Dashes distinguish
    /// records, and mark rungs that are not kernels of the ladder.
    fn series(&self) -> Vec<Series> {
        let out_standing = self.standing_out();
        let shown: Vec<&Line<'_>> = self.lines.iter().take(MAX_ENTRIES).collect();
        let mut rungs: Vec<(RunnerKind, &str)> = Vec::new();
        let mut out = Vec::new();
        for line in shown {
            let run = self.runs[line.run];
            let kind = RunnerKind::of_rung(run, line.rung);
            let is_rest = !out_standing.contains(&line.rung);
            if !is_rest && !rungs.contains(&(kind, line.rung)) {
                rungs.push((kind, line.rung));
            }
            let number = rungs.iter().filter(|r| r.0 == kind).position(|r| r.1 == line.rung).unwrap_or(0);
            let name = name(run, line.rung);
            let label = if self.runs.len() > 1 { vec![name, self.tags[line.run].clone()] } else { vec![name] };
            let (stroke, marker) = match kind {
                _ if is_rest => (Stroke::new(Paint::faded(GREY, 0.45), 1.0), Marker::Dot),
                RunnerKind::Kernels => look(number, line.run, kind.tones()),
                _ => dashed_look(number, line.run, kind.tones()),
            };
            let mut each: Vec<MarkData> = line.points.iter().map(|(_, m, us)| self.data(run, m, *us)).collect();
            out.push(Series {
                label,
                names: 1,
                points: line.points.iter().map(|(x, m, us)| (*x, self.value_of(run, m, *us))).collect(),
                stroke,
                marker: Some(marker),
                scattered: false,
                apart: self.apart(line),
                is_rest,
                broken: None,
                data: MarkData {
                    rung: line.rung.to_owned(),
                    samples: shared_samples(&mut each),
                    ..MarkData::default()
                },
                each,
            });
        }
        out
    }

    /// Returns the guides. One is the time of the operations at the measured peak of arithmetic; it is drawn for
    /// FLOP/s, and for other quantities if it bounds the work at some size. The others are the times to move the
    /// problem's least bytes at each measured level of memory, at the sizes that fit into that level. Guides that would
    /// be curved on the chart are left out.
    fn guides(&self) -> Vec<Guide> {
        let problems = self.problems();
        let mut out = Vec::new();
        if !self.measure.is_timed() {
            return out;
        }
        for (i, run) in self.runs.iter().enumerate() {
            // Records of the same device share its ceilings, which are drawn once.
            if self.runs[..i].iter().any(|r| device(r) == device(run)) {
                continue;
            }
            let owner = if self.devices_differ() { format!(" of {}", self.tags[i]) } else { String::new() };
            let owner = text::elide(&owner, 110.0, Font::SMALL.size, false);
            let mut add = |name: String, us: &dyn Fn(&Problem) -> Option<f64>| {
                let points =
                    problems.iter().filter_map(|p| Some((p.size() as f64, self.value(run, p, usable(us(p))?))));
                let points: Vec<(f64, f64)> = points.collect();
                if let ([first, .., last], true) = (points.as_slice(), out.len() < MAX_GUIDES)
                    && self.is_straight(&points)
                {
                    out.push(Guide { name, ends: [*first, *last] });
                }
            };
            let bounds = |p: &&Problem| run.least_time(p).is_some_and(|b| b.level.is_none());
            let arithmetic = run.arithmetic(self.main);
            let gpus = run.gpus_at(self.main);
            let all = |one: f64| usable(Some(one * f64::from(gpus)));
            if let Some((peak, dtype)) = arithmetic.and_then(|p| Some((all(p.flops_per_s())?, p.dtype)))
                && (self.measure.quantity == Quantity::Throughput || problems.iter().any(bounds))
            {
                let name = format!("{}{}{owner}: {}", arithmetic_name(dtype), of_gpus(gpus), rate(peak));
                add(name, &|p| Some(p.flops as f64 / peak * 1e6));
            }
            for &level in &run.descriptor.levels {
                let peak = run.peaks.level_for(level, self.main.written_part());
                let Some(rate) = peak.and_then(|p| all(p.bytes_per_s())) else { continue };
                let level_name = level.label_on(run.environment.device.kind);
                let name = format!("{level_name}{}{owner}: {}", of_gpus(gpus), bandwidth(rate));
                add(name, &|p| holds(run, level, p).then(|| p.bytes as f64 / rate * 1e6));
            }
        }
        out
    }

    /// Returns true if a guide is a straight line: if both axes are logarithmic, as for times, or if the guide is
    /// horizontal. The axis of other quantities may be linear.
    fn is_straight(&self, points: &[(f64, f64)]) -> bool {
        let ([(x0, y0), .., (x1, y1)], over) = (points, self.measure.quantity) else { return false };
        points.iter().all(|(x, y)| {
            let along = (x / x0).ln() / (x1 / x0).ln();
            let on_line = if over == Quantity::Time { y0 * (y1 / y0).powf(along) } else { *y0 };
            (y / on_line - 1.0).abs() <= 0.1
        })
    }

    /// Returns true if a linear axis would squeeze the ceilings or the lower values into its lowest part.
    fn is_far(&self, values: &[f64], guides: &[Guide]) -> bool {
        let far_above = |ceiling: f64| ceiling > 0.0 && high(values) > 4.0 * ceiling;
        match self.measure.quantity {
            Quantity::Time => true,
            Quantity::Throughput => far_above(guides.iter().map(|g| g.ends[0].1).fold(0.0, f64::max)),
            Quantity::Bandwidth => {
                let written = self.main.written_part();
                let bandwidth_of = |run: &Run, l| {
                    run.peaks.level_for(l, written).map_or(0.0, warpbook_record::BandwidthPeak::bytes_per_s)
                };
                let levels = [MemoryLevel::Dram, MemoryLevel::L2];
                far_above(self.runs.iter().flat_map(|r| levels.map(|l| bandwidth_of(r, l))).fold(0.0, f64::max))
            }
            Quantity::SpeedUp | Quantity::ItemRate | Quantity::PeakMemory => {
                high(values) > LOG_FROM * values.iter().copied().fold(f64::INFINITY, f64::min)
            }
        }
    }

    pub(super) fn devices_differ(&self) -> bool {
        self.runs.iter().any(|r| device(r) != device(self.runs[0]))
    }

    /// Returns the vertical axis, whether it is logarithmic, and the largest value that it must show.
    fn y_axis(&self, series: &[Series], guides: &[Guide]) -> (Axis, bool, f64) {
        let ys: Vec<f64> = series.iter().flat_map(|s| &s.points).map(|p| p.1).collect();
        let over_time = self.measure.quantity == Quantity::Time;
        // The axis includes the guides of DRAM and L2, unless they are far from all lines.
        let held = guides.iter().map(|g| g.ends[0].1).filter(|v| !over_time && *v < 4.0 * high(&ys));
        let all: Vec<f64> = ys.iter().copied().chain(held).collect();
        let log = self.is_far(&ys, guides);
        let y = match log {
            // The axis extends part of the way to the guides, without squeezing a line into a corner.
            true if !self.measure.is_timed() => Axis::doubling(all.iter().copied(), 0.08),
            false if !self.measure.is_timed() => Axis::from_zero([high(&all) * 1.04]).binary(),
            true if over_time => Axis::log(ys.iter().copied().chain(low_guide(guides, &ys)), 0.08),
            true => Axis::log(all.iter().copied(), 0.08),
            false => Axis::from_zero([high(&all) * 1.04]),
        };
        let y = match self.options.window {
            Some(w) => y.between(w.y),
            None => y,
        };
        (y, log, high(&all))
    }

    pub(super) fn draw(self) -> Result<Chart, ChartError> {
        let (series, guides) = (self.series(), self.guides());
        let axis = &self.runs[0].descriptor.axis;
        let xs = self.points().map(|p| p.0);
        let x = if axis.doubling { Axis::doubling(xs, 0.03) } else { Axis::log(xs, 0.06) };
        let (y, log, highest) = self.y_axis(&series, &guides);
        let (caption, y_tick) = self.measure.axis(highest, log);
        let x = match self.options.window {
            Some(w) => x.between(w.x),
            None => x,
        };
        let frame = self.frame(&series, guides.iter().filter(|g| g.is_seen(&x, &y)), log);
        let relative = match self.measure.quantity {
            Quantity::SpeedUp => format!(" over {}", self.baseline_name()),
            _ => String::new(),
        };
        let direction = if self.measure.less_is_better() { "lower" } else { "higher" };
        let scale = if log { "; logarithmic scale" } else { "" };
        Lines {
            series,
            guides,
            zoom: true,
            x,
            y,
            x_tick: if axis.doubling { whole } else { count },
            y_tick,
            x_caption: format!("{}; logarithmic scale", axis_caption(self.runs[0])),
            y_caption: format!("{caption}{relative}, {direction} is better{scale}"),
            frame,
        }
        .draw()
    }
}

/// Returns the shortest time of the slowest guide, or a quarter of the shortest time of the lines if that is longer.
fn low_guide(guides: &[Guide], values: &[f64]) -> Option<f64> {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    Some(guides.first()?.ends[0].1.max(low / 4.0))
}

fn high(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// Returns true if a level of memory is large enough for the bytes that a problem reads in each pass. The registers and shared memory
/// of all SMs count together.
fn holds(run: &Run, level: MemoryLevel, problem: &Problem) -> bool {
    let device = &run.environment.device;
    match level {
        MemoryLevel::Dram => true,
        MemoryLevel::L2 => run.ceiling(problem).is_some_and(|c| c.level == level),
        _ => {
            let registers = device.registers_per_multiprocessor.map(|n| n.saturating_mul(4));
            let each = device.shared_bytes_per_multiprocessor.zip(registers).map(|(a, b)| a.saturating_add(b));
            let all = each.map(|b| b.saturating_mul(u64::from(device.multiprocessors)));
            all.is_none_or(|b| problem.working_set_bytes <= b)
        }
    }
}

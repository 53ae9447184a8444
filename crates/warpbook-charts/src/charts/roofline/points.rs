//! The roofline of a problem as points in a plane, for pages that animate a rung's point along the ladder.

use super::{RooflinePoint, Roofs, roofs_and_points};
use crate::draw::text::words::{bandwidth, rate, significant};
use crate::draw::{Area, MAX_ENTRIES, Options, Xy};
use crate::record::name;
use warpbook_record::{MemoryLevel, Problem, Run};

/// A measured ceiling.
#[derive(Debug, Clone, PartialEq)]
pub struct CeilingLine {
    /// Label, such as "DRAM: 4521 GB/s".
    pub label: String,
    /// Level of memory; `None` for arithmetic.
    pub level: Option<MemoryLevel>,
    /// Left end of the line.
    pub from: (f64, f64),
    /// Right end of the line.
    pub to: (f64, f64),
}

/// A rung as a point.
#[derive(Debug, Clone, PartialEq)]
pub struct RoofPoint {
    /// Id of the rung.
    pub rung: String,
    /// Position of the point in the plane.
    pub at: (f64, f64),
    /// Description, such as "Fused at 5.1 TFLOP/s and 0.5 FLOP/byte of L2".
    pub sentence: String,
}

/// Lines and points of a roofline, made by [`roofline_points`].
#[derive(Debug, Clone, PartialEq)]
pub struct RooflinePoints {
    /// Ceilings of arithmetic, then of memory from the fastest level to the slowest.
    pub lines: Vec<CeilingLine>,
    /// Rungs in the ladder's order.
    pub points: Vec<RoofPoint>,
}

/// Returns the ceilings and points of [`Options::roofline`] in a plane of the given width and height, measured from the
/// upper left corner. Both axes are logarithmic and the same for all rungs of the problem. Returns `None` if there is
/// nothing to draw.
#[must_use]
pub fn roofline_points(run: &Run, problem: &Problem, (width, height): (f64, f64)) -> Option<RooflinePoints> {
    let options = Options::default();
    let drawn = roofs_and_points(&options, run, problem).ok()?;
    let (x, y) = drawn.axes();
    let plane = Area { left: 0.0, right: width, top: 0.0, bottom: height };
    let place = |(a, b): Xy| (x.place_beyond(a, 0.0, width), y.place_beyond(b, height, 0.0));
    let mut lines = Vec::new();
    let mut add = |label: String, level, ends: (Xy, Xy)| {
        let seen = plane.clip((place(ends.0), place(ends.1)));
        lines.extend(seen.map(|(from, to)| CeilingLine { label, level, from, to }));
    };
    for peak in &drawn.peaks {
        let begin = drawn.roofs.first().map_or(x.low(), |r| peak.flops_per_s / r.bytes_per_s);
        let label = format!("{}: {}", peak.name(), rate(peak.flops_per_s));
        add(label, None, ((begin, peak.flops_per_s), (x.high(), peak.flops_per_s)));
    }
    for roof in &drawn.roofs {
        let end = drawn.peaks.first().map_or(x.high(), |p| p.flops_per_s / roof.bytes_per_s);
        let begin = x.low().min(end) / 10.0;
        let label = format!("{}: {}", roof.level.label(), bandwidth(roof.bytes_per_s));
        add(label, Some(roof.level), ((begin, begin * roof.bytes_per_s), (end, end * roof.bytes_per_s)));
    }
    let points = drawn.points.iter().take(4 * MAX_ENTRIES).map(|p| {
        let (a, b) = place((p.intensity(), p.flops_per_s()));
        let at = (a.clamp(0.0, width), b.clamp(0.0, height));
        RoofPoint { rung: p.measurement.rung.clone(), at, sentence: sentence(&drawn, p) }
    });
    Some(RooflinePoints { points: points.collect(), lines })
}

fn sentence(drawn: &Roofs<'_>, p: &RooflinePoint<'_>) -> String {
    let (intensity, level) = (significant(p.intensity(), 3), p.level.label());
    let name = name(drawn.run, &p.measurement.rung);
    format!("{name} at {} and {intensity} FLOP/byte of {level}", rate(p.flops_per_s()))
}

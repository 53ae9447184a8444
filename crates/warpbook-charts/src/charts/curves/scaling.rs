//! Charts of scaling to several devices: throughput and efficiency over the number of devices.

use crate::charts::curves::{Curve, Scale};
use crate::draw::{Chart, ChartError, Options};
use crate::record::{heading, names, usable};
use warpbook_record::{Measurement, Run};

/// Name of the line of perfect scaling, which starts at the fastest rung on one device.
const IDEAL: &str = "perfect scaling";

/// Returns the measurements along the named line of the record's sweep, in which sizes are numbers of devices.
fn of_line<'a>(run: &'a Run, line: &str) -> Vec<&'a Measurement> {
    let is_on = |m: &&Measurement| m.problem.sweep.as_ref().is_some_and(|s| s.line == line) && run.is_sound(m);
    run.measurements.iter().filter(is_on).collect()
}

/// Makes a curve for each rung, which shows a figure over the number of devices.
fn by_rung(run: &Run, line: &str, figure: impl Fn(&Measurement) -> Option<f64>) -> Vec<Curve> {
    let all = of_line(run, line);
    let points = |id: &str| {
        let of_rung = all.iter().filter(|m| m.rung == id);
        of_rung.filter_map(|m| Some((m.problem.size() as f64, usable(figure(m))?))).collect::<Vec<_>>()
    };
    let curve = |id: &str| Curve::new(names(run, id).0, points(id));
    run.rungs.iter().map(|r| curve(&r.id)).filter(|c| !c.points.is_empty()).collect()
}

fn caption(run: &Run) -> String {
    let caption = &run.descriptor.axis.caption;
    if caption.is_empty() { "devices".into() } else { caption.clone() }
}

impl Options {
    /// Draws items per second over the number of devices, for one line of the record's sweep. An additional line shows perfect scaling of the fastest rung on
    /// one device.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if nothing was measured on that line.
    pub fn scaling_throughput(&self, run: &Run, line: &str) -> Result<Chart, ChartError> {
        let highest = of_line(run, line).iter().filter_map(|m| m.items_per_s()).fold(0.0, f64::max);
        let (unit, name) = if highest >= 1e6 { (1e6, "million") } else { (1e3, "thousand") };
        let mut all = by_rung(run, line, |m| Some(m.items_per_s()? / unit));
        let mut sizes: Vec<f64> = all.iter().flat_map(|c| c.points.iter().map(|p| p.0)).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        let alone = all.iter().flat_map(|c| &c.points).filter(|p| p.0 == 1.0).map(|p| p.1).fold(0.0, f64::max);
        if alone > 0.0 && sizes.len() > 1 {
            // The line has a point at every number of devices, since proportional growth is not straight on a logarithmic axis of devices.
            all.push(Curve::new(IDEAL, sizes.into_iter().map(|n| (n, n * alone))));
        }
        let item = if run.descriptor.item.is_empty() { "items" } else { &run.descriptor.item };
        let title = format!("{}: throughput", heading(run));
        self.curves(
            [&title, line],
            (&caption(run), Scale::Doubling),
            (&format!("{name} {item} a second"), Scale::FromZero),
            &all,
        )
    }

    /// Draws the scaling efficiency over the number of devices, for one line of the record's sweep: [`Run::scaling_efficiency`] in percent.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if nothing was measured on that line on one device.
    pub fn scaling_efficiency(&self, run: &Run, line: &str) -> Result<Chart, ChartError> {
        let all = by_rung(run, line, |m| run.scaling_efficiency(m).map(|e| 100.0 * e));
        let title = format!("{}: scaling efficiency", heading(run));
        let y = ("% of linear scaling", Scale::FromZero);
        self.curves([&title, line], (&caption(run), Scale::Doubling), y, &all)
    }
}

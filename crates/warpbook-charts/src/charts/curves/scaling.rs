//! Charts of scaling to several devices: throughput and efficiency over the number of devices.

use crate::charts::curves::{Curve, Scale};
use crate::draw::text::words::{counted, number, percent, times};
use crate::draw::{Chart, ChartError, Options};
use crate::record::{heading, joined, names, usable};
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
        let (scale, name) = if highest >= 1e6 { (1e6, "million") } else { (1e3, "thousand") };
        let mut all = by_rung(run, line, |m| Some(m.items_per_s()? / scale));
        let mut sizes: Vec<f64> = all.iter().flat_map(|c| c.points.iter().map(|p| p.0)).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        let item = if run.descriptor.item.is_empty() { "items" } else { &run.descriptor.item };
        let unit = format!("{name} {item} a second");
        let topic = format!("{}: throughput", heading(run));
        let title = throughput_claim(&all, &caption(run), &unit).unwrap_or_else(|| topic.clone());
        let alone = all.iter().flat_map(|c| &c.points).filter(|p| p.0 == 1.0).map(|p| p.1).fold(0.0, f64::max);
        if alone > 0.0 && sizes.len() > 1 {
            // The line has a point at every number of devices, since proportional growth is not straight on a logarithmic axis of devices.
            all.push(Curve::new(IDEAL, sizes.into_iter().map(|n| (n, n * alone))));
        }
        let subtitle = joined([topic.as_str(), line]);
        self.curves([&title, &subtitle], (&caption(run), Scale::Doubling), (&unit, Scale::FromZero), &all)
    }

    /// Draws the scaling efficiency over the number of devices, for one line of the record's sweep: [`Run::scaling_efficiency`] in percent.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if nothing was measured on that line on one device.
    pub fn scaling_efficiency(&self, run: &Run, line: &str) -> Result<Chart, ChartError> {
        let all = by_rung(run, line, |m| run.scaling_efficiency(m).map(|e| 100.0 * e));
        let topic = format!("{}: scaling efficiency", heading(run));
        let title = efficiency_claim(&all, &caption(run)).unwrap_or_else(|| topic.clone());
        let subtitle = joined([topic.as_str(), line]);
        let y = ("% of linear scaling", Scale::FromZero);
        self.curves([&title, &subtitle], (&caption(run), Scale::Doubling), y, &all)
    }
}

/// Returns the line with the highest value at the largest number of devices, that number and the value.
fn widest(all: &[Curve]) -> Option<(&Curve, f64, f64)> {
    let points = all.iter().flat_map(|c| c.points.iter().map(move |p| (c, p.0, p.1)));
    points.max_by(|a, b| a.1.total_cmp(&b.1).then(a.2.total_cmp(&b.2)))
}

/// Counts devices with the noun of the axis, such as "4 ranks".
fn devices(n: f64, caption: &str) -> String {
    counted(n as usize, caption.strip_suffix('s').unwrap_or(caption))
}

/// Returns the finding: how much faster the fastest rung is on the most devices than on one, or its rate if one of the
/// two is missing.
fn throughput_claim(all: &[Curve], caption: &str, unit: &str) -> Option<String> {
    let (line, n, rate) = widest(all)?;
    let (name, many) = (&line.name, devices(n, caption));
    let alone = line.points.iter().find(|p| p.0 == 1.0 && n > 1.0 && p.1 > 0.0);
    Some(match alone {
        Some((_, alone)) => format!("“{name}” on {many} is {} as fast as on one", times(rate / alone)),
        None => format!("“{name}” reaches {} {unit} on {many}", number(rate)),
    })
}

/// Returns the finding: the highest efficiency on the most devices; `None` if there is only one device.
fn efficiency_claim(all: &[Curve], caption: &str) -> Option<String> {
    let (line, n, share) = widest(all).filter(|widest| widest.1 > 1.0)?;
    Some(format!("“{}” reaches {} of linear scaling on {}", line.name, percent(share / 100.0), devices(n, caption)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_say_what_the_most_devices_gain() {
        let all = [Curve::new("A", [(1.0, 2.0), (4.0, 6.4)]), Curve::new("B", [(1.0, 3.0), (4.0, 6.0)])];
        let throughput = |all: &[Curve]| throughput_claim(all, "ranks", "thousand images a second");
        assert_eq!(throughput(&all).unwrap(), "“A” on 4 ranks is 3.20× as fast as on one");
        let reaches = |n: &str| Some(format!("“A” reaches 6.40 thousand images a second on {n}"));
        assert_eq!(throughput(&[Curve::new("A", [(1.0, 6.4)])]), reaches("1 rank"));
        assert_eq!(throughput(&[Curve::new("A", [(2.0, 1.0), (4.0, 6.4)])]), reaches("4 ranks"));
        assert_eq!(throughput(&[Curve::new("A", [])]), None);
        let efficiency = |points: &[(f64, f64)]| efficiency_claim(&[Curve::new("A", points.iter().copied())], "GPUs");
        assert_eq!(efficiency(&[(1.0, 100.0), (4.0, 80.0)]).unwrap(), "“A” reaches 80 % of linear scaling on 4 GPUs");
        assert_eq!((efficiency(&[(1.0, 100.0)]), efficiency(&[])), (None, None));
    }
}

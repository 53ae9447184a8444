//! Chart of the bandwidth of a link between GPUs over the size of a transfer.

use crate::charts::curves::{Curve, Scale};
use crate::draw::text::words::{memory, number, sentence_case};
use crate::draw::{Chart, ChartError, Options};
use crate::record::{device, heading, joined};
use warpbook_record::{LinkCurve, Run};

impl Options {
    /// Draws the bandwidth of the link between the GPUs of a run over the bytes of a transfer, with a line for each kind of transfer: copies in one direction,
    /// copies in both directions at once, and the bus bandwidth of all-reduces.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if no link was measured for the record.
    pub fn link_bandwidth(&self, run: &Run) -> Result<Chart, ChartError> {
        if run.peaks.links.is_empty() {
            return Err(ChartError::NothingToDraw("No link between GPUs was measured for the record.".into()));
        }
        let line = |link: &LinkCurve| {
            let rates = link.points.iter().filter_map(|p| Some((p.bytes as f64 / 1024.0, link.bytes_per_s(p)? / 1e9)));
            Curve::new(link.transfer.label(), rates)
        };
        let all: Vec<Curve> = run.peaks.links.iter().map(line).collect();
        let gpus = run.peaks.links.iter().map(|l| l.gpus).max().unwrap_or(0);
        let topic = format!("{}: bandwidth of the link between the GPUs", heading(run));
        let title = claim(&all).unwrap_or_else(|| topic.clone());
        let subtitle = joined([topic, device(run), format!("{gpus} GPUs"), "medians".into()]);
        self.curves([&title, &subtitle], ("KiB of a transfer", Scale::Doubling), ("GB/s", Scale::Log), &all)
    }
}

/// Returns the finding about the first kind of transfer that has points: its highest bandwidth, and the size from which
/// on it reaches half of that.
fn claim(all: &[Curve]) -> Option<String> {
    let line = all.iter().find(|line| line.points.iter().any(|p| p.1 > 0.0))?;
    let mut points = line.points.clone();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let most = points.iter().map(|p| p.1).fold(0.0, f64::max);
    let below = points.iter().rposition(|p| p.1 < most / 2.0);
    let from = below.and_then(|at| points.get(at + 1)).map(|p| p.0 * 1024.0);
    let half = from.map_or(String::new(), |bytes| format!(", half of that from {} on", memory(bytes)));
    Some(format!("{}: up to {} GB/s{half}", sentence_case(&line.name), number(most)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_has_the_highest_bandwidth_and_the_size_for_half_of_it() {
        let check = |points: &[(f64, f64)], expect: Option<&str>| {
            let all = [Curve::new("all-reduce", []), Curve::new("copy, one direction", points.iter().copied())];
            assert_eq!(claim(&all).as_deref(), expect);
        };
        let half = "Copy, one direction: up to 384 GB/s, half of that from 1 MiB on";
        check(&[(262_144.0, 384.0), (64.0, 11.0), (1024.0, 200.0)], Some(half));
        check(&[(64.0, 11.0)], Some("Copy, one direction: up to 11.0 GB/s"));
        check(&[(64.0, 384.0), (1024.0, 384.0)], Some("Copy, one direction: up to 384 GB/s"));
        // The largest size is below half, so there is no size from which on half is reached.
        check(&[(64.0, 100.0), (1024.0, 10.0)], Some("Copy, one direction: up to 100 GB/s"));
        check(&[], None);
        check(&[(64.0, f64::NAN)], None);
    }
}

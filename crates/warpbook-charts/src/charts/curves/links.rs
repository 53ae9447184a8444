//! Chart of the bandwidth of a link between GPUs over the size of a transfer.

use crate::charts::curves::{Curve, Scale};
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
        let title = format!("{}: bandwidth of the link between the GPUs", heading(run));
        let subtitle = joined([device(run), format!("{gpus} GPUs"), "medians".into()]);
        self.curves([&title, &subtitle], ("KiB of a transfer", Scale::Doubling), ("GB/s", Scale::Log), &all)
    }
}

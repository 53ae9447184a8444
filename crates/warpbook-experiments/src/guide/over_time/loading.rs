//! A timeline of host and device during two training steps whose samples come from the host.

use super::Shown;
use crate::guide::made::training::profiled;
use warpbook_lab::Result;
use warpbook_lab::activity::{Timelines, rounded};
use warpbook_record::Span;

/// Records the spans of two training steps of each rung, with or without loading ahead.
pub(in crate::guide) fn record(shown: &Shown<'_>, rungs: &[(&'static str, bool)]) -> Result<Timelines> {
    shown.each(rungs, |rung, ahead| {
        let profile = profiled(shown.lab, shown.device, shown.work.n as usize, ahead)?;
        let mut found = Timelines::default();
        for cycle in &profile.cycles {
            found.spans.extend(cycle.spans(shown.problem).into_iter().map(|span| Span {
                rung: rung.to_owned(),
                start_us: rounded(span.start_us),
                duration_us: rounded(span.duration_us),
                ..span
            }));
            found.notes.push(format!("The timeline of two steps of {rung} was recorded by {}.", cycle.source));
            found.notes.extend(cycle.notes.iter().map(|note| format!("{rung}: {note}")));
        }
        Ok(found)
    })
}

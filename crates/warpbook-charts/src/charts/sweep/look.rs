//! Strokes and markers of a sweep's lines, and remarks on them.

use crate::draw::text::words::listed;
use crate::draw::{DASHES, MARKERS, Marker, Paint, Rgb, Series, Stroke};

/// Matrices whose edges are multiples of this number have equally aligned rows in every kernel and type.
pub(super) const ALIGNED: u64 = 64;

/// Returns the stroke and the marker of the nth rung of a kind in a record.
pub(super) fn look(number: usize, record: usize, tones: &[Rgb]) -> (Stroke, Marker) {
    let dash = record % DASHES.len();
    let stroke = Stroke::dashed(Paint::solid(tones[number % tones.len()]), 2.0, dash);
    // When tones and markers would repeat together, the markers shift by one.
    (stroke, MARKERS[(number + number / MARKERS.len()) % MARKERS.len()])
}

/// Returns the stroke and the marker of a rung that is not a kernel of the ladder.
pub(super) fn dashed_look(number: usize, record: usize, tones: &[Rgb]) -> (Stroke, Marker) {
    let dash = 1 + (number + record) % (DASHES.len() - 1);
    let stroke = Stroke::dashed(Paint::solid(tones[number % tones.len()]), 1.6, dash);
    (stroke, MARKERS[number % MARKERS.len()])
}

/// Explains the grey lines and the dots.
pub(super) fn notes_of_lines(series: &[Series]) -> Vec<String> {
    let rest: Vec<String> = series.iter().filter(|s| s.is_rest).map(|s| s.label[0].clone()).collect();
    let mut notes = Vec::new();
    if !rest.is_empty() {
        notes.push(format!("Grey: {}.", listed(&rest)));
    }
    if series.iter().any(|s| !s.apart.is_empty()) {
        notes.push(format!(
            "Separate dots are sizes that are not multiples of {ALIGNED}: their rows are aligned differently."
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::kind::RunnerKind;

    #[test]
    fn no_two_of_a_records_lines_look_alike() {
        let kernels = RunnerKind::Kernels.tones();
        let all: Vec<_> = (0..24).map(|n| look(n, 0, kernels)).collect();
        assert!((1..all.len()).all(|i| !all[..i].contains(&all[i])));
        for kind in [RunnerKind::Library, RunnerKind::Framework, RunnerKind::Cpu] {
            let dashed: Vec<_> = (0..12).map(|n| dashed_look(n, 0, kind.tones())).collect();
            assert!((1..dashed.len()).all(|i| !dashed[..i].contains(&dashed[i])));
            assert!(dashed.iter().all(|(stroke, _)| stroke.dash > 0));
        }
    }
}

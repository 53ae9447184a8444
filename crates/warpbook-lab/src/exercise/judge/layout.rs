//! Finds the source line that misses a target because of how the lanes of a warp lie in memory.

use crate::exercise::case::Case;
use crate::exercise::targets::{Costs, Target};
use std::cmp::Reverse;
use warpbook_emulator::{Counts, LineCounts, Transfers};
use warpbook_record::LIVE;

/// Costs that depend on where the lanes of a warp lie in memory.
#[derive(Debug, Clone, Copy)]
enum Waste {
    /// Sectors of global memory beyond the fewest possible.
    Sectors,
    /// Wavefronts of shared memory that bank conflicts add.
    Wavefronts,
}

impl Waste {
    fn of_line(self, line: &LineCounts) -> u64 {
        match self {
            Self::Sectors => line.global_sectors.saturating_sub(line.global_ideal),
            Self::Wavefronts => line.shared_wavefronts.saturating_sub(line.shared_ideal),
        }
    }

    /// Returns the counts of the same accesses without the waste.
    fn removed_from(self, counts: &Counts) -> Counts {
        let fewest = |all: Transfers| Transfers { sectors: all.sectors.min(all.bytes.div_ceil(32)), ..all };
        let line = |line: &LineCounts| match self {
            _ if self.of_line(line) == 0 => line.clone(),
            Self::Sectors => LineCounts {
                global_sectors: line.global_ideal,
                global_loads: fewest(line.global_loads),
                global_stores: fewest(line.global_stores),
                ..line.clone()
            },
            Self::Wavefronts => LineCounts { shared_wavefronts: line.shared_ideal, ..line.clone() },
        };
        Counts { lines: counts.lines.iter().map(line).collect(), ..counts.clone() }
    }
}

/// Returns the line of the learner's source with the most sectors, or the most wavefronts, beyond the fewest possible. Returns `None` unless a target in `missed`
/// depends on them.
pub(super) fn worst_line<'a>(
    missed: impl IntoIterator<Item = &'a Target>,
    case: &Case,
    counts: &Counts,
) -> Option<u32> {
    let depends = |target: &Target, waste: Waste| {
        let measure = |counts: &Counts| (target.measure)(&Costs::new(case, counts));
        measure(counts).total_cmp(&measure(&waste.removed_from(counts))).is_ne()
    };
    let all = [Waste::Sectors, Waste::Wavefronts];
    let waste = missed.into_iter().find_map(|target| all.into_iter().find(|waste| depends(target, *waste)))?;
    let own = counts.lines.iter().filter(|line| line.file.starts_with(LIVE) && waste.of_line(line) > 0);
    // If several lines are equally bad, the first one is named.
    own.max_by_key(|line| (waste.of_line(line), Reverse(line.line))).map(|line| line.line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u32, sectors: u64, wavefronts: u64) -> LineCounts {
        let loads = Transfers { requests: 2, sectors, bytes: 256 };
        LineCounts {
            file: "live/E97.cu".into(),
            line: number,
            global_requests: 2,
            global_sectors: sectors,
            global_ideal: 8,
            global_loads: loads,
            global_bytes: 256,
            shared_wavefronts: wavefronts,
            shared_ideal: 2,
            ..LineCounts::default()
        }
    }

    #[test]
    fn the_line_is_named_whose_accesses_miss_the_target() {
        let case = Case::new("n = 64").over(64, 64);
        let worst = |lines: &[LineCounts], targets: &[Target]| {
            worst_line(targets, &case, &Counts { lines: lines.to_vec(), ..Counts::default() })
        };
        let sectors = Target::at_most("sectors a request", 4.0, Costs::sectors_per_request);
        let loads = Target::at_most("sectors a load", 4.0, Costs::sectors_per_load);
        let ways = Target::at_most("ways of bank conflicts", 1.0, Costs::bank_conflict_ways);
        let bytes = Target::at_most("bytes an element", 1.0, Costs::bytes_per_element);
        let lines = [line(3, 10, 2), line(5, 64, 2), line(7, 64, 2), line(9, 8, 64)];
        assert_eq!(worst(&lines, &[sectors]), Some(5));
        assert_eq!(worst(&lines, &[loads]), Some(5));
        assert_eq!(worst(&lines, &[ways]), Some(9));
        // The number of bytes does not depend on where they lie, so the next missed target decides.
        assert_eq!(worst(&lines, &[bytes, ways]), Some(9));
        assert_eq!(worst(&lines, &[bytes]), None);
        assert_eq!(worst(&[line(3, 8, 2)], &[sectors, ways]), None);
        let header = LineCounts { file: "cuda_fp16.h".into(), ..line(3, 64, 2) };
        assert_eq!(worst(&[header], &[sectors]), None);
    }
}

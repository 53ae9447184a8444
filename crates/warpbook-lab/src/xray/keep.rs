//! Selects the marks that a record keeps. For a run with millions of marks, it keeps the start and end of every block,
//! and the phases of some warps.

use std::collections::BTreeMap;
use warpbook_record::xray::phase;
use warpbook_record::{XrayBlock, XrayWarp};

/// Maximum number of phases kept for a warp; half of them are the first ones, half the last ones.
const MOST_OF_WARP: usize = 512;
/// Minimum number of phases kept for a warp; a warp with fewer phases cannot be drawn.
const LEAST_OF_WARP: usize = 16;
/// Approximate sizes in a record's file in bytes: of a block, of a warp and of a phase.
const BLOCK_BYTES: usize = 190;
const WARP_BYTES: usize = 160;
const PHASE_BYTES: usize = 7;

/// Limits on the contents of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// Number of blocks whose start and end are kept.
    blocks: usize,
    /// Approximate number of phases that are kept.
    phases: usize,
    /// Maximum size in bytes of the blocks and phases in a file, if there is a limit.
    bytes: Option<usize>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { blocks: 40_000, phases: 150_000, bytes: None }
    }
}

impl Limits {
    /// Returns the limits for a file of about `bytes` bytes, never above the default.
    pub(super) fn of_bytes(bytes: usize) -> Self {
        let all = Self::default();
        // At least half of the bytes remain for phases.
        Self { blocks: all.blocks.min(bytes / 2 / BLOCK_BYTES).max(1), bytes: Some(bytes), ..all }
    }

    /// Returns the number of phases that fit into the limit in addition to these blocks and their kept warps.
    fn phases_next_to(&self, blocks: &[XrayBlock]) -> usize {
        let Some(bytes) = self.bytes else { return self.phases };
        let taken = blocks.iter().map(|b| BLOCK_BYTES + WARP_BYTES * b.warps.len()).sum();
        self.phases.min(bytes.saturating_sub(taken) / PHASE_BYTES)
    }
}

/// The marks that a record keeps.
pub(super) struct Kept {
    pub(super) blocks: Vec<XrayBlock>,
    /// Notes on omitted marks, in sentences.
    pub(super) notes: Vec<String>,
}

/// Thins out the blocks of a run. The blocks must be sorted by start.
///
/// All warps of the blocks on four SMs are kept: the lowest SM, the SMs whose last block ends first and last, and one
/// in the middle. For other blocks, the first warp of each role is kept, where a role is the set of a warp's phases. If
/// even that is too much, only start and end are kept.
///
/// If not all phases fit, the four SMs get half of the room and whatever the other SMs leave unused.
pub(super) fn keep(mut blocks: Vec<XrayBlock>, phases: &[String], limits: &Limits) -> Kept {
    let (of_warps, of_blocks) = (blocks.iter().map(|b| b.warps.len()).sum::<usize>(), blocks.len());
    let mut notes = Vec::new();
    if blocks.len() > limits.blocks {
        blocks.truncate(limits.blocks);
        notes.push(format!("Of {of_blocks} blocks, only the first {} were kept.", limits.blocks));
    }
    let detailed = detailed(&blocks);
    for block in blocks.iter_mut().filter(|b| !detailed.contains(&b.sm)) {
        // The distinct roles, each with its number of warps.
        let mut roles: Vec<(Vec<u64>, u64)> = Vec::new();
        block.warps.retain(|w| {
            let role = role(w);
            match roles.iter_mut().find(|(r, _)| *r == role) {
                Some((_, warps)) => *warps += w.stands_for,
                None => {
                    roles.push((role, w.stands_for));
                    return true;
                }
            }
            false
        });
        for (warp, (_, warps)) in block.warps.iter_mut().zip(roles) {
            warp.stands_for = warps;
        }
    }
    if phases_left(&blocks, LEAST_OF_WARP) > limits.phases_next_to(&blocks) {
        blocks.iter_mut().filter(|b| !detailed.contains(&b.sm)).for_each(|b| b.warps.clear());
    }
    // If those SMs have more blocks than a record can hold, keep the first ones.
    let mut left = match limits.bytes {
        None => limits.phases / LEAST_OF_WARP,
        Some(bytes) => bytes.saturating_sub(BLOCK_BYTES * blocks.len()) / (WARP_BYTES + PHASE_BYTES * LEAST_OF_WARP),
    };
    for block in &mut blocks {
        block.warps.truncate(left);
        left -= block.warps.len();
    }
    let fitting = limits.phases_next_to(&blocks);
    let warps_of = |of_detailed: bool| -> Vec<usize> {
        let kept = blocks.iter().filter(|b| detailed.contains(&b.sm) == of_detailed);
        kept.flat_map(|b| &b.warps).map(|w| w.phases.len()).collect()
    };
    let (of_detailed, of_others) = (warps_of(true), warps_of(false));
    let least_of_others = phases_of(&of_others, LEAST_OF_WARP);
    let least_of_detailed = most_of_warp(&of_detailed, (fitting / 2).min(fitting.saturating_sub(least_of_others)));
    let most_of_others = most_of_warp(&of_others, fitting.saturating_sub(phases_of(&of_detailed, least_of_detailed)));
    let most_of_detailed = most_of_warp(&of_detailed, fitting.saturating_sub(phases_of(&of_others, most_of_others)));
    let not_kept = phases.iter().position(|p| p == phase::NOT_KEPT).unwrap_or(phases.len()) as u64;
    let mut cut = [0, 0];
    for block in &mut blocks {
        let is_other = !detailed.contains(&block.sm);
        let most = if is_other { most_of_others } else { most_of_detailed };
        for warp in &mut block.warps {
            cut[usize::from(is_other)] += usize::from(shorten(warp, most, not_kept));
        }
    }
    let kept = blocks.iter().map(|b| b.warps.len()).sum::<usize>();
    if kept < of_warps {
        notes.push(format!(
            "The marks of {kept} of {of_warps} warps were kept: all of them on a few SMs, and one warp of each kind per block elsewhere, which stands for \
             the others in the figures."
        ));
    }
    for (cut, most) in cut.into_iter().zip([most_of_detailed, most_of_others]).filter(|(cut, _)| *cut > 0) {
        let warps = if cut == 1 { "1 warp".into() } else { format!("{cut} warps") };
        notes.push(format!("For {warps}, only the first and last {} phases were kept.", most / 2));
    }
    Kept { blocks, notes }
}

/// Returns the number of phases that remain if each warp keeps at most `most`.
fn phases_left(blocks: &[XrayBlock], most: usize) -> usize {
    blocks.iter().flat_map(|b| &b.warps).map(|w| w.phases.len().min(most)).sum()
}

/// Returns the number of phases that remain if warps with these numbers of phases keep at most `most` each.
fn phases_of(warps: &[usize], most: usize) -> usize {
    warps.iter().map(|phases| (*phases).min(most)).sum()
}

/// Returns the largest number of phases per warp for which everything fits; short warps leave room for long ones.
fn most_of_warp(warps: &[usize], fitting: usize) -> usize {
    let (mut fits, mut too_many) = (LEAST_OF_WARP, MOST_OF_WARP + 1);
    while too_many - fits > 1 {
        let most = usize::midpoint(fits, too_many);
        if phases_of(warps, most) > fitting {
            too_many = most;
        } else {
            fits = most;
        }
    }
    fits
}

/// Returns the SMs on which all warps are kept.
fn detailed(blocks: &[XrayBlock]) -> Vec<u64> {
    let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
    for b in blocks {
        let end = ends.entry(b.sm).or_insert(0);
        *end = (*end).max(b.end_ns);
    }
    let lowest = ends.keys().next().copied();
    let mut by_end: Vec<(u64, u64)> = ends.into_iter().map(|(sm, end)| (end, sm)).collect();
    by_end.sort_unstable();
    let at = |i: usize| by_end.get(i).map(|(_, sm)| *sm);
    [lowest, at(0), at(by_end.len() / 2), at(by_end.len().wrapping_sub(1))].into_iter().flatten().collect()
}

/// Returns the distinct phases of a warp.
fn role(warp: &XrayWarp) -> Vec<u64> {
    let mut all: Vec<u64> = warp.phases.iter().map(|(p, _)| *p).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Removes the middle of a warp with too many phases; returns true if it had too many.
fn shorten(warp: &mut XrayWarp, most: usize, not_kept: u64) -> bool {
    if warp.phases.len() <= most {
        return false;
    }
    let half = most / 2;
    let end = warp.phases.len() - half;
    let hidden = warp.phases[half..end].iter().map(|(_, ns)| ns).sum();
    warp.phases.splice(half..end, [(not_kept, hidden)]);
    true
}

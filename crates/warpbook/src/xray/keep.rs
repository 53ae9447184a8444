//! Which marks a record keeps: of a run with millions every block's begin and end, and of some warps their phases.

use std::collections::BTreeMap;
use warpbook_record::xray::phase;
use warpbook_record::{XrayBlock, XrayWarp};

/// Phases that a record holds about.
const MOST_PHASES: usize = 150_000;
/// Phases of a warp: the first half of them, and the last.
const MOST_OF_WARP: usize = 512;
/// Fewer are no picture of a warp.
const LEAST_OF_WARP: usize = 16;
/// Blocks whose begin and end are kept.
const MOST_BLOCKS: usize = 40_000;

/// What is left.
pub(super) struct Kept {
    pub(super) blocks: Vec<XrayBlock>,
    /// What was left out, in sentences.
    pub(super) notes: Vec<String>,
}

/// Thins out the blocks of a run, which are in the order of their begins.
///
/// All warps are kept of the blocks of four SMs: the lowest, those that have their last block's end first and last, and one in the middle. Of other
/// blocks the first warp of each role is, a role being the phases that a warp has; where even that is too much, only the begin and the end.
pub(super) fn keep(mut blocks: Vec<XrayBlock>, phases: &[String]) -> Kept {
    let (of_warps, of_blocks) = (blocks.iter().map(|b| b.warps.len()).sum::<usize>(), blocks.len());
    let mut notes = Vec::new();
    if blocks.len() > MOST_BLOCKS {
        blocks.truncate(MOST_BLOCKS);
        notes.push(format!("Of {of_blocks} blocks, only the first {MOST_BLOCKS} were kept."));
    }
    let detailed = detailed(&blocks);
    for block in blocks.iter_mut().filter(|b| !detailed.contains(&b.sm)) {
        // Each role with its number of warps.
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
    if phases_left(&blocks, LEAST_OF_WARP) > MOST_PHASES {
        blocks.iter_mut().filter(|b| !detailed.contains(&b.sm)).for_each(|b| b.warps.clear());
    }
    // Of more blocks on those SMs than a record holds, the first ones.
    let mut left = MOST_PHASES / LEAST_OF_WARP;
    for block in &mut blocks {
        block.warps.truncate(left);
        left -= block.warps.len();
    }
    let most = most_of_warp(&blocks);
    let not_kept = phases.iter().position(|p| p == phase::NOT_KEPT).unwrap_or(phases.len()) as u64;
    let mut cut = 0;
    for warp in blocks.iter_mut().flat_map(|b| &mut b.warps) {
        cut += usize::from(shorten(warp, most, not_kept));
    }
    let kept = blocks.iter().map(|b| b.warps.len()).sum::<usize>();
    if kept < of_warps {
        notes.push(format!(
            "The marks of {kept} of {of_warps} warps were kept: all of them on a few SMs, and one warp of each kind per block elsewhere, which stands for \
             the others in the figures."
        ));
    }
    if cut > 0 {
        let warps = if cut == 1 { "1 warp".into() } else { format!("{cut} warps") };
        notes.push(format!("For {warps}, only the first and last {} phases were kept.", most / 2));
    }
    Kept { blocks, notes }
}

/// How many phases remain of the warps if each has so many at most.
fn phases_left(blocks: &[XrayBlock], most: usize) -> usize {
    blocks.iter().flat_map(|b| &b.warps).map(|w| w.phases.len().min(most)).sum()
}

/// The most phases of a warp with which all of them fit: short warps leave their room to long ones.
fn most_of_warp(blocks: &[XrayBlock]) -> usize {
    let (mut fits, mut too_many) = (LEAST_OF_WARP, MOST_OF_WARP + 1);
    while too_many - fits > 1 {
        let most = usize::midpoint(fits, too_many);
        if phases_left(blocks, most) > MOST_PHASES {
            too_many = most;
        } else {
            fits = most;
        }
    }
    fits
}

/// The SMs of which all is kept.
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

/// The phases that a warp has, each once.
fn role(warp: &XrayWarp) -> Vec<u64> {
    let mut all: Vec<u64> = warp.phases.iter().map(|(p, _)| *p).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Leaves out the middle of a warp with more phases; says whether it had more.
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

//! What the rungs of the matrix product do, drawn with the formulas of their kernels.

mod cuda_cores;
mod hopper;
mod tensor_cores;

use crate::Chart;
use crate::diagram::Diagram;
use warpbook_record::{Tile, matmul};

/// The figure that explains a rung of the matrix product, drawn for its default tile: who reads and computes what, or what
/// runs at the same time. `None` of a rung that is no kernel of ours.
#[must_use]
pub fn matmul_figure(rung: &str) -> Option<Chart> {
    let diagram = match rung {
        "01_naive" => cuda_cores::naive(&tile(rung, &[("BM", 32), ("BN", 8)])),
        "02_coalesced" => cuda_cores::coalesced(&tile(rung, &[("BM", 8), ("BN", 32)])),
        "03_shared_tile" => cuda_cores::shared_tile(&tile(rung, &[("BM", 32), ("BN", 32), ("BK", 32)])),
        "04_register_1d" => cuda_cores::register_1d(&tile(rung, &[("BM", 64), ("BN", 64), ("BK", 8), ("TM", 8)])),
        "05_register_2d" => cuda_cores::register_2d(&tile(rung, &EIGHT_BY_EIGHT)),
        "06_vectorised" => cuda_cores::vectorised(&tile(rung, &EIGHT_BY_EIGHT)),
        "07_warp_tile" => cuda_cores::warp_tile(&tile(rung, &EIGHT_BY_EIGHT)),
        "08_double_buffered" => cuda_cores::double_buffered(&tile(rung, &EIGHT_BY_EIGHT)),
        "09_wmma" => tensor_cores::wmma(&tile(rung, &WARPS)),
        "10_mma_swizzled" => tensor_cores::mma_swizzled(&tile(rung, &WARPS)),
        "11_wgmma_tma" => hopper::wgmma_tma(&tile(rung, &[("BM", 128), ("BN", 128), ("STAGES", 4)])),
        "12_warp_specialised" => hopper::warp_specialised(&tile(rung, &[("BM", 128), ("BN", 256), ("STAGES", 4)])),
        "13_persistent_cluster" => hopper::persistent_cluster(&tile(rung, &CLUSTERS)),
        "14_overlapped_store" => hopper::overlapped_store(&tile(rung, &CLUSTERS)),
        "15_split_k" => hopper::split_k(&tile(rung, &[("BM", 128), ("BN", 128), ("SPLIT", 2)])),
        "16_tf32_registers" => hopper::tf32_registers(&tile(rung, &[("BM", 256), ("BN", 128)])),
        _ => return None,
    };
    diagram.draw().ok()
}

/// Sizes of a rung that the ladder does not have, or not yet.
const EIGHT_BY_EIGHT: [(&str, i64); 8] =
    [("BM", 128), ("BN", 128), ("BK", 8), ("TM", 8), ("TN", 8), ("WM", 64), ("WN", 32), ("STAGES", 3)];
const WARPS: [(&str, i64); 5] = [("BM", 128), ("BN", 128), ("BK", 64), ("WM", 64), ("WN", 32)];
const CLUSTERS: [(&str, i64); 5] = [("BM", 128), ("BN", 256), ("CLUSTER", 2), ("GROUP", 8), ("STAGES", 4)];

/// The default tile of a rung, with such sizes where it has none of that name.
fn tile(rung: &str, otherwise: &[(&'static str, i64)]) -> Tile {
    let known = matmul::rungs().into_iter().find(|r| r.id == rung);
    let first = known.as_ref().and_then(|r| r.kernels().first()?.tiles.first().cloned());
    let mut tile = first.unwrap_or_else(|| Tile::new("", &[]));
    let missing = otherwise.iter().filter(|(name, _)| tile.get(name).is_none());
    let missing = Tile::new("", &missing.copied().collect::<Vec<_>>());
    tile.defines.extend(missing.defines);
    tile
}

/// A size of a tile that can be drawn.
fn size(tile: &Tile, name: &str) -> usize {
    tile.size(name).min(512) as usize
}

/// A figure of a rung: its number and its title as the ladder has them.
fn figure(rung: &str, what: &str) -> Diagram {
    let titled = matmul::rungs().into_iter().find(|r| r.id == rung).map(|r| r.title.to_string());
    let number = rung.split('_').next().unwrap_or(rung);
    Diagram::new(&titled.map_or_else(|| format!("{number}: {what}"), |t| format!("{number} {t}: {what}")))
}

/// The tones of the operands, in all figures alike.
const A: usize = 0;
const B: usize = 4;
const C: usize = 2;
/// What is in the way.
const STOP: usize = 1;
const LANES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_of_ours_has_a_figure_and_nothing_else_has() {
        for rung in matmul::rungs() {
            assert_eq!(matmul_figure(&rung.id).is_some(), matmul::takes(&rung.id).is_some(), "{}", rung.id);
        }
        assert_eq!(matmul_figure("cublas"), None);
        assert_eq!(matmul_figure(""), None);
    }
}

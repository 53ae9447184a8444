//! Tables of tiles with their costs, written with one tile per line.

use super::Cost;
use warpbook_record::Tile;

/// One line of a table: a tile and, if it is worth choosing, its costs.
pub(super) struct TileLine {
    tile: Tile,
    cost: Option<Cost>,
}

impl TileLine {
    /// Makes a line. The costs are in microseconds: per launch, per wave of tiles, and per 128 bytes of k in a wave.
    pub(super) fn new(id: &'static str, tile: Tile, costs: impl Into<Option<[f64; 3]>>) -> Self {
        let cost = |[launch_us, wave_us, k_us]: [f64; 3]| Cost { tile: id, launch_us, wave_us, k_us };
        Self { tile, cost: costs.into().map(cost) }
    }
}

/// The tiles of a rung, and the costs of those that are worth choosing, both in the order of the table's lines.
pub(super) struct TileTable {
    pub(super) tiles: Vec<Tile>,
    pub(super) costs: Vec<Cost>,
}

impl TileTable {
    pub(super) fn new<const N: usize>(lines: [TileLine; N]) -> Self {
        let costs = lines.iter().filter_map(|line| line.cost).collect();
        Self { tiles: lines.into_iter().map(|line| line.tile).collect(), costs }
    }
}

//! Lists the kernels that can run a product on a device, with their expected times.

use crate::Product;
use crate::choose::cost_model::{Estimate, Limits, derived, estimate};
use warpbook_kernels::matmul::{Cost, Costs, Row};
use warpbook_record::{DeviceInfo, Tile};

/// A kernel with one of its tiles, and its expected time for a product.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Candidate<'r> {
    /// Row of the rung in the catalogue.
    pub row: &'r Row,
    /// One of the tiles of the row's kernel.
    pub tile: &'r Tile,
    /// Expected time of the product, including copies of its operands.
    pub estimate: Estimate,
    /// True if the tile's costs were measured; otherwise they are derived from the device's rates.
    pub is_measured: bool,
}

/// Returns all kernels worth running for a product on a device, the fastest by the cost model first. These are the tiles with measured costs. If no rung has
/// costs that are valid on the device, these are the tiles without costs of the last rung of the ladder that runs on the device.
pub(crate) fn candidates<'r>(rows: &'r [Row], product: &Product, device: &DeviceInfo) -> Vec<Candidate<'r>> {
    let takes = |row: &&Row| row.kernel().is_some() && row.obstacle(product.form, device.compute_capability).is_none();
    let measured = rows.iter().filter(takes).flat_map(|row| {
        let costs = costs(row, product, device).map_or(&[][..], |costs| costs.tiles);
        costs
            .iter()
            .filter_map(|cost| row.kernel()?.tile(cost.tile))
            .filter_map(|tile| candidate(row, tile, product, device))
    });
    let mut all: Vec<Candidate<'r>> = measured.collect();
    if all.is_empty() {
        let last = rows.iter().filter(takes).rfind(|row| row.fallback.is_some());
        let tiles = last.and_then(|row| Some((row, &row.kernel()?.tiles, row.fallback?)));
        let tiles = tiles.into_iter().flat_map(|(row, tiles, fallback)| {
            // A row with a single tile lists that tile twice as its fallback.
            let only = (fallback[0] == fallback[1]).then_some(fallback[0]);
            tiles.iter().filter(move |tile| only.is_none_or(|only| *tile.id == *only)).map(move |tile| (row, tile))
        });
        all.extend(tiles.filter_map(|(row, tile)| candidate(row, tile, product, device)));
    }
    // The sort is stable, so candidates with equal times stay in the order of the ladder.
    all.sort_by(|a, b| a.estimate.us().total_cmp(&b.estimate.us()));
    all
}

/// Returns the candidate of a row's tile for a product; `None` if a block on the device has too little shared memory, or the workspace is too small.
pub(crate) fn candidate<'r>(
    row: &'r Row,
    tile: &'r Tile,
    product: &Product,
    device: &DeviceInfo,
) -> Option<Candidate<'r>> {
    if !fits(tile, device) {
        return None;
    }
    let (limits, can) = (Limits::for_device(device), row.capabilities()?);
    let measured = measured_cost(row, tile, product, device);
    let cost = measured.unwrap_or_else(|| derived(tile, can, product, device));
    let estimate = estimate(&cost, tile, can, product, device, &limits)?;
    Some(Candidate { row, tile, estimate, is_measured: measured.is_some() })
}

/// Returns the costs of a row's tiles, if the costs are valid for a product on a device.
fn costs<'r>(row: &'r Row, product: &Product, device: &DeviceInfo) -> Option<&'r Costs> {
    let holds = |c: &&Costs| c.dtypes.contains(&product.form.dtype) && c.requires.met_by(device.compute_capability);
    row.costs.as_ref().filter(holds)
}

/// Returns a tile's measured costs, if they are valid for a product on a device.
pub(crate) fn measured_cost(row: &Row, tile: &Tile, product: &Product, device: &DeviceInfo) -> Option<Cost> {
    costs(row, product, device)?.tiles.iter().find(|cost| *cost.tile == *tile.id).copied()
}

/// Returns true if a block on the device has enough shared memory for a tile.
pub(crate) fn fits(tile: &Tile, device: &DeviceInfo) -> bool {
    device.shared_bytes_per_block.is_none_or(|most| tile.dynamic_shared_bytes() <= most)
}

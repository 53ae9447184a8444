use warpbook_record::{Dim, Grid, KernelSpec, Tile};

/// The shape of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// Number of blocks in x, y and z.
    pub grid: [u32; 3],
    /// Number of threads per block in x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory per block in bytes.
    pub dynamic_shared_bytes: u32,
}

/// Returns the launch of a kernel over `items` items with one of its tiles, on a device with `multiprocessors` SMs.
#[must_use]
pub fn over_items(spec: &KernelSpec, tile: &Tile, items: u64, multiprocessors: u32) -> Launch {
    let cover = items.div_ceil(tile.size(Dim::Threads).saturating_mul(tile.size(Dim::Items))).max(1);
    let resident = u64::from(multiprocessors.max(1)).saturating_mul(tile.size(Dim::BlocksPerSm));
    let blocks = match spec.grid {
        Grid::One => 1,
        Grid::Resident => cover.min(resident),
        _ => cover,
    };
    of_blocks(tile, blocks)
}

/// Returns the launch of a kernel over the tiles of an `m` x `n` matrix, on a device with `multiprocessors` SMs.
#[must_use]
pub fn over_tiles(spec: &KernelSpec, tile: &Tile, m: u64, n: u64, multiprocessors: u32) -> Launch {
    let (rows, columns) = (m.div_ceil(tile.size(Dim::Bm)), n.div_ceil(tile.size(Dim::Bn)));
    let (cluster, [down, across]) = (tile.size(Dim::Cluster), tile.cluster_shape());
    let tiles = rows.next_multiple_of(down).saturating_mul(columns.next_multiple_of(across));
    let blocks = match spec.grid {
        Grid::ResidentTiles => tiles.min(u64::from(multiprocessors) / cluster * cluster).max(cluster),
        _ => tiles.saturating_mul(tile.size(Dim::Split)),
    };
    of_blocks(tile, blocks)
}

fn of_blocks(tile: &Tile, blocks: u64) -> Launch {
    let clamp = |v: u64| u32::try_from(v).unwrap_or(u32::MAX);
    Launch {
        grid: [clamp(blocks), 1, 1],
        block: [clamp(tile.size(Dim::Threads)), 1, 1],
        dynamic_shared_bytes: clamp(tile.dynamic_shared_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_record::Source;

    const SOURCE: Source = Source { path: "x.cu", text: "" };

    #[test]
    fn a_launch_covers_its_items() {
        let tiles = [Tile::new("t", &[("THREADS", 256), ("ITEMS", 4), ("BLOCKS_PER_SM", 2)])];
        let check = |grid, items, expect| {
            let spec = KernelSpec::new(SOURCE, "k", &tiles, grid);
            assert_eq!(over_items(&spec, &tiles[0], items, 10).grid[0], expect, "{grid:?} {items}");
        };
        check(Grid::One, 1 << 20, 1);
        check(Grid::Cover, 1025, 2);
        check(Grid::Cover, 0, 1);
        check(Grid::Resident, 1 << 20, 20);
        check(Grid::Resident, 3000, 3);
    }

    #[test]
    fn tiles_cover_a_matrix() {
        let check = |grid, sizes: &[(&'static str, i64)], (m, n), expect| {
            let tiles = [Tile::new("t", sizes)];
            let spec = KernelSpec::new(SOURCE, "k", &tiles, grid);
            assert_eq!(over_tiles(&spec, &tiles[0], m, n, 132).grid, [expect, 1, 1], "{grid:?} {sizes:?} {m} {n}");
        };
        let tile = [("BM", 128), ("BN", 256), ("THREADS", 384)];
        check(Grid::Tiles, &tile, (129, 256), 2);
        check(Grid::Tiles, &[&tile[..], &[("SPLIT", 4)]].concat(), (129, 257), 16);
        check(Grid::Tiles, &[&tile[..], &[("SPLIT", 2), ("CLUSTER", 2)]].concat(), (300, 257), 16);
        check(Grid::Tiles, &[&tile[..], &[("SPLIT", 2), ("CLUSTER", 2), ("CLUSTER_N", 2)]].concat(), (300, 257), 12);
        check(Grid::ResidentTiles, &tile, (129, 256), 2);
        check(Grid::ResidentTiles, &tile, (8192, 8192), 132);
        check(Grid::ResidentTiles, &[&tile[..], &[("CLUSTER", 2)]].concat(), (1, 1), 2);
        check(Grid::ResidentTiles, &[&tile[..], &[("CLUSTER", 2)]].concat(), (300, 256), 4);
    }
}

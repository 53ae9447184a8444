//! The kernels of the regression with their tiles.

use crate::shared::source;
use crate::tile;
use warpbook_record::{Dim, Grid, KernelSpec, Source, Tile};

pub(super) const UNFUSED: Source = source!("regression/01_unfused.cu");
pub(super) const FUSED: Source = source!("regression/02_fused.cu");
pub(super) const STAGED: Source = source!("regression/02b_fused_staged.cu");
const PERSISTENT: Source = source!("regression/05_persistent.cu");
pub(super) const ON_CHIP: Source = source!("regression/06_on_chip.cu");
pub(super) const ON_CHIP_CLUSTER: Source = source!("regression/06_on_chip_cluster.cu");
pub(super) const STATISTICS: Source = source!("regression/07_sufficient_statistics.cu");
const MULTIVARIATE: Source = source!("regression/08_multivariate.cu");
const DATA: Source = source!("regression/data.cu");

/// Number of threads in a block that keeps its points on the chip; it is small, so that each thread can have 255 registers.
pub(super) const RESIDENT_THREADS: u64 = 256;

/// Returns a kernel for one pass over the points, whose grid fits on the GPU at once.
pub(super) fn pass(source: Source, entry: &'static str) -> KernelSpec {
    let tiles = ["t512x16b2", "t1024x8b1", "t1024x16b1", "t256x16b4", "t256x8b4"].map(tile::strided);
    KernelSpec::new(source, entry, &tiles, Grid::Resident)
}

/// Returns a kernel whose grid runs all epochs, with one block per SM that uses all of its registers, so that few blocks have to
/// synchronise.
pub(super) fn persistent(alternate: bool) -> KernelSpec {
    let tiles = ["t512x32b1", "t512x16b1", "t256x32b1"].map(tile::strided);
    // The first tile keeps more points loaded for the next epoch. If the direction does not alternate, these points are useless and
    // only cost registers.
    let spec = KernelSpec::new(PERSISTENT, "descend", if alternate { &tiles } else { &tiles[1..] }, Grid::Resident);
    if alternate { spec.define("ALTERNATE", 1) } else { spec }
}

/// Returns a kernel that keeps its points on the chip, with one tile for each number of four-point groups in a thread's registers.
pub(super) fn resident(source: Source, entry: &'static str) -> KernelSpec {
    let tile = |id, groups: i64| {
        Tile::new(
            id,
            &[
                ("THREADS", RESIDENT_THREADS.cast_signed()),
                ("ITEMS", 4),
                ("BLOCKS_PER_SM", 1),
                ("REGISTER_GROUPS", groups),
            ],
        )
    };
    let tiles = [tile("r24", 24), tile("r16", 16), tile("r8", 8), tile("r4", 4), tile("r2", 2), tile("r0", 0)];
    KernelSpec::new(source, entry, &tiles, Grid::Resident)
}

pub(super) fn multivariate() -> KernelSpec {
    let tile = |id, threads, features| {
        Tile::new(id, &[("THREADS", threads), ("ITEMS", 4), ("BLOCKS_PER_SM", 1), ("FEATURES_PER_THREAD", features)])
    };
    KernelSpec::new(MULTIVARIATE, "descend", &[tile("t512f16", 512, 16), tile("t512f8", 512, 8)], Grid::Resident)
        .define("FEATURES", 16)
}

/// Returns the multivariate kernel for numbers of features that are split among warps in different ways, which tests also compile.
#[must_use]
pub fn feature_counts() -> Vec<KernelSpec> {
    let default_tile = |mut spec: KernelSpec| {
        spec.tiles.truncate(1);
        spec
    };
    [1, 2, 3, 7, 17, 100, 256].map(|n| default_tile(multivariate()).define("FEATURES", n)).into()
}

/// Returns the number of warps of `08_multivariate` that share the same points and split the features, which is the kernel's `SPLIT`.
#[must_use]
pub fn multivariate_split(tile: &Tile, features: u64) -> u64 {
    features.div_ceil(tile.size(Dim::FeaturesPerThread)).next_power_of_two()
}

/// Returns the number of points that a block has in registers at once, computed in the same way as in the kernel.
#[must_use]
pub fn multivariate_points_at_once(tile: &Tile, features: u64) -> u64 {
    let (a_thread, split) = (tile.size(Dim::FeaturesPerThread), multivariate_split(tile, features));
    let part = features.div_ceil(split);
    let groups = if part + 1 >= a_thread { 1 } else { a_thread / (part + 1) };
    tile.size(Dim::Threads) / 32 / split * groups * 32 * 4
}

/// Returns the single-block kernel that completes the sums and updates the weights.
pub(super) fn update(source: Source) -> KernelSpec {
    KernelSpec::new(
        source,
        "update",
        &[Tile::new("t512", &[("THREADS", 512), ("ITEMS", 4), ("BLOCKS_PER_SM", 1)])],
        Grid::One,
    )
}

/// Name of the ablation in which the fused pass only reads its data.
pub const ONLY_READS: &str = "only the reads";
/// Name of the measurement of the fused pass without points: only its launch, and the start and end of its blocks.
pub const NO_POINTS: &str = "only the launch";

/// Returns variants of the fused pass for ablation, with their names: the complete pass, and versions without some of its parts.
#[must_use]
pub fn ablations() -> Vec<(&'static str, KernelSpec)> {
    let without = |names: &[&'static str]| pass(FUSED, "pass").with(names);
    vec![
        ("whole pass", without(&[])),
        ("without the loss", without(&["WITHOUT_LOSS"])),
        ("without the gradients", without(&["WITHOUT_GRADIENTS"])),
        ("without the reduction", without(&["WITHOUT_REDUCTION"])),
        ("without reading y", without(&["WITHOUT_Y"])),
        (ONLY_READS, without(&["WITHOUT_LOSS", "WITHOUT_GRADIENTS", "WITHOUT_REDUCTION"])),
    ]
}

/// Returns the kernel that fills x and y with random points; see `kernels/regression/data.cu`.
#[must_use]
pub fn data_kernel() -> KernelSpec {
    KernelSpec::new(DATA, "points", &[Tile::new("t256", &[("THREADS", 256)])], Grid::Cover)
}

/// Returns the kernel that fills x and y with random points of several features.
#[must_use]
pub fn featured_data_kernel() -> KernelSpec {
    KernelSpec { entry: "featured_points".into(), ..data_kernel() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_the_multivariate_kernel_holds_so_many_points() {
        let tile = &multivariate().tiles[0];
        // Each of the 16 warps has 32 lanes with four points each. A block has eight such groups of points at once with one feature,
        // and one group with 16 features; with 256 features, all 16 warps share the same points.
        assert_eq!(multivariate_points_at_once(tile, 1), 16 * 32 * 4 * 8);
        assert_eq!(multivariate_points_at_once(tile, 16), 16 * 32 * 4);
        assert_eq!(multivariate_points_at_once(tile, 256), 32 * 4);
    }
}

//! The rule that decides where on the chip the on-chip rung keeps its data set.

use super::kernels::{ON_CHIP, RESIDENT_THREADS, resident};
use warpbook_record::Tile;

/// Number of blocks per cluster for a small data set, the largest that Hopper supports.
pub const CLUSTER_BLOCKS: u32 = 16;
/// Number of four-point groups per thread from which the whole grid is faster than a single cluster.
const CLUSTER_GROUPS: u64 = 28;
/// Size of a group of four points in bytes, including x and y.
const GROUP_BYTES: u64 = 32;
/// Bytes of a block's shared memory that are not available for points: the sums, a cluster's slots, and the system's reserve.
const SHARED_RESERVE_BYTES: u64 = 8 << 10;

/// The place of the points of `06_on_chip`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// The points are in the SMs of one cluster.
    Cluster(Residency),
    /// The points are in all SMs.
    Grid(Residency),
    /// The points do not fit on the chip, so they stay in memory and are read in every epoch, as in `05b_persistent_alternating`.
    Memory,
}

/// The distribution of points on the chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Residency {
    /// Number of blocks, each of which has an SM to itself.
    pub blocks: u32,
    /// Number of four-point groups that each thread keeps in registers, which is the tile's `REGISTER_GROUPS`.
    pub register_groups: u64,
    /// Dynamic shared memory per block for the remaining points, in bytes.
    pub shared_bytes: u32,
    /// Number of points in registers; all other points are in shared memory.
    pub register_points: u64,
}

impl Residency {
    /// Returns the id of the tile with this number of register groups.
    #[must_use]
    pub fn tile_id(&self) -> String {
        format!("r{}", self.register_groups)
    }

    /// Puts as many groups into registers as the tiles permit and as every thread can fill; `None` if the rest does not fit into shared
    /// memory.
    fn new(train_points: u64, blocks: u32, room: Room) -> Option<Self> {
        let threads = u64::from(blocks) * RESIDENT_THREADS;
        let groups = train_points / 4;
        if threads == 0 || groups > u64::from(u32::MAX) {
            return None;
        }
        let register_groups = room.register_groups().filter(|r| r * threads <= groups).max()?;
        let shared_bytes = (groups.div_ceil(threads) - register_groups) * RESIDENT_THREADS * GROUP_BYTES;
        (shared_bytes + SHARED_RESERVE_BYTES <= room.shared_bytes_per_block).then(|| Self {
            blocks,
            register_groups,
            shared_bytes: u32::try_from(shared_bytes).unwrap_or(u32::MAX),
            register_points: register_groups * threads * 4,
        })
    }
}

/// Limits of a device that [`choose_placement`] depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Number of SMs on the device.
    pub multiprocessors: u32,
    /// Largest amount of shared memory per block in bytes.
    pub shared_bytes_per_block: u64,
    /// Number of blocks in the largest cluster, at most [`CLUSTER_BLOCKS`]; 0 if the device has no clusters.
    pub cluster_blocks: u32,
    /// Largest number of four-point groups that a thread may keep in registers.
    pub most_groups: u64,
}

impl Room {
    /// Returns the permitted numbers of groups in a thread's registers.
    fn register_groups(self) -> impl Iterator<Item = u64> {
        let of_tile = |t: Tile| t.get("REGISTER_GROUPS").map_or(0, i64::unsigned_abs);
        resident(ON_CHIP, "descend").tiles.into_iter().map(of_tile).filter(move |g| *g <= self.most_groups)
    }
}

/// Decides where `06_on_chip` keeps its points: in one cluster if they are few, otherwise in all SMs if they fit, and otherwise in memory.
/// Also returns the reason as a sentence.
#[must_use]
pub fn choose_placement(train_points: u64, room: Room) -> (Placement, String) {
    let Room { multiprocessors, cluster_blocks, .. } = room;
    let megabytes = |points: u64| format!("{:.1} MB", points as f64 * 8e-6);
    let where_to = |r: &Residency| {
        format!(
            "{} in registers ({} groups of four points per thread) and {} in shared memory",
            megabytes(r.register_points),
            r.register_groups,
            megabytes(train_points - r.register_points)
        )
    };
    let size = format!("{train_points} training points, {}", megabytes(train_points));
    let a_thread = train_points / 4 / (u64::from(cluster_blocks.max(1)) * RESIDENT_THREADS);
    if cluster_blocks > 0
        && a_thread < CLUSTER_GROUPS
        && let Some(r) = Residency::new(train_points, cluster_blocks, room)
    {
        let sentence = format!(
            "{size}: fewer than {CLUSTER_GROUPS} groups of four per thread of one cluster of {} blocks, so they lie there: {}.",
            r.blocks,
            where_to(&r)
        );
        return (Placement::Cluster(r), sentence);
    }
    if let Some(r) = Residency::new(train_points, multiprocessors, room) {
        let sentence = format!("{size}: they lie in {} multiprocessors: {}.", r.blocks, where_to(&r));
        return (Placement::Grid(r), sentence);
    }
    let most = most_resident_points(room);
    let sentence = format!(
        "{size}: more than the {} that registers and shared memory of {multiprocessors} multiprocessors hold, so they are read every epoch as by 05b_persistent_alternating.",
        megabytes(most)
    );
    (Placement::Memory, sentence)
}

/// Returns the largest number of points that fit into all SMs.
fn most_resident_points(room: Room) -> u64 {
    let registers = room.register_groups().max().unwrap_or(0);
    let shared = room.shared_bytes_per_block.saturating_sub(SHARED_RESERVE_BYTES) / (RESIDENT_THREADS * GROUP_BYTES);
    (registers + shared) * u64::from(room.multiprocessors) * RESIDENT_THREADS * 4
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the limits of an H200.
    const fn room(cluster_blocks: u32) -> Room {
        Room { multiprocessors: 132, shared_bytes_per_block: 232_448, cluster_blocks, most_groups: 24 }
    }

    fn check(train_points: u64, cluster_blocks: u32, expect: &str) {
        let (placement, sentence) = choose_placement(train_points, room(cluster_blocks));
        let found = match &placement {
            Placement::Cluster(r) => format!("cluster {} {}", r.blocks, r.tile_id()),
            Placement::Grid(r) => format!("grid {} {}", r.blocks, r.tile_id()),
            Placement::Memory => "memory".to_owned(),
        };
        assert_eq!(found, expect, "{sentence}");
        if let Placement::Cluster(r) | Placement::Grid(r) = placement {
            // Every thread fills its register groups, and shared memory takes the remaining points.
            let threads = u64::from(r.blocks) * RESIDENT_THREADS;
            assert!(r.register_groups * threads * 4 <= train_points);
            let rest = (train_points / 4).saturating_sub(r.register_groups * threads).div_ceil(threads);
            assert_eq!(u64::from(r.shared_bytes), rest * RESIDENT_THREADS * GROUP_BYTES);
            assert!(u64::from(r.shared_bytes) <= 232_448 - SHARED_RESERVE_BYTES);
        }
        assert!(sentence.starts_with(&train_points.to_string()) && sentence.ends_with('.'), "{sentence}");
    }

    #[test]
    fn points_lie_in_a_cluster_in_the_grid_or_in_memory() {
        check(1, 16, "cluster 16 r0");
        check(80_000, 16, "cluster 16 r4");
        check(80_000, 0, "grid 132 r0");
        check(400_000, 16, "cluster 16 r24");
        check(800_000, 16, "grid 132 r4");
        check(4_000_000, 16, "grid 132 r24");
        check(8_000_000, 16, "memory");
        check(u64::MAX, 16, "memory");
        let most = most_resident_points(room(16));
        check(most, 16, "grid 132 r24");
        check(most + 4 * RESIDENT_THREADS * 132, 16, "memory");
    }
}

//! Cuts tiles along k, so that the last wave of a product leaves no SM idle.
//!
//! A wave is as many tiles of C as can be resident at once. If the last wave is not full, its tiles and the tiles of the wave before it are cut: their slices
//! of k, taken tile after tile, are divided into one range for each resident cluster. The thread block that has a tile's first slices adds the partial sums
//! that other thread blocks leave in the workspace. This is the "two-tile" hybrid schedule of "Stream-K: Work-centric Parallel Decomposition for Dense
//! Matrix-Matrix Multiplication on the GPU", Osama et al., 2023.

use crate::Product;
use crate::plan::copies::Layouts;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use warpbook_device::DevicePtr;
use warpbook_kernels::matmul::WORKSPACE_BYTES;
use warpbook_record::{Dim, Tile};

/// Number of bytes along k in a block of k.
const BLOCK_BYTES: u64 = 128;
/// Least number of blocks of k in a range for which exchanging sums pays off.
const LEAST_BLOCKS: u64 = 4;
/// Size in bytes of the flag that says that a warpgroup's partial sums are ready.
const FLAG_BYTES: u64 = 8;

/// The cutting of a product's tiles on a device, and the memory where its blocks exchange sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Streamed {
    cutting: Cutting,
    /// Offset of the partial sums in the workspace, after the copies.
    offset: u64,
    /// Size of the sums in bytes; the flags follow the sums.
    sums_bytes: u64,
    /// Size of sums and flags in bytes.
    pub bytes: u64,
    /// Value of a raised flag, which no other plan of this process uses.
    ticket: u64,
}

/// The struct `Exchange` of `kernels/matmul/18_stream_k.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExchangeArgs {
    sums: DevicePtr,
    flags: DevicePtr,
    ticket: u64,
}

impl ExchangeArgs {
    /// Returns the argument of a launch that cuts no tile.
    pub fn none() -> Self {
        Self { sums: DevicePtr::NULL, flags: DevicePtr::NULL, ticket: 0 }
    }
}

/// Decides which tiles of a product are cut, given the number of resident clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cutting {
    /// Rows and columns of C that a cluster computes.
    sides: [u64; 2],
    /// Number of resident clusters, each of which has one range.
    clusters: u64,
    /// Number of blocks of k in a tile.
    k_blocks: u64,
}

impl Cutting {
    /// Returns the cutting for this number of resident clusters.
    pub fn new(product: &Product, tile: &Tile, clusters: u64) -> Self {
        let [down, across] = tile.cluster_shape();
        Self {
            sides: [tile.size(Dim::Bm) * down, tile.size(Dim::Bn) * across],
            clusters: clusters.max(1),
            k_blocks: (u64::from(product.k) * product.form.dtype.bytes()).div_ceil(BLOCK_BYTES),
        }
    }

    /// Returns the number of tiles of a C with `m` rows and `n` columns; the tiles of a cluster count as one.
    pub fn tiles(&self, m: u32, n: u32) -> u64 {
        let [rows, columns] = self.sides;
        u64::from(m).div_ceil(rows) * u64::from(n).div_ceil(columns)
    }

    /// Returns how many of the last tiles to cut; 0 if the last wave is full, or if k is too short.
    pub fn cut(&self, m: u32, n: u32) -> u32 {
        let tiles = self.tiles(m, n);
        let left = tiles % self.clusters;
        // A whole wave is cut together with the tiles left over, since ranges as long as one or two tiles have few pieces.
        let cut = if tiles > self.clusters { left + self.clusters } else { left };
        let blocks = cut.saturating_mul(self.k_blocks);
        // The kernel counts blocks in 32 bits.
        let is_cut = left > 0 && blocks >= self.clusters * LEAST_BLOCKS && blocks <= u64::from(u32::MAX);
        if is_cut { u32::try_from(cut).unwrap_or(0) } else { 0 }
    }
}

impl Streamed {
    /// Plans which tiles are cut and where their sums are stored; `None` if no tile of the product is cut, or the partial sums do not fit into the workspace.
    pub fn new(product: &Product, tile: &Tile, layouts: &Layouts, clusters: u64) -> Option<Self> {
        let cutting = Cutting::new(product, tile, clusters);
        let [m, n] = layouts.panel;
        // Sizes of the whole panels and of the remaining one.
        let sizes = |all: u32, panel: u32| [panel, all % panel.max(1)];
        let any = sizes(product.m, m).iter().any(|m| sizes(product.n, n).iter().any(|n| cutting.cut(*m, *n) > 0));
        let blocks = cutting.clusters * tile.cluster_blocks();
        let (rows, columns) = (tile.size(Dim::Bm), tile.size(Dim::Bn));
        let sums_bytes = blocks * rows * columns * 4;
        let bytes = sums_bytes + blocks * (rows / 64) * FLAG_BYTES;
        let offset = layouts.end();
        (any && offset + bytes <= WORKSPACE_BYTES).then(|| Self {
            cutting,
            offset,
            sums_bytes,
            bytes,
            ticket: ticket(),
        })
    }

    /// Returns the number of cut tiles in a panel of C; the tiles of a cluster count as one.
    pub fn cut(&self, m: u32, n: u32) -> u32 {
        self.cutting.cut(m, n)
    }

    /// Returns the number of tiles in a panel of C; the tiles of a cluster count as one.
    pub fn tiles(&self, m: u32, n: u32) -> u64 {
        self.cutting.tiles(m, n)
    }

    /// Returns the offset in bytes of the end of the sums and flags in the workspace.
    pub fn end(&self) -> u64 {
        self.offset + self.bytes
    }

    /// Returns the number of clusters that share the cut tiles.
    pub fn clusters(&self) -> u32 {
        u32::try_from(self.cutting.clusters).unwrap_or(u32::MAX)
    }

    /// Returns the kernel's argument with the addresses of the sums and the flags.
    pub fn exchange(&self, workspace: DevicePtr) -> ExchangeArgs {
        let sums = workspace.offset(self.offset);
        ExchangeArgs { sums, flags: sums.offset(self.sums_bytes), ticket: self.ticket }
    }
}

/// Returns a number that no other call in this process returns. Another process, whose flags may still be in memory, is very unlikely to have used the same
/// number.
fn ticket() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let seed = *SEED.get_or_init(|| RandomState::new().hash_one(std::process::id()));
    let next = || mixed(seed.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)));
    // A flag that has not been raised is 0, so a ticket must not be 0.
    let first = next();
    if first == 0 { next() } else { first }
}

/// Mixes the bits with the finaliser of SplitMix64, which is a bijection: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
fn mixed(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use warpbook_kernels::matmul::{Form, Operands, rows};
    use warpbook_record::Dtype;

    /// A piece of a cluster's work: its tile, its first block of k, the end of its blocks, and its position, as in the kernel's `Pieces`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Piece {
        tile: u64,
        begin: u64,
        end: u64,
        /// Position in the cut tiles after the piece.
        at: u64,
    }

    fn first_of(range: u64, total: u64, clusters: u64) -> u64 {
        range * (total / clusters) + range.min(total % clusters)
    }

    /// Returns the pieces of a cluster in order, and the index of its range, as the kernel computes them.
    fn pieces(cluster: u64, clusters: u64, tiles: u64, cut: u64, k_blocks: u64) -> (Vec<Piece>, u64) {
        let first_cut = tiles - cut;
        let range = clusters - 1 - cluster;
        let total = cut * k_blocks;
        let (mut at, until) = (first_of(range, total, clusters), first_of(range + 1, total, clusters));
        let mut all: Vec<Piece> = (cluster..first_cut)
            .step_by(usize::try_from(clusters).unwrap())
            .map(|tile| Piece { tile, begin: 0, end: k_blocks, at })
            .collect();
        while at < until {
            let begin = at % k_blocks;
            let end = k_blocks.min(begin + until - at);
            let tile = first_cut + at / k_blocks;
            at += end - begin;
            all.push(Piece { tile, begin, end, at });
        }
        (all, range)
    }

    /// Returns the ranges whose sums must be ready before a piece with the first block of its tile can finish the tile.
    fn awaited(piece: Piece, range: u64, total: u64, clusters: u64, k_blocks: u64) -> Vec<u64> {
        let tile_end = piece.at + k_blocks - piece.end;
        let mut at = if piece.end < k_blocks { piece.at } else { tile_end };
        let (mut range, mut all) = (range, Vec::new());
        while at < tile_end {
            range += 1;
            all.push(range);
            at = first_of(range + 1, total, clusters);
        }
        all
    }

    fn check(tiles: u64, cut: u64, clusters: u64, k_blocks: u64) {
        let what = format!("{tiles} tiles, {cut} cut, {clusters} clusters, {k_blocks} blocks of k");
        let total = cut * k_blocks;
        let mut done = HashSet::new();
        // `left` lists which range leaves partial sums of which tile, and `read` lists which of these sums are read.
        let (mut left, mut read) = (Vec::new(), Vec::new());
        let mut lengths = Vec::new();
        for cluster in 0..clusters {
            let (all, range) = pieces(cluster, clusters, tiles, cut, k_blocks);
            lengths.push(all.iter().filter(|p| p.tile >= tiles - cut).map(|p| p.end - p.begin).sum::<u64>());
            let first_cut = all.iter().position(|p| p.tile >= tiles - cut);
            for (i, piece) in all.iter().enumerate() {
                assert!(piece.begin < piece.end, "{what}");
                assert!((piece.begin..piece.end).all(|k| done.insert((piece.tile, k))), "{what}: {piece:?} again");
                if piece.begin > 0 {
                    // Only the first cut piece leaves sums, so one slot in the workspace is enough, and the cluster has not waited for anything before.
                    assert_eq!(Some(i), first_cut, "{what}: {piece:?}");
                    left.push((range, piece.tile));
                } else {
                    let waits = awaited(*piece, range, total, clusters, k_blocks);
                    // Only the last piece waits, and only for earlier clusters, which are resident first and never wait for later clusters.
                    assert!(waits.is_empty() || i + 1 == all.len(), "{what}: {piece:?}");
                    assert!(waits.iter().all(|r| *r < clusters && clusters - 1 - r < cluster), "{what}: {waits:?}");
                    read.extend(waits.into_iter().map(|r| (r, piece.tile)));
                }
            }
        }
        assert_eq!(done.len() as u64, tiles * k_blocks, "{what}");
        let (least, most) = (lengths.iter().min().unwrap(), lengths.iter().max().unwrap());
        assert!(most - least <= 1, "{what}: {least} to {most}");
        left.sort_unstable();
        read.sort_unstable();
        assert_eq!(left, read, "{what}");
    }

    #[test]
    fn every_block_of_k_is_multiplied_once_and_every_sum_is_read_once() {
        for clusters in [1, 2, 3, 7, 66, 132] {
            for tiles in [1, 2, 5, 66, 100, 131, 132, 133, 200, 263, 264, 300, 397] {
                for k_blocks in [1, 2, 3, 37, 64, 118] {
                    let left = tiles % clusters;
                    let cut = if tiles > clusters && left > 0 { left + clusters } else { left };
                    check(tiles, cut, clusters, k_blocks);
                    check(tiles, 0, clusters, k_blocks);
                }
            }
        }
    }

    fn tile(sizes: &[(&'static str, i64)]) -> Tile {
        Tile::new("t", &[&[("BM", 128), ("BN", 256)], sizes].concat())
    }

    #[test]
    fn tiles_are_cut_where_a_wave_is_not_full() {
        let cut = |(m, n, k): (u32, u32, u32), tile: &Tile, clusters| {
            Cutting::new(&Product::new(m, n, k, Form::plain(Dtype::Bf16)), tile, clusters).cut(m, n)
        };
        let one = tile(&[]);
        // 31 x 10 tiles leave 46 after two waves.
        assert_eq!(cut((3904, 2368, 4160), &one, 132), 46 + 132);
        // 4 x 50 tiles leave 68 after one wave.
        assert_eq!(cut((448, 12736, 2560), &one, 132), 68 + 132);
        // These products have fewer tiles than there are SMs, the same number, and twice that number.
        assert_eq!(cut((1024, 1024, 4096), &one, 132), 32);
        assert_eq!(cut((1536, 2816, 4096), &one, 132), 0);
        assert_eq!(cut((3072, 2816, 4096), &one, 132), 0);
        // Each cluster has two tiles, one below the other.
        assert_eq!(cut((3904, 2368, 4160), &tile(&[("CLUSTER", 2)]), 66), 16 * 10 % 66 + 66);
        // For these products, k is too short for 132 ranges of a single tile, k is just long enough, and the number of steps exceeds 32 bits.
        assert_eq!(cut((128, 256, 64 * 527), &one, 132), 0);
        assert_eq!(cut((128, 256, 64 * 528), &one, 132), 1);
        assert_eq!(cut((128 * 133, 256, u32::MAX), &one, 132), 0);
    }

    #[test]
    fn partial_sums_lie_behind_the_copies() {
        let streamed = |m, n, k| {
            let product = Product::new(m, n, k, Form::plain(Dtype::Bf16));
            let layouts = Layouts::new(&product, &tile(&[]), Operands::TensorMapsAndC, [true; 2]).unwrap();
            Streamed::new(&product, &tile(&[]), &layouts, 132)
        };
        let aligned = streamed(3904, 2368, 4160).unwrap();
        let bytes = 132 * 128 * 256 * 4;
        assert_eq!((aligned.offset, aligned.sums_bytes, aligned.end()), (0, bytes, bytes + 132 * 2 * 8));
        assert_eq!((aligned.clusters(), aligned.tiles(3904, 2368)), (132, 310));
        // Rows of 2366 columns are copied.
        let odd = streamed(3904, 2366, 512).unwrap();
        assert_eq!(odd.offset, (512u64 * 2368 * 2).next_multiple_of(1024));
        assert_ne!(aligned.ticket, odd.ticket);
        // The first product fills its wave, and the copies for the second leave no room.
        assert_eq!(streamed(1536, 2816, 4096), None);
        assert_eq!(streamed(4097, 4095, 4093), None);
    }

    #[test]
    fn tickets_differ() {
        let some: HashSet<u64> = (0..10_000).map(|_| ticket()).collect();
        assert_eq!((some.len(), mixed(0)), (10_000, 0));
        // The published generator gives this value from seed 0.
        assert_eq!(mixed(0x9e37_79b9_7f4a_7c15), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn every_tile_of_the_rung_is_cut_in_some_product() {
        let row = rows().into_iter().find(|r| r.rung.id == "18_stream_k").unwrap();
        assert!(row.capabilities().unwrap().streams && row.tunable);
        for tile in &row.kernel().unwrap().tiles {
            let product = Product::new(3904, 2344, 4160, Form::plain(Dtype::Bf16));
            let streamed = Streamed::new(&product, tile, &Layouts::none(&product), 132 / tile.cluster_blocks());
            assert!(streamed.is_some_and(|s| s.bytes < WORKSPACE_BYTES / 2), "{}", tile.id);
        }
    }
}

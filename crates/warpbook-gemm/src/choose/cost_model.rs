//! Estimates the time of a product with a tile from a simple model of the device's limits.
//!
//! A product takes the time of its launches and copies, plus about the time of its tightest limit: its waves of tiles over the SMs, the tensor cores under
//! their power limit, the lines that tiles read from L2, or the bytes moved between DRAM and L2. Its waves take the time in the tile's costs, or more if an SM
//! waits for lines. `README.md` describes how the model was fitted and how accurate it is.

use crate::Product;
use crate::choose::candidates::measured_cost;
use crate::plan::copies::{Layout, Layouts, in_one_launch};
use crate::plan::parts::Parts;
use warpbook_kernels::matmul::{Capabilities, Cost, Operands, Row};
use warpbook_record::{DeviceInfo, Dim, Dtype, Tile};

/// Bytes of a line of L2, and of a row of a tile that TMA loads.
const LINE_BYTES: u64 = 128;

/// Expected times of a product with a tile, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    /// Time of the launches, one for each panel of C.
    pub launches_us: f64,
    /// Time of copying operands that the kernel cannot read as they are stored.
    pub copies_us: f64,
    /// Time of the second kernel, which adds the partial sums if k is split into parts.
    pub sums_us: f64,
    /// Time of the waves of tiles over the SMs, from the tile's costs, its k and its stores.
    pub waves_us: f64,
    /// Time of the multiplications on the tensor cores of all SMs together.
    pub math_us: f64,
    /// Time of reading the tiles' lines from L2.
    pub l2_us: f64,
    /// Time of moving each byte once between DRAM and L2.
    pub dram_us: f64,
}

impl Estimate {
    /// Returns the time of the whole product in microseconds.
    pub fn us(&self) -> f64 {
        let body = limited([self.waves_us, self.math_us, self.l2_us, self.dram_us]);
        self.launches_us + self.copies_us + self.sums_us + body
    }
}

/// Constants of a device that are the same for all tiles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Limits {
    /// Microseconds for an SM to receive a line that TMA loads.
    line_us: f64,
    /// Microseconds for an SM to accept a line from TMA, whether the line is loaded for this SM alone or multicast to its cluster.
    receive_us: f64,
    /// Microseconds for L2 to deliver a line once more: SMs that read the same line at the same time wait for each other.
    same_line_us: f64,
    /// Microseconds for L2 to deliver a MiB to all SMs.
    l2_mib_us: f64,
    /// Microseconds to move a MiB from or to DRAM.
    dram_mib_us: f64,
    /// Microseconds for an SM to multiply a 64 x 64 tile over 128 bytes of k while all other SMs do the same, since all SMs share a power limit.
    tensor_us: f64,
    /// Factor that converts the costs of a tile on an H200's SM to costs on this device.
    slower: f64,
    /// Origin of the constants, as a phrase within a sentence.
    pub origin: &'static str,
}

const H200: Limits = Limits {
    line_us: 0.000_990,
    receive_us: 0.000_277,
    same_line_us: 0.0023,
    l2_mib_us: 0.0504,
    dram_mib_us: 0.215,
    tensor_us: 0.0757,
    slower: 1.0,
    origin: "",
};

/// An H100 has the same multiprocessors, slower memory, and a lower clock when all of them multiply. Rates of reads shared by many blocks were measured
/// only on an H200.
const H100: Limits = Limits {
    line_us: 0.000_890,
    receive_us: 0.000_470,
    same_line_us: 0.0023,
    l2_mib_us: 0.0890,
    dram_mib_us: 0.527,
    tensor_us: 0.0888,
    slower: 1.0,
    origin: "",
};

/// Number of SMs and clock of the devices on which the limits were measured.
const MEASURED_SMS: u32 = 132;
const MEASURED_MHZ: f64 = 1980.0;

impl Limits {
    /// Returns a device's constants, measured on an H200 and on an H100. For other devices, the constants of an H100 are scaled in proportion to SMs and clock,
    /// and `origin` says so.
    pub fn for_device(device: &DeviceInfo) -> Self {
        let is = |name: &str| device.name.split([' ', '-']).any(|word| word == name);
        let (nearest, is_known) = match (is("H200"), is("H100")) {
            (true, _) => (H200, true),
            (_, true) => (H100, true),
            _ => (H100, false),
        };
        let slower = device.max_sm_mhz.map_or(1.0, |mhz| MEASURED_MHZ / f64::from(mhz.max(1)));
        if is_known && device.multiprocessors == MEASURED_SMS && slower == 1.0 {
            return nearest;
        }
        let all = slower * f64::from(MEASURED_SMS) / f64::from(device.multiprocessors.max(1));
        Self {
            line_us: nearest.line_us * slower,
            receive_us: nearest.receive_us * slower,
            same_line_us: nearest.same_line_us * slower,
            l2_mib_us: nearest.l2_mib_us * all,
            dram_mib_us: nearest.dram_mib_us * all,
            tensor_us: nearest.tensor_us * slower,
            slower,
            origin: if is_known {
                ", in proportion to its SMs and clock"
            } else {
                ", in proportion to an H100's SMs and clock"
            },
        }
    }
}

/// Microseconds for an SM to store a line of C whose rows do not allow accesses of 16 bytes.
const UNALIGNED_LINE_US: f64 = 0.0234;

/// Microseconds for an SM to store 64 x 64 elements of C from registers.
const STORE_US: f64 = 0.131;

/// Factor for waves after the first if a block stores a large tile from registers: nothing overlaps its stores, and the order of the tiles does not reuse L2.
/// It also applies to lines of C that are stored in pieces.
const LARGE_FROM_REGISTERS: f64 = 1.11;

/// Fixed time of a transposing copy, and time for each MiB, in microseconds.
const TRANSPOSE_US: [f64; 2] = [4.0, 0.7];

/// Fixed time of a copy into rows of a multiple of 16 bytes, and time for each MiB, in microseconds. One launch copies both operands.
const REPACK_US: [f64; 2] = [1.57, 0.558];

/// Fixed time of adding the sums of all parts of k, and time for each MiB of sums, in microseconds.
const SUM_US: [f64; 2] = [1.03, 0.329];

/// Microseconds of a launch and of a wave, for tiles without measured costs.
const DERIVED_US: [f64; 2] = [1.7, 2.0];

/// Share of an SM's multiply-adds that warp instructions and CUDA cores reach, about as in the ladder's rungs.
const REACHED: f64 = 0.6;

/// Derives the costs of a tile that was not measured from an SM's multiply-adds per cycle at the device's highest clock.
pub(crate) fn derived(tile: &Tile, can: &Capabilities, product: &Product, device: &DeviceInfo) -> Cost {
    let bytes = product.form.dtype.bytes() as f64;
    let of_cuda_cores = if device.compute_capability <= Some((8, 0)) { 64.0 } else { 128.0 };
    let of_tensor_cores = match device.compute_capability {
        Some((9 | 10, _)) => 2048.0,
        Some((8, 0)) => 1024.0,
        _ => 512.0,
    };
    let multiply_adds = if can.takes(Dtype::F32) { of_cuda_cores } else { of_tensor_cores * 2.0 / bytes };
    let mhz = f64::from(device.max_sm_mhz.unwrap_or(1500).max(1));
    let (rows, columns) = (tile.size(Dim::Bm), tile.size(Dim::Bn));
    let tiles = u64::from(product.m).div_ceil(rows) * u64::from(product.n).div_ceil(columns);
    // Blocks on the same SM share its rate.
    let at_once = if can.hides_stalls { tile.size(Dim::BlocksPerSm) } else { 1 };
    let sharing = tiles.div_ceil(u64::from(device.multiprocessors.max(1))).clamp(1, at_once) as f64;
    let area = (rows * columns) as f64;
    // A block's loads arrive at 64 bytes per cycle.
    let multiplied = area * LINE_BYTES as f64 / bytes / (multiply_adds * REACHED);
    let loaded = (rows + columns) as f64 * LINE_BYTES as f64 / 64.0;
    let k_us = sharing * (multiplied + loaded) / mhz;
    let [launch_us, wave_us] = DERIVED_US;
    // The cost is as if measured on an H200, since all costs are scaled by the clock.
    let slower = Limits::for_device(device).slower;
    Cost { tile: "", launch_us, wave_us: wave_us / slower, k_us: k_us / slower }
}

/// Returns how many of `sms` SMs are filled by clusters of this many blocks, since the SMs left over in a GPC are too few for another cluster. Measured on the
/// 132 SMs of an H200, where 40 clusters of three and 18 of six take as long as two waves.
fn filled_by_clusters(sms: u64, blocks: u64) -> u64 {
    let filled = match blocks {
        0..=2 => 132,
        3 => 117,
        6 => 102,
        _ => 120,
    };
    (sms * filled / 132).max(blocks)
}

/// Estimates a product with a row's tile. Returns `None` if its copies or its sums do not fit into the workspace, or if the rung cuts tiles along k, which is
/// never the fastest.
pub(crate) fn estimate(
    cost: &Cost,
    tile: &Tile,
    can: &Capabilities,
    product: &Product,
    device: &DeviceInfo,
    limits: &Limits,
) -> Option<Estimate> {
    let by_tma = can.operands != Operands::Addresses;
    let layouts = if by_tma { Layouts::new(product, tile, can.operands, [true; 2])? } else { Layouts::none(product) };
    let situation = Situation { cost, tile, can, product, device, limits, layouts: &layouts };
    match (can.streams, can.in_parts) {
        (true, _) => None,
        (_, true) => situation.best_parts().map(|(estimate, _)| estimate),
        _ => Some(situation.estimate(None)),
    }
}

/// Divides a product's k for a row's tile into the parts with the least expected time. Returns `None` if the sums do not fit into the workspace.
pub(crate) fn divide_k(
    row: &Row,
    tile: &Tile,
    product: &Product,
    device: &DeviceInfo,
    layouts: &Layouts,
) -> Option<Parts> {
    let (can, limits) = (row.capabilities()?, &Limits::for_device(device));
    let measured = measured_cost(row, tile, product, device);
    let cost = &measured.unwrap_or_else(|| derived(tile, can, product, device));
    Situation { cost, tile, can, product, device, limits, layouts }.best_parts().map(|(_, parts)| parts)
}

/// A tile, a product and a device, for which times are estimated.
struct Situation<'s> {
    cost: &'s Cost,
    tile: &'s Tile,
    can: &'s Capabilities,
    product: &'s Product,
    device: &'s DeviceInfo,
    limits: &'s Limits,
    layouts: &'s Layouts,
}

impl Situation<'_> {
    /// Returns the least estimate over all numbers of parts of k, and the parts that give it.
    fn best_parts(&self) -> Option<(Estimate, Parts)> {
        let all = (1..=Parts::MOST).filter_map(|count| Parts::new(self.product, self.tile, self.layouts, count));
        let timed = all.map(|parts| (self.estimate(Some(&parts)), parts));
        timed.min_by(|a, b| a.0.us().total_cmp(&b.0.us()))
    }

    /// Returns the estimate with these parts of k.
    fn estimate(&self, parts: Option<&Parts>) -> Estimate {
        let Self { cost, tile, can, product, device, limits, layouts } = *self;
        let by_tma = can.operands != Operands::Addresses;
        let panel = parts.map_or(layouts.panel, |parts| parts.panel);
        let sms = u64::from(device.multiprocessors).max(1);
        let blocks_per_sm = if can.hides_stalls { tile.size(Dim::BlocksPerSm) } else { 1 };
        let split = tile.size(Dim::Split) * parts.map_or(1, |parts| parts.count.into());
        let bytes = product.form.dtype.bytes();
        let at_once = filled_by_clusters(sms, tile.cluster_blocks()) * blocks_per_sm;
        let (blocks, waves) = blocks_and_waves(tile, product, panel, split, at_once);
        let k_blocks = (u64::from(product.k) * bytes).div_ceil(LINE_BYTES).div_ceil(split) as f64;
        let share = blocks_per_sm as f64;

        // In a wave, 128 bytes of k take the tile's cost or the time of waiting for lines. Loads by threads are part of the tile's costs.
        let [lines, received] = if by_tma { lines_loaded(tile, can, product, layouts.copies) } else { [0.0; 2] };
        // Number of resident clusters that work on the same part of k.
        let alike = (at_once / (tile.size(Dim::Cluster) * split).max(1)).max(1);
        let readers = if by_tma { readers_of_a_line(tile, can, product, layouts.copies, alike as f64) } else { 0.0 };
        let k_us = limited([
            cost.k_us * limits.slower,
            limits.line_us * lines * share,
            limits.receive_us * received * share,
            limits.same_line_us * readers,
        ]);

        // A block's stores take longer if nothing overlaps them.
        let from_registers = can.operands == Operands::TensorMaps;
        let is_large = from_registers && tile.size(Dim::Bm) * tile.size(Dim::Bn) >= 128 * 192;
        let later = if is_large { LARGE_FROM_REGISTERS } else { 1.0 };
        // Rows of partial sums begin at multiples of 16 bytes.
        let in_pieces = if by_tma && parts.is_none() { unaligned_lines(tile, product) } else { 0.0 };
        let whole = if from_registers { stored(tile, product) } else { 0.0 };
        let stores_us = (later * UNALIGNED_LINE_US * in_pieces + STORE_US * whole) * share * limits.slower;

        let area = if by_tma { (tile.size(Dim::Bm) * tile.size(Dim::Bn)) as f64 / 4096.0 } else { 0.0 };
        let elements: usize = product.elements().into_iter().sum();
        let [rows, columns] = panels(product, panel);
        let sum_us = parts.map_or(0.0, |parts| SUM_US[0] + SUM_US[1] * mib(parts.bytes as f64));
        Estimate {
            launches_us: rows * columns * cost.launch_us,
            copies_us: copies_us(layouts.copies, [rows, columns]),
            sums_us: rows * columns * sum_us,
            waves_us: (1.0 + (waves - 1.0) * later) * (cost.wave_us * limits.slower + k_blocks * k_us + stores_us),
            math_us: blocks * k_blocks * area / sms as f64 * limits.tensor_us,
            l2_us: blocks * k_blocks * lines * mib(LINE_BYTES as f64) * limits.l2_mib_us,
            dram_us: mib(elements as f64 * bytes as f64) * limits.dram_mib_us,
        }
    }
}

/// Returns the largest of these times, increased a little if other times are close to it, since two equally tight limits make each other worse.
fn limited<const N: usize>(us: [f64; N]) -> f64 {
    us.iter().map(|us| us.powi(4)).sum::<f64>().sqrt().sqrt()
}

fn mib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}

/// Returns the number of panels of rows and of columns.
fn panels(product: &Product, panel: [u32; 2]) -> [f64; 2] {
    [product.m.div_ceil(panel[0].max(1)), product.n.div_ceil(panel[1].max(1))].map(f64::from)
}

/// Returns the number of blocks of all panels, with `split` blocks for each tile, and the number of waves if `at_once` blocks are resident.
fn blocks_and_waves(tile: &Tile, product: &Product, panel: [u32; 2], split: u64, at_once: u64) -> (f64, f64) {
    let [down, across] = tile.cluster_shape();
    // Size and number of the whole panels, and of the remaining one.
    let parts = |whole: u32, panel: u32| {
        let panel = panel.max(1);
        [(panel, whole / panel), (whole % panel, 1)].map(|(size, count)| (u64::from(size), u64::from(count)))
    };
    let (mut blocks, mut waves) = (0, 0);
    for (m, rows) in parts(product.m, panel[0]) {
        for (n, columns) in parts(product.n, panel[1]) {
            let tiles = m.div_ceil(tile.size(Dim::Bm)).next_multiple_of(down)
                * n.div_ceil(tile.size(Dim::Bn)).next_multiple_of(across);
            let of_panel = tiles * split;
            blocks += of_panel * rows * columns;
            waves += of_panel.div_ceil(at_once) * rows * columns;
        }
    }
    (blocks as f64, waves as f64)
}

/// Returns the number of L2 lines that a block reads for 128 bytes of k, and the number that it receives, some of which other blocks of its cluster read. A row
/// that does not begin at the start of a line straddles two lines.
fn lines_loaded(tile: &Tile, can: &Capabilities, product: &Product, copies: [Option<Layout>; 2]) -> [f64; 2] {
    let (given, bytes) = (can.operands.given(product.form), product.form.dtype.bytes());
    let lines = |along_k: bool, size: u64, ld: u32| {
        // If the operand is stored along m or n, a box has one row for each k of the 128 bytes.
        let rows = if along_k { size } else { size.next_multiple_of(LINE_BYTES / bytes) };
        rows as f64 * (1.0 + straddling(ld, bytes))
    };
    let [lda, ldb] = row_lengths(product, copies);
    let [down, across] = tile.cluster_shape();
    let a = lines(!given.trans_a, tile.size(Dim::Bm).min(product.m.into()), lda);
    let b = lines(given.trans_b, tile.size(Dim::Bn).min(product.n.into()), ldb);
    [a / across as f64 + b / down as f64, a + b]
}

/// Returns the share of a row's 128-byte pieces that straddle two lines, for elements of this many bytes and rows `ld` elements apart.
fn straddling(ld: u32, bytes: u64) -> f64 {
    // Relative to lines, rows begin at all multiples of the largest power of two that divides the distance between rows.
    let step = 1u64 << (u64::from(ld) * bytes).trailing_zeros().min(LINE_BYTES.trailing_zeros());
    1.0 - step as f64 / LINE_BYTES as f64
}

/// Returns how often a line of A or B is read for 128 bytes of k while `clusters` clusters are resident, for the operand that is read more often. All tiles of
/// a row or of a column read a line, once for each of the operand's rows that share it.
fn readers_of_a_line(
    tile: &Tile,
    can: &Capabilities,
    product: &Product,
    copies: [Option<Layout>; 2],
    clusters: f64,
) -> f64 {
    let (given, bytes) = (can.operands.given(product.form), product.form.dtype.bytes());
    let [down, across] = tile.cluster_shape();
    let rows = u64::from(product.m).div_ceil(tile.size(Dim::Bm) * down) as f64;
    let columns = u64::from(product.n).div_ceil(tile.size(Dim::Bn) * across) as f64;
    let clusters = clusters.min(rows * columns);
    // Average number of rows that share a line, if rows are `ld` elements apart and a box has `elements` elements of each.
    let rows_of_a_line = |ld: u32, elements: u32| {
        let [pitch, row] = [ld, elements].map(|n| u64::from(n) * bytes);
        let straddling =
            if pitch.is_multiple_of(LINE_BYTES) { 0.0 } else { (row.min(LINE_BYTES) - 1) as f64 / LINE_BYTES as f64 };
        (1.0 + straddling) * (LINE_BYTES as f64 / pitch as f64).max(1.0)
    };
    let [lda, ldb] = row_lengths(product, copies);
    let a = columns.min(clusters) * rows_of_a_line(lda, if given.trans_a { product.m } else { product.k });
    let b = rows.min(clusters) * rows_of_a_line(ldb, if given.trans_b { product.k } else { product.n });
    a.max(b)
}

/// Returns the number of elements from one row to the next of A and of B, or of their copies.
fn row_lengths(product: &Product, copies: [Option<Layout>; 2]) -> [u32; 2] {
    let leading = |copy: Option<Layout>, ld: u32| copy.map_or(ld, |c| c.ld);
    [leading(copies[0], product.lda), leading(copies[1], product.ldb)]
}

/// Returns the number of pieces of 64 x 64 elements of C that a block stores.
fn stored(tile: &Tile, product: &Product) -> f64 {
    let [rows, columns] =
        [(Dim::Bm, product.m), (Dim::Bn, product.n)].map(|(dim, side)| tile.size(dim).min(side.into()));
    (rows * columns) as f64 / (4096 * tile.size(Dim::Split)) as f64
}

/// Returns the number of lines of C that a block stores in pieces; 0 if C's rows and its edge are at multiples of 16 bytes.
fn unaligned_lines(tile: &Tile, product: &Product) -> f64 {
    let (m, n, out) = (u64::from(product.m), u64::from(product.n), product.form.out.bytes());
    if (n * out).is_multiple_of(16) && (u64::from(product.ldc) * out).is_multiple_of(16) {
        return 0.0;
    }
    let lines = tile.size(Dim::Bm).min(m) * (tile.size(Dim::Bn).min(n) * out).div_ceil(LINE_BYTES);
    lines as f64 / tile.size(Dim::Split) as f64
}

/// Returns the microseconds of the operands' copies, for these numbers of panels of rows and of columns: A is copied once for each panel of rows.
fn copies_us(copies: [Option<Layout>; 2], [rows, columns]: [f64; 2]) -> f64 {
    let times = [rows, rows * columns];
    let together = in_one_launch(copies);
    let us = |(which, layout): (usize, Layout)| {
        let [launch, each] = if layout.transpose { TRANSPOSE_US } else { REPACK_US };
        // The launch of B's first copy also copies A.
        let launches = if which == 0 && together { 0.0 } else { times[which] };
        launches * launch + times[which] * each * mib(layout.bytes as f64)
    };
    copies.into_iter().enumerate().filter_map(|(which, layout)| Some((which, layout?))).map(us).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choose::tests::h200;
    use warpbook_kernels::matmul::{Form, rows};
    use warpbook_record::Dtype;

    fn product((m, n, k): (u32, u32, u32), trans_a: bool, trans_b: bool) -> Product {
        Product::new(m, n, k, Form { trans_a, trans_b, ..Form::plain(Dtype::Bf16) })
    }

    #[test]
    fn blocks_are_counted_in_clusters_and_panels() {
        let tile = Tile::new("t", &[("BM", 128), ("BN", 256), ("CLUSTER", 2), ("SPLIT", 1)]);
        let p = product((1000, 600, 64), false, false);
        assert_eq!(blocks_and_waves(&tile, &p, [1000, 600], 1, 132), (24.0, 1.0));
        assert_eq!(blocks_and_waves(&tile, &p, [1000, 600], 1, 10), (24.0, 3.0));
        // Two panels of 400 rows have four rows of tiles each, and one of 200 has two.
        assert_eq!(blocks_and_waves(&tile, &p, [400, 600], 1, 132), (30.0, 3.0));
        assert_eq!(panels(&p, [400, 600]), [3.0, 1.0]);
    }

    #[test]
    fn some_clusters_leave_more_sms_idle() {
        assert_eq!([1, 2, 3, 4, 6, 8].map(|blocks| filled_by_clusters(132, blocks)), [132, 132, 117, 120, 102, 120]);
        assert_eq!([1, 4].map(|blocks| filled_by_clusters(114, blocks)), [114, 103]);
        // A single cluster counts as running even on a small device.
        assert_eq!(filled_by_clusters(4, 8), 8);
    }

    /// More parts of k fill more SMs, until adding their sums costs more than it saves.
    #[test]
    fn a_long_k_has_as_many_parts_as_sms_are_left() {
        let row = rows().into_iter().find(|r| r.rung.id == "15d_split_over_workspace").unwrap();
        let can = row.capabilities().unwrap().clone();
        let tile = row.kernel().unwrap().tile("128x128s6c1").unwrap().clone();
        let h200 = h200();
        let count = |shape| {
            let p = product(shape, false, false);
            let layouts = Layouts::new(&p, &tile, can.operands, [true; 2]).unwrap();
            divide_k(&row, &tile, &p, &h200, &layouts).unwrap().count
        };
        // This product has 16 tiles for 132 SMs.
        assert_eq!(count((512, 512, 16384)), 8);
        // This product has 40 tiles for 132 SMs.
        assert_eq!(count((1024, 640, 16384)), 3);
        // These products have as many tiles as SMs, and a single tile with a short k.
        assert_eq!(count((1408, 1536, 4096)), 1);
        assert_eq!(count((128, 128, 64)), 1);
        // The row's own estimate uses these parts.
        let p = product((512, 512, 16384), false, false);
        let cost = Cost { tile: "", launch_us: 0.0, wave_us: 2.0, k_us: 0.27 };
        let us = |can: &Capabilities| estimate(&cost, &tile, can, &p, &h200, &Limits::for_device(&h200)).unwrap().us();
        let whole = Capabilities { in_parts: false, ..can.clone() };
        assert!(us(&can) < us(&whole) / 3.0, "{}", us(&can));
    }

    /// A product limited by memory takes longer on an H100 than on an H200. The limits of unknown devices are derived from an H100's, and say so.
    #[test]
    fn what_tiles_share_depends_on_the_device() {
        let row = rows().into_iter().find(|r| r.rung.id == "14_overlapped_store").unwrap();
        let tile = row.kernel().unwrap().tile("128x256s4c1g8").unwrap().clone();
        let cost = row.costs.as_ref().unwrap().tiles.iter().find(|c| c.tile == "128x256s4c1g8").unwrap();
        let us = |device: &DeviceInfo| {
            let p = product((16384, 16384, 64), false, false);
            estimate(cost, &tile, row.capabilities().unwrap(), &p, device, &Limits::for_device(device)).unwrap().us()
        };
        let named = |name: &str| DeviceInfo { name: name.into(), ..h200() };
        assert!(us(&named("NVIDIA H100 80GB HBM3")) > 1.5 * us(&named("NVIDIA H200")));
        for known in ["NVIDIA H200", "NVIDIA H100 80GB HBM3"] {
            assert_eq!(Limits::for_device(&named(known)).origin, "", "{known}");
        }
        for other in ["NVIDIA GH200 480GB", "NVIDIA H20", "NVIDIA GeForce RTX 4090"] {
            assert!(Limits::for_device(&named(other)).origin.contains("an H100's"), "{other}");
            assert_eq!(us(&named(other)), us(&named("NVIDIA H100 80GB HBM3")));
        }
        // At half the clock, work takes twice as long; with half of the SMs, the memory has half the rate.
        let slow = DeviceInfo { max_sm_mhz: Some(990), ..named("NVIDIA H200") };
        let (slow, whole) = (Limits::for_device(&slow), Limits::for_device(&named("NVIDIA H200")));
        assert_eq!((slow.line_us, slow.slower), (2.0 * whole.line_us, 2.0));
        let half = Limits::for_device(&DeviceInfo { multiprocessors: 66, ..named("NVIDIA H200") });
        assert_eq!((half.dram_mib_us, half.line_us), (2.0 * whole.dram_mib_us, whole.line_us));
        assert!(half.origin.contains("its SMs"));
    }

    /// Checks the terms of the estimate for a thin product limited by memory, and for a cube.
    #[test]
    fn terms_say_what_limits_a_product() {
        let row = rows().into_iter().find(|r| r.rung.id == "14_overlapped_store").unwrap();
        let tile = row.kernel().unwrap().tile("128x256s4c1g8").unwrap().clone();
        let cost = row.costs.as_ref().unwrap().tiles.iter().find(|c| c.tile == "128x256s4c1g8").unwrap();
        let device = h200();
        let estimated = |shape| {
            let p = product(shape, false, false);
            estimate(cost, &tile, row.capabilities().unwrap(), &p, &device, &Limits::for_device(&device)).unwrap()
        };
        let (thin, cube) = (estimated((16384, 16384, 64)), estimated((8192, 8192, 8192)));
        assert!(thin.dram_us > thin.math_us && cube.math_us > 5.0 * cube.dram_us, "{thin:?} {cube:?}");
        assert_eq!((cube.copies_us, cube.sums_us, cube.launches_us), (0.0, 0.0, cost.launch_us));
        // Several equally tight limits make each other worse.
        let most = cube.waves_us.max(cube.math_us);
        assert!(cube.us() > most && cube.us() < 2.0 * most);
        assert!(estimated((8191, 8191, 8191)).copies_us > 0.0);
    }

    /// Both operands are copied by one launch, unless one is transposed on the way.
    #[test]
    fn copies_share_a_launch() {
        let layout = |transpose| Layout { transpose, ld: 8, offset: 0, bytes: 1 << 20 };
        let us = |a: Option<bool>, b: Option<bool>, panels| copies_us([a, b].map(|copy| copy.map(layout)), panels);
        let [launch, each] = REPACK_US;
        let close = |us: f64, expected: f64| assert!((us - expected).abs() < 1e-9, "{us} {expected}");
        close(us(None, None, [1.0, 1.0]), 0.0);
        close(us(Some(false), None, [1.0, 1.0]), launch + each);
        close(us(Some(false), Some(false), [1.0, 1.0]), launch + 2.0 * each);
        // With two panels of rows and three of columns A is copied twice and B six times; one copy of A shares the first launch of B.
        close(us(Some(false), Some(false), [2.0, 3.0]), 6.0 * launch + 8.0 * each);
        close(us(Some(true), Some(false), [1.0, 1.0]), TRANSPOSE_US[0] + TRANSPOSE_US[1] + launch + each);
    }

    #[test]
    fn rows_that_straddle_lines_are_read_twice() {
        let can = rows().iter().find(|r| r.rung.id == "15_split_k").unwrap().capabilities().unwrap().clone();
        let tile = Tile::new("t", &[("BM", 128), ("BN", 64)]);
        let lines = |p: Product| lines_loaded(&tile, &can, &p, [None; 2])[0];
        assert_eq!(lines(product((512, 512, 512), false, false)), 192.0);
        // Every other row of A begins in the middle of a line.
        assert_eq!(lines(product((512, 512, 480), false, false)), 128.0 * 1.5 + 64.0);
        // If A is transposed, a box has a row for each k, however few rows of m remain.
        assert_eq!(lines(product((70, 512, 512), true, false)), 128.0 * (2.0 - 4.0 / 128.0) + 64.0);
        assert_eq!(lines(product((70, 512, 512), false, false)), 70.0 + 64.0);
        // In a cluster of two tiles side by side each block reads half of A and all of its own B, and receives all of both.
        let pair = Tile::new("t", &[("BM", 128), ("BN", 64), ("CLUSTER", 2), ("CLUSTER_N", 2)]);
        assert_eq!(lines_loaded(&pair, &can, &product((512, 512, 512), false, false), [None; 2]), [128.0, 192.0]);
    }

    /// All tiles of a row read the same rows of A, and rows of 48 bytes share lines.
    #[test]
    fn lines_that_all_blocks_read_are_counted() {
        let can = rows().iter().find(|r| r.rung.id == "15_split_k").unwrap().capabilities().unwrap().clone();
        let tile = Tile::new("t", &[("BM", 64), ("BN", 64)]);
        let readers = |p: Product, clusters| readers_of_a_line(&tile, &can, &p, [None; 2], clusters);
        assert_eq!(readers(product((64, 6400, 128), false, false), 132.0), 100.0);
        assert_eq!(readers(product((64, 64 * 200, 128), false, false), 132.0), 132.0);
        assert_eq!(readers(product((6400, 64, 128), false, false), 132.0), 100.0);
        let narrow = readers(product((24, 6400, 128), true, false), 132.0);
        assert!((narrow - 100.0 * (1.0 + 47.0 / 128.0) * 128.0 / 48.0).abs() < 1e-9, "{narrow}");
    }

    #[test]
    fn what_is_stored_in_pieces_is_counted() {
        let tile = Tile::new("t", &[("BM", 128), ("BN", 64), ("SPLIT", 2)]);
        assert_eq!(unaligned_lines(&tile, &product((512, 512, 64), false, false)), 0.0);
        assert_eq!(unaligned_lines(&tile, &product((512, 511, 64), false, false)), 64.0);
        assert_eq!(unaligned_lines(&tile, &product((512, 33, 64), false, false)), 64.0);
    }
}

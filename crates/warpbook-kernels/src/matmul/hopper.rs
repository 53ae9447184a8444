//! The rungs on Hopper's tensor cores.

use super::hopper_tiles as table;
use super::hopper_tiles::{specialised, stored_directly, stored_through_shared, unspecialised};
use super::row::{kernel_row, on_tensor_cores};
use super::{Capabilities, Figure, Operands, Row};
use crate::shared::source;
use warpbook_record::{Dtype, Grid, KernelSpec, Requires, Source, Tile};

/// Returns the hardware that architecture-specific instructions of Hopper require.
fn hopper() -> Requires {
    Requires::Exactly("sm_90a".into())
}

const WGMMA: Source = source!("matmul/11_wgmma_tma.cu");
const SPECIALISED: Source = source!("matmul/12_warp_specialised.cu");
const PERSISTENT: Source = source!("matmul/13_persistent_cluster.cu");
const OVERLAPPED: Source = source!("matmul/14_overlapped_store.cu");
const SPLIT_K: Source = source!("matmul/15_split_k.cu");
const GENERAL: Source = source!("matmul/hopper_general.cu");
const TF32_REGISTERS: Source = source!("matmul/16_tf32_registers.cu");
const UNALIGNED: Source = source!("matmul/17_unaligned.cu");
const STREAM_K: Source = source!("matmul/18_stream_k.cu");

/// Makes a kernel that uses Hopper's architecture-specific instructions.
fn kernel(source: Source, tiles: &[Tile], grid: Grid) -> KernelSpec {
    KernelSpec::new(source, "gemm", tiles, grid).needs(hopper())
}

fn persistent_cluster() -> [Tile; 3] {
    ["128x256s4c2g8", "128x256s4c1g8", "128x128s6c2g8"].map(stored_directly)
}

fn stream_k() -> [Tile; 9] {
    let ids = [
        "128x256s4c1g8",
        "128x256s4c2g8",
        "128x192s4c1g8",
        "128x192s4c2g8",
        "192x128s4c1g8",
        "128x128s6c1g8",
        "128x128s6c2g8",
        "128x64s8c1g8",
        "64x192s6c1g16",
    ];
    ids.map(stored_through_shared)
}

/// Sets the capabilities of the kernel for unaligned rows: operands are passed by address, and only
/// 16-bit types are supported.
fn on_unaligned_rows(c: &mut Capabilities) {
    on_tensor_cores(Operands::Addresses, true)(c);
    c.dtypes.retain(|(dtype, _)| dtype.bytes() == 2);
}

const TENSOR_TYPES: [Dtype; 3] = [Dtype::F16, Dtype::Bf16, Dtype::Tf32];

/// Returns the rungs on Hopper's tensor cores that use warpgroup-level instructions.
pub(super) fn on_hopper() -> Vec<Row> {
    [with_whole_k(), in_one_wave(), with_other_operands()].into_iter().flatten().collect()
}

/// Returns the rungs up to `14_overlapped_store`, which do not split k among blocks.
fn with_whole_k() -> Vec<Row> {
    vec![
        kernel_row(
            "11_wgmma_tma",
            "wgmma and TMA",
            "A copy engine (TMA) loads whole tiles, and a warpgroup of 128 threads multiplies them directly from shared memory.",
            hopper(),
            kernel(WGMMA, &["128x128s4", "128x64s6", "64x64s8"].map(unspecialised), Grid::Tiles),
        )
        .can(on_tensor_cores(Operands::TensorMaps, false))
        .drawn(Figure::Warpgroup),
        kernel_row(
            "12_warp_specialised",
            "Warp-specialised",
            "One warpgroup only loads, the others only multiply.",
            hopper(),
            kernel(SPECIALISED, &["128x256s4", "128x128s6", "64x256s5"].map(specialised), Grid::Tiles),
        )
        .can(on_tensor_cores(Operands::TensorMaps, false))
        .drawn(Figure::Specialisation),
        kernel_row(
            "13_persistent_cluster",
            "Persistent, in clusters",
            "Persistent blocks compute many tiles, in an order that reuses L2, and the blocks of a cluster load shared tiles once.",
            hopper(),
            kernel(PERSISTENT, &persistent_cluster(), Grid::ResidentTiles),
        )
        .can(on_tensor_cores(Operands::TensorMaps, false))
        .drawn(Figure::ClusterOrder)
        .tuned(),
        kernel_row(
            "14_overlapped_store",
            "Stores overlapped",
            "Sums are stored through shared memory and TMA while the next tile is multiplied.",
            hopper(),
            kernel(OVERLAPPED, &table::OVERLAPPED_STORE.tiles, Grid::ResidentTiles),
        )
        .can(on_tensor_cores(Operands::TensorMapsAndC, true))
        .drawn(Figure::OverlappedStore)
        .tuned()
        .costing(&TENSOR_TYPES, hopper(), &table::OVERLAPPED_STORE.costs),
    ]
}

/// Returns the rungs that aim at a single wave of blocks, by splitting k among several blocks or by
/// using small tiles.
fn in_one_wave() -> Vec<Row> {
    vec![
        kernel_row(
            "15_split_k",
            "Split k",
            "The blocks of a cluster split the k of one tile and add their partial sums through distributed shared memory.",
            hopper(),
            kernel(SPLIT_K, &table::SPLIT_K.tiles, Grid::Tiles),
        )
        .can(on_tensor_cores(Operands::TensorMaps, true))
        .drawn(Figure::SplitK)
        .tuned()
        .costing(&TENSOR_TYPES, hopper(), &table::SPLIT_K.costs),
        kernel_row(
            "15b_small_tiles",
            "Small tiles",
            "The kernel of split k with the whole k in one block: tiles small enough that every SM gets one, or two at once.",
            hopper(),
            kernel(GENERAL, &table::SMALL_TILES.tiles, Grid::Tiles),
        )
        .can(on_tensor_cores(Operands::TensorMaps, true))
        .drawn(Figure::SplitK)
        .tuned()
        .costing(&TENSOR_TYPES, hopper(), &table::SMALL_TILES.costs),
        kernel_row(
            "15c_transposed_product",
            "The transposed product",
            "The kernel of split k on C^T = B^T A^T: an instruction's 64 rows are columns of C, so that a tile has any multiple of 16 rows.",
            hopper(),
            kernel(GENERAL, &table::TRANSPOSED_PRODUCT.tiles, Grid::Tiles),
        )
        .can(|c| {
            on_tensor_cores(Operands::TensorMaps, true)(c);
            c.dtypes.retain(|(dtype, _)| dtype.bytes() == 2);
            c.out_bytes = Some(2);
        })
        .drawn(Figure::SplitK)
        .tuned()
        .costing(&[Dtype::F16, Dtype::Bf16], hopper(), &table::TRANSPOSED_PRODUCT.costs),
        kernel_row(
            "15d_split_over_workspace",
            "Split k over the workspace",
            "The kernel of split k in any number of parts: each leaves its sums in the workspace, and a second kernel adds them.",
            hopper(),
            kernel(GENERAL, &table::SPLIT_OVER_WORKSPACE.tiles, Grid::Tiles),
        )
        .can(|c| {
            on_tensor_cores(Operands::TensorMaps, true)(c);
            c.in_parts = true;
        })
        .drawn(Figure::SplitK)
        .tuned()
        .costing(&TENSOR_TYPES, hopper(), &table::SPLIT_OVER_WORKSPACE.costs),
    ]
}

/// Returns the rungs that load operands in a different way, or split tiles along k.
fn with_other_operands() -> Vec<Row> {
    vec![
        kernel_row(
            "16_tf32_registers",
            "tf32 through registers",
            "The tensor cores read B through registers, in the order in which it is stored, so no copy transposes it first.",
            hopper(),
            kernel(TF32_REGISTERS, &table::TF32_REGISTERS.tiles, Grid::ResidentTiles),
        )
        .can(|c| {
            on_tensor_cores(Operands::BInRegisters, true)(c);
            c.dtypes = vec![(Dtype::Tf32, Requires::Nothing)];
            c.out_bytes = Some(4);
        })
        .drawn(Figure::RegisterOperand)
        .tuned()
        .costing(&[Dtype::Tf32], hopper(), &table::TF32_REGISTERS.costs),
        kernel_row(
            "17_unaligned",
            "Unaligned rows",
            "Rows that begin anywhere are read by aligned loads and shifted in registers, so no copy comes before a small product.",
            Requires::AtLeast(9, 0),
            KernelSpec::new(UNALIGNED, "gemm", &table::UNALIGNED.tiles, Grid::Tiles),
        )
        .can(on_unaligned_rows)
        .drawn(Figure::Swizzle)
        .tuned()
        .costing(&[Dtype::F16, Dtype::Bf16], hopper(), &table::UNALIGNED.costs),
        kernel_row(
            "17b_unaligned_in_parts",
            "Unaligned rows, k in parts",
            "The kernel of unaligned rows with k in any number of parts: a few long rows fill the chip, and a second kernel adds the sums.",
            Requires::AtLeast(9, 0),
            KernelSpec::new(UNALIGNED, "gemm", &table::UNALIGNED_IN_PARTS.tiles, Grid::Tiles),
        )
        .can(|c| {
            on_unaligned_rows(c);
            c.in_parts = true;
        })
        .drawn(Figure::SplitK)
        .tuned()
        .costing(&[Dtype::F16, Dtype::Bf16], hopper(), &table::UNALIGNED_IN_PARTS.costs),
        kernel_row(
            "18_stream_k",
            "Stream-k",
            "The tiles of the last waves are cut along k so that every SM multiplies as much, and partial sums meet in the workspace.",
            hopper(),
            kernel(STREAM_K, &stream_k(), Grid::ResidentTiles),
        )
        .can(|c| {
            on_tensor_cores(Operands::TensorMapsAndC, true)(c);
            c.streams = true;
        })
        .drawn(Figure::SplitK)
        .tuned(),
    ]
}

//! Products whose k is divided into parts. Each part writes its sums of C to the workspace, and another kernel adds them.

use crate::Product;
use crate::plan::copies::Layouts;
use warpbook_kernels::matmul::WORKSPACE_BYTES;
use warpbook_record::{Dim, Tile};

/// Bytes of k in a stage of the kernel; a part has at least one stage.
const STAGE_BYTES: u64 = 128;
/// Number of columns that a thread adds, which form one word of 16 bytes.
pub(crate) const COLUMNS: u32 = 4;

/// The parts into which k is divided, and the location of their sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    pub count: u32,
    /// Number of elements from one row of a part's sums to the next.
    pub ld: u32,
    /// Offset of the sums in the workspace, after the copies; f32 `[count][rows of the panel][ld]`.
    pub offset: u64,
    /// Size of the sums in bytes.
    pub bytes: u64,
    /// Number of rows of op(A) and of columns of op(B) that are multiplied at a time; all rows and columns if the sums and the copies fit into the workspace.
    pub panel: [u32; 2],
}

impl Parts {
    /// Largest number of parts; adding the sums of more parts would take longer than the products.
    pub const MOST: u32 = 16;

    /// Returns the layout of `count` parts; `None` if a block would have no terms to add, or if the workspace is too small for the sums of even one row of
    /// tiles.
    pub fn new(product: &Product, tile: &Tile, layouts: &Layouts, count: u32) -> Option<Self> {
        let stages = (u64::from(product.k) * product.form.dtype.bytes()).div_ceil(STAGE_BYTES);
        if count == 0 || (count > 1 && u64::from(count) * tile.size(Dim::Split) > stages) {
            return None;
        }
        let room = WORKSPACE_BYTES.checked_sub(layouts.end())?;
        let step = u32::try_from(tile.size(Dim::Bm) * tile.size(Dim::Cluster)).unwrap_or(u32::MAX);
        let [mut rows, columns] = layouts.panel;
        let ld = columns.next_multiple_of(COLUMNS);
        let bytes = |rows: u32| u64::from(count) * u64::from(rows) * u64::from(ld) * 4;
        while bytes(rows) > room {
            if rows <= step {
                return None;
            }
            rows = (rows / 2).next_multiple_of(step);
        }
        Some(Self { count, ld, offset: layouts.end(), bytes: bytes(rows), panel: [rows, columns] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_kernels::matmul::{Form, Operands};
    use warpbook_record::Dtype;

    fn tile() -> Tile {
        Tile::new("t", &[("BM", 128), ("BN", 128), ("CLUSTER", 4)])
    }

    fn parts((m, n, k): (u32, u32, u32), count: u32) -> Option<Parts> {
        let product = Product::new(m, n, k, Form::plain(Dtype::Bf16));
        Parts::new(&product, &tile(), &Layouts::new(&product, &tile(), Operands::TensorMaps, [true; 2])?, count)
    }

    #[test]
    fn sums_lie_behind_the_copies_in_rows_of_16_bytes() {
        let found = parts((100, 70, 640), 3).unwrap();
        // B's rows of 140 bytes are copied into rows of 144.
        let copy = (640u64 * 72 * 2).next_multiple_of(1024);
        assert_eq!((found.count, found.ld, found.offset, found.panel), (3, 72, copy, [100, 70]));
        assert_eq!(found.bytes, 3 * 100 * 72 * 4);
    }

    #[test]
    fn every_part_has_some_of_k() {
        assert!(parts((64, 64, 640), 10).is_some());
        assert_eq!(parts((64, 64, 640), 11), None);
        assert_eq!(parts((64, 64, 640), 0), None);
        // A single part is always possible.
        assert!(parts((64, 64, 8), 1).is_some());
    }

    #[test]
    fn sums_of_a_large_matrix_are_divided_into_panels_of_rows() {
        let whole = parts((4096, 4096, 4096), 1).unwrap();
        assert_eq!((whole.panel, whole.bytes), ([4096, 4096], 64 << 20));
        let halves = parts((4096, 4096, 4096), 2).unwrap();
        assert_eq!((halves.panel, halves.bytes), ([2048, 4096], 64 << 20));
        let thirds = parts((5000, 4096, 4096), 3).unwrap();
        assert!(thirds.bytes <= WORKSPACE_BYTES && thirds.panel[0].is_multiple_of(512), "{thirds:?}");
        // The sums of four rows of tiles with 16384 columns in 16 parts do not fit.
        assert_eq!(parts((16384, 16384, 16384), 16), None);
    }
}

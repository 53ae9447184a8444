//! Copies of operands that a kernel cannot read as they are stored.

use crate::{Aligned, Product};
use warpbook_device::{CudaDevice, DevicePtr, Kernel, Result};
use warpbook_kernels::matmul::{Form, Operands, WORKSPACE_BYTES, repack};
use warpbook_record::{Dim, Tile};

/// Alignment in bytes of copies in the workspace, and of the partial sums after them.
const ALIGNMENT: u64 = 1024;

/// The copy of a panel of A or B into the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// True if the copy is transposed.
    pub transpose: bool,
    /// Number of elements from one row of the copy to the next.
    pub ld: u32,
    /// Offset of the copy in the workspace in bytes.
    pub offset: u64,
    /// Size of the copy in bytes.
    pub bytes: u64,
}

/// The operands to copy before a product, and the size of a panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layouts {
    /// The copies of A and B, if they are needed.
    pub copies: [Option<Layout>; 2],
    /// Number of rows of op(A) and of columns of op(B) in a panel; all rows and columns if the copies fit into the workspace.
    pub panel: [u32; 2],
}

/// The struct `Copy` of `kernels/matmul/repack.cu`: a matrix, its copy, and their shape.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct CopyArgs {
    pub from: DevicePtr,
    pub to: DevicePtr,
    pub rows: u32,
    pub columns: u32,
    pub ld_from: u32,
    pub ld_to: u32,
}

impl CopyArgs {
    /// A copy without rows, which does nothing.
    pub const NONE: Self =
        Self { from: DevicePtr::NULL, to: DevicePtr::NULL, rows: 0, columns: 0, ld_from: 0, ld_to: 0 };
}

/// Returns true if one launch copies both operands, which is the case if both are copied and neither is transposed.
pub(crate) fn in_one_launch(copies: [Option<Layout>; 2]) -> bool {
    copies.iter().all(|copy| copy.is_some_and(|layout| !layout.transpose))
}

/// A copy of an operand, with the kernel that makes it.
#[derive(Debug)]
pub(crate) struct OperandCopy {
    pub kernel: Kernel,
    pub layout: Layout,
}

impl OperandCopy {
    pub fn new(device: &CudaDevice, product: &Product, layout: Layout) -> Result<Self> {
        let spec = repack(product.form.dtype.bytes(), layout.transpose);
        Ok(Self { kernel: device.kernel(&spec, &spec.tiles[0])?, layout })
    }
}

impl Layouts {
    /// Returns layouts without copies.
    pub fn none(p: &Product) -> Self {
        Self { copies: [None; 2], panel: [p.m, p.n] }
    }

    /// Returns the layouts for a kernel whose operands are passed by tensor maps; `None` if the workspace is too small even for the panel of one
    /// tile.
    pub fn new(p: &Product, tile: &Tile, operands: Operands, aligned: Aligned) -> Option<Self> {
        let given = operands.given(p.form);
        let suits = |which: usize, ld: u32| aligned[which] && (u64::from(ld) * p.form.dtype.bytes()).is_multiple_of(16);
        let transpose = [p.form.trans_a != given.trans_a, p.form.trans_b != given.trans_b];
        let needed = [transpose[0] || !suits(0, p.lda), transpose[1] || !suits(1, p.ldb)];
        let mut layouts = Self::none(p);
        let mut offset = 0;
        for which in (0..2).filter(|which| needed[*which]) {
            // The copy of A leaves half of the workspace to B, or only the size of B's copy if that is smaller.
            let reserved = if which == 0 && needed[1] {
                let whole_b = bytes_of(p, given, 1, p.n).next_multiple_of(ALIGNMENT);
                whole_b.min(WORKSPACE_BYTES / 2 / ALIGNMENT * ALIGNMENT)
            } else {
                0
            };
            let room = WORKSPACE_BYTES - offset - reserved;
            let step = match which {
                0 => tile.size(Dim::Bm) * tile.size(Dim::Cluster),
                _ => tile.size(Dim::Bn),
            };
            let step = u32::try_from(step).unwrap_or(u32::MAX);
            let mut count = layouts.panel[which];
            while bytes_of(p, given, which, count) > room {
                if count <= step {
                    return None;
                }
                count = (count / 2).next_multiple_of(step);
            }
            let bytes = bytes_of(p, given, which, count);
            let (_, ld) = shape_of(p, given, which, count);
            layouts.copies[which] = Some(Layout { transpose: transpose[which], ld, offset, bytes });
            layouts.panel[which] = count;
            offset = (offset + bytes).next_multiple_of(ALIGNMENT);
        }
        Some(layouts)
    }

    /// Returns the offset of the free part of the workspace after the copies.
    pub fn end(&self) -> u64 {
        self.copies.iter().flatten().map(|c| (c.offset + c.bytes).next_multiple_of(ALIGNMENT)).max().unwrap_or(0)
    }
}

/// Returns the rows and the leading dimension of a copy of `count` rows of op(A), or of `count` columns of op(B).
fn shape_of(p: &Product, given: Form, which: usize, count: u32) -> (u32, u32) {
    let along_k = if which == 0 { !given.trans_a } else { given.trans_b };
    let (rows, columns) = if along_k { (count, p.k) } else { (p.k, count) };
    let in_16_bytes = u32::try_from(16 / given.dtype.bytes()).unwrap_or(1);
    (rows, columns.next_multiple_of(in_16_bytes))
}

fn bytes_of(p: &Product, given: Form, which: usize, count: u32) -> u64 {
    let (rows, ld) = shape_of(p, given, which, count);
    u64::from(rows) * u64::from(ld) * given.dtype.bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_record::Dtype;

    fn tile() -> Tile {
        Tile::new("t", &[("BM", 128), ("BN", 256), ("CLUSTER", 2)])
    }

    fn layouts(p: Product, operands: Operands, aligned: Aligned) -> Option<Layouts> {
        Layouts::new(&p, &tile(), operands, aligned)
    }

    #[test]
    fn aligned_operands_are_read_where_they_are() {
        let p = Product::new(100, 64, 72, Form::plain(Dtype::Bf16));
        let none = layouts(p, Operands::TensorMaps, [true; 2]).unwrap();
        assert_eq!((none, none.end()), (Layouts::none(&p), 0));
        let a = layouts(p, Operands::TensorMaps, [false, true]).unwrap();
        let copy = Layout { transpose: false, ld: 72, offset: 0, bytes: 100 * 72 * 2 };
        assert_eq!((a.copies, a.panel), ([Some(copy), None], [100, 64]));
        assert_eq!(a.end(), (100u64 * 72 * 2).next_multiple_of(1024));
    }

    #[test]
    fn rows_are_rounded_up_to_16_bytes() {
        let p = Product::new(10, 31, 33, Form::plain(Dtype::Bf16));
        let both = layouts(p, Operands::TensorMaps, [true; 2]).unwrap();
        let a = Layout { transpose: false, ld: 40, offset: 0, bytes: 10 * 40 * 2 };
        let b = Layout { transpose: false, ld: 32, offset: 1024, bytes: 33 * 32 * 2 };
        assert_eq!(both.copies, [Some(a), Some(b)]);
    }

    #[test]
    fn tf32_is_transposed_to_what_the_kernel_reads() {
        let form = Form { trans_a: true, out: Dtype::F32, ..Form::plain(Dtype::Tf32) };
        let p = Product::new(64, 128, 32, form);
        let transposed = |operands| {
            let layouts = layouts(p, operands, [true; 2]).unwrap();
            layouts.copies.map(|c| c.map(|c| (c.transpose, c.ld)))
        };
        assert_eq!(transposed(Operands::TensorMapsAndC), [Some((true, 32)), Some((true, 32))]);
        assert_eq!(transposed(Operands::BInRegisters), [Some((true, 32)), None]);
    }

    #[test]
    fn large_operands_are_copied_in_panels() {
        let odd = |m, n, k| Product::new(m, n, k, Form::plain(Dtype::Bf16)).leading(k + 1, n + 1, n);
        let fits = |p: Product| {
            let layouts = layouts(p, Operands::TensorMaps, [true; 2]).unwrap();
            assert!(layouts.end() <= WORKSPACE_BYTES, "{p:?} takes {}", layouts.end());
            layouts.panel
        };
        assert_eq!(fits(odd(1024, 1024, 1024)), [1024, 1024]);
        assert_eq!(fits(odd(65536, 512, 512)), [32768, 512]);
        let [m, n] = fits(odd(16384, 16384, 16384));
        assert!(m < 16384 && n < 16384 && m.is_multiple_of(256) && n.is_multiple_of(256));
        // If k is this long, not even the panels of one tile fit.
        assert_eq!(layouts(odd(256, 256, 1 << 20), Operands::TensorMaps, [true; 2]), None);
    }
}

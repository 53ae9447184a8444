//! Kernels that matrix products use in addition to the multiplying kernel.

use super::Form;
use crate::shared::source;
use warpbook_record::{Dtype, Grid, KernelSpec, Source, Tile};

const COPY: Source = source!("matmul/repack.cu");
const TRANSPOSE: Source = source!("matmul/transpose.cu");
const COLUMN_SUMS: Source = source!("matmul/column_sums.cu");
const SUM_PARTS: Source = source!("matmul/sum_parts.cu");
const ADD_PARTIALS: Source = source!("matmul/add_partials.cu");
const REFERENCE: Source = source!("matmul/reference.cu");

/// Returns the kernel that copies a matrix so that its rows are aligned to 16 bytes; `element_bytes` is 2 or 4.
#[must_use]
pub fn repack(element_bytes: u64, transpose: bool) -> KernelSpec {
    let (source, entry, tile) = if transpose {
        (TRANSPOSE, "repack_transposed", Tile::new("t256", &[("THREADS", 256), ("BM", 64), ("BN", 64)]))
    } else {
        // Each row has 64 threads, each with 16 bytes.
        let columns = 64 * 16 / element_bytes.cast_signed();
        (COPY, "repack", Tile::new("t256", &[("THREADS", 256), ("BM", 4), ("BN", columns)]))
    };
    KernelSpec::new(source, entry, &[tile], Grid::Tiles).define("ELEMENT_BYTES", element_bytes.cast_signed())
}

/// Returns the kernel that sums the columns of op(B) over groups of `BM` rows: `column_sums(b, ldb, n, k, rows, alpha, beta, out)`. `dtype` is
/// the type in which B is stored.
#[must_use]
pub fn column_sums(dtype: Dtype, trans_b: bool) -> KernelSpec {
    let tile = Tile::new("t256", &[("THREADS", 256), ("BM", 256), ("BN", 32)]);
    Form { trans_b, ..Form::plain(dtype) }.apply_to(&KernelSpec::new(COLUMN_SUMS, "column_sums", &[tile], Grid::Tiles))
}

/// Entry point of [`sum_parts`], by which it can be found among the kernels of a measurement.
pub const SUM_PARTS_ENTRY: &str = "sum_parts";

/// Returns the kernel that adds the partial sums of C left in the workspace and applies the form's epilogue: `sum_parts(sums, parts, ld, c, m,
/// n, ldc, epilogue)`. Each thread computes four columns of a row.
#[must_use]
pub fn sum_parts(form: Form) -> KernelSpec {
    let tile = Tile::new("t256", &[("THREADS", 256)]);
    Form { out: form.out, epilogue: form.epilogue, ..Form::plain(Dtype::F32) }.apply_to(&KernelSpec::new(
        SUM_PARTS,
        SUM_PARTS_ENTRY,
        &[tile],
        Grid::Cover,
    ))
}

/// Returns the kernel that adds partial products in f32, for a C of type `out`: `add_partials(first, others, stride, count, out, n)`.
#[must_use]
pub fn add_partials(out: Dtype) -> KernelSpec {
    let tile = Tile::new("t256", &[("THREADS", 256), ("ITEMS", if out.bytes() == 2 { 8 } else { 4 })]);
    Form::plain(out).apply_to(&KernelSpec::new(ADD_PARTIALS, "add_partials", &[tile], Grid::Cover))
}

/// Returns the kernel that computes the reference product in f64.
#[must_use]
pub fn reference(form: Form) -> KernelSpec {
    let tile = Tile::new("t256", &[("THREADS", 256), ("BM", 64), ("BN", 64)]);
    let spec = KernelSpec::new(REFERENCE, "reference", &[tile], Grid::Tiles);
    form.apply_to(&spec).define("TF32", (form.dtype == Dtype::Tf32).into())
}

/// Returns the kernel that compares C with the reference.
#[must_use]
pub fn compare(form: Form) -> KernelSpec {
    let tile = Tile::new("t256", &[("THREADS", 256), ("ITEMS", 4), ("BLOCKS_PER_SM", 8)]);
    let spec = KernelSpec::new(REFERENCE, "compare", &[tile], Grid::Resident);
    form.apply_to(&spec).define("TF32", (form.dtype == Dtype::Tf32).into())
}

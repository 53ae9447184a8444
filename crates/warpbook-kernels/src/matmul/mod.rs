//! The rows of the matrix product's ladder: each rung with its kernel, capabilities, costs and figure.

mod cuda_cores;
mod form;
mod helpers;
mod hopper;
mod hopper_tiles;
mod row;
mod tile_table;

pub(crate) use form::type_number;
pub use form::{Epilogue, Form, Operands};
pub use helpers::{SUM_PARTS_ENTRY, add_partials, column_sums, compare, reference, repack, sum_parts};
pub(crate) use hopper_tiles::stored_through_shared;
pub use row::{Body, Capabilities, Cost, Costs, CpuBody, Fallback, Figure, Row};
use row::{cpu_row, library_row, plain_row, rung};
use warpbook_record::{Dtype, KernelSpec, Problem, Requires, Rung, Runner, Size, SweepPoint, count, setting};

/// The shapes (m, n, k) of the published record: cubes, sizes without alignment, and thin matrices.
pub const SHAPES: [(u64, u64, u64); 13] = [
    (256, 256, 256),
    (512, 512, 512),
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (16384, 16384, 16384),
    (1000, 1000, 1000),
    (4097, 4095, 4093),
    (128, 8192, 8192),
    (8192, 8192, 128),
    (64, 4096, 11008),
    (65536, 512, 512),
];
/// Shapes of the published record, in bf16, for which no tile was tuned: a cube whose size is between the others, and a product whose sizes are not
/// powers of two.
pub const UNTUNED: [(u64, u64, u64); 2] = [(1536, 1536, 1536), (3000, 5000, 7000)];
/// The linear layers of the trained networks as (images, inputs, outputs): those of the MNIST CNN at its two batch sizes, of the CIFAR-10 CNN at its
/// two batch sizes, and of the AMP recipe.
pub const LAYERS: [(u64, u64, u64); 7] = [
    (512, 9216, 128),
    (1024, 9216, 128),
    (512, 128, 10),
    (128, 2048, 512),
    (512, 2048, 512),
    (512, 512, 10),
    (512, 4096, 4096),
];
/// Edge length of the cube that is measured by default.
pub const STANDARD_EDGE: u64 = 4096;
/// Number of algorithms requested from cuBLASLt. Each of them is timed, and the fastest gives the result.
pub const LT_ALGORITHMS: usize = 32;
/// Largest workspace of a product in bytes, for Warpbook's kernels and for NVIDIA's libraries alike.
pub const WORKSPACE_BYTES: u64 = 64 << 20;

/// Returns the sizes (m, n, k) of a matrix product.
#[must_use]
pub fn shape_of(problem: &Problem) -> Option<(u64, u64, u64)> {
    Some((problem.count("m")?, problem.count("n")?, problem.count("k")?))
}

/// Returns whether A and B are stored transposed.
#[must_use]
pub fn transposed(problem: &Problem) -> (bool, bool) {
    (problem.count("trans_a").is_some(), problem.count("trans_b").is_some())
}

/// Describes C = op(A) op(B) for a record. It counts a multiplication and an addition for each of the m n k terms, and moves A, B and C once.
#[must_use]
pub fn problem((m, n, k): (u64, u64, u64), dtype: Dtype, (trans_a, trans_b): (bool, bool), seed: u64) -> Problem {
    let mut sizes: Vec<Size> = vec![count("m", m, "rows"), count("n", n, "columns"), count("k", k, "terms")];
    let flags = [("trans_a", trans_a), ("trans_b", trans_b)];
    sizes.extend(flags.into_iter().filter(|(_, is)| *is).map(|(name, _)| setting(name, 1u64)));
    sizes.push(setting("seed", seed));
    let cube = m == n && n == k;
    let short = if cube { format!("{m}³") } else { format!("{m} × {n} × {k}") };
    let stored = match (trans_a, trans_b) {
        (false, false) => "",
        (true, false) => ", A transposed",
        (false, true) => ", B transposed",
        (true, true) => ", A and B transposed",
    };
    let line = format!("{}{stored}", dtype.label());
    let inputs = m.saturating_add(n).saturating_mul(k);
    let bytes = inputs.saturating_add(m.saturating_mul(n)).saturating_mul(dtype.bytes());
    Problem::new(format!("{short} {line}"), short, sizes, dtype).with(|p| {
        p.flops = m.saturating_mul(n).saturating_mul(k).saturating_mul(2);
        (p.bytes, p.working_set_bytes) = (bytes, bytes);
        p.sweep = cube.then_some(SweepPoint { size: m, line });
    })
}

/// Returns the rows of the matrix product, in the ladder's order.
#[must_use]
pub fn rows() -> Vec<Row> {
    [not_kernels(), cuda_cores::on_cuda_cores(), cuda_cores::on_warps(), hopper::on_hopper(), vec![as_chosen()]]
        .into_iter()
        .flatten()
        .collect()
}

/// Returns the row for products without a requested rung. It has no kernel, costs or fallback, so the chooser and the tuner ignore it.
fn as_chosen() -> Row {
    plain_row(
        rung(
            "as_chosen",
            "As chosen without tuning",
            "What gemm() picks without timing: the kernel that is published as the fastest for the product on this device, else the rung and the tile \
             of the least expected time. The published products are no test of the choice.",
            Requires::AtLeast(7, 5),
            Runner::Chosen("the expected times of the tiles, without tuning".into()),
        ),
        Body::Chosen,
    )
}

/// Returns the rungs of the matrix product, in the ladder's order.
#[must_use]
pub fn rungs() -> Vec<Rung> {
    rows().into_iter().map(|r| r.rung).collect()
}

/// Returns the rows without a kernel of Warpbook: the CPU implementations and NVIDIA's libraries.
fn not_kernels() -> Vec<Row> {
    vec![
        cpu_row(
            "cpu_naive",
            "CPU, three loops",
            "The definition: each element of C is a row of A times a column of B.",
            "1 thread",
            CpuBody::Naive,
        ),
        cpu_row(
            "cpu_blocked",
            "CPU, blocked",
            "Blocks of A and B are packed to fit into the caches and the vector registers.",
            "1 thread",
            CpuBody::Blocked,
        ),
        cpu_row(
            "cpu_threaded",
            "CPU, blocked, all threads",
            "The same on all cores, each computing a band of rows.",
            "all threads",
            CpuBody::Threaded,
        ),
        cpu_row(
            "cpu_library",
            "CPU, gemm crate",
            "A library tuned for this CPU's vector units.",
            "gemm crate, all threads",
            CpuBody::Library,
        ),
        library_row(
            "cublas",
            "cuBLAS",
            "NVIDIA's library, with the algorithm that it chooses itself.",
            "cuBLAS",
            Body::Cublas,
        ),
        library_row(
            "cublaslt",
            "cuBLASLt, best of 32",
            "NVIDIA's library with every algorithm that it suggests timed, and the fastest kept.",
            "cuBLASLt",
            Body::CublasLt,
        ),
    ]
}

/// Returns every kernel of the matrix product in the types and transpositions that tests compile.
#[must_use]
pub fn compiled_forms() -> Vec<(KernelSpec, Requires)> {
    let mut all = Vec::new();
    for row in rows() {
        let (Some(can), Some(spec)) = (row.capabilities(), row.kernel()) else { continue };
        for (i, (dtype, requires)) in can.dtypes.iter().enumerate() {
            let mut spec = can.compiled_for(Form::plain(*dtype)).apply_to(spec);
            // All tiles are compiled for the first type, and only one for each of the other types.
            if i > 0 {
                spec.tiles.truncate(1);
            }
            let requires = if *requires == Requires::Nothing { &row.rung.requires } else { requires };
            all.push((spec, requires.clone()));
        }
    }
    for dtype in [Dtype::F32, Dtype::Tf32, Dtype::F16, Dtype::Bf16] {
        all.push((reference(Form::plain(dtype)), Requires::AtLeast(7, 5)));
        all.push((compare(Form::plain(dtype)), Requires::AtLeast(7, 5)));
    }
    for out in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
        for epilogue in Epilogue::ALL {
            all.push((sum_parts(Form { epilogue, ..Form::plain(out) }), Requires::AtLeast(9, 0)));
        }
    }
    for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
        all.push((add_partials(dtype), Requires::AtLeast(7, 5)));
    }
    for transpose in [false, true] {
        for bytes in [2, 4] {
            all.push((repack(bytes, transpose), Requires::AtLeast(7, 5)));
        }
        for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
            all.push((column_sums(dtype, transpose), Requires::AtLeast(7, 5)));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_reads_a_and_b_and_writes_c() {
        let product = |shape, dtype| problem(shape, dtype, (false, false), 1);
        let thin = product((2, 3, 5), Dtype::Bf16);
        assert_eq!((thin.flops, thin.bytes, &*thin.label, thin.size()), (60, (10 + 15 + 6) * 2, "2 × 3 × 5 bf16", 0));
        let cube = |n, dtype| product((n, n, n), dtype);
        assert_eq!((&*cube(4096, Dtype::Tf32).label, cube(4096, Dtype::Tf32).size()), ("4096³ tf32", 4096));
        assert!(cube(64, Dtype::F32).same_line(&cube(128, Dtype::F32)));
        assert!(!cube(64, Dtype::F32).same_line(&cube(64, Dtype::F16)) && !thin.same_line(&thin));
        let transposed_a = problem((8, 8, 8), Dtype::F32, (true, false), 1);
        assert_eq!((transposed(&transposed_a), shape_of(&transposed_a)), ((true, false), Some((8, 8, 8))));
    }

    #[test]
    fn every_kernel_has_a_figure_and_costs_name_its_tiles() {
        for row in rows() {
            let id = &row.rung.id;
            assert_eq!(row.figure.is_some(), row.capabilities().is_some(), "{id}");
            let known = |tile: &str| row.kernel().is_some_and(|k| k.tile(tile).is_some());
            assert!(row.costs.iter().flat_map(|c| c.tiles).all(|c| known(c.tile)), "{id}");
            assert!(row.fallback.iter().flatten().all(|t| known(t)), "{id}");
            // Every row that can be chosen, by its costs or as a fallback, must be tunable.
            assert!(row.tunable || (row.costs.is_none() && row.fallback.is_none()), "{id}");
        }
    }

    #[test]
    fn obstacles_are_named() {
        let row = |id: &str| rows().into_iter().find(|r| r.rung.id == id).unwrap();
        let why = |id: &str, form: Form, cc| row(id).obstacle(form, Some(cc)).unwrap_or_default();
        let plain = Form::plain;
        assert_eq!(why("01_naive", plain(Dtype::F32), (7, 5)), "");
        assert_eq!(why("01_naive", plain(Dtype::Tf32), (9, 0)), "takes fp32, fp16, bf16, not tf32");
        assert!(why("09_wmma", plain(Dtype::Bf16), (7, 5)).contains("8.0 or later for bf16"));
        assert!(why("14_overlapped_store", plain(Dtype::Bf16), (8, 0)).contains("sm_90a"));
        assert_eq!(
            why("16_tf32_registers", Form { out: Dtype::Bf16, ..plain(Dtype::Tf32) }, (9, 0)),
            "does not write bf16"
        );
        assert_eq!(row("cublas").obstacle(plain(Dtype::F64), None), None);
    }
}

//! The CUDA C++ sources that are embedded in this crate as text: the building blocks, and the kernels that do not belong to a
//! single rung.

use crate::matmul::Form;
use crate::tile;
use warpbook_record::{Dtype, Grid, KernelSpec, Requires, Source, Tile};

macro_rules! source {
    ($path:literal) => {
        warpbook_record::Source {
            path: $path,
            text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels/", $path)),
        }
    };
}
pub(crate) use source;

/// The building blocks that kernels can include, each under the name that an `#include` line uses.
pub const HEADERS: &[Source] = &[
    source!("reduce.cuh"),
    source!("exchange.cuh"),
    source!("cluster.cuh"),
    source!("launch.cuh"),
    source!("xray.cuh"),
    source!("matmul/cuda_cores.cuh"),
    source!("matmul/gemm.cuh"),
    source!("matmul/hopper.cuh"),
    source!("matmul/mma.cuh"),
    source!("matmul/persistent.cuh"),
    source!("matmul/split_k.cuh"),
    source!("matmul/stores.cuh"),
    source!("matmul/through_shared.cuh"),
    source!("matmul/tma.cuh"),
    source!("matmul/wgmma.cuh"),
    source!("nn/activate.cuh"),
    source!("nn/conv.cuh"),
    source!("nn/cross_entropy.cuh"),
    source!("nn/elements.cuh"),
    source!("nn/gather.cuh"),
    source!("nn/images.cuh"),
    source!("nn/last_block.cuh"),
    source!("nn/loss.cuh"),
    source!("nn/maxima.cuh"),
    source!("nn/mse.cuh"),
    source!("nn/norm.cuh"),
    source!("nn/optimizer.cuh"),
    source!("nn/own_layer.cuh"),
    source!("nn/patches.cuh"),
    source!("nn/philox.cuh"),
    source!("nn/step.cuh"),
    source!("nn/sums.cuh"),
    source!("nn/unpool.cuh"),
    source!("nn/words.cuh"),
    source!("peaks/read.cuh"),
    source!("regression/descent.cuh"),
    source!("regression/persistent.cuh"),
    source!("regression/resident.cuh"),
];

const PHILOX: Source = source!("nn/philox.cu");
const READ: Source = source!("peaks/read.cu");
const COPY: Source = source!("peaks/copy.cu");
const FMA: Source = source!("peaks/fma.cu");
const SHARED: Source = source!("peaks/shared.cu");
const WGMMA: Source = source!("peaks/wgmma.cu");
const MMA: Source = source!("peaks/mma.cu");
const WAVEFRONTS: Source = source!("peaks/wavefronts.cu");
const EXCHANGE: Source = source!("peaks/exchange.cu");
const REGISTERS: Source = source!("peaks/registers.cu");
const TOGETHER: Source = source!("peaks/together.cu");

fn per_element() -> [Tile; 1] {
    [Tile::new("t256", &[("THREADS", 256)])]
}

/// Returns the kernel that fills an array with standard Gaussian numbers: `gaussians(out, n, seed, stream, first)`.
#[must_use]
pub fn gaussians() -> KernelSpec {
    KernelSpec::new(PHILOX, "gaussians", &per_element(), Grid::Cover)
}

/// Returns the kernel that fills an array with uniform numbers in (0, 1): `uniforms(out, n, seed, stream, first)`.
#[must_use]
pub fn uniforms() -> KernelSpec {
    KernelSpec::new(PHILOX, "uniforms", &per_element(), Grid::Cover)
}

/// Returns the kernel that fills an array with part of a random permutation: `permutation(out, n, seed, first, of)`.
#[must_use]
pub fn permutation() -> KernelSpec {
    KernelSpec::new(PHILOX, "permutation", &per_element(), Grid::Cover)
}

/// The types that Warpbook's kernels can multiply on tensor cores.
pub const TENSOR_CORE_TYPES: [Dtype; 3] = [Dtype::Tf32, Dtype::F16, Dtype::Bf16];

/// Returns the kernel that reads and sums an array; its fastest tile gives the ceiling of read bandwidth.
#[must_use]
pub fn read_sum() -> KernelSpec {
    let tiles = ["t512x16b4", "t512x32b2", "t1024x32b1", "t256x16b8"].map(tile::strided);
    KernelSpec::new(READ, "read_sum", &tiles, Grid::Resident)
}

/// Returns the kernel that copies an array; its fastest tile gives the ceiling of bandwidth for reads and writes.
#[must_use]
pub fn copy() -> KernelSpec {
    // Either few floats per thread and many blocks are faster, or the opposite, depending on the chip.
    let tiles = ["t512x16b4", "t256x16b8", "t1024x4b2", "t256x8b6"].map(tile::strided);
    KernelSpec::new(COPY, "copy", &tiles, Grid::Resident)
}

/// Returns the kernel that runs chains of fused multiply-adds; it gives the ceiling of fp32 arithmetic.
#[must_use]
pub fn fma_chains() -> KernelSpec {
    let tile = Tile::new("t256x8", &[("THREADS", 256), ("ITEMS", 8), ("BLOCKS_PER_SM", 8)]);
    KernelSpec::new(FMA, "fma_chains", &[tile], Grid::Resident)
}

/// Returns the kernel that multiplies on Hopper's tensor cores with warpgroup instructions; `dtype` is `F16`, `Bf16` or `Tf32`.
#[must_use]
pub fn wgmma_rounds(dtype: Dtype) -> KernelSpec {
    let sizes = [("THREADS", 256), ("BM", 128), ("BN", 256), ("STAGES", 4), ("BLOCKS_PER_SM", 1)];
    let tile =
        Tile::new("128x256s4", &[&sizes[..], &[("DYNAMIC_SHARED_BYTES", 4 * (128 + 256) * 128 + 1024)]].concat());
    let form = Form { trans_b: true, ..Form::plain(dtype) };
    form.apply_to(&KernelSpec::new(WGMMA, "wgmma_rounds", &[tile], Grid::Resident))
        .needs(Requires::Exactly("sm_90a".into()))
}

/// Returns the kernel that multiplies on tensor cores with warp instructions; `dtype` is `F16`, `Bf16` or `Tf32`.
#[must_use]
pub fn mma_rounds(dtype: Dtype) -> KernelSpec {
    let tile = Tile::new("t256x8", &[("THREADS", 256), ("ITEMS", 8), ("BLOCKS_PER_SM", 2)]);
    Form::plain(dtype)
        .apply_to(&KernelSpec::new(MMA, "mma_rounds", &[tile], Grid::Resident))
        .needs(Requires::AtLeast(8, 0))
}

/// Returns the kernel that reads and sums shared memory; it gives the ceiling of shared memory bandwidth.
#[must_use]
pub fn shared_sum() -> KernelSpec {
    let tile = Tile::new("t256x8", &[("THREADS", 256), ("ITEMS", 8), ("BLOCKS_PER_SM", 2)]);
    KernelSpec::new(SHARED, "shared_sum", &[tile], Grid::Resident)
}

/// The numbers of bytes that a lane can read at once.
pub const READ_WIDTHS: [u32; 3] = [4, 8, 16];
/// Number of bytes of shared memory in which the lanes' addresses of [`shared_reads`] must be.
pub const READ_SPAN: u32 = 2048;

/// Returns the kernel that counts the cycles of a warp's reads from shared memory: `reads(offsets, out, clocks, rounds)`. `bytes`
/// is one of [`READ_WIDTHS`].
#[must_use]
pub fn shared_reads(bytes: u32) -> KernelSpec {
    let tile = Tile::new("t512x8", &[("THREADS", 512), ("ITEMS", 8)]);
    KernelSpec::new(WAVEFRONTS, "reads", &[tile], Grid::One)
        .define("BYTES", bytes.into())
        .define("SPAN", READ_SPAN.into())
}

/// Returns the kernel that runs a chain of multiply-adds in the registers of one warp: `registers(out, clocks, rounds)`.
#[must_use]
pub fn registers() -> KernelSpec {
    let tile = Tile::new("t32x64", &[("THREADS", 32), ("ITEMS", 64)]);
    KernelSpec::new(REGISTERS, "registers", &[tile], Grid::Resident)
}

/// Returns the kernel that performs only the persistent rungs' exchange between blocks: `exchanges(out, words, control, blocks,
/// rounds, limit_ns)`.
#[must_use]
pub fn exchanges() -> KernelSpec {
    let tile = Tile::new("t512", &[("THREADS", 512), ("BLOCKS_PER_SM", 1)]);
    KernelSpec::new(EXCHANGE, "exchanges", &[tile], Grid::Resident)
}

/// Returns the kernel that reads L2 with blocks that request the same lines: `read_together(data, out, n, rounds, group)`.
#[must_use]
pub fn read_together() -> KernelSpec {
    KernelSpec::new(TOGETHER, "read_together", &[tile::strided("t512x16b4")], Grid::Resident)
}

/// Returns every kernel of Warpbook once, with the hardware that it requires, for tests that compile all kernels.
#[must_use]
pub fn all() -> Vec<(KernelSpec, Requires)> {
    let claimed = Requires::AtLeast(7, 5);
    let shared = [
        gaussians(),
        uniforms(),
        permutation(),
        read_sum(),
        copy(),
        fma_chains(),
        shared_sum(),
        crate::xray::sm_clocks(),
        exchanges(),
        registers(),
        read_together(),
        crate::regression::data_kernel(),
        crate::regression::featured_data_kernel(),
    ];
    let ablations = crate::regression::ablations().into_iter().map(|(_, k)| k);
    let ablations = ablations.chain(crate::regression::feature_counts());
    let reads = READ_WIDTHS.map(shared_reads);
    let mut all: Vec<_> = shared.into_iter().chain(reads).chain(ablations).map(|k| (k, claimed.clone())).collect();
    for rung in crate::regression::rungs() {
        for k in rung.kernels() {
            let of_rung = (k.clone(), k.requires.clone().unwrap_or_else(|| rung.requires.clone()));
            if !all.contains(&of_rung) {
                all.push(of_rung);
            }
        }
    }
    all.extend(crate::guide::all().into_iter().map(|k| (k, claimed.clone())));
    all.extend(crate::matmul::compiled_forms());
    all.extend(crate::nn::all().into_iter().map(|k| {
        let requires = k.requires.clone().unwrap_or(claimed.clone());
        (k, requires)
    }));
    for dtype in TENSOR_CORE_TYPES {
        for spec in [wgmma_rounds(dtype), mma_rounds(dtype)] {
            let requires = spec.requires.clone().unwrap_or(claimed.clone());
            all.push((spec, requires));
        }
    }
    all
}

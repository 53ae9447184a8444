//! The CUDA C++ that is compiled into this crate as text: building blocks, and kernels that no single rung owns.

use crate::rung::{Grid, KernelSpec, Requires, Source, Tile};

macro_rules! source {
    ($path:literal) => {
        $crate::Source { path: $path, text: include_str!(concat!("../../../kernels/", $path)) }
    };
}
pub(crate) use source;

/// The building blocks that kernels include, by the name they are included with.
pub const HEADERS: &[Source] = &[
    source!("reduce.cuh"),
    source!("exchange.cuh"),
    source!("cluster.cuh"),
    source!("nn/philox.cuh"),
    source!("regression/descent.cuh"),
    source!("regression/persistent.cuh"),
    source!("regression/resident.cuh"),
];

const PHILOX: Source = source!("nn/philox.cu");
const READ: Source = source!("peaks/read.cu");
const FMA: Source = source!("peaks/fma.cu");
const SHARED: Source = source!("peaks/shared.cu");

fn per_element() -> [Tile; 1] {
    [Tile::new("t256", &[("THREADS", 256)])]
}

/// Fills an array with Gaussian numbers.
#[must_use]
pub fn gaussians() -> KernelSpec {
    KernelSpec::new(PHILOX, "gaussians", &per_element(), Grid::Cover)
}

/// Fills an array with a permutation of its indices.
#[must_use]
pub fn permutation() -> KernelSpec {
    KernelSpec::new(PHILOX, "permutation", &per_element(), Grid::Cover)
}

/// Reads an array and adds it up: the ceiling of a bandwidth is that of its fastest tile.
#[must_use]
pub fn read_sum() -> KernelSpec {
    let tile = |id, threads, items, blocks| {
        Tile::new(id, &[("THREADS", threads), ("ITEMS", items), ("BLOCKS_PER_SM", blocks)])
    };
    let tiles = [
        tile("t512x16b4", 512, 16, 4),
        tile("t512x32b2", 512, 32, 2),
        tile("t1024x32b1", 1024, 32, 1),
        tile("t256x16b8", 256, 16, 8),
    ];
    KernelSpec::new(READ, "read_sum", &tiles, Grid::Resident)
}

/// Chains of fused multiply-adds: the ceiling of fp32 arithmetic.
#[must_use]
pub fn fma_chains() -> KernelSpec {
    let tile = Tile::new("t256x8", &[("THREADS", 256), ("ITEMS", 8), ("BLOCKS_PER_SM", 8)]);
    KernelSpec::new(FMA, "fma_chains", &[tile], Grid::Resident)
}

/// Reads shared memory and adds it up: the ceiling of its bandwidth.
#[must_use]
pub fn shared_sum() -> KernelSpec {
    let tile = Tile::new("t256x8", &[("THREADS", 256), ("ITEMS", 8), ("BLOCKS_PER_SM", 2)]);
    KernelSpec::new(SHARED, "shared_sum", &[tile], Grid::Resident)
}

/// Every kernel of Warpbook, each once, and the hardware it claims: what tests hold against the files and compile.
#[must_use]
pub fn all() -> Vec<(KernelSpec, Requires)> {
    let claimed = Requires::AtLeast(7, 5);
    let shared = [
        gaussians(),
        permutation(),
        read_sum(),
        fma_chains(),
        shared_sum(),
        crate::regression::data_kernel(),
        crate::regression::featured_data_kernel(),
    ];
    let ablations = crate::regression::ablations().into_iter().map(|(_, k)| k);
    let ablations = ablations.chain(crate::regression::feature_counts());
    let mut all: Vec<_> = shared.into_iter().chain(ablations).map(|k| (k, claimed.clone())).collect();
    for rung in crate::regression::rungs() {
        for k in rung.kernels() {
            let of_rung = (k.clone(), k.requires.clone().unwrap_or_else(|| rung.requires.clone()));
            if !all.contains(&of_rung) {
                all.push(of_rung);
            }
        }
    }
    all
}

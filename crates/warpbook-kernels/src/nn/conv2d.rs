//! The rows of the convolution.

use super::{DIRECT, IM2COL, IMPLICIT, Layout, TENSOR_CORES, over_images, per_element, typed};
use warpbook_record::{Dtype, Grid, KernelSpec, Requires, Tile};

/// A pass of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pass {
    /// y of x.
    Forward,
    /// dx of dy.
    InputGradient,
    /// dw of x and dy.
    WeightGradient,
}

impl Pass {
    /// Every pass.
    pub const ALL: [Self; 3] = [Self::Forward, Self::InputGradient, Self::WeightGradient];

    /// Its entry.
    const fn entry(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::InputGradient => "input_gradient",
            Self::WeightGradient => "weight_gradient",
        }
    }

    /// Its value of the macro `PASS`.
    const fn number(self) -> i64 {
        match self {
            Self::Forward => 0,
            Self::InputGradient => 1,
            Self::WeightGradient => 2,
        }
    }
}

/// `direct_forward(g, x, weight, bias, relu, y, n)`, `direct_input_gradient(g, dy, weight, mask, dx, n)`,
/// `direct_weight_gradient(g, x, dy, dweight)` with a block a weight and `direct_bias_gradient(g, dy, dbias)` with a block a filter; f32.
#[must_use]
pub fn direct(layout: Layout) -> [KernelSpec; 4] {
    ["direct_forward", "direct_input_gradient", "direct_weight_gradient", "direct_bias_gradient"]
        .map(|entry| over_images(KernelSpec::new(DIRECT, entry, &[per_element()], Grid::Cover), layout))
}

/// `unroll(g, x, columns, ld, n)`, `fold(g, dcolumns, ld, mask, dx, n)` and `exchange(from, to, channels, pixels, to_rows, n)`.
#[must_use]
pub fn im2col(dtype: Dtype, layout: Layout) -> [KernelSpec; 3] {
    ["unroll", "fold", "exchange"]
        .map(|entry| over_images(typed(IM2COL, entry, per_element(), Grid::Cover, dtype), layout))
}

/// What a kernel of the implicit product is compiled for, in addition to its tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Implicit {
    /// The pass, which names the entry too: `forward(g, x, weight, bias, relu, y, filters)`,
    /// `input_gradient(g, dy, weight, mask, dx, channels, filters, window)` or `weight_gradient(g, x, dy, out, filters, share)`.
    pub pass: Pass,
    /// Type of the images: `F32` on CUDA cores, the others on tensor cores.
    pub dtype: Dtype,
    /// Their layout.
    pub layout: Layout,
    /// Whether A and B arrive in copies of 16 bytes. CUDA cores need neither.
    pub vectors: [bool; 2],
    /// Whether an input gradient has strides other than 1.
    pub dilated: bool,
}

impl Implicit {
    /// The row of its kernel, whose tiles hold for every type.
    #[must_use]
    pub fn spec(self) -> KernelSpec {
        let Self { pass, dtype, layout, vectors, dilated } = self;
        let on_cuda_cores = dtype == Dtype::F32;
        let (source, tiles) =
            if on_cuda_cores { (IMPLICIT, register_tiles(pass)) } else { (TENSOR_CORES, warp_tiles(pass, dtype)) };
        let spec = over_images(typed(source, pass.entry(), tiles[0].clone(), Grid::Tiles, dtype), layout)
            .define("PASS", pass.number())
            .define("DILATED", dilated.into());
        let spec = KernelSpec { tiles, ..spec };
        if on_cuda_cores {
            return spec;
        }
        let [a, b] = vectors.map(i64::from);
        spec.define("VECTORS_A", a).define("VECTORS_B", b).needs(Requires::AtLeast(8, 0))
    }
}

/// Tiles of C of `bm` x `bn`, `[tm, tn]` sums a thread; the largest first.
fn register_tiles(pass: Pass) -> Vec<Tile> {
    let tile = |id, [bm, bn]: [i64; 2], [tm, tn]: [i64; 2], blocks: i64| {
        let threads = bm / tm * (bn / tn);
        let sizes = [("THREADS", threads), ("BM", bm), ("BN", bn), ("BK", 8), ("TM", tm), ("TN", tn)];
        Tile::new(id, &[&sizes[..], &[("BLOCKS_PER_SM", blocks)]].concat())
    };
    let (medium, small) = (tile("64x64x8", [64, 64], [8, 8], 6), tile("32x32x8", [32, 32], [4, 4], 8));
    match pass {
        Pass::WeightGradient => vec![medium, small],
        _ => vec![tile("128x64x8", [128, 64], [8, 8], 3), tile("128x32x8", [128, 32], [8, 4], 4), medium],
    }
}

/// Tiles of C of `bm` x `bn` whose rows along k are `bytes` long, `[wm, wn]` of them a warp; the largest first.
fn warp_tiles(pass: Pass, dtype: Dtype) -> Vec<Tile> {
    let tile = |id, [bm, bn]: [i64; 2], bytes: i64, [wm, wn]: [i64; 2], [stages, blocks]: [i64; 2]| {
        let (threads, bk) = (bm / wm * (bn / wn) * 32, bytes / dtype.bytes().cast_signed());
        let sizes = [("THREADS", threads), ("BM", bm), ("BN", bn), ("BK", bk), ("WM", wm), ("WN", wn)];
        let more =
            [("STAGES", stages), ("BLOCKS_PER_SM", blocks), ("DYNAMIC_SHARED_BYTES", stages * (bm + bn) * bytes)];
        Tile::new(id, &[&sizes[..], &more].concat())
    };
    match pass {
        Pass::WeightGradient => vec![
            tile("64x64x128s3", [64, 64], 128, [32, 32], [3, 4]),
            tile("32x32x128s3", [32, 32], 128, [16, 16], [3, 5]),
        ],
        _ => vec![
            tile("128x64x64s4", [128, 64], 64, [64, 32], [4, 3]),
            tile("128x32x64s4", [128, 32], 64, [32, 32], [4, 4]),
            tile("64x64x64s4", [64, 64], 64, [32, 32], [4, 4]),
        ],
    }
}

/// The kernels of this file, in the forms that tests compile for every architecture: on tensor cores all of f16, and of the other
/// types one of each kind.
pub(super) fn all() -> Vec<KernelSpec> {
    let layouts = [Layout::Nhwc, Layout::Nchw];
    let mut all = Vec::new();
    for layout in layouts {
        all.extend(direct(layout));
        all.extend(im2col(Dtype::F16, layout));
    }
    for dtype in [Dtype::F32, Dtype::Bf16] {
        all.extend(im2col(dtype, Layout::Nhwc));
    }
    let is_sample = |f: &Implicit| match f.dtype {
        Dtype::F32 | Dtype::F16 => true,
        _ => f.vectors == [true; 2] || (f.pass == Pass::WeightGradient && f.vectors[0]),
    };
    let types = [Dtype::F32, Dtype::Tf32, Dtype::F16, Dtype::Bf16];
    let sampled = types.into_iter().flat_map(forms).filter(is_sample);
    all.extend(sampled.map(|f| {
        let mut spec = f.spec();
        // All tiles of f16 and of f32, one of the others.
        if matches!(f.dtype, Dtype::Tf32 | Dtype::Bf16) {
            spec.tiles.truncate(1);
        }
        spec
    }));
    all
}

/// Every form of the implicit product in a type.
#[must_use]
pub fn forms(dtype: Dtype) -> Vec<Implicit> {
    let mut all = Vec::new();
    for pass in Pass::ALL {
        for layout in [Layout::Nhwc, Layout::Nchw] {
            let plain = Implicit { pass, dtype, layout, vectors: [false; 2], dilated: false };
            all.push(plain);
            if pass == Pass::InputGradient {
                all.push(Implicit { dilated: true, ..plain });
            }
        }
        if dtype != Dtype::F32 {
            let fast = Implicit { pass, dtype, layout: Layout::Nhwc, vectors: [true; 2], dilated: false };
            all.push(fast);
            if pass == Pass::WeightGradient {
                all.push(Implicit { vectors: [true, false], ..fast });
            }
        }
    }
    all
}

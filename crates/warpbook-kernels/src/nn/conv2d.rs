//! The convolution kernels.

use super::{
    CONV_REFERENCE, DIRECT, FEW_CHANNELS, IM2COL, IMPLICIT, Layout, SHIFTED_GRADIENT, SHIFTED_WINDOWS, TENSOR_CORES,
    TMA_IM2COL, kernel, over_images, per_element, typed,
};
use crate::matmul::{stored_through_shared, type_number};
use warpbook_record::{Dtype, Grid, KernelSpec, Requires, Tile};

/// The forward pass of a convolution, or one of its two gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pass {
    /// Computes the output y from the input x.
    Forward,
    /// Computes the input gradient dx from the output gradient dy.
    InputGradient,
    /// Computes the weight gradient dw from x and dy.
    WeightGradient,
}

impl Pass {
    /// All passes.
    pub const ALL: [Self; 3] = [Self::Forward, Self::InputGradient, Self::WeightGradient];

    /// Returns the entry point for this pass.
    const fn entry(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::InputGradient => "input_gradient",
            Self::WeightGradient => "weight_gradient",
        }
    }

    /// Returns the number that stands for this pass in the macro `PASS`.
    const fn number(self) -> i64 {
        match self {
            Self::Forward => 0,
            Self::InputGradient => 1,
            Self::WeightGradient => 2,
        }
    }
}

/// Returns the kernels of the direct convolution in f32: `direct_forward(g, x, weight, bias, relu, y, n)`, `direct_input_gradient(g, dy, weight, mask, dx, n)`,
/// `direct_weight_gradient(g, x, dy, dweight)` with one block per weight, and `direct_bias_gradient(g, dy, dbias)` with one block per filter.
#[must_use]
pub fn direct(layout: Layout) -> [KernelSpec; 4] {
    ["direct_forward", "direct_input_gradient", "direct_weight_gradient", "direct_bias_gradient"]
        .map(|entry| over_images(kernel(DIRECT, entry, per_element(), Grid::Cover), layout))
}

/// Returns the kernels of the reference passes in f64, for images in NHWC: `reference_forward(g, x, weight, want, sizes, n)`, `reference_input_gradient(g, dy,
/// weight, want, sizes, n)`, and `reference_weight_gradient(g, x, dy, want, sizes, n)` with one block per weight.
#[must_use]
pub fn reference(dtype: Dtype) -> [KernelSpec; 3] {
    let spec = |entry| {
        let spec = KernelSpec::new(CONV_REFERENCE, entry, &[per_element()], Grid::Cover);
        over_images(spec, Layout::Nhwc).define("IN", type_number(dtype)).define("TF32", (dtype == Dtype::Tf32).into())
    };
    ["reference_forward", "reference_input_gradient", "reference_weight_gradient"].map(spec)
}

/// Returns the helper kernels for convolution as a product of unrolled windows: `unroll(g, x, columns, ld, n)`, `fold(g, dcolumns, ld, mask, dx, n)` and
/// `exchange(from, to, channels, pixels, to_rows, n)`.
#[must_use]
pub fn im2col(dtype: Dtype, layout: Layout) -> [KernelSpec; 3] {
    ["unroll", "fold", "exchange"]
        .map(|entry| over_images(typed(IM2COL, entry, per_element(), Grid::Cover, dtype), layout))
}

/// The form of an implicit product kernel, in addition to its tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Implicit {
    /// The pass, which also determines the entry point: `forward(g, x, weight, bias, relu, y, filters)`, `input_gradient(g, dy, weight, mask, dx, channels,
    /// filters, window)` or `weight_gradient(g, x, dy, out, filters, share)`.
    pub pass: Pass,
    /// Type of the images: `F32` on CUDA cores, any other type on tensor cores.
    pub dtype: Dtype,
    /// Layout of the images.
    pub layout: Layout,
    /// For A and for B, true if the operand is copied 16 bytes at a time; always false on CUDA cores.
    pub vectors: [bool; 2],
    /// True for an input gradient with a stride other than 1.
    pub dilated: bool,
    /// True to use only instructions of compute capability 7.5; possible only for `F16`.
    pub turing: bool,
    /// True to store the maxima of 2 x 2 windows, with their indices: `forward(g, x, weight, bias, relu, y, filters, index)`. Possible only for `F16` and
    /// `Bf16` in NHWC.
    pub pool: bool,
}

impl Implicit {
    /// Returns the form that works for every convolution with strides of 1 and, in the passes that compute y and dw, for every stride.
    #[must_use]
    pub const fn plain(pass: Pass, dtype: Dtype, layout: Layout) -> Self {
        Self { pass, dtype, layout, vectors: [false; 2], dilated: false, turing: false, pool: false }
    }

    /// Returns the kernel of this form. Its tiles can be used for every type.
    #[must_use]
    pub fn spec(self) -> KernelSpec {
        let Self { pass, dtype, layout, vectors, dilated, turing, pool } = self;
        let on_cuda_cores = dtype == Dtype::F32;
        let (source, tiles) = match (on_cuda_cores, turing) {
            (true, _) => (IMPLICIT, register_tiles(pass)),
            (false, true) => (TENSOR_CORES, turing_tiles(pass)),
            (false, false) => (TENSOR_CORES, warp_tiles(pass, dtype)),
        };
        let spec = over_images(typed(source, pass.entry(), tiles[0].clone(), Grid::Tiles, dtype), layout)
            .define("PASS", pass.number())
            .define("DILATED", dilated.into());
        let spec = KernelSpec { tiles, ..spec };
        if on_cuda_cores {
            return spec;
        }
        let [a, b] = vectors.map(i64::from);
        let spec = spec.define("VECTORS_A", a).define("VECTORS_B", b);
        let spec = if pool { spec.define("POOL", 1) } else { spec };
        if turing { spec.define("TURING", 1) } else { spec.needs(Requires::AtLeast(8, 0)) }
    }
}

/// The windows that one instruction of the shifted-window kernel multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Windowed {
    /// 64 consecutive positions in padded rows.
    Rows,
    /// A block of 8 x 8 pixels.
    Blocks,
    /// A block of 8 x 8 pixels, of which only the maxima over 2 x 2 windows are stored, with their indices. Forward pass only.
    Pooled,
}

/// The form of a shifted-window kernel, in addition to its tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Windows {
    /// The pass, which is [`Pass::Forward`] or [`Pass::InputGradient`]. Both have the entry point `shifted_windows(map_images, map_weights, g, bias, mask,
    /// to)`, with `index` as an additional last argument if the result is pooled.
    pub pass: Pass,
    /// The windows that one instruction multiplies.
    pub windowed: Windowed,
    /// Type of the images: `F16` or `Bf16`.
    pub dtype: Dtype,
    /// Number of bytes of a pixel's channels that are copied as one row: 64 or 128.
    pub row_bytes: i64,
    /// Number of channels of the result that a block computes: 32, 64 or 128.
    pub columns: i64,
}

/// Shared memory per block of the shifted-window kernel in bytes; each block has an SM to itself.
const WINDOWS_SHARED_BYTES: i64 = 220 << 10;

impl Windows {
    /// Returns the kernel of this form. Its tiles are sorted by the number of positions that a warpgroup computes, smallest first.
    #[must_use]
    pub fn spec(self) -> KernelSpec {
        let Self { pass, windowed, dtype, row_bytes, columns } = self;
        let ids = ["64", "128", "192", "256", "320"];
        // A thread has registers for at most 160 sums; the fewer sums per thread, the more warpgroups fit.
        let tile = |(id, parts): (&'static str, i64)| {
            let sums = parts * columns / 2;
            let (consumers, registers) = match sums {
                ..=48 => (4, 104),
                49..=96 => (3, 152),
                _ => (2, 232),
            };
            let sizes = [("THREADS", (consumers + 1) * 128), ("BM", parts * 64), ("BN", columns), ("BLOCKS_PER_SM", 1)];
            let more = [
                ("PRODUCER_REGISTERS", 40),
                ("CONSUMER_REGISTERS", registers),
                ("DYNAMIC_SHARED_BYTES", WINDOWS_SHARED_BYTES),
            ];
            (sums <= 160).then(|| Tile::new(id, &[&sizes[..], &more].concat()))
        };
        let tiles: Vec<Tile> = ids.into_iter().zip(1..).filter_map(tile).collect();
        let spec = typed(SHIFTED_WINDOWS, "shifted_windows", tiles[0].clone(), Grid::Tiles, dtype)
            .define("PASS", pass.number())
            .define("BLOCKS", (windowed != Windowed::Rows).into())
            .define("POOL", (windowed == Windowed::Pooled).into())
            .define("ROW_BYTES", row_bytes)
            .needs(Requires::Exactly("sm_90a".into()));
        KernelSpec { tiles, ..spec }
    }

    /// Returns every form for a type.
    #[must_use]
    pub fn all(dtype: Dtype) -> Vec<Self> {
        use Windowed::{Blocks, Pooled, Rows};
        let (forwards, backwards) = ([Rows, Blocks, Pooled], [Rows, Blocks]);
        let passes =
            forwards.map(|w| (Pass::Forward, w)).into_iter().chain(backwards.map(|w| (Pass::InputGradient, w)));
        let mut all = Vec::new();
        for (pass, windowed) in passes {
            for row_bytes in [64, 128] {
                all.extend([32, 64, 128].map(|columns| Self { pass, windowed, dtype, row_bytes, columns }));
            }
        }
        all
    }
}

/// The form of a shifted weight gradient kernel, in addition to its tile. The entry point is `shifted_gradient(map_y, map_x, g, out)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WindowGradient {
    /// Type of the images: `F16` or `Bf16`.
    pub dtype: Dtype,
    /// Number of rows and columns of taps that a block computes, one of [`WindowGradient::TAPS`].
    pub taps: [i64; 2],
}

impl WindowGradient {
    /// The parts of a window, as rows and columns of taps, that a block can compute with its sums in registers.
    pub const TAPS: [[i64; 2]; 3] = [[1, 1], [3, 3], [2, 5]];

    /// Returns the kernel of this form. A tile covers `BM` filters and `BN` channels.
    #[must_use]
    pub fn spec(self) -> KernelSpec {
        let Self { dtype, taps: [rows, columns] } = self;
        let tile = |id, [m, n]: [i64; 2]| {
            let (consumers, registers) = if m * n == 1 { (1, 240) } else { (2, 232) };
            let sizes = [("THREADS", (consumers + 1) * 128), ("BM", m * 64), ("BN", n * 32), ("BLOCKS_PER_SM", 1)];
            let groups = [("CONSUMERS_M", m), ("CONSUMERS_N", n)];
            let more = [
                ("PRODUCER_REGISTERS", 40),
                ("CONSUMER_REGISTERS", registers),
                ("DYNAMIC_SHARED_BYTES", WINDOWS_SHARED_BYTES),
            ];
            Tile::new(id, &[&sizes[..], &groups, &more].concat())
        };
        let tiles = vec![tile("128x32", [2, 1]), tile("64x64", [1, 2]), tile("64x32", [1, 1])];
        let spec = typed(SHIFTED_GRADIENT, "shifted_gradient", tiles[0].clone(), Grid::Tiles, dtype)
            .define("TAPS_I", rows)
            .define("TAPS_J", columns)
            .needs(Requires::Exactly("sm_90a".into()));
        KernelSpec { tiles, ..spec }
    }
}

/// The form of the kernel for which TMA gathers the windows in im2col mode, in addition to its tile. The entry point is `tma_im2col(map_images, map_weights,
/// map_to, g, bias, mask, to)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TmaIm2col {
    /// The pass, which is [`Pass::Forward`] or [`Pass::InputGradient`].
    pub pass: Pass,
    /// Type of the images: `F16` or `Bf16`.
    pub dtype: Dtype,
}

impl TmaIm2col {
    /// Number of channels per load, which form a row of 128 bytes in shared memory.
    pub const CHANNELS: u32 = 64;

    /// Returns the kernel of this form. Its tiles have 64, 128 and 256 columns.
    #[must_use]
    pub fn spec(self) -> KernelSpec {
        let tiles = ["256x64s4c2g1", "128x128s6c2g1", "128x256s4c2g1"].map(stored_through_shared);
        let spec = typed(TMA_IM2COL, "tma_im2col", tiles[0].clone(), Grid::ResidentTiles, self.dtype)
            .define("PASS", self.pass.number())
            .needs(Requires::Exactly("sm_90a".into()));
        KernelSpec { tiles: tiles.into(), ..spec }
    }
}

/// The form of the kernels for images with few channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FewChannels {
    /// Type of the images: `F16` or `Bf16`.
    pub dtype: Dtype,
    /// Number of steps of 16 taps, from 1 to [`FewChannels::MOST_STEPS`].
    pub steps: i64,
    /// The first value is true if the forward pass stores the maxima of 2 x 2 windows; it then takes their indices as an additional last argument. The second
    /// is true if the weight gradient starts from the gradient of these maxima; it then takes the indices, a mask and a scale as additional last arguments.
    pub pool: [bool; 2],
}

impl FewChannels {
    /// Largest number of steps for which sums and indices fit in registers.
    pub const MOST_STEPS: i64 = 4;
    /// Size in bytes of the part of an image that is kept in shared memory.
    pub const PART_BYTES: i64 = 24 << 10;
    /// Number of filters that a block computes.
    pub const FILTERS: u32 = 32;

    /// Returns the kernels `few_forward(g, x, weight, bias, relu, y)`, with an additional `index` if pooled, and `few_gradient(g, x, dy, out)`, with additional
    /// `index, mask, scale` if pooled.
    #[must_use]
    pub fn specs(self) -> [KernelSpec; 2] {
        let blocks = match self.steps {
            1 => 4,
            2 => 3,
            _ => 2,
        };
        // The same memory later holds the sums of half of the warps.
        let bytes = Self::PART_BYTES.max(256 / 2 * 16 * 4 * self.steps);
        let sizes = [("THREADS", 256), ("BLOCKS_PER_SM", blocks), ("DYNAMIC_SHARED_BYTES", bytes)];
        let spec = |entry: &'static str, pool: bool| {
            let spec = typed(FEW_CHANNELS, entry, Tile::new("t256", &sizes), Grid::Tiles, self.dtype)
                .define("STEPS", self.steps)
                .define("BK", 64)
                .define("CHANNELS_FIRST", 0)
                .needs(Requires::AtLeast(8, 0));
            if pool { spec.define("POOL", 1) } else { spec }
        };
        let [forward, gradient] = self.pool;
        [spec("few_forward", forward), spec("few_gradient", gradient)]
    }
}

/// Returns tiles of C with `bm` x `bn` elements and `[tm, tn]` sums per thread, largest first.
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

/// Returns a tile of C with `bm` x `bn` elements, of which each warp computes `[wm, wn]`. The rows along k are `bytes` bytes long.
fn warp_tile(
    id: &'static str,
    dtype: Dtype,
    [bm, bn]: [i64; 2],
    bytes: i64,
    [wm, wn]: [i64; 2],
    [stages, blocks]: [i64; 2],
) -> Tile {
    let (threads, bk) = (bm / wm * (bn / wn) * 32, bytes / dtype.bytes().cast_signed());
    let sizes = [("THREADS", threads), ("BM", bm), ("BN", bn), ("BK", bk), ("WM", wm), ("WN", wn)];
    let more = [("STAGES", stages), ("BLOCKS_PER_SM", blocks), ("DYNAMIC_SHARED_BYTES", stages * (bm + bn) * bytes)];
    Tile::new(id, &[&sizes[..], &more].concat())
}

/// Returns the tiles on tensor cores, largest first.
fn warp_tiles(pass: Pass, dtype: Dtype) -> Vec<Tile> {
    let tile = |id, c, bytes, of_warp, more| warp_tile(id, dtype, c, bytes, of_warp, more);
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

/// Returns the tiles for sm_75, with two stages and as many blocks as fit into its 64 KiB of shared memory.
fn turing_tiles(pass: Pass) -> Vec<Tile> {
    let tile = |id, c, bytes, of_warp, blocks| warp_tile(id, Dtype::F16, c, bytes, of_warp, [2, blocks]);
    match pass {
        Pass::WeightGradient => {
            vec![tile("64x64x64s2", [64, 64], 64, [32, 32], 4), tile("32x32x128s2", [32, 32], 128, [16, 16], 4)]
        }
        _ => vec![
            tile("128x64x64s2", [128, 64], 64, [64, 32], 2),
            tile("128x32x64s2", [128, 32], 64, [32, 32], 3),
            tile("64x64x64s2", [64, 64], 64, [32, 32], 3),
        ],
    }
}

/// Returns the kernels of this file in the forms that tests compile for every architecture: on tensor cores, all forms for f16, and one form of each kind for
/// the other types and for sm_75.
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
    for dtype in [Dtype::F32, Dtype::Tf32, Dtype::F16, Dtype::Bf16] {
        all.extend(reference(dtype));
    }
    let is_sample = |f: &Implicit| match f.dtype {
        Dtype::F32 | Dtype::F16 if !f.turing => true,
        _ => f.vectors == [true; 2] || (f.pass == Pass::WeightGradient && f.vectors[0]),
    };
    let types = [Dtype::F32, Dtype::Tf32, Dtype::F16, Dtype::Bf16];
    let sampled = types.into_iter().flat_map(forms).chain(turing_forms()).filter(is_sample);
    all.extend(sampled.map(|f| {
        let mut spec = f.spec();
        // All tiles are compiled for f16 and f32, but only one for each of the other types.
        if matches!(f.dtype, Dtype::Tf32 | Dtype::Bf16) {
            spec.tiles.truncate(1);
        }
        spec
    }));
    all.extend(Windows::all(Dtype::F16).into_iter().map(Windows::spec));
    for windowed in [Windowed::Rows, Windowed::Pooled] {
        all.push(Windows { pass: Pass::Forward, windowed, dtype: Dtype::Bf16, row_bytes: 128, columns: 64 }.spec());
    }
    all.extend(WindowGradient::TAPS.map(|taps| WindowGradient { dtype: Dtype::F16, taps }.spec()));
    all.push(WindowGradient { dtype: Dtype::Bf16, taps: [3, 3] }.spec());
    for (pass, dtype) in [(Pass::Forward, Dtype::F16), (Pass::InputGradient, Dtype::F16), (Pass::Forward, Dtype::Bf16)]
    {
        all.push(TmaIm2col { pass, dtype }.spec());
    }
    for pool in [[false; 2], [true; 2]] {
        let few = |dtype, steps| FewChannels { dtype, steps, pool }.specs();
        all.extend((1..=FewChannels::MOST_STEPS).flat_map(|steps| few(Dtype::F16, steps)));
        all.extend(few(Dtype::Bf16, 2));
    }
    all
}

/// Returns every form of the implicit product for a type.
#[must_use]
pub fn forms(dtype: Dtype) -> Vec<Implicit> {
    let mut all = Vec::new();
    for pass in Pass::ALL {
        for layout in [Layout::Nhwc, Layout::Nchw] {
            let plain = Implicit::plain(pass, dtype, layout);
            all.push(plain);
            if pass == Pass::InputGradient {
                all.push(Implicit { dilated: true, ..plain });
            }
        }
        if dtype != Dtype::F32 {
            let fast = Implicit { vectors: [true; 2], ..Implicit::plain(pass, dtype, Layout::Nhwc) };
            all.push(fast);
            if pass == Pass::WeightGradient {
                all.push(Implicit { vectors: [true, false], ..fast });
            }
            if pass == Pass::Forward && matches!(dtype, Dtype::F16 | Dtype::Bf16) {
                let pooled = |vectors| Implicit { pool: true, vectors, ..fast };
                all.extend([pooled([false; 2]), pooled([true; 2])]);
            }
        }
    }
    all
}

/// Returns every form for GPUs of compute capability 7.5, all in f16.
#[must_use]
pub fn turing_forms() -> Vec<Implicit> {
    forms(Dtype::F16).into_iter().map(|form| Implicit { turing: true, ..form }).collect()
}

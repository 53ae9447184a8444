//! The product of shifted windows, for Hopper: the supported convolutions, and how their images are divided into tiles.

mod gradient;
mod launch;

use super::ForwardArrays;
use super::shapes::{Image, Shapes};
use crate::ops::Layout;
use crate::ops::Words;
use crate::ops::conv2d::Geometry;
pub(super) use gradient::WindowGradient;
use launch::{WindowArrays, launch};
use warpbook_device::{BoxShape, CudaDevice, Kernel, Result, Stream, TensorMap};
use warpbook_gemm::DeviceArray;
use warpbook_kernels::Launch;
use warpbook_kernels::nn::conv2d::{Pass, Windowed, Windows as Row};
use warpbook_record::{Dim, Dtype, KernelSpec, Tile};

/// Largest number of stages, which is also the number of barriers in the kernel.
pub(super) const MOST_STAGES: u64 = 8;
/// The largest side of a box that TMA copies.
pub(super) const LONGEST_SIDE: u32 = 256;
/// Cost of finishing a tile, as the number of positions that are read in the same time.
const TILE_COST: u64 = 64;
/// Number of columns whose multiplication takes as long as reading the positions.
const ROWS_COST: u32 = 32;
/// Number of multiprocessors of an H200, and of an H100 with SXM.
pub(super) const H200_MULTIPROCESSORS: u32 = 132;
/// Alignment in bytes of a swizzled box that TMA writes.
pub(super) const SWIZZLE_BYTES: u64 = 1024;

/// The division of an image into blocks of pixels that fit a kernel's tile.
#[derive(Debug, Clone, Copy, Default)]
struct TileDivision {
    /// Number of rows of the result in a tile. `pitch` is the number of columns of x in shared memory: the columns of the tile's windows with
    /// their overlap.
    rows: u32,
    pitch: u32,
    /// Number of tiles of an image; `tiles_across` of them are next to each other in a row.
    tiles: u32,
    tiles_across: u32,
    /// Number of adjacent blocks in a tile.
    across: u32,
    stages: u32,
    /// Number of multiplying warpgroups, at most one per stage: a wait cannot tell a stage's next phase from the one after it.
    consumers: u32,
    box_bytes: u32,
    block_bytes: u32,
    /// Positions that the busiest warpgroup multiplies, plus the cost of its tiles.
    cost: u64,
}

impl TileDivision {
    /// Chooses the cheapest division; `None` if the channels of the result do not fill the tile (with a pool: not whole tiles), no row of the
    /// result fits into the tile, or two tiles and the weights do not fit into shared memory.
    fn new(image: &Image, windowed: Windowed, tile: &Tile, multiprocessors: u32) -> Option<Self> {
        let positions = u32::try_from(tile.size(Dim::Bm)).unwrap_or(u32::MAX);
        let division = |rows, pitch, tiles, tiles_across, across, end| {
            let empty = Self { rows, pitch, tiles, tiles_across, across, ..Self::default() };
            empty.filled(image, tile, end, multiprocessors)
        };
        let ([height, width], [kh, kw]) = (image.output, image.kernel);
        if windowed == Windowed::Pooled && !u64::from(image.columns).is_multiple_of(tile.size(Dim::Bn)) {
            return None;
        }
        match windowed {
            Windowed::Rows => {
                let pitch = width + kw - 1;
                let most = ((positions + kw - 1) / pitch).min(height);
                let tiles = height.div_ceil((most > 0).then_some(most)?);
                // The windows of the last positions, which are not stored, extend beyond the tile.
                division(height.div_ceil(tiles), pitch, tiles, 1, 0, positions + (kh - 1) * pitch + kw - 1)
            }
            Windowed::Blocks | Windowed::Pooled => {
                let (parts, down_all, across_all) = (positions / 64, height.div_ceil(8), width.div_ceil(8));
                let divisions = (1..=parts.min(across_all)).rev().filter_map(|across| {
                    let down = (parts / across).min(down_all);
                    let (pitch, tiles_across) = (across * 8 + kw - 1, across_all.div_ceil(across));
                    // Left-over parts multiply data beyond the tile.
                    let end = (parts.div_ceil(across) * 8 + kh - 1) * pitch;
                    division(down * 8, pitch, down_all.div_ceil(down) * tiles_across, tiles_across, across, end)
                });
                divisions.min_by_key(|division| (division.cost, division.box_bytes))
            }
        }
    }

    /// Completes the division with its memory; `None` if that does not fit. The multiplication reads `end` positions of a tile.
    fn filled(self, image: &Image, tile: &Tile, end: u32, multiprocessors: u32) -> Option<Self> {
        let size = |dim| u32::try_from(tile.size(dim)).unwrap_or(u32::MAX);
        let (columns, height) = (size(Dim::Bn), self.rows + image.kernel[0] - 1);
        if self.pitch > LONGEST_SIDE || height > LONGEST_SIDE || !fills(image.columns, columns) {
            return None;
        }
        let row_bytes = u64::from(image.row_bytes());
        let box_bytes = u64::from(height) * u64::from(self.pitch) * row_bytes;
        let block_bytes = box_bytes.next_multiple_of(SWIZZLE_BYTES);
        let behind = (u64::from(end) * row_bytes).saturating_sub(block_bytes);
        let taken = image.weight_bytes(columns) + SWIZZLE_BYTES + behind;
        let stages = tile.dynamic_shared_bytes().checked_sub(taken)? / (block_bytes * u64::from(image.blocks()));
        if stages < 2 {
            return None;
        }
        let consumers = u64::from(size(Dim::Threads) / 128 - 1).min(stages);
        let (all, of_column) =
            (u64::from(image.batch) * u64::from(self.tiles), u64::from(image.columns.div_ceil(columns)));
        let of_block = all.div_ceil((u64::from(multiprocessors) / of_column).max(1));
        // An instruction reads its 64 positions again, regardless of the number of columns.
        let step = tile.size(Dim::Bm) * u64::from(columns + ROWS_COST) / u64::from(ROWS_COST);
        let cost = of_block.div_ceil(consumers) * (step * consumers.min(of_block) + TILE_COST);
        Some(Self {
            stages: stages.min(MOST_STAGES) as u32,
            consumers: consumers as u32,
            box_bytes: u32::try_from(box_bytes).ok()?,
            block_bytes: u32::try_from(block_bytes).ok()?,
            cost,
            ..self
        })
    }
}

/// Chooses the cheapest kernel and tile, with their division.
fn choose(
    image: &Image,
    (pass, dtype, pool): (Pass, Dtype, bool),
    multiprocessors: u32,
) -> Option<(KernelSpec, Tile, TileDivision)> {
    let row_bytes = i64::from(image.row_bytes());
    let windowed: &[Windowed] = if pool { &[Windowed::Pooled] } else { &[Windowed::Rows, Windowed::Blocks] };
    let rows = windowed
        .iter()
        .flat_map(|windowed| [128, 64, 32].map(|columns| Row { pass, windowed: *windowed, dtype, row_bytes, columns }));
    let divisions = rows.flat_map(|row| {
        let spec = row.spec();
        let division = |tile: &Tile| TileDivision::new(image, row.windowed, tile, multiprocessors);
        let found: Vec<_> =
            spec.tiles.iter().filter_map(|tile| Some((spec.clone(), tile.clone(), division(tile)?))).collect();
        found
    });
    divisions.min_by_key(|(_, _, division)| division.cost)
}

/// Returns true if channels can be copied by TMA, and fill at least three quarters of the rows after padding with zeros.
fn fills(channels: u32, row: u32) -> bool {
    channels.is_multiple_of(8) && 4 * u64::from(channels) >= 3 * u64::from(channels).next_multiple_of(row.into())
}

/// Returns true if the kernels of shifted windows support this type, layout, strides and channels.
pub(super) fn takes(dtype: Dtype, shapes: &Shapes) -> bool {
    matches!(dtype, Dtype::F16 | Dtype::Bf16)
        && shapes.layout == Layout::Nhwc
        && shapes.stride == [1, 1]
        && fills(shapes.channels, 32)
        && fills(shapes.filters, 32)
}

/// The pass that a kernel computes, and its shapes.
#[derive(Debug, Clone, Copy)]
pub(super) struct WindowPass<'a> {
    pub pass: Pass,
    pub dtype: Dtype,
    /// True if the maxima of y over windows of 2 x 2 are stored instead of y.
    pub pool: bool,
    pub shapes: &'a Shapes,
}

/// Returns the convolution as the kernel sees it, its tile and its division, on a Hopper GPU with this many multiprocessors; `None` if the
/// kernel does not support the convolution.
fn plan(job: WindowPass<'_>, multiprocessors: u32) -> Option<(Image, (KernelSpec, Tile, TileDivision))> {
    let WindowPass { pass, dtype, pool, shapes } = job;
    let image = Image::for_pass(pass, shapes).filter(|_| takes(dtype, shapes))?;
    Some((image, choose(&image, (pass, dtype, pool), multiprocessors)?))
}

/// Returns the kernel that computes a pass on an H100 or H200; `None` if the implicit product computes it. `pool`: the forward pass stores maxima.
pub(crate) fn kernel_of(
    pass: Pass,
    dtype: Dtype,
    geometry: &Geometry,
    layout: Layout,
    pool: bool,
) -> Option<KernelSpec> {
    let shapes = Shapes::new(geometry, layout).ok()?;
    if pass == Pass::WeightGradient {
        return gradient::spec_of(dtype, &shapes, H200_MULTIPROCESSORS);
    }
    let job = WindowPass { pass, dtype, pool: pool && pass == Pass::Forward, shapes: &shapes };
    plan(job, H200_MULTIPROCESSORS).map(|(_, (spec, ..))| spec)
}

/// The kernel of a pass and its launch settings. Callers check the lengths and types of arrays.
#[derive(Debug, Clone)]
pub(super) struct WindowsKernel {
    device: CudaDevice,
    pass: Pass,
    dtype: Dtype,
    image: Image,
    division: TileDivision,
    kernel: Kernel,
    /// Number of columns that a block computes.
    columns: u32,
    blocks: u32,
}

impl WindowsKernel {
    /// Compiles the kernel; `None` if it does not support the convolution: on a GPU other than Hopper, for types other than f16 and bf16,
    /// for NCHW, for strides, for channels that would mostly be padding ([`fills`]), or for windows that do not fit into shared memory.
    ///
    /// # Errors
    /// If compiling fails or the driver reports an error.
    pub fn new(device: &CudaDevice, job: WindowPass<'_>) -> Result<Option<Self>> {
        let info = device.info();
        let WindowPass { pass, dtype, .. } = job;
        let Some((image, (spec, tile, division))) = plan(job, info.multiprocessors) else {
            return Ok(None);
        };
        if spec.requires.as_ref().is_some_and(|r| !r.met_by(info.compute_capability)) {
            return Ok(None);
        }
        let kernel = device.kernel(&spec, &tile)?;
        let columns = u32::try_from(tile.size(Dim::Bn)).unwrap_or(u32::MAX);
        let across = image.columns.div_ceil(columns);
        let down = (info.multiprocessors / across).max(1).min(image.batch.saturating_mul(division.tiles));
        Ok(Some(Self { device: device.clone(), pass, dtype, image, division, kernel, columns, blocks: across * down }))
    }

    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Queues y from x and the weight, with a bias and a ReLU.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn forward(&self, stream: &Stream, f: &ForwardArrays<'_>) -> Result<()> {
        let maps = [self.map_images(f.x)?, self.map_weights(f.weight)?];
        self.queue(stream, f.relu, |g| WindowArrays { maps, g, bias: f.bias, mask: None, to: f.y, pool: f.pool })
    }

    /// Queues dx from dy and the weight, through a mask.
    pub fn input_gradient(
        &self,
        stream: &Stream,
        [dy, weight]: [&DeviceArray; 2],
        mask: Option<&DeviceArray>,
        to: &DeviceArray,
    ) -> Result<()> {
        let maps = [self.map_images(dy)?, self.map_weights(weight)?];
        self.queue(stream, false, |g| WindowArrays { maps, g, bias: None, mask, to, pool: None })
    }

    fn queue<'a>(&self, stream: &Stream, relu: bool, arrays: impl FnOnce(Words<20>) -> WindowArrays<'a>) -> Result<()> {
        let shape = Launch { grid: [self.blocks, 1, 1], ..self.kernel.shape(1) };
        launch(&self.kernel, stream, shape, arrays(Words(self.words(relu))))
    }

    fn map_images(&self, from: &DeviceArray) -> Result<TensorMap> {
        let Image { batch, channels, input: [height, width], kernel, .. } = self.image;
        let sizes = [channels, width, height, batch].map(u64::from);
        let pixel = sizes[0] * 2;
        let boxes = [self.image.row_bytes() / 2, self.division.pitch, self.division.rows + kernel[0] - 1, 1];
        let shape = BoxShape {
            dtype: self.dtype,
            sizes: &sizes,
            strides: &[pixel, pixel * sizes[1], pixel * sizes[1] * sizes[2]],
            boxes: &boxes,
            swizzle_bytes: self.image.row_bytes(),
        };
        TensorMap::of_boxes(&self.device, from.address(), shape)
    }

    fn map_weights(&self, weight: &DeviceArray) -> Result<TensorMap> {
        let lanes = self.image.row_bytes() / 2;
        let boxes = match self.pass {
            Pass::Forward => [lanes, self.columns],
            _ => [self.columns.min(64), lanes],
        };
        self.image.map_weights(&self.device, (self.pass, self.dtype), weight, boxes)
    }

    /// Returns the kernel's `Windows` struct.
    fn words(&self, relu: bool) -> [u32; 20] {
        let Image { batch, channels, output: [height, width], kernel: [kh, kw], columns, before, .. } = self.image;
        let d = &self.division;
        let [top, left] = before.map(u32::wrapping_neg);
        [
            batch,
            d.tiles,
            d.rows,
            d.tiles_across,
            d.across,
            height,
            width,
            columns,
            channels,
            kh,
            kw,
            d.pitch,
            self.image.blocks(),
            d.stages,
            d.box_bytes,
            d.block_bytes,
            d.consumers,
            top,
            left,
            relu.into(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(batch: u32, channels: u32, side: u32, columns: u32, kernel: u32) -> Image {
        let (input, kernel) = ([side; 2], [kernel; 2]);
        let output = [side + 1 - kernel[0]; 2];
        Image { batch, channels, input, before: [0; 2], kernel, columns, output }
    }

    fn chosen(image: &Image, pool: bool) -> Option<(u64, u64, u32, u32)> {
        let (_, tile, d) = choose(image, (Pass::Forward, Dtype::F16, pool), 132)?;
        Some((tile.size(Dim::Bm), tile.size(Dim::Bn), d.rows, d.tiles))
    }

    #[test]
    fn tiles_cover_the_image_and_fit_into_shared_memory() {
        for image in [
            image(512, 32, 26, 64, 3),
            image(128, 64, 10, 128, 3),
            image(512, 128, 10, 64, 3),
            image(3, 128, 40, 96, 5),
            image(1, 32, 1, 32, 1),
        ] {
            for row in Row::all(Dtype::F16) {
                for tile in &row.spec().tiles {
                    let Some(d) = TileDivision::new(&image, row.windowed, tile, 132) else { continue };
                    let [height, width] = image.output;
                    let (across, positions) = match row.windowed {
                        Windowed::Rows => (width, d.rows * d.pitch - (image.kernel[1] - 1)),
                        _ => (d.across * 8, d.rows * d.across * 8),
                    };
                    assert!(d.rows * (d.tiles / d.tiles_across) >= height && across * d.tiles_across >= width, "{d:?}");
                    assert!(u64::from(positions) <= tile.size(Dim::Bm), "{d:?}");
                    assert!(row.windowed != Windowed::Pooled || d.rows.is_multiple_of(2), "a window is in one tile");
                    let columns = u32::try_from(tile.size(Dim::Bn)).unwrap();
                    let stages = u64::from(d.stages * image.blocks()) * u64::from(d.block_bytes);
                    assert!(image.weight_bytes(columns) + stages <= tile.dynamic_shared_bytes(), "{d:?}");
                    assert!((1..=d.stages).contains(&d.consumers), "{d:?}");
                }
            }
        }
    }

    #[test]
    fn the_cheapest_tile_is_chosen() {
        // 24 x 24 pixels are nine blocks, and no block lies partly outside the image, with or without a pool.
        assert_eq!(chosen(&image(512, 32, 26, 64, 3), false), Some((192, 64, 8, 3)));
        assert_eq!(chosen(&image(512, 32, 26, 64, 3), true), Some((192, 64, 8, 3)));
        // 26 x 26 pixels are 16 blocks; eleven rows of windows with a pitch of 28 use 306 of the 320 positions.
        assert_eq!(chosen(&image(512, 64, 28, 32, 3), false).map(|c| c.2), Some(9));
        // Two of these tiles and their weights fill shared memory, so two warpgroups multiply.
        let (_, _, d) = choose(&image(512, 128, 10, 64, 3), (Pass::InputGradient, Dtype::F16, false), 132).unwrap();
        assert_eq!((d.stages, d.consumers), (2, 2));
        // 64 columns of these weights do not fit into shared memory, but 32 do.
        assert_eq!(chosen(&image(2, 64, 16, 64, 5), false).map(|c| c.1), Some(32));
        // Even 32 columns of these weights do not fit into shared memory.
        assert_eq!(chosen(&image(2, 512, 16, 64, 5), false), None);
        // A row is wider than the largest box, but the blocks of a row are not.
        assert!(chosen(&image(2, 32, 300, 64, 3), false).is_some());
    }
}

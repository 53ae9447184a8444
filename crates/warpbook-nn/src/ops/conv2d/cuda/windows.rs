//! The product of shifted windows, for Hopper: which convolutions it takes, and how their images are divided into tiles.

use super::args::Words;
use super::shapes::Shapes;
use super::window_gradient;
use super::windows_launch::{Arrays, launch};
use crate::gemm::DeviceArray;
use crate::ops::Layout;
use crate::ops::conv2d::Geometry;
use warpbook_device::{BoxShape, CudaDevice, Kernel, Result, Slice, Stream, TensorMap};
use warpbook_kernels::Launch;
use warpbook_kernels::nn::conv2d::{Pass, Windows as Row};
use warpbook_record::{Dim, Dtype, KernelSpec, Tile};

/// Stages that the kernel has barriers for.
pub(super) const MOST_STAGES: u64 = 8;
/// The largest side of a box that TMA copies.
pub(super) const LONGEST_SIDE: u32 = 256;
/// What the end of a tile costs, in positions that are multiplied by a column meanwhile.
const TILE_COST: u64 = 64;
/// Columns whose multiplication takes as long as reading the positions does.
const ROWS_COST: u32 = 32;
/// Those of an H200, and of an H100 with SXM.
pub(super) const H200_MULTIPROCESSORS: u32 = 132;
/// TMA writes a swizzled box to a multiple of so many bytes.
pub(super) const SWIZZLE_BYTES: u64 = 1024;

/// The convolution as this kernel sees it: of an input whose windows are a pixel apart.
#[derive(Debug, Clone, Copy)]
struct Image {
    batch: u32,
    /// Of what is read, and how far the first window begins above and to the left of it.
    channels: u32,
    input: [u32; 2],
    before: [u32; 2],
    kernel: [u32; 2],
    /// Of what is written.
    columns: u32,
    output: [u32; 2],
}

impl Image {
    fn of(pass: Pass, s: &Shapes) -> Option<Self> {
        let Shapes { batch, channels, filters, kernel, .. } = *s;
        Some(match pass {
            Pass::Forward => {
                Self { batch, channels, input: s.x, before: s.padding, kernel, columns: filters, output: s.y }
            }
            Pass::InputGradient => {
                let before = |side: usize| kernel[side].checked_sub(1 + s.padding[side]);
                let before = [before(0)?, before(1)?];
                Self { batch, channels: filters, input: s.y, before, kernel, columns: channels, output: s.x }
            }
            Pass::WeightGradient => return None,
        })
    }

    /// Columns of a tile: an output row's windows.
    fn pitch(&self) -> u32 {
        self.output[1] + self.kernel[1] - 1
    }

    fn taps(&self) -> u32 {
        self.kernel[0] * self.kernel[1]
    }

    /// Bytes of a pixel's channels that are copied as one row.
    fn row_bytes(&self) -> u32 {
        if self.channels.is_multiple_of(64) { 128 } else { 64 }
    }

    /// Rows of `row_bytes` that hold a pixel's channels.
    fn blocks(&self) -> u32 {
        self.channels * 2 / self.row_bytes()
    }

    /// Of as many columns.
    fn weight_bytes(&self, columns: u32) -> u64 {
        u64::from(self.taps()) * u64::from(self.channels) * 2 * u64::from(columns)
    }
}

/// How an image is divided for a kernel's tile.
#[derive(Debug, Clone, Copy)]
struct Division {
    /// Rows of the result in a tile, and tiles of an image.
    rows: u32,
    tiles: u32,
    stages: u32,
    box_bytes: u32,
    block_bytes: u32,
    /// Positions that the busiest warpgroup multiplies, and what its tiles cost in addition.
    cost: u64,
}

impl Division {
    /// `None` where the result's channels are no multiple of the tile's, where not even a row fits into it, or where two tiles and the weights do not fit into shared memory.
    fn new(image: &Image, tile: &Tile, multiprocessors: u32) -> Option<Self> {
        let size = |dim| u32::try_from(tile.size(dim)).unwrap_or(u32::MAX);
        let columns = size(Dim::Bn);
        let (positions, pitch, [kh, kw]) = (size(Dim::Bm), image.pitch(), image.kernel);
        let most = ((positions + kw - 1) / pitch).min(image.output[0]);
        let tiles = image.output[0].div_ceil((most > 0).then_some(most)?);
        let rows = image.output[0].div_ceil(tiles);
        if pitch > LONGEST_SIDE || rows + kh - 1 > LONGEST_SIDE || !image.columns.is_multiple_of(columns) {
            return None;
        }
        let row_bytes = u64::from(image.row_bytes());
        let box_bytes = u64::from(rows + kh - 1) * u64::from(pitch) * row_bytes;
        let block_bytes = box_bytes.next_multiple_of(SWIZZLE_BYTES);
        // The windows of the last positions, which are not stored, end behind the tile.
        let read = u64::from(positions + (kh - 1) * pitch + kw - 1) * row_bytes;
        let taken = image.weight_bytes(columns) + SWIZZLE_BYTES + read.saturating_sub(block_bytes);
        let stages = tile.dynamic_shared_bytes().checked_sub(taken)? / (block_bytes * u64::from(image.blocks()));
        let consumers = u64::from(size(Dim::Threads) / 128 - 1);
        let (all, across) = (u64::from(image.batch) * u64::from(tiles), u64::from(image.columns / columns));
        let of_block = all.div_ceil((u64::from(multiprocessors) / across).max(1));
        // An instruction reads its 64 positions again whatever its columns are.
        let step = u64::from(positions) * u64::from(columns + ROWS_COST) / u64::from(ROWS_COST);
        let cost = of_block.div_ceil(consumers) * (step * consumers.min(of_block) + TILE_COST);
        (stages >= 2).then_some(Self {
            rows,
            tiles,
            stages: stages.min(MOST_STAGES) as u32,
            box_bytes: u32::try_from(box_bytes).ok()?,
            block_bytes: u32::try_from(block_bytes).ok()?,
            cost,
        })
    }
}

/// The kernel and the tile that cost least, and their division.
fn choose(image: &Image, pass: Pass, dtype: Dtype, multiprocessors: u32) -> Option<(KernelSpec, Tile, Division)> {
    let row_bytes = i64::from(image.row_bytes());
    let specs = [128, 64, 32].into_iter().map(|columns| Row { pass, dtype, row_bytes, columns }.spec());
    let tiles = specs.flat_map(|spec| spec.tiles.clone().into_iter().map(move |tile| (spec.clone(), tile)));
    let divisions = tiles.filter_map(|(spec, tile)| {
        let division = Division::new(image, &tile, multiprocessors)?;
        Some((spec, tile, division))
    });
    divisions.min_by_key(|(_, _, division)| division.cost)
}

/// Whether type, layout, strides and channels are those of the kernels of shifted windows.
pub(super) fn takes(dtype: Dtype, shapes: &Shapes) -> bool {
    matches!(dtype, Dtype::F16 | Dtype::Bf16)
        && shapes.layout == Layout::Nhwc
        && shapes.stride == [1, 1]
        && shapes.channels.is_multiple_of(32)
        && shapes.filters.is_multiple_of(32)
}

/// The convolution as the kernel sees it, its tile and its division, on Hopper with so many multiprocessors; `None` where it does not take
/// the convolution.
fn plan(
    pass: Pass,
    dtype: Dtype,
    shapes: &Shapes,
    multiprocessors: u32,
) -> Option<(Image, (KernelSpec, Tile, Division))> {
    let image = Image::of(pass, shapes).filter(|_| takes(dtype, shapes))?;
    Some((image, choose(&image, pass, dtype, multiprocessors)?))
}

/// The kernel that computes a pass on an H100 or H200; `None` where it is one of the implicit product.
pub(crate) fn kernel_of(pass: Pass, dtype: Dtype, geometry: &Geometry, layout: Layout) -> Option<KernelSpec> {
    let shapes = Shapes::new(geometry, layout).ok()?;
    if pass == Pass::WeightGradient {
        return window_gradient::spec_of(dtype, &shapes, H200_MULTIPROCESSORS);
    }
    plan(pass, dtype, &shapes, H200_MULTIPROCESSORS).map(|(_, (spec, ..))| spec)
}

/// The kernel of a pass and what it is launched with. The arrays have the lengths of the shapes and the type of the form.
#[derive(Debug, Clone)]
pub(super) struct Windows {
    device: CudaDevice,
    pass: Pass,
    dtype: Dtype,
    image: Image,
    division: Division,
    kernel: Kernel,
    /// Of a block.
    columns: u32,
    blocks: u32,
}

impl Windows {
    /// `None` where the kernel does not take the convolution: on another GPU than Hopper's, of other types than f16 and bf16, of NCHW, with
    /// strides, with channels that are no multiples of 32, with windows that do not fit into shared memory.
    pub fn new(device: &CudaDevice, pass: Pass, dtype: Dtype, shapes: &Shapes) -> Result<Option<Self>> {
        let info = device.info();
        let Some((image, (spec, tile, division))) = plan(pass, dtype, shapes, info.multiprocessors) else {
            return Ok(None);
        };
        if spec.requires.as_ref().is_some_and(|r| !r.met_by(info.compute_capability)) {
            return Ok(None);
        }
        let kernel = device.kernel(&spec, &tile)?;
        let columns = u32::try_from(tile.size(Dim::Bn)).unwrap_or(u32::MAX);
        let across = image.columns / columns;
        let down = (info.multiprocessors / across).max(1).min(image.batch.saturating_mul(division.tiles));
        Ok(Some(Self { device: device.clone(), pass, dtype, image, division, kernel, columns, blocks: across * down }))
    }

    /// y of x and the weight, with a bias and a ReLU; or dx of dy and the weight, through a mask.
    pub fn queue(
        &self,
        stream: &Stream,
        [from, weight]: [&DeviceArray; 2],
        bias: Option<&Slice<f32>>,
        relu: bool,
        mask: Option<&DeviceArray>,
        to: &DeviceArray,
    ) -> Result<()> {
        let maps = [self.map_images(from)?, self.map_weights(weight)?];
        let shape = Launch { grid: [self.blocks, 1, 1], ..self.kernel.shape(1) };
        launch(&self.kernel, stream, shape, Arrays { maps, g: Words(self.words(relu)), bias, mask, to })
    }

    fn map_images(&self, from: &DeviceArray) -> Result<TensorMap> {
        let Image { batch, channels, input: [height, width], kernel, .. } = self.image;
        let sizes = [channels, width, height, batch].map(u64::from);
        let pixel = sizes[0] * 2;
        let boxes = [self.image.row_bytes() / 2, self.image.pitch(), self.division.rows + kernel[0] - 1, 1];
        let shape = BoxShape {
            dtype: self.dtype,
            sizes: &sizes,
            strides: &[pixel, pixel * sizes[1], pixel * sizes[1] * sizes[2]],
            boxes: &boxes,
            swizzle_bytes: self.image.row_bytes(),
        };
        TensorMap::of_boxes(&self.device, from.address(), shape)
    }

    /// `[filters][taps * channels]` of the forward pass: boxes along its rows for y, and for dx, which sums over filters, across them.
    fn map_weights(&self, weight: &DeviceArray) -> Result<TensorMap> {
        let (image, lanes) = (&self.image, self.image.row_bytes() / 2);
        let taps = u64::from(image.taps());
        let [rows, row] = match self.pass {
            Pass::Forward => [image.columns, image.channels],
            _ => [image.channels, image.columns],
        }
        .map(u64::from);
        let boxes = match self.pass {
            Pass::Forward => [lanes, self.columns],
            _ => [self.columns.min(64), lanes],
        };
        let shape = BoxShape {
            dtype: self.dtype,
            sizes: &[taps * row, rows],
            strides: &[taps * row * 2],
            boxes: &boxes,
            swizzle_bytes: boxes[0] * 2,
        };
        TensorMap::of_boxes(&self.device, weight.address(), shape)
    }

    /// `Windows` of the kernel.
    fn words(&self, relu: bool) -> [u32; 16] {
        let Image { batch, output: [height, width], kernel: [kh, kw], columns, before, .. } = self.image;
        let d = &self.division;
        let [top, left] = before.map(u32::wrapping_neg);
        let sizes = [batch, d.tiles, d.rows, height, width, columns, kh, kw, self.image.pitch(), self.image.blocks()];
        let mut words = [0; 16];
        words[..10].copy_from_slice(&sizes);
        words[10..].copy_from_slice(&[d.stages, d.box_bytes, d.block_bytes, top, left, relu.into()]);
        words
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

    fn chosen(image: &Image) -> Option<(u64, u64, u32, u32)> {
        let (_, tile, d) = choose(image, Pass::Forward, Dtype::F16, 132)?;
        Some((tile.size(Dim::Bm), tile.size(Dim::Bn), d.rows, d.tiles))
    }

    #[test]
    fn tiles_cover_the_image_and_fit_into_shared_memory() {
        for image in
            [image(512, 32, 26, 64, 3), image(128, 64, 10, 128, 3), image(3, 128, 40, 96, 5), image(1, 32, 1, 32, 1)]
        {
            for spec in Row::all(Dtype::F16).into_iter().map(Row::spec) {
                for tile in &spec.tiles {
                    let Some(d) = Division::new(&image, tile, 132) else { continue };
                    let positions = d.rows * image.pitch() - (image.kernel[1] - 1);
                    assert!(d.rows * d.tiles >= image.output[0] && u64::from(positions) <= tile.size(Dim::Bm), "{d:?}");
                    let columns = u32::try_from(tile.size(Dim::Bn)).unwrap();
                    let stages = u64::from(d.stages * image.blocks()) * u64::from(d.block_bytes);
                    assert!(image.weight_bytes(columns) + stages <= tile.dynamic_shared_bytes(), "{d:?}");
                }
            }
        }
    }

    #[test]
    fn the_cheapest_tile_is_chosen() {
        // Twelve rows of 26 windows are 310 of 320 positions.
        assert_eq!(chosen(&image(512, 32, 26, 64, 3)), Some((320, 64, 12, 2)));
        // 64 columns of these weights do not fit, 32 do.
        assert_eq!(chosen(&image(2, 64, 16, 64, 5)).map(|c| c.1), Some(32));
        // Nor do 32 of these; a row of these is wider than a box.
        assert_eq!(chosen(&image(2, 512, 16, 64, 5)), None);
        assert_eq!(chosen(&image(2, 32, 300, 64, 3)), None);
    }
}

//! The weight gradient of shifted windows, for Hopper: how the window is divided among blocks, an image into tiles, and the images among
//! blocks whose sums are added afterwards.

use super::launch::launch_gradient;
use super::{H200_MULTIPROCESSORS, LONGEST_SIDE, MOST_STAGES, SWIZZLE_BYTES, fills, takes};
use crate::ops::Words;
use crate::ops::conv2d::cuda::shapes::Shapes;
use warpbook_device::{BoxShape, CudaDevice, Kernel, Result, Slice, Stream, TensorMap};
use warpbook_gemm::DeviceArray;
use warpbook_kernels::Launch;
use warpbook_kernels::nn::conv2d::WindowGradient as Row;
use warpbook_record::{Dim, Dtype, KernelSpec, Tile};

/// Filters and channels per warpgroup, and positions per step.
const FILTERS: u32 = 64;
const CHANNELS: u32 = 32;
const STEP: u32 = 16;
/// Bytes of a position in a tile of dy, and in a tile of x.
const ROWS: [u32; 2] = [2 * FILTERS, 2 * CHANNELS];
/// Cycles per step and tap, and bytes per cycle that L2 delivers to one multiprocessor and to all.
const TAP_CYCLES: u64 = 16;
const L2_BYTES: u64 = 24;
const ALL_L2_BYTES: u64 = L2_BYTES * H200_MULTIPROCESSORS as u64;
/// Additional cycles of a tile, and of a block.
const TILE_CYCLES: u64 = 100;
const BLOCK_CYCLES: u64 = 1500;

/// A division of the work among blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct GradientDivision {
    /// Number of warpgroups of a block along filters and along channels.
    groups: [u32; 2],
    /// Number of blocks for all filters, channels and taps; `splits` is the number of parts into which the images are divided.
    across: u32,
    splits: u32,
    /// Number of rows of y in a tile; `tiles` is the number of tiles of an image, and `pitch` the number of positions of a row.
    rows: u32,
    tiles: u32,
    pitch: u32,
    /// Number of steps of a tile; `stages` is the number of stages, and `boxes` and `rooms` are the bytes of a box and of the memory reserved
    /// for it, for dy and x.
    steps: u32,
    stages: u32,
    boxes: [u32; 2],
    rooms: [u32; 2],
    /// Estimated duration of the kernel in cycles.
    cost: u64,
}

impl GradientDivision {
    /// Divides each image into `tiles`; `None` if a box would be too large, channels are not a multiple of the block's, or two stages do
    /// not fit into shared memory.
    fn new(s: &Shapes, taps: [u32; 2], tile: &Tile, tiles: u32, multiprocessors: u32) -> Option<Self> {
        let size = |dim| u32::try_from(tile.size(dim)).unwrap_or(u32::MAX);
        let groups = [size(Dim::Bm) / FILTERS, size(Dim::Bn) / CHANNELS];
        let rows = s.y[0].div_ceil(tiles);
        let tiles = s.y[0].div_ceil(rows);
        let (pitch, height) = (s.y[1] + taps[1] - 1, rows + taps[0] - 1);
        if pitch > LONGEST_SIDE || height > LONGEST_SIDE || !fills(s.channels, CHANNELS * groups[1]) {
            return None;
        }
        let steps = (rows * pitch).div_ceil(STEP);
        let boxes = [rows * pitch * ROWS[0], height * pitch * ROWS[1]];
        let read = [steps * STEP, steps * STEP + (taps[0] - 1) * pitch + taps[1] - 1];
        let room = |i: usize| (u64::from(read[i]) * u64::from(ROWS[i])).next_multiple_of(SWIZZLE_BYTES);
        let stage = u64::from(groups[0]) * room(0) + u64::from(groups[1]) * room(1);
        let stages = (tile.dynamic_shared_bytes() - SWIZZLE_BYTES) / stage;
        let window = s.kernel[0].div_ceil(taps[0]) * s.kernel[1].div_ceil(taps[1]);
        let across = s.filters.div_ceil(size(Dim::Bm)) * s.channels.div_ceil(size(Dim::Bn)) * window;
        let all = s.batch.checked_mul(tiles)?;
        let multiply = u64::from(steps * taps[0] * taps[1] * groups[0] * groups[1]) * TAP_CYCLES;
        let copied = u64::from(groups[0] * boxes[0] + groups[1] * boxes[1]);
        let of_tile = multiply.max(copied / L2_BYTES) + TILE_CYCLES;
        // Every block's sums are written once and read once.
        let of_sums = 8 * u64::from(s.filters * s.taps());
        let cost = |splits: u32| {
            let waves = u64::from((across * splits).div_ceil(multiprocessors));
            let sums = if splits > 1 { of_sums * u64::from(splits) / ALL_L2_BYTES } else { 0 };
            waves * (u64::from(all.div_ceil(splits)) * of_tile + BLOCK_CYCLES) + sums
        };
        let most = (multiprocessors / across).clamp(1, all);
        let splits = (1..=most).min_by_key(|splits| cost(*splits))?;
        let (cost, rooms) = (cost(splits), [room(0) as u32, room(1) as u32]);
        let stages = stages.min(MOST_STAGES) as u32;
        (stages >= 2).then_some(Self { groups, across, splits, rows, tiles, pitch, steps, stages, boxes, rooms, cost })
    }
}

/// Returns the cheapest kernel, tile and division; `None` if the kernel does not support the convolution.
fn plan(dtype: Dtype, s: &Shapes, multiprocessors: u32) -> Option<([u32; 2], KernelSpec, Tile, GradientDivision)> {
    if !takes(dtype, s) {
        return None;
    }
    let mut best: Option<([u32; 2], KernelSpec, Tile, GradientDivision)> = None;
    for of_block in Row::TAPS {
        let spec = Row { dtype, taps: of_block }.spec();
        let taps = of_block.map(|n| n as u32);
        for tile in &spec.tiles {
            for tiles in 1..=s.y[0] {
                let Some(division) = GradientDivision::new(s, taps, tile, tiles, multiprocessors) else { continue };
                if best.as_ref().is_none_or(|(.., d)| division.cost < d.cost) {
                    best = Some((taps, spec.clone(), tile.clone(), division));
                }
            }
        }
    }
    best
}

/// Returns the kernel that computes a weight gradient on Hopper; `None` if the implicit product computes it.
pub(super) fn spec_of(dtype: Dtype, shapes: &Shapes, multiprocessors: u32) -> Option<KernelSpec> {
    plan(dtype, shapes, multiprocessors).map(|(_, spec, ..)| spec)
}

/// The kernel and its launch settings. Callers check the lengths and types of arrays.
#[derive(Debug, Clone)]
pub(in crate::ops::conv2d::cuda) struct WindowGradient {
    device: CudaDevice,
    dtype: Dtype,
    shapes: Shapes,
    /// Number of rows and columns of taps per block.
    taps: [u32; 2],
    division: GradientDivision,
    kernel: Kernel,
}

impl WindowGradient {
    /// Compiles the kernel; `None` if it does not support the convolution: see [`WindowsKernel::new`](super::WindowsKernel::new).
    ///
    /// # Errors
    /// If compiling fails or the driver reports an error.
    pub fn new(device: &CudaDevice, dtype: Dtype, shapes: &Shapes) -> Result<Option<Self>> {
        let info = device.info();
        let Some((taps, spec, tile, division)) = plan(dtype, shapes, info.multiprocessors) else { return Ok(None) };
        if spec.requires.as_ref().is_some_and(|r| !r.met_by(info.compute_capability)) {
            return Ok(None);
        }
        let kernel = device.kernel(&spec, &tile)?;
        Ok(Some(Self { device: device.clone(), dtype, shapes: *shapes, taps, division, kernel }))
    }

    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Returns the number of blocks among which the sum for each weight's gradient is split.
    pub fn splits(&self) -> u32 {
        self.division.splits
    }

    /// Writes f32 partial sums into `out`: for each split `[filters][kh][kw][channels]` of dw, followed by `[filters]` of db.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn queue(&self, stream: &Stream, [x, dy]: [&DeviceArray; 2], out: &Slice<f32>) -> Result<()> {
        let (s, d) = (&self.shapes, &self.division);
        let maps = [
            self.map(dy, s.y, s.filters, [FILTERS, d.rows])?,
            self.map(x, s.x, s.channels, [CHANNELS, d.rows + self.taps[0] - 1])?,
        ];
        let shape = Launch { grid: [d.across * d.splits, 1, 1], ..self.kernel.shape(1) };
        launch_gradient(&self.kernel, stream, shape, &maps, Words(self.words()), out)
    }

    /// Returns the tensor map of images whose boxes have these channels and rows.
    fn map(
        &self,
        images: &DeviceArray,
        [height, width]: [u32; 2],
        channels: u32,
        [box_channels, box_rows]: [u32; 2],
    ) -> Result<TensorMap> {
        let sizes = [channels, width, height, self.shapes.batch].map(u64::from);
        let pixel = sizes[0] * 2;
        let shape = BoxShape {
            dtype: self.dtype,
            sizes: &sizes,
            strides: &[pixel, pixel * sizes[1], pixel * sizes[1] * sizes[2]],
            boxes: &[box_channels, self.division.pitch, box_rows, 1],
            swizzle_bytes: 2 * box_channels,
        };
        TensorMap::of_boxes(&self.device, images.address(), shape)
    }

    /// Returns the kernel's `Gradient` struct.
    fn words(&self) -> [u32; 16] {
        let (s, d) = (&self.shapes, &self.division);
        let [top, left] = s.padding.map(u32::wrapping_neg);
        let [[y_box, x_box], [y_room, x_room]] = [d.boxes, d.rooms];
        let [kh, kw] = s.kernel;
        [
            s.batch, d.tiles, d.rows, s.filters, s.channels, kh, kw, d.pitch, d.steps, d.stages, y_box, y_room, x_box,
            x_room, top, left,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Layout;
    use crate::ops::conv2d::Geometry;

    fn shapes(batch: usize, side: usize, channels: usize, filters: usize, kernel: usize, padding: usize) -> Shapes {
        let g = Geometry {
            batch,
            height: side,
            width: side,
            channels,
            filters,
            kernel: [kernel; 2],
            stride: [1; 2],
            padding: [padding; 2],
        };
        Shapes::new(&g, Layout::Nhwc).unwrap()
    }

    #[test]
    fn tiles_cover_the_images_and_fit_into_shared_memory() {
        for s in [
            shapes(512, 26, 32, 64, 3, 0),
            shapes(128, 8, 64, 128, 3, 1),
            shapes(3, 40, 96, 96, 5, 2),
            shapes(1, 1, 32, 32, 1, 0),
            shapes(2, 30, 64, 32, 7, 3),
        ] {
            let (taps, _, tile, d) = plan(Dtype::F16, &s, 132).unwrap();
            assert!(d.rows * d.tiles >= s.y[0] && d.rows * (d.tiles - 1) < s.y[0], "{d:?}");
            assert!(STEP * d.steps >= d.rows * d.pitch && d.pitch >= s.y[1] + taps[1] - 1, "{d:?}");
            assert!(d.boxes[0] <= d.rooms[0] && d.boxes[1] <= d.rooms[1], "{d:?}");
            let stage = d.groups[0] * d.rooms[0] + d.groups[1] * d.rooms[1];
            assert!(u64::from(d.stages * stage) + SWIZZLE_BYTES <= tile.dynamic_shared_bytes(), "{d:?}");
            assert!(d.across * d.splits <= 132 || d.splits == 1, "{d:?}");
        }
    }

    #[test]
    fn the_cheapest_division_is_chosen() {
        let chosen = |s: Shapes| {
            let (taps, _, tile, d) = plan(Dtype::F16, &s, 132).unwrap();
            (taps, tile.id.to_string(), d.rows, d.across, d.splits)
        };
        let id = |id: &str| id.to_string();
        // 1536 tiles are twelve for each of 128 blocks; 132 blocks would take just as long.
        assert_eq!(chosen(shapes(512, 26, 32, 64, 3, 0)), ([3, 3], id("64x32"), 8, 1, 128));
        // Fewer blocks than multiprocessors, since every block's sums have to be added.
        assert_eq!(chosen(shapes(128, 16, 32, 64, 3, 1)), ([3, 3], id("64x32"), 8, 1, 86));
        // The window is divided into three parts of two rows of five taps; four parts of three by three taps would multiply 36 taps instead of 25.
        assert_eq!(chosen(shapes(512, 12, 32, 64, 5, 2)), ([2, 5], id("64x32"), 12, 3, 43));
        assert_eq!(chosen(shapes(2, 20, 64, 64, 1, 0)).0, [1, 1]);
        assert!(plan(Dtype::F32, &shapes(2, 8, 32, 32, 3, 1), 132).is_none());
    }
}

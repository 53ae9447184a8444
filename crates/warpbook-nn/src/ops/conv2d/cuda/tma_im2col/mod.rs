//! The product whose windows TMA gathers, for Hopper: the convolutions that it computes, and its tensor maps.

mod launch;

use super::ForwardArrays;
use super::shapes::{Image, Shapes};
use crate::ops::conv2d::Geometry;
use crate::ops::{Layout, Words};
use launch::{Im2colArrays, launch};
use warpbook_device::{CudaDevice, Kernel, MatrixShape, Result, Stream, TensorMap, WindowShape};
use warpbook_gemm::DeviceArray;
use warpbook_kernels::nn::conv2d::{Pass, TmaIm2col as Row};
use warpbook_record::{Dim, Dtype, KernelSpec, Tile};

/// Largest size in bytes of the weights of 64 columns that leaves enough shared memory for tiles of shifted windows.
const MOST_RESIDENT_BYTES: u64 = 160 << 10;
/// Number of pixels of a result at which the position of a tile no longer fits into the kernel's register.
const MOST_PIXELS: u64 = 64 << 16;
/// Widest padding and longest side of a window that a tensor map can describe.
const MOST_PADDING: u32 = 127;

/// Returns the convolution as this kernel sees it; `None` if another kernel computes it.
fn image_of(pass: Pass, dtype: Dtype, s: &Shapes) -> Option<Image> {
    let image = Image::for_pass(pass, s)?;
    let is_supported = matches!(dtype, Dtype::F16 | Dtype::Bf16)
        && s.layout == Layout::Nhwc
        && s.stride == [1, 1]
        && image.channels.is_multiple_of(Row::CHANNELS)
        && image.columns.is_multiple_of(8)
        && image.pixels() < MOST_PIXELS
        && image.before.into_iter().chain(image.kernel).all(|side| side <= MOST_PADDING);
    // If the weights fit into shared memory, shifted windows are better: they read each pixel once instead of once for each tap.
    let is_better = image.columns >= 64 && image.weight_bytes(64) > MOST_RESIDENT_BYTES;
    (is_supported && is_better).then_some(image)
}

/// Returns the first tile that is at least as wide as the result, or else the widest tile.
fn tile_of(spec: &KernelSpec, image: &Image) -> Option<Tile> {
    let covers = |tile: &&Tile| tile.size(Dim::Bn) >= u64::from(image.columns);
    spec.tiles.iter().find(covers).or(spec.tiles.last()).cloned()
}

/// Returns the kernel that computes a pass on an H100 or H200; `None` if another kernel computes it.
pub(crate) fn kernel_of(pass: Pass, dtype: Dtype, geometry: &Geometry, layout: Layout) -> Option<KernelSpec> {
    let shapes = Shapes::new(geometry, layout).ok()?;
    image_of(pass, dtype, &shapes).map(|_| Row { pass, dtype }.spec())
}

/// The kernel of a pass. Callers check the lengths and types of arrays.
#[derive(Debug, Clone)]
pub(super) struct TmaIm2col {
    device: CudaDevice,
    pass: Pass,
    dtype: Dtype,
    image: Image,
    kernel: Kernel,
}

impl TmaIm2col {
    /// Compiles the kernel; `None` if another kernel computes the convolution, or on a GPU other than Hopper.
    ///
    /// # Errors
    /// If compiling fails or the driver reports an error.
    pub fn new(device: &CudaDevice, pass: Pass, dtype: Dtype, shapes: &Shapes) -> Result<Option<Self>> {
        let Some(image) = image_of(pass, dtype, shapes) else { return Ok(None) };
        let spec = Row { pass, dtype }.spec();
        if spec.requires.as_ref().is_some_and(|r| !r.met_by(device.info().compute_capability)) {
            return Ok(None);
        }
        let Some(tile) = tile_of(&spec, &image) else { return Ok(None) };
        let kernel = device.kernel(&spec, &tile)?;
        Ok(Some(Self { device: device.clone(), pass, dtype, image, kernel }))
    }

    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Queues y from x and the weight, with a bias and a ReLU.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn forward(&self, stream: &Stream, f: &ForwardArrays<'_>) -> Result<()> {
        let arrays = Im2colArrays {
            maps: [self.map_images(f.x)?, self.map_weights(f.weight)?, self.map_result(f.y)?],
            g: Words(self.words(f.relu)),
            bias: f.bias,
            mask: None,
            to: f.y,
        };
        self.queue(stream, &arrays)
    }

    /// Queues the computation of dx from dy and the weight. If a mask is given, dx is 0 where the mask is 0 or less.
    pub fn input_gradient(
        &self,
        stream: &Stream,
        [dy, weight]: [&DeviceArray; 2],
        mask: Option<&DeviceArray>,
        to: &DeviceArray,
    ) -> Result<()> {
        let maps = [self.map_images(dy)?, self.map_weights(weight)?, self.map_result(to)?];
        self.queue(stream, &Im2colArrays { maps, g: Words(self.words(false)), bias: None, mask, to })
    }

    fn queue(&self, stream: &Stream, arrays: &Im2colArrays<'_>) -> Result<()> {
        let shape = self.kernel.tiles_shape(self.image.pixels(), self.image.columns.into());
        launch(&self.kernel, stream, shape, arrays)
    }

    fn size(&self, dim: Dim) -> u32 {
        u32::try_from(self.kernel.tile().size(dim)).unwrap_or(u32::MAX)
    }

    fn map_images(&self, from: &DeviceArray) -> Result<TensorMap> {
        let Image { batch, channels, input: [height, width], before, output, .. } = self.image;
        let [top, left] = before.map(|side| -side.cast_signed());
        let shape = WindowShape {
            dtype: self.dtype,
            sizes: [channels, width, height, batch].map(u64::from),
            first: [left, top],
            windows: [output[1], output[0]],
            channels: Row::CHANNELS,
            count: self.size(Dim::Bm),
        };
        TensorMap::of_windows(&self.device, from.address(), shape)
    }

    /// Returns the tensor map of the weight. For y, each block of a cluster copies a part of every box.
    fn map_weights(&self, weight: &DeviceArray) -> Result<TensorMap> {
        let rows = match self.pass {
            Pass::Forward => self.size(Dim::Bn) / self.size(Dim::Cluster),
            _ => Row::CHANNELS,
        };
        self.image.map_weights(&self.device, (self.pass, self.dtype), weight, [Row::CHANNELS, rows])
    }

    /// Returns the tensor map of the result, which is stored 64 rows of 64 columns at a time.
    fn map_result(&self, to: &DeviceArray) -> Result<TensorMap> {
        let columns = u64::from(self.image.columns);
        let shape = MatrixShape {
            dtype: self.dtype,
            rows: self.image.pixels(),
            columns,
            ld: columns,
            box_rows: 64,
            box_columns: 64,
        };
        TensorMap::new(&self.device, to.address(), shape)
    }

    /// Returns the kernel's `Im2col` struct.
    fn words(&self, relu: bool) -> [u32; 10] {
        let Image { output: [height, width], kernel: [kh, kw], columns, before, channels, .. } = self.image;
        let pixels = u32::try_from(self.image.pixels()).unwrap_or(u32::MAX);
        let [top, left] = before.map(u32::wrapping_neg);
        [pixels, height, width, columns, kh, kw, channels / Row::CHANNELS, top, left, relu.into()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(channels: usize, filters: usize, side: usize) -> Geometry {
        Geometry {
            batch: 2000,
            height: side,
            width: side,
            channels,
            filters,
            kernel: [3; 2],
            stride: [1; 2],
            padding: [1; 2],
        }
    }

    #[test]
    fn many_channels_are_gathered_and_few_stay_in_shared_memory() {
        let tile = |pass, g: &Geometry, dtype| {
            let shapes = Shapes::new(g, Layout::Nhwc).unwrap();
            let image = image_of(pass, dtype, &shapes)?;
            tile_of(&Row { pass, dtype }.spec(), &image).map(|tile| tile.id.to_string())
        };
        let chosen = |pass, g: &Geometry| tile(pass, g, Dtype::Bf16);
        use Pass::{Forward, InputGradient, WeightGradient};
        assert_eq!(chosen(Forward, &side(256, 256, 7)).as_deref(), Some("128x256s4c2g1"));
        assert_eq!(chosen(InputGradient, &side(256, 512, 7)).as_deref(), Some("128x256s4c2g1"));
        assert_eq!(chosen(Forward, &side(192, 96, 7)).as_deref(), Some("128x128s6c2g1"));
        // The input gradient of 64 channels sums over 256 filters, but the forward pass sums over only 64 channels.
        assert_eq!(chosen(InputGradient, &side(64, 256, 15)).as_deref(), Some("256x64s4c2g1"));
        assert_eq!(chosen(Forward, &side(64, 256, 15)), None);
        assert_eq!(chosen(Forward, &side(128, 128, 15)), None);
        assert_eq!(chosen(WeightGradient, &side(256, 256, 7)), None);
        // Not supported: channels that do not fill rows of 128 bytes, few columns, other types, strides, and the layout NCHW.
        assert_eq!(chosen(Forward, &side(264, 256, 7)), None);
        assert_eq!(chosen(Forward, &side(256, 32, 7)), None);
        assert_eq!(tile(Forward, &side(256, 256, 7), Dtype::Tf32), None);
        assert_eq!(chosen(Forward, &Geometry { stride: [2; 2], ..side(256, 256, 7) }), None);
        let first = Shapes::new(&side(256, 256, 7), Layout::Nchw).unwrap();
        assert!(image_of(Forward, Dtype::Bf16, &first).is_none());
    }
}

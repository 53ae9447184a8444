//! Convolutions of few channels: how images are divided into parts, and how parts are distributed among blocks.

mod launch;

use super::shapes::{Shapes, divisor};
use super::{ForwardArrays, PooledGradient};
use crate::ops::Layout;
use crate::ops::Words;
use crate::ops::conv2d::Geometry;
use warpbook_device::{CudaDevice, Kernel, Result, Slice, Stream};
use warpbook_gemm::DeviceArray;
use warpbook_kernels::Launch;
use warpbook_kernels::nn::conv2d::{FewChannels as Row, Pass};
use warpbook_record::{Dim, Dtype, KernelSpec};

/// Pixels that a block multiplies at a time: 16 per warp. A pooled block has a quarter as many maxima.
const PIXELS_AT_ONCE: u32 = 128;
/// Time to load a part, in units of one multiplication of [`PIXELS_AT_ONCE`] pixels.
const LOAD: u32 = 1;
/// Largest number of elements of a part in shared memory.
const MOST_ELEMENTS: u64 = Row::PART_BYTES as u64 / 2;

/// The loaded kernels. Callers check the lengths and types of arrays.
#[derive(Debug, Clone)]
pub(super) struct Few {
    shapes: Shapes,
    /// The parts into which the forward pass and the gradient divide images.
    parts: [ImageParts; 2],
    /// True if the maxima over windows of 2 x 2 are stored instead of y.
    pool: bool,
    forward: Kernel,
    gradient: Kernel,
    /// Number of gradient blocks that share a filter.
    splits: u32,
}

/// Division of an image into parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ImageParts {
    count: u32,
    /// Number of rows of y in a part. `height` is the number of rows of x in shared memory, and `pitch` the number of elements of such a row.
    rows: u32,
    height: u32,
    pitch: u32,
}

impl ImageParts {
    /// Chooses the division that takes the shortest estimated time with `at_once` blocks for all filters, with a number of rows that is a
    /// multiple of `multiple`. If several take equally long, it chooses the one with the largest parts. `None` if a row of windows does not fit
    /// into shared memory.
    fn new(s: &Shapes, multiple: u32, at_once: u32) -> Option<Self> {
        let pitch = ((s.y[1] - 1) * s.stride[1] + s.kernel[1]).checked_mul(s.channels)?;
        let split_into = |count: u32| {
            let rows = s.y[0].div_ceil(count).next_multiple_of(multiple);
            let height = (rows - 1) * s.stride[0] + s.kernel[0];
            Self { count: s.y[0].div_ceil(rows), rows, height, pitch }
        };
        let fits = |parts: &Self| u64::from(parts.height) * u64::from(pitch) <= MOST_ELEMENTS;
        let time = |parts: &Self| {
            let in_turn =
                (u64::from(s.batch) * u64::from(parts.count)).div_ceil(u64::from((at_once / groups(s)).max(1)));
            in_turn * u64::from((parts.rows * s.y[1]).div_ceil(PIXELS_AT_ONCE) + LOAD)
        };
        (1..=s.y[0]).map(split_into).filter(fits).min_by_key(time)
    }
}

/// Returns the number of steps of 16 taps, with room for the bias's tap in the backward pass; `None` if the kernels do not support the convolution.
fn steps(dtype: Dtype, s: &Shapes) -> Option<i64> {
    let takes = matches!(dtype, Dtype::F16 | Dtype::Bf16)
        && s.layout == Layout::Nhwc
        && s.filters.is_multiple_of(8)
        && u64::from(s.channels) * u64::from(s.window()) < 16 * Row::MOST_STEPS as u64;
    takes.then(|| i64::from(s.taps() / 16 + 1))
}

/// Returns the kernels of the forward pass and the gradient; `None` if another method has to compute them. `pool[0]`: the forward pass stores maxima;
/// `pool[1]`: the gradient starts from the gradient of the maxima.
pub(crate) fn specs_of(dtype: Dtype, geometry: &Geometry, layout: Layout, pool: [bool; 2]) -> Option<[KernelSpec; 2]> {
    let shapes = Shapes::new(geometry, layout).ok()?;
    let steps = steps(dtype, &shapes)?;
    parts(&shapes, pool[0], [1; 2]).map(|_| Row { dtype, steps, pool }.specs())
}

/// Returns how the forward pass and the gradient divide images, given how many blocks of each kernel fit on the device. A pool's window never
/// spans two parts.
fn parts(shapes: &Shapes, pool: bool, [forward, backward]: [u32; 2]) -> Option<[ImageParts; 2]> {
    Some([ImageParts::new(shapes, if pool { 2 } else { 1 }, forward)?, ImageParts::new(shapes, 1, backward)?])
}

impl Few {
    /// Compiles the kernels; `None` if they do not support the convolution: types other than f16 and bf16, NCHW, filters that are not a
    /// multiple of 8, 64 or more taps over all channels, rows that do not fit into shared memory, or a compute capability below 8.0. `pool`
    /// has the meaning that [`specs_of`] documents.
    ///
    /// # Errors
    /// If compiling fails or the driver reports an error.
    pub fn new(device: &CudaDevice, dtype: Dtype, shapes: &Shapes, pool: [bool; 2]) -> Result<Option<Self>> {
        let info = device.info();
        let Some(steps) = steps(dtype, shapes) else { return Ok(None) };
        let specs = Row { dtype, steps, pool }.specs();
        if specs.iter().any(|spec| spec.requires.as_ref().is_some_and(|r| !r.met_by(info.compute_capability))) {
            return Ok(None);
        }
        let blocks_per_sm = |spec: &KernelSpec| u32::try_from(spec.tiles[0].size(Dim::BlocksPerSm)).unwrap_or(1);
        let at_once = specs.each_ref().map(|spec| info.multiprocessors.max(1) * blocks_per_sm(spec));
        let Some(parts) = parts(shapes, pool[0], at_once) else { return Ok(None) };
        let [forward, gradient] = specs.map(|spec| device.kernel(&spec, &spec.tiles[0]));
        let units = shapes.batch * parts[1].count;
        // All blocks get as many parts as the busiest block, so that as few blocks as possible are needed.
        let each = units.div_ceil((at_once[1] / groups(shapes)).max(1));
        let splits = units.div_ceil(each);
        Ok(Some(Self { shapes: *shapes, parts, pool: pool[0], forward: forward?, gradient: gradient?, splits }))
    }

    /// Returns the kernel of the forward pass or the weight gradient.
    pub fn kernel(&self, pass: Pass) -> &Kernel {
        if pass == Pass::Forward { &self.forward } else { &self.gradient }
    }

    /// Returns the number of blocks that share a weight.
    pub fn splits(&self) -> u32 {
        self.splits
    }

    pub fn forward(&self, stream: &Stream, f: &ForwardArrays<'_>) -> Result<()> {
        let blocks = self.shapes.batch * self.parts[0].count * groups(&self.shapes);
        launch::forward(&self.forward, stream, grid(&self.forward, blocks), Words(self.words(0)), f)
    }

    /// Writes f32 partial sums into `out`: for each split `[filters][taps]` of dw, followed by `[filters]` of db.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn gradients(&self, stream: &Stream, [x, dy]: [&DeviceArray; 2], out: &Slice<f32>) -> Result<()> {
        let shape = grid(&self.gradient, self.splits * groups(&self.shapes));
        launch::gradient(&self.gradient, stream, shape, Words(self.words(1)), [x, dy], None, out)
    }

    /// Like [`Few::gradients`], but from the gradient of the maxima, with a kernel compiled for that.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn pooled_gradients(
        &self,
        stream: &Stream,
        x: &DeviceArray,
        maxima_gradient: &PooledGradient<'_>,
        out: &Slice<f32>,
    ) -> Result<()> {
        let shape = grid(&self.gradient, self.splits * groups(&self.shapes));
        launch::gradient(
            &self.gradient,
            stream,
            shape,
            Words(self.words(1)),
            [x, maxima_gradient.dy],
            Some(maxima_gradient),
            out,
        )
    }

    /// Returns the kernels' `Few` struct for the forward or backward pass.
    fn words(&self, pass: usize) -> [u32; 19] {
        let (s, p) = (&self.shapes, &self.parts[pass]);
        let [[h, w], [oh, ow], [sh, sw], [ph, pw]] = [s.x, s.y, s.stride, s.padding];
        let [value, multiplier, shift] = divisor(if self.pool && pass == 0 { s.pooled()[1] } else { ow });
        let window_row = s.kernel[1] * s.channels;
        [
            s.batch * p.count,
            p.count,
            p.rows,
            h,
            w * s.channels,
            oh,
            ow,
            s.filters,
            s.taps(),
            window_row,
            sh,
            sw * s.channels,
            ph,
            pw * s.channels,
            p.height,
            p.pitch,
            value,
            multiplier,
            shift,
        ]
    }
}

/// Returns the number of blocks that cover all filters.
fn groups(s: &Shapes) -> u32 {
    s.filters.div_ceil(Row::FILTERS)
}

fn grid(kernel: &Kernel, blocks: u32) -> Launch {
    Launch { grid: [blocks, 1, 1], ..kernel.shape(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(batch: usize, side: usize, channels: usize, kernel: usize, padding: usize) -> Shapes {
        let (kernel, stride, padding) = ([kernel; 2], [1; 2], [padding; 2]);
        let g = Geometry { batch, height: side, width: side, channels, filters: 32, kernel, stride, padding };
        Shapes::new(&g, Layout::Nhwc).unwrap()
    }

    #[test]
    fn parts_cover_the_image_and_fit() {
        for s in [shapes(512, 28, 1, 3, 0), shapes(128, 32, 3, 3, 1), shapes(1, 224, 3, 3, 1), shapes(2, 1, 1, 1, 0)] {
            let p = ImageParts::new(&s, 1, 396).unwrap();
            assert!(p.rows * p.count >= s.y[0] && p.rows * (p.count - 1) < s.y[0], "{p:?}");
            assert!(u64::from(p.height * p.pitch) <= MOST_ELEMENTS, "{p:?}");
        }
        let wanted = |s: &Shapes, multiple, at_once| ImageParts::new(s, multiple, at_once).map(|p| (p.count, p.rows));
        // Each block gets a whole image if there are enough blocks; otherwise there are as many parts as there is room for.
        assert_eq!(wanted(&shapes(512, 28, 1, 3, 0), 1, 528), Some((1, 26)));
        assert_eq!(wanted(&shapes(128, 32, 3, 3, 1), 1, 396), Some((3, 11)));
        assert_eq!(wanted(&shapes(128, 32, 3, 3, 1), 2, 396), Some((3, 12)));
        // Two rounds of whole images leave half of the blocks idle in the second round; three rounds of half images do not.
        assert_eq!(wanted(&shapes(512, 32, 3, 3, 1), 1, 396), Some((2, 16)));
        let wide = Shapes { x: [3, 20_000], y: [1, 19_998], ..shapes(1, 3, 1, 3, 0) };
        assert_eq!(ImageParts::new(&wide, 1, 396), None, "three rows are too long");
    }

    #[test]
    fn a_bias_is_one_more_tap() {
        assert_eq!(steps(Dtype::F16, &shapes(2, 28, 1, 3, 0)), Some(1));
        assert_eq!(steps(Dtype::F16, &shapes(2, 28, 1, 4, 0)), Some(2), "16 taps and the bias");
        assert_eq!(steps(Dtype::F16, &shapes(2, 28, 7, 3, 0)), Some(4), "63 taps and the bias");
        assert_eq!(steps(Dtype::F16, &shapes(2, 28, 16, 2, 0)), None);
        assert_eq!(steps(Dtype::Tf32, &shapes(2, 28, 1, 3, 0)), None);
    }
}

//! Convolution as a product whose patches are never stored.

mod launch;

use super::few_channels::Few;
use super::pooled::no_unpooling;
use super::shapes::Shapes;
use super::shifted_windows::{WindowGradient, WindowPass, WindowsKernel};
use super::tma_im2col::TmaIm2col;
use super::{Form, ForwardArrays, Method, PooledGradient};
use crate::ops::Layout;
use crate::ops::conv2d::Geometry;
use std::sync::Arc;
use warpbook_device::{CudaDevice, Error, Kernel, Result, Slice, Stream};
use warpbook_gemm::{DeviceArray, Sums, Workspace};
use warpbook_kernels::nn::conv2d::{Implicit as Row, Pass};
use warpbook_record::{Dim, Dtype, KernelSpec};

/// Largest size in bytes of a weight gradient's partial sums.
const PARTIAL_BYTES: u64 = 32 << 20;
/// Fewest stages of k per block; with fewer, filling the block's ring of stages does not pay off.
const LEAST_STAGES: u32 = 4;

/// The implicit product. Callers check the lengths and types of arrays.
#[derive(Debug, Clone)]
pub(super) struct Implicit {
    shapes: Shapes,
    method: Method,
    forward: Forwards,
    input_gradient: ImplicitBody,
    weight_gradient: Gradient,
    /// Number of blocks that share a weight. `total` is the kernel that adds their sums; `None` if one block writes dw itself.
    splits: u32,
    total: Option<Sums>,
}

/// The kernels that compute dw.
#[derive(Debug, Clone)]
enum Gradient {
    /// Each block sums this many pixels.
    Gathered(Box<Copies>, u32),
    /// Computes dw together with db.
    Shifted(Box<WindowGradient>),
    Few(Arc<Few>),
}

/// The kernels that compute y.
#[derive(Debug, Clone)]
enum Forwards {
    Few(Arc<Few>),
    By(ImplicitBody),
}

/// The kernels that compute dx, and y if the convolution has more than a few channels.
#[derive(Debug, Clone)]
enum ImplicitBody {
    Gathered(Box<Copies>),
    Shifted(Box<WindowsKernel>),
    ByTma(Box<TmaIm2col>),
}

impl ImplicitBody {
    fn kernel(&self) -> &Kernel {
        match self {
            Self::Gathered(copies) => &copies.kernel,
            Self::Shifted(windows) => windows.kernel(),
            Self::ByTma(im2col) => im2col.kernel(),
        }
    }
}

/// A kernel, with a flag for copies of 16 bytes, which require arrays aligned to 16 bytes.
#[derive(Debug, Clone)]
struct Copies {
    kernel: Kernel,
    vectors: [bool; 2],
}

impl Copies {
    fn check(&self, arrays: [(&str, &DeviceArray); 2]) -> Result<()> {
        aligned(arrays.into_iter().zip(self.vectors).filter(|(_, vectors)| *vectors).map(|(array, _)| array))
    }
}

/// Refuses arrays that are not aligned to 16 bytes.
fn aligned<'a>(arrays: impl IntoIterator<Item = (&'a str, &'a DeviceArray)>) -> Result<()> {
    match arrays.into_iter().find(|(_, array)| !array.address().is_aligned(16)) {
        None => Ok(()),
        Some((name, _)) => Err(Error::Unsupported {
            what: format!("conv2d: {name}"),
            why: "does not start at a multiple of 16 bytes, but the kernel for these channels copies 16 bytes at a time; align it"
                .into(),
        }),
    }
}

/// Returns, for both operands, true if they are copied 16 bytes at a time: NHWC with adjacent channels and filters that fill multiples of 16 bytes.
fn vectors(pass: Pass, shapes: &Shapes, dtype: Dtype) -> [bool; 2] {
    let whole =
        |channels: u32| shapes.layout == Layout::Nhwc && (u64::from(channels) * dtype.bytes()).is_multiple_of(16);
    let (channels, filters) = (whole(shapes.channels), whole(shapes.filters));
    match pass {
        _ if dtype == Dtype::F32 => [false; 2],
        Pass::Forward => [channels; 2],
        Pass::InputGradient => [channels && filters && shapes.stride == [1, 1]; 2],
        Pass::WeightGradient => [filters, channels && filters],
    }
}

/// Returns the compile-time settings of a pass's kernel; `pool` applies only to the forward pass.
fn settings(pass: Pass, dtype: Dtype, shapes: &Shapes, turing: bool, pool: bool) -> Row {
    let dilated = pass == Pass::InputGradient && shapes.stride != [1, 1];
    let (vectors, pool) = (vectors(pass, shapes, dtype), pool && pass == Pass::Forward);
    Row { pass, dtype, layout: shapes.layout, vectors, dilated, turing, pool }
}

/// Returns the kernel of a pass; `None` if no kernel supports the convolution's sizes.
pub(crate) fn spec_of(
    pass: Pass,
    dtype: Dtype,
    geometry: &Geometry,
    layout: Layout,
    turing: bool,
    pool: bool,
) -> Option<KernelSpec> {
    Some(settings(pass, dtype, &Shapes::new(geometry, layout).ok()?, turing, pool).spec())
}

/// Chooses the tile of a pass whose product C is m x n. Among the tiles wide enough for n, or else the widest, it takes the tallest that gives one
/// and a half blocks per SM, or else the smallest. A weight gradient, whose k is divided among as many blocks as fit, takes the smallest
/// tile that covers C.
fn tile(spec: &KernelSpec, pass: Pass, [m, n]: [u32; 2], multiprocessors: u32) -> usize {
    let size = |i: usize, dim| u32::try_from(spec.tiles[i].size(dim)).unwrap_or(u32::MAX);
    let all = 0..spec.tiles.len();
    if pass == Pass::WeightGradient {
        let covers = |i: &usize| size(*i, Dim::Bm) >= m && size(*i, Dim::Bn) >= n;
        return all.rev().find(covers).unwrap_or(0);
    }
    let widest = all.clone().map(|i| size(i, Dim::Bn)).max().unwrap_or(1);
    let width = all.clone().map(|i| size(i, Dim::Bn)).filter(|bn| *bn >= n).min().unwrap_or(widest);
    let blocks = |i: usize| u64::from(m.div_ceil(size(i, Dim::Bm))) * u64::from(n.div_ceil(size(i, Dim::Bn)));
    let wide = || all.clone().filter(|i| size(*i, Dim::Bn) == width);
    let fills = |i: &usize| 2 * blocks(*i) >= 3 * u64::from(multiprocessors);
    wide().find(fills).or_else(|| wide().next_back()).unwrap_or(0)
}

impl Implicit {
    /// Compiles the kernels. `pools[0]`: the forward pass stores the maxima over windows of 2 x 2 instead of y; `pools[1]`: the weight
    /// gradient starts from the gradient of maxima, which only the kernels for few channels support.
    ///
    /// # Errors
    /// If the kernels for this type need another GPU; if compiling fails or the driver reports an error.
    pub fn new(device: &CudaDevice, shapes: &Shapes, form: Form, pools: [bool; 2]) -> Result<Self> {
        let pool = pools[0];
        let info = device.info();
        let multiprocessors = info.multiprocessors;
        let method = form.method.on(info.compute_capability, form.dtype);
        let (positions, taps) = (shapes.positions(), shapes.taps());
        let load = |pass, sizes| -> Result<Copies> {
            let settings = settings(pass, form.dtype, shapes, method == Method::ImplicitGemmTuring, pool);
            let spec = settings.spec();
            if let Some(needs) = spec.requires.as_ref().filter(|r| !r.met_by(info.compute_capability)) {
                return Err(Error::Unsupported {
                    what: format!("The implicit convolution in {}", form.dtype.label()),
                    why: format!("needs {}; on this one use fp16 or fp32", needs.sentence()),
                });
            }
            let tile = &spec.tiles[tile(&spec, pass, sizes, multiprocessors)];
            Ok(Copies { kernel: device.kernel(&spec, tile)?, vectors: settings.vectors })
        };
        let body = |pass, sizes| -> Result<ImplicitBody> {
            let pool = pool && pass == Pass::Forward;
            // If this kernel computes y, no pool is part of the epilogue: see `Convolution::pools`.
            if method == Method::ManyChannels
                && let Some(im2col) = TmaIm2col::new(device, pass, form.dtype, shapes)?
            {
                return Ok(ImplicitBody::ByTma(Box::new(im2col)));
            }
            let windows = if method.has_shifted_windows() {
                WindowsKernel::new(device, WindowPass { pass, dtype: form.dtype, pool, shapes })?
            } else {
                None
            };
            Ok(match windows {
                Some(windows) => ImplicitBody::Shifted(Box::new(windows)),
                None => ImplicitBody::Gathered(Box::new(load(pass, sizes)?)),
            })
        };
        let few =
            if method.has_few_channels() { Few::new(device, form.dtype, shapes, pools)?.map(Arc::new) } else { None };
        let forward = match &few {
            Some(few) => Forwards::Few(few.clone()),
            None => Forwards::By(body(Pass::Forward, [positions, shapes.filters])?),
        };
        let input_gradient = body(Pass::InputGradient, [shapes.batch * shapes.input_pixels(), shapes.channels])?;
        let shifted = if method.has_shifted_windows() && few.is_none() {
            WindowGradient::new(device, form.dtype, shapes)?
        } else {
            None
        };
        let (weight_gradient, splits) = if let Some(few) = few {
            let splits = few.splits();
            (Gradient::Few(few), splits)
        } else if let Some(shifted) = shifted {
            let splits = shifted.splits();
            (Gradient::Shifted(Box::new(shifted)), splits)
        } else {
            let copies = load(Pass::WeightGradient, [shapes.filters, taps])?;
            let share = share(&copies.kernel, [shapes.filters, taps], positions, multiprocessors);
            (Gradient::Gathered(Box::new(copies), share), positions.div_ceil(share))
        };
        let with_bias = !matches!(weight_gradient, Gradient::Gathered(..));
        let n = shapes.gradient_columns(with_bias);
        let total = (with_bias || splits > 1).then(|| Sums::of_few(device, n, splits)).transpose()?;
        Ok(Self { shapes: *shapes, method, forward, input_gradient, weight_gradient, splits, total })
    }

    /// Returns the kernel of a pass; for a weight gradient the kernel of the product, not the one that adds partial sums.
    pub fn kernel(&self, pass: Pass) -> &Kernel {
        match (pass, &self.forward, &self.weight_gradient) {
            (Pass::Forward, Forwards::Few(few), _) => few.kernel(pass),
            (Pass::Forward, Forwards::By(body), _) => body.kernel(),
            (Pass::InputGradient, ..) => self.input_gradient.kernel(),
            (Pass::WeightGradient, _, Gradient::Gathered(copies, _)) => &copies.kernel,
            (Pass::WeightGradient, _, Gradient::Shifted(shifted)) => shifted.kernel(),
            (Pass::WeightGradient, _, Gradient::Few(few)) => few.kernel(pass),
        }
    }

    pub fn uses_shifted_windows(&self) -> [bool; 3] {
        let uses_shifted_windows = |body: &ImplicitBody| matches!(body, ImplicitBody::Shifted(_));
        let gradient = matches!(self.weight_gradient, Gradient::Shifted(_));
        let forward = matches!(&self.forward, Forwards::By(body) if uses_shifted_windows(body));
        [forward, uses_shifted_windows(&self.input_gradient), gradient]
    }

    pub fn uses_tma_im2col(&self) -> [bool; 2] {
        let uses = |body: &ImplicitBody| matches!(body, ImplicitBody::ByTma(_));
        [matches!(&self.forward, Forwards::By(body) if uses(body)), uses(&self.input_gradient)]
    }

    pub fn uses_turing_kernels(&self) -> bool {
        self.method == Method::ImplicitGemmTuring
    }

    /// Returns true if the weight gradient includes the bias gradient.
    pub fn has_bias_gradient(&self) -> bool {
        !matches!(self.weight_gradient, Gradient::Gathered(..))
    }

    pub fn uses_few_channels(&self) -> bool {
        matches!(self.weight_gradient, Gradient::Few(_))
    }

    pub fn workspace_bytes(&self) -> u64 {
        let n = u64::from(self.shapes.filters) * u64::from(self.shapes.taps() + u32::from(self.has_bias_gradient()));
        if self.total.is_some() { 4 * u64::from(self.splits) * n } else { 0 }
    }

    pub fn forward(&self, stream: &Stream, f: &ForwardArrays<'_>) -> Result<()> {
        match &self.forward {
            Forwards::By(ImplicitBody::Gathered(copies)) => {
                copies.check([("x", f.x), ("the weight", f.weight)])?;
                aligned(f.pool.map(|_| ("y", f.y)))?;
                launch::forward(&copies.kernel, stream, &self.shapes, f)
            }
            Forwards::By(ImplicitBody::Shifted(windows)) => {
                aligned([("x", f.x), ("the weight", f.weight), ("y", f.y)])?;
                windows.forward(stream, f)
            }
            Forwards::By(ImplicitBody::ByTma(im2col)) => {
                aligned([("x", f.x), ("the weight", f.weight), ("y", f.y)])?;
                im2col.forward(stream, f)
            }
            Forwards::Few(few) => {
                aligned([("y", f.y)])?;
                few.forward(stream, f)
            }
        }
    }

    pub fn input_gradient(
        &self,
        stream: &Stream,
        dy: &DeviceArray,
        weight: &DeviceArray,
        mask: Option<&DeviceArray>,
        dx: &DeviceArray,
    ) -> Result<()> {
        match &self.input_gradient {
            ImplicitBody::Gathered(copies) => {
                copies.check([("dy", dy), ("the weight", weight)])?;
                launch::input_gradient(&copies.kernel, stream, &self.shapes, [dy, weight], mask, dx)
            }
            ImplicitBody::Shifted(windows) => {
                aligned([("dy", dy), ("the weight", weight), ("dx", dx)])?;
                aligned(mask.map(|mask| ("the mask", mask)))?;
                windows.input_gradient(stream, [dy, weight], mask, dx)
            }
            ImplicitBody::ByTma(im2col) => {
                aligned([("dy", dy), ("the weight", weight), ("dx", dx)])?;
                im2col.input_gradient(stream, [dy, weight], mask, dx)
            }
        }
    }

    pub fn weight_gradient(
        &self,
        stream: &Stream,
        [x, dy]: [&DeviceArray; 2],
        dweight: &Slice<f32>,
        dbias: Option<&Slice<f32>>,
        workspace: &Workspace,
    ) -> Result<()> {
        self.queue_parts(stream, (dweight, dbias), workspace, |out| match &self.weight_gradient {
            Gradient::Gathered(copies, share) => {
                // Operand A is dy, and operand B is x.
                copies.check([("dy", dy), ("x", x)])?;
                let shares = [*share, self.splits];
                launch::weight_gradient(&copies.kernel, stream, &self.shapes, [x, dy], shares, out)
            }
            Gradient::Shifted(shifted) => {
                aligned([("dy", dy), ("x", x)])?;
                shifted.queue(stream, [x, dy], out)
            }
            Gradient::Few(few) => {
                aligned([("dy", dy)])?;
                few.gradients(stream, [x, dy], out)
            }
        })
    }

    /// Like [`Implicit::weight_gradient`], but starts from the gradient of the maxima.
    ///
    /// # Errors
    /// If the gradient of the maxima or the mask is not aligned to 16 bytes, `dbias` has the wrong length, or the weight gradient is not computed by
    /// the kernel for few channels; if a launch fails.
    pub fn pooled_weight_gradient(
        &self,
        stream: &Stream,
        (x, maxima_gradient): (&DeviceArray, &PooledGradient<'_>),
        dweight: &Slice<f32>,
        dbias: Option<&Slice<f32>>,
        workspace: &Workspace,
    ) -> Result<()> {
        aligned([("the gradient of the maxima", maxima_gradient.dy)])?;
        aligned(maxima_gradient.mask.map(|(mask, _)| ("the mask", mask)))?;
        self.queue_parts(stream, (dweight, dbias), workspace, |out| match &self.weight_gradient {
            Gradient::Few(few) => few.pooled_gradients(stream, x, maxima_gradient, out),
            Gradient::Gathered(..) | Gradient::Shifted(_) => Err(no_unpooling()),
        })
    }

    /// Calls `queue`, which queues the kernel that writes partial sums or dw itself, and then queues the addition of the partial sums.
    fn queue_parts(
        &self,
        stream: &Stream,
        (dweight, dbias): (&Slice<f32>, Option<&Slice<f32>>),
        workspace: &Workspace,
        queue: impl FnOnce(&Slice<f32>) -> Result<()>,
    ) -> Result<()> {
        let partial = self.total.as_ref().map(|_| workspace.part(0, self.workspace_bytes()).cast::<f32>());
        queue(partial.as_ref().unwrap_or(dweight))?;
        let rest = dbias.filter(|_| self.has_bias_gradient());
        match (&self.total, &partial) {
            (Some(total), Some(partial)) => total.queue_parts(stream, &partial.into(), (dweight, rest)),
            _ => Ok(()),
        }
    }
}

/// Returns the number of pixels per block of the weight gradient, a multiple of BK, for as many blocks as run at once, if each gets at least a few stages
/// and their sums fit into the workspace. It depends on the tile and the number of SMs, so a device gives the same bits on every run.
fn share(kernel: &Kernel, [m, n]: [u32; 2], pixels: u32, multiprocessors: u32) -> u32 {
    let size = |dim| u32::try_from(kernel.tile().size(dim)).unwrap_or(u32::MAX);
    let tiles = m.div_ceil(size(Dim::Bm)) * n.div_ceil(size(Dim::Bn));
    let at_once = multiprocessors.saturating_mul(size(Dim::BlocksPerSm));
    let most = u32::try_from(PARTIAL_BYTES / (4 * u64::from(m) * u64::from(n))).unwrap_or(u32::MAX);
    let splits = (at_once / tiles).min(pixels.div_ceil(LEAST_STAGES * size(Dim::Bk))).min(most).max(1);
    pixels.div_ceil(splits).next_multiple_of(size(Dim::Bk))
}

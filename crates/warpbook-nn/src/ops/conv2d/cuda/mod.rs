//! CUDA implementation with four methods: the definition, a product with columns in memory, a product whose columns are never stored, and
//! NVIDIA's library.
//!
//! Images are NHWC with weights `[filters][kh][kw][channels]`, or NCHW with `[filters][channels][kh][kw]`.

mod direct;
mod few_channels;
mod im2col;
mod implicit_gemm;
mod pooled;
mod reference;
mod shapes;
mod shifted_windows;
mod stock;
mod tma_im2col;

use super::{Geometry, OP};
use crate::ops::Layout;
use crate::ops::error::Check;
use crate::ops::linear::cuda::stored;
use direct::Direct;
pub(crate) use few_channels::specs_of as few_specs_of;
use im2col::Im2col;
use implicit_gemm::Implicit;
pub(crate) use implicit_gemm::spec_of as implicit_spec_of;
pub use reference::Reference;
use shapes::Shapes;
pub(crate) use shifted_windows::kernel_of as shifted_kernel_of;
use std::sync::Arc;
use stock::Stock;
pub(crate) use tma_im2col::kernel_of as tma_kernel_of;
use warpbook_device::{CudaDevice, CudnnPlan, Error, Result, Slice, Stream};
use warpbook_gemm::{DeviceArray, Gemm, ProductBy, RowsOf, Sums, Workspace, refused};
pub use warpbook_kernels::nn::conv2d::Pass;
use warpbook_kernels::nn::conv2d::direct as direct_rows;
use warpbook_kernels::nn::total_sums_of;
use warpbook_record::{Dtype, KernelSpec, KernelStats};

/// The compute capability that has the instructions for shifted windows.
pub(crate) const HOPPER: (u32, u32) = (9, 0);

/// The method that computes a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// The definition, one thread per output; f32.
    Direct,
    /// A matrix product with columns of patches, a panel of images at a time: see [`Convolution::by`].
    Im2col,
    /// A product that gathers the patches' elements while it loads its tiles: f32 on CUDA cores, the other types on tensor cores (f16 from
    /// compute capability 7.5, where it is [`Method::ImplicitGemmTuring`]; tf32 and bf16 from 8.0). In NHWC with channels (backward: and
    /// filters) that fill multiples of 16 bytes it copies 16 bytes at a time; x, dy and the weight must then be aligned to 16 bytes.
    ImplicitGemm,
    /// [`Method::ImplicitGemm`] in f16 with the instructions of compute capability 7.5: copies pass through registers, and a tensor core
    /// instruction covers half the k. On GPUs below 8.0 it replaces all variants of the implicit product in f16; newer GPUs use it only on
    /// request.
    ImplicitGemmTuring,
    /// Like [`Method::ImplicitGemm`], but f16 and bf16 use Hopper's own instructions if the shapes permit: NHWC, strides of 1, windows that fit
    /// into shared memory, and channels and filters that are multiples of 8 and contain at most a quarter zeros after padding to multiples of
    /// 32. Other convolutions fall back to [`Method::ImplicitGemm`].
    ShiftedWindows,
    /// Like [`Method::ShiftedWindows`], but convolutions of few channels, whose windows have at most 63 elements, assemble their patches in
    /// registers: f16 and bf16 in NHWC, filters that are multiples of 8, from compute capability 8.0. The input gradient does not change.
    FewChannels,
    /// Like [`Method::FewChannels`], but if the weights of 64 columns leave too little shared memory for windows, TMA gathers the windows in
    /// im2col mode: f16 and bf16 in NHWC on Hopper, strides of 1, channels (for dx: filters) that are multiples of 64. The weight gradient does
    /// not change.
    ManyChannels,
    /// cuDNN, with the first engines of its heuristics that give the same bits on every run, if there are any; this project's kernels apply
    /// biases, ReLUs and masks afterwards. In 16-bit types y is rounded before the bias is added, and again after it; dw is rounded to 16
    /// bits before it is widened.
    Stock,
    /// cuDNN with the fastest of the first ten engines of its heuristics, timed when the kernels are prepared: bits may differ between
    /// runs, and each preparation may choose another engine.
    StockFastest,
}

impl Method {
    /// Returns true if the method is cuDNN's.
    #[must_use]
    pub fn is_stock(self) -> bool {
        matches!(self, Self::Stock | Self::StockFastest)
    }

    /// Returns true if the method has special kernels for first layers with few channels.
    #[must_use]
    pub fn has_few_channels(self) -> bool {
        matches!(self, Self::FewChannels | Self::ManyChannels)
    }

    /// Returns true if the method uses Hopper's shifted windows for the convolutions that they support.
    #[must_use]
    pub fn has_shifted_windows(self) -> bool {
        self == Self::ShiftedWindows || self.has_few_channels()
    }

    /// Returns the method that replaces this one on a GPU of this compute capability. Without Hopper's instructions, [`Method::ShiftedWindows`]
    /// becomes [`Method::ImplicitGemm`], and [`Method::ManyChannels`] becomes [`Method::FewChannels`]; in f16 below 8.0 all variants of the
    /// implicit product become [`Method::ImplicitGemmTuring`].
    #[must_use]
    pub fn on(self, compute_capability: Option<(u32, u32)>, dtype: Dtype) -> Self {
        match self {
            Self::ImplicitGemm | Self::ShiftedWindows | Self::FewChannels | Self::ManyChannels
                if dtype == Dtype::F16 && compute_capability < Some((8, 0)) =>
            {
                Self::ImplicitGemmTuring
            }
            Self::ShiftedWindows if compute_capability != Some(HOPPER) => Self::ImplicitGemm,
            Self::ManyChannels if compute_capability != Some(HOPPER) => Self::FewChannels,
            method => method,
        }
    }
}

/// Method, type and layout of a convolution's kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Form {
    /// Method of all passes.
    pub method: Method,
    /// Type of images and weights: `F32`, `Tf32`, which is stored as f32, `F16` or `Bf16`. Sums are in f32.
    pub dtype: Dtype,
    /// Memory layout of images.
    pub layout: Layout,
}

impl Form {
    /// Returns the kernels of a pass without a bias, on a GPU of this compute capability; `None` if the method does not support the type, or if
    /// another method, a matrix product or a library computes a part of the pass.
    #[must_use]
    pub fn kernels(
        self,
        pass: Pass,
        geometry: &Geometry,
        compute_capability: Option<(u32, u32)>,
    ) -> Option<Vec<KernelSpec>> {
        let Self { method, dtype, layout } = self;
        let implicit = |turing| implicit_spec_of(pass, dtype, geometry, layout, turing, false).map(|spec| vec![spec]);
        match method {
            Method::Direct => (dtype == Dtype::F32).then(|| vec![direct_rows(layout)[pass as usize].clone()]),
            Method::Im2col | Method::Stock | Method::StockFastest => None,
            Method::ImplicitGemmTuring => (dtype == Dtype::F16).then(|| implicit(true)).flatten(),
            Method::ImplicitGemm => implicit(dtype == Dtype::F16 && compute_capability < Some((8, 0))),
            Method::ShiftedWindows if compute_capability != Some(HOPPER) => None,
            Method::ShiftedWindows => shifted_kernel_of(pass, dtype, geometry, layout, false).map(|spec| vec![spec]),
            Method::ManyChannels if compute_capability != Some(HOPPER) => None,
            Method::ManyChannels => tma_kernel_of(pass, dtype, geometry, layout).map(|spec| vec![spec]),
            Method::FewChannels if compute_capability < Some((8, 0)) => None,
            Method::FewChannels => {
                let [forward, gradient] = few_specs_of(dtype, geometry, layout, [false; 2])?;
                match pass {
                    Pass::Forward => Some(vec![forward]),
                    Pass::InputGradient => None,
                    Pass::WeightGradient => Some(vec![gradient, gradient_sums_of(geometry, layout, true)?]),
                }
            }
        }
    }
}

/// Returns the kernel that adds up the partial sums of a weight gradient, and of the bias gradient if `with_bias`. `None` for shapes that no kernel
/// supports.
pub(crate) fn gradient_sums_of(geometry: &Geometry, layout: Layout, with_bias: bool) -> Option<KernelSpec> {
    let shapes = Shapes::new(geometry, layout).ok()?;
    Some(total_sums_of(shapes.gradient_columns(with_bias)))
}

/// An operation applied to the outputs after the bias, before they are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Epilogue {
    /// No operation.
    #[default]
    None,
    /// max(v, 0); NaN remains NaN.
    Relu,
}

/// The checked arrays of a forward pass.
struct ForwardArrays<'a> {
    x: &'a DeviceArray,
    weight: &'a DeviceArray,
    bias: Option<&'a Slice<f32>>,
    relu: bool,
    y: &'a DeviceArray,
    /// Set for kernels that pool: y then receives the maxima, and this optional array their positions in the windows.
    pool: Option<Option<&'a Slice<u8>>>,
}

/// The gradient of the maxima that [`Convolution::forward_pooled`] stores, and what it takes to carry it back through the pool, and through
/// the ReLU and dropout fused with it.
#[derive(Debug, Clone, Copy)]
pub struct PooledGradient<'a> {
    /// Gradient of the maxima, `[batch][oh / 2][ow / 2][filters]`.
    pub dy: &'a DeviceArray,
    /// Positions of the maxima in their windows, in the shape of `dy`.
    pub places: &'a Slice<u8>,
    /// For a ReLU before the pool: the maxima, and a factor for dy. The gradient is dropped unless its maximum is above 0 or NaN. The
    /// factor is the scale of a dropout whose zeros are in the maxima, or 1.
    pub mask: Option<(&'a DeviceArray, f32)>,
}

#[derive(Debug, Clone)]
enum ConvolutionBody {
    Direct(Box<Direct>),
    Im2col(Box<Im2col>),
    Implicit(Box<Implicit>),
    Stock(Arc<Stock>),
}

/// The loaded kernels of a convolution, for one geometry and one form. The functions allocate nothing, wait for nothing, and give the same
/// bits on every run; for cuDNN see [`Convolution::is_deterministic`]. Outputs must overlap no other array, and nothing else may use the
/// workspace at the same time.
#[derive(Debug, Clone)]
pub struct Convolution {
    geometry: Geometry,
    form: Form,
    body: ConvolutionBody,
    /// First flag: true if the forward pass is [`Convolution::forward_pooled`]. Second flag: true if the weight gradient is
    /// [`Convolution::pooled_weight_gradient`].
    pools: [bool; 2],
    /// Kernels that sum dy for the bias gradient, if `body` does not compute it.
    bias_gradient: Option<Sums>,
}

impl Convolution {
    /// Compiles and loads everything, and chooses tiles and splits for this geometry and device.
    ///
    /// # Errors
    /// If a size is zero or too large, or the kernel is larger than the padded image; [`Error::Unsupported`] if the method does not support
    /// the type on this device, or cuDNN does not support the convolution; if there is no cuDNN; if compiling fails or the device reports an error.
    pub fn new(device: &CudaDevice, gemm: &Gemm, geometry: &Geometry, form: Form) -> Result<Self> {
        Self::by(ProductBy::Own, device, gemm, geometry, form)
    }

    /// Like [`Convolution::new`], with a choice of the implementation `by` that computes the products of [`Method::Im2col`]: the rung that this
    /// project chooses (also if `by` is a library), or a single kernel, such as your own. Other methods ignore `by`.
    ///
    /// # Errors
    /// Returns the same errors as [`Convolution::new`], and an error if the kernel does not support the products.
    pub fn by(by: ProductBy, device: &CudaDevice, gemm: &Gemm, geometry: &Geometry, form: Form) -> Result<Self> {
        Self::build((gemm, by), device, geometry, form, [false; 2])
    }

    fn build(
        (gemm, by): (&Gemm, ProductBy),
        device: &CudaDevice,
        geometry: &Geometry,
        form: Form,
        pools: [bool; 2],
    ) -> Result<Self> {
        let unsupported = |why: &str| Error::Unsupported {
            what: format!("A convolution in {}", form.dtype.label()),
            why: why.into(),
        };
        if !matches!(form.dtype, Dtype::F32 | Dtype::Tf32 | Dtype::F16 | Dtype::Bf16) {
            return Err(unsupported("has no kernels; use fp32, tf32, fp16 or bf16"));
        }
        let shapes = Shapes::new(geometry, form.layout)?;
        let body = match form.method {
            Method::Direct if form.dtype != Dtype::F32 => {
                return Err(unsupported("is not computed by the direct method, which supports only fp32"));
            }
            Method::Direct => ConvolutionBody::Direct(Box::new(Direct::new(device, &shapes)?)),
            Method::Im2col => {
                let by = if by == ProductBy::Stock { ProductBy::Own } else { by };
                ConvolutionBody::Im2col(Box::new(Im2col::new(device, gemm, by, &shapes, form)?))
            }
            Method::ImplicitGemmTuring if form.dtype != Dtype::F16 => {
                return Err(unsupported(
                    "is not computed by the implicit product for GPUs of compute capability 7.5, which supports only fp16",
                ));
            }
            Method::ImplicitGemm
            | Method::ImplicitGemmTuring
            | Method::ShiftedWindows
            | Method::FewChannels
            | Method::ManyChannels => ConvolutionBody::Implicit(Box::new(Implicit::new(device, &shapes, form, pools)?)),
            Method::Stock | Method::StockFastest => {
                ConvolutionBody::Stock(Arc::new(Stock::new(device, gemm, &shapes, form)?))
            }
        };
        let rows = match form.layout {
            Layout::Nhwc => RowsOf::Matrix { rows: shapes.positions() },
            Layout::Nchw => RowsOf::Images { images: shapes.batch, pixels: shapes.output_pixels() },
        };
        let sums = || Sums::new(device, stored(form.dtype), shapes.filters, rows);
        let has_bias_gradient = match &body {
            ConvolutionBody::Direct(_) => true,
            ConvolutionBody::Implicit(b) => b.has_bias_gradient(),
            _ => false,
        };
        let bias_gradient = if has_bias_gradient { None } else { Some(sums()?) };
        Ok(Self { geometry: *geometry, form, body, pools, bias_gradient })
    }

    /// Returns the sizes of the convolution.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Returns the method, the type and the layout.
    #[must_use]
    pub fn form(&self) -> Form {
        self.form
    }

    /// Returns, for each pass (forward, input gradient, weight gradient), true if [`Method::ShiftedWindows`] itself computes it.
    #[must_use]
    pub fn uses_shifted_windows(&self) -> [bool; 3] {
        match &self.body {
            ConvolutionBody::Implicit(b) => b.uses_shifted_windows(),
            _ => [false; 3],
        }
    }

    /// Returns, for the forward pass and the input gradient, true if [`Method::ManyChannels`] itself computes it.
    #[must_use]
    pub fn uses_tma_im2col(&self) -> [bool; 2] {
        match &self.body {
            ConvolutionBody::Implicit(b) => b.uses_tma_im2col(),
            _ => [false; 2],
        }
    }

    /// Returns true if [`Method::ImplicitGemmTuring`] computes this convolution.
    #[must_use]
    pub fn uses_turing_kernels(&self) -> bool {
        matches!(&self.body, ConvolutionBody::Implicit(b) if b.uses_turing_kernels())
    }

    /// Returns the number of bytes of workspace that the largest pass needs: sums split over blocks, columns, and copies of operands.
    #[must_use]
    pub fn workspace_bytes(&self) -> u64 {
        let body = match &self.body {
            ConvolutionBody::Direct(_) => 0,
            ConvolutionBody::Im2col(b) => b.workspace_bytes(),
            ConvolutionBody::Implicit(b) => b.workspace_bytes(),
            ConvolutionBody::Stock(b) => b.workspace_bytes(),
        };
        body.max(self.bias_gradient.as_ref().map_or(0, Sums::workspace_bytes))
    }

    /// Returns, for each pass (forward, input gradient, weight gradient), true if it gives the same bits on every run. All methods but cuDNN's do.
    #[must_use]
    pub fn is_deterministic(&self) -> [bool; 3] {
        match &self.body {
            ConvolutionBody::Stock(b) => b.plans().map(|plan| plan.is_none_or(CudnnPlan::is_deterministic)),
            _ => [true; 3],
        }
    }

    /// Returns true if [`Method::FewChannels`] itself computes the forward pass and the weight gradient.
    #[must_use]
    pub fn uses_few_channels(&self) -> bool {
        matches!(&self.body, ConvolutionBody::Implicit(b) if b.uses_few_channels())
    }

    /// Returns the compiler's and the device's statistics of a pass's own kernel; empty for im2col and libraries.
    #[must_use]
    pub fn kernel_stats(&self, pass: Pass) -> Vec<KernelStats> {
        let kernel = match &self.body {
            ConvolutionBody::Direct(b) => Some(b.kernel(pass)),
            ConvolutionBody::Implicit(b) => Some(b.kernel(pass)),
            ConvolutionBody::Im2col(_) | ConvolutionBody::Stock(_) => None,
        };
        kernel.into_iter().map(|kernel| kernel.stats().clone()).collect()
    }

    /// Returns cuDNN's plans of the forward pass, input gradient and weight gradient, with the chosen engines; `None` for other methods, and for an
    /// input gradient that is not computed.
    #[must_use]
    pub fn library_plans(&self) -> Option<[Option<&CudnnPlan>; 3]> {
        if let ConvolutionBody::Stock(b) = &self.body { Some(b.plans()) } else { None }
    }

    /// Queues y = f(x * w + b).
    ///
    /// # Errors
    /// If an array has the wrong length or type or is not aligned; if the workspace is too small; if the pass's
    /// kernel pools; if a launch fails.
    #[expect(clippy::too_many_arguments, reason = "a layer's arrays, as the other passes take them")]
    pub fn forward(
        &self,
        stream: &Stream,
        x: &DeviceArray,
        weight: &DeviceArray,
        bias: Option<&Slice<f32>>,
        epilogue: Epilogue,
        y: &DeviceArray,
        workspace: &Workspace,
    ) -> Result<()> {
        self.check_pool(false)?;
        self.check(("x", x), Some(weight), ("y", y), workspace)?;
        let f = ForwardArrays { x, weight, bias, relu: epilogue == Epilogue::Relu, y, pool: None };
        self.queue_forward(stream, &f, workspace)
    }

    fn queue_forward(&self, stream: &Stream, f: &ForwardArrays<'_>, workspace: &Workspace) -> Result<()> {
        self.geometry.check_bias("the bias", f.bias.map(Slice::len))?;
        match &self.body {
            ConvolutionBody::Direct(b) => b.forward(stream, f),
            ConvolutionBody::Im2col(b) => b.forward(stream, f, workspace),
            ConvolutionBody::Implicit(b) => b.forward(stream, f),
            ConvolutionBody::Stock(b) => b.forward(stream, f, workspace),
        }
    }

    /// Queues the computation of dx. With `mask`, which has the shape and type of dx, dx is 0 where the mask is 0 or less: if the mask is the output of the
    /// ReLU that gave x, dx is the gradient before that ReLU.
    ///
    /// # Errors
    /// See [`Convolution::forward`].
    pub fn input_gradient(
        &self,
        stream: &Stream,
        dy: &DeviceArray,
        weight: &DeviceArray,
        mask: Option<&DeviceArray>,
        dx: &DeviceArray,
        workspace: &Workspace,
    ) -> Result<()> {
        self.check(("dx", dx), Some(weight), ("dy", dy), workspace)?;
        if let Some(mask) = mask {
            self.check_image("the mask", mask)?;
        }
        match &self.body {
            ConvolutionBody::Direct(b) => b.input_gradient(stream, dy, weight, mask, dx),
            ConvolutionBody::Im2col(b) => b.input_gradient(stream, dy, weight, mask, dx, workspace),
            ConvolutionBody::Implicit(b) => b.input_gradient(stream, dy, weight, mask, dx),
            ConvolutionBody::Stock(b) => b.input_gradient(stream, dy, weight, mask, dx, workspace),
        }
    }

    /// Queues dw in f32 and, if requested, the bias gradient: the sums of dy over images and positions.
    ///
    /// # Errors
    /// See [`Convolution::forward`].
    pub fn weight_gradient(
        &self,
        stream: &Stream,
        x: &DeviceArray,
        dy: &DeviceArray,
        dweight: &Slice<f32>,
        dbias: Option<&Slice<f32>>,
        workspace: &Workspace,
    ) -> Result<()> {
        self.check_unpools(false)?;
        self.check(("x", x), None, ("dy", dy), workspace)?;
        self.check_gradients(dweight, dbias)?;
        match &self.body {
            ConvolutionBody::Direct(b) => return b.weight_gradient(stream, [x, dy], dweight, dbias),
            ConvolutionBody::Im2col(b) => b.weight_gradient(stream, [x, dy], dweight, workspace)?,
            ConvolutionBody::Implicit(b) => b.weight_gradient(stream, [x, dy], dweight, dbias, workspace)?,
            ConvolutionBody::Stock(b) => b.weight_gradient(stream, [x, dy], dweight, workspace)?,
        }
        match (&self.bias_gradient, dbias) {
            (Some(sums), Some(dbias)) => sums.queue(stream, dy, dbias, workspace),
            _ => Ok(()),
        }
    }

    fn check_gradients(&self, dweight: &Slice<f32>, dbias: Option<&Slice<f32>>) -> Result<()> {
        Check(OP).lengths(&[("dweight", dweight.len(), &self.weight_shape())])?;
        Ok(self.geometry.check_bias("dbias", dbias.map(Slice::len))?)
    }

    fn image_shape(&self, [height, width]: [usize; 2], channels: usize) -> [usize; 4] {
        match self.form.layout {
            Layout::Nhwc => [self.geometry.batch, height, width, channels],
            Layout::Nchw => [self.geometry.batch, channels, height, width],
        }
    }

    fn weight_shape(&self) -> [usize; 4] {
        let Geometry { filters, channels, kernel: [kh, kw], .. } = self.geometry;
        match self.form.layout {
            Layout::Nhwc => [filters, kh, kw, channels],
            Layout::Nchw => [filters, channels, kh, kw],
        }
    }

    fn check_image(&self, name: &'static str, array: &DeviceArray) -> Result<()> {
        let g = &self.geometry;
        let shape = self.image_shape([g.height, g.width], g.channels);
        Ok(Check(OP).arrays(stored(self.form.dtype), &[(name, array, &shape)])?)
    }

    fn check(
        &self,
        x: (&'static str, &DeviceArray),
        weight: Option<&DeviceArray>,
        y: (&'static str, &DeviceArray),
        workspace: &Workspace,
    ) -> Result<()> {
        let (oh, ow) = self.geometry.output()?;
        self.check_sides(x, weight, (y, [oh, ow]), workspace)
    }

    /// Checks that y has these sides.
    fn check_sides(
        &self,
        (x_name, x): (&'static str, &DeviceArray),
        weight: Option<&DeviceArray>,
        ((y_name, y), sides): ((&'static str, &DeviceArray), [usize; 2]),
        workspace: &Workspace,
    ) -> Result<()> {
        let (check, dtype) = (Check(OP), stored(self.form.dtype));
        self.check_image(x_name, x)?;
        if let Some(weight) = weight {
            check.arrays(dtype, &[("the weight", weight, &self.weight_shape())])?;
        }
        check.arrays(dtype, &[(y_name, y, &self.image_shape(sides, self.geometry.filters))])?;
        workspace.check(self.workspace_bytes()).map_err(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_has_kernels_where_the_method_computes_it() {
        let hopper = Some(HOPPER);
        let g = |channels, filters| Geometry {
            batch: 8,
            height: 16,
            width: 16,
            channels,
            filters,
            kernel: [3; 2],
            stride: [1; 2],
            padding: [1; 2],
        };
        let files = |method, dtype, pass, geometry: &Geometry, cc| -> Vec<String> {
            let form = Form { method, dtype, layout: Layout::Nhwc };
            let kernels = form.kernels(pass, geometry, cc).unwrap_or_default();
            kernels.iter().map(|k| k.file.trim_start_matches("nn/").to_owned()).collect()
        };
        let none: [&str; 0] = [];
        for pass in Pass::ALL {
            assert_eq!(files(Method::Direct, Dtype::F32, pass, &g(3, 32), None), ["01_direct.cu"]);
            assert_eq!(files(Method::Direct, Dtype::F16, pass, &g(3, 32), hopper), none);
            assert_eq!(files(Method::ImplicitGemm, Dtype::F32, pass, &g(3, 32), hopper), ["03_implicit_gemm.cu"]);
            assert_eq!(
                files(Method::ImplicitGemm, Dtype::Bf16, pass, &g(3, 32), hopper),
                ["04_implicit_tensor_cores.cu"]
            );
            assert_eq!(files(Method::ShiftedWindows, Dtype::F16, pass, &g(32, 64), Some((8, 0))), none);
            assert_eq!(files(Method::ShiftedWindows, Dtype::F16, pass, &g(3, 32), hopper), none);
        }
        let windows = Pass::ALL.map(|pass| files(Method::ShiftedWindows, Dtype::F16, pass, &g(32, 64), hopper));
        assert_eq!(windows, [["05_shifted_windows.cu"], ["05_shifted_windows.cu"], ["06_shifted_gradient.cu"]]);
        let few = Pass::ALL.map(|pass| files(Method::FewChannels, Dtype::F16, pass, &g(3, 32), hopper).len());
        assert_eq!(few, [1, 0, 2]);
        let many = Pass::ALL.map(|pass| files(Method::ManyChannels, Dtype::F16, pass, &g(64, 256), hopper));
        assert_eq!(many, [vec![], vec!["08_tma_im2col.cu".to_owned()], vec![]]);
    }

    #[test]
    fn a_method_is_what_a_gpu_has_of_it() {
        use Dtype::{Bf16, F16, F32};
        use Method::{
            Direct, FewChannels, Im2col, ImplicitGemm, ImplicitGemmTuring, ManyChannels, ShiftedWindows, Stock,
        };
        let on = |method: Method, cc, dtype| method.on(Some(cc), dtype);
        for method in [ImplicitGemm, ShiftedWindows] {
            assert_eq!(on(method, (7, 5), F16), ImplicitGemmTuring);
            assert_eq!(on(method, (8, 0), F16), ImplicitGemm);
            assert_eq!(on(method, (9, 0), F16), method);
            assert_eq!([F32, Bf16].map(|dtype| on(method, (7, 5), dtype)), [ImplicitGemm; 2]);
        }
        for method in [Direct, Im2col, ImplicitGemmTuring, Stock] {
            assert!([(7, 5), (8, 6), (9, 0), (12, 0)].iter().all(|cc| on(method, *cc, F16) == method));
        }
        assert_eq!([(7, 5), (8, 0)].map(|cc| on(FewChannels, cc, F16)), [ImplicitGemmTuring, FewChannels]);
        assert_eq!(on(ShiftedWindows, (10, 0), F16), ImplicitGemm, "Hopper's instructions are on Hopper only");
        let many = [(7, 5), (8, 0), (9, 0), (10, 0)].map(|cc| on(ManyChannels, cc, F16));
        assert_eq!(many, [ImplicitGemmTuring, FewChannels, ManyChannels, FewChannels]);
    }
}

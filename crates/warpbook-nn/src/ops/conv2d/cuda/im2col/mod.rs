//! Convolution as a matrix product with columns of patches in memory.

mod launch;

use super::shapes::Shapes;
use super::{Form, ForwardArrays, OP, stored};
use crate::ops::Layout;
use crate::ops::error::Check;
use std::sync::Arc;
use warpbook_device::{CudaDevice, Kernel, Result, Slice, Stream};
use warpbook_gemm::kernel_args::load;
use warpbook_gemm::{DeviceArray, DeviceArrays, Gemm, Plan, Product, ProductBy, Workspace};
use warpbook_kernels::matmul::{Epilogue, Form as ProductForm};
use warpbook_kernels::nn::{activation, conv2d};
use warpbook_record::Dtype;

/// Largest size of a panel's columns plus copied outputs. The rest of 64 MiB is for the products' copies of operands.
const PANEL_BYTES: u64 = 48 << 20;

/// The im2col method. Callers check the lengths and types of arrays.
///
/// Columns are rows of patches, `[pixels][ld]`, in both layouts. In NCHW, y and dy are copied from or to `[pixels][filters]`.
#[derive(Debug, Clone)]
pub(super) struct Im2col {
    shapes: Shapes,
    dtype: Dtype,
    unroll: Kernel,
    fold: Kernel,
    exchange: Kernel,
    relu: Kernel,
    /// Distance in elements between neighbouring patches, a multiple of 16 bytes.
    ld: u32,
    /// Images per panel.
    images: u32,
    /// Products of a whole panel; `last` has the products of the last panel if it is smaller.
    whole: Plans,
    last: Option<Plans>,
}

/// The products of a panel.
#[derive(Debug, Clone)]
struct Plans {
    /// Products without a bias, with a bias, and with a bias and a ReLU.
    forward: [Arc<Plan>; 3],
    input_gradient: Arc<Plan>,
    /// Products for the first panel, and products for later panels, which add to the result.
    weight_gradient: [Arc<Plan>; 2],
}

impl Plans {
    /// Plans products for a panel of `images` images; panels start `step` images apart.
    fn new(
        (gemm, by): (&Gemm, ProductBy),
        shapes: &Shapes,
        dtype: Dtype,
        ld: u32,
        [images, step]: [u32; 2],
    ) -> Result<Self> {
        let plan = |product: &Product, aligned| gemm.plan_from(by, product, aligned);
        let (pixels, filters, taps) = (images * shapes.output_pixels(), shapes.filters, shapes.taps());
        let plain = ProductForm { out: stored(dtype), ..ProductForm::plain(dtype) };
        // Panels of dy follow each other without a gap.
        let step = u64::from(step * shapes.output_pixels()) * u64::from(filters) * dtype.bytes();
        let aligned = images == shapes.batch || shapes.layout == Layout::Nchw || step.is_multiple_of(16);
        let forward = |epilogue| {
            let form = ProductForm { trans_b: true, epilogue, ..plain };
            plan(&Product::new(pixels, filters, taps, form).leading(ld, taps, filters), [true; 2])
        };
        let input_gradient = Product::new(pixels, taps, filters, ProductForm { out: Dtype::F32, ..plain });
        let weight_gradient = |beta| {
            let form = ProductForm { out: Dtype::F32, trans_a: true, ..plain };
            let product = Product::new(filters, taps, pixels, form).leading(filters, ld, taps);
            plan(&product.scaled(1.0, beta), [aligned, true])
        };
        Ok(Self {
            forward: [forward(Epilogue::None)?, forward(Epilogue::Bias)?, forward(Epilogue::BiasRelu)?],
            input_gradient: plan(&input_gradient.leading(filters, taps, ld), [aligned, true])?,
            weight_gradient: [weight_gradient(0.0)?, weight_gradient(1.0)?],
        })
    }

    fn workspace_bytes(&self) -> u64 {
        let all = self.forward.iter().chain([&self.input_gradient]).chain(&self.weight_gradient);
        all.map(|plan| plan.workspace_bytes()).max().unwrap_or(0)
    }
}

/// A range of the batch's images.
struct Panel<'a> {
    first: u32,
    images: u32,
    plans: &'a Plans,
}

impl Im2col {
    /// Plans the products. `by` selects their implementation: a rung chosen by this project, or one kernel.
    ///
    /// # Errors
    /// If a panel's columns have 2^31 elements or more, or a product cannot be planned; if compiling fails or the driver reports an
    /// error.
    pub fn new(device: &CudaDevice, gemm: &Gemm, by: ProductBy, shapes: &Shapes, form: Form) -> Result<Self> {
        let [unroll, fold, exchange] = load(device, conv2d::im2col(stored(form.dtype), form.layout))?;
        let [relu, ..] = activation(stored(form.dtype));
        let [relu] = load(device, [relu])?;
        let in_16_bytes = u32::try_from(16 / form.dtype.bytes()).unwrap_or(1);
        // A user's kernel is tested with rows that have no gaps between them.
        let ld = if by.names_a_rung() { shapes.taps() } else { shapes.taps().next_multiple_of(in_16_bytes) };
        let of_image = u64::from(shapes.output_pixels()) * pixel_bytes(shapes, ld);
        let images = u32::try_from(PANEL_BYTES / of_image).unwrap_or(u32::MAX).clamp(1, shapes.batch);
        let elements = u64::from(images * shapes.output_pixels()) * u64::from(ld);
        Check(OP).value("the number of elements of a panel's columns", elements, elements < 1 << 31, "below 2^31")?;
        let plans = |of_panel| Plans::new((gemm, by), shapes, form.dtype, ld, [of_panel, images]);
        let rest = shapes.batch % images;
        let last = (rest > 0).then(|| plans(rest)).transpose()?;
        let shapes = *shapes;
        let whole = plans(images)?;
        Ok(Self { shapes, dtype: form.dtype, unroll, fold, exchange, relu, ld, images, whole, last })
    }

    /// Returns the number of bytes of a panel's columns and, in NCHW, of its copied rows.
    fn panel_bytes(&self) -> u64 {
        let pixels = u64::from(self.images) * u64::from(self.shapes.output_pixels());
        (pixels * pixel_bytes(&self.shapes, self.ld) + 16).next_multiple_of(Workspace::ALIGNMENT)
    }

    pub fn workspace_bytes(&self) -> u64 {
        let plans = [Some(&self.whole), self.last.as_ref()];
        self.panel_bytes() + plans.into_iter().flatten().map(Plans::workspace_bytes).max().unwrap_or(0)
    }

    fn panels(&self) -> impl Iterator<Item = Panel<'_>> {
        (0..self.shapes.batch).step_by(self.images as usize).map(|first| {
            let images = self.images.min(self.shapes.batch - first);
            let last = self.last.as_ref().filter(|_| images < self.images);
            Panel { first, images, plans: last.unwrap_or(&self.whole) }
        })
    }

    /// Returns a panel's columns in the workspace, with this element type.
    fn columns(&self, workspace: &Workspace, panel: &Panel<'_>, dtype: Dtype) -> DeviceArray {
        let len = u64::from(panel.images * self.shapes.output_pixels()) * u64::from(self.ld);
        DeviceArray::of_bytes(&workspace.part(0, len * dtype.bytes()), dtype)
    }

    /// Returns a panel's part of an array whose images have `image` elements.
    fn part(panel: &Panel<'_>, array: &DeviceArray, image: u32) -> DeviceArray {
        let [first, images, image] = [panel.first, panel.images, image].map(|word| word as usize);
        array.range(first * image..(first + images) * image)
    }

    /// Returns a panel's rows `[pixels][filters]`: in NHWC y or dy itself, in NCHW the workspace behind the columns.
    fn rows(&self, workspace: &Workspace, panel: &Panel<'_>, part: &DeviceArray) -> DeviceArray {
        if self.shapes.layout == Layout::Nhwc {
            return part.clone();
        }
        let pixels = u64::from(self.images * self.shapes.output_pixels());
        let offset = (pixels * u64::from(self.ld) * 4).next_multiple_of(16);
        let len = u64::from(panel.images * self.shapes.output_pixels()) * u64::from(self.shapes.filters);
        DeviceArray::of_bytes(&workspace.part(offset, len * self.dtype.bytes()), stored(self.dtype))
    }

    /// Converts a panel between NCHW and rows; does nothing in NHWC, where the panel already has rows.
    fn exchange(&self, stream: &Stream, from: &DeviceArray, to: &DeviceArray, to_rows: bool) -> Result<()> {
        if self.shapes.layout == Layout::Nhwc {
            return Ok(());
        }
        let sizes = [self.shapes.filters, self.shapes.output_pixels()];
        launch::exchange(&self.exchange, stream, [from, to], sizes, to_rows)
    }

    /// Queues unrolling a panel of x to columns.
    fn unroll(
        &self,
        stream: &Stream,
        panel: &Panel<'_>,
        x: &DeviceArray,
        workspace: &Workspace,
    ) -> Result<DeviceArray> {
        let s = &self.shapes;
        let columns = self.columns(workspace, panel, stored(self.dtype));
        let x = Self::part(panel, x, s.input_pixels() * s.channels);
        let panel = Shapes { batch: panel.images, ..*s };
        launch::unroll(&self.unroll, stream, &panel, &x, &columns, self.ld)?;
        Ok(columns)
    }

    pub fn forward(&self, stream: &Stream, f: &ForwardArrays<'_>, workspace: &Workspace) -> Result<()> {
        let s = &self.shapes;
        for panel in self.panels() {
            let columns = self.unroll(stream, &panel, f.x, workspace)?;
            let y = Self::part(&panel, f.y, s.output_pixels() * s.filters);
            let rows = self.rows(workspace, &panel, &y);
            let arrays = DeviceArrays::new(columns, f.weight.clone(), rows.clone());
            let [plain, with_bias, with_relu] = &panel.plans.forward;
            let (plan, arrays) = match f.bias {
                Some(bias) => (if f.relu { with_relu } else { with_bias }, arrays.bias(bias)),
                None => (plain, arrays),
            };
            plan.launch_checked(stream, &arrays, &workspace.after(self.panel_bytes()))?;
            self.exchange(stream, &rows, &y, false)?;
        }
        if f.relu && f.bias.is_none() {
            launch::relu(&self.relu, stream, f.y)?;
        }
        Ok(())
    }

    pub fn input_gradient(
        &self,
        stream: &Stream,
        dy: &DeviceArray,
        weight: &DeviceArray,
        mask: Option<&DeviceArray>,
        dx: &DeviceArray,
        workspace: &Workspace,
    ) -> Result<()> {
        let s = &self.shapes;
        let image = s.input_pixels() * s.channels;
        for panel in self.panels() {
            let dy = Self::part(&panel, dy, s.output_pixels() * s.filters);
            let rows = self.rows(workspace, &panel, &dy);
            self.exchange(stream, &dy, &rows, true)?;
            let columns = self.columns(workspace, &panel, Dtype::F32);
            let arrays = DeviceArrays::new(rows, weight.clone(), columns.clone());
            let after = workspace.after(self.panel_bytes());
            panel.plans.input_gradient.launch_checked(stream, &arrays, &after)?;
            let (dx, mask) = (Self::part(&panel, dx, image), mask.map(|mask| Self::part(&panel, mask, image)));
            let panel = Shapes { batch: panel.images, ..*s };
            launch::fold(&self.fold, stream, &panel, (&columns, self.ld), mask.as_ref(), &dx)?;
        }
        Ok(())
    }

    pub fn weight_gradient(
        &self,
        stream: &Stream,
        [x, dy]: [&DeviceArray; 2],
        dweight: &Slice<f32>,
        workspace: &Workspace,
    ) -> Result<()> {
        let s = &self.shapes;
        for panel in self.panels() {
            let columns = self.unroll(stream, &panel, x, workspace)?;
            let dy = Self::part(&panel, dy, s.output_pixels() * s.filters);
            let rows = self.rows(workspace, &panel, &dy);
            self.exchange(stream, &dy, &rows, true)?;
            let arrays = DeviceArrays::new(rows, columns, dweight);
            let plan = &panel.plans.weight_gradient[usize::from(panel.first > 0)];
            plan.launch_checked(stream, &arrays, &workspace.after(self.panel_bytes()))?;
        }
        Ok(())
    }
}

/// Returns the number of bytes per output pixel: a patch, in f32 because its gradient is f32, and in NCHW also the filters of the pixel.
fn pixel_bytes(shapes: &Shapes, ld: u32) -> u64 {
    let filters = if shapes.layout == Layout::Nchw { shapes.filters } else { 0 };
    4 * (u64::from(ld) + u64::from(filters))
}

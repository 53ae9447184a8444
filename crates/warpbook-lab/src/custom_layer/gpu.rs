//! Runs a layer's kernels on a GPU, with guards around every array.

use super::inputs::{Inputs, element_position, reordered};
use super::{Body, Gradients, Stop};
use warpbook_device::{CudaDevice, Result, Slice, Stream};
use warpbook_gemm::storage::Storage;
use warpbook_gemm::{DeviceArray, OWN_KERNEL_LIMIT_S};
use warpbook_nn::network::Shape;
use warpbook_nn::ops::Layout;
use warpbook_nn::ops::custom_layer::cuda::{Backward, Gradients as Sums, OwnKernels};
use warpbook_nn::ops::custom_layer::{OwnLayer, OwnParameter, OwnSizes};
use warpbook_record::{Dtype, KernelStats};

/// Number of guard elements around each array, which no kernel may write.
const GUARD: usize = 1024;

/// An array with NaNs around it.
#[derive(Debug)]
struct Guarded {
    storage: Storage,
    len: usize,
}

impl Guarded {
    fn new(device: &CudaDevice, len: usize, dtype: Dtype) -> Result<Self> {
        let storage = Storage::zeros(device, len + 2 * GUARD, dtype)?;
        storage.fill_bytes(0xff)?;
        Ok(Self { storage, len })
    }

    fn array(&self) -> DeviceArray {
        DeviceArray::from(&self.storage).range(GUARD..GUARD + self.len)
    }

    fn slice(&self) -> Slice<f32> {
        self.array().bytes().cast()
    }

    fn write(&self, values: &[f32]) -> Result<()> {
        self.array().write_f32(values)
    }

    fn read(&self) -> Result<Vec<f32>> {
        self.array().to_f32()
    }

    /// Reports a flaw if a guard was overwritten, or if an element of a result was not written.
    fn watch(&self, name: &str, form: &str, is_result: bool, shape: Shape) -> Result<(), Stop> {
        let untouched = self.storage.untouched()?;
        let written = |range: std::ops::Range<usize>| untouched[range].iter().filter(|u| !**u).count();
        let (before, after) = (written(0..GUARD), written(GUARD + self.len..GUARD + self.len + GUARD));
        if before + after > 0 {
            return Err(Stop::Flaw(format!(
                "Memory around {name} was written to ({form}): {before} elements before it and {after} after it. Compare the index with n \
                 before storing."
            )));
        }
        let left = self.len - written(GUARD..GUARD + self.len);
        match untouched[GUARD..GUARD + self.len].iter().position(|u| *u).filter(|_| is_result) {
            Some(first) => Err(Stop::Flaw(format!(
                "{name}{} is not written ({form}): {left} of {} elements are left out.",
                element_position(first, shape),
                self.len
            ))),
            None => Ok(()),
        }
    }
}

/// A layer's kernels, and memory for a batch.
#[derive(Debug)]
pub(super) struct Gpu {
    kernels: OwnKernels,
    stream: Stream,
    sizes: OwnSizes,
    dtype: Dtype,
    x: Guarded,
    y: Guarded,
    dy: Guarded,
    dx: Guarded,
    parameters: Vec<Guarded>,
    /// Partial sums of the gradients, one row per block.
    shares: Vec<Guarded>,
    totals: Vec<Guarded>,
    sums: Sums,
    names: Vec<String>,
}

impl Gpu {
    pub fn new(
        device: &CudaDevice,
        layer: &OwnLayer,
        (input, batch): (Shape, usize),
        layout: Layout,
        dtype: Dtype,
    ) -> Result<Self> {
        let kernels = OwnKernels::new(device, layer, input, layout, dtype)?;
        let sizes = kernels.sizes(batch);
        let new = |len| Guarded::new(device, len, dtype);
        let of_parameters = |rows: usize| {
            let new = |p: &OwnParameter| Guarded::new(device, rows * p.len(), Dtype::F32);
            layer.parameters().iter().map(new).collect::<Result<Vec<_>>>()
        };
        let rows = sizes.gradient_blocks(layer);
        let (shares, totals) = (of_parameters(rows)?, of_parameters(1)?);
        let slices = |all: &[Guarded]| all.iter().map(Guarded::slice).collect::<Vec<_>>();
        let sums = kernels.gradients_of(device, batch, slices(&shares), slices(&totals))?;
        Ok(Self {
            stream: device.stream()?,
            x: new(sizes.inputs())?,
            y: new(sizes.outputs())?,
            dy: new(sizes.outputs())?,
            dx: new(sizes.inputs())?,
            parameters: of_parameters(1)?,
            names: layer.parameters().iter().map(|p| p.name.clone()).collect(),
            kernels,
            sizes,
            dtype,
            shares: if rows == 1 { Vec::new() } else { shares },
            totals,
            sums,
        })
    }

    pub fn stats(&self) -> Vec<KernelStats> {
        self.kernels.stats().into_iter().cloned().collect()
    }

    /// Converts between NCHW and the kernels' layout.
    fn ordered(&self, values: &[f32], shape: Shape, to: Layout) -> Vec<f32> {
        if self.sizes.layout == Layout::Nhwc { reordered(values, shape, to) } else { values.to_vec() }
    }

    fn write(&self, inputs: &Inputs) -> Result<()> {
        self.x.write(&self.ordered(&inputs.x, self.sizes.input, Layout::Nhwc))?;
        self.parameters.iter().zip(&inputs.parameters).try_for_each(|(to, values)| to.write(values))
    }

    fn watch_guards(&self) -> Result<(), Stop> {
        let form = self.form();
        let plain = |name: &str, array: &Guarded| array.watch(name, &form, false, self.sizes.input);
        for (name, array) in [("x", &self.x), ("y", &self.y), ("dy", &self.dy), ("dx", &self.dx)] {
            plain(name, array)?;
        }
        for (name, array) in self.names.iter().zip(&self.parameters) {
            plain(name, array)?;
        }
        let written = if self.shares.is_empty() { &self.totals } else { &self.shares };
        self.names.iter().zip(written).try_for_each(|(name, array)| plain(&format!("d{name}"), array))
    }

    fn parameters(&self) -> Vec<Slice<f32>> {
        self.parameters.iter().map(Guarded::slice).collect()
    }
}

impl Body for Gpu {
    fn form(&self) -> String {
        let dtype = match self.dtype {
            Dtype::F16 => "fp16",
            Dtype::Bf16 => "bf16",
            _ => "fp32",
        };
        let layout = if self.sizes.layout == Layout::Nhwc { "NHWC" } else { "NCHW" };
        match self.sizes.input {
            Shape::Image { .. } => format!("{dtype}, {layout}"),
            Shape::Vector(_) => dtype.into(),
        }
    }

    fn forward(&mut self, inputs: &Inputs, is_watched: bool) -> Result<Vec<f32>, Stop> {
        self.write(inputs)?;
        if is_watched {
            self.y.storage.fill_bytes(0xff)?;
        }
        let arrays = (&self.x.array(), &self.y.array());
        self.kernels.forward(&self.stream, self.sizes.batch, arrays, &self.parameters())?;
        if is_watched {
            self.stream.synchronize_within(OWN_KERNEL_LIMIT_S)?;
            self.watch_guards()?;
            self.y.watch("y", &self.form(), true, self.sizes.output)?;
        } else {
            self.stream.synchronize()?;
        }
        Ok(self.ordered(&self.y.read()?, self.sizes.output, Layout::Nchw))
    }

    fn backward(&mut self, inputs: &Inputs, y: &[f32]) -> Result<Gradients, Stop> {
        self.write(inputs)?;
        self.y.write(&self.ordered(y, self.sizes.output, Layout::Nhwc))?;
        self.dy.write(&self.ordered(&inputs.dy, self.sizes.output, Layout::Nhwc))?;
        for array in [&self.dx].into_iter().chain(&self.shares).chain(&self.totals) {
            array.storage.fill_bytes(0xff)?;
        }
        let with = Backward {
            x: &self.x.array(),
            y: &self.y.array(),
            dy: &self.dy.array(),
            parameters: &self.parameters(),
            dx: &self.dx.array(),
            gradients: &self.sums,
        };
        self.kernels.backward(&self.stream, self.sizes.batch, &with)?;
        self.stream.synchronize_within(OWN_KERNEL_LIMIT_S)?;
        self.watch_guards()?;
        self.dx.watch("dx", &self.form(), true, self.sizes.input)?;
        let written = if self.shares.is_empty() { &self.totals } else { &self.shares };
        for (name, (array, total)) in self.names.iter().zip(written.iter().zip(&self.totals)) {
            // There is one row per block, or one row in total.
            array.watch(&format!("d{name}"), &self.form(), true, Shape::Vector(total.len))?;
        }
        let of_parameters = self.totals.iter().map(Guarded::read).collect::<Result<_>>()?;
        Ok(Gradients { dx: self.ordered(&self.dx.read()?, self.sizes.input, Layout::Nchw), of_parameters })
    }
}

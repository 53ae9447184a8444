//! Custom layers on a GPU.

use super::kernel::explain;
use super::{Blocks, OwnLayer, OwnSizes, compile, launch, specs};
use crate::network::Shape;
use crate::ops::Layout;
use crate::ops::error::Check;
use warpbook_device::{CudaDevice, Kernel, Result, Slice, Stream};
use warpbook_gemm::{DeviceArray, RowsOf, Sums, Workspace};
use warpbook_kernels::Launch;
use warpbook_record::{Dtype, KernelStats};

const OP: &str = "own layer";

/// A layer's kernels, compiled and loaded for one element type and one sample shape.
#[derive(Debug, Clone)]
pub struct OwnKernels {
    layer: OwnLayer,
    input: Shape,
    layout: Layout,
    dtype: Dtype,
    forward: Kernel,
    backward: Kernel,
}

/// The arrays of a backward pass.
#[derive(Debug)]
pub struct Backward<'a> {
    /// Inputs of the layer.
    pub x: &'a DeviceArray,
    /// Outputs of the forward pass.
    pub y: &'a DeviceArray,
    /// Gradient of the outputs.
    pub dy: &'a DeviceArray,
    /// Values of the parameters in f32, in the order of declaration.
    pub parameters: &'a [Slice<f32>],
    /// Gradient of the inputs; must not overlap another array.
    pub dx: &'a DeviceArray,
    /// Destination of the parameters' gradients.
    pub gradients: &'a Gradients,
}

/// Memory for the gradients of a layer's parameters, and the kernels that add the blocks' shares.
#[derive(Debug)]
pub struct Gradients {
    /// Arrays for the blocks' shares, which the kernels write.
    pub shares: Vec<Slice<f32>>,
    /// Gradients of the parameters, summed over all blocks.
    pub totals: Vec<Slice<f32>>,
    /// One sum per parameter; empty if the kernels write the gradients themselves.
    sums: Vec<(Sums, Workspace)>,
}

impl Gradients {
    /// Returns the gradients that the kernels write directly.
    fn written(totals: Vec<Slice<f32>>) -> Self {
        Self { shares: totals.clone(), totals, sums: Vec::new() }
    }
}

impl OwnKernels {
    /// Compiles and loads both kernels.
    ///
    /// # Errors
    /// Returns the same errors as [`compile`], and an error if the device reports an error.
    pub fn new(device: &CudaDevice, layer: &OwnLayer, input: Shape, layout: Layout, dtype: Dtype) -> Result<Self> {
        let sizes = OwnSizes::new(layer, input, 1, layout);
        let [forward, backward] = specs(layer, &sizes, dtype);
        compile(layer, &sizes, dtype, device.compiler()?, &device.architecture_of(&forward))?;
        let load = |spec| device.kernel(spec, &spec.tiles[0]).map_err(|e| explain(layer, e));
        let (forward, backward) = (load(&forward)?, load(&backward)?);
        Ok(Self { layer: layer.clone(), input, layout, dtype, forward, backward })
    }

    /// Returns the sizes for a batch.
    #[must_use]
    pub fn sizes(&self, batch: usize) -> OwnSizes {
        OwnSizes::new(&self.layer, self.input, batch, self.layout)
    }

    /// Returns the compiler's and the device's statistics of `forward` and `backward`.
    #[must_use]
    pub fn stats(&self) -> [&KernelStats; 2] {
        [self.forward.stats(), self.backward.stats()]
    }

    /// Prepares the sums of the gradients for a batch. `memory` holds the blocks' shares, with the length that [`OwnSizes`] gives; `totals`
    /// are the gradients, f32.
    ///
    /// # Errors
    /// If the device reports an error.
    pub(crate) fn gradients(
        &self,
        device: &CudaDevice,
        batch: usize,
        memory: Option<&Slice<f32>>,
        totals: Vec<Slice<f32>>,
    ) -> Result<Gradients> {
        let sizes = self.sizes(batch);
        let (places, _) = sizes.shares(&self.layer);
        let Some(memory) = memory.filter(|_| !places.is_empty()) else {
            return Ok(Gradients::written(totals));
        };
        let shares = places.into_iter().map(|place| memory.range(place)).collect();
        self.gradients_of(device, batch, shares, totals)
    }

    /// Prepares the sums of the gradients for a batch, with a separate array for each parameter: the blocks' shares `[rows][elements]`, with
    /// the rows that [`OwnSizes::gradient_blocks`] gives, and `totals`, the gradients. With one row the kernels write the gradients themselves, and
    /// `shares` is not used.
    ///
    /// # Errors
    /// If a length needs more than 32 bits; if the device reports an error.
    pub fn gradients_of(
        &self,
        device: &CudaDevice,
        batch: usize,
        shares: Vec<Slice<f32>>,
        totals: Vec<Slice<f32>>,
    ) -> Result<Gradients> {
        let word = |v: usize| Check(OP).word("number of blocks or of parameters", v);
        let rows = word(self.sizes(batch).gradient_blocks(&self.layer))?;
        if rows == 1 {
            return Ok(Gradients::written(totals));
        }
        let sums = self.layer.parameters().iter().map(|p| {
            let sums = Sums::new(device, Dtype::F32, word(p.len())?, RowsOf::Matrix { rows })?;
            let workspace = Workspace::new(device, sums.workspace_bytes())?;
            Ok((sums, workspace))
        });
        Ok(Gradients { shares, totals, sums: sums.collect::<Result<_>>()? })
    }

    /// Returns the launch of a kernel and its argument `n`.
    fn launch_of(&self, kernel: &Kernel, elements: usize, sizes: &OwnSizes) -> Result<(Launch, u32)> {
        let word = |name, v| Check(OP).word(name, v);
        // Kernels use indices of 32 bits.
        let elements = word("number of elements", elements)?;
        let batch = word("number of samples", sizes.batch)?;
        let blocks = |n: u32| Launch { grid: [n, 1, 1], ..kernel.shape(1) };
        Ok(match self.layer.blocks() {
            Blocks::PerElement => (kernel.shape(elements.into()), elements),
            Blocks::PerSample => (blocks(batch), batch),
            Blocks::PerChannel => (blocks(word("number of channels", sizes.input.channels())?), batch),
        })
    }

    fn check_parameters(&self, parameters: &[Slice<f32>]) -> Result<()> {
        let needed = self.layer.parameters();
        if parameters.len() != needed.len() {
            let why = format!("it takes {} parameters; {} came", needed.len(), parameters.len());
            return Err(self.layer.unsupported(why));
        }
        let lengths = parameters.iter().zip(needed);
        Ok(lengths.into_iter().try_for_each(|(s, p)| Check(OP).lengths(&[("a parameter", s.len(), &[p.len()])]))?)
    }

    /// Queues y = forward(x) for a batch.
    ///
    /// # Errors
    /// If lengths or types do not match the layer; if the launch fails.
    pub fn forward(
        &self,
        stream: &Stream,
        batch: usize,
        (x, y): (&DeviceArray, &DeviceArray),
        parameters: &[Slice<f32>],
    ) -> Result<()> {
        let sizes = self.sizes(batch);
        Check(OP).arrays(self.dtype, &[("x", x, &[sizes.inputs()]), ("y", y, &[sizes.outputs()])])?;
        self.check_parameters(parameters)?;
        Check(OP).word("number of elements", sizes.inputs())?;
        let (shape, n) = self.launch_of(&self.forward, sizes.outputs(), &sizes)?;
        launch::forward(&self.forward, stream, shape, (x, y), parameters, n)
    }

    /// Queues dx and the gradients of the parameters.
    ///
    /// # Errors
    /// See [`OwnKernels::forward`].
    pub fn backward(&self, stream: &Stream, batch: usize, with: &Backward<'_>) -> Result<()> {
        let Backward { x, y, dy, parameters, dx, gradients } = with;
        let sizes = self.sizes(batch);
        let (inputs, outputs) = (&[sizes.inputs()][..], &[sizes.outputs()][..]);
        Check(OP)
            .arrays(self.dtype, &[("x", x, inputs), ("y", y, outputs), ("dy", dy, outputs), ("dx", dx, inputs)])?;
        self.check_parameters(parameters)?;
        self.check_parameters(&gradients.totals)?;
        let rows = sizes.gradient_blocks(&self.layer);
        for (share, p) in gradients.shares.iter().zip(self.layer.parameters()) {
            Check(OP).lengths(&[("the shares of a gradient", share.len(), &[rows, p.len()])])?;
        }
        Check(OP).word("number of elements", sizes.outputs())?;
        let (shape, n) = self.launch_of(&self.backward, sizes.inputs(), &sizes)?;
        launch::backward(&self.backward, stream, shape, with, n)?;
        for ((sums, workspace), (share, total)) in
            gradients.sums.iter().zip(gradients.shares.iter().zip(&gradients.totals))
        {
            sums.queue(stream, &share.into(), total, workspace)?;
        }
        Ok(())
    }
}

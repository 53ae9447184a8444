//! Inference on a GPU: weights and memory are allocated once, and each batch size has its own graph.
//!
//! The graph copies u8 images from page-locked memory, normalises them, runs the layers, and copies the outputs back. The host does nothing in
//! the meantime.

use super::kernels::LayerKernels;
use super::memory::{self, Memory, Purpose};
use super::params::{ParamBytes, Params};
use super::passes::{self, PassInputs};
use super::program::{Others, Program};
use super::{CudaOptions, FusionPlan};
use crate::network::{Network, Shape};
use crate::ops::augment::{Augment, cuda::Gather};
use crate::train::TrainError;
use crate::weights::Weights;
use std::collections::HashMap;
use warpbook_device::{Arena, Bench, CudaDevice, Pinned, Samples, Slice, Stream};
use warpbook_gemm::storage;
use warpbook_gemm::{Gemm, Workspace};

/// A network's forward pass for batches of u8 images.
#[derive(Debug)]
pub(crate) struct CudaInference {
    device: CudaDevice,
    stream: Stream,
    gemm: Gemm,
    network: Network,
    options: CudaOptions,
    batch: usize,
    fusion: FusionPlan,
    memory: Memory,
    params: Params,
    layers: LayerKernels,
    input: Input,
    /// Outputs of a batch in the type of the activations.
    outputs: Pinned<u8>,
    workspaces: [Option<Workspace>; 2],
    programs: HashMap<usize, Program>,
    bytes: u64,
}

/// Images on host and device.
#[derive(Debug)]
struct Input {
    gather: Gather,
    host: Pinned<u8>,
    images: Slice<u8>,
    /// Indices 0, 1, 2, ...: a batch consists of all images of the input.
    indices: Slice<u32>,
    /// Training step; it has no effect, since images are only normalised.
    step: Slice<u32>,
    pixels: usize,
}

impl CudaInference {
    /// Allocates memory for batches of at most `batch` images, normalised by mean and deviation, and copies the network's weights to the
    /// device.
    ///
    /// # Errors
    /// If the batch is 0, or the batch and the weights do not fit into device memory; if the network takes no images, or its parameters do
    /// not match the weights.
    pub fn new(
        device: &CudaDevice,
        options: &CudaOptions,
        (network, weights): (&Network, &Weights),
        [mean, deviation]: [&[f32]; 2],
        batch: usize,
    ) -> Result<Self, TrainError> {
        let Shape::Image { channels, height, width } = network.input() else {
            return Err(TrainError::Setting(format!("The network takes {}, not images.", network.input())));
        };
        options.precision.check(device.info())?;
        if batch == 0 {
            return Err(TrainError::Setting("The batch is 0: it needs at least one image.".into()));
        }
        let (options, arrangement) = options.arranged(network);
        let dtype = options.precision.activations();
        let fusion = FusionPlan::new(network, &options, device.info().compute_capability);
        let layout = memory::plan(network, &fusion, batch, dtype, Purpose::Inference);
        let (pixels, outputs) = (network.input().elements(), network.output().elements());
        let params_bytes = ParamBytes::new(network, None, dtype).total();
        let bytes = params_bytes + layout.peak_bytes() as u64 + (batch * (pixels + 4)) as u64;
        device.ensure_free(format!("A network with batches of {batch}"), bytes)?;
        let params = Params::new(device, network, arrangement, None, dtype, None)?;
        params.write(weights)?;
        let normalise = Augment::normalise([channels, height, width], mean, deviation);
        let input = Input {
            gather: Gather::new(device, &normalise, dtype, options.layout)?,
            host: device.pinned(batch * pixels)?,
            images: device.zeros::<u8>(batch * pixels)?.range(..),
            indices: device.buffer_from(&(0..batch as u32).collect::<Vec<_>>())?.range(..),
            step: device.zeros::<u32>(1)?.range(..),
            pixels,
        };
        let stream = device.stream()?;
        if options.dependent {
            stream.make_dependent();
        }
        Ok(Self {
            stream,
            gemm: Gemm::new(device),
            layers: LayerKernels::load(device, network, &options)?,
            memory: Memory::new(Arena::with_layout(device, layout)?, dtype),
            outputs: device.pinned(batch * outputs * dtype.bytes() as usize)?,
            device: device.clone(),
            network: network.clone(),
            options,
            batch,
            fusion,
            params,
            input,
            workspaces: [None, None],
            programs: HashMap::new(),
            bytes,
        })
    }

    /// Returns the largest number of images of a batch.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Returns the number of bytes of device memory of weights, images and activations, without the workspaces of products.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Computes the outputs `[n][outputs]` of n images u8 `[n][channels][height][width]`, at most a batch.
    ///
    /// # Errors
    /// If there are no images, more than a batch, or a part of an image; for the first batch of a size, if compiling fails or memory runs
    /// out; if the driver reports an error.
    pub fn forward(&mut self, images: &[u8]) -> Result<Vec<f32>, TrainError> {
        let n = self.load(images)?;
        if let Some(program) = self.programs.get(&n) {
            program.queue(&self.stream)?;
        }
        self.stream.synchronize()?;
        let dtype = self.options.precision.activations();
        let len = n * self.network.output().elements() * dtype.bytes() as usize;
        Ok(storage::decoded(&self.outputs.range(..len).read()?, dtype))
    }

    /// Times a batch: its copy to the device, the network, and the copy of its outputs back.
    ///
    /// # Errors
    /// If `bench` was cancelled; otherwise see [`CudaInference::forward`].
    pub fn time(&mut self, images: &[u8], bench: &Bench) -> Result<Samples, TrainError> {
        let n = self.load(images)?;
        let Some(program) = self.programs.get(&n) else { return Ok(Samples::default()) };
        Ok(bench.cuda(&self.device, &self.stream, None, None, || program.queue(&self.stream))?)
    }

    /// Copies a batch to the memory that its graph reads, and builds the graph if there is none yet.
    fn load(&mut self, images: &[u8]) -> Result<usize, TrainError> {
        let n = images.len() / self.input.pixels;
        if n == 0 || n > self.batch || !images.len().is_multiple_of(self.input.pixels) {
            return Err(TrainError::Setting(format!(
                "A batch here has 1 to {} images of {} bytes each; {} bytes were given.",
                self.batch,
                self.input.pixels,
                images.len()
            )));
        }
        if !self.programs.contains_key(&n) {
            let program = self.program(n)?;
            self.programs.insert(n, program);
        }
        self.input.host.range(..images.len()).write()?.copy_from_slice(images);
        Ok(n)
    }

    fn program(&mut self, n: usize) -> Result<Program, TrainError> {
        let parts = PassInputs {
            device: &self.device,
            gemm: &self.gemm,
            network: &self.network,
            options: &self.options,
            fusion: &self.fusion,
            settled: 0,
            memory: &self.memory,
            params: &self.params,
            kernels: &self.layers,
        };
        let Input { gather, host, images, indices, step, pixels } = &self.input;
        let (gather, step, indices) = (gather.clone(), step.clone(), indices.range(..n));
        let (host, images) = (host.range(..n * pixels), images.range(..n * pixels));
        let outputs = &self.outputs;
        let passes = passes::inference(
            parts,
            n,
            &mut self.workspaces,
            |x| {
                Box::new(move |s| {
                    s.copy_to_device(&host, &images)?;
                    gather.gather(s, (&images, &indices), &step, &x)
                })
            },
            |y| {
                let to = outputs.range(..y.bytes().len());
                Box::new(move |s| s.copy_to_host(y.bytes(), &to))
            },
        )?;
        Ok(Program::new((&self.stream, &Others::default()), "a forward pass", passes, self.options.graph)?)
    }
}

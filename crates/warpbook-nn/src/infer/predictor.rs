//! A frozen network with memory for batches.

use super::Frozen;
use crate::ops::augment::{self, Augment};
use crate::ops::optimizer::Optimizer;
use crate::train::{CpuEngine, CudaInference, Loss, MeanLoss, Mode, Place, Target, TrainError};
use warpbook_device::{Bench, Samples};

/// The classification of an image.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// Index of the most probable class.
    pub class: usize,
    /// Probability of [`Prediction::class`], from 0 to 1.
    pub confidence: f32,
    /// Probability of each class, in the order of the classes.
    pub probabilities: Vec<f32>,
}

impl Prediction {
    /// Applies the softmax to an image's outputs.
    fn from_logits(logits: &[f32]) -> Self {
        let largest = logits.iter().fold(f32::NEG_INFINITY, |m, v| m.max(*v));
        let powers: Vec<f64> = logits.iter().map(|v| (f64::from(*v) - f64::from(largest)).exp()).collect();
        let sum: f64 = powers.iter().sum();
        let probabilities: Vec<f32> = powers.iter().map(|p| (p / sum) as f32).collect();
        let class = logits.iter().position(|v| *v == largest).unwrap_or(0);
        Self { class, confidence: probabilities.get(class).copied().unwrap_or(0.0), probabilities }
    }

    /// Returns the `n` most probable classes with their probabilities, the most probable first.
    #[must_use]
    pub fn top(&self, n: usize) -> Vec<(usize, f32)> {
        let mut all: Vec<(usize, f32)> = self.probabilities.iter().copied().enumerate().collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all.truncate(n);
        all
    }
}

/// Classifies batches of images on the CPU or on a GPU. All memory is allocated once; on a GPU each batch size has its own CUDA graph.
#[derive(Debug)]
pub struct Predictor {
    engine: InferenceEngine,
    shape: [usize; 3],
    outputs: usize,
}

#[derive(Debug)]
enum InferenceEngine {
    Cpu(Box<OnCpu>),
    Cuda(Box<CudaInference>),
}

/// The forward pass on the CPU, with the normalisation of images.
#[derive(Debug)]
struct OnCpu {
    engine: CpuEngine,
    mean: Vec<f32>,
    deviation: Vec<f32>,
}

impl OnCpu {
    fn forward(&mut self, shape: [usize; 3], images: &[u8], n: usize) -> Result<Vec<f32>, TrainError> {
        let normalise = Augment::normalise(shape, &self.mean, &self.deviation);
        let indices: Vec<u32> = (0..n as u32).collect();
        augment::cpu::gather(&normalise, images, &indices, self.engine.input(n))?;
        self.engine.forward(n, Mode::Inference)?;
        Ok(self.engine.outputs(n).to_vec())
    }
}

impl Predictor {
    pub(super) fn new(frozen: &Frozen, batch: usize) -> Result<Self, TrainError> {
        let Frozen { network, weights, shape, mean, deviation, .. } = frozen;
        let engine = match &frozen.place {
            // This optimiser has no state, since nothing is trained.
            Place::Cpu => InferenceEngine::Cpu(Box::new(OnCpu {
                engine: CpuEngine::new(network, batch, weights, &Optimizer::sgd())?,
                mean: mean.clone(),
                deviation: deviation.clone(),
            })),
            Place::Cuda(device, options) => {
                let network = (network, weights);
                InferenceEngine::Cuda(Box::new(CudaInference::new(device, options, network, [mean, deviation], batch)?))
            }
        };
        Ok(Self { engine, shape: *shape, outputs: network.output().elements() })
    }

    /// Returns the largest number of images classified at a time.
    #[must_use]
    pub fn batch(&self) -> usize {
        match &self.engine {
            InferenceEngine::Cpu(cpu) => cpu.engine.batch(),
            InferenceEngine::Cuda(cuda) => cuda.batch(),
        }
    }

    /// Returns the number of bytes of weights and activations on the device.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match &self.engine {
            InferenceEngine::Cpu(cpu) => cpu.engine.bytes(),
            InferenceEngine::Cuda(cuda) => cuda.bytes(),
        }
    }

    /// Times a batch of at most [`Predictor::batch`] images, from pixels in host memory to outputs in host memory. On a GPU the time is measured
    /// with CUDA events; [`Samples::wall_us`] also includes the launch and the wait.
    ///
    /// # Errors
    /// If the batch is too large or not a whole number of images, or the device fails.
    pub fn time(&mut self, images: &[u8], bench: &Bench) -> Result<Samples, TrainError> {
        self.check(images)?;
        if let InferenceEngine::Cuda(cuda) = &mut self.engine {
            return cuda.time(images, bench);
        }
        let mut failed = None;
        let samples = bench.cpu(|| {
            failed = failed.take().or(self.batch_outputs(images).err());
            Ok(())
        })?;
        failed.map_or(Ok(samples), Err)
    }

    /// Classifies images, u8 `[n][channels][height][width]`, batch by batch.
    ///
    /// # Errors
    /// If the bytes are not a whole number of images, an output is not finite, or the device fails.
    pub fn predict(&mut self, images: &[u8]) -> Result<Vec<Prediction>, TrainError> {
        let pixels = self.check(images)?;
        let mut all = Vec::with_capacity(images.len() / pixels);
        for some in images.chunks(self.batch() * pixels) {
            let first = all.len();
            let logits = self.batch_outputs(some)?;
            for (i, logits) in logits.chunks(self.outputs).enumerate() {
                if logits.iter().any(|v| !v.is_finite()) {
                    return Err(TrainError::NotFinite(format!(
                        "The network's outputs for image {} are not finite numbers: its weights are damaged, its training went wrong, or they exceed the range of fp16.",
                        first + i
                    )));
                }
                all.push(Prediction::from_logits(logits));
            }
        }
        Ok(all)
    }

    /// Returns the last layer's outputs `[n][classes]` for images, u8 `[n][channels][height][width]`.
    ///
    /// # Errors
    /// If the bytes are not a whole number of images, or the device fails.
    pub fn outputs(&mut self, images: &[u8]) -> Result<Vec<f32>, TrainError> {
        let pixels = self.check(images)?;
        let mut all = Vec::with_capacity(images.len() / pixels * self.outputs);
        for some in images.chunks(self.batch() * pixels) {
            all.extend(self.batch_outputs(some)?);
        }
        Ok(all)
    }

    /// Computes the loss of one batch.
    pub(super) fn loss(&mut self, images: &[u8], labels: &[u8], loss: Loss) -> Result<MeanLoss, TrainError> {
        let logits = self.batch_outputs(images)?;
        loss.evaluate(&logits, Target::Labels(labels), None)
    }

    /// Returns the bytes of an image. It is an error if `images` is not a whole number of images.
    fn check(&self, images: &[u8]) -> Result<usize, TrainError> {
        let ([c, h, w], pixels) = (self.shape, self.shape.iter().product());
        if images.len().is_multiple_of(pixels) {
            return Ok(pixels);
        }
        Err(TrainError::Setting(format!(
            "{} bytes are not a whole number of images of {c} x {h} x {w}, {pixels} bytes each.",
            images.len()
        )))
    }

    /// Returns the outputs `[n][classes]` for at most a batch of images.
    fn batch_outputs(&mut self, images: &[u8]) -> Result<Vec<f32>, TrainError> {
        let (most, n) = (self.batch(), images.len() / self.shape.iter().product::<usize>());
        if n > most {
            let why = format!("There is memory for a batch of {most} images, but {n} were given.");
            return Err(TrainError::Setting(why));
        }
        match &mut self.engine {
            InferenceEngine::Cpu(cpu) => cpu.forward(self.shape, images, n),
            InferenceEngine::Cuda(cuda) => cuda.forward(images),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_those_of_a_softmax() {
        let p = Prediction::from_logits(&[0.0, 2f32.ln(), 0.0]);
        assert_eq!((p.class, p.confidence), (1, 0.5));
        assert_eq!(p.probabilities, [0.25, 0.5, 0.25]);
        assert_eq!(p.top(2), [(1, 0.5), (0, 0.25)]);
        let far = Prediction::from_logits(&[1e30, -1e30]);
        assert_eq!((far.class, far.probabilities), (0, vec![1.0, 0.0]));
    }
}

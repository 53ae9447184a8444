//! A frozen network with the memory that it needs for a batch.

use super::Frozen;
use crate::ops::augment::{self, Augment};
use crate::ops::optimizer::Optimizer;
use crate::train::{BatchLoss, CpuEngine, Loss, Mode, Target, TrainError};

/// What a network takes an image for.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// The class of the largest probability.
    pub class: usize,
    /// Its probability, from 0 to 1.
    pub confidence: f32,
    /// The probability of each class.
    pub probabilities: Vec<f32>,
}

impl Prediction {
    /// The softmax of an image's outputs.
    fn of(logits: &[f32]) -> Self {
        let largest = logits.iter().fold(f32::NEG_INFINITY, |m, v| m.max(*v));
        let powers: Vec<f64> = logits.iter().map(|v| (f64::from(*v) - f64::from(largest)).exp()).collect();
        let sum: f64 = powers.iter().sum();
        let probabilities: Vec<f32> = powers.iter().map(|p| (p / sum) as f32).collect();
        let class = logits.iter().position(|v| *v == largest).unwrap_or(0);
        Self { class, confidence: probabilities.get(class).copied().unwrap_or(0.0), probabilities }
    }

    /// The classes of the largest probabilities, the largest first, each with its own.
    #[must_use]
    pub fn top(&self, n: usize) -> Vec<(usize, f32)> {
        let mut all: Vec<(usize, f32)> = self.probabilities.iter().copied().enumerate().collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all.truncate(n);
        all
    }
}

/// Classifies batches of images on the CPU. All memory is allocated once.
#[derive(Debug)]
pub struct Predictor {
    engine: CpuEngine,
    shape: [usize; 3],
    mean: Vec<f32>,
    deviation: Vec<f32>,
}

impl Predictor {
    pub(super) fn new(frozen: &Frozen, batch: usize) -> Result<Self, TrainError> {
        // The optimiser without a state: nothing is trained.
        let engine = CpuEngine::new(&frozen.network, batch, &frozen.weights, &Optimizer::sgd())?;
        let Frozen { shape, mean, deviation, .. } = frozen;
        Ok(Self { engine, shape: *shape, mean: mean.clone(), deviation: deviation.clone() })
    }

    /// Classifies images, u8 `[n][channels][height][width]`, batch by batch.
    ///
    /// # Errors
    /// The bytes are not a whole number of images, or an output is no finite number.
    pub fn predict(&mut self, images: &[u8]) -> Result<Vec<Prediction>, TrainError> {
        let pixels = self.pixels();
        if !images.len().is_multiple_of(pixels) {
            let [c, h, w] = self.shape;
            return Err(TrainError::Setting(format!(
                "{} bytes are not a whole number of images of {c} x {h} x {w}, {pixels} bytes each.",
                images.len()
            )));
        }
        let mut all = Vec::with_capacity(images.len() / pixels);
        for some in images.chunks(self.engine.batch() * pixels) {
            let first = all.len();
            let (logits, classes) = self.outputs(some)?;
            for (i, logits) in logits.chunks(classes).enumerate() {
                if logits.iter().any(|v| !v.is_finite()) {
                    return Err(TrainError::NotFinite(format!(
                        "The network's outputs for image {} are no finite numbers: its weights are damaged, or its training went wrong.",
                        first + i
                    )));
                }
                all.push(Prediction::of(logits));
            }
        }
        Ok(all)
    }

    /// The loss of one batch.
    pub(super) fn loss(&mut self, images: &[u8], labels: &[u8], loss: Loss) -> Result<BatchLoss, TrainError> {
        let (logits, _) = self.outputs(images)?;
        loss.of(logits, Target::Labels(labels), 1.0, &mut vec![0.0; logits.len()])
    }

    fn pixels(&self) -> usize {
        self.shape.iter().product()
    }

    /// The outputs of at most a batch of images, and how many there are for each.
    fn outputs(&mut self, images: &[u8]) -> Result<(&[f32], usize), TrainError> {
        let n = images.len() / self.pixels();
        let [channels, height, width] = self.shape;
        let normalise = Augment {
            channels,
            height,
            width,
            mean: &self.mean,
            deviation: &self.deviation,
            padding: 0,
            flip: false,
            seed: 0,
            step: 0,
        };
        let indices: Vec<u32> = (0..n as u32).collect();
        augment::cpu::gather(&normalise, images, &indices, self.engine.input(n))?;
        self.engine.forward(n, Mode::Inference)?;
        Ok((self.engine.outputs(n), self.engine.network().output().elements()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_those_of_a_softmax() {
        let p = Prediction::of(&[0.0, 2f32.ln(), 0.0]);
        assert_eq!((p.class, p.confidence), (1, 0.5));
        assert_eq!(p.probabilities, [0.25, 0.5, 0.25]);
        assert_eq!(p.top(2), [(1, 0.5), (0, 0.25)]);
        let far = Prediction::of(&[1e30, -1e30]);
        assert_eq!((far.class, far.probabilities), (0, vec![1.0, 0.0]));
    }
}

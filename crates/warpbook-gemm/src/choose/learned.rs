//! What measured times say beyond the costs: a small neural network corrects the estimate of a tile.
//!
//! The estimate takes the largest of several limits, each as if nothing else were in its way. How much they are in each other's way
//! depends on all of them together. The network learned that on an H200 from the times of random products, each with the tiles that
//! were expected to be the fastest: `warpbook survey matmul --candidates 14 --out F`, then `learned/train.py F...`, which says how good
//! its choices are at products that it has not seen.

use crate::choose::cost_model::{Estimate, TERMS, is_h100};
use serde::Deserialize;
use std::sync::LazyLock;
use warpbook_record::DeviceInfo;

/// How far a term is from its mean, at most, in standard deviations: beyond that nothing was learned.
const FAR: f32 = 4.0;
/// The logarithm of the largest correction.
const MOST: f32 = 0.7;

/// A few networks whose mean counts. The inputs are the terms of an estimate, the output is the logarithm of how many times as long as
/// estimated a product takes.
#[derive(Debug, Deserialize)]
struct Ensemble {
    /// Of each term.
    mean: Vec<f32>,
    deviation: Vec<f32>,
    /// Fully connected layers with ReLU between them.
    members: Vec<Vec<Layer>>,
}

#[derive(Debug, Deserialize)]
struct Layer {
    /// `[outputs][inputs]`.
    weights: Vec<Vec<f32>>,
    bias: Vec<f32>,
}

static H200: LazyLock<Ensemble> =
    LazyLock::new(|| serde_json::from_str(include_str!("learned/h200.json")).expect("a test reads the file"));

impl Layer {
    fn of(&self, inputs: &[f32]) -> Vec<f32> {
        let dot = |row: &[f32]| row.iter().zip(inputs).map(|(w, x)| w * x).sum::<f32>();
        self.weights.iter().zip(&self.bias).map(|(row, bias)| dot(row) + bias).collect()
    }
}

impl Ensemble {
    fn log_factor(&self, terms: &[f32; TERMS]) -> f32 {
        let scaled = terms.iter().zip(self.mean.iter().zip(&self.deviation));
        let inputs: Vec<f32> =
            scaled.map(|(term, (mean, deviation))| ((term - mean) / deviation).clamp(-FAR, FAR)).collect();
        let of_member = |layers: &Vec<Layer>| {
            let outputs = layers.iter().enumerate().fold(inputs.clone(), |inputs, (i, layer)| {
                let rectified = |v: f32| if i == 0 { v } else { v.max(0.0) };
                layer.of(&inputs.into_iter().map(rectified).collect::<Vec<_>>())
            });
            outputs.into_iter().sum::<f32>()
        };
        let mean = self.members.iter().map(of_member).sum::<f32>() / self.members.len() as f32;
        mean.clamp(-MOST, MOST)
    }
}

/// Whether what was learned holds on a device: like the costs, wherever nothing else is known.
pub(crate) fn holds(device: &DeviceInfo) -> bool {
    device.compute_capability == Some((9, 0)) && !is_h100(device)
}

/// An estimate of a product of 16-bit types, corrected by what was learned.
pub(crate) fn corrected(estimate: Estimate) -> Estimate {
    Estimate { us: estimate.us * f64::from(H200.log_factor(&estimate.terms)).exp(), ..estimate }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_network_takes_all_terms() {
        let Ensemble { mean, deviation, members } = &*H200;
        assert_eq!([mean.len(), deviation.len()], [TERMS; 2]);
        assert!(deviation.iter().all(|d| *d > 0.0));
        assert!(!members.is_empty());
        for layers in members {
            let mut inputs = TERMS;
            for layer in layers {
                assert!(layer.weights.iter().all(|row| row.len() == inputs));
                assert_eq!(layer.weights.len(), layer.bias.len());
                inputs = layer.bias.len();
            }
            assert_eq!(inputs, 1);
        }
    }

    /// Two members with a hidden layer of two: one is 0.1 where the first term is its mean, less on one side; the other the constant 0.3.
    #[test]
    fn a_factor_is_the_mean_of_rectified_members() {
        let row = |first: f32| [vec![first], vec![0.0; TERMS - 1]].concat();
        let layer = |weights, bias: &[f32]| Layer { weights, bias: bias.to_vec() };
        let slope = vec![layer(vec![row(1.0), row(-1.0)], &[0.0, 0.0]), layer(vec![vec![0.0, -0.05]], &[0.1])];
        let constant = vec![layer(vec![row(0.0), row(0.0)], &[1.0, -1.0]), layer(vec![vec![0.3, 9.0]], &[0.0])];
        let ensemble = Ensemble { mean: vec![5.0; TERMS], deviation: vec![2.0; TERMS], members: vec![slope, constant] };
        let at = |first: f32| ensemble.log_factor(&std::array::from_fn(|i| if i == 0 { first } else { 5.0 }));
        let close = |found: f32, expected: f32| assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        close(at(5.0), 0.2);
        close(at(9.0), 0.2);
        close(at(3.0), (0.1 - 0.05 + 0.3) / 2.0);
        // Four deviations are as far as it looks.
        close(at(-3.0), (0.1 - 0.2 + 0.3) / 2.0);
        close(at(-300.0), at(-3.0));
    }

    #[test]
    fn a_correction_is_limited() {
        let far = Ensemble {
            mean: vec![0.0; TERMS],
            deviation: vec![1.0; TERMS],
            members: vec![vec![Layer { weights: vec![vec![0.0; TERMS]], bias: vec![5.0] }]],
        };
        assert!((far.log_factor(&[0.0; TERMS]) - MOST).abs() < 1e-6);
    }
}

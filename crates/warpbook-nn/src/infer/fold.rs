//! Folds batch normalisations into the layers before them and removes dropout.

use crate::network::{Network, Node, Op, Rebuilt};
use crate::train::TrainError;
use crate::weights::Weights;
use std::collections::HashMap;

/// Returns the network for inference with its weights. Its outputs are the same up to rounding: a batch normalisation with running
/// statistics after a convolution or a linear layer is that layer with w' = w gamma / sqrt(variance + epsilon) and b' = (b - mean) gamma /
/// sqrt(variance + epsilon) + beta. A batch normalisation stays if another layer reads its input too, or if it follows neither kind of
/// layer.
pub(super) fn fold(network: &Network, weights: &Weights) -> Result<(Network, Weights), TrainError> {
    let weights = Weights::new(network, weights.values().to_vec())?;
    let into = targets(network);
    let mut folded: HashMap<usize, Folded> = HashMap::new();
    for (i, node) in network.nodes().iter().enumerate() {
        if let (Some(target), Op::BatchNorm { epsilon, .. }) = (into[i], node.op) {
            let layer = folded.entry(target).or_insert_with(|| Folded::new(&network.nodes()[target], &weights));
            layer.scale(&node.params.iter().map(|p| &weights.values()[*p][..]).collect::<Vec<_>>(), epsilon);
        }
    }
    let layers = network.rebuilt(|node, layer| {
        // A node writes the value whose index is one above its own.
        let i = node.output - 1;
        match node.op {
            Op::Dropout { .. } => Rebuilt::OnlyIfAlone(layer),
            _ if into[i].is_some() => Rebuilt::OnlyIfAlone(layer),
            _ if folded.contains_key(&i) => Rebuilt::As(layer.with_bias()),
            _ => Rebuilt::As(layer),
        }
    });
    let of_names: HashMap<&str, &Folded> = folded.iter().map(|(i, f)| (&*network.nodes()[*i].name, f)).collect();
    let frozen = Network::new(network.input(), layers).map_err(|e| TrainError::Setting(e.to_string()))?;
    let values = frozen.params().iter().map(|spec| {
        let (layer, parameter) = spec.name.rsplit_once('.').unwrap_or((&spec.name, ""));
        match of_names.get(layer) {
            Some(f) => (if parameter == "weight" { &f.weight } else { &f.bias }).iter().map(|v| *v as f32).collect(),
            None => weights.get(&spec.name).unwrap_or_default().to_vec(),
        }
    });
    let values = values.collect();
    Ok((frozen.clone(), Weights::new(&frozen, values)?))
}

/// Returns, for each node that is a batch normalisation, the node it is folded into, if any.
fn targets(network: &Network) -> Vec<Option<usize>> {
    let mut readers = vec![0; network.values().len()];
    for node in network.nodes() {
        readers[node.input] += 1;
        if let Op::Add(other) = node.op {
            readers[other] += 1;
        }
    }
    let mut into: Vec<Option<usize>> = Vec::new();
    for node in network.nodes() {
        let target =
            if matches!(node.op, Op::BatchNorm { .. }) { target(network, &into, &readers, node) } else { None };
        into.push(target);
    }
    into
}

fn target(network: &Network, into: &[Option<usize>], readers: &[usize], node: &Node) -> Option<usize> {
    let mut value = node.input;
    // Skips removed nodes: dropout, and batch normalisations that are folded themselves.
    while value > 0 && readers[value] == 1 {
        let before = &network.nodes()[value - 1];
        match before.op {
            Op::Conv2d(_) | Op::Linear { .. } => return Some(value - 1),
            Op::Dropout { .. } => value = before.input,
            Op::BatchNorm { .. } if into[value - 1].is_some() => value = before.input,
            _ => return None,
        }
    }
    None
}

/// A weight `[out][..]` and a bias `[out]`, kept in f64 until everything is folded.
struct Folded {
    weight: Vec<f64>,
    bias: Vec<f64>,
}

impl Folded {
    fn new(node: &Node, weights: &Weights) -> Self {
        let param = |i: usize| -> Option<Vec<f64>> {
            let values = &weights.values()[*node.params.get(i)?];
            Some(values.iter().map(|v| f64::from(*v)).collect())
        };
        let out = match node.op {
            Op::Conv2d(c) => c.filters,
            Op::Linear { features, .. } => features,
            _ => 0,
        };
        Self { weight: param(0).unwrap_or_default(), bias: param(1).unwrap_or_else(|| vec![0.0; out]) }
    }

    /// Folds a batch normalisation with these parameters: gamma, beta, mean and variance.
    fn scale(&mut self, params: &[&[f32]], epsilon: f32) {
        let inputs = self.weight.len() / self.bias.len().max(1);
        for (c, bias) in self.bias.iter_mut().enumerate() {
            let [gamma, beta, mean, variance] = [0, 1, 2, 3].map(|i| f64::from(params[i][c]));
            let scale = gamma / (variance + f64::from(epsilon)).sqrt();
            *bias = (*bias - mean) * scale + beta;
            self.weight[c * inputs..][..inputs].iter_mut().for_each(|w| *w *= scale);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::*;
    use crate::ops::optimizer::Optimizer;
    use crate::train::{CpuEngine, Mode};
    use warpbook_data::philox;

    /// Returns random weights, none of them 0 or 1.
    fn weights(network: &Network) -> Weights {
        let value = |(id, spec): (usize, &ParamSpec)| {
            let mut values = vec![0.0; spec.len()];
            philox::fill_uniforms(&mut values, 3, id as u32, 0);
            let spread = 2.0 / (spec.fan_in as f32).sqrt();
            let rescaled = |v: f32| match spec.role {
                Role::RunningVariance | Role::Scale => 0.3 + v,
                _ => (v - 0.5) * spread,
            };
            values.into_iter().map(rescaled).collect()
        };
        Weights::new(network, network.params().iter().enumerate().map(value).collect()).unwrap()
    }

    fn outputs(network: &Network, weights: &Weights) -> Vec<f32> {
        const N: usize = 5;
        let mut engine = CpuEngine::new(network, N, weights, &Optimizer::sgd()).unwrap();
        philox::fill_gaussians(engine.input(N), 4, 0, 0);
        engine.forward(N, Mode::Inference).unwrap();
        engine.outputs(N).to_vec()
    }

    /// Freezes a network, compares its outputs, and checks which layers are left.
    fn check(layers: Vec<Layer>, expect: &[&str]) {
        let network = Network::new([2, 8, 8], layers).unwrap();
        let weights = weights(&network);
        let (frozen, of_frozen) = fold(&network, &weights).unwrap();
        let left: Vec<String> = frozen.nodes().iter().map(|n| n.name.clone()).collect();
        assert_eq!(left, expect);
        let (want, got) = (outputs(&network, &weights), outputs(&frozen, &of_frozen));
        let size = want.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        for (w, g) in want.iter().zip(&got) {
            assert!((w - g).abs() <= 2e-6 * size, "{g} instead of {w}: {left:?}");
        }
    }

    #[test]
    fn a_frozen_network_computes_the_same() {
        check(vec![conv2d(4, 3), batch_norm(), relu(), flatten(), linear(3)], &["conv1", "relu1", "flatten1", "fc1"]);
        check(vec![conv2d(4, 3).padding(1).stride(2).without_bias(), batch_norm().epsilon(0.1)], &["conv1"]);
        check(
            vec![flatten(), linear(6).without_bias(), dropout(0.5), batch_norm(), gelu(), linear(3), batch_norm()],
            &["flatten1", "fc1", "gelu1", "fc2"],
        );
        check(vec![conv2d(4, 3), batch_norm(), dropout(0.2), batch_norm(), flatten()], &["conv1", "flatten1"]);
        check(
            vec![
                conv2d(4, 3),
                residual([conv2d(4, 3).padding(1).without_bias(), batch_norm(), dropout(0.3)]),
                batch_norm(),
                relu(),
                avg_pool(2),
                flatten(),
                linear(3),
            ],
            &["conv1", "conv2", "residual1", "bn2", "relu1", "pool1", "flatten1", "fc1"],
        );
    }

    #[test]
    fn a_batch_norm_that_cannot_be_folded_stays() {
        // Not folded: no layer before the normalisation; another layer in between; a sum that also reads the convolution's output.
        check(vec![batch_norm(), flatten(), linear(2)], &["bn1", "flatten1", "fc1"]);
        check(vec![conv2d(3, 3), relu(), batch_norm()], &["conv1", "relu1", "bn1"]);
        check(vec![conv2d(3, 3), residual([batch_norm(), gelu()])], &["conv1", "bn1", "gelu1", "residual1"]);
        check(vec![conv2d(3, 3), flatten(), batch_norm(), linear(2)], &["conv1", "flatten1", "bn1", "fc1"]);
    }

    #[test]
    fn a_branch_of_dropout_alone_still_adds() {
        check(vec![residual([dropout(0.5), dropout(0.1)]), flatten()], &["dropout2", "residual1", "flatten1"]);
        check(vec![dropout(0.5)], &["dropout1"]);
    }
}

//! Gradients of a network with exact sums in f64, from arrays that are rounded where an engine rounds them.

use crate::in_f64 as reference;
use warpbook_gemm::storage::rounded;
use warpbook_nn::network::{Network, Node, Op};
use warpbook_nn::ops::cross_entropy::CrossEntropy;
use warpbook_nn::train::{GradScaler, Precision};
use warpbook_record::Dtype;

/// Types to which arrays are rounded, as in the rows of `Precision::table`; `F64` rounds nothing.
#[derive(Debug, Clone, Copy)]
pub struct Types {
    /// Type of values, their gradients, and the gradients of linear layers' weights.
    stored: Dtype,
    /// Type of the operands of convolutions and linear layers.
    operands: Dtype,
    /// True if linear layers leave the rounding to tensor cores, which read the upper 19 bits of a tf32 operand: data that Hopper's
    /// instructions copy to shared memory passes through no register. The other kernels round to the nearest.
    linear_truncates: bool,
    /// Scale of the loss, without which small gradients would be rounded to zero.
    scale: f64,
}

impl Types {
    /// Types that round nothing.
    pub const EXACT: Self = Self { stored: Dtype::F64, operands: Dtype::F64, linear_truncates: false, scale: 1.0 };

    /// Types of a training's first step; several if they depend on the GPU's kernels.
    pub fn for_precision(precision: Precision) -> Vec<Self> {
        let scale = if precision.scales_the_loss() { GradScaler::default().init_scale } else { 1.0 };
        let (stored, operands) = (precision.activations(), precision.products());
        let types = |linear_truncates| Self { stored, operands, linear_truncates, scale: scale.into() };
        if operands == Dtype::Tf32 { [true, false].map(types).into() } else { vec![types(false)] }
    }

    fn store(&self, values: Vec<f64>) -> Vec<f64> {
        values.into_iter().map(|v| rounded_to(self.stored, v)).collect()
    }

    fn operand(&self, node: &Node, values: &[f64]) -> Vec<f64> {
        let truncates = self.linear_truncates && matches!(node.op, Op::Linear { .. });
        let read =
            |v: f64| if truncates { rounded(v as f32, Dtype::Tf32).into() } else { rounded_to(self.operands, v) };
        values.iter().map(|v| read(*v)).collect()
    }
}

/// Rounds to the nearest; tf32 is rounded like `round_to_tf32` of `kernels/matmul/mma.cuh`.
fn rounded_to(dtype: Dtype, v: f64) -> f64 {
    match dtype {
        Dtype::F64 => v,
        Dtype::Tf32 => rounded(f32::from_bits((v as f32).to_bits() + 0x1000), dtype).into(),
        _ => rounded(v as f32, dtype).into(),
    }
}

/// Computes the gradients of all parameters of a network of convolutions, ReLU, max pools and linear layers with biases. Weights and
/// gradients are in the engine's layout and order.
pub fn gradients(network: &Network, weights: &[Vec<f64>], x: Vec<f64>, labels: &[u8], types: Types) -> Vec<Vec<f64>> {
    let n = labels.len();
    let geometry = |node: &Node| network.conv_geometry(node, n);
    let windows = |node: &Node| network.pool_geometry(node, n);
    let sizes = |node: &Node| network.linear_sizes(node, n);
    let mut values = vec![types.store(x)];
    for node in network.nodes() {
        let x = &values[node.input];
        let weight = || types.operand(node, &weights[node.params[0]]);
        let bias = || Some(&weights[node.params[1]][..]);
        values.push(types.store(match node.op {
            Op::Conv2d(_) => reference::conv2d(&geometry(node), &types.operand(node, x), &weight(), bias()),
            Op::Linear { .. } => reference::linear(&sizes(node), &types.operand(node, x), &weight(), bias()),
            Op::Activation(f) => reference::activation(f, x),
            Op::Pool(_) => reference::max_pool(&windows(node), x).0,
            Op::Flatten => x.clone(),
            _ => panic!("{} is not in this network", node.name),
        }));
    }
    let logits = values.last().unwrap();
    let loss = CrossEntropy { batch: n, classes: logits.len() / n, smoothing: 0.0 };
    let of_loss = reference::cross_entropy_gradient(&loss, logits, labels);
    let mut dy = types.store(of_loss.iter().map(|v| v * types.scale).collect());
    let mut gradients = vec![Vec::new(); weights.len()];
    for node in network.nodes().iter().rev() {
        let x = &values[node.input];
        let [operand, dy_operand] = [x, &dy].map(|v| types.operand(node, v));
        let weight = || types.operand(node, &weights[node.params[0]]);
        dy = types.store(match node.op {
            Op::Conv2d(_) => {
                let g = geometry(node);
                gradients[node.params[0]] = reference::conv2d_weight_gradient(&g, &operand, &dy_operand);
                gradients[node.params[1]] = reference::conv2d_bias_gradient(&g, &dy);
                // Nothing needs the gradient of the images.
                if node.input == 0 { vec![] } else { reference::conv2d_input_gradient(&g, &dy_operand, &weight()) }
            }
            Op::Linear { .. } => {
                let s = sizes(node);
                gradients[node.params[0]] = types.store(reference::linear_weight_gradient(&s, &operand, &dy_operand));
                gradients[node.params[1]] = reference::linear_bias_gradient(&dy, s.outputs);
                reference::linear_input_gradient(&s, &dy_operand, &weight())
            }
            Op::Activation(f) => reference::activation_gradient(f, x, &dy),
            Op::Pool(_) => reference::max_pool_gradient(&windows(node), x, &dy),
            _ => dy,
        });
    }
    gradients.iter_mut().flatten().for_each(|v| *v /= types.scale);
    gradients
}

/// The error of an array relative to its norm.
pub fn relative_error(got: &[f64], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len());
    let norm = |squares: f64| squares.sqrt();
    let error = norm(got.iter().zip(want).map(|(a, b)| (a - b) * (a - b)).sum());
    error / norm(want.iter().map(|v| v * v).sum())
}

#[test]
fn a_tf32_is_rounded_to_the_nearest_or_cut_off() {
    let network = warpbook_nn::network::mnist_cnn(0.0, 0.0);
    let node_of = |name: &str| network.nodes().iter().find(|node| node.name == name).unwrap();
    let unit = 1.0 / 1024.0;
    let [cut, nearest] = Types::for_precision(Precision::Tf32)[..] else { panic!("two") };
    for (v, down, near) in
        [(1.0 + 1.9 * unit, 1.0 + unit, 1.0 + 2.0 * unit), (-1.0 - 1.4 * unit, -1.0 - unit, -1.0 - unit)]
    {
        assert_eq!(cut.operand(node_of("fc1"), &[v]), [down]);
        assert_eq!([cut.operand(node_of("conv1"), &[v]), nearest.operand(node_of("fc1"), &[v])], [[near], [near]]);
        let stored = f64::from(v as f32);
        assert_eq!((cut.store(vec![v]), Types::EXACT.store(vec![v])), (vec![stored], vec![v]));
    }
}

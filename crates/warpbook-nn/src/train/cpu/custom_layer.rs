//! Passes of custom layers.

use super::CpuEngine;
use crate::network::{Network, Node};
use crate::ops::Layout;
use crate::ops::custom_layer::cpu::{CpuBackward, CpuBody, CpuForward};
use crate::ops::custom_layer::{OwnLayer, OwnSizes};
use crate::train::TrainError;
use std::mem::take;

/// Refuses a network with a layer that cannot be computed on the CPU.
pub(super) fn ensure_bodies(network: &Network) -> Result<(), TrainError> {
    network.nodes().iter().filter(|node| node.own.is_some()).try_for_each(|node| body_of(node).map(drop))
}

fn body_of(node: &Node) -> Result<(&OwnLayer, &CpuBody), TrainError> {
    let body = node.own.as_ref().and_then(|own| Some((own, own.cpu_body()?)));
    body.ok_or_else(|| TrainError::Setting(OwnLayer::without_cpu_body(&node.name)))
}

impl CpuEngine {
    fn own_parameters(&self, node: &Node) -> Vec<&[f32]> {
        node.params.iter().map(|id| &self.weights[*id][..]).collect()
    }

    pub(super) fn custom_layer_forward(
        &self,
        node: &Node,
        n: usize,
        x: &[f32],
        y: &mut [f32],
    ) -> Result<(), TrainError> {
        let (own, body) = body_of(node)?;
        let sizes = OwnSizes::new(own, self.network.value(node.input), n, Layout::Nhwc);
        body.forward(CpuForward { sizes, x, parameters: &self.own_parameters(node), y });
        Ok(())
    }

    pub(super) fn custom_layer_backward(
        &mut self,
        node: &Node,
        n: usize,
        dy: &[f32],
        written: &mut [bool],
    ) -> Result<(), TrainError> {
        let (own, body) = body_of(node)?;
        let sizes = OwnSizes::new(own, self.network.value(node.input), n, Layout::Nhwc);
        let mut gradients: Vec<Vec<f32>> = node.params.iter().map(|id| take(&mut self.gradients[*id])).collect();
        gradients.iter_mut().for_each(|g| g.fill(0.0));
        let mut dx = vec![0.0; sizes.inputs()];
        body.backward(CpuBackward {
            sizes,
            x: &self.values[node.input][..sizes.inputs()],
            y: &self.values[node.output][..sizes.outputs()],
            dy,
            parameters: &self.own_parameters(node),
            dx: &mut dx,
            gradients: &mut gradients,
        });
        for (id, (gradient, p)) in node.params.iter().zip(gradients.into_iter().zip(own.parameters())) {
            // The author may have replaced a vector by one of a different length.
            if gradient.len() != p.len() {
                let why = format!(
                    "{}: the gradient of `{}` has {} elements; it needs {}.",
                    node.name,
                    p.name,
                    gradient.len(),
                    p.len()
                );
                return Err(TrainError::Setting(why));
            }
            self.gradients[*id] = gradient;
        }
        self.join(node.input, &dx, written)
    }
}

//! Turns a network's operations back into layers.

use super::layer::{Kind, Layer, residual};
use super::{Network, Node, Op};

/// An operation's replacement in [`Network::rebuilt`].
pub(crate) enum Rebuilt {
    /// Replace the operation with this layer.
    As(Layer),
    /// Replace the operation with this layer if the list of layers would otherwise be empty; if not, remove the operation.
    OnlyIfAlone(Layer),
}

impl Node {
    /// Returns the operation's layer, with its name; `None` for the end of a residual branch.
    pub(crate) fn layer(&self) -> Option<Layer> {
        let kind = match self.op {
            Op::Conv2d(c) => Kind::Conv2d(c),
            Op::Linear { features, bias } => Kind::Linear { features, bias },
            Op::Activation(a) => Kind::Activation(a),
            Op::Pool(p) => Kind::Pool(p),
            Op::BatchNorm { momentum, epsilon, scale } => Kind::BatchNorm { momentum, epsilon, scale },
            Op::Dropout { p, .. } => Kind::Dropout { p },
            Op::Flatten => Kind::Flatten,
            Op::Own => Kind::Own(self.own.clone()?),
            Op::Add(_) => return None,
        };
        Some(Layer { by: self.by, ..Layer::from(kind) }.named(&*self.name))
    }
}

impl Layer {
    /// Returns this convolution or linear layer with a bias; other layers stay as they are.
    pub(crate) fn with_bias(mut self) -> Self {
        match &mut self.kind {
            Kind::Conv2d(c) => c.bias = true,
            Kind::Linear { bias, .. } => *bias = true,
            _ => {}
        }
        self
    }
}

impl Network {
    /// Returns the network's layers, all named.
    #[must_use]
    pub fn layers(&self) -> Vec<Layer> {
        self.rebuilt(|_, layer| Rebuilt::As(layer))
    }

    /// Returns the layers after replacing each; a residual branch is rebuilt from its replaced layers.
    pub(crate) fn rebuilt(&self, mut replace: impl FnMut(&Node, Layer) -> Rebuilt) -> Vec<Layer> {
        let mut list = Vec::new();
        for node in self.nodes() {
            let rebuilt = match (node.op, node.layer()) {
                (_, Some(layer)) => replace(node, layer),
                (Op::Add(start), None) => {
                    // The list is a chain, so all operations after the start of the branch belong to the branch.
                    let first = list.iter().position(|(output, _)| *output > start).unwrap_or(list.len());
                    Rebuilt::As(residual(kept(list.split_off(first))).named(&*node.name))
                }
                (_, None) => continue,
            };
            list.push((node.output, rebuilt));
        }
        kept(list)
    }
}

fn kept(list: Vec<(usize, Rebuilt)>) -> Vec<Layer> {
    let alone = !list.iter().any(|(_, r)| matches!(r, Rebuilt::As(_)));
    let last = list.len().saturating_sub(1);
    let keep = |(i, (_, rebuilt))| match rebuilt {
        Rebuilt::As(layer) => Some(layer),
        Rebuilt::OnlyIfAlone(layer) => (alone && i == last).then_some(layer),
    };
    list.into_iter().enumerate().filter_map(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::*;

    #[test]
    fn a_network_gives_its_layers_back() {
        let layers = [
            conv2d(4, 3).padding(1).without_bias(),
            batch_norm().momentum(0.2).epsilon(1e-4),
            residual([residual([relu()]), conv2d(4, 3).padding(1), dropout(0.5)]),
            residual([gelu()]).named("second"),
            max_pool(2),
            flatten(),
            linear(3).named("head"),
        ];
        let network = Network::new([2, 6, 6], layers).unwrap();
        let again = Network::new(network.input(), network.layers()).unwrap();
        assert_eq!(again, network);
        let kinds: Vec<String> = network.layers().iter().map(ToString::to_string).collect();
        assert_eq!(kinds[2..4], ["residual of 3 layers", "residual of 1 layers"]);
    }

    #[test]
    fn a_branch_keeps_its_last_layer() {
        let network = Network::new(4, [dropout(0.1), residual([dropout(0.2), dropout(0.3)]), linear(2)]).unwrap();
        let drop = |node: &Node, layer: Layer| match node.op {
            Op::Dropout { .. } => Rebuilt::OnlyIfAlone(layer),
            _ => Rebuilt::As(layer),
        };
        let layers = network.rebuilt(drop);
        assert_eq!(layers, [residual([dropout(0.3).named("dropout3")]).named("residual1"), linear(2).named("fc1")]);
    }
}

//! Networks: a plain list of layers, with shapes inferred and parameters named as PyTorch names them.
//!
//! ```
//! use warpbook_nn::network::*;
//!
//! let layers = [conv2d(32, 3), relu(), conv2d(64, 3), relu(), max_pool(2), dropout(0.25), flatten(), linear(128), relu(), linear(10)];
//! let network = Network::new([1, 28, 28], layers)?;
//! assert_eq!(network.output().to_string(), "10");
//! assert_eq!(network.parameter_count(), 1_199_882);
//! # Ok::<(), NetworkError>(())
//! ```
//!
//! | layers | |
//! |---|---|
//! | [`conv2d`], [`linear`] | with a bias or without, any kernel, stride and padding |
//! | [`relu`], [`gelu`] | element by element |
//! | [`max_pool`], [`avg_pool`] | windows of an image |
//! | [`batch_norm`], [`dropout`] | differ between training and inference |
//! | [`flatten`], [`residual`] | an image as a vector; x + f(x) of a list of layers |
//! | [`own`] | a custom layer: forward and backward pass in CUDA C++, with trained parameters; see [`crate::ops::custom_layer`] |

mod arrange;
mod backend;
mod graph;
mod layer;
mod presets;
mod rebuild;
mod segments;
mod shape;
mod sizes;
mod text;

pub use arrange::Arrangement;
pub(crate) use arrange::transpose_into;
pub use backend::By;
pub use graph::{Node, Op, ParamId, ValueId};
pub use layer::{
    Activation, Conv2d, Layer, Pool, PoolKind, avg_pool, batch_norm, conv2d, dropout, flatten, gelu, linear, max_pool,
    own, relu, residual,
};
pub use presets::{amp_recipe, cifar10_cnn, mnist_cnn};
pub(crate) use rebuild::Rebuilt;
pub use shape::{Shape, windows};

/// The reason why a list of layers is not a valid network: names the layer and the shapes that do not match.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NetworkError(pub(crate) String);

/// The purpose of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The weight of a convolution `[out][in][height][width]` or of a linear layer `[out][in]`.
    Weight,
    /// The bias `[out]` of a convolution or a linear layer.
    Bias,
    /// The scale of a batch normalisation.
    Scale,
    /// The shift of a batch normalisation.
    Shift,
    /// The running mean of a batch normalisation, which is not trained.
    RunningMean,
    /// The running variance of a batch normalisation, which is not trained.
    RunningVariance,
    /// A parameter of a custom layer; the layer defines the initial value.
    Own,
}

impl Role {
    /// Returns true if an optimiser changes parameters of this role.
    #[must_use]
    pub fn is_trained(self) -> bool {
        !matches!(self, Self::RunningMean | Self::RunningVariance)
    }
}

/// A parameter of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamSpec {
    /// Name of the parameter as in PyTorch, such as `conv1.weight`.
    pub name: String,
    /// Sizes of the parameter as in PyTorch, the outermost first.
    pub shape: Vec<usize>,
    /// Purpose of the parameter, which decides how it is initialised and trained.
    pub role: Role,
    /// Number of terms in the sum that gives each output of the layer; the initial values are scaled by it.
    pub fan_in: usize,
    /// True if training leaves the parameter unchanged although parameters with its role are normally trained.
    pub frozen: bool,
}

impl ParamSpec {
    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns true if the parameter has no elements; no valid network has such a parameter.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A network: operations in order, each reading values written earlier.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    nodes: Vec<Node>,
    values: Vec<Shape>,
    params: Vec<ParamSpec>,
    /// Index of the first operation of each segment except the first segment: see [`Network::checkpointed`].
    cuts: Vec<usize>,
}

impl Network {
    /// Builds a network from layers, for samples of this shape: `[channels, height, width]`, or a number of features.
    ///
    /// # Errors
    /// If a layer does not fit its input's shape, two layers have the same name, or a setting is invalid.
    pub fn new(input: impl Into<Shape>, layers: impl IntoIterator<Item = Layer>) -> Result<Self, NetworkError> {
        let layers: Vec<Layer> = layers.into_iter().collect();
        let graph::Inferred { nodes, values, params } = graph::infer(input.into(), &layers)?;
        if nodes.is_empty() {
            return Err(NetworkError("The network has no layers: give it at least one.".into()));
        }
        Ok(Self { nodes, values, params, cuts: Vec::new() })
    }

    /// Returns this network with every dropout probability 0.
    #[must_use]
    pub fn without_dropout(&self) -> Self {
        let mut network = self.clone();
        for node in &mut network.nodes {
            if let Op::Dropout { p, .. } = &mut node.op {
                *p = 0.0;
            }
        }
        network
    }

    /// Returns this network without backends chosen for single layers ([`By`]).
    pub(crate) fn without_choices(mut self) -> Self {
        self.nodes.iter_mut().for_each(|node| node.by = By::default());
        self
    }

    /// Returns the shape of an input sample.
    #[must_use]
    pub fn input(&self) -> Shape {
        self.values[0]
    }

    /// Returns the shape of the output for one sample.
    #[must_use]
    pub fn output(&self) -> Shape {
        self.values[self.values.len() - 1]
    }

    /// Returns the operations in order of execution.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the shape of a value.
    ///
    /// # Panics
    /// If there is no such value.
    #[must_use]
    pub fn value(&self, id: ValueId) -> Shape {
        self.values[id]
    }

    /// Returns the shapes of all values, the input first.
    #[must_use]
    pub fn values(&self) -> &[Shape] {
        &self.values
    }

    /// Returns the parameters, in the order of the layers.
    #[must_use]
    pub fn params(&self) -> &[ParamSpec] {
        &self.params
    }

    /// Returns the initial value of each element of a custom layer's parameter; 0 for any other parameter.
    #[must_use]
    pub fn initial(&self, id: ParamId) -> f32 {
        let initial_in = |node: &Node| {
            let place = node.params.iter().position(|p| *p == id)?;
            Some(node.own.as_ref()?.parameters().get(place)?.initial)
        };
        self.nodes.iter().find_map(initial_in).unwrap_or(0.0)
    }

    /// Returns the number of trained weights: the elements of all trained parameters.
    #[must_use]
    pub fn parameter_count(&self) -> usize {
        self.params.iter().filter(|p| p.role.is_trained()).map(ParamSpec::len).sum()
    }

    /// Returns the number of floating-point operations of one sample's forward pass in convolutions and linear layers, a multiply-add counted as two.
    #[must_use]
    pub fn forward_flops(&self) -> u64 {
        self.nodes.iter().map(|n| self.node_flops(n)).sum()
    }

    /// Returns the number of floating-point operations of one operation's forward pass.
    #[must_use]
    pub fn node_flops(&self, node: &Node) -> u64 {
        let per_output = match node.op {
            Op::Conv2d(c) => 2 * (self.values[node.input].channels() * c.kernel[0] * c.kernel[1]) as u64,
            Op::Linear { .. } => 2 * self.values[node.input].elements() as u64,
            _ => 0,
        };
        per_output * self.values[node.output].elements() as u64
    }

    /// Returns the number of floating-point operations of one sample's training step: the forward pass, and for each layer with a weight the gradients of
    /// weight and input. The first layer's input needs no gradient.
    #[must_use]
    pub fn training_flops(&self) -> u64 {
        let forward = self.forward_flops();
        let first = self.nodes.iter().find(|n| !n.params.is_empty()).map_or(0, |n| self.node_flops(n));
        3 * forward - first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(input: [usize; 3], layers: Vec<Layer>) -> String {
        Network::new(input, layers).unwrap_err().to_string()
    }

    #[test]
    fn the_mnist_cnn_has_pytorch_s_names_and_shapes() {
        let n = mnist_cnn(0.25, 0.5);
        let names: Vec<String> = n.params().iter().map(|p| format!("{} {:?}", p.name, p.shape)).collect();
        assert_eq!(
            names,
            [
                "conv1.weight [32, 1, 3, 3]",
                "conv1.bias [32]",
                "conv2.weight [64, 32, 3, 3]",
                "conv2.bias [64]",
                "fc1.weight [128, 9216]",
                "fc1.bias [128]",
                "fc2.weight [10, 128]",
                "fc2.bias [10]"
            ]
        );
        assert_eq!(n.output(), Shape::Vector(10));
        assert_eq!(n.parameter_count(), 1_199_882);
        // Outputs per sample: 26² x 32 with 9 terms each, 24² x 64 with 288 terms, 128 with 9216 terms, and 10 with 128 terms.
        assert_eq!(n.forward_flops(), 2 * (676 * 32 * 9 + 576 * 64 * 288 + 128 * 9216 + 10 * 128));
        assert_eq!(n.training_flops(), 3 * n.forward_flops() - 2 * 676 * 32 * 9);
        let dropouts =
            |n: &Network| n.nodes().iter().filter(|n| matches!(n.op, Op::Dropout { p, .. } if p > 0.0)).count();
        assert_eq!((dropouts(&n), dropouts(&n.without_dropout())), (2, 0));
    }

    #[test]
    fn a_residual_branch_adds_what_it_got() {
        let n = Network::new(
            [3, 8, 8],
            [conv2d(4, 3).padding(1), residual([conv2d(4, 3).padding(1), batch_norm(), relu()]), flatten(), linear(2)],
        )
        .unwrap();
        let add = &n.nodes()[4];
        assert_eq!((add.op, add.input, add.name.as_str()), (Op::Add(1), 4, "residual1"));
        assert_eq!(n.value(add.output), Shape::image(4, 8, 8));
        let trained: Vec<bool> = n.params().iter().map(|p| p.role.is_trained()).collect();
        assert_eq!(trained.iter().filter(|t| !**t).count(), 2, "running mean and variance");
    }

    #[test]
    fn what_does_not_fit_names_layer_and_shapes() {
        let check = |layers: Vec<Layer>, expect: &[&str]| {
            let sentence = refused([3, 6, 6], layers);
            assert!(expect.iter().all(|e| sentence.contains(e)), "{sentence}");
        };
        check(vec![conv2d(8, 3), conv2d(8, 5)], &["conv2 (conv2d 8, 5x5)", "8 x 4 x 4", "5 x 5"]);
        check(vec![linear(4)], &["fc1 (linear 4)", "3 x 6 x 6", "a `flatten` layer before it"]);
        check(vec![flatten(), conv2d(8, 3)], &["conv1", "108 features", "before the `flatten` layer"]);
        check(vec![residual([conv2d(8, 3)])], &["residual1", "3 x 6 x 6 into 8 x 4 x 4"]);
        check(vec![residual([])], &["residual1 has no layers"]);
        check(vec![dropout(1.0)], &["dropout1", "less than 1"]);
        check(vec![dropout(f32::NAN)], &["dropout1", "NaN"]);
        check(vec![max_pool(2).stride(0)], &["stride must be at least 1"]);
        check(vec![max_pool(2).padding(2)], &["half of its window"]);
        check(vec![relu().stride(2)], &["`relu` has no stride"]);
        check(vec![conv2d(8, 3).momentum(0.1)], &["has no momentum"]);
        check(vec![conv2d(8, 1).named("a"), conv2d(8, 1).named("a")], &["Two layers are called `a`"]);
        check(vec![conv2d(8, 1).named("a b")], &["`a b` is not a name"]);
        check(vec![conv2d(8, 1).named("optimizer")], &["`optimizer` is reserved"]);
        check(vec![], &["no layers"]);
        check(vec![conv2d(0, 1)], &["at least one filter"]);
        check(vec![batch_norm().epsilon(-1.0)], &["epsilon is -1"]);
        check(vec![relu().window([2, 2])], &["`relu` has no window"]);
        check(vec![conv2d(usize::MAX, 1)], &["conv1 turns", "2^31"]);
        check(vec![flatten(), linear(1 << 30)], &["fc1 turns", "2^31"]);
        assert!(refused([0, 6, 6], vec![flatten()]).contains("0 x 6 x 6"));
    }
}

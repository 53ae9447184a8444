//! Turns a list of layers into operations on values: infers shapes, names parameters, joins residual branches.

use super::backend::By;
use super::layer::{Activation, Conv2d, Kind, Layer, Pool};
use super::shape::{Shape, windows};
use super::{NetworkError, ParamSpec, Role};
use crate::ops::custom_layer::OwnLayer;
use crate::weights::STATE;
use std::collections::HashSet;

/// Index of a value: 0 is the input, and each operation writes the next one.
pub type ValueId = usize;

/// Index of a parameter in [`super::Network::params`].
pub type ParamId = usize;

/// An operation of a network.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Name, such as `conv1` or `relu2`.
    pub name: String,
    /// Text of the layer as its author wrote it.
    pub written: String,
    /// Kind of the operation, with its settings.
    pub op: Op,
    /// Value that the operation reads.
    pub input: ValueId,
    /// Value that the operation writes.
    pub output: ValueId,
    /// Parameters, in the order that [`Op`] documents.
    pub params: Vec<ParamId>,
    /// Backend on a GPU, if the author chose one.
    pub by: By,
    /// The custom layer, if `op` is [`Op::Own`].
    pub own: Option<OwnLayer>,
}

/// The computation of an operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Op {
    /// A convolution; parameters: weight, and bias if it has one.
    Conv2d(Conv2d),
    /// y = x W^T + b; parameters: weight, and bias if it has one.
    Linear {
        /// Number of features of y.
        features: usize,
        /// True if b is added.
        bias: bool,
    },
    /// An element-wise function such as a ReLU.
    Activation(Activation),
    /// Maximum or average pooling.
    Pool(Pool),
    /// Batch normalisation; parameters: weight, bias, running mean, running variance.
    BatchNorm {
        /// Weight of a batch in the running statistics.
        momentum: f32,
        /// Constant added to the variance.
        epsilon: f32,
        /// True if the weight is trained; otherwise it stays 1.
        scale: bool,
    },
    /// Dropout of elements with this probability; `layer` selects its stream of random numbers.
    Dropout {
        /// Probability that an element is dropped.
        p: f32,
        /// Index among the network's dropouts, from 0.
        layer: u32,
    },
    /// Reshapes an image to a vector, channel by channel.
    Flatten,
    /// Adds another value: the end of a residual branch.
    Add(ValueId),
    /// A custom layer, held in [`Node::own`]; it defines its own parameters.
    Own,
}

/// Result of [`infer`].
#[derive(Debug)]
pub(super) struct Inferred {
    pub nodes: Vec<Node>,
    pub values: Vec<Shape>,
    pub params: Vec<ParamSpec>,
}

/// Infers the shapes of all values, layer by layer.
pub(super) fn infer(input: Shape, layers: &[Layer]) -> Result<Inferred, NetworkError> {
    if !(1..=MOST_ELEMENTS).contains(&input.elements()) {
        return Err(NetworkError(format!(
            "The input is {input}: each size is at least 1, and their product at most 2^31."
        )));
    }
    let found = Inferred { nodes: Vec::new(), values: vec![input], params: Vec::new() };
    let mut builder = GraphBuilder { found, counts: Vec::new(), names: HashSet::new(), dropouts: 0 };
    builder.list(layers, 0)?;
    Ok(builder.found)
}

/// Largest number of elements of a parameter, and of a sample's activations.
const MOST_ELEMENTS: usize = 1 << 31;

struct GraphBuilder {
    found: Inferred,
    /// Number of layers of each kind so far, by the stem of their names, such as `conv`.
    counts: Vec<(String, usize)>,
    names: HashSet<String>,
    dropouts: u32,
}

impl GraphBuilder {
    fn list(&mut self, layers: &[Layer], mut at: ValueId) -> Result<ValueId, NetworkError> {
        for layer in layers {
            if let Some(flaw) = &layer.misuse {
                return Err(NetworkError(flaw.clone()));
            }
            let name = self.name(layer)?;
            at = match &layer.kind {
                Kind::Residual(branch) => self.residual(&name, branch, at)?,
                kind => self.node(&name, layer, kind, at)?,
            };
        }
        Ok(at)
    }

    fn residual(&mut self, name: &str, branch: &[Layer], at: ValueId) -> Result<ValueId, NetworkError> {
        let end = self.list(branch, at)?;
        let (before, after) = (self.found.values[at], self.found.values[end]);
        if before != after {
            return Err(NetworkError(format!(
                "{name}: its branch turns {before} into {after}, so the two cannot be added. Change stride, padding or filters so that \
                 the shape stays the same."
            )));
        }
        if end == at {
            return Err(NetworkError(format!("{name} has no layers: give it at least one.")));
        }
        Ok(self.push(name, "residual".into(), Op::Add(at), end, after, Vec::new()))
    }

    fn node(&mut self, name: &str, layer: &Layer, kind: &Kind, at: ValueId) -> Result<ValueId, NetworkError> {
        let input = self.found.values[at];
        let (op, output) = self
            .operation(kind, input)
            .map_err(|why| NetworkError(format!("{name} ({layer}) gets {input} {}: {why}", coordinates(input))))?;
        self.check_size(name, &op, input, output)?;
        let own = if let Kind::Own(own) = kind { Some(own) } else { None };
        let params = self.params(name, (&op, own), input, output);
        let end = self.push(name, layer.to_string(), op, at, output, params);
        if let Some(node) = self.found.nodes.last_mut() {
            (node.by, node.own) = (layer.by, own.cloned());
        }
        Ok(end)
    }

    /// Refuses a weight or an output with more elements than any device holds, whose sizes would overflow when multiplied.
    fn check_size(&self, name: &str, op: &Op, input: Shape, output: Shape) -> Result<(), NetworkError> {
        let product = |sizes: &[usize]| sizes.iter().fold(1usize, |all, s| all.saturating_mul(*s));
        let weight = match op {
            Op::Conv2d(c) => product(&[c.filters, input.channels(), c.kernel[0], c.kernel[1]]),
            Op::Linear { features, .. } => product(&[*features, input.elements()]),
            _ => 0,
        };
        if weight.max(output.elements()) > MOST_ELEMENTS {
            return Err(NetworkError(format!(
                "{name} turns {input} into {output}: its weight or its output would have more than 2^31 elements. Make it smaller."
            )));
        }
        Ok(())
    }

    /// Returns a layer's operation for an input, and the shape of its output.
    fn operation(&mut self, kind: &Kind, input: Shape) -> Result<(Op, Shape), String> {
        let not_image = |what: &str| format!("{what} needs an image. Put it before the `flatten` layer.");
        Ok(match (kind, input) {
            (Kind::Conv2d(c), Shape::Image { height, width, .. }) => {
                if c.filters == 0 {
                    return Err("it needs at least one filter.".into());
                }
                let [h, w] = window_counts([height, width], c.kernel, c.stride, c.padding)?;
                (Op::Conv2d(*c), Shape::image(c.filters, h, w))
            }
            (Kind::Pool(p), Shape::Image { channels, height, width }) => {
                // A wider border would make windows without a pixel.
                if (0..2).any(|i| p.padding[i] > p.size[i] / 2) {
                    return Err("its padding must be at most half of its window.".into());
                }
                let [h, w] = window_counts([height, width], p.size, p.stride, p.padding)?;
                (Op::Pool(*p), Shape::image(channels, h, w))
            }
            (Kind::Conv2d(_), Shape::Vector(_)) => return Err(not_image("a convolution")),
            (Kind::Pool(_), Shape::Vector(_)) => return Err(not_image("a pool")),
            (Kind::Linear { .. }, Shape::Image { .. }) => {
                return Err("a linear layer needs a vector. Put a `flatten` layer before it.".into());
            }
            (Kind::Linear { features: 0, .. }, _) => return Err("it needs at least one feature.".into()),
            (Kind::Linear { features, bias }, Shape::Vector(_)) => {
                (Op::Linear { features: *features, bias: *bias }, Shape::Vector(*features))
            }
            (Kind::Activation(a), _) => (Op::Activation(*a), input),
            (Kind::BatchNorm { momentum, epsilon, scale }, _) => {
                if !(0.0..=1.0).contains(momentum) {
                    return Err(format!("its momentum is {momentum}; it must be from 0 to 1."));
                }
                if !(*epsilon >= 0.0 && epsilon.is_finite()) {
                    return Err(format!("its epsilon is {epsilon}; it must be at least 0."));
                }
                (Op::BatchNorm { momentum: *momentum, epsilon: *epsilon, scale: *scale }, input)
            }
            (Kind::Dropout { p }, _) => {
                if !(0.0..1.0).contains(p) {
                    return Err(format!("its probability is {p}; it must be at least 0 and less than 1."));
                }
                self.dropouts += 1;
                (Op::Dropout { p: *p, layer: self.dropouts - 1 }, input)
            }
            (Kind::Flatten, _) => (Op::Flatten, Shape::Vector(input.elements())),
            (Kind::Own(own), _) => match own.flaw() {
                Some(why) => return Err(why),
                None => (Op::Own, own.output_of(input)),
            },
            (Kind::Residual(_), _) => unreachable!("lists are walked by `list`"),
        })
    }

    fn params(&mut self, name: &str, (op, own): (&Op, Option<&OwnLayer>), input: Shape, output: Shape) -> Vec<ParamId> {
        let channels = output.channels();
        let specs: Vec<(&str, Vec<usize>, Role, usize)> = match op {
            Op::Conv2d(c) => {
                let [h, w] = c.kernel;
                let fan_in = input.channels() * h * w;
                let weight = ("weight", vec![c.filters, input.channels(), h, w], Role::Weight, fan_in);
                [Some(weight), c.bias.then(|| ("bias", vec![c.filters], Role::Bias, fan_in))]
                    .into_iter()
                    .flatten()
                    .collect()
            }
            Op::Linear { features, bias } => {
                let fan_in = input.elements();
                let weight = ("weight", vec![*features, fan_in], Role::Weight, fan_in);
                [Some(weight), bias.then(|| ("bias", vec![*features], Role::Bias, fan_in))]
                    .into_iter()
                    .flatten()
                    .collect()
            }
            Op::BatchNorm { .. } => vec![
                ("weight", vec![channels], Role::Scale, 1),
                ("bias", vec![channels], Role::Shift, 1),
                ("running_mean", vec![channels], Role::RunningMean, 1),
                ("running_var", vec![channels], Role::RunningVariance, 1),
            ],
            _ => {
                let of_own = own.map_or(&[][..], OwnLayer::parameters).iter();
                of_own.map(|p| (&*p.name, p.shape.clone(), Role::Own, 1)).collect()
            }
        };
        let first = self.found.params.len();
        let frozen = |role: Role| match op {
            Op::Conv2d(c) => c.frozen && role == Role::Weight,
            Op::BatchNorm { scale, .. } => !scale && role == Role::Scale,
            _ => false,
        };
        let made = specs.into_iter().map(|(suffix, shape, role, fan_in)| ParamSpec {
            name: format!("{name}.{suffix}"),
            shape,
            role,
            fan_in,
            frozen: frozen(role),
        });
        self.found.params.extend(made);
        (first..self.found.params.len()).collect()
    }

    fn push(
        &mut self,
        name: &str,
        written: String,
        op: Op,
        input: ValueId,
        shape: Shape,
        params: Vec<ParamId>,
    ) -> ValueId {
        let output = self.found.values.len();
        self.found.values.push(shape);
        let (name, by, own) = (name.to_owned(), By::default(), None);
        self.found.nodes.push(Node { name, written, op, input, output, params, by, own });
        output
    }

    /// Returns the layer's given name, or the next unused name for layers of its kind.
    fn name(&mut self, layer: &Layer) -> Result<String, NetworkError> {
        let stem = layer.kind.stem();
        let place = self.counts.iter().position(|(s, _)| *s == stem).unwrap_or_else(|| {
            self.counts.push((stem.to_owned(), 0));
            self.counts.len() - 1
        });
        self.counts[place].1 += 1;
        let name = layer.name.clone().unwrap_or_else(|| format!("{stem}{}", self.counts[place].1));
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)) {
            return Err(NetworkError(format!(
                "`{name}` is not a name for a layer: use letters, digits, `_`, `-` and `.`."
            )));
        }
        if format!("{name}.").starts_with(STATE) {
            return Err(NetworkError(format!(
                "`{name}` is reserved: checkpoints store the optimiser's state under this name. Use another name."
            )));
        }
        if !self.names.insert(name.clone()) {
            return Err(NetworkError(format!("Two layers are called `{name}`: give one of them another name.")));
        }
        Ok(name)
    }
}

fn coordinates(shape: Shape) -> &'static str {
    match shape {
        Shape::Image { .. } => "(channels x height x width)",
        Shape::Vector(_) => "features",
    }
}

fn window_counts(
    extent: [usize; 2],
    size: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
) -> Result<[usize; 2], String> {
    let [rows, columns] = [0, 1].map(|i| windows(extent[i], size[i], stride[i], padding[i]));
    match (rows, columns) {
        (Some(rows), Some(columns)) => Ok([rows, columns]),
        _ if stride.contains(&0) => Err("its stride must be at least 1.".into()),
        _ if size.contains(&0) => Err("its window must be at least 1 x 1.".into()),
        _ => Err(format!(
            "its window of {} x {} does not fit into the image with a padding of {} x {}. Make the window smaller or the padding larger.",
            size[0], size[1], padding[0], padding[1]
        )),
    }
}

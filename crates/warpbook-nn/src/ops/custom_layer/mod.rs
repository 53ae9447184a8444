//! Custom layers: forward and backward pass in CUDA C++, like `torch.autograd.Function` in Python.
//!
//! ```
//! use warpbook_nn::network::*;
//! use warpbook_nn::ops::custom_layer::OwnLayer;
//!
//! let swish = OwnLayer::new("swish", r"
//! __global__ void forward(const T* x, const float* beta, T* y, unsigned n) {
//!     unsigned i = blockIdx.x * THREADS + threadIdx.x;
//!     if (i >= n) return;
//!     float v = x[i];
//!     y[i] = v / (1 + expf(-*beta * v));
//! }
//!
//! __global__ void backward(const T* x, const T* y, const T* dy, const float* beta, T* dx, float* dbeta, unsigned n) {
//!     unsigned i = blockIdx.x * THREADS + threadIdx.x;
//!     float share = 0;
//!     if (i < n) {
//!         float v = x[i], g = dy[i], s = 1 / (1 + expf(-*beta * v));
//!         dx[i] = g * s * (1 + *beta * v * (1 - s));
//!         share = g * v * v * s * (1 - s);
//!     }
//!     share = block_sum(share);
//!     if (threadIdx.x == 0) dbeta[blockIdx.x] = share;
//! }
//! ").parameter("beta", [1], 1.0);
//! let network = Network::new([1, 8, 8], [conv2d(4, 3), own(&swish), flatten(), linear(10)])?;
//! assert_eq!(network.params()[2].name, "swish1.beta");
//! # Ok::<(), NetworkError>(())
//! ```
//!
//! # The kernels
//!
//! ```text
//! forward (const T* x,                            parameters.., T* y,                              unsigned n)
//! backward(const T* x, const T* y, const T* dy,   parameters.., T* dx, gradients of parameters..,  unsigned n)
//! ```
//!
//! Parameters are `const float*`, their gradients `float*`, each in the order of declaration. `T` is the type of the training's
//! activations, f32, fp16 or bf16: read an element into a `float`, and store a `float`. Kernels must write every element of y, dx and the
//! gradients, and no other memory; the old contents are arbitrary.
//!
//! | name | meaning |
//! |---|---|
//! | `THREADS` | threads of a block, 256 or the number set by [`OwnLayer::threads`] |
//! | `CHANNELS`, `HEIGHT`, `WIDTH`, `SAMPLE` | sizes of a sample of x, and its number of elements; a vector has one pixel |
//! | `OUT_CHANNELS`, .., `OUT_SAMPLE` | sizes of a sample of y, and its number of elements |
//! | `index(n, c, row, column)`, `out_index(..)` | the index of an element of x, of y; correct for images in NCHW and in NHWC |
//! | `place(i)`, `out_place(i)` | sample `.n`, channel `.c`, row `.y` and column `.x` of element i |
//! | `block_sum(v)`, `block_max(v)` | sum or maximum over the threads of the block, which all have to call the function; the same bits on every run |
//!
//! # How many blocks
//!
//! | | blocks | n | a parameter's gradient |
//! |---|---|---|---|
//! | default | a thread for each element of y, or of dx | elements of y, or of dx | `[blocks][elements]` |
//! | [`OwnLayer::one_block_a_sample`] | block b computes sample b | samples | `[samples][elements]` |
//! | [`OwnLayer::one_block_a_channel`] | block b computes channel b of x in all samples | samples | `[elements]` |
//!
//! In the first two cases, block b writes row b, its share of the gradient, and the rows are then added in a fixed order: the same bits on every
//! run, which `atomicAdd` on floats does not give. In the third case, each block writes the elements that belong to its channel.

pub mod cpu;
pub mod cuda;
mod kernel;
mod launch;
mod sizes;

pub use kernel::compile;
pub(crate) use kernel::specs;
pub use sizes::OwnSizes;

use crate::network::Shape;
use cpu::{CpuBackward, CpuBody, CpuForward};
use std::sync::Arc;
use warpbook_device::Error;

/// Largest number of parameters of a layer.
const MOST_PARAMETERS: usize = 16;
/// Largest number of elements of a parameter.
const MOST_ELEMENTS: usize = 1 << 24;
/// Names that parameters must not have, because the kernels already use them.
const TAKEN: [&str; 6] = ["x", "y", "dy", "dx", "n", "T"];

/// The division of a layer's kernels into blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Blocks {
    /// One thread per element.
    #[default]
    PerElement,
    /// One block per sample.
    PerSample,
    /// One block per channel of the input.
    PerChannel,
}

/// A parameter of a layer.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnParameter {
    /// Name, such as `beta`; in a network's weights it is `swish1.beta`.
    pub name: String,
    /// Sizes, the outermost first.
    pub shape: Vec<usize>,
    /// Initial value of each element.
    pub initial: f32,
}

impl OwnParameter {
    /// Returns the number of elements, at most `usize::MAX`.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shape.iter().fold(1, |all, s| all.saturating_mul(*s))
    }

    /// Returns true if the parameter has no elements, which no network accepts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A layer whose kernels are given as source text: [the module](self) documents their arguments.
///
/// Clones are cheap. The network and the check refuse invalid settings.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnLayer(Arc<Definition>);

#[derive(Debug, Clone, PartialEq)]
struct Definition {
    name: String,
    source: String,
    parameters: Vec<OwnParameter>,
    output: Option<Shape>,
    threads: u32,
    blocks: Blocks,
    inputs: Option<[f32; 2]>,
    cpu: Option<CpuBody>,
}

impl OwnLayer {
    /// Creates a layer without parameters whose output has the shape of its input. `source` is CUDA C++ that defines the kernels `forward`
    /// and `backward`; layers of a network are named `NAME1`, `NAME2`, and messages name the source `live/NAME.cu`.
    #[must_use]
    pub fn new(name: impl Into<String>, source: impl Into<String>) -> Self {
        Self(Arc::new(Definition {
            name: name.into(),
            source: source.into(),
            parameters: Vec::new(),
            output: None,
            threads: 256,
            blocks: Blocks::default(),
            inputs: None,
            cpu: None,
        }))
    }

    fn with(mut self, change: impl FnOnce(&mut Definition)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// Adds a parameter: f32, all elements initially `initial`, trained by the network's optimiser.
    #[must_use]
    pub fn parameter(self, name: impl Into<String>, shape: impl Into<Vec<usize>>, initial: f32) -> Self {
        self.with(|d| d.parameters.push(OwnParameter { name: name.into(), shape: shape.into(), initial }))
    }

    /// Sets the shape of the output: `[channels, height, width]`, or a number of features.
    #[must_use]
    pub fn output(self, shape: impl Into<Shape>) -> Self {
        self.with(|d| d.output = Some(shape.into()))
    }

    /// Sets the number of threads per block, a multiple of 32 up to 1024; the default is 256.
    #[must_use]
    pub fn threads(self, threads: u32) -> Self {
        self.with(|d| d.threads = threads)
    }

    /// Launches one block per sample.
    #[must_use]
    pub fn one_block_a_sample(self) -> Self {
        self.with(|d| d.blocks = Blocks::PerSample)
    }

    /// Launches one block per channel of the input.
    #[must_use]
    pub fn one_block_a_channel(self) -> Self {
        self.with(|d| d.blocks = Blocks::PerChannel)
    }

    /// Sets the range of the uniform random inputs with which the layer is checked, for example positive numbers for a logarithm; the default is
    /// standard Gaussian inputs.
    #[must_use]
    pub fn checked_between(self, low: f32, high: f32) -> Self {
        self.with(|d| d.inputs = Some([low, high]))
    }

    /// Adds CPU bodies in f32, so that a network with this layer can be trained, frozen and evaluated on the CPU. Images are NHWC;
    /// [`OwnSizes::index`] gives an element's index. The check compares the GPU kernels with the CPU bodies.
    #[must_use]
    pub fn on_cpu(
        self,
        forward: impl Fn(CpuForward<'_>) + Send + Sync + 'static,
        backward: impl Fn(CpuBackward<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.with(|d| d.cpu = Some(CpuBody::new(forward, backward)))
    }

    /// Returns the base of the layer's names in networks and messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the CUDA source of the kernels, as passed to [`OwnLayer::new`].
    #[must_use]
    pub fn source(&self) -> &str {
        &self.0.source
    }

    /// Returns the parameters, in the order of declaration.
    #[must_use]
    pub fn parameters(&self) -> &[OwnParameter] {
        &self.0.parameters
    }

    /// Returns the division of the kernels into blocks.
    #[must_use]
    pub fn blocks(&self) -> Blocks {
        self.0.blocks
    }

    /// Returns true if the layer has CPU bodies.
    #[must_use]
    pub fn has_cpu_body(&self) -> bool {
        self.0.cpu.is_some()
    }

    /// Returns the shape of the output for an input of this shape.
    #[must_use]
    pub fn output_of(&self, input: Shape) -> Shape {
        self.0.output.unwrap_or(input)
    }

    /// Returns the declarations of the parameters and their gradients in the kernels: `const float* beta`, `float* dbeta`.
    fn arguments(&self) -> [String; 2] {
        ["const float* ", "float* d"].map(|before| {
            let argument = |p: &OwnParameter| format!("{before}{}, ", p.name);
            self.0.parameters.iter().map(argument).collect()
        })
    }

    /// Returns the signatures of the kernels.
    #[must_use]
    pub fn signatures(&self) -> [String; 2] {
        let [read, written] = self.arguments();
        [
            format!("__global__ void forward(const T* x, {read}T* y, unsigned n)"),
            format!("__global__ void backward(const T* x, const T* y, const T* dy, {read}T* dx, {written}unsigned n)"),
        ]
    }

    /// Returns the range of the uniform inputs with which the layer is checked; `None` for standard Gaussian.
    #[must_use]
    pub fn input_range(&self) -> Option<[f32; 2]> {
        self.0.inputs
    }

    /// Returns the error that says why the layer cannot be used.
    #[must_use]
    pub fn unsupported(&self, why: impl Into<String>) -> Error {
        let what = format!("The layer `{}`:", self.name());
        Error::Unsupported { what, why: why.into().trim_end_matches('.').into() }
    }

    /// Returns the reason why the layer is invalid, if it is.
    #[must_use]
    pub fn flaw(&self) -> Option<String> {
        let d = &*self.0;
        if !is_identifier(&d.name) {
            return Some(format!("`{}` is not a name for a layer: use up to 40 letters, digits and `_`.", d.name));
        }
        if d.source.trim().is_empty() {
            return Some("its source is empty; write the kernels `forward` and `backward`.".into());
        }
        if d.threads == 0 || !d.threads.is_multiple_of(32) || d.threads > 1024 {
            return Some(format!("{} threads per block: choose a multiple of 32 up to 1024.", d.threads));
        }
        if d.parameters.len() > MOST_PARAMETERS {
            return Some(format!("it has {} parameters; at most {MOST_PARAMETERS} are allowed.", d.parameters.len()));
        }
        if d.output.is_some_and(|o| o.elements() == 0) {
            return Some("its output has no elements; each size is at least 1.".into());
        }
        if d.inputs.is_some_and(|[low, high]| !(low < high && low.is_finite() && high.is_finite())) {
            return Some(
                "its `checked_between` range must be two finite numbers, the first less than the second.".into(),
            );
        }
        d.parameters.iter().enumerate().find_map(|(i, p)| flaw_of(p, &d.parameters[..i]))
    }
}

fn is_identifier(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.len() <= 40 && name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(fits)
}

fn flaw_of(p: &OwnParameter, before: &[OwnParameter]) -> Option<String> {
    let name = &p.name;
    if !is_identifier(name) {
        return Some(format!("`{name}` is not a name for a parameter: use up to 40 letters, digits and `_`."));
    }
    if TAKEN.contains(&&**name) || before.iter().any(|o| o.name == *name) {
        return Some(format!(
            "`{name}` is already the name of another argument of its kernels; choose another name for the parameter."
        ));
    }
    if p.is_empty() || p.len() > MOST_ELEMENTS {
        return Some(format!("its parameter `{name}` has the shape {:?}; it needs 1 to 2^24 elements.", p.shape));
    }
    (!p.initial.is_finite())
        .then(|| format!("its parameter `{name}` starts at {}, which is not a finite number.", p.initial))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_follow_the_parameters() {
        let plain = OwnLayer::new("a", "x");
        assert_eq!(plain.signatures()[0], "__global__ void forward(const T* x, T* y, unsigned n)");
        let two = plain.parameter("w", [2, 3], 0.0).parameter("b", [3], 0.0);
        assert_eq!(
            two.signatures()[1],
            "__global__ void backward(const T* x, const T* y, const T* dy, const float* w, const float* b, T* dx, float* dw, float* db, \
             unsigned n)"
        );
        assert_eq!(two.parameters()[0].len(), 6);
    }

    #[test]
    fn settings_that_make_no_sense_are_told() {
        let check = |layer: OwnLayer, expect: &str| {
            let flaw = layer.flaw().unwrap_or_default();
            assert!(flaw.contains(expect), "{flaw}");
        };
        let fine = || OwnLayer::new("fine", "x");
        assert_eq!(fine().parameter("w", [2], 1.0).output(3).flaw(), None);
        check(OwnLayer::new("two words", "x"), "`two words` is not a name");
        check(OwnLayer::new("", "x"), "not a name for a layer");
        check(OwnLayer::new("a", " \n"), "empty");
        check(fine().threads(100), "multiple of 32");
        check(fine().threads(2048), "up to 1024");
        check(fine().output([0, 1, 1]), "no elements");
        check(fine().checked_between(1.0, 0.0), "the first less than the second");
        check(fine().parameter("dy", [1], 0.0), "another argument");
        check(fine().parameter("a", [1], 0.0).parameter("a", [1], 0.0), "another argument");
        check(fine().parameter("1a", [1], 0.0), "not a name for a parameter");
        check(fine().parameter("a", [0], 0.0), "1 to 2^24");
        check(fine().parameter("a", [1], f32::NAN), "NaN");
        check((0..17).fold(fine(), |l, i| l.parameter(format!("p{i}"), [1], 0.0)), "17 parameters");
    }

    #[test]
    fn layers_are_equal_where_all_is() {
        let layer = || OwnLayer::new("a", "x").parameter("w", [1], 1.0);
        assert_eq!(layer(), layer());
        assert_ne!(layer(), layer().threads(128));
        // Functions cannot be compared, so two bodies are equal only if they come from the same definition.
        let with_cpu = layer().on_cpu(|_| {}, |_| {});
        assert_eq!(with_cpu, with_cpu.clone());
        assert_ne!(with_cpu, layer().on_cpu(|_| {}, |_| {}));
    }
}

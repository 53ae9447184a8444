//! Checks a learner's own layer: compares its gradients with slopes of its forward pass, and all of its forms with each other.

mod compare;
mod gpu;
mod inputs;
mod lab;
mod slopes;

use compare::compare;
use gpu::Gpu;
use inputs::{Inputs, reordered};
use slopes::Slopes;
use std::fmt;
use warpbook_device::{CudaDevice, Error, Result};
use warpbook_nn::network::Shape;
use warpbook_nn::ops::Layout;
use warpbook_nn::ops::custom_layer::cpu::{CpuBackward, CpuForward};
use warpbook_nn::ops::custom_layer::{OwnLayer, OwnSizes};
use warpbook_record::{Dtype, Emulated, KernelStats};

/// Number of samples in a check. It is odd so that the last block is seldom full.
const BATCH: usize = 3;

/// The result of comparing one array of a layer with its reference.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnRow {
    /// The compared array: `y`, `dx`, or a parameter's gradient such as `dbeta`.
    pub array: String,
    /// The form that ran, such as "fp16, NHWC".
    pub form: String,
    /// The reference: "slopes of y", or another form.
    pub against: String,
    /// Number of elements that were compared.
    pub compared: usize,
    /// Number of elements at which y has a kink or a jump, so that there is no slope to compare with.
    pub passed_over: usize,
    /// Largest difference, relative to the value and to the root mean square of all values.
    pub error: f64,
    /// Largest permitted difference at that element, which depends on the step and the data type.
    pub tolerance: f64,
    /// Position of the largest difference, such as `[0][3][7][1]`: sample, channel, row, column.
    pub at: String,
}

/// The result of a check. A notebook displays it as a table.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnReport {
    /// Name of the layer that was checked.
    pub layer: String,
    /// Shape of an input sample, without the batch dimension.
    pub input: Shape,
    /// Shape of an output sample, without the batch dimension.
    pub output: Shape,
    /// The device on which the layer was checked, such as "NVIDIA H200".
    pub place: String,
    /// Comparisons in order. Nothing is compared after a flaw.
    pub rows: Vec<OwnRow>,
    /// The first error found, as a sentence; `None` if no error was found.
    pub flaw: Option<String>,
    /// Additional remarks for the reader.
    pub notes: Vec<String>,
    /// Compiler statistics of `forward` and `backward`, in f32.
    pub stats: Vec<KernelStats>,
    /// The emulator's findings and counts of one forward and one backward pass in f32; `None` on a GPU.
    pub emulated: Option<Emulated>,
}

impl OwnReport {
    fn new(layer: &OwnLayer, input: Shape, place: impl Into<String>) -> Self {
        Self {
            layer: layer.name().into(),
            input,
            output: layer.output_of(input),
            place: place.into(),
            rows: Vec::new(),
            flaw: None,
            notes: Vec::new(),
            stats: Vec::new(),
            emulated: None,
        }
    }

    /// Creates the report of a layer that compiles but could not run, with the reason.
    #[must_use]
    pub fn compiled(layer: &OwnLayer, input: Shape, stats: [KernelStats; 2], why: impl Into<String>) -> Self {
        Self { stats: stats.into(), notes: vec![why.into()], ..Self::new(layer, input, "the compiler") }
    }

    /// Returns true if everything was compared and no error was found.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.flaw.is_none() && !self.rows.is_empty()
    }

    /// Returns the result of the check as a sentence.
    #[must_use]
    pub fn verdict(&self) -> String {
        match &self.flaw {
            Some(flaw) => flaw.clone(),
            None if self.rows.is_empty() => format!("{} compiles; it was not run.", self.layer),
            None => {
                let relative_error = |r: &OwnRow| r.error / r.tolerance;
                let worst = self.rows.iter().map(relative_error).fold(0.0, f64::max);
                format!(
                    "{} is right for {} on {}: the largest error is {:.0} % of the error that rounding and the step allow.",
                    self.layer,
                    self.input,
                    self.place,
                    100.0 * worst
                )
            }
        }
    }
}

/// Writes a report in plain text.
impl fmt::Display for OwnReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.verdict())?;
        for r in &self.rows {
            write!(
                f,
                "\n{:<8} {:<12} against {:<14} {:>6} compared, error {:.1e} of {:.1e} allowed, at {}",
                r.array, r.form, r.against, r.compared, r.error, r.tolerance, r.at
            )?;
        }
        self.notes.iter().try_for_each(|note| write!(f, "\n{note}"))
    }
}

/// The reason why a check stops early.
enum Stop {
    /// The layer has an error, described by the sentence.
    Flaw(String),
    /// The device reported an error.
    Device(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Device(error)
    }
}

/// The results of a backward pass, images in NCHW.
#[derive(Debug, Clone, PartialEq)]
struct Gradients {
    dx: Vec<f32>,
    of_parameters: Vec<Vec<f32>>,
}

/// An implementation of a layer that works on host arrays, with images in NCHW.
trait Body {
    /// Describes the form of the layer, such as "fp32, NCHW".
    fn form(&self) -> String;

    /// Computes y. If `is_watched`, it is a flaw if an element is not written, or if anything else is written.
    fn forward(&mut self, inputs: &Inputs, is_watched: bool) -> Result<Vec<f32>, Stop>;

    /// Computes the gradients from the results of the forward pass. It is always a flaw if an element is not written, or if anything else is written.
    fn backward(&mut self, inputs: &Inputs, y: &[f32]) -> Result<Gradients, Stop>;
}

/// The forms to compare with the first one, each with the data type of its arrays.
type Others<'a> = Vec<(Box<dyn Body + 'a>, Dtype)>;

/// The CPU implementation of a layer.
struct Cpu<'a>(&'a OwnLayer, OwnSizes);

impl Cpu<'_> {
    fn missing(&self) -> Stop {
        Stop::Device(self.0.unsupported("has no body for the CPU"))
    }
}

impl Body for Cpu<'_> {
    fn form(&self) -> String {
        "CPU".into()
    }

    fn forward(&mut self, inputs: &Inputs, _: bool) -> Result<Vec<f32>, Stop> {
        let (Self(layer, sizes), body) = (&*self, self.0.cpu_body().ok_or_else(|| self.missing())?);
        let mut y = vec![f32::NAN; sizes.outputs()];
        let x = reordered(&inputs.x, sizes.input, Layout::Nhwc);
        let parameters: Vec<&[f32]> = inputs.parameters.iter().map(Vec::as_slice).collect();
        body.forward(CpuForward { sizes: *sizes, x: &x, parameters: &parameters, y: &mut y });
        Ok(reordered(&y, layer.output_of(sizes.input), Layout::Nchw))
    }

    fn backward(&mut self, inputs: &Inputs, y: &[f32]) -> Result<Gradients, Stop> {
        let (Self(_, sizes), body) = (&*self, self.0.cpu_body().ok_or_else(|| self.missing())?);
        let mut dx = vec![f32::NAN; sizes.inputs()];
        let mut of_parameters: Vec<Vec<f32>> = inputs.parameters.iter().map(|p| vec![0.0; p.len()]).collect();
        let parameters: Vec<&[f32]> = inputs.parameters.iter().map(Vec::as_slice).collect();
        let nhwc = |values: &[f32], shape| reordered(values, shape, Layout::Nhwc);
        body.backward(CpuBackward {
            sizes: *sizes,
            x: &nhwc(&inputs.x, sizes.input),
            y: &nhwc(y, sizes.output),
            dy: &nhwc(&inputs.dy, sizes.output),
            parameters: &parameters,
            dx: &mut dx,
            gradients: &mut of_parameters,
        });
        Ok(Gradients { dx: reordered(&dx, sizes.input, Layout::Nchw), of_parameters })
    }
}

/// Checks a layer on a GPU with inputs of this shape. In f32, dx and the gradients of the parameters must match central differences of the forward pass, two
/// runs must give the same bits, and every element of the results must be written, and nothing else. Then NHWC, fp16, bf16 and the CPU implementation are
/// compared with these results.
///
/// # Errors
/// Returns the errors of [`compile`](warpbook_nn::ops::custom_layer::compile), and an error if the device or a kernel on it fails.
pub fn check(device: &CudaDevice, layer: &OwnLayer, input: impl Into<Shape>) -> Result<OwnReport> {
    let input = checked(layer, input.into())?;
    let mut report = OwnReport::new(layer, input, device.info().name.clone());
    let mut first = Gpu::new(device, layer, (input, BATCH), Layout::Nchw, Dtype::F32)?;
    report.stats = first.stats();
    if device.is_emulated() {
        // Races and other faults are looked for once: the slopes take thousands of launches.
        let inputs = Inputs::draw(layer, input, BATCH);
        match device.checked(|| once(&mut first, &inputs)) {
            Ok((_, emulated)) => report.emulated = Some(emulated),
            Err(Stop::Device(error)) => return Err(error),
            // The comparisons below find it again.
            Err(Stop::Flaw(_)) => {}
        }
    }
    let mut others: Others<'_> = Vec::new();
    for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
        others.push((Box::new(Gpu::new(device, layer, (input, BATCH), Layout::Nhwc, dtype)?), dtype));
    }
    if layer.has_cpu_body() {
        others.push((Box::new(Cpu(layer, OwnSizes::new(layer, input, BATCH, Layout::Nhwc))), Dtype::F32));
    }
    finish(report, layer, &mut first, others)
}

/// Checks the CPU implementation of a layer with inputs of this shape, as [`check`] does on a GPU.
///
/// # Errors
/// If the layer has no CPU implementation, or a setting is invalid.
pub fn check_on_cpu(layer: &OwnLayer, input: impl Into<Shape>) -> Result<OwnReport> {
    let input = checked(layer, input.into())?;
    let mut body = Cpu(layer, OwnSizes::new(layer, input, BATCH, Layout::Nhwc));
    finish(OwnReport::new(layer, input, "the CPU"), layer, &mut body, Vec::new())
}

fn checked(layer: &OwnLayer, input: Shape) -> Result<Shape> {
    let most = 1 << 22;
    let flaw = layer.flaw().or_else(|| {
        let fits = [input, layer.output_of(input)].iter().all(|s| (1..=most).contains(&s.elements()));
        (!fits).then(|| {
            format!("can be checked with 1 to {most} elements per sample, not with {input}; choose another shape")
        })
    });
    flaw.map_or(Ok(input), |why| Err(layer.unsupported(why)))
}

fn finish(mut report: OwnReport, layer: &OwnLayer, first: &mut dyn Body, others: Others<'_>) -> Result<OwnReport> {
    match run(&mut report, layer, first, others) {
        Ok(()) => Ok(report),
        Err(Stop::Flaw(why)) => {
            report.flaw = Some(why);
            Ok(report)
        }
        Err(Stop::Device(error)) => Err(error),
    }
}

fn run(report: &mut OwnReport, layer: &OwnLayer, first: &mut dyn Body, others: Others<'_>) -> Result<(), Stop> {
    let inputs = Inputs::draw(layer, report.input, BATCH);
    let (y, gradients) = twice(first, &inputs)?;
    finite("y", &y, &inputs, inputs.output)?;
    finite("dx", &gradients.dx, &inputs, inputs.input)?;
    Slopes::new(&inputs, &y).check(report, first, &gradients)?;
    for (mut body, dtype) in others {
        let rounded = inputs.rounded(dtype);
        let (want_y, want) = once(first, &rounded)?;
        let (y, got) = twice(&mut *body, &rounded)?;
        compare(report, (&*body, &*first), &rounded, dtype, [(&y, &got), (&want_y, &want)])?;
    }
    Ok(())
}

fn once(body: &mut dyn Body, inputs: &Inputs) -> Result<(Vec<f32>, Gradients), Stop> {
    let y = body.forward(inputs, true)?;
    let gradients = body.backward(inputs, &y)?;
    Ok((y, gradients))
}

/// Runs an implementation twice; it is a flaw if the bits of the results differ.
fn twice(body: &mut dyn Body, inputs: &Inputs) -> Result<(Vec<f32>, Gradients), Stop> {
    let (y, gradients) = once(body, inputs)?;
    let (again, gradients_again) = once(body, inputs)?;
    let same = |name: &str, a: &[f32], b: &[f32]| match a.iter().zip(b).position(|(a, b)| a.to_bits() != b.to_bits()) {
        Some(i) => Err(Stop::Flaw(format!(
            "{name} differs between runs ({}): {} and {} at element {i}. Blocks may be writing the same element, or adding to it \
             with atomics.",
            body.form(),
            a[i],
            b[i]
        ))),
        None => Ok(()),
    };
    same("y", &y, &again)?;
    same("dx", &gradients.dx, &gradients_again.dx)?;
    for (i, name) in inputs.names.iter().enumerate() {
        same(&format!("d{name}"), &gradients.of_parameters[i], &gradients_again.of_parameters[i])?;
    }
    Ok((y, gradients))
}

fn finite(name: &str, values: &[f32], inputs: &Inputs, shape: Shape) -> Result<(), Stop> {
    match values.iter().position(|v| !v.is_finite()) {
        Some(i) => Err(Stop::Flaw(format!(
            "{name}{} is {}. If the layer is defined only for some numbers, name them with `checked_between`; the inputs were {}.",
            inputs::element_position(i, shape),
            values[i],
            inputs.range
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;

//! Compares gradients with central differences of a random weighted sum of y.

use super::inputs::{Inputs, element_position};
use super::{Body, Gradients, OwnReport, OwnRow, Stop};
use warpbook_nn::network::Shape;

/// Step of a difference, for values of about 1. For a smooth function the truncation error grows with the square of the step, and the f32 rounding error with
/// its inverse. This step is close to the best compromise.
const STEP: f32 = 1.0 / 64.0;
/// Relative error of a correct slope: the remaining truncation error, plus the rounding errors of a backward pass.
const RELATIVE: f64 = 2e-3;
/// Relative error of each element of y in f32: two units in the last place, plus the error of functions such as `__expf`.
const ROUNDING: f64 = 4.0 / 8_388_608.0;
/// Maximum number of elements of an array whose slopes are measured. In longer arrays, this many evenly spaced elements are used.
const MOST: usize = 4096;

/// The array that contains the changed element.
#[derive(Debug, Clone, Copy)]
enum Variable {
    X,
    Parameter(usize),
}

/// A difference quotient.
struct Difference {
    /// Slope of the weighted sum of y.
    slope: f64,
    /// Estimated effect of rounding on the slope.
    noise: f64,
}

/// An element whose gradient was compared with its slope.
struct Compared {
    at: usize,
    got: f64,
    slope: f64,
    noise: f64,
}

/// Measures slopes by central differences.
pub(super) struct Slopes<'a> {
    inputs: &'a Inputs,
    y: &'a [f32],
}

impl<'a> Slopes<'a> {
    /// Prepares slopes; `y` is the forward pass's result for the inputs.
    pub fn new(inputs: &'a Inputs, y: &'a [f32]) -> Self {
        Self { inputs, y }
    }

    /// Adds a row for dx and one for each parameter.
    ///
    /// # Errors
    /// If a gradient differs from its slope, too few slopes can be measured, or a forward pass fails.
    pub fn check(&self, report: &mut OwnReport, body: &mut dyn Body, gradients: &Gradients) -> Result<(), Stop> {
        self.array(report, body, ("dx".into(), Variable::X), &gradients.dx)?;
        for (i, name) in self.inputs.names.iter().enumerate() {
            self.array(report, body, (format!("d{name}"), Variable::Parameter(i)), &gradients.of_parameters[i])?;
        }
        Ok(())
    }

    fn array(
        &self,
        report: &mut OwnReport,
        body: &mut dyn Body,
        (name, array): (String, Variable),
        got: &[f32],
    ) -> Result<(), Stop> {
        let mut changed = self.inputs.clone();
        let elements = evenly(got.len());
        let mut all = Vec::with_capacity(elements.len());
        for at in elements {
            let d = self.central(body, &mut changed, (array, at), 1.0)?;
            all.push(Compared { at, got: got[at].into(), slope: d.slope, noise: d.noise });
        }
        let norm = |f: fn(&Compared) -> f64| (all.iter().map(|c| f(c) * f(c)).sum::<f64>() / all.len() as f64).sqrt();
        // Use the smaller norm, so that a gradient that is wrong and large gets no more tolerance than a correct one.
        let scale = norm(|c| c.got).min(norm(|c| c.slope));
        let tolerance = |c: &Compared| RELATIVE * c.slope.abs().max(scale) + c.noise;
        let is_right = |c: &Compared| (c.got - c.slope).abs() <= tolerance(c);
        let (mut passed_over, mut compared, mut wrong) = (0, Vec::new(), 0);
        for mut c in all {
            if !is_right(&c) {
                let Some((slope, noise)) = self.refined(body, &mut changed, (array, c.at), tolerance(&c))? else {
                    passed_over += 1;
                    continue;
                };
                (c.slope, c.noise) = (slope, noise);
                wrong += usize::from(!is_right(&c));
            }
            compared.push(c);
        }
        let ratio = |c: &Compared| (c.got - c.slope).abs() / tolerance(c);
        let worst = compared.iter().max_by(|a, b| ratio(a).total_cmp(&ratio(b)));
        let at = |i| self.element_position(array, i);
        if let Some(w) = worst {
            let unit = w.slope.abs().max(scale).max(f64::MIN_POSITIVE);
            report.rows.push(OwnRow {
                array: name.clone(),
                form: body.form(),
                against: "slopes of y".into(),
                compared: compared.len(),
                passed_over,
                error: (w.got - w.slope).abs() / unit,
                tolerance: tolerance(w) / unit,
                at: at(w.at),
            });
        }
        let all = compared.len() + passed_over;
        if passed_over > all / 4 {
            return Err(Stop::Flaw(format!(
                "{name} cannot be checked: y has a kink or a jump next to {passed_over} of {all} elements, where no slope can be measured. \
                 Choose other inputs with `checked_between`."
            )));
        }
        match worst.filter(|_| wrong > 0) {
            Some(w) => Err(Stop::Flaw(format!(
                "{name}{} is {}, the slope there is {}; {wrong} of {} elements differ.{}",
                at(w.at),
                short(w.got),
                short(w.slope),
                compared.len(),
                self.pattern(&name, &compared)
            ))),
            None => Ok(()),
        }
    }

    fn element_position(&self, array: Variable, i: usize) -> String {
        match array {
            Variable::X => element_position(i, self.inputs.input),
            Variable::Parameter(p) => {
                element_position(i, Shape::Vector(self.inputs.parameters[p].len())).replacen("[0]", "", 1)
            }
        }
    }

    /// Returns the slope (sum of dy * y at +step - sum at -step) / (2 * step).
    fn central(
        &self,
        body: &mut dyn Body,
        changed: &mut Inputs,
        what: (Variable, usize),
        part: f32,
    ) -> Result<Difference, Stop> {
        let (above, high) = self.at(body, changed, what, part)?;
        let (below, low) = self.at(body, changed, what, -part)?;
        Ok(self.difference((&above, high), (&below, low)))
    }

    fn difference(&self, (above, high): (&[f32], f32), (below, low): (&[f32], f32)) -> Difference {
        let step = f64::from(high) - f64::from(low);
        let (mut sum, mut noise) = (0.0, 0.0);
        for (weight, (a, b)) in self.inputs.dy.iter().zip(above.iter().zip(below)).filter(|(_, (a, b))| a != b) {
            let [weight, a, b] = [*weight, *a, *b].map(f64::from);
            sum += weight * (a - b);
            noise += (weight * a.abs().max(b.abs()) * ROUNDING).powi(2);
        }
        // The errors of the elements are nearly independent; this allows three standard deviations.
        Difference { slope: sum / step, noise: 3.0 * noise.sqrt() / step.abs() }
    }

    /// Returns y with one element moved by this many steps, and the new value of that element.
    fn at(
        &self,
        body: &mut dyn Body,
        changed: &mut Inputs,
        (array, at): (Variable, usize),
        steps: f32,
    ) -> Result<(Vec<f32>, f32), Stop> {
        let before = self.value((array, at));
        let step = match array {
            Variable::X => STEP * self.inputs.scale,
            Variable::Parameter(_) => STEP * before.abs().max(1.0 / 16.0),
        };
        let moved = before + steps * step;
        let set = |changed: &mut Inputs, v: f32| match array {
            Variable::X => changed.x[at] = v,
            Variable::Parameter(p) => changed.parameters[p][at] = v,
        };
        set(changed, moved);
        let y = body.forward(changed, false)?;
        set(changed, before);
        Ok((y, moved))
    }

    /// Returns the value of the element before it is moved.
    fn value(&self, (array, at): (Variable, usize)) -> f32 {
        match array {
            Variable::X => self.inputs.x[at],
            Variable::Parameter(p) => self.inputs.parameters[p][at],
        }
    }

    /// Returns the slope from two step sizes, which cancels the truncation error; `None` at a kink or a jump, which a smaller step does not smooth.
    fn refined(
        &self,
        body: &mut dyn Body,
        changed: &mut Inputs,
        what: (Variable, usize),
        tolerance: f64,
    ) -> Result<Option<(f64, f64)>, Stop> {
        let mut slopes = [0.0; 2];
        let mut gaps = [0.0; 2];
        let mut noise = 0.0;
        for (i, part) in [1.0, 0.5].into_iter().enumerate() {
            let (above, high) = self.at(body, changed, what, part)?;
            let (below, low) = self.at(body, changed, what, -part)?;
            let middle = self.value(what);
            let both = self.difference((&above, high), (&below, low));
            let right = self.difference((&above, high), (self.y, middle)).slope;
            let left = self.difference((self.y, middle), (&below, low)).slope;
            (slopes[i], gaps[i], noise) = (both.slope, (right - left).abs(), both.noise);
        }
        // For a smooth function, the slopes over a step and over half of it are nearly equal, and halving the step also halves the difference between the
        // slopes of the two sides. The first test finds a kink outside half the step, the second one near the middle.
        let is_uneven = (slopes[0] - slopes[1]).abs() > 0.5 * tolerance;
        let is_kink = gaps[1] > tolerance && gaps[1] > 0.65 * gaps[0];
        let slope = (4.0 * slopes[1] - slopes[0]) / 3.0;
        Ok((!is_uneven && !is_kink).then_some((slope, 2.0 * noise)))
    }

    /// Describes a pattern that the differences have in common.
    fn pattern(&self, name: &str, compared: &[Compared]) -> String {
        let sum = |f: &dyn Fn(&Compared) -> f64| compared.iter().map(f).sum::<f64>();
        let near = |residual: f64, norm: f64| residual <= 1e-4 * norm;
        if compared.iter().all(|c| c.got == 0.0) {
            return format!(" {name} is 0 everywhere.");
        }
        let slopes = sum(&|c| c.slope * c.slope);
        let factor = sum(&|c| c.got * c.slope) / slopes;
        if compared.len() > 1 && near(sum(&|c| (c.got - factor * c.slope).powi(2)), factor * factor * slopes) {
            return match factor {
                f if (f + 1.0).abs() < 0.01 => format!(" {name} has the wrong sign everywhere."),
                f => format!(" {name} is {} times the slope everywhere.", short(f)),
            };
        }
        let dy = |c: &Compared| f64::from(self.inputs.dy[c.at]);
        let is_elementwise = name == "dx" && self.inputs.dy.len() == self.inputs.x.len();
        if is_elementwise && near(sum(&|c| (c.got * dy(c) - c.slope).powi(2)), slopes) {
            return format!(" {name} is the derivative of y by x: multiply it by dy.");
        }
        String::new()
    }
}

/// Returns the indices of all elements of an array, or of [`MOST`] evenly spaced ones.
fn evenly(len: usize) -> Vec<usize> {
    if len <= MOST { (0..len).collect() } else { (0..MOST).map(|i| i * len / MOST).collect() }
}

/// Formats a number with four significant digits.
pub(super) fn short(v: f64) -> String {
    let magnitude = v.abs();
    if magnitude == 0.0 || (1e-3..1e5).contains(&magnitude) {
        let digits = 3 - (magnitude.max(1e-3).log10().floor() as i32);
        format!("{v:.*}", digits.clamp(0, 6) as usize)
    } else {
        format!("{v:.3e}")
    }
}

//! Comparison of two forms of a layer.

use super::inputs::{Inputs, element_position};
use super::slopes::short;
use super::{Body, Gradients, OwnReport, OwnRow, Stop};
use warpbook_nn::network::Shape;
use warpbook_record::Dtype;

/// Returns the largest permitted difference between two forms of a layer, relative to the value and to the root mean square of all values. It allows for a
/// few units in the last place in the data type of y and dx. In half precision the backward pass also reads the rounded y.
fn tolerance(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F16 => 16.0 / 2048.0,
        Dtype::Bf16 => 16.0 / 256.0,
        _ => 1e-4,
    }
}

/// Adds a row for y, for dx and for each parameter.
pub(super) fn compare(
    report: &mut OwnReport,
    (body, reference): (&dyn Body, &dyn Body),
    inputs: &Inputs,
    dtype: Dtype,
    [(y, got), (want_y, want)]: [(&[f32], &Gradients); 2],
) -> Result<(), Stop> {
    let mut arrays =
        vec![("y".to_owned(), inputs.output, y, want_y), ("dx".to_owned(), inputs.input, &got.dx[..], &want.dx[..])];
    let of_parameters = inputs.names.iter().zip(got.of_parameters.iter().zip(&want.of_parameters));
    arrays.extend(
        of_parameters.map(|(name, (got, want))| {
            (format!("d{name}"), Shape::Vector(want.len()), got.as_slice(), want.as_slice())
        }),
    );
    let tolerance = tolerance(dtype);
    for (array, shape, got, want) in arrays {
        let scale = (want.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / want.len().max(1) as f64).sqrt();
        let error = |i: usize| {
            let [got, want] = [got[i], want[i]].map(f64::from);
            let apart = (got - want).abs();
            // A NaN error ranks as the largest under `total_cmp`.
            if apart == 0.0 { 0.0 } else { apart / want.abs().max(scale).max(f64::MIN_POSITIVE) }
        };
        let larger = |a: &usize, b: &usize| error(*a).total_cmp(&error(*b));
        let Some(worst) = (0..got.len().min(want.len())).max_by(larger) else { continue };
        let at = match array.as_str() {
            "y" | "dx" => element_position(worst, shape),
            _ => format!("[{worst}]"),
        };
        let error = error(worst);
        report.rows.push(OwnRow {
            array: array.clone(),
            form: body.form(),
            against: reference.form(),
            compared: got.len(),
            passed_over: 0,
            error,
            tolerance,
            at: at.clone(),
        });
        let is_right = error <= tolerance;
        if !is_right {
            return Err(Stop::Flaw(format!(
                "{array}{at} is {} in {} and {} in {}: both should be the same, but for rounding. Use `index` or `place` to find an element \
                 in either layout, and compute in float.",
                short(got[worst].into()),
                body.form(),
                short(want[worst].into()),
                reference.form()
            )));
        }
    }
    Ok(())
}

use warpbook_nn::ops::muon::{COEFFICIENTS, EPSILON, Muon};

/// Makes one step of Muon for a filter `[out][columns]`, in f64, as [`warpbook_nn::ops::muon`] defines it. `numbers` are the rate and the
/// momentum's factor.
pub fn muon_step(
    muon: &Muon,
    (rate, momentum, nesterov): (f64, f64, bool),
    out: usize,
    w: &mut [f64],
    gradients: &[f64],
    state: &mut [f64],
) {
    let columns = w.len() / out;
    state.iter_mut().zip(gradients).for_each(|(m, g)| *m = momentum * *m + g);
    let direction = |(m, g): (&f64, &f64)| if nesterov { g + momentum * m } else { *m };
    let d: Vec<f64> = state.iter().zip(gradients).map(direction).collect();
    let norm = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>().sqrt();
    let scale = 1.0 / (norm(&d) + EPSILON);
    let is_tall = out > columns;
    let (rows, across) = if is_tall { (columns, out) } else { (out, columns) };
    let place = |r: usize, c: usize| if is_tall { c * columns + r } else { r * columns + c };
    let mut x: Vec<Vec<f64>> = (0..rows).map(|r| (0..across).map(|c| d[place(r, c)] * scale).collect()).collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let [a, b, c] = COEFFICIENTS;
    for _ in 0..muon.steps {
        let gram: Vec<Vec<f64>> = x.iter().map(|r| x.iter().map(|s| dot(r, s)).collect()).collect();
        // A is symmetric, so its rows equal its columns.
        let polynomial: Vec<Vec<f64>> =
            (0..rows).map(|r| (0..rows).map(|s| b * gram[r][s] + c * dot(&gram[r], &gram[s])).collect()).collect();
        let applied = |r: usize, k: usize| (0..rows).map(|s| polynomial[r][s] * x[s][k]).sum::<f64>();
        x = (0..rows).map(|r| (0..across).map(|k| a * x[r][k] + applied(r, k)).collect()).collect();
    }
    let of_weights = norm(w);
    let factor = if muon.normalise && of_weights > 0.0 { (out as f64).sqrt() / of_weights } else { 1.0 };
    for (r, row) in x.iter().enumerate() {
        for (c, x) in row.iter().enumerate() {
            let at = place(r, c);
            w[at] = w[at] * factor - rate * x;
        }
    }
}

//! Exercises of lesson 20, the matrix product.

mod causes;
mod product;
mod tiles;

pub(crate) use product::PRODUCT;
pub(crate) use tiles::TILES;

use warpbook_lab::exercise::{Case, Draw, Tolerance};

/// The lesson.
const LESSON: &str = "20_matmul_ladder";
/// The signature of both exercises.
const SIGNATURE: &str =
    "extern \"C\" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k)";

/// Draws two matrices, whose products have whole parts, and computes their product; the launch is up to the exercise.
fn case([m, n, k]: [u32; 3], draw: &mut Draw) -> Case {
    let a: Vec<f32> = draw.floats((m * k) as usize).iter().map(|v| 4.0 * v).collect();
    let b = draw.floats((k * n) as usize);
    let element = |row: usize, col: usize| -> f32 {
        let term = |i: usize| f64::from(a[row * k as usize + i]) * f64::from(b[i * n as usize + col]);
        (0..k as usize).map(term).sum::<f64>() as f32
    };
    let expected: Vec<f32> = (0..(m * n) as usize).map(|i| element(i / n as usize, i % n as usize)).collect();
    // Terms are below 4, so that their magnitudes add up to 4 k at most.
    let tolerance = Tolerance::Within { relative: 2e-6, scale: 4.0 * f64::from(k) };
    Case::new(format!("{m} x {n} x {k}"))
        .input("a", a)
        .input("b", b)
        .output("c", expected, tolerance)
        .int("m", m)
        .int("n", n)
        .int("k", k)
}

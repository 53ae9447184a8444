//! Exercises of lesson 20, the matrix product.

mod causes;
mod product;
mod tiles;

pub(crate) use product::PRODUCT;
pub(crate) use tiles::TILES;

use warpbook_lab::exercise::{Case, Draw, Tolerance};

/// Id of the lesson that these exercises belong to.
const LESSON: &str = "20_matmul_ladder";
/// The signature of the kernel in both exercises.
const SIGNATURE: &str =
    "extern \"C\" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k)";

/// Draws two matrices and computes their product. A is scaled by 4, so that products are not all below 1. The exercise
/// sets the launch.
fn case([m, n, k]: [u32; 3], draw: &mut Draw) -> Case {
    let a: Vec<f32> = draw.floats((m * k) as usize).iter().map(|v| 4.0 * v).collect();
    let b = draw.floats((k * n) as usize);
    let element = |row: usize, col: usize| -> f32 {
        let term = |i: usize| f64::from(a[row * k as usize + i]) * f64::from(b[i * n as usize + col]);
        (0..k as usize).map(term).sum::<f64>() as f32
    };
    let expected: Vec<f32> = (0..(m * n) as usize).map(|i| element(i / n as usize, i % n as usize)).collect();
    // Each term is below 4, so the sum of the magnitudes is at most 4 k.
    let tolerance = Tolerance::Within { relative: 2e-6, scale: 4.0 * f64::from(k) };
    Case::new(format!("{m} x {n} x {k}"))
        .input("a", a)
        .input("b", b)
        .output("c", expected, tolerance)
        .int("m", m)
        .int("n", n)
        .int("k", k)
}

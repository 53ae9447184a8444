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
    let mut expected = Vec::with_capacity((m * n) as usize);
    for row_of_a in a.chunks(k as usize) {
        // Row by row of B, which is faster than column by column for the large product that is timed.
        let mut sums = vec![0f64; n as usize];
        for (left, row_of_b) in row_of_a.iter().zip(b.chunks(n as usize)) {
            for (sum, right) in sums.iter_mut().zip(row_of_b) {
                *sum += f64::from(*left) * f64::from(*right);
            }
        }
        expected.extend(sums.iter().map(|sum| *sum as f32));
    }
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

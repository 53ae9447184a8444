//! Exercises of lesson 02 about threads that cooperate, and about row softmax.

mod scan;
mod softmax;
mod stencil;
mod sum;
mod transpose;
mod warp_sum;

pub(crate) use scan::SCAN;
pub(crate) use softmax::SOFTMAX;
pub(crate) use stencil::STENCIL;
pub(crate) use sum::SUM;
pub(crate) use transpose::TRANSPOSE;
pub(crate) use warp_sum::WARP_SUM;

use warpbook_lab::exercise::{Costs, Draw};

/// Id of the lesson that these exercises belong to.
const LESSON: &str = "02_shared_memory";

/// Draws numbers with magnitudes from 0.5 to 1, so that a number missing from a sum is not mistaken for a rounding
/// error.
fn large_floats(draw: &mut Draw, n: usize) -> Vec<f32> {
    draw.floats(n).into_iter().map(|v| 0.5 * v + 0.5f32.copysign(v)).collect()
}

/// Returns the number of 4-byte words that threads load from global memory per element.
fn reads_per_element(costs: &Costs) -> f64 {
    costs.total.global_loads.bytes as f64 / 4.0 / costs.elements as f64
}

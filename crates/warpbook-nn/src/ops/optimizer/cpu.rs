//! Steps of the optimisers on the CPU.

use super::{AdamStep, Coefficients, OP, Optimizer, SgdStep};
use crate::ops::error::{Check, Result};
use rayon::prelude::*;
use warpbook_data::parallel::CHUNK;

/// Makes one step of one parameter. `state` has [`Optimizer::state_slots`] arrays of the parameter's length. Steps count from 1.
///
/// # Errors
/// If a setting is out of range, a slice does not have the length of the weights, or `state` has the wrong number of arrays.
pub fn step<S: AsMut<[f32]>>(
    optimizer: &Optimizer,
    learning_rate: f64,
    step: u64,
    weights: &mut [f32],
    gradients: &[f32],
    state: &mut [S],
) -> Result<()> {
    let coefficients = optimizer.coefficients(learning_rate, step)?;
    Check(OP).value(
        "the number of state arrays",
        state.len(),
        state.len() == optimizer.state_slots(),
        "as many as the optimizer's state_slots()",
    )?;
    Check(OP).lengths(&[("gradients", gradients.len(), &[weights.len()])])?;
    let mut state: Vec<&mut [f32]> = state.iter_mut().map(AsMut::as_mut).collect();
    state.iter().try_for_each(|s| Check(OP).lengths(&[("a state array", s.len(), &[weights.len()])]))?;
    let tasks = weights.par_chunks_mut(CHUNK).zip(gradients.par_chunks(CHUNK));
    match (coefficients, state.as_mut_slice()) {
        (Coefficients::Sgd(s), [momentum]) => {
            tasks.zip(momentum.par_chunks_mut(CHUNK)).for_each(|((w, g), m)| s.with_momentum(w, g, m));
        }
        (Coefficients::Adam(s), [first, second]) => {
            let state = first.par_chunks_mut(CHUNK).zip(second.par_chunks_mut(CHUNK));
            tasks.zip(state).for_each(|((w, g), (m, v))| s.apply(w, g, m, v));
        }
        (Coefficients::Sgd(s), _) => tasks.for_each(|(w, g)| s.plain(w, g)),
        // The check above has ensured that there are two state arrays.
        (Coefficients::Adam(_), _) => {}
    }
    Ok(())
}

impl SgdStep {
    fn plain(self, weights: &mut [f32], gradients: &[f32]) {
        weights.iter_mut().zip(gradients).for_each(|(w, g)| *w -= self.rate * (g + self.decay * *w));
    }

    fn with_momentum(self, weights: &mut [f32], gradients: &[f32], momentum: &mut [f32]) {
        for ((w, g), m) in weights.iter_mut().zip(gradients).zip(momentum) {
            let g = g + self.decay * *w;
            *m = if self.first { g } else { self.momentum * *m + g };
            *w -= self.rate * if self.nesterov { g + self.momentum * *m } else { *m };
        }
    }
}

impl AdamStep {
    fn apply(self, weights: &mut [f32], gradients: &[f32], first: &mut [f32], second: &mut [f32]) {
        for (((w, g), m), v) in weights.iter_mut().zip(gradients).zip(first).zip(second) {
            *w *= self.shrink;
            let g = g + self.decay * *w;
            *m += self.first * (g - *m);
            *v = self.keep_second * *v + self.second * (g * g);
            *w -= self.size * (*m / (v.sqrt() / self.root + self.epsilon));
        }
    }
}

use warpbook_nn::ops::optimizer::Optimizer;

/// The state of an optimiser for one parameter; empty before the first step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ParameterState {
    /// Number of steps so far.
    pub steps: i32,
    /// Momentum, or mean of gradients.
    pub first: Vec<f64>,
    /// Mean of squared gradients.
    pub second: Vec<f64>,
}

/// Makes one step by the algorithms in the documentation of `torch.optim`.
pub fn optimizer_step(optimizer: &Optimizer, rate: f64, w: &mut [f64], gradients: &[f64], state: &mut ParameterState) {
    state.steps += 1;
    state.first.resize(w.len(), 0.0);
    state.second.resize(w.len(), 0.0);
    for i in 0..w.len() {
        let mut g = gradients[i];
        let (m, v) = (&mut state.first[i], &mut state.second[i]);
        match *optimizer {
            Optimizer::Sgd { momentum, nesterov, weight_decay } => {
                g += weight_decay * w[i];
                if momentum != 0.0 {
                    *m = if state.steps > 1 { momentum * *m + g } else { g };
                    g = if nesterov { g + momentum * *m } else { *m };
                }
                w[i] -= rate * g;
            }
            Optimizer::Adam { betas, epsilon, weight_decay } | Optimizer::AdamW { betas, epsilon, weight_decay } => {
                if matches!(optimizer, Optimizer::Adam { .. }) {
                    g += weight_decay * w[i];
                } else {
                    w[i] -= rate * weight_decay * w[i];
                }
                *m = betas[0] * *m + (1.0 - betas[0]) * g;
                *v = betas[1] * *v + (1.0 - betas[1]) * g * g;
                let unbiased = |value: f64, beta: f64| value / (1.0 - beta.powi(state.steps));
                w[i] -= rate * unbiased(*m, betas[0]) / (unbiased(*v, betas[1]).sqrt() + epsilon);
            }
        }
    }
}

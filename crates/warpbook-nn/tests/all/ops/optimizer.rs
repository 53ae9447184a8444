use super::common::{close, random, refused, same_bits, wide};
use crate::in_f64::{ParameterState, optimizer_step};
use warpbook_nn::ops::optimizer::{Optimizer, clip, cpu};

fn all() -> Vec<Optimizer> {
    let sgd = |momentum, nesterov, weight_decay| Optimizer::Sgd { momentum, nesterov, weight_decay };
    let mut all = vec![sgd(0.0, false, 0.0), sgd(0.0, false, 0.1), sgd(0.9, false, 0.0), sgd(0.9, true, 0.01)];
    all.extend([Optimizer::sgd(), Optimizer::adam(), Optimizer::adam_w()]);
    for (betas, epsilon, weight_decay) in [([0.9, 0.999], 1e-8, 0.1), ([0.0, 0.5], 1e-3, 0.0)] {
        all.push(Optimizer::Adam { betas, epsilon, weight_decay });
        all.push(Optimizer::AdamW { betas, epsilon, weight_decay });
    }
    all
}

#[test]
fn ten_steps_are_the_reference_s() {
    for optimizer in all() {
        let mut weights = random(20_001, 1);
        let (mut want, mut memory) = (wide(&weights), ParameterState::default());
        let mut state = vec![vec![0.0; weights.len()]; optimizer.state_slots()];
        for step in 1..=10 {
            let gradients = random(weights.len(), 10 + step as u32);
            let rate = 0.1 / step as f64;
            cpu::step(&optimizer, rate, step, &mut weights, &gradients, &mut state).unwrap();
            optimizer_step(&optimizer, rate, &mut want, &wide(&gradients), &mut memory);
        }
        close(&format!("{optimizer:?}"), &weights, &want, 2e-6);
    }
}

#[test]
fn steps_by_hand() {
    let after = |optimizer: Optimizer, gradients: &[f32]| {
        let (mut w, mut state) = ([1.0f32], vec![[f32::NAN]; optimizer.state_slots()]);
        if matches!(optimizer, Optimizer::Adam { .. } | Optimizer::AdamW { .. }) {
            state.iter_mut().for_each(|s| *s = [0.0]);
        }
        for (step, g) in (1..).zip(gradients) {
            cpu::step(&optimizer, 0.1, step, &mut w, &[*g], &mut state).unwrap();
        }
        f64::from(w[0])
    };
    let check = |got: f64, want: f64| assert!((got - want).abs() < 1e-6, "{got} {want}");
    let sgd = |nesterov, weight_decay| Optimizer::Sgd { momentum: 0.5, nesterov, weight_decay };
    // m is 2, then 0.5 * 2 + 1 = 2; w is 1 - 0.2 - 0.2. The first step copies the gradient, whatever the state contained.
    check(after(sgd(false, 0.0), &[2.0, 1.0]), 0.6);
    // The directions are 2 + 0.5 * 2 = 3 and 1 + 0.5 * 2 = 2.
    check(after(sgd(true, 0.0), &[2.0, 1.0]), 0.5);
    check(after(sgd(false, 1.0), &[2.0]), 0.7);
    // The first step of Adam is the rate times the sign of the gradient.
    check(after(Optimizer::adam(), &[-3.0]), 1.1);
    // Adam's decay changes only the sign here; AdamW's decay subtracts 0.1 * 0.5 of the weight.
    let (betas, epsilon, weight_decay) = ([0.9, 0.999], 1e-8, 0.5);
    check(after(Optimizer::Adam { betas, epsilon, weight_decay }, &[-3.0]), 1.1);
    check(after(Optimizer::AdamW { betas, epsilon, weight_decay }, &[-3.0]), 0.95 + 0.1);
}

#[test]
fn clipping_by_the_global_norm() {
    let (a, b) = (random(40_000, 1), random(3, 2));
    let norm = clip::global_norm(&[&a, &b]);
    let want = wide(&a).iter().chain(&wide(&b)).map(|v| v * v).sum::<f64>().sqrt();
    assert!((norm - want).abs() <= 1e-12 * want, "{norm} {want}");
    assert_eq!(clip::global_norm(&[&[3.0], &[], &[4.0]]), 5.0);
    // clip_grad_norm_([3, 4], 1) multiplies by 1 / (5 + 1e-6).
    let mut gradient = [3.0, 4.0];
    clip::scale(&mut gradient, clip::factor(5.0, 1.0).unwrap());
    close("clipped", &gradient, &[3.0 / 5.000_001, 4.0 / 5.000_001], 1e-7);
    assert_eq!(clip::factor(0.5, 1.0), Ok(1.0));
    assert!(clip::factor(f64::NAN, 1.0).unwrap().is_nan());
    assert_eq!(clip::factor(f64::INFINITY, 1.0), Ok(0.0));
    refused(clip::factor(1.0, 0.0), "the largest norm is 0");
}

#[test]
fn threads_change_no_bit() {
    let gradients = random(100_000, 2);
    same_bits("optimizer", || {
        let (mut weights, mut state) = (random(100_000, 1), vec![vec![0.0; 100_000]; 2]);
        cpu::step(&Optimizer::adam(), 0.1, 1, &mut weights, &gradients, &mut state).unwrap();
        let norm = clip::global_norm(&[&gradients, &weights]).to_bits();
        let norm = vec![f32::from_bits((norm >> 32) as u32), f32::from_bits(norm as u32)];
        vec![weights, state.concat(), norm]
    });
}

#[test]
fn what_is_out_of_range_is_said() {
    let run = |optimizer: Optimizer, rate: f64, step: u64, slots: usize| {
        cpu::step(&optimizer, rate, step, &mut [0.0; 2], &[0.0; 2], &mut vec![[0.0; 2]; slots])
    };
    let sgd = |momentum, nesterov, weight_decay| Optimizer::Sgd { momentum, nesterov, weight_decay };
    refused(run(sgd(-0.1, false, 0.0), 0.1, 1, 1), "the momentum is -0.1");
    refused(run(sgd(0.0, true, 0.0), 0.1, 1, 0), "above 0 with Nesterov's momentum");
    refused(run(sgd(0.0, false, f64::NAN), 0.1, 1, 0), "the weight decay is NaN");
    refused(run(sgd(0.9, false, 0.0), 0.1, 1, 0), "the number of state arrays is 0");
    refused(run(sgd(0.0, false, 0.0), -1.0, 1, 0), "the learning rate is -1");
    refused(run(Optimizer::adam(), 0.1, 0, 2), "the step is 0");
    let one = Optimizer::AdamW { betas: [0.9, 1.0], epsilon: 1e-8, weight_decay: 0.0 };
    refused(run(one, 0.1, 1, 2), "a beta is 1");
    let plain = sgd(0.0, false, 0.0);
    let none: &mut [[f32; 0]] = &mut [];
    refused(cpu::step(&plain, 0.1, 1, &mut [0.0; 2], &[0.0], none), "gradients has the shape [2]");
    let mut short = [[0.0; 1]];
    refused(cpu::step(&sgd(0.9, false, 0.0), 0.1, 1, &mut [0.0; 2], &[0.0; 2], &mut short), "a state array has");
}

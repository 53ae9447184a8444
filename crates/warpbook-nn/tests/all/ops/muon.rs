use super::common::{close, random, refused, same_bits, wide};
use crate::in_f64::muon_step;
use warpbook_nn::ops::muon::{Muon, cpu};

/// Filters with fewer rows than columns, with more rows, and square filters; only the sizes of the last filter are multiples of a tile.
const SHAPES: [[usize; 2]; 5] = [[24, 100], [70, 36], [33, 33], [1, 9], [64, 128]];

#[test]
fn steps_are_the_reference_s() {
    let settings = [(3, true, true), (5, false, true), (1, true, false)];
    for ([out, columns], (steps, normalise, nesterov)) in SHAPES.iter().flat_map(|s| settings.map(|x| (*s, x))) {
        let muon = Muon { steps, normalise };
        let mut w = random(out * columns, 1);
        let (mut want, mut memory) = (wide(&w), vec![0.0; w.len()]);
        let mut momentum = vec![0.0; w.len()];
        for step in 0..4 {
            let g = random(w.len(), 10 + step);
            let numbers = (0.24 / f64::from(step + 1), 0.6, nesterov);
            cpu::step(&muon, numbers, out, &mut w, &g, &mut momentum).unwrap();
            muon_step(&muon, numbers, out, &mut want, &wide(&g), &mut memory);
        }
        close("the momentum", &momentum, &memory, 1e-6);
        close(&format!("{out} x {columns}, {muon:?}"), &w, &want, 2e-5);
    }
}

#[test]
fn the_direction_is_nearly_orthogonal() {
    let (out, columns) = (20, 300);
    let mut w = vec![0.0; out * columns];
    let muon = Muon { steps: 5, normalise: true };
    cpu::step(&muon, (1.0, 0.0, false), out, &mut w, &random(out * columns, 3), &mut vec![0.0; out * columns]).unwrap();
    for (i, a) in w.chunks(columns).enumerate() {
        for (j, b) in w.chunks(columns).enumerate() {
            let dot: f32 = a.iter().zip(b).map(|(a, b)| a * b).sum();
            // Five steps bring every singular value to between 0.7 and 1.2; these are the squares.
            let fits = if i == j { (0.45..1.5).contains(&dot) } else { dot.abs() < 0.5 };
            assert!(fits, "{i} {j}: {dot}");
        }
    }
}

#[test]
fn threads_change_no_bit() {
    let (w, g) = (random(40 * 90, 1), random(40 * 90, 2));
    same_bits("muon", || {
        let (mut w, mut momentum) = (w.clone(), vec![0.0; w.len()]);
        cpu::step(&Muon::default(), (0.1, 0.6, true), 40, &mut w, &g, &mut momentum).unwrap();
        vec![w, momentum]
    });
}

#[test]
fn what_is_out_of_range_is_said() {
    let run = |steps, out, rate| {
        cpu::step(&Muon { steps, normalise: true }, (rate, 0.6, true), out, &mut [0.0; 6], &[0.0; 6], &mut [0.0; 6])
    };
    refused(run(0, 2, 0.1), "the number of steps is 0");
    refused(run(3, 4, 0.1), "weights has the shape [4][1]");
    refused(run(3, 2, -1.0), "the rate is -1");
    assert!(run(3, 2, 0.1).is_ok(), "zeros have a norm of 0");
}

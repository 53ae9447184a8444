//! The f64 reference on the device, with which large convolutions are compared.

use super::bench::{Bench, TYPES, random};
use super::shapes::{layers, odd_shapes};
use super::want::wide;
use crate::in_f64 as reference;
use warpbook_device::testing;
use warpbook_nn::ops::conv2d::cuda::{Pass, Reference};
use warpbook_record::Dtype;

/// Values of operands as tensor cores read them: tf32 loses the lower 13 bits.
fn read(values: &[f32], dtype: Dtype) -> Vec<f64> {
    let cut = |v: &f32| if dtype == Dtype::Tf32 { f32::from_bits(v.to_bits() & !0x1fff) } else { *v };
    wide(&values.iter().map(cut).collect::<Vec<_>>())
}

#[test]
fn a_reference_on_the_device_finds_what_is_wrong() {
    let Some(device) = testing::gpu("a_reference_on_the_device_finds_what_is_wrong") else { return };
    let bench = Bench::new(&device);
    for dtype in TYPES {
        for g in odd_shapes().into_iter().chain(layers()) {
            let (x, weight) = (random(g.input_len(), 1, dtype), random(g.weight_len(), 2, dtype));
            let dy = random(g.output_len().unwrap(), 3, dtype);
            let [x64, w64, dy64] = [&x, &weight, &dy].map(|values| read(values, dtype));
            let passes = [
                (Pass::Forward, [&x, &weight], reference::conv2d(&g, &x64, &w64, None)),
                (Pass::InputGradient, [&dy, &weight], reference::conv2d_input_gradient(&g, &dy64, &w64)),
                (Pass::WeightGradient, [&x, &dy], reference::conv2d_weight_gradient(&g, &x64, &dy64)),
            ];
            for (pass, inputs, want) in passes {
                let [a, b] = inputs.map(|values| bench.input(values, dtype));
                let judge =
                    Reference::new(&device, &g, dtype, pass, [&a, &b]).unwrap().judge(Dtype::F32, false).unwrap();
                let mut got: Vec<f32> = want.iter().map(|v| *v as f32).collect();
                let verdict = judge.judge(&bench.stream, &bench.buffer(&got)).unwrap();
                assert!(verdict.passed(), "{pass:?} of {g:?} in {dtype:?}: {verdict:?}");
                // One result lacks a term, and another was never written.
                let last = got.len() - 1;
                got[last] += 1.0 + got[last].abs();
                let verdict = judge.judge(&bench.stream, &bench.buffer(&got)).unwrap();
                assert_eq!(verdict.wrong, 1, "{pass:?} of {g:?} in {dtype:?}: {verdict:?}");
                got[0] = f32::NAN;
                let verdict = judge.judge(&bench.stream, &bench.buffer(&got)).unwrap();
                assert_eq!((verdict.wrong, verdict.first_wrong), (2.min(got.len() as u64), Some((0, 0))));
            }
        }
    }
    let g = layers()[0];
    let short = bench.input(&random(g.input_len() - 1, 1, Dtype::F16), Dtype::F16);
    let weight = bench.input(&random(g.weight_len(), 2, Dtype::F16), Dtype::F16);
    assert!(Reference::new(&device, &g, Dtype::F16, Pass::Forward, [&short, &weight]).is_err());
}

//! The linear layer by this project's product, by beginners' rungs and by the library.

use super::bench::{Bench, Guarded, Poisoned, TYPES, random, stored};
use super::want::{Want, wide};
use crate::in_f64 as reference;
use warpbook_device::{Library, testing};
use warpbook_gemm::{OwnProduct, ProductBy};
use warpbook_kernels::matmul::rows;
use warpbook_nn::ops::linear::Sizes;
use warpbook_nn::ops::linear::cuda::{Linear, LinearEpilogue};
use warpbook_record::Dtype;

#[test]
fn linear_is_the_reference() {
    let Some(device) = testing::gpu("linear_is_the_reference") else { return };
    let b = Bench::new(&device);
    for dtype in TYPES {
        check_linears(&b, ProductBy::Own, dtype);
    }
}

#[test]
fn linear_by_the_library_is_the_reference() {
    let Some(device) = testing::gpu("linear_by_the_library_is_the_reference") else { return };
    if let Err(why) = warpbook_device::CublasLt::open(&device) {
        assert!(why.is_missing(Library::Cublas), "{why}");
        return testing::skip("linear_by_the_library_is_the_reference", "needs cuBLAS", why);
    }
    let b = Bench::new(&device);
    for dtype in TYPES {
        check_linears(&b, ProductBy::Stock, dtype);
    }
}

#[test]
fn linear_by_the_naive_and_the_tiled_rung_is_the_reference() {
    let Some(device) = testing::gpu("linear_by_the_naive_and_the_tiled_rung_is_the_reference") else { return };
    let b = Bench::new(&device);
    for by in ProductBy::ALL.into_iter().filter(|by| by.names_a_rung()) {
        for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
            check_linears(&b, by, dtype);
        }
        let sizes = Sizes { batch: 8, inputs: 8, outputs: 8 };
        let error = Linear::by(by, &device, &b.gemm, &sizes, Dtype::Tf32, true).unwrap_err().to_string();
        assert_eq!(error, format!("The {by} product takes fp32, fp16, bf16, not tf32."));
    }
}

#[test]
fn linear_by_a_kernel_of_one_s_own_is_the_reference() {
    let Some(device) = testing::gpu("linear_by_a_kernel_of_one_s_own_is_the_reference") else { return };
    let b = Bench::new(&device);
    let row = rows().into_iter().find(|row| row.rung.id == "02_coalesced").unwrap();
    let own = OwnProduct::new("own", row);
    for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
        check_linears(&b, own.into(), dtype);
    }
}

fn check_linears(b: &Bench<'_>, by: ProductBy, dtype: Dtype) {
    for (batch, inputs, outputs) in [(1, 1, 1), (5, 33, 10), (300, 72, 24), (64, 512, 128)] {
        check_linear(b, Sizes { batch, inputs, outputs }, by, dtype);
    }
}

fn check_linear(b: &Bench<'_>, sizes: Sizes, by: ProductBy, dtype: Dtype) {
    let Sizes { batch, inputs, outputs } = sizes;
    let what = |pass: &str| format!("{pass} of {sizes:?} in {dtype:?} by {by}");
    let (x, weight) = (random(batch * inputs, 1, dtype), random(outputs * inputs, 2, dtype));
    let (dy, bias) = (random(batch * outputs, 3, dtype), random(outputs, 4, Dtype::F32));
    let (x64, w64, dy64) = (wide(&x), wide(&weight), wide(&dy));
    let y = Want::new(|[x, w]| reference::linear(&sizes, x, w, None), [&x64, &w64]);
    let dx = Want::new(|[dy, w]| reference::linear_input_gradient(&sizes, dy, w), [&dy64, &w64]);
    let dweight = Want::new(|[x, dy]| reference::linear_weight_gradient(&sizes, x, dy), [&x64, &dy64]);
    let dbias = Want::new(|[dy, _]| reference::linear_bias_gradient(dy, outputs), [&dy64, &[]]);
    let input = |values: &[f32]| b.input(values, dtype);
    let (x_at, weight_at, dy_at, bias_at) = (input(&x), input(&weight), input(&dy), b.buffer(&bias));
    for with_bias in [false, true] {
        let linear = Linear::by(by, b.device, &b.gemm, &sizes, dtype, with_bias)
            .unwrap_or_else(|e| panic!("{}: {e}", what("new")));
        // After a library, the bias is added to an output that has already been rounded.
        let twice = if by == ProductBy::Stock && with_bias { 0.5 * stored(dtype).epsilon() } else { 0.0 };
        let poisoned = Poisoned::new(b.device, linear.workspace_bytes());
        let workspace = poisoned.workspace();
        let y_at = Guarded::new(b.device, dy.len(), dtype);
        let epilogues = [LinearEpilogue::None, LinearEpilogue::Relu];
        for epilogue in &epilogues[..if with_bias { 2 } else { 1 }] {
            let got = y_at.written(&what("y"), b, &poisoned, || {
                let bias = with_bias.then_some(&*bias_at);
                linear.forward(&b.stream, &x_at, &weight_at, bias, *epilogue, &y_at.array(), &workspace).unwrap();
            });
            let want = if with_bias { y.plus(&bias) } else { y.map(|_, v| v) };
            let want = if *epilogue == LinearEpilogue::Relu { want.relu() } else { want };
            want.check_within(&what("y"), &got, inputs + 1, (dtype, stored(dtype)), twice);
        }
        let dx_at = Guarded::new(b.device, x.len(), dtype);
        for (mask, want) in [(None, &dx), (Some(&x_at), &dx.masked(&x))] {
            let got = dx_at.written(&what("dx"), b, &poisoned, || {
                linear.input_gradient(&b.stream, &dy_at, &weight_at, mask, &dx_at.array(), &workspace).unwrap();
            });
            want.check(&what("dx"), &got, outputs, (dtype, stored(dtype)));
        }
        let dweight_at = Guarded::new(b.device, weight.len(), dtype);
        let dbias_at = Guarded::new(b.device, outputs, Dtype::F32);
        let sums = with_bias.then(|| dbias_at.f32());
        let queue = || {
            linear.weight_gradient(&b.stream, &x_at, &dy_at, &dweight_at.array(), sums.as_ref(), &workspace).unwrap();
        };
        let got = dweight_at.written(&what("dw"), b, &poisoned, queue);
        dweight.check(&what("dw"), &got, batch, (dtype, stored(dtype)));
        if with_bias {
            let got = dbias_at.written(&what("db"), b, &poisoned, queue);
            dbias.check(&what("db"), &got, batch, (Dtype::F32, Dtype::F32));
        }
    }
}

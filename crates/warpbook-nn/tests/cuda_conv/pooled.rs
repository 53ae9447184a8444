//! Convolutions with a pool in their epilogue, against the same convolution and a pool after it.

use crate::bench::{Bench, Guarded, Poisoned, random};
use crate::shapes::{layers, square};
use warpbook_device::{Buffer, Slice, testing};
use warpbook_nn::gemm::DeviceArray;
use warpbook_nn::ops::Layout;
use warpbook_nn::ops::conv2d::Geometry;
use warpbook_nn::ops::conv2d::cuda::{Convolution, Epilogue, Form, Method};
use warpbook_nn::ops::pool::{self, cuda::Pooling};
use warpbook_record::Dtype;

/// Even and odd sides, several tiles of an image and images of a tile, wide images, channels and filters of every kernel.
fn shapes() -> Vec<Geometry> {
    let of = |kernel, stride, padding, width, g: Geometry| Geometry { kernel, stride, padding, width, ..g };
    let mut all = vec![
        square(1, 2, [1, 8], [1, 1, 0]),
        square(3, 9, [3, 24], [3, 1, 1]),
        square(2, 7, [8, 40], [3, 2, 1]),
        square(1, 15, [6, 16], [3, 1, 0]),
        square(2, 30, [1, 72], [5, 1, 2]),
        square(2, 9, [32, 32], [3, 1, 1]),
        square(3, 11, [64, 96], [3, 1, 1]),
        square(2, 20, [64, 64], [1, 1, 0]),
        square(2, 12, [64, 64], [5, 1, 2]),
        square(300, 8, [64, 32], [3, 1, 1]),
        square(2, 3, [32, 128], [2, 1, 0]),
        of([1, 4], [1, 1], [0, 3], 5, square(3, 8, [64, 32], [1, 1, 0])),
        of([3, 3], [1, 1], [1, 1], 150, square(2, 5, [32, 32], [1, 1, 0])),
        of([3, 3], [1, 2], [1, 1], 150, square(2, 5, [3, 32], [1, 1, 0])),
    ];
    all.extend(layers());
    all
}

struct Arrays {
    x: DeviceArray,
    weight: DeviceArray,
    bias: Buffer<f32>,
}

impl Arrays {
    /// With a few values that are no numbers, if asked for.
    fn new(b: &Bench<'_>, g: &Geometry, dtype: Dtype, with_nan: bool) -> Self {
        let mut x = random(g.input_len(), 1, dtype);
        if with_nan {
            x.iter_mut().step_by(97).for_each(|v| *v = f32::NAN);
        }
        let weight = b.input(&random(g.weight_len(), 2, dtype), dtype);
        Self { x: b.input(&x, dtype), weight, bias: b.buffer(&random(g.filters, 4, Dtype::F32)) }
    }
}

/// The maxima and their places by two kernels.
fn apart(
    b: &Bench<'_>,
    g: &Geometry,
    form: Form,
    a: &Arrays,
    bias: Option<&Slice<f32>>,
    epilogue: Epilogue,
) -> (Vec<f32>, Vec<u8>) {
    let convolution = Convolution::new(b.device, &b.gemm, g, form).unwrap();
    let (oh, ow) = g.output().unwrap();
    let pool = pool::Geometry {
        batch: g.batch,
        channels: g.filters,
        height: oh,
        width: ow,
        size: [2; 2],
        stride: [2; 2],
        padding: [0; 2],
    };
    let len = g.batch * (oh / 2) * (ow / 2) * g.filters;
    let y = Guarded::new(b.device, g.output_len().unwrap(), form.dtype);
    let (best, index) = (Guarded::new(b.device, len, form.dtype), b.device.zeros::<u8>(len).unwrap());
    let workspace = Poisoned::new(b.device, convolution.workspace_bytes()).workspace();
    convolution.forward(&b.stream, &a.x, &a.weight, bias, epilogue, &y.array(), &workspace).unwrap();
    let pooling = Pooling::new(b.device, form.dtype, Layout::Nhwc).unwrap();
    pooling.max_forward(&b.stream, &pool, &y.array(), &best.array(), &index.range(..)).unwrap();
    b.stream.synchronize().unwrap();
    (best.array().to_f32().unwrap(), index.to_vec().unwrap())
}

fn check(b: &Bench<'_>, g: &Geometry, form: Form, with_nan: bool) {
    let a = Arrays::new(b, g, form.dtype, with_nan);
    let convolution = Convolution::pooled(b.device, &b.gemm, g, form).unwrap();
    let poisoned = Poisoned::new(b.device, convolution.workspace_bytes());
    let workspace = poisoned.workspace();
    for (bias, epilogue) in [(None, Epilogue::None), (Some(&*a.bias), Epilogue::Relu), (Some(&*a.bias), Epilogue::None)]
    {
        let what = format!("{g:?}, {form:?}, bias {}, {epilogue:?}, NaN {with_nan}", bias.is_some());
        let (want, want_index) = apart(b, g, form, &a, bias, epilogue);
        let y = Guarded::new(b.device, want.len(), form.dtype);
        // Bytes have no guard of their own: 64 before and after.
        let index = b.device.zeros::<u8>(want.len() + 128).unwrap();
        index.fill_bytes(0xff).unwrap();
        let run = |index: Option<&Slice<u8>>| {
            y.written(&what, b, &poisoned, || {
                let to = (&y.array(), index);
                convolution.forward_pooled(&b.stream, &a.x, &a.weight, bias, epilogue, to, &workspace).unwrap();
            })
        };
        let got = run(Some(&index.range(64..64 + want.len())));
        let bytes = index.to_vec().unwrap();
        let (guards, got_index) = ([&bytes[..64], &bytes[64 + want.len()..]].concat(), &bytes[64..64 + want.len()]);
        assert!(guards.iter().all(|byte| *byte == 0xff), "{what}: wrote outside of the places");
        let same = |i: usize| got[i] == want[i] || got[i].is_nan() && want[i].is_nan();
        let wrong: Vec<usize> = (0..want.len()).filter(|i| !same(*i) || got_index[*i] != want_index[*i]).collect();
        let first: Vec<_> =
            wrong.iter().take(8).map(|i| (*i, got[*i], want[*i], got_index[*i], want_index[*i])).collect();
        let (count, len) = (wrong.len(), want.len());
        assert!(wrong.is_empty(), "{what}: {count} of {len} differ: (at, got, want, place, wanted place) {first:?}");
        let without = run(None);
        assert!(without.iter().zip(&got).all(|(a, b)| a.to_bits() == b.to_bits()), "{what}: without places");
    }
}

fn check_all(test: &str, dtype: Dtype, method: Method) {
    let Some(device) = testing::gpu(test) else { return };
    let bench = Bench::new(&device);
    for g in shapes() {
        for with_nan in [false, true] {
            check(&bench, &g, Form { method, dtype, layout: Layout::Nhwc }, with_nan);
        }
    }
}

#[test]
fn implicit_gemm_pools_in_f16() {
    check_all("implicit_gemm_pools_in_f16", Dtype::F16, Method::ImplicitGemm);
}

#[test]
fn implicit_gemm_pools_in_bf16() {
    check_all("implicit_gemm_pools_in_bf16", Dtype::Bf16, Method::ImplicitGemm);
}

#[test]
fn implicit_gemm_of_turing_pools() {
    check_all("implicit_gemm_of_turing_pools", Dtype::F16, Method::ImplicitGemmTuring);
}

#[test]
fn shifted_windows_pool_in_f16() {
    check_all("shifted_windows_pool_in_f16", Dtype::F16, Method::ShiftedWindows);
}

#[test]
fn shifted_windows_pool_in_bf16() {
    check_all("shifted_windows_pool_in_bf16", Dtype::Bf16, Method::ShiftedWindows);
}

#[test]
fn few_channels_pool_in_f16() {
    check_all("few_channels_pool_in_f16", Dtype::F16, Method::FewChannels);
}

#[test]
fn few_channels_pool_in_bf16() {
    check_all("few_channels_pool_in_bf16", Dtype::Bf16, Method::FewChannels);
}

#[test]
fn what_is_no_pool_of_a_kernel_is_refused() {
    let Some(device) = testing::gpu("what_is_no_pool_of_a_kernel_is_refused") else { return };
    let b = Bench::new(&device);
    let (g, nhwc) = (square(2, 8, [8, 16], [3, 1, 1]), Layout::Nhwc);
    let form = |method, dtype, layout| Form { method, dtype, layout };
    for (g, form) in [
        (g, form(Method::Direct, Dtype::F32, nhwc)),
        (g, form(Method::Im2col, Dtype::F16, nhwc)),
        (g, form(Method::ImplicitGemm, Dtype::Tf32, nhwc)),
        (g, form(Method::ImplicitGemm, Dtype::F16, Layout::Nchw)),
        (Geometry { filters: 12, ..g }, form(Method::ImplicitGemm, Dtype::F16, nhwc)),
        (square(2, 1, [8, 16], [3, 1, 1]), form(Method::ImplicitGemm, Dtype::F16, nhwc)),
    ] {
        assert!(!Convolution::pools(&g, form), "{g:?}, {form:?}");
        let error = Convolution::pooled(&device, &b.gemm, &g, form).unwrap_err().to_string();
        assert!(error.contains("2 x 2"), "{error}");
    }
    let form = form(Method::ImplicitGemm, Dtype::F16, nhwc);
    let a = Arrays::new(&b, &g, Dtype::F16, false);
    let y = Guarded::new(&device, g.output_len().unwrap(), Dtype::F16).array();
    let plain = Convolution::new(&device, &b.gemm, &g, form).unwrap();
    let pooled = Convolution::pooled(&device, &b.gemm, &g, form).unwrap();
    let workspace = Poisoned::new(&device, plain.workspace_bytes().max(pooled.workspace_bytes())).workspace();
    let none = Epilogue::None;
    let error = pooled.forward(&b.stream, &a.x, &a.weight, None, none, &y, &workspace).unwrap_err().to_string();
    assert!(error.contains("forward_pooled"), "{error}");
    let to = (&y.range(0..y.len() / 4), None);
    let error = plain.forward_pooled(&b.stream, &a.x, &a.weight, None, none, to, &workspace).unwrap_err().to_string();
    assert!(error.contains("Convolution::pooled"), "{error}");
    let places = device.zeros::<u8>(y.len()).unwrap();
    for (range, part) in [(1..1 + y.len() / 4, "multiple of 8"), (0..y.len() / 4 - 8, "places of the maxima")] {
        let to = (&y.range(0..y.len() / 4), Some(&places.range(range)));
        let error =
            pooled.forward_pooled(&b.stream, &a.x, &a.weight, None, none, to, &workspace).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

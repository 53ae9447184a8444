//! Convolutions with a pool in their epilogue are compared with a convolution followed by a pool, forward and for the weight gradient.

use super::bench::{Bench, Guarded, Poisoned, random};
use super::shapes::{layers, square};
use warpbook_device::{Buffer, Slice, testing};
use warpbook_gemm::DeviceArray;
use warpbook_nn::ops::Layout;
use warpbook_nn::ops::conv2d::Geometry;
use warpbook_nn::ops::conv2d::cuda::{Convolution, Epilogue, Form, Method, PooledGradient};
use warpbook_nn::ops::pool::{self, cuda::Pooling};
use warpbook_record::Dtype;

/// Even and odd sides, several tiles of an image and images of a tile, wide images, channels and filters of every kernel.
fn shapes() -> Vec<Geometry> {
    let with_sizes = |kernel, stride, padding, width, g: Geometry| Geometry { kernel, stride, padding, width, ..g };
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
        with_sizes([1, 4], [1, 1], [0, 3], 5, square(3, 8, [64, 32], [1, 1, 0])),
        with_sizes([3, 3], [1, 1], [1, 1], 150, square(2, 5, [32, 32], [1, 1, 0])),
        with_sizes([3, 3], [1, 2], [1, 1], 150, square(2, 5, [3, 32], [1, 1, 0])),
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
    /// Creates inputs; `with_nan` adds a few NaNs.
    fn new(b: &Bench<'_>, g: &Geometry, dtype: Dtype, with_nan: bool) -> Self {
        let mut x = random(g.input_len(), 1, dtype);
        if with_nan {
            x.iter_mut().step_by(97).for_each(|v| *v = f32::NAN);
        }
        let weight = b.input(&random(g.weight_len(), 2, dtype), dtype);
        Self { x: b.input(&x, dtype), weight, bias: b.buffer(&random(g.filters, 4, Dtype::F32)) }
    }
}

/// The pool after a convolution, and its maxima.
fn pool_of(g: &Geometry) -> (pool::PoolGeometry, usize) {
    let (height, width) = g.output().unwrap();
    let (batch, channels) = (g.batch, g.filters);
    let pool = pool::PoolGeometry { batch, channels, height, width, size: [2; 2], stride: [2; 2], padding: [0; 2] };
    (pool, batch * (height / 2) * (width / 2) * channels)
}

/// Computes the maxima and their positions with two kernels.
fn apart(
    b: &Bench<'_>,
    g: &Geometry,
    form: Form,
    a: &Arrays,
    bias: Option<&Slice<f32>>,
    epilogue: Epilogue,
) -> (Vec<f32>, Vec<u8>) {
    let convolution = Convolution::new(b.device, &b.gemm, g, form).unwrap();
    let (pool, len) = pool_of(g);
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
        // The index array has no guards of its own, so 64 bytes are added before and after it.
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

/// Shapes whose weight gradient expands the gradient of the maxima: one to four steps of taps, even and odd sides, several images per
/// block and several blocks per image, some of which begin at odd rows, strides, and filters that are not multiples of 32.
fn unpooled_shapes() -> Vec<Geometry> {
    let sides = |height, width, g: Geometry| Geometry { height, width, ..g };
    let with_sizes = |kernel, stride, padding, g: Geometry| Geometry { kernel, stride, padding, ..g };
    let rgb = |batch, height, width| sides(height, width, square(batch, 1, [3, 32], [3, 1, 1]));
    vec![
        square(1, 2, [1, 8], [1, 1, 0]),
        square(3, 28, [1, 32], [3, 1, 0]),
        square(300, 29, [1, 32], [3, 1, 0]),
        rgb(1, 32, 32),
        rgb(7, 32, 32),
        rgb(300, 32, 32),
        rgb(5, 33, 32),
        rgb(5, 32, 33),
        rgb(140, 31, 31),
        rgb(2, 5, 150),
        rgb(3, 2, 3),
        rgb(3, 3, 2),
        square(2, 9, [5, 40], [3, 1, 2]),
        square(2, 10, [5, 72], [3, 1, 2]),
        square(3, 40, [3, 24], [3, 2, 1]),
        square(2, 17, [7, 64], [3, 1, 1]),
        square(40, 16, [7, 64], [3, 1, 1]),
        with_sizes([1, 7], [3, 2], [0, 3], square(3, 40, [2, 24], [1, 1, 0])),
        // Each part of an image has three rows of y.
        square(1, 224, [3, 64], [4, 4, 0]),
    ]
}

/// Inputs other than the gradient of the maxima: arbitrary positions and values, including zeros of both signs and NaNs.
struct Unpooling {
    x: DeviceArray,
    dy: DeviceArray,
    mask: DeviceArray,
    places: Buffer<u8>,
    len: usize,
}

impl Unpooling {
    /// Creates the inputs; `with_nan` puts NaNs into the gradient of one filter and into the image of a pixel.
    fn new(b: &Bench<'_>, g: &Geometry, dtype: Dtype, with_nan: bool) -> Self {
        let (_, len) = pool_of(g);
        let (mut x, mut dy) = (random(g.input_len(), 1, dtype), random(len, 2, dtype));
        let mut mask = random(len, 3, dtype);
        for (i, v) in mask.iter_mut().enumerate() {
            match i % 11 {
                0 => *v = 0.0,
                4 => *v = -0.0,
                7 => *v = f32::NAN,
                _ => {}
            }
        }
        if with_nan {
            dy.iter_mut().skip(3).step_by(g.filters).step_by(5).for_each(|v| *v = f32::NAN);
            x[g.input_len() / 2] = f32::NAN;
        }
        // All four positions occur, in random order, with bytes of 0xff around them.
        let places: Vec<u8> = random(len, 4, Dtype::F32).iter().map(|v| (v.to_bits() >> 5) as u8 % 4).collect();
        let guard = [0xff; 64];
        let places = b.buffer(&[&guard[..], &places, &guard].concat());
        Self { x: b.input(&x, dtype), dy: b.input(&dy, dtype), mask: b.input(&mask, dtype), places, len }
    }

    fn places_and_mask(&self, scale: Option<f32>) -> (Slice<u8>, Option<(&DeviceArray, f32)>) {
        (self.places.range(64..64 + self.len), scale.map(|scale| (&self.mask, scale)))
    }

    /// Computes dw, then db, with two kernels.
    fn apart(&self, b: &Bench<'_>, g: &Geometry, form: Form, scale: Option<f32>) -> Vec<f32> {
        let (convolution, (pool, _)) = (Convolution::new(b.device, &b.gemm, g, form).unwrap(), pool_of(g));
        let pooling = Pooling::new(b.device, form.dtype, Layout::Nhwc).unwrap();
        let dy = Guarded::new(b.device, g.output_len().unwrap(), form.dtype);
        dy.bytes().fill_bytes(0xff).unwrap();
        let [dw, db] = [g.weight_len(), g.filters].map(|len| Guarded::new(b.device, len, Dtype::F32));
        let workspace = Poisoned::new(b.device, convolution.workspace_bytes()).workspace();
        let (places, mask) = self.places_and_mask(scale);
        match mask {
            Some((y, scale)) => {
                let index = (&places, y, scale);
                pooling.max_backward_masked(&b.stream, &pool, index, &self.dy, &dy.array()).unwrap();
            }
            None => pooling.max_backward(&b.stream, &pool, &places, &self.dy, &dy.array()).unwrap(),
        }
        convolution.weight_gradient(&b.stream, &self.x, &dy.array(), &dw.f32(), Some(&db.f32()), &workspace).unwrap();
        b.stream.synchronize().unwrap();
        [dw, db].iter().flat_map(|array| array.array().to_f32().unwrap()).collect()
    }
}

fn check_unpooling(b: &Bench<'_>, g: &Geometry, form: Form, with_nan: bool) {
    let a = Unpooling::new(b, g, form.dtype, with_nan);
    let convolution = Convolution::unpooling(b.device, &b.gemm, g, form).unwrap();
    let poisoned = Poisoned::new(b.device, convolution.workspace_bytes());
    let workspace = poisoned.workspace();
    let [dw, db] = [g.weight_len(), g.filters].map(|len| Guarded::new(b.device, len, Dtype::F32));
    let mut before: Option<Vec<f32>> = None;
    // Cases: no ReLU; a ReLU; a ReLU and a dropout whose factor causes rounding.
    for scale in [None, Some(1.0), Some(1.0 / 0.7)] {
        let what = format!("{g:?}, {form:?}, scale {scale:?}, NaN {with_nan}");
        let want = a.apart(b, g, form, scale);
        let (places, mask) = a.places_and_mask(scale);
        let gradient = PooledGradient { dy: &a.dy, places: &places, mask };
        let queue = |dbias: Option<&Slice<f32>>| {
            convolution.pooled_weight_gradient(&b.stream, &a.x, &gradient, &dw.f32(), dbias, &workspace).unwrap();
        };
        let mut got = dw.written(&what, b, &poisoned, || queue(Some(&db.f32())));
        let without_bias = dw.written(&what, b, &poisoned, || queue(None));
        let bits = |v: &[f32]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert!(bits(&without_bias) == bits(&got), "{what}: without the bias gradient");
        got.extend(db.written(&what, b, &poisoned, || queue(Some(&db.f32()))));
        let same = |i: usize| got[i].to_bits() == want[i].to_bits() || got[i].is_nan() && want[i].is_nan();
        let wrong: Vec<usize> = (0..want.len()).filter(|i| !same(*i)).collect();
        let first: Vec<_> = wrong.iter().take(8).map(|i| (*i, got[*i], want[*i])).collect();
        let (count, len) = (wrong.len(), want.len());
        assert!(wrong.is_empty(), "{what}: {count} of {len} differ, dw then db: (at, got, want) {first:?}");
        let finite = want.iter().filter(|v| v.is_finite() && **v != 0.0).count();
        assert!(with_nan || 10 * finite > len, "{what}: only {finite} of {len} say anything");
        assert!(before.as_ref() != Some(&want), "{what}: the mask and its scale change nothing");
        before = Some(want);
    }
}

fn check_all_unpooling(test: &str, dtype: Dtype) {
    let Some(device) = testing::gpu(test) else { return };
    let bench = Bench::new(&device);
    let form = Form { method: Method::FewChannels, dtype, layout: Layout::Nhwc };
    for g in unpooled_shapes() {
        for with_nan in [false, true] {
            check_unpooling(&bench, &g, form, with_nan);
        }
    }
}

#[test]
fn the_shapes_are_of_few_channels_in_all_steps() {
    let form = Form { method: Method::FewChannels, dtype: Dtype::F16, layout: Layout::Nhwc };
    let mut steps = [false; 4];
    for g in unpooled_shapes() {
        assert!(Convolution::unpools(&g, form, Some((9, 0))), "{g:?}");
        steps[g.channels * g.kernel[0] * g.kernel[1] / 16] = true;
    }
    assert_eq!(steps, [true; 4]);
}

#[test]
fn few_channels_expand_the_gradient_of_maxima_in_f16() {
    check_all_unpooling("few_channels_expand_the_gradient_of_maxima_in_f16", Dtype::F16);
}

#[test]
fn few_channels_expand_the_gradient_of_maxima_in_bf16() {
    check_all_unpooling("few_channels_expand_the_gradient_of_maxima_in_bf16", Dtype::Bf16);
}

#[test]
fn a_gradient_of_maxima_that_no_kernel_expands_is_refused() {
    let Some(device) = testing::gpu("a_gradient_of_maxima_that_no_kernel_expands_is_refused") else { return };
    let b = Bench::new(&device);
    let (few, many) = (square(2, 8, [3, 16], [3, 1, 1]), square(2, 8, [32, 32], [3, 1, 1]));
    let form = |method| Form { method, dtype: Dtype::F16, layout: Layout::Nhwc };
    for (g, form) in [(few, form(Method::ShiftedWindows)), (many, form(Method::FewChannels))] {
        assert!(Convolution::pools(&g, form), "{g:?}, {form:?}");
        let error = Convolution::unpooling(&device, &b.gemm, &g, form).unwrap_err().to_string();
        assert!(error.contains("few channels"), "{error}");
    }
    let form = form(Method::FewChannels);
    let a = Unpooling::new(&b, &few, Dtype::F16, false);
    let [pooled, both] =
        [Convolution::pooled, Convolution::unpooling].map(|load| load(&device, &b.gemm, &few, form).unwrap());
    let workspace = Poisoned::new(&device, pooled.workspace_bytes().max(both.workspace_bytes())).workspace();
    let (places, mask) = a.places_and_mask(Some(1.0));
    let dw = Guarded::new(&device, few.weight_len(), Dtype::F32).f32();
    let refused = |c: &Convolution, of: PooledGradient<'_>| {
        c.pooled_weight_gradient(&b.stream, &a.x, &of, &dw, None, &workspace).unwrap_err().to_string()
    };
    let gradient = PooledGradient { dy: &a.dy, places: &places, mask };
    let error = refused(&pooled, gradient);
    assert!(error.contains("`weight_gradient`") && error.contains("Convolution::unpooling"), "{error}");
    let dy = Guarded::new(&device, few.output_len().unwrap(), Dtype::F16).array();
    let error = both.weight_gradient(&b.stream, &a.x, &dy, &dw, None, &workspace).unwrap_err().to_string();
    assert!(error.contains("`pooled_weight_gradient`") && error.contains("Convolution::pooled"), "{error}");
    let (short, odd) = (a.places.range(64..64 + a.len - 8), a.places.range(65..65 + a.len));
    for (gradient, part) in [
        (PooledGradient { dy: &dy, ..gradient }, "the gradient of the maxima"),
        (PooledGradient { mask: Some((&dy, 1.0)), ..gradient }, "the mask"),
        (PooledGradient { places: &short, ..gradient }, "places of the maxima"),
        (PooledGradient { places: &odd, ..gradient }, "multiple of 8"),
    ] {
        let error = refused(&both, gradient);
        assert!(error.contains(part), "{error}");
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

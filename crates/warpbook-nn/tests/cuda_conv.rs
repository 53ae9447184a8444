//! The CUDA bodies of the convolution and of the linear layer against the f64 reference.

use half::{bf16, f16};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use warpbook_device::{Buffer, Compiler, CudaDevice, CudnnPlan, Error, Slice, Stream, testing};
use warpbook_kernels::Tolerance;
use warpbook_kernels::nn::conv2d as rows;
use warpbook_nn::gemm::{DeviceArray, Gemm, ProductBy, Workspace};
use warpbook_nn::ops::conv2d::Geometry;
use warpbook_nn::ops::conv2d::cuda::{Convolution, Epilogue, Form, Method};
use warpbook_nn::ops::linear::Sizes;
use warpbook_nn::ops::linear::cuda::{Linear, LinearEpilogue};
use warpbook_nn::ops::{Layout, reference};
use warpbook_nn::philox::gaussian;
use warpbook_nn::storage::rounded;
use warpbook_record::Dtype;

/// Elements before and after an array that nothing may write: whole vectors of 16 bytes.
const GUARD: usize = 64;
const LAYOUTS: [Layout; 2] = [Layout::Nhwc, Layout::Nchw];
const TYPES: [Dtype; 4] = [Dtype::F32, Dtype::Tf32, Dtype::F16, Dtype::Bf16];

fn stored(dtype: Dtype) -> Dtype {
    if dtype == Dtype::Tf32 { Dtype::F32 } else { dtype }
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|v| f64::from(*v)).collect()
}

fn magnitudes(values: &[f64]) -> Vec<f64> {
    values.iter().map(|v| v.abs()).collect()
}

/// Values of an exact result with the scale of its rounding errors, the same sums of magnitudes.
struct Want {
    values: Vec<f64>,
    scales: Vec<f64>,
}

impl Want {
    fn new(f: impl Fn([&[f64]; 2]) -> Vec<f64>, [a, b]: [&[f64]; 2]) -> Self {
        Self { values: f([a, b]), scales: f([&magnitudes(a), &magnitudes(b)]) }
    }

    fn map(&self, f: impl Fn(usize, f64) -> f64) -> Self {
        let values = self.values.iter().enumerate().map(|(i, v)| f(i, *v)).collect();
        Self { values, scales: self.scales.clone() }
    }

    fn plus(&self, bias: &[f32]) -> Self {
        let of = |i: usize| f64::from(bias[i % bias.len()]);
        let scales = self.scales.iter().enumerate().map(|(i, v)| v + of(i).abs()).collect();
        Self { scales, ..self.map(|i, v| v + of(i)) }
    }

    fn relu(&self) -> Self {
        self.map(|_, v| if v < 0.0 { 0.0 } else { v })
    }

    fn masked(&self, mask: &[f32]) -> Self {
        self.map(|i, v| if mask[i] <= 0.0 { 0.0 } else { v })
    }

    /// Sums of `k` products of `dtype`, stored as `out`.
    #[track_caller]
    fn check(&self, what: &str, got: &[f32], k: usize, types: (Dtype, Dtype)) {
        self.check_within(what, got, k, types, 0.0);
    }

    /// The same with errors of so many times the scale on top.
    #[track_caller]
    fn check_within(&self, what: &str, got: &[f32], k: usize, (dtype, out): (Dtype, Dtype), more: f64) {
        assert_eq!(got.len(), self.values.len(), "{what}");
        let Tolerance(tolerance) = Tolerance::product(dtype, k as u64);
        let tiny = if out == Dtype::F16 { 1e-7 } else { 1e-30 };
        for (i, ((got, want), scale)) in got.iter().zip(&self.values).zip(&self.scales).enumerate() {
            let error = (f64::from(*got) - want).abs();
            // The rounding to the type, then that of the sum.
            let bound = 0.5 * out.epsilon() * want.abs() + (tolerance + more) * scale + tiny;
            assert!(error <= bound, "{what}: element {i} is {got}, not {want}: {error:.1e} is above {bound:.1e}");
        }
    }
}

/// An array with guards around it, all of whose bytes are 0xff before it is written.
struct Guarded {
    whole: Buffer<u8>,
    dtype: Dtype,
    len: usize,
}

impl Guarded {
    fn new(device: &CudaDevice, len: usize, dtype: Dtype) -> Self {
        let size = dtype.bytes() as usize;
        Self { whole: device.zeros((len + 2 * GUARD) * size).unwrap(), dtype: stored(dtype), len }
    }

    fn bytes(&self) -> Slice<u8> {
        let size = self.dtype.bytes() as usize;
        self.whole.range(GUARD * size..(GUARD + self.len) * size)
    }

    fn array(&self) -> DeviceArray {
        match self.dtype {
            Dtype::F16 => (&self.bytes().cast::<f16>()).into(),
            Dtype::Bf16 => (&self.bytes().cast::<bf16>()).into(),
            _ => (&self.f32()).into(),
        }
    }

    fn f32(&self) -> Slice<f32> {
        self.bytes().cast()
    }

    /// What a pass writes, twice the same, and nothing outside; a workspace is poisoned first.
    fn written(&self, what: &str, b: &Bench<'_>, workspace: &Poisoned, pass: impl Fn()) -> Vec<f32> {
        self.written_by(true, what, b, workspace, pass)
    }

    /// The same, whose bits may differ between runs where they are not to be the same.
    fn written_by(&self, same: bool, what: &str, b: &Bench<'_>, workspace: &Poisoned, pass: impl Fn()) -> Vec<f32> {
        let once = || {
            self.whole.fill_bytes(0xff).unwrap();
            workspace.0.fill_bytes(0xff).unwrap();
            pass();
            b.stream.synchronize().unwrap_or_else(|e| panic!("{what}: {e}"));
            let size = self.dtype.bytes() as usize;
            let bytes = self.whole.to_vec().unwrap();
            let (before, after) = (&bytes[..GUARD * size], &bytes[(GUARD + self.len) * size..]);
            assert!(before.iter().chain(after).all(|byte| *byte == 0xff), "{what}: wrote outside of the array");
            self.array().to_f32().unwrap()
        };
        let (first, second) = (once(), once());
        let bits = |v: &[f32]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert!(!same || bits(&first) == bits(&second), "{what}: other bits on a second run");
        first
    }
}

/// The bytes of a workspace.
struct Poisoned(Buffer<u8>);

impl Poisoned {
    fn new(device: &CudaDevice, bytes: u64) -> Self {
        Self(device.zeros(bytes as usize).unwrap())
    }

    fn workspace(&self) -> Workspace {
        Workspace::of(self.0.range(..))
    }
}

struct Bench<'a> {
    device: &'a CudaDevice,
    gemm: Gemm,
    stream: Stream,
}

impl<'a> Bench<'a> {
    fn new(device: &'a CudaDevice) -> Self {
        Self { device, gemm: Gemm::new(device), stream: device.stream().unwrap() }
    }

    /// An array with NaN around it.
    fn input(&self, values: &[f32], dtype: Dtype) -> DeviceArray {
        let guard = [f32::NAN; GUARD];
        // Whole vectors: compute-sanitizer takes a cp.async that reads fewer bytes for one that reads all.
        let values = [&guard[..], values, &guard].concat();
        let whole: DeviceArray = match dtype {
            Dtype::F16 => (&self.buffer(&values.iter().map(|v| f16::from_f32(*v)).collect::<Vec<_>>())).into(),
            Dtype::Bf16 => (&self.buffer(&values.iter().map(|v| bf16::from_f32(*v)).collect::<Vec<_>>())).into(),
            _ => (&self.buffer(&values)).into(),
        };
        whole.range(GUARD..values.len() - GUARD)
    }

    fn buffer<T: warpbook_device::Element>(&self, values: &[T]) -> Buffer<T> {
        self.device.buffer_from(values).unwrap()
    }
}

fn random(n: usize, stream: u32, dtype: Dtype) -> Vec<f32> {
    (0..n as u64).map(|i| rounded(gaussian(23, i, stream), dtype)).collect()
}

/// An array `[outer][pixels][channels]` as the layout has it: images, or filters.
fn laid_out(values: &[f32], layout: Layout, [pixels, channels]: [usize; 2]) -> Vec<f32> {
    if layout == Layout::Nhwc {
        return values.to_vec();
    }
    let image = |v: &[f32]| (0..pixels * channels).map(|i| v[i % pixels * channels + i / pixels]).collect::<Vec<_>>();
    values.chunks(pixels * channels).flat_map(image).collect()
}

/// The reverse.
fn as_nhwc(values: &[f32], layout: Layout, [pixels, channels]: [usize; 2]) -> Vec<f32> {
    laid_out(values, layout, [channels, pixels])
}

/// The arrays of a convolution and what they give, NHWC.
struct Case {
    g: Geometry,
    dtype: Dtype,
    x: Vec<f32>,
    weight: Vec<f32>,
    bias: Vec<f32>,
    dy: Vec<f32>,
    y: Want,
    dx: Want,
    dweight: Want,
    dbias: Want,
}

impl Case {
    fn new(g: Geometry, dtype: Dtype) -> Self {
        let (x, weight) = (random(g.input_len(), 1, dtype), random(g.weight_len(), 2, dtype));
        let (dy, bias) = (random(g.output_len().unwrap(), 3, dtype), random(g.filters, 4, Dtype::F32));
        let (x64, w64, dy64) = (wide(&x), wide(&weight), wide(&dy));
        let y = Want::new(|[x, w]| reference::conv2d(&g, x, w, None), [&x64, &w64]);
        let dx = Want::new(|[dy, w]| reference::conv2d_input_gradient(&g, dy, w), [&dy64, &w64]);
        let dweight = Want::new(|[x, dy]| reference::conv2d_weight_gradient(&g, x, dy), [&x64, &dy64]);
        let dbias = Want::new(|[dy, _]| reference::conv2d_bias_gradient(&g, dy), [&dy64, &[]]);
        Self { g, dtype, x, weight, bias, dy, y, dx, dweight, dbias }
    }

    fn check(&self, b: &Bench<'_>, method: Method, layout: Layout) {
        let Self { g, dtype, .. } = self;
        let (dtype, form) = (*dtype, Form { method, dtype: *dtype, layout });
        let what = |pass: &str| format!("{pass} of {g:?}, {form:?}");
        let convolution =
            Convolution::new(b.device, &b.gemm, g, form).unwrap_or_else(|e| panic!("{}: {e}", what("new")));
        let same = convolution.is_deterministic();
        let more = Rounding::of(&convolution, stored(dtype));
        let (oh, ow) = g.output().unwrap();
        let (of_x, of_y) = ([g.height * g.width, g.channels], [oh * ow, g.filters]);
        let of_weight = [g.kernel[0] * g.kernel[1], g.channels];
        let lay = |values: &[f32], shape| b.input(&laid_out(values, layout, shape), dtype);
        let (x, dy, weight) = (lay(&self.x, of_x), lay(&self.dy, of_y), lay(&self.weight, of_weight));
        // The inputs are as good a mask as any: positive and negative values.
        let mask = x.clone();
        let bias = b.buffer(&self.bias);
        let poisoned = Poisoned::new(b.device, convolution.workspace_bytes());
        let workspace = poisoned.workspace();
        let stored = stored(dtype);
        let (k, k_dx) = (of_weight[0] * g.channels, of_weight[0] * g.filters);

        let y = Guarded::new(b.device, self.dy.len(), dtype);
        let plain_relu = self.y.relu();
        let with_bias = self.y.plus(&self.bias);
        let with_both = with_bias.relu();
        let forwards = [
            ("y", None, Epilogue::None, &self.y),
            ("y with a ReLU", None, Epilogue::Relu, &plain_relu),
            ("y with a bias", Some(&*bias), Epilogue::None, &with_bias),
            ("y with bias and ReLU", Some(&*bias), Epilogue::Relu, &with_both),
        ];
        for (name, bias, epilogue, want) in forwards {
            let got = y.written_by(same[0], &what(name), b, &poisoned, || {
                convolution.forward(&b.stream, &x, &weight, bias, epilogue, &y.array(), &workspace).unwrap();
            });
            let of_bias = if bias.is_some() { more.twice } else { 0.0 };
            let got = as_nhwc(&got, layout, of_y);
            want.check_within(&what(name), &got, k + 1, (dtype, stored), more.transforms[0] + of_bias);
        }

        let dx = Guarded::new(b.device, self.x.len(), dtype);
        let has_dx = convolution.library_plans().is_none_or(|[_, plan, _]| plan.is_some());
        let gradients = [("dx", None, &self.dx), ("masked dx", Some(&mask), &self.dx.masked(&self.x))];
        for (name, mask, want) in gradients.into_iter().filter(|_| has_dx) {
            let got = dx.written_by(same[1], &what(name), b, &poisoned, || {
                convolution.input_gradient(&b.stream, &dy, &weight, mask, &dx.array(), &workspace).unwrap();
            });
            let got = as_nhwc(&got, layout, of_x);
            want.check_within(&what(name), &got, k_dx, (dtype, stored), more.transforms[1]);
        }

        let dweight = Guarded::new(b.device, self.weight.len(), Dtype::F32);
        let dbias = Guarded::new(b.device, g.filters, Dtype::F32);
        let positions = g.batch * oh * ow;
        let got = dweight.written_by(same[2], &what("dw"), b, &poisoned, || {
            convolution.weight_gradient(&b.stream, &x, &dy, &dweight.f32(), None, &workspace).unwrap();
        });
        let got = as_nhwc(&got, layout, of_weight);
        // cuDNN's is rounded to the type of the operands.
        let out = if method == Method::Stock { stored } else { Dtype::F32 };
        self.dweight.check_within(&what("dw"), &got, positions, (dtype, out), more.transforms[2]);
        let got = dbias.written(&what("db"), b, &poisoned, || {
            convolution.weight_gradient(&b.stream, &x, &dy, &dweight.f32(), Some(&dbias.f32()), &workspace).unwrap();
        });
        self.dbias.check(&what("db"), &got, positions, (Dtype::F32, Dtype::F32));
    }
}

/// How much more a library rounds than our kernels do, relative to the magnitudes that are added.
struct Rounding {
    /// Of an output that is rounded before a bias is added, too.
    twice: f64,
    /// Of each pass by FFT or Winograd's algorithm.
    transforms: [f64; 3],
}

impl Rounding {
    fn of(convolution: &Convolution, stored: Dtype) -> Self {
        let Some(plans) = convolution.library_plans() else { return Self { twice: 0.0, transforms: [0.0; 3] } };
        let transforms =
            plans.map(|plan| if plan.is_some_and(CudnnPlan::transforms) { 16.0 * stored.epsilon() } else { 0.0 });
        Self { twice: 0.5 * stored.epsilon(), transforms }
    }
}

fn square(
    batch: usize,
    size: usize,
    [channels, filters]: [usize; 2],
    [kernel, stride, padding]: [usize; 3],
) -> Geometry {
    let (kernel, stride, padding) = ([kernel; 2], [stride; 2], [padding; 2]);
    Geometry { batch, height: size, width: size, channels, filters, kernel, stride, padding }
}

/// Shapes with odd sizes, every way for a window to lie in the padding, and channels of every alignment.
fn odd_shapes() -> Vec<Geometry> {
    let of = |kernel, stride, padding, width, g: Geometry| Geometry { kernel, stride, padding, width, ..g };
    vec![
        square(1, 1, [1, 1], [1, 1, 0]),
        square(3, 1, [5, 8], [3, 1, 1]),
        // A kernel larger than the image, and more padding than it takes.
        square(2, 3, [8, 16], [5, 1, 2]),
        square(2, 3, [16, 8], [2, 3, 5]),
        square(2, 7, [1, 33], [3, 3, 0]),
        square(1, 11, [3, 5], [3, 2, 1]),
        square(3, 9, [24, 40], [3, 2, 1]),
        square(5, 6, [40, 24], [1, 1, 0]),
        square(2, 10, [8, 64], [3, 1, 1]),
        square(1, 9, [33, 3], [3, 1, 1]),
        of([1, 4], [2, 1], [0, 3], 5, square(3, 8, [16, 24], [1, 1, 0])),
        of([6, 2], [1, 3], [2, 0], 12, square(2, 4, [8, 8], [1, 1, 0])),
    ]
}

/// The layers of the networks that are trained, at a small batch.
fn layers() -> Vec<Geometry> {
    vec![
        square(3, 28, [1, 32], [3, 1, 0]),
        square(3, 26, [32, 64], [3, 1, 0]),
        square(3, 32, [3, 32], [3, 1, 1]),
        square(3, 16, [32, 64], [3, 1, 1]),
        square(5, 8, [64, 128], [3, 1, 1]),
    ]
}

fn check_all(test: &str, dtype: Dtype, method: Method) {
    let Some(device) = testing::gpu(test) else { return };
    let bench = Bench::new(&device);
    for g in odd_shapes().into_iter().chain(layers()) {
        let case = Case::new(g, dtype);
        for layout in LAYOUTS {
            case.check(&bench, method, layout);
        }
    }
}

#[test]
fn direct_is_the_reference() {
    check_all("direct_is_the_reference", Dtype::F32, Method::Direct);
}

#[test]
fn im2col_in_f32_is_the_reference() {
    check_all("im2col_in_f32_is_the_reference", Dtype::F32, Method::Im2col);
}

#[test]
fn im2col_in_tf32_is_the_reference() {
    check_all("im2col_in_tf32_is_the_reference", Dtype::Tf32, Method::Im2col);
}

#[test]
fn im2col_in_f16_is_the_reference() {
    check_all("im2col_in_f16_is_the_reference", Dtype::F16, Method::Im2col);
}

#[test]
fn im2col_in_bf16_is_the_reference() {
    check_all("im2col_in_bf16_is_the_reference", Dtype::Bf16, Method::Im2col);
}

#[test]
fn implicit_gemm_in_f32_is_the_reference() {
    check_all("implicit_gemm_in_f32_is_the_reference", Dtype::F32, Method::ImplicitGemm);
}

#[test]
fn implicit_gemm_in_tf32_is_the_reference() {
    check_all("implicit_gemm_in_tf32_is_the_reference", Dtype::Tf32, Method::ImplicitGemm);
}

#[test]
fn implicit_gemm_in_f16_is_the_reference() {
    check_all("implicit_gemm_in_f16_is_the_reference", Dtype::F16, Method::ImplicitGemm);
}

#[test]
fn implicit_gemm_in_bf16_is_the_reference() {
    check_all("implicit_gemm_in_bf16_is_the_reference", Dtype::Bf16, Method::ImplicitGemm);
}

#[test]
fn implicit_gemm_of_turing_is_the_reference() {
    check_all("implicit_gemm_of_turing_is_the_reference", Dtype::F16, Method::ImplicitGemmTuring);
}

/// It can be forced on every GPU, and is what one below 8.0 runs in fp16 whatever it is told.
#[test]
fn turing_s_product_runs_where_it_is_asked_for_or_needed() {
    let Some(device) = testing::gpu("turing_s_product_runs_where_it_is_asked_for_or_needed") else { return };
    let b = Bench::new(&device);
    let is_old = device.info().compute_capability < Some((8, 0));
    let new = |method, dtype, layout| {
        let g = square(2, 5, [8, 16], [3, 1, 1]);
        Convolution::new(&device, &b.gemm, &g, Form { method, dtype, layout })
    };
    for layout in LAYOUTS {
        assert!(new(Method::ImplicitGemmTuring, Dtype::F16, layout).unwrap().is_turing());
        for method in [Method::ImplicitGemm, Method::ShiftedWindows] {
            assert_eq!(new(method, Dtype::F16, layout).unwrap().is_turing(), is_old, "{method:?}");
            assert!(!new(method, Dtype::F32, layout).unwrap().is_turing(), "{method:?}");
        }
        for dtype in [Dtype::F32, Dtype::Tf32, Dtype::Bf16] {
            let error = new(Method::ImplicitGemmTuring, dtype, layout).unwrap_err().to_string();
            assert!(error.contains("which takes fp16 only"), "{error}");
        }
    }
}

/// Shapes that Hopper's windows take: several tiles of an image and of a block, several rows of channels, wide and rectangular windows.
fn shifted_shapes() -> Vec<Geometry> {
    let of = |kernel, padding, width, g: Geometry| Geometry { kernel, padding, width, ..g };
    vec![
        square(1, 1, [32, 32], [1, 1, 0]),
        square(3, 26, [32, 64], [3, 1, 0]),
        square(3, 16, [32, 64], [3, 1, 1]),
        square(5, 8, [64, 128], [3, 1, 1]),
        square(300, 8, [64, 32], [3, 1, 1]),
        square(2, 12, [64, 64], [5, 1, 2]),
        square(600, 12, [32, 64], [5, 1, 2]),
        square(3, 7, [128, 96], [3, 1, 1]),
        square(2, 9, [32, 128], [2, 1, 0]),
        square(2, 3, [32, 32], [5, 1, 1]),
        of([1, 4], [0, 3], 5, square(3, 8, [64, 32], [1, 1, 0])),
        of([3, 3], [1, 1], 150, square(2, 5, [32, 32], [1, 1, 0])),
        square(2, 20, [64, 64], [1, 1, 0]),
    ]
}

fn check_shifted(test: &str, dtype: Dtype) {
    let Some(device) = testing::gpu(test) else { return };
    let bench = Bench::new(&device);
    let form = |layout| Form { method: Method::ShiftedWindows, dtype, layout };
    for g in shifted_shapes() {
        let made = Convolution::new(&device, &bench.gemm, &g, form(Layout::Nhwc)).unwrap();
        let is_hopper = device.info().compute_capability == Some((9, 0));
        assert_eq!(made.is_shifted(), [is_hopper; 3], "{g:?}");
        Case::new(g, dtype).check(&bench, Method::ShiftedWindows, Layout::Nhwc);
    }
    // What it does not take.
    for g in odd_shapes() {
        let case = Case::new(g, dtype);
        LAYOUTS.into_iter().for_each(|layout| case.check(&bench, Method::ShiftedWindows, layout));
    }
}

#[test]
fn shifted_windows_in_f16_are_the_reference() {
    check_shifted("shifted_windows_in_f16_are_the_reference", Dtype::F16);
}

#[test]
fn shifted_windows_in_bf16_are_the_reference() {
    check_shifted("shifted_windows_in_bf16_are_the_reference", Dtype::Bf16);
}

/// Every convolution that cuDNN takes; those of the networks it has to. All that is wrong is told at once.
fn check_stock(test: &str, dtype: Dtype) {
    let Some(device) = testing::gpu(test) else { return };
    if let Err(why) = warpbook_device::Cudnn::open(&device) {
        assert!(matches!(why, Error::NoCudnn { .. }), "{why}");
        return testing::skip(test, "needs cuDNN", why);
    }
    let bench = Bench::new(&device);
    let (mut wrong, mut refused, mut checked) = (Vec::new(), Vec::new(), 0);
    for g in odd_shapes().into_iter().chain(layers()) {
        let case = Case::new(g, dtype);
        for layout in LAYOUTS {
            let form = Form { method: Method::Stock, dtype, layout };
            match Convolution::new(&device, &bench.gemm, &g, form) {
                Ok(c) => {
                    let plans = c.library_plans().unwrap();
                    let words = plans.map(|plan| {
                        plan.map_or_else(
                            || "none".to_owned(),
                            |p| format!("{}{}", p.algorithm(), if p.is_deterministic() { "" } else { " (!)" }),
                        )
                    });
                    println!("{layout:?} {g:?}: {words:?}, workspace of {} bytes", c.workspace_bytes());
                    // The first layers, of 1 and 3 channels, need no dx.
                    if plans[1].is_none() && layers().contains(&g) && g.channels > 3 {
                        wrong.push(format!("{g:?} {layout:?} has no dx"));
                    }
                }
                Err(why @ Error::Unsupported { .. }) if !layers().contains(&g) => {
                    refused.push(why.to_string());
                    continue;
                }
                Err(why) => {
                    wrong.push(format!("{g:?} {layout:?} is refused: {why}"));
                    continue;
                }
            }
            let run = AssertUnwindSafe(|| case.check(&bench, Method::Stock, layout));
            match std::panic::catch_unwind(run) {
                Ok(()) => checked += 1,
                Err(why) => {
                    wrong.push(why.downcast_ref::<String>().cloned().unwrap_or_else(|| format!("{g:?} {layout:?}")))
                }
            }
        }
    }
    println!("{test}: {checked} convolutions are right, {} are refused:\n{}", refused.len(), refused.join("\n"));
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(checked > 2 * layers().len(), "{checked}");
}

#[test]
fn stock_in_f32_is_the_reference() {
    check_stock("stock_in_f32_is_the_reference", Dtype::F32);
}

#[test]
fn stock_in_tf32_is_the_reference() {
    check_stock("stock_in_tf32_is_the_reference", Dtype::Tf32);
}

#[test]
fn stock_in_f16_is_the_reference() {
    check_stock("stock_in_f16_is_the_reference", Dtype::F16);
}

#[test]
fn stock_in_bf16_is_the_reference() {
    check_stock("stock_in_bf16_is_the_reference", Dtype::Bf16);
}

#[test]
fn sums_over_many_splits_and_panels_are_the_reference() {
    let Some(device) = testing::gpu("sums_over_many_splits_and_panels_are_the_reference") else { return };
    let bench = Bench::new(&device);
    // Few weights and many positions; and columns of more than one panel, the last of which is smaller.
    let many = square(60, 24, [8, 8], [3, 1, 1]);
    for dtype in TYPES {
        let case = Case::new(many, dtype);
        LAYOUTS.into_iter().for_each(|layout| case.check(&bench, Method::ImplicitGemm, layout));
    }
    let case = Case::new(many, Dtype::F16);
    LAYOUTS.into_iter().for_each(|layout| case.check(&bench, Method::ImplicitGemmTuring, layout));
    let panels = square(7, 40, [16, 3], [9, 1, 4]);
    let case = Case::new(panels, Dtype::F16);
    for layout in LAYOUTS {
        let of = |batch| {
            let form = Form { method: Method::Im2col, dtype: Dtype::F16, layout };
            Convolution::new(&device, &bench.gemm, &Geometry { batch, ..panels }, form).unwrap().workspace_bytes()
        };
        assert!(of(7) < 7 * of(1) && of(7) <= 64 << 20, "7 images take more than one panel: {} {}", of(7), of(1));
        case.check(&bench, Method::Im2col, layout);
    }
}

#[test]
fn nan_passes_through_relu_and_mask_and_a_graph_replays() {
    let Some(device) = testing::gpu("nan_passes_through_relu_and_mask_and_a_graph_replays") else { return };
    let b = Bench::new(&device);
    let g = square(1, 4, [8, 8], [1, 1, 0]);
    let mut forms =
        vec![(Method::Direct, Dtype::F32), (Method::Im2col, Dtype::F16), (Method::ImplicitGemm, Dtype::F16)];
    forms.push((Method::ImplicitGemmTuring, Dtype::F16));
    match warpbook_device::Cudnn::find(&device) {
        Ok(_) => forms.extend([(Method::Stock, Dtype::F16), (Method::Stock, Dtype::F32)]),
        Err(why) => testing::skip("nan_passes_through_relu_and_mask_and_a_graph_replays by cuDNN", "needs cuDNN", why),
    }
    for (method, dtype) in forms {
        let form = Form { method, dtype, layout: Layout::Nhwc };
        let convolution = Arc::new(Convolution::new(&device, &b.gemm, &g, form).unwrap());
        let workspace = Workspace::new(&device, convolution.workspace_bytes()).unwrap();
        let (mut x, mut identity) = (random(128, 1, dtype), vec![0.0; 64]);
        x[9] = f32::NAN;
        (0..8).for_each(|i| identity[i * 9] = 1.0);
        let (x_at, weight) = (b.input(&x, dtype), b.input(&identity, dtype));
        let (y, dx) = (b.input(&[0.0; 128], dtype), b.input(&[0.0; 128], dtype));
        let graph = b.stream.capture_owning("convolution", (), |()| {
            convolution.forward(&b.stream, &x_at, &weight, None, Epilogue::Relu, &y, &workspace)?;
            convolution.input_gradient(&b.stream, &y, &weight, Some(&x_at), &dx, &workspace)
        });
        let graph = graph.unwrap();
        graph.launch(&b.stream).unwrap();
        graph.launch(&b.stream).unwrap();
        b.stream.synchronize().unwrap();
        let (y, dx) = (y.to_f32().unwrap(), dx.to_f32().unwrap());
        for i in 0..128 {
            // NaN times 0 is NaN, so that all of its pixel is, where the mask lets it through.
            let of_nan = i / 8 == 1;
            let expect = if x[i] > 0.0 { x[i] } else { 0.0 };
            assert!(if of_nan { y[i].is_nan() } else { y[i] == expect }, "{method:?}: y[{i}] is {} of {}", y[i], x[i]);
            let passes = of_nan && (x[i].is_nan() || x[i] > 0.0);
            assert!(
                if passes { dx[i].is_nan() } else { dx[i] == expect || of_nan && dx[i] == 0.0 },
                "{method:?}: dx[{i}]"
            );
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let Some(device) = testing::gpu("what_does_not_fit_is_refused") else { return };
    let b = Bench::new(&device);
    let g = square(2, 5, [8, 16], [3, 1, 1]);
    let form = |method, dtype| Form { method, dtype, layout: Layout::Nhwc };
    let refused = |form, words: &str| {
        let error = Convolution::new(&device, &b.gemm, &g, form).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    refused(form(Method::Direct, Dtype::F16), "direct method, which takes fp32 only");
    refused(form(Method::ImplicitGemm, Dtype::F64), "use fp32, tf32, fp16 or bf16");
    let convolution = Convolution::new(&device, &b.gemm, &g, form(Method::ImplicitGemm, Dtype::F16)).unwrap();
    let workspace = Workspace::new(&device, convolution.workspace_bytes()).unwrap();
    let array = |n: usize| b.input(&vec![0.0; n], Dtype::F16);
    let (x, weight, y) = (array(g.input_len()), array(g.weight_len()), array(g.output_len().unwrap()));
    let run = |x: &DeviceArray, weight: &DeviceArray, y: &DeviceArray| {
        convolution.forward(&b.stream, x, weight, None, Epilogue::None, y, &workspace)
    };
    run(&x, &weight, &y).unwrap();
    let check = |result: warpbook_device::Result<()>, words: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    check(run(&x.range(8..x.len()), &weight, &y), "x has the shape [2][5][5][8]");
    check(run(&x, &weight, &b.input(&vec![0.0; y.len()], Dtype::Bf16)), "y holds");
    check(run(&array(x.len() + 1).range(1..x.len() + 1), &weight, &y), "multiple of 16 bytes");
    b.stream.synchronize().unwrap();
}

#[test]
fn every_form_of_the_implicit_product_compiles() {
    let compiler = Compiler::new(None).unwrap_or_else(|e| panic!("{e}"));
    let turing = || rows::turing_forms().into_iter();
    let newer = TYPES.into_iter().flat_map(rows::forms).chain(turing()).map(|form| (form, "sm_90"));
    for (form, architecture) in newer.chain(turing().map(|form| (form, "sm_75"))) {
        let spec = form.spec();
        for tile in &spec.tiles {
            let built = compiler.compile(&spec, tile, architecture).unwrap_or_else(|e| panic!("{form:?}: {e}"));
            let stats = built.stats_of(&spec.entry).unwrap();
            assert_eq!(stats.spill_store_bytes + stats.spill_load_bytes, 0, "{form:?} {}", tile.id);
            // A block of sm_75 has no more.
            assert!(!form.turing || tile.dynamic_shared_bytes() <= 64 << 10, "{form:?} {}", tile.id);
        }
    }
}

#[test]
fn what_a_library_leaves_to_do_compiles() {
    let compiler = Compiler::new(None).unwrap_or_else(|e| panic!("{e}"));
    for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
        for spec in warpbook_kernels::nn::library(dtype) {
            for architecture in ["sm_75", "sm_90", "sm_120"] {
                let built = compiler.compile(&spec, &spec.tiles[0], architecture).unwrap_or_else(|e| panic!("{e}"));
                let stats = built.stats_of(&spec.entry).unwrap();
                assert_eq!(stats.spill_store_bytes + stats.spill_load_bytes, 0, "{} in {dtype:?}", spec.entry);
            }
        }
    }
}

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
        assert!(matches!(why, Error::NoCublas { .. }), "{why}");
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
    for by in [ProductBy::Naive, ProductBy::Tiled] {
        for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
            check_linears(&b, by, dtype);
        }
        let sizes = Sizes { batch: 8, inputs: 8, outputs: 8 };
        let error = Linear::by(by, &device, &b.gemm, &sizes, Dtype::Tf32, true).unwrap_err().to_string();
        assert_eq!(error, format!("The {by} product takes fp32, fp16, bf16, not tf32."));
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
        // After a library, the bias is added to an output that is rounded already.
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

/// Shapes that the kernels of few channels take: one to four steps of taps, several parts of an image, filters that are no multiples of 32,
/// strides, images smaller than the window.
fn few_shapes() -> Vec<Geometry> {
    let of = |kernel, stride, padding, g: Geometry| Geometry { kernel, stride, padding, ..g };
    vec![
        square(1, 1, [1, 8], [1, 1, 0]),
        square(3, 28, [1, 32], [3, 1, 0]),
        square(300, 28, [1, 32], [3, 1, 0]),
        square(5, 32, [3, 32], [3, 1, 1]),
        square(2, 9, [5, 40], [3, 1, 2]),
        square(2, 17, [7, 64], [3, 1, 1]),
        square(2, 2, [1, 8], [5, 1, 2]),
        of([1, 7], [3, 2], [0, 3], square(3, 40, [2, 24], [1, 1, 0])),
        square(1, 224, [3, 64], [4, 4, 0]),
    ]
}

fn check_few(test: &str, dtype: Dtype) {
    let Some(device) = testing::gpu(test) else { return };
    let bench = Bench::new(&device);
    let form = Form { method: Method::FewChannels, dtype, layout: Layout::Nhwc };
    for g in few_shapes() {
        assert!(Convolution::new(&device, &bench.gemm, &g, form).unwrap().is_few(), "{g:?}");
        Case::new(g, dtype).check(&bench, Method::FewChannels, Layout::Nhwc);
    }
    // What they do not take.
    for g in odd_shapes() {
        let case = Case::new(g, dtype);
        LAYOUTS.into_iter().for_each(|layout| case.check(&bench, Method::FewChannels, layout));
    }
}

#[test]
fn few_channels_in_f16_are_the_reference() {
    check_few("few_channels_in_f16_are_the_reference", Dtype::F16);
}

#[test]
fn few_channels_in_bf16_are_the_reference() {
    check_few("few_channels_in_bf16_are_the_reference", Dtype::Bf16);
}

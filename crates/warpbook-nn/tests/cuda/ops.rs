//! CUDA implementations of the operations are compared with the f64 reference and the CPU implementations.

use crate::in_f64 as reference;
use half::{bf16, f16};
use warpbook_data::philox::gaussian;
use warpbook_device::{Buffer, CudaDevice, Slice, Stream, testing};
use warpbook_gemm::DeviceArray;
use warpbook_gemm::storage::rounded;
use warpbook_kernels::nn::TYPES;
use warpbook_nn::ops::activation::{self, Activation, Kept};
use warpbook_nn::ops::augment::{self, Augment, Draw};
use warpbook_nn::ops::batch_norm::{self, BatchNorm, Running, Saved};
use warpbook_nn::ops::cross_entropy::{self, CrossEntropy};
use warpbook_nn::ops::dropout::{self, Dropout};
use warpbook_nn::ops::optimizer::{self, Optimizer, clip};
use warpbook_nn::ops::{Layout, add, mse, pool};
use warpbook_record::Dtype;

/// Lengths that are not whole groups of elements, and one length for which the grid has to loop.
const LENGTHS: [usize; 5] = [1, 3, 17, 1023, 5_000_011];
const LAYOUTS: [Layout; 2] = [Layout::Nhwc, Layout::Nchw];

fn random(n: usize, stream: u32, dtype: Dtype) -> Vec<f32> {
    (0..n as u64).map(|i| rounded(gaussian(17, i, stream), dtype)).collect()
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|v| f64::from(*v)).collect()
}

/// Returns the relative tolerance: half a unit in the last place of the type, plus a few rounding errors of f32.
fn tolerance(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F16 => 6e-4,
        Dtype::Bf16 => 5e-3,
        _ => 2e-6,
    }
}

#[track_caller]
fn close(what: &str, got: &[f32], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    let scale = want.iter().fold(1.0f64, |scale, v| scale.max(v.abs()));
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let error = (f64::from(*got) - want).abs();
        assert!(error <= tolerance * scale, "{what}[{i}] is {got}, not {want}");
    }
}

/// A GPU with a stream, for one type of elements.
struct Bench<'a> {
    device: &'a CudaDevice,
    stream: Stream,
    dtype: Dtype,
}

impl<'a> Bench<'a> {
    fn new(device: &'a CudaDevice, dtype: Dtype) -> Self {
        Self { device, stream: device.stream().unwrap(), dtype }
    }

    /// An array that starts at element `offset`: at an offset of 1 it is not aligned to 16 bytes.
    fn array(&self, values: &[f32], offset: usize) -> DeviceArray {
        let values: Vec<f32> = std::iter::repeat_n(0.0, offset).chain(values.iter().copied()).collect();
        let whole: DeviceArray = match self.dtype {
            Dtype::F16 => (&self.buffer(&values.iter().map(|v| f16::from_f32(*v)).collect::<Vec<_>>())).into(),
            Dtype::Bf16 => (&self.buffer(&values.iter().map(|v| bf16::from_f32(*v)).collect::<Vec<_>>())).into(),
            _ => (&self.buffer(&values)).into(),
        };
        whole.range(offset..values.len())
    }

    /// An output that is NaN before it is written.
    fn poison(&self, n: usize, offset: usize) -> DeviceArray {
        self.array(&vec![f32::NAN; n], offset)
    }

    fn buffer<T: warpbook_device::Element>(&self, values: &[T]) -> Buffer<T> {
        self.device.buffer_from(values).unwrap()
    }

    fn values(&self, array: &DeviceArray) -> Vec<f32> {
        self.stream.synchronize().unwrap();
        array.to_f32().unwrap()
    }

    fn slice<T: Copy + warpbook_device::Element>(&self, slice: &Slice<T>) -> Vec<T> {
        self.stream.synchronize().unwrap();
        slice.to_vec().unwrap()
    }
}

/// Runs a test for each type of elements, if there is a GPU.
fn for_types(test: &str, f: impl Fn(&Bench<'_>)) {
    let Some(device) = testing::gpu(test) else { return };
    for dtype in TYPES {
        f(&Bench::new(&device, dtype));
    }
}

#[test]
fn activations_are_the_references() {
    for_types("activations_are_the_references", |b| {
        let kernels = activation::cuda::Activations::new(b.device, b.dtype).unwrap();
        for (n, f, offset) in LENGTHS.iter().flat_map(|n| [(*n, Activation::Relu, 0), (*n, Activation::Gelu, 1)]) {
            let n = if f == Activation::Gelu { n.min(40_001) } else { n };
            let (x, dy) = (random(n, 1, b.dtype), random(n, 2, b.dtype));
            let (dx_at, y_at) = (b.poison(n, 0), b.poison(n, offset));
            let (x_at, dy_at) = (b.array(&x, offset), b.array(&dy, offset));
            kernels.forward(&b.stream, f, &x_at, &y_at).unwrap();
            let kept = if f.keeps() == Kept::Input { &x_at } else { &y_at };
            kernels.backward(&b.stream, f, kept, &dy_at, &dx_at).unwrap();
            let (x, dy) = (wide(&x), wide(&dy));
            close("y", &b.values(&y_at), &reference::activation(f, &x), tolerance(b.dtype));
            close("dx", &b.values(&dx_at), &reference::activation_gradient(f, &x, &dy), tolerance(b.dtype));
        }
        let special = b.array(&[f32::NAN, 0.0, -1.0, f32::INFINITY], 0);
        kernels.forward(&b.stream, Activation::Relu, &special, &special).unwrap();
        let y = b.values(&special);
        assert!(y[0].is_nan() && y[1..] == [0.0, 0.0, f32::INFINITY], "in place: {y:?}");
        let short = kernels.forward(&b.stream, Activation::Relu, &special, &special.range(0..3)).unwrap_err();
        assert!(short.to_string().contains("y has the shape [4]"), "{short}");
    });
}

#[test]
fn sums_are_rounded_once() {
    for_types("sums_are_rounded_once", |b| {
        let kernels = add::cuda::Add::new(b.device, b.dtype).unwrap();
        for (n, offset) in LENGTHS.iter().flat_map(|n| [(*n, 0), (*n, 1)]) {
            let (x, z) = (random(n, 1, b.dtype), random(n, 2, b.dtype));
            let (x_at, z_at, y_at) = (b.array(&x, offset), b.array(&z, 0), b.poison(n, 0));
            kernels.forward(&b.stream, &x_at, &z_at, &y_at).unwrap();
            kernels.accumulate(&b.stream, &z_at, &x_at).unwrap();
            let want: Vec<f32> = x.iter().zip(&z).map(|(x, z)| rounded(x + z, b.dtype)).collect();
            assert!(b.values(&y_at) == want && b.values(&x_at) == want, "{n} {offset} {:?}", b.dtype);
        }
    });
}

#[test]
fn dropout_draws_the_masks_of_the_cpu_and_replays_with_a_new_step() {
    for_types("dropout_draws_the_masks_of_the_cpu_and_replays_with_a_new_step", |b| {
        let kernels = dropout::cuda::Masks::new(b.device, b.dtype).unwrap();
        let step = b.buffer(&[7u32]);
        for (n, offset) in [(1, 0), (4099, 0), (4099, 1), (3_000_001, 0)] {
            let d = Dropout { seed: 0x1234_5678_9abc_def0, layer: 3, step: 7, probability: 0.3 };
            let x = random(n, 1, b.dtype);
            let (x_at, y_at) = (b.array(&x, offset), b.poison(n, 0));
            let want = |step| {
                let mut y = vec![f32::NAN; n];
                dropout::cpu::forward(&Dropout { step, ..d }, &x, &mut y).unwrap();
                y.iter().map(|y| rounded(*y, b.dtype)).collect::<Vec<_>>()
            };
            step.write(&[7]).unwrap();
            let queue = || kernels.forward(&b.stream, &d, &step, &x_at, &y_at);
            let graph = b.stream.capture_owning("dropout", (), |()| queue()).unwrap();
            graph.launch(&b.stream).unwrap();
            assert!(b.values(&y_at) == want(7), "{n} {offset} {:?}", b.dtype);
            step.write(&[8]).unwrap();
            graph.launch(&b.stream).unwrap();
            assert!(b.values(&y_at) == want(8), "{n} {offset} {:?}", b.dtype);
            for begin in [5, 6, 7, (1 << 35) + 4] {
                let mut y = vec![f32::NAN; n];
                dropout::cpu::forward_from(&Dropout { step: 8, ..d }, begin, &x, &mut y).unwrap();
                kernels.clone().from_element(begin).forward(&b.stream, &d, &step, &x_at, &y_at).unwrap();
                let want: Vec<f32> = y.iter().map(|y| rounded(*y, b.dtype)).collect();
                assert!(b.values(&y_at) == want, "{n} {offset} {:?}, from element {begin}", b.dtype);
            }
            kernels.backward(&b.stream, &d, &step, &x_at, &x_at).unwrap();
            assert!(b.values(&x_at) == want(8), "backwards and in place");
        }
    });
}

#[test]
fn cross_entropy_is_the_references() {
    for_types("cross_entropy_is_the_references", |b| {
        let kernels = cross_entropy::cuda::LossKernels::new(b.device, b.dtype).unwrap();
        for (batch, classes, smoothing) in [(1, 1, 0.0), (1, 10, 0.0), (67, 10, 0.1), (515, 256, 0.05), (3, 33, 1.0)] {
            let c = CrossEntropy { batch, classes, smoothing };
            let logits: Vec<f32> =
                random(batch * classes, 1, b.dtype).iter().map(|v| rounded(5.0 * v, b.dtype)).collect();
            let labels: Vec<u8> = (0..batch).map(|i| (i * 7 % classes) as u8).collect();
            let blocks = cross_entropy::cuda::LossKernels::blocks(batch);
            let (losses, hits) = (b.device.zeros::<f64>(blocks).unwrap(), b.device.zeros::<u32>(blocks).unwrap());
            let (slot, means, correct) = (b.buffer(&[2u32]), b.buffer(&[-1.0f64; 4]), b.buffer(&[9u32; 4]));
            let (labels_at, scale) = (b.buffer(&labels), b.buffer(&[64.0f32]));
            let (logits_at, gradient) = (b.array(&logits, 1), b.poison(logits.len(), 1));
            let work = cross_entropy::cuda::LossWorkspace { losses: &losses, hits: &hits };
            let to = cross_entropy::cuda::LossSlots { slot: &slot, losses: &means, correct: Some(&correct) };
            let arrays = (&logits_at, &*labels_at);
            kernels.loss_and_gradient(&b.stream, &c, arrays, Some(&scale), Some(&gradient), (work, to)).unwrap();
            let mut of_cpu = vec![f32::NAN; logits.len()];
            let cpu = cross_entropy::cpu::loss_and_gradient(&c, &logits, &labels, 64.0, &mut of_cpu).unwrap();
            let want: Vec<f64> =
                reference::cross_entropy_gradient(&c, &wide(&logits), &labels).iter().map(|v| 64.0 * v).collect();
            close("dlogits", &b.values(&gradient), &want, tolerance(b.dtype));
            let (mean, right) = (b.slice(&means), b.slice(&correct));
            let error = (mean[2] - reference::cross_entropy(&c, &wide(&logits), &labels)).abs();
            assert!(error <= 2e-6 * mean[2].abs().max(1.0), "{c:?}: {mean:?}");
            assert_eq!((mean[0], mean[3], &right), (-1.0, -1.0, &vec![9, 9, cpu.correct as u32, 9]));
            // The loss does not change without a gradient.
            for written in [&*means, &*b.buffer(&[0.0f64; 4])] {
                let to = cross_entropy::cuda::LossSlots { losses: written, ..to };
                kernels.loss_and_gradient(&b.stream, &c, arrays, None, None, (work, to)).unwrap();
                assert_eq!((b.slice(written)[2].to_bits(), b.slice(&correct)), (mean[2].to_bits(), right.clone()));
            }
        }
    });
}

#[test]
fn cross_entropy_counts_nan_and_equal_logits_as_the_cpu_does() {
    let Some(device) = testing::gpu("cross_entropy_counts_nan_and_equal_logits_as_the_cpu_does") else { return };
    let b = Bench::new(&device, Dtype::F32);
    let kernels = cross_entropy::cuda::LossKernels::new(&device, b.dtype).unwrap();
    let c = CrossEntropy { batch: 3, classes: 3, smoothing: 0.0 };
    let logits = b.array(&[1000.0, 0.0, -1000.0, 7.0, 7.0, 7.0, 0.0, 5.0, 0.0], 0);
    let gradient = b.poison(9, 0);
    let (losses, hits) = (b.device.zeros::<f64>(1).unwrap(), b.device.zeros::<u32>(1).unwrap());
    let (slot, means, correct) = (b.buffer(&[0u32]), b.buffer(&[0.0f64]), b.buffer(&[0u32]));
    let work = cross_entropy::cuda::LossWorkspace { losses: &losses, hits: &hits };
    let to = cross_entropy::cuda::LossSlots { slot: &slot, losses: &means, correct: Some(&correct) };
    let run = |labels: [u8; 3]| {
        let labels = b.buffer(&labels);
        kernels.loss_and_gradient(&b.stream, &c, (&logits, &labels), None, Some(&gradient), (work, to)).unwrap();
        (b.slice(&means)[0], b.slice(&correct)[0])
    };
    assert_eq!(run([0, 0, 1]).1, 3, "the first of equal logits is the prediction");
    assert_eq!(run([0, 1, 1]).1, 2);
    assert!(run([0, 1, 3]).0.is_nan(), "there is no class 3");
}

#[test]
fn mean_squared_error_is_the_references() {
    for_types("mean_squared_error_is_the_references", |b| {
        let kernels = mse::cuda::SquaredErrorKernels::new(b.device, b.dtype).unwrap();
        for (n, offset) in [(1, 0), (4095, 1), (100_003, 0)] {
            let (output, target) = (random(n, 1, b.dtype), random(n, 2, Dtype::F32));
            let (output_at, target_at, gradient) = (b.array(&output, offset), b.buffer(&target), b.poison(n, offset));
            let work = b.device.zeros::<f64>(kernels.blocks(n)).unwrap();
            let (slot, means, scale) = (b.buffer(&[0u32]), b.buffer(&[0.0f64]), b.buffer(&[n as f32]));
            let to = cross_entropy::cuda::LossSlots { slot: &slot, losses: &means, correct: None };
            let arrays = (&output_at, &*target_at);
            kernels.loss_and_gradient(&b.stream, arrays, Some(&scale), Some(&gradient), (&work, to)).unwrap();
            let (output, target) = (wide(&output), wide(&target));
            let want: Vec<f64> = reference::mse_gradient(&output, &target).iter().map(|v| v * n as f64).collect();
            close("doutput", &b.values(&gradient), &want, tolerance(b.dtype));
            let (got, want) = (b.slice(&means)[0], reference::mse(&output, &target));
            assert!((got - want).abs() <= 1e-12 * want, "{got} {want}");
            // The loss does not change without a gradient.
            let again = b.buffer(&[0.0f64]);
            let to = cross_entropy::cuda::LossSlots { losses: &again, ..to };
            kernels.loss_and_gradient(&b.stream, arrays, None, None, (&work, to)).unwrap();
            assert_eq!(b.slice(&again)[0].to_bits(), got.to_bits(), "{n} {offset}");
        }
    });
}

/// Converts an array of NHWC images to the layout.
fn laid_out(values: &[f32], layout: Layout, [pixels, channels]: [usize; 2]) -> Vec<f32> {
    if layout == Layout::Nhwc {
        return values.to_vec();
    }
    let image = |v: &[f32]| (0..pixels * channels).map(|i| v[i % pixels * channels + i / pixels]).collect::<Vec<_>>();
    values.chunks(pixels * channels).flat_map(image).collect()
}

/// Windows that are adjacent, overlapping and apart; a single image of one pixel; and windows larger than the
/// image.
fn pools() -> [pool::PoolGeometry; 7] {
    let geometry = |[batch, height, width, channels]: [usize; 4], size, stride, padding| pool::PoolGeometry {
        batch,
        height,
        width,
        channels,
        size,
        stride,
        padding,
    };
    [
        geometry([3, 7, 9, 5], [2, 2], [2, 2], [0, 0]),
        geometry([3, 7, 9, 5], [3, 2], [2, 1], [1, 1]),
        geometry([3, 7, 9, 5], [3, 3], [1, 2], [1, 0]),
        geometry([1, 1, 1, 1], [1, 1], [1, 1], [0, 0]),
        geometry([1, 11, 8, 3], [2, 2], [3, 3], [0, 0]),
        geometry([2, 2, 1, 7], [3, 3], [1, 1], [1, 1]),
        geometry([5, 8, 4, 17], [4, 4], [4, 4], [0, 0]),
    ]
}

#[test]
fn pooling_is_that_of_the_cpu() {
    for_types("pooling_is_that_of_the_cpu", |b| {
        for g in pools() {
            let ((oh, ow), n) = (g.output().unwrap(), g.output_len().unwrap());
            // The values are rounded to a few different numbers, so that windows contain equal values.
            let x: Vec<f32> = random(g.input_len(), 1, b.dtype).iter().map(|v| (2.0 * v).round()).collect();
            let dy: Vec<f32> = random(n, 2, b.dtype).iter().map(|v| (2.0 * v).round()).collect();
            let [mut y, mut average] = [vec![0.0; n], vec![0.0; n]];
            let [mut dx, mut average_dx] = [vec![0.0; x.len()], vec![0.0; x.len()]];
            let mut index = vec![0u8; n];
            pool::cpu::max_forward(&g, &x, &mut y, &mut index).unwrap();
            pool::cpu::max_backward(&g, &index, &dy, &mut dx).unwrap();
            pool::cpu::average_forward(&g, &x, &mut average).unwrap();
            pool::cpu::average_backward(&g, &dy, &mut average_dx).unwrap();
            for layout in LAYOUTS {
                let kernels = pool::cuda::Pooling::new(b.device, b.dtype, layout).unwrap();
                let input = |v: &[f32]| laid_out(v, layout, [g.height * g.width, g.channels]);
                let output = |v: &[f32]| laid_out(v, layout, [oh * ow, g.channels]);
                let (x_at, dy_at) = (b.array(&input(&x), 1), b.array(&output(&dy), 0));
                let (y_at, dx_at, index_at) = (b.poison(n, 0), b.poison(x.len(), 1), b.buffer(&vec![255u8; n]));
                kernels.max_forward(&b.stream, &g, &x_at, &y_at, &index_at).unwrap();
                assert_eq!(b.values(&y_at), output(&y), "{g:?} {layout:?}");
                let places: Vec<f32> = index.iter().map(|i| f32::from(*i)).collect();
                let got: Vec<f32> = b.slice(&index_at).iter().map(|i| f32::from(*i)).collect();
                assert_eq!(got, output(&places), "{g:?} {layout:?}");
                kernels.max_backward(&b.stream, &g, &index_at, &dy_at, &dx_at).unwrap();
                assert_eq!(b.values(&dx_at), input(&dx), "{g:?} {layout:?}");
                kernels.average_forward(&b.stream, &g, &x_at, &y_at).unwrap();
                close("average", &b.values(&y_at), &wide(&output(&average)), tolerance(b.dtype));
                kernels.average_backward(&b.stream, &g, &dy_at, &dx_at).unwrap();
                close("its dx", &b.values(&dx_at), &wide(&input(&average_dx)), tolerance(b.dtype));
            }
        }
    });
}

#[test]
fn windows_next_to_each_other_are_pooled_as_others_and_masked() {
    for_types("windows_next_to_each_other_are_pooled_as_others_and_masked", |b| {
        // The last row and column of the second case fit into no window.
        for (height, width, channels, size) in [(6, 4, 16, [2, 2]), (7, 9, 24, [2, 2]), (5, 6, 8, [1, 3])] {
            let g = pool::PoolGeometry { batch: 3, height, width, channels, size, stride: size, padding: [0; 2] };
            assert!(pool::cuda::Pooling::masks(&g, b.dtype, Layout::Nhwc));
            let n = g.output_len().unwrap();
            let mut x: Vec<f32> = random(g.input_len(), 1, b.dtype).iter().map(|v| (2.0 * v).round()).collect();
            // Some windows are all zeros, and one has a NaN.
            x.iter_mut().skip(200).take(90).for_each(|v| *v = 0.0);
            x[7] = f32::NAN;
            let dy = random(n, 2, b.dtype);
            let (mut y, mut index, mut dx) = (vec![0.0; n], vec![0u8; n], vec![0.0; x.len()]);
            pool::cpu::max_forward(&g, &x, &mut y, &mut index).unwrap();
            pool::cpu::max_backward(&g, &index, &dy, &mut dx).unwrap();
            let kernels = pool::cuda::Pooling::new(b.device, b.dtype, Layout::Nhwc).unwrap();
            let (x_at, dy_at, y_at) = (b.array(&x, 0), b.array(&dy, 0), b.poison(n, 0));
            let (dx_at, index_at) = (b.poison(x.len(), 0), b.buffer(&vec![255u8; n]));
            kernels.max_forward(&b.stream, &g, &x_at, &y_at, &index_at).unwrap();
            let bits = |v: &[f32]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            let same =
                |got: &[f32], want: &[f32]| got.iter().zip(want).all(|(a, b)| a == b || a.is_nan() && b.is_nan());
            assert!(same(&b.values(&y_at), &y), "{g:?}");
            assert_eq!(b.slice(&index_at), index, "{g:?}");
            kernels.max_backward(&b.stream, &g, &index_at, &dy_at, &dx_at).unwrap();
            assert_eq!(bits(&b.values(&dx_at)), bits(&dx), "{g:?}");
            // Cases: no dropout after the pool, and a dropout with probability 1/4.
            for scale in [1.0, 4.0 / 3.0] {
                kernels.max_backward_masked(&b.stream, &g, (&index_at, &y_at, scale), &dy_at, &dx_at).unwrap();
                let masked = |(dy, y): (&f32, &f32)| if *y <= 0.0 { 0.0 } else { rounded(*dy * scale, b.dtype) };
                let masked: Vec<f32> = dy.iter().zip(&y).map(masked).collect();
                pool::cpu::max_backward(&g, &index, &masked, &mut dx).unwrap();
                assert_eq!(b.values(&dx_at), dx, "{g:?}, {scale}");
            }
        }
        let overlapping = pool::PoolGeometry {
            batch: 1,
            height: 5,
            width: 5,
            channels: 8,
            size: [3, 3],
            stride: [2, 2],
            padding: [1, 1],
        };
        assert!(!pool::cuda::Pooling::masks(&overlapping, b.dtype, Layout::Nhwc));
    });
}

#[test]
fn batches_are_those_of_the_cpu() {
    for_types("batches_are_those_of_the_cpu", |b| {
        let a = Augment {
            channels: 3,
            height: 5,
            width: 7,
            mean: &[0.5, 0.4, 0.3],
            deviation: &[0.2, 0.3, 0.25],
            padding: 2,
            flip: true,
            reflect: false,
            epoch: None,
            view: None,
            seed: 99,
            step: 11,
        };
        let images: Vec<u8> = (0..20 * 105).map(|i| (i * 37 % 256) as u8).collect();
        let indices: Vec<u32> = (0..33).map(|i| i * 7 % 20).collect();
        let view = |row, column, flip| Some(Draw { row, column, flip });
        let cases = [
            a,
            Augment { reflect: true, ..a },
            // Step 11 is in the third epoch, since epochs have 4 steps.
            Augment { epoch: Some(2), ..a },
            Augment { epoch: Some(2), reflect: true, padding: 4, ..a },
            Augment { view: view(0, 3, false), reflect: true, ..a },
            Augment { view: view(4, 2, true), ..a },
        ];
        let (on_device, picked, step) = (b.buffer(&images), b.buffer(&indices), b.buffer(&[11u32]));
        for a in cases {
            let mut want = vec![f32::NAN; indices.len() * 105];
            augment::cpu::gather(&a, &images, &indices, &mut want).unwrap();
            let want: Vec<f32> = want.iter().map(|v| rounded(*v, b.dtype)).collect();
            for layout in LAYOUTS {
                let kernels = augment::cuda::Gather::new(b.device, &a, b.dtype, layout).unwrap().steps_per_epoch(4);
                let out = b.poison(want.len(), 1);
                kernels.gather(&b.stream, (&on_device, &picked), &step, &out).unwrap();
                assert!(b.values(&out) == laid_out(&want, layout, [35, 3]), "{layout:?} {:?} {a:?}", b.dtype);
                let none = b.buffer(&[20u32]);
                kernels.gather(&b.stream, (&on_device, &none), &step, &out.range(0..105)).unwrap();
                assert!(b.values(&out)[..105].iter().all(|v| v.is_nan()), "there is no image 20");
            }
        }
    });
}

#[test]
fn optimizers_step_as_on_the_cpu_and_skip() {
    let optimizers = [
        Optimizer::sgd(),
        Optimizer::Sgd { momentum: 0.9, nesterov: false, weight_decay: 0.01 },
        Optimizer::Sgd { momentum: 0.9, nesterov: true, weight_decay: 0.0 },
        Optimizer::Adam { betas: [0.9, 0.999], epsilon: 1e-8, weight_decay: 0.01 },
        Optimizer::adam_w(),
    ];
    for_types("optimizers_step_as_on_the_cpu_and_skip", |b| {
        for (optimizer, (n, offset)) in optimizers.iter().flat_map(|o| [(o, (10_007, 0)), (o, (1001, 1))]) {
            let kernels = optimizer::cuda::Update::new(b.device, *optimizer, b.dtype).unwrap();
            let mut weights = random(n, 1, Dtype::F32);
            let mut state = vec![vec![0.0f32; n]; optimizer.state_slots()];
            let shifted = |values: &[f32]| b.buffer(&[&vec![0.0; offset], values].concat()).range(offset..);
            let weights_at = shifted(&weights);
            let state_at: Vec<_> = state.iter().map(|s| shifted(s)).collect();
            let copy = b.poison(n, offset);
            let control = b.buffer(&[0.0f64, 0.0]);
            let step = b.buffer(&[0u32; optimizer::cuda::STEP_WORDS]);
            let (found, scale, factor) = (b.buffer(&[0u32]), b.buffer(&[4.0f32]), b.buffer(&[0.5f32]));
            // In every other step the last gradients have the type of the copy.
            let split = n / 2 / 4 * 4;
            for k in 1..=4u64 {
                let mut gradients = random(n, 10 + k as u32, Dtype::F32);
                gradients[split..].iter_mut().for_each(|g| *g = rounded(*g, b.dtype));
                let rate = 0.1 / k as f64;
                let scaled: Vec<f32> = gradients.iter().map(|g| 8.0 * g).collect();
                let rounded_at = k.is_multiple_of(2).then(|| b.array(&scaled[split..], offset));
                let exact = if rounded_at.is_some() { &scaled[..split] } else { &scaled };
                let gradients_at = shifted(exact);
                control.range(..1).write(&[rate]).unwrap();
                let p = optimizer::cuda::Parameters {
                    weights: &weights_at,
                    gradients: &gradients_at,
                    rounded: rounded_at.as_ref(),
                    state: &state_at,
                    copy: Some(&copy),
                };
                let c = optimizer::cuda::Control {
                    rate_and_steps: &control,
                    step: &step,
                    found: Some(&found),
                    loss_scale: Some(&scale),
                    clip: Some(&factor),
                };
                // The step is skipped, and not counted.
                let before = b.slice(&weights_at);
                found.write(&[1]).unwrap();
                kernels.step(&b.stream, p, c).unwrap();
                assert!(b.slice(&weights_at) == before && b.slice(&control)[1] == (k - 1) as f64);
                found.write(&[0]).unwrap();
                kernels.step(&b.stream, p, c).unwrap();
                optimizer::cpu::step(optimizer, rate, k, &mut weights, &gradients, &mut state).unwrap();
                let got = b.slice(&weights_at);
                close("weights", &got, &wide(&weights), 1e-6);
                for (got, want) in state_at.iter().zip(&state) {
                    close("state", &b.slice(got), &wide(want), 1e-6);
                }
                let copied: Vec<f32> = got.iter().map(|w| rounded(*w, b.dtype)).collect();
                assert!(b.values(&copy) == copied, "the copy is the weights, rounded");
                assert_eq!(b.slice(&control)[1], k as f64);
            }
        }
    });
}

#[test]
fn norms_and_what_is_not_finite() {
    for_types("norms_and_what_is_not_finite", |b| {
        let kernels = optimizer::cuda::Norm::new(b.device, &[b.dtype, Dtype::F32]).unwrap();
        // The last gradients are in an f32 array.
        for (n, last, offset) in [(1, 0, 0), (1, 1, 0), (16_385, 3, 1), (1_000_003, 20_000, 0)] {
            let gradients = random(n, 1, b.dtype);
            let first = n - last;
            let work = b.device.zeros::<f64>(kernels.blocks(&[first, last])).unwrap();
            let (norm, factor, found) = (b.buffer(&[0.0f64]), b.buffer(&[0.0f32]), b.buffer(&[9u32]));
            let scale = b.buffer(&[8.0f32]);
            let to = optimizer::cuda::NormOutputs { norm: &norm, clip: &factor, found: &found };
            let run = |values: &[f32]| {
                let exact = DeviceArray::from(&b.buffer(&[&values[first..], &[0.0]].concat()));
                let at = [b.array(&values[..first], offset), exact.range(0..last)];
                kernels.queue(&b.stream, &at, 0.5, Some(&scale), &work, to).unwrap();
                (b.slice(&norm)[0], b.slice(&factor)[0], b.slice(&found)[0])
            };
            let want = clip::global_norm(&[&gradients]) / 8.0;
            let (got, f, found) = run(&gradients);
            assert!((got - want).abs() <= 1e-12 * want, "{got} {want}");
            assert!((f - clip::factor(want, 0.5).unwrap()).abs() <= 1e-7 && found == 0, "{f} {found}");
            assert_eq!(run(&gradients).0.to_bits(), got.to_bits(), "the same bits on every run");
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut gradients = gradients.clone();
                gradients[n - 1] = bad;
                assert_eq!(run(&gradients).2, 1, "{bad}");
            }
        }
    });
}

#[test]
fn batch_norm_is_that_of_the_cpu() {
    for_types("batch_norm_is_that_of_the_cpu", |b| {
        for (images, pixels, channels, offset) in [(4, 1, 3, 0), (5, 63, 33, 1), (40, 64, 70, 0)] {
            let shape = BatchNorm::new(images * pixels, channels);
            let n = shape.rows * channels;
            let x: Vec<f32> = random(n, 1, b.dtype).iter().map(|v| rounded(v + 3.0, b.dtype)).collect();
            let dy = random(n, 2, b.dtype);
            let [gamma, beta] = [random(channels, 3, Dtype::F32), random(channels, 4, Dtype::F32)];
            let [mut mean, mut variance, mut saved, mut inverse] =
                [vec![0.0; channels], vec![1.0; channels], vec![0.0; channels], vec![0.0; channels]];
            let [mut y, mut dx, mut inferred] = [vec![0.0; n], vec![0.0; n], vec![0.0; n]];
            let [mut dgamma, mut dbeta] = [vec![0.0; channels], vec![0.0; channels]];
            let running = Running { mean: &mut mean, variance: &mut variance };
            let keep = Saved { mean: &mut saved, inverse_deviation: &mut inverse };
            batch_norm::cpu::forward_training(&shape, &x, [&gamma, &beta], &mut y, running, keep).unwrap();
            let gradients = [&mut dgamma[..], &mut dbeta];
            batch_norm::cpu::backward(&shape, &x, &gamma, [&saved, &inverse], &dy, &mut dx, gradients).unwrap();
            batch_norm::cpu::forward_inference(&shape, &x, [&gamma, &beta], [&mean, &variance], &mut inferred).unwrap();
            for layout in LAYOUTS {
                let kernels = batch_norm::cuda::Normalisation::new(b.device, b.dtype, layout).unwrap();
                let lay = |v: &[f32]| laid_out(v, layout, [pixels, channels]);
                let (x_at, dy_at) = (b.array(&lay(&x), offset), b.array(&lay(&dy), offset));
                let (y_at, dx_at) = (b.poison(n, offset), b.poison(n, 0));
                let vector = |values: &[f32]| b.buffer(values);
                let (gamma_at, beta_at) = (vector(&gamma), vector(&beta));
                let (mean_at, variance_at) = (vector(&vec![0.0; channels]), vector(&vec![1.0; channels]));
                let nan = vec![f32::NAN; channels];
                let [saved_at, inverse_at, dgamma_at, dbeta_at] = std::array::from_fn(|_| vector(&nan));
                let sums = b.device.zeros(batch_norm::cuda::Normalisation::sums_len(&shape)).unwrap();
                let lines = b.device.zeros(3 * channels).unwrap();
                let work = batch_norm::cuda::NormWorkspace { sums: &sums, lines: &lines, across: None };
                let (affine, saved_pair): ([&Slice<f32>; 2], [&Slice<f32>; 2]) =
                    ([&gamma_at, &beta_at], [&saved_at, &inverse_at]);
                let running: [&Slice<f32>; 2] = [&mean_at, &variance_at];
                let (s, gradients) = (&b.stream, (&shape, pixels));
                let t = tolerance(b.dtype);
                kernels.forward_training(s, gradients, (&x_at, &y_at), affine, (running, saved_pair), work).unwrap();
                close("y", &b.values(&y_at), &wide(&lay(&y)), t);
                let vectors =
                    [(&mean_at, &mean), (&variance_at, &variance), (&saved_at, &saved), (&inverse_at, &inverse)];
                for (got, want) in vectors {
                    close("statistics", &b.slice(got), &wide(want), 1e-6);
                }
                kernels
                    .backward(
                        s,
                        gradients,
                        [&x_at, &dy_at, &dx_at],
                        (&gamma_at, saved_pair),
                        [&dgamma_at, &dbeta_at],
                        work,
                    )
                    .unwrap();
                close("dx", &b.values(&dx_at), &wide(&lay(&dx)), t);
                close("dgamma", &b.slice(&dgamma_at), &wide(&dgamma), 2e-6);
                close("dbeta", &b.slice(&dbeta_at), &wide(&dbeta), 2e-6);
                kernels.forward_inference(s, gradients, (&x_at, &y_at), (affine, running), &lines).unwrap();
                close("y in inference", &b.values(&y_at), &wide(&lay(&inferred)), t);
            }
        }
    });
}

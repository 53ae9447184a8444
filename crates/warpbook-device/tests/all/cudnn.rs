//! Compares convolutions by cuDNN on a real GPU with loops in f64.

use warpbook_device::{
    Buffer, ConvolutionPass, CudaDevice, Cudnn, CudnnPlan, Error, Library, LibraryConvolution, Slice, testing,
};
use warpbook_record::Dtype;

const WORKSPACE: u64 = 64 << 20;

fn on_gpu(test: &str) -> Option<(CudaDevice, Cudnn)> {
    let device = testing::gpu(test)?;
    match Cudnn::open(&device) {
        Ok(library) => Some((device, library)),
        Err(why) if why.is_missing(Library::Cudnn) => {
            testing::skip(test, "needs cuDNN", why);
            None
        }
        Err(why) => panic!("{why}"),
    }
}

fn shape(dtype: Dtype, channels_last: bool) -> LibraryConvolution {
    LibraryConvolution {
        batch: 2,
        channels: 8,
        x: [9, 7],
        filters: 16,
        y: [5, 4],
        kernel: [3, 3],
        stride: [2, 2],
        padding: [1, 1],
        dtype,
        channels_last,
    }
}

/// Returns a float between 1 and 2 that uses all 24 bits of precision, or its negative.
fn fine(seed: u64, i: usize) -> f32 {
    let word = (i as u64 + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9 ^ (seed << 13));
    let size = f32::from_bits(0x3f80_0000 | ((word ^ (word >> 31)) as u32 & 0x007f_ffff));
    if word >> 63 == 0 { size } else { -size }
}

/// Returns the output y of an NCHW convolution in f64, with the sums of the magnitudes of its
/// terms.
fn reference(s: &LibraryConvolution, x: &[f32], w: &[f32]) -> Vec<(f64, f64)> {
    let [ih, iw] = s.x.map(|v| v as usize);
    let [oh, ow] = s.y.map(|v| v as usize);
    let [kh, kw] = s.kernel.map(|v| v as usize);
    let (channels, filters) = (s.channels as usize, s.filters as usize);
    let element = |at: usize| {
        let (n, o, oy, ox) = (at / (filters * oh * ow), at / (oh * ow) % filters, at / ow % oh, at % ow);
        let mut sum = (0.0, 0.0);
        for c in 0..channels {
            for i in 0..kh {
                for j in 0..kw {
                    let (row, column) = ((oy * 2 + i).wrapping_sub(1), (ox * 2 + j).wrapping_sub(1));
                    if row < ih && column < iw {
                        let x = f64::from(x[((n * channels + c) * ih + row) * iw + column]);
                        let term = x * f64::from(w[((o * channels + c) * kh + i) * kw + j]);
                        sum = (sum.0 + term, sum.1 + term.abs());
                    }
                }
            }
        }
        sum
    };
    (0..s.batch as usize * filters * oh * ow).map(element).collect()
}

struct Arrays {
    x: Vec<f32>,
    w: Vec<f32>,
    on_device: [Buffer<f32>; 3],
    workspace: Buffer<u8>,
}

impl Arrays {
    fn new(device: &CudaDevice, s: &LibraryConvolution, plan: &CudnnPlan) -> Self {
        let x: Vec<f32> = (0..2 * 8 * 9 * 7).map(|i| fine(1, i)).collect();
        let w: Vec<f32> = (0..16 * 8 * 9).map(|i| fine(2, i)).collect();
        let y = vec![f32::NAN; reference(s, &x, &w).len()];
        let on_device = [&x, &w, &y].map(|v| device.buffer_from(v).unwrap());
        let workspace = device.zeros(plan.workspace_bytes() as usize).unwrap();
        Self { x, w, on_device, workspace }
    }

    fn slices(&self) -> [Slice<u8>; 3] {
        self.on_device.each_ref().map(|b| b.cast())
    }
}

#[test]
fn fp32_is_not_tf32_and_a_graph_replays_it() {
    let Some((device, cudnn)) = on_gpu("fp32_is_not_tf32_and_a_graph_replays_it") else { return };
    println!("{cudnn:?}");
    let stream = device.stream().unwrap();
    for (dtype, bound) in
        // The bounds are for a sum of 72 terms in f32, and for operands truncated to 11 bits, both
        // with a safety factor of two.
        [(Dtype::F32, 80.0 * 2f64.powi(-24)), (Dtype::Tf32, 2f64.powi(-8))]
    {
        let s = shape(dtype, false);
        let plan = cudnn.plan(&s, ConvolutionPass::Forward, WORKSPACE).unwrap_or_else(|e| panic!("{e}"));
        println!("{plan:?}");
        let arrays = Arrays::new(&device, &s, &plan);
        let [x, w, y] = arrays.slices();
        let launch = || plan.launch(&stream, [&x, &w], &y, &arrays.workspace);
        let graph = stream.capture_owning("a convolution", (), |()| launch()).unwrap();
        graph.launch(&stream).unwrap();
        graph.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        let got = arrays.on_device[2].to_vec().unwrap();
        let bound = if plan.transforms() { 16.0 * bound } else { bound };
        for (i, (got, (want, scale))) in got.iter().zip(reference(&s, &arrays.x, &arrays.w)).enumerate() {
            let error = (f64::from(*got) - want).abs();
            assert!(error <= bound * scale, "{dtype:?}, {}: y[{i}] is {got}, not {want}", plan.algorithm());
        }
    }
}

#[test]
fn what_cannot_run_is_refused_in_words() {
    let Some((device, cudnn)) = on_gpu("what_cannot_run_is_refused_in_words") else { return };
    let refused = |error: Error, expect: &str| {
        assert!(matches!(error, Error::Unsupported { .. }) && error.to_string().contains(expect), "{error}");
    };
    let s = shape(Dtype::F32, false);
    let plan = |s| cudnn.plan(&s, ConvolutionPass::Forward, WORKSPACE);
    refused(plan(LibraryConvolution { dtype: Dtype::F64, ..s }).unwrap_err(), "not F64");
    refused(plan(LibraryConvolution { channels: 0, ..s }).unwrap_err(), "sides from 1");
    // This output size does not match the windows.
    refused(plan(LibraryConvolution { y: [9, 9], ..s }).unwrap_err(), "a convolution of 2 images of 8 x [9, 7]");
    let plan = plan(s).unwrap();
    let arrays = Arrays::new(&device, &s, &plan);
    let [x, w, y] = arrays.slices();
    let stream = device.stream().unwrap();
    let launch = |inputs: [&Slice<u8>; 2], y: &Slice<u8>| plan.launch(&stream, inputs, y, &arrays.workspace);
    refused(launch([&x.range(4..), &w], &y).unwrap_err(), "bytes of X");
    refused(launch([&w, &x], &y).unwrap_err(), "bytes of Weight");
    refused(launch([&x, &w], &x.range(..)).unwrap_err(), "overlaps no other array");
    launch([&x, &w], &y).unwrap();
    stream.synchronize().unwrap();
}

/// If several engines are about equally fast, repeated timings would choose different ones.
#[test]
fn a_convolution_that_is_prepared_again_has_the_same_engine() {
    let Some((device, cudnn)) = on_gpu("a_convolution_that_is_prepared_again_has_the_same_engine") else { return };
    for pass in [ConvolutionPass::Forward, ConvolutionPass::InputGradient, ConvolutionPass::WeightGradient] {
        let fastest = |cudnn: &Cudnn| cudnn.fastest(&shape(Dtype::F16, true), pass, WORKSPACE).unwrap();
        let first = fastest(&cudnn);
        for _ in 0..4 {
            let again = fastest(&Cudnn::open(&device).unwrap());
            assert_eq!((again.rank(), again.algorithm()), (first.rank(), first.algorithm()), "{pass:?}");
        }
    }
}

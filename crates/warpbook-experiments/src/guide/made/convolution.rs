//! A convolution of images with two layouts: channel by channel, or pixel by pixel.

use crate::guide::pair::PairWork;
use crate::guide::prepared::Arrays;
use rayon::prelude::*;
use warpbook_data::parallel::collect;
use warpbook_gemm::storage::Storage;
use warpbook_gemm::{DeviceArray, Gemm, Workspace};
use warpbook_lab::Result;
use warpbook_lab::experiment::{Candidate, Details, on_cpu, on_gpu};
use warpbook_nn::ops::Layout;
use warpbook_nn::ops::conv2d::Geometry;
use warpbook_nn::ops::conv2d::cuda::{Convolution, Epilogue, Form, Method, Pass};
use warpbook_record::Dtype;

/// Number of channels and of filters. In 16 bits, the channels of a pixel fill a 128-byte cache line.
const CHANNELS: usize = 64;
/// Number of rows and columns of an image.
const EDGE: usize = 32;

/// Returns the geometry of 3 x 3 windows over a batch of images with padded borders.
fn geometry(batch: usize) -> Geometry {
    Geometry {
        batch,
        height: EDGE,
        width: EDGE,
        channels: CHANNELS,
        filters: CHANNELS,
        kernel: [3, 3],
        stride: [1, 1],
        padding: [1, 1],
    }
}

/// Returns the work of a convolution of a batch in 16-bit types.
pub(in crate::guide) fn work(batch: u64) -> PairWork {
    let g = geometry(batch as usize);
    let (x, weight) = (g.input_len() as u64, g.weight_len() as u64);
    // The number of filters equals the number of channels, and each pixel has an output, so y is as large as x.
    let y = x;
    PairWork {
        n: batch,
        inputs: x + weight,
        outputs: y,
        flops: 2 * y * 9 * CHANNELS as u64,
        bytes: 2 * (x + weight + y),
        written_bytes: 2 * y,
        argument: 0,
        array_bytes: 2 * (x + weight + y),
    }
}

/// Returns the input, which consists of -1, 0 and 1, so that sums of 576 products are exact in every data type.
pub(in crate::guide) fn ternary(work: &PairWork) -> Vec<f32> {
    collect(work.inputs as usize, &|i| (((i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 3) as f32 - 1.0)
}

/// Splits the input into images and weights.
fn split_input(x: &[f32], batch: usize) -> (&[f32], &[f32]) {
    x.split_at(geometry(batch).input_len())
}

/// Computes y `[batch][height][width][filters]` directly from the definition. All sums are exact.
pub(in crate::guide) fn want(x: &[f32], work: &PairWork, _: u64) -> Vec<f64> {
    let (x, weight) = split_input(x, work.n as usize);
    let pixels = work.n as usize * EDGE * EDGE;
    let filters = |pixel: usize| {
        let mut y = [0.0f32; CHANNELS];
        for tap in 0..9 {
            let Some(from) = neighbour(pixel, tap) else { continue };
            let x = &x[from * CHANNELS..][..CHANNELS];
            for (o, y) in y.iter_mut().enumerate() {
                let w = &weight[(o * 9 + tap) * CHANNELS..][..CHANNELS];
                *y += x.iter().zip(w).map(|(x, w)| x * w).sum::<f32>();
            }
        }
        y.map(f64::from)
    };
    collect(pixels, &filters).concat()
}

/// Returns the pixel at tap `tap` of the 3 x 3 window around a pixel; `None` if it is outside the image.
fn neighbour(pixel: usize, tap: usize) -> Option<usize> {
    let (image, row, column) = (pixel / (EDGE * EDGE), pixel / EDGE % EDGE, pixel % EDGE);
    let (row, column) = ((row + tap / 3).checked_sub(1)?, (column + tap % 3).checked_sub(1)?);
    (row < EDGE && column < EDGE).then_some((image * EDGE + row) * EDGE + column)
}

/// Converts `[n][pixels][channels]` to `[n][channels][pixels]`.
fn channels_first(values: &[f32], n: usize, pixels: usize) -> Vec<f32> {
    let convolve = |image: &[f32]| {
        let mut to = vec![0.0; image.len()];
        for (pixel, from) in image.chunks(CHANNELS).enumerate() {
            from.iter().enumerate().for_each(|(c, v)| to[c * pixels + pixel] = *v);
        }
        to
    };
    values.chunks(values.len() / n).flat_map(convolve).collect()
}

/// Converts `[n][channels][pixels]` to `[n][pixels][channels]`.
fn channels_last(values: &[f32], n: usize, pixels: usize) -> Vec<f32> {
    let convolve = |image: &[f32]| {
        let mut to = vec![0.0; image.len()];
        for (c, from) in image.chunks(pixels).enumerate() {
            from.iter().enumerate().for_each(|(pixel, v)| to[pixel * CHANNELS + c] = *v);
        }
        to
    };
    values.chunks(values.len() / n).flat_map(convolve).collect()
}

/// Returns the images and the weights in a given layout.
fn arranged(arrays: &Arrays, layout: Layout) -> [Vec<f32>; 2] {
    let batch = arrays.work.n as usize;
    let (x, weight) = split_input(&arrays.x, batch);
    match layout {
        Layout::Nhwc => [x.to_vec(), weight.to_vec()],
        Layout::Nchw => [channels_first(x, batch, EDGE * EDGE), channels_first(weight, CHANNELS, 9)],
    }
}

/// Creates a candidate that computes the convolution on the GPU in fp16, with a method and a layout.
pub(in crate::guide) fn on_the_gpu(arrays: &Arrays, method: Method, layout: Layout) -> Result<Box<dyn Candidate + '_>> {
    let on = arrays.on_gpu()?;
    let batch = arrays.work.n as usize;
    let [x, weight] = arranged(arrays, layout).map(|values| Storage::from_f32(&on.device, &values, Dtype::F16));
    let [x, weight, y]: [DeviceArray; 3] =
        [(&x?).into(), (&weight?).into(), (&Storage::zeros(&on.device, arrays.want.len(), Dtype::F16)?).into()];
    let gemm = Gemm::new(&on.device);
    let form = Form { method, dtype: Dtype::F16, layout };
    let convolution = Convolution::new(&on.device, &gemm, &geometry(batch), form)?;
    let workspace = Workspace::new(&on.device, convolution.workspace_bytes())?;
    let details = Details {
        kernels: convolution.kernel_stats(Pass::Forward),
        dtype: Some(Dtype::F16),
        peak_bytes: Some(arrays.work.array_bytes + convolution.workspace_bytes()),
        ..Details::default()
    };
    let (poisoned, written) = (y.clone(), y.clone());
    let launch = move || convolution.forward(&on.stream, &x, &weight, None, Epilogue::None, &y, &workspace);
    let check = move || {
        let y = written.to_f32()?;
        Ok(match layout {
            Layout::Nhwc => arrays.check(&y),
            Layout::Nchw => arrays.check(&channels_last(&y, batch, EDGE * EDGE)),
        })
    };
    Ok(Box::new(
        on_gpu(&on.stream, launch, check).resetting(move || poisoned.bytes().fill_bytes(0xff)).details(details),
    ))
}

/// Creates a candidate that computes the convolution on the CPU, with one image per thread. Both layouts use the same
/// loops, with the channels innermost.
pub(in crate::guide) fn on_the_cpu(arrays: &Arrays, layout: Layout) -> Result<Box<dyn Candidate + '_>> {
    let batch = arrays.work.n as usize;
    let [x, weight] = arranged(arrays, layout);
    // The strides between neighbouring channels and between neighbouring pixels.
    let steps = move |pixels: usize| if layout == Layout::Nhwc { [1, CHANNELS] } else { [pixels, 1] };
    let launch = move || {
        let mut out = arrays.out.borrow_mut();
        let ([channel, pixel], [term, tap]) = (steps(EDGE * EDGE), steps(9));
        let image_len = EDGE * EDGE * CHANNELS;
        out.par_chunks_mut(image_len).zip(x.par_chunks(image_len)).for_each(|(y, x)| {
            for at in 0..EDGE * EDGE {
                for o in 0..CHANNELS {
                    let mut sum = 0.0;
                    for t in 0..9 {
                        let Some(from) = neighbour(at, t) else { continue };
                        let (x, w) = (&x[from * pixel..], &weight[o * 9 * CHANNELS + t * tap..]);
                        sum += (0..CHANNELS).map(|c| x[c * channel] * w[c * term]).sum::<f32>();
                    }
                    y[at * pixel + o * channel] = sum;
                }
            }
        });
        Ok(())
    };
    let check = move || {
        let y = arrays.out.borrow();
        Ok(match layout {
            Layout::Nhwc => arrays.check(&y),
            Layout::Nchw => arrays.check(&channels_last(&y, batch, EDGE * EDGE)),
        })
    };
    Ok(Box::new(on_cpu(launch, check)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convolution::reference;

    #[test]
    fn the_reference_is_the_definition() {
        let work = work(2);
        let all = ternary(&work);
        let (x, weight) = split_input(&all, 2);
        let wide = |v: &[f32]| v.iter().map(|v| f64::from(*v)).collect::<Vec<_>>();
        assert_eq!(want(&all, &work, 2), reference::conv2d(&geometry(2), &wide(x), &wide(weight), None));
        let there = channels_first(x, 2, EDGE * EDGE);
        assert!(there != x && channels_last(&there, 2, EDGE * EDGE) == x);
        // All three values must be frequent, so that errors in the convolution show.
        assert!([-1.0, 0.0, 1.0].iter().all(|v| all.iter().filter(|x| *x == v).count() > all.len() / 5));
    }
}

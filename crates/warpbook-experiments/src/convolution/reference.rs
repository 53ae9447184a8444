//! The convolution in f64, straight from its definition: loops over every index, in one thread, without blocking, and without code of the implementations. The
//! functions panic if slices do not have the lengths given by the shapes.

use warpbook_nn::ops::conv2d;

/// One product of a convolution: the indices of its two factors in x and weight, and of the sum in y.
struct Term {
    x: usize,
    weight: usize,
    y: usize,
}

/// Returns the position `output * stride + tap - padding` along an axis of length `size`; `None` if it is in the padding.
#[must_use]
pub fn position(output: usize, stride: usize, tap: usize, padding: usize, size: usize) -> Option<usize> {
    (output * stride + tap).checked_sub(padding).filter(|at| *at < size)
}

/// Returns the height and width of the output, found by counting the windows that fit.
#[must_use]
pub fn output(sides: [usize; 2], window: [usize; 2], stride: [usize; 2], padding: [usize; 2]) -> [usize; 2] {
    let fit = |side: usize| {
        let padded = sides[side] + 2 * padding[side];
        (0..).take_while(|i| i * stride[side] + window[side] <= padded).count()
    };
    [fit(0), fit(1)]
}

fn each_term(g: &conv2d::Geometry, mut f: impl FnMut(Term)) {
    let [oh, ow] = output([g.height, g.width], g.kernel, g.stride, g.padding);
    for n in 0..g.batch {
        for oy in 0..oh {
            for ox in 0..ow {
                for o in 0..g.filters {
                    for i in 0..g.kernel[0] {
                        for j in 0..g.kernel[1] {
                            let row = position(oy, g.stride[0], i, g.padding[0], g.height);
                            let column = position(ox, g.stride[1], j, g.padding[1], g.width);
                            let Some((row, column)) = row.zip(column) else { continue };
                            for c in 0..g.channels {
                                f(Term {
                                    x: ((n * g.height + row) * g.width + column) * g.channels + c,
                                    weight: ((o * g.kernel[0] + i) * g.kernel[1] + j) * g.channels + c,
                                    y: ((n * oh + oy) * ow + ox) * g.filters + o,
                                });
                            }
                        }
                    }
                }
            }
        }
    }
}

fn conv2d_len(g: &conv2d::Geometry) -> usize {
    let [oh, ow] = output([g.height, g.width], g.kernel, g.stride, g.padding);
    g.batch * oh * ow * g.filters
}

/// Computes the output y of [`conv2d`](mod@warpbook_nn::ops::conv2d).
#[must_use]
pub fn conv2d(g: &conv2d::Geometry, x: &[f64], weight: &[f64], bias: Option<&[f64]>) -> Vec<f64> {
    let mut y: Vec<f64> = (0..conv2d_len(g)).map(|i| bias.map_or(0.0, |b| b[i % g.filters])).collect();
    each_term(g, |t| y[t.y] += x[t.x] * weight[t.weight]);
    y
}

/// Computes the input gradient dx of a convolution from dy.
#[must_use]
pub fn conv2d_input_gradient(g: &conv2d::Geometry, dy: &[f64], weight: &[f64]) -> Vec<f64> {
    let mut dx = vec![0.0; g.batch * g.height * g.width * g.channels];
    each_term(g, |t| dx[t.x] += dy[t.y] * weight[t.weight]);
    dx
}

/// Computes the weight gradient of a convolution from x and dy.
#[must_use]
pub fn conv2d_weight_gradient(g: &conv2d::Geometry, x: &[f64], dy: &[f64]) -> Vec<f64> {
    let mut dweight = vec![0.0; g.filters * g.kernel[0] * g.kernel[1] * g.channels];
    each_term(g, |t| dweight[t.weight] += dy[t.y] * x[t.x]);
    dweight
}

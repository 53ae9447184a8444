use super::convolution::{output, position};
use warpbook_nn::ops::pool;

/// For each element of y, the elements of its window that lie in the image: their indices in the window and in x.
fn pool_windows(g: &pool::PoolGeometry) -> Vec<Vec<(usize, usize)>> {
    let [oh, ow] = output([g.height, g.width], g.size, g.stride, g.padding);
    let mut windows = Vec::new();
    for n in 0..g.batch {
        for oy in 0..oh {
            for ox in 0..ow {
                for c in 0..g.channels {
                    let taps = (0..g.size[0]).flat_map(|i| (0..g.size[1]).map(move |j| (i, j)));
                    let inside = taps.filter_map(|(i, j)| {
                        let row = position(oy, g.stride[0], i, g.padding[0], g.height)?;
                        let column = position(ox, g.stride[1], j, g.padding[1], g.width)?;
                        Some((i * g.size[1] + j, ((n * g.height + row) * g.width + column) * g.channels + c))
                    });
                    windows.push(inside.collect());
                }
            }
        }
    }
    windows
}

/// For each window, the index of its maximum in x and in the window: the last NaN, or the first of the largest
/// values.
fn maxima(g: &pool::PoolGeometry, x: &[f64]) -> Vec<(usize, usize)> {
    let choose = |window: &Vec<(usize, usize)>| {
        let nan = window.iter().rev().find(|(_, at)| x[*at].is_nan());
        let largest = window.iter().map(|(_, at)| x[*at]).fold(f64::NEG_INFINITY, f64::max);
        *nan.or_else(|| window.iter().find(|(_, at)| x[*at] == largest)).expect("a window meets its image")
    };
    pool_windows(g).iter().map(choose).collect()
}

/// Computes y and the indices of the maxima.
pub fn max_pool(g: &pool::PoolGeometry, x: &[f64]) -> (Vec<f64>, Vec<u8>) {
    maxima(g, x).into_iter().map(|(element, at)| (x[at], element as u8)).unzip()
}

/// Computes dx of a maximum pool from dy.
pub fn max_pool_gradient(g: &pool::PoolGeometry, x: &[f64], dy: &[f64]) -> Vec<f64> {
    let mut dx = vec![0.0; x.len()];
    maxima(g, x).into_iter().zip(dy).for_each(|((_, at), dy)| dx[at] += dy);
    dx
}

/// Computes y of an average pool, which counts the zeros of the padding.
pub fn average_pool(g: &pool::PoolGeometry, x: &[f64]) -> Vec<f64> {
    let size = (g.size[0] * g.size[1]) as f64;
    pool_windows(g).iter().map(|window| window.iter().map(|(_, at)| x[*at]).sum::<f64>() / size).collect()
}

/// Computes dx of an average pool from dy.
pub fn average_pool_gradient(g: &pool::PoolGeometry, dy: &[f64]) -> Vec<f64> {
    let size = (g.size[0] * g.size[1]) as f64;
    let mut dx = vec![0.0; g.batch * g.height * g.width * g.channels];
    for (window, dy) in pool_windows(g).iter().zip(dy) {
        window.iter().for_each(|(_, at)| dx[*at] += dy / size);
    }
    dx
}

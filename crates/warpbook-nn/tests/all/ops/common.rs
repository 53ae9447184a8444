use crate::in_f64::finite_difference;
use warpbook_data::philox::gaussian;
use warpbook_nn::ops::OpError;

/// Gaussian random numbers; each `stream` gives different numbers.
pub fn random(n: usize, stream: u32) -> Vec<f32> {
    (0..n as u64).map(|i| gaussian(17, i, stream)).collect()
}

pub fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|v| f64::from(*v)).collect()
}

/// An unwritten output; its NaNs reveal an element that was read or left out.
pub fn poison(n: usize) -> Vec<f32> {
    vec![f32::NAN; n]
}

/// Checks that every element is within `tolerance` of the expected one, relative to the largest expected one or 1.
#[track_caller]
pub fn close(what: &str, got: &[f32], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    let scale = want.iter().fold(1.0f64, |scale, v| scale.max(v.abs()));
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let error = (f64::from(*got) - want).abs();
        assert!(error <= tolerance * scale, "{what}[{i}] is {got}, not {want}");
    }
}

/// Checks that `gradient` is the gradient of the sum of `weights * f(x)`.
#[track_caller]
pub fn is_gradient(what: &str, x: &[f64], weights: &[f64], gradient: &[f64], f: impl Fn(&[f64]) -> Vec<f64>) {
    const STEP: f64 = 1e-5;
    let dot = |x: &[f64]| {
        let y = f(x);
        assert_eq!(y.len(), weights.len(), "{what}");
        y.iter().zip(weights).map(|(y, w)| y * w).sum::<f64>()
    };
    let want = finite_difference(x, STEP, dot);
    assert_eq!(gradient.len(), want.len(), "{what}");
    let scale = want.iter().fold(1.0f64, |scale, v| scale.max(v.abs()));
    for (i, (got, want)) in gradient.iter().zip(&want).enumerate() {
        assert!((got - want).abs() <= 1e-7 * scale, "d{what}[{i}] is {got}, by finite differences {want}");
    }
}

/// Checks that all arrays from `f` have the same bits on 1, 2, 3 and 7 threads.
#[track_caller]
pub fn same_bits(what: &str, f: impl Fn() -> Vec<Vec<f32>> + Send + Sync) {
    let bits = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let arrays = pool.install(&f);
        arrays.iter().map(|a| a.iter().map(|v| v.to_bits()).collect()).collect::<Vec<Vec<u32>>>()
    };
    let one = bits(1);
    for threads in [2, 3, 7] {
        assert!(bits(threads) == one, "{what}: {threads} threads give other bits than 1");
    }
}

/// Checks that the call is refused with a message that contains these words.
#[track_caller]
pub fn refused<T: std::fmt::Debug>(result: Result<T, OpError>, words: &str) {
    let error = result.unwrap_err().to_string();
    assert!(error.contains(words), "{error}");
}

//! Tests of the check of CPU implementations; `crates/warpbook/tests/all/own_layer.rs` tests kernels.

use super::*;

/// Returns an element-wise layer y = f(x, p).
fn elementwise(
    f: fn(f32, f32) -> f32,
    by_x: fn(f32, f32, f32) -> f32,
    by_p: impl Fn(f32, f32, f32) -> f32 + Send + Sync + 'static,
) -> OwnLayer {
    OwnLayer::new("mine", "no kernels").parameter("p", [1], 0.5).on_cpu(
        move |c| c.y.iter_mut().zip(c.x).for_each(|(y, x)| *y = f(*x, c.parameters[0][0])),
        move |c| {
            let p = c.parameters[0][0];
            for (i, dx) in c.dx.iter_mut().enumerate() {
                *dx = by_x(c.x[i], p, c.dy[i]);
                c.gradients[0][0] += by_p(c.x[i], p, c.dy[i]);
            }
        },
    )
}

fn report(layer: &OwnLayer, input: impl Into<Shape>) -> OwnReport {
    check_on_cpu(layer, input).unwrap()
}

fn flaw(layer: &OwnLayer) -> String {
    report(layer, [2, 4, 5]).flaw.unwrap_or_else(|| "nothing is wrong".into())
}

#[test]
fn a_right_layer_is_right() {
    let square = elementwise(|x, p| p * x * x, |x, p, dy| 2.0 * p * x * dy, |x, _, dy| x * x * dy);
    let r = report(&square, [2, 4, 5]);
    assert!(r.is_right(), "{r}");
    let arrays: Vec<(&str, usize)> = r.rows.iter().map(|r| (r.array.as_str(), r.compared)).collect();
    assert_eq!(arrays, [("dx", 120), ("dp", 1)]);
    assert!(r.verdict().starts_with("mine is right for 2 x 4 x 5 on the CPU"), "{}", r.verdict());
    assert!(r.to_string().contains("against slopes of y"), "{r}");
    // A curved function, over a range that excludes 0.
    let log = elementwise(|x, p| p * x.ln(), |x, p, dy| p / x * dy, |x, _, dy| x.ln() * dy);
    assert!(flaw(&log).contains("y[0]") && flaw(&log).contains("checked_between"), "{}", flaw(&log));
    let log = log.checked_between(0.1, 3.0);
    assert!(report(&log, 30).is_right(), "{}", report(&log, 30));
}

#[test]
fn a_kink_is_passed_over_and_a_step_function_cannot_be_checked() {
    let leaky = elementwise(
        |x, p| if x > 0.0 { x } else { p * x },
        |x, p, dy| if x > 0.0 { dy } else { p * dy },
        |x, _, dy| if x > 0.0 { 0.0 } else { x * dy },
    );
    let r = report(&leaky, [8, 13, 13]);
    assert!(r.is_right(), "{r}");
    let dx = &r.rows[0];
    // 1.2 % of standard Gaussian numbers are within 1/64 of 0.
    assert!((10..100).contains(&dx.passed_over), "{dx:?}");
    assert_eq!(dx.compared + dx.passed_over, 3 * 8 * 13 * 13);
    let comb = elementwise(|x, _| (x * 100.0).floor() / 100.0, |_, _, dy| dy, |_, _, _| 0.0);
    assert!(flaw(&comb).contains("kink or a jump"), "{}", flaw(&comb));
}

#[test]
fn a_wrong_gradient_is_told_with_its_place_and_pattern() {
    let f = |x: f32, p: f32| p * x * x;
    let by_p = |x: f32, _: f32, dy: f32| x * x * dy;
    let check = |by_x: fn(f32, f32, f32) -> f32, expect: &str| {
        let flaw = flaw(&elementwise(f, by_x, by_p));
        assert!(flaw.contains("the slope there is") && flaw.contains(expect), "{flaw}");
    };
    check(|x, p, dy| p * x * dy, "dx is 0.5000 times the slope everywhere");
    check(|x, p, dy| -2.0 * p * x * dy, "dx has the wrong sign everywhere");
    check(|_, _, _| 0.0, "dx is 0 everywhere");
    check(|x, p, _| 2.0 * p * x, "multiply it by dy");
    check(|x, p, dy| if x > 1.0 { 0.0 } else { 2.0 * p * x * dy }, "dx[");
    check(|x, p, dy| 2.02 * p * x * dy, "times the slope");
    let of_p = |by_p: fn(f32, f32, f32) -> f32| flaw(&elementwise(f, |x, p, dy| 2.0 * p * x * dy, by_p));
    assert!(of_p(|x, _, dy| x * dy).contains("dp[0] is"), "{}", of_p(|x, _, dy| x * dy));
    assert!(of_p(|_, _, _| 0.0).contains("dp is 0 everywhere"));
}

#[test]
fn a_layer_of_whole_samples_is_checked_too() {
    // This layer computes the mean of each channel, so its output has another shape than its input.
    let mean = OwnLayer::new("mean", "no kernels").output(2).on_cpu(
        |c| {
            for n in 0..c.sizes.batch {
                for channel in 0..2 {
                    let pixels = (0..12).map(|i| c.x[c.sizes.index(n, channel, i / 4, i % 4)]);
                    c.y[c.sizes.out_index(n, channel, 0, 0)] = pixels.sum::<f32>() / 12.0;
                }
            }
        },
        |c| {
            for n in 0..c.sizes.batch {
                for (channel, i) in (0..2).flat_map(|channel| (0..12).map(move |i| (channel, i))) {
                    let dy = c.dy[c.sizes.out_index(n, channel, 0, 0)];
                    c.dx[c.sizes.index(n, channel, i / 4, i % 4)] = dy / 12.0;
                }
            }
        },
    );
    let r = report(&mean, [2, 3, 4]);
    assert!(r.is_right(), "{r}");
    assert_eq!((r.output, r.rows.len(), r.rows[0].compared), (Shape::Vector(2), 1, 72));
}

#[test]
fn what_is_left_out_and_what_changes_is_found() {
    let leaves_out = OwnLayer::new("a", "x").on_cpu(|_| {}, |c| c.dx.copy_from_slice(c.dy));
    assert!(flaw(&leaves_out).contains("y[0][0][0][0] is NaN"), "{}", flaw(&leaves_out));
    let counter = std::sync::atomic::AtomicU32::new(0);
    let changes = OwnLayer::new("a", "x").on_cpu(
        move |c| c.y.fill(counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed) as f32),
        |c| c.dx.fill(0.0),
    );
    assert!(flaw(&changes).contains("y differs between runs"), "{}", flaw(&changes));
}

#[test]
fn what_cannot_be_checked_is_refused() {
    let sentence = |layer: &OwnLayer, input: Shape| check_on_cpu(layer, input).unwrap_err().to_string();
    let plain = OwnLayer::new("plain", "x");
    assert_eq!(sentence(&plain, 4.into()), "The layer `plain`: has no body for the CPU.");
    assert!(sentence(&plain, [1 << 12, 1 << 12, 1].into()).contains("choose another shape"));
    assert!(sentence(&plain.clone().threads(7), 4.into()).contains("multiple of 32"));
}

//! The check of a learner's layer on a GPU: right layers pass, and each error is named.

use crate::custom_layers::{SOFTMAX, affine, mean, own_relu, softmax, swish, swish_on_both, swish_with};
use warpbook_device::testing;
use warpbook_lab::custom_layer::check;
use warpbook_nn::ops::custom_layer::OwnLayer;

#[test]
fn right_layers_pass_the_check() {
    let Some(device) = testing::gpu("right_layers_pass_the_check") else { return };
    let shape = [8, 13, 13];
    for layer in [own_relu(), swish(), softmax(), affine(8), mean(8), swish_on_both(), swish().threads(1024)] {
        let report = check(&device, &layer, shape).unwrap_or_else(|e| panic!("{}: {e}", layer.name()));
        assert!(report.is_right(), "{report}");
        println!("{report}\n");
        let slopes = report.rows.iter().filter(|r| r.against == "slopes of y").count();
        assert_eq!(slopes, 1 + layer.parameters().len(), "{report}");
        for form in ["fp32, NHWC", "fp16, NHWC", "bf16, NHWC"] {
            assert!(report.rows.iter().any(|r| r.form == form && r.array == "y"), "{form}: {report}");
        }
        assert_eq!(report.rows.iter().any(|r| r.form == "CPU"), layer.has_cpu_body());
        assert!(report.stats.len() == 2 && report.stats[0].registers > 0);
    }
    for layer in [own_relu(), swish(), softmax()] {
        let report = check(&device, &layer, 37).unwrap();
        assert!(report.is_right(), "{report}");
    }
}

#[test]
fn what_is_wrong_is_found_and_named() {
    let Some(device) = testing::gpu("what_is_wrong_is_found_and_named") else { return };
    let check = |layer: OwnLayer, expect: &[&str]| {
        let report = check(&device, &layer, [4, 5, 7]).unwrap_or_else(|e| panic!("{e}"));
        let flaw = report.flaw.clone().unwrap_or_else(|| format!("nothing was found: {report}"));
        println!("{flaw}");
        assert!(expect.iter().all(|e| flaw.contains(e)), "{expect:?}: {flaw}");
    };
    let with = swish_with;
    check(with("dx[i] = g * s * (1 + *beta * v * (1 - s))", "dx[i] = g * s"), &["dx[", "the slope there is"]);
    check(with("dx[i] = g *", "dx[i] = 2 * g *"), &["dx is 2.000 times the slope everywhere"]);
    check(with("dx[i] = g *", "dx[i] ="), &["multiply it by dy"]);
    check(with("share = g * v * v", "share = g * v"), &["dbeta[0]", "the slope there is"]);
    check(
        with("if (threadIdx.x == 0) dbeta", "if (blockIdx.x == 0 && threadIdx.x == 0) dbeta"),
        &["dbeta[1][0] is not written"],
    );
    check(
        with("if (i >= n) return;\n    float v", "if (i > n) return;\n    float v"),
        &["Memory around y was written to", "1 after it"],
    );
    check(
        with("if (i >= n) return;\n    float v", "if (i >= n - 1) return;\n    float v"),
        &["y[2][3][4][6] is not written"],
    );
    check(with("if (i < n) {", "if (i < n && i != 5) {"), &["dx[0][0][0][5] is not written"]);
    check(with("y[i] = v /", "y[i] = blockIdx.x + clock() + 0 * v /"), &["y differs between runs"]);
    check(with("y[i] = v /", "y[i] = logf(v) /"), &["y[", "checked_between"]);
    // An index for NCHW is correct only in that layout.
    let nchw = SOFTMAX
        .replace("index(blockIdx.x, c, row, column)", "((blockIdx.x * CHANNELS + c) * HEIGHT + row) * WIDTH + column");
    check(OwnLayer::new("nchw", nchw).one_block_a_sample(), &["fp32, NHWC", "fp32, NCHW", "either layout"]);
    // 65504 is the largest fp16 number.
    check(with("y[i] = v /", "y[i] = 1e6f * v /"), &["dx["]);
}

#[test]
fn a_kernel_that_does_not_fit_its_launch_is_an_error() {
    let Some(device) = testing::gpu("a_kernel_that_does_not_fit_its_launch_is_an_error") else { return };
    let layer = swish_with("__global__ void forward", "__global__ void __launch_bounds__(64) forward");
    let sentence = match check(&device, &layer, [4, 5, 7]) {
        // The compiler may apply the larger launch bound of the kernel's declaration, so that the launch succeeds.
        Ok(report) => {
            assert!(report.is_right(), "{report}");
            return;
        }
        Err(error) => error.to_string(),
    };
    assert!(sentence.contains("forward in live/swish.cu") && sentence.contains("at most 64 threads"), "{sentence}");
}

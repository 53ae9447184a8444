//! cuDNN's convolutions.

use super::bench::{Bench, LAYOUTS};
use super::case::Case;
use super::shapes::{layers, odd_shapes};
use std::panic::AssertUnwindSafe;
use warpbook_device::{Error, Library, testing};
use warpbook_nn::ops::conv2d::Geometry;
use warpbook_nn::ops::conv2d::cuda::{Convolution, Form, Method};
use warpbook_record::Dtype;

/// Checks every convolution that cuDNN supports, which must include the networks' convolutions. All errors are reported
/// together.
fn check_stock(test: &str, method: Method, dtype: Dtype, shapes: &[Geometry]) {
    let Some(device) = testing::gpu(test) else { return };
    if let Err(why) = warpbook_device::Cudnn::open(&device) {
        assert!(why.is_missing(Library::Cudnn), "{why}");
        return testing::skip(test, "needs cuDNN", why);
    }
    let bench = Bench::new(&device);
    let (mut wrong, mut refused, mut checked) = (Vec::new(), Vec::new(), 0);
    for g in shapes.iter().copied() {
        let case = Case::new(g, dtype);
        for layout in LAYOUTS {
            let form = Form { method, dtype, layout };
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
                    // The first layers, with 1 and 3 channels, need no dx.
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
            let run = AssertUnwindSafe(|| case.check(&bench, method, layout));
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
    // Covers the networks' convolutions in both layouts, and some other convolutions if requested.
    let least = 2 * layers().len();
    assert!(if shapes.len() > layers().len() { checked > least } else { checked == least }, "{checked}");
}

fn check_all(test: &str, dtype: Dtype) {
    let shapes: Vec<Geometry> = odd_shapes().into_iter().chain(layers()).collect();
    check_stock(test, Method::Stock, dtype, &shapes);
}

#[test]
fn stock_in_f32_is_the_reference() {
    check_all("stock_in_f32_is_the_reference", Dtype::F32);
}

#[test]
fn stock_in_tf32_is_the_reference() {
    check_all("stock_in_tf32_is_the_reference", Dtype::Tf32);
}

#[test]
fn stock_in_f16_is_the_reference() {
    check_all("stock_in_f16_is_the_reference", Dtype::F16);
}

#[test]
fn stock_in_bf16_is_the_reference() {
    check_all("stock_in_bf16_is_the_reference", Dtype::Bf16);
}

#[test]
fn the_fastest_engines_give_the_reference() {
    let test = "the_fastest_engines_give_the_reference";
    for dtype in [Dtype::F16, Dtype::Bf16] {
        check_stock(test, Method::StockFastest, dtype, &layers());
    }
}

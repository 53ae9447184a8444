//! This project's methods of a convolution.

use super::bench::{Bench, LAYOUTS, TYPES, random};
use super::case::Case;
use super::shapes::{layers, odd_shapes, square};
use std::sync::Arc;
use warpbook_device::testing;
use warpbook_gemm::{DeviceArray, ProductBy, Workspace};
use warpbook_kernels::matmul::rows;
use warpbook_nn::ops::Layout;
use warpbook_nn::ops::conv2d::Geometry;
use warpbook_nn::ops::conv2d::cuda::{Convolution, Epilogue, Form, Method};
use warpbook_record::Dtype;

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

/// A user-written kernel computes convolutions as products with columns of patches, in one panel and in several.
#[test]
fn im2col_by_a_kernel_of_one_s_own_is_the_reference() {
    let Some(device) = testing::gpu("im2col_by_a_kernel_of_one_s_own_is_the_reference") else { return };
    let bench = Bench::new(&device);
    let folder = tempfile::tempdir().unwrap();
    let row = rows().into_iter().find(|row| row.rung.id == "03_shared_tile").unwrap();
    std::fs::write(folder.path().join("mine.cu"), &*row.kernel().unwrap().source).unwrap();
    let mine = ProductBy::read(folder.path(), "mine.cu@03_shared_tile:BM=16,BN=16,BK=16,THREADS=256").unwrap();
    for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
        for g in odd_shapes().into_iter().chain([square(7, 40, [16, 3], [9, 1, 4])]) {
            let case = Case::new(g, dtype);
            LAYOUTS.into_iter().for_each(|layout| case.check_by(&bench, Method::Im2col, mine, layout));
        }
    }
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

/// The method for Turing can be forced on every GPU. GPUs of compute capability below 8.0 use it for fp16 whatever method
/// is requested.
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
        assert!(new(Method::ImplicitGemmTuring, Dtype::F16, layout).unwrap().uses_turing_kernels());
        for method in [Method::ImplicitGemm, Method::ShiftedWindows] {
            assert_eq!(new(method, Dtype::F16, layout).unwrap().uses_turing_kernels(), is_old, "{method:?}");
            assert!(!new(method, Dtype::F32, layout).unwrap().uses_turing_kernels(), "{method:?}");
        }
        for dtype in [Dtype::F32, Dtype::Tf32, Dtype::Bf16] {
            let error = new(Method::ImplicitGemmTuring, dtype, layout).unwrap_err().to_string();
            assert!(error.contains("which supports only fp16"), "{error}");
        }
    }
}

#[test]
fn sums_over_many_splits_and_panels_are_the_reference() {
    let Some(device) = testing::gpu("sums_over_many_splits_and_panels_are_the_reference") else { return };
    let bench = Bench::new(&device);
    // Covers few weights with many positions, and columns of more than one panel, the last of which is
    // smaller.
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
        let with_batch = |batch| {
            let form = Form { method: Method::Im2col, dtype: Dtype::F16, layout };
            Convolution::new(&device, &bench.gemm, &Geometry { batch, ..panels }, form).unwrap().workspace_bytes()
        };
        assert!(
            with_batch(7) < 7 * with_batch(1) && with_batch(7) <= 64 << 20,
            "7 images take more than one panel: {} {}",
            with_batch(7),
            with_batch(1)
        );
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
            // NaN times 0 is NaN, so the whole pixel is NaN wherever the mask lets it through.
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
    refused(form(Method::Direct, Dtype::F16), "direct method, which supports only fp32");
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

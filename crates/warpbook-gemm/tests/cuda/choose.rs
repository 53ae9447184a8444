//! Tests the choice of a product's kernel on a GPU: kernels are timed once, choices are kept or taken over from elsewhere, and the choices for other GPUs are
//! right.

use std::sync::Arc;
use warpbook_device::{CudaDevice, testing};
use warpbook_gemm::philox::gaussians;
use warpbook_gemm::storage::Storage;
use warpbook_gemm::{DeviceArrays, Finding, Findings, Gemm, Judge, Plan, Product, Tuning, Workspace, choose};
use warpbook_kernels::matmul::{Epilogue, Form};
use warpbook_record::{DeviceInfo, Dtype};

/// Checks that a plan runs and that its result is right.
fn check(device: &CudaDevice, plan: &Plan) {
    let product = plan.product();
    let what = format!("{} {}: {product:?}", plan.rung(), plan.tile());
    let [a, b, c] = product.elements();
    let matrix = |stream, len| {
        Storage::from_f32(device, &gaussians(device, 3, stream, len).unwrap().to_vec().unwrap(), product.form.dtype)
            .unwrap()
    };
    let (a, b, c) = (matrix(0, a), matrix(1, b), Storage::zeros(device, c, product.form.out).unwrap());
    let (stream, workspace) = (device.stream().unwrap(), Workspace::for_plans(device, [plan]).unwrap());
    let judge = Judge::new(device, product, &a, &b).unwrap();
    plan.run(&stream, &DeviceArrays::new(&a, &b, &c), &workspace, None).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(judge.judge(&stream, &c).unwrap().passed(), "{what}");
}

fn quick(device: &CudaDevice) -> Gemm {
    Gemm::with_tuning(device, Tuning::Quick).without_published()
}

#[test]
fn a_first_plan_is_timed_and_kept() {
    let Some(device) = testing::gpu("a_first_plan_is_timed_and_kept") else { return };
    for (product, what) in [
        (Product::new(3080, 4104, 1032, Form::plain(Dtype::F16)), "plain"),
        (Product::new(1333, 1201, 777, Form::plain(Dtype::F32)), "odd"),
        (
            Product::new(3080, 4104, 1040, Form { epilogue: Epilogue::BiasRelu, ..Form::plain(Dtype::F16) }),
            "with a bias",
        ),
        (Product::new(3080, 4104, 1048, Form::plain(Dtype::F16)).with_bias_gradient(), "with a bias gradient"),
    ] {
        let gemm = quick(&device);
        let choice = gemm.choice(&product).unwrap();
        // A GPU whose only kernel has a single tile has nothing to choose from.
        let is_timed = choice.why.starts_with("timed on this device") && choice.us > 0.5;
        assert!(is_timed || choice.why.contains("nothing to choose from"), "{what}: {}", choice.why);
        // The same handle and another one, as after a restart, choose the same kernel.
        let again = [gemm.choice(&product).unwrap(), quick(&device).choice(&product).unwrap()];
        for again in &again {
            assert_eq!((&again.row.rung.id, &again.tile), (&choice.row.rung.id, &choice.tile), "{what}");
        }
        assert_eq!(gemm.chosen(), [Finding::new(&product, &choice.row.rung.id, &choice.tile.id, choice.us)]);
    }
    let peak = device.peak_allocated();
    assert!(peak < 3080 * 4104 * 2, "the arrays for timing, larger than one result, count in the peak: {peak} bytes");
    let product = Product::new(3080, 4104, 1032, Form::plain(Dtype::F16));
    check(&device, &quick(&device).plan(&product, [true; 2]).unwrap());
}

/// For such a short product, expected times distinguish kernels as well as measured times do, so the first plan does not compile several kernels.
#[test]
fn a_short_product_is_not_timed() {
    let Some(device) = testing::gpu("a_short_product_is_not_timed") else { return };
    let product = Product::new(40, 72, 56, Form::plain(Dtype::F16));
    let why = quick(&device).choice(&product).unwrap().why;
    assert!(why.ends_with("not timed: below 10 us the model chooses as well"), "{why}");
}

/// Without timing the cost model chooses, even if kernels were timed here before.
#[test]
fn what_was_timed_does_not_count_when_it_is_off() {
    let Some(device) = testing::gpu("what_was_timed_does_not_count_when_it_is_off") else { return };
    let product = Product::new(2056, 4104, 2056, Form::plain(Dtype::F16));
    let _ = quick(&device).choice(&product).unwrap();
    let off = Gemm::untuned(&device).without_published().choice(&product).unwrap();
    assert_eq!(Some(off), choose(&product, device.info(), &Findings::default()));
}

#[test]
fn nothing_is_timed_while_a_graph_is_captured() {
    let Some(device) = testing::gpu("nothing_is_timed_while_a_graph_is_captured") else { return };
    let (stream, gemm) = (device.stream().unwrap(), quick(&device));
    let product = Product::new(2056, 4104, 1544, Form::plain(Dtype::F16));
    let graph = stream.capture_owning("a choice", (), |()| {
        let choice = gemm.choice(&product)?;
        assert!(choice.why.contains("not timed: the thread is measuring or capturing"), "{}", choice.why);
        Ok(())
    });
    graph.unwrap();
    // The run continues with the kernels that it has already chosen.
    assert!(gemm.choice(&product).unwrap().why.contains("in this run"));
}

/// Kernels of a checkpoint or of another rank replace the choice, even for a product that has been planned.
#[test]
fn kernels_from_elsewhere_are_taken() {
    let Some(device) = testing::gpu("kernels_from_elsewhere_are_taken") else { return };
    let gemm = Gemm::untuned(&device);
    let product = Product::new(264, 392, 520, Form::plain(Dtype::F32));
    let first = gemm.plan(&product, [true; 2]).unwrap();
    assert!(!gemm.take(&gemm.chosen()), "the same kernels");
    assert!(Arc::ptr_eq(&first, &gemm.plan(&product, [true; 2]).unwrap()));
    let tile = if first.tile() == "64x64x8" { "128x128x8" } else { "64x64x8" };
    let other = Finding::new(&product, "07_warp_tile", tile, 1.0);
    assert!(gemm.take(std::slice::from_ref(&other)));
    let second = gemm.plan(&product, [true; 2]).unwrap();
    assert_eq!((second.rung(), second.tile()), ("07_warp_tile", tile));
    assert_eq!(gemm.chosen(), [other]);
    check(&device, &second);
    // A finding of a kernel that no longer exists is ignored, and a new choice is made.
    gemm.take(&[Finding::new(&product, "gone", "1x1", 1.0)]);
    assert_eq!(gemm.plan(&product, [true; 2]).unwrap().tile(), first.tile());
}

/// The choices for a T4, an A100 and a consumer's card run on this device and are right.
#[test]
fn what_other_gpus_choose_is_right() {
    let Some(device) = testing::gpu("what_other_gpus_choose_is_right") else { return };
    let here = device.info();
    let like = |name: &str, cc: (u32, u32), multiprocessors, shared| DeviceInfo {
        name: name.into(),
        compute_capability: Some(cc),
        multiprocessors,
        shared_bytes_per_block: Some(shared),
        ..here.clone()
    };
    let others = [
        like("Tesla T4", (7, 5), 40, 65_536),
        like("NVIDIA A100-SXM4-80GB", (8, 0), 108, 166_912),
        like("NVIDIA GeForce RTX 4090", (8, 9), 128, 101_376),
    ];
    for info in others.iter().filter(|info| info.compute_capability <= here.compute_capability) {
        for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16, Dtype::Tf32] {
            for (m, n, k) in [(1000, 1000, 1000), (64, 512, 2048), (33, 65, 127)] {
                let out = if dtype == Dtype::Tf32 { Dtype::F32 } else { dtype };
                let product = Product::new(m, n, k, Form { out, ..Form::plain(dtype) });
                let Some(choice) = choose(&product, info, &Findings::default()) else {
                    assert_eq!((&*info.name, dtype), ("Tesla T4", Dtype::Tf32));
                    continue;
                };
                assert!(choice.why.contains("an H100's SMs and clock"), "{}", choice.why);
                check(&device, &Plan::new(&device, &choice.row, &choice.tile, &product, [true; 2]).unwrap());
            }
        }
    }
}

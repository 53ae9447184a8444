//! Training on a GPU is compared with training on the CPU.

use warpbook_data::philox;
use warpbook_data::{Dataset, Rows};
use warpbook_device::{Compiler, CublasLt, CudaDevice, Cudnn, testing};
use warpbook_gemm::ProductBy;
use warpbook_nn::network::*;
use warpbook_nn::ops::Layout;
use warpbook_nn::ops::conv2d::cuda::Method;
use warpbook_nn::ops::optimizer::Optimizer;
use warpbook_nn::train::{
    CudaOptions, Event, Flow, GradScaler, Loader, Loss, Place, Precision, Recipe, Residency, StepOutcome, TrainError,
    Trainer,
};
use warpbook_nn::weights::Weights;
use warpbook_record::Requires;

const SHAPE: [usize; 3] = [2, 6, 7];

/// Noise images; images with a higher label are brighter.
fn images(n: usize) -> Dataset {
    let len = SHAPE.iter().product::<usize>();
    let labels: Vec<u8> = (0..n).map(|i| (i % 3) as u8).collect();
    let pixel = |i: usize| {
        let base = 60.0 * f32::from(labels[i / len]) + 60.0;
        (base + 30.0 * philox::gaussian(3, i as u64, 0)).clamp(0.0, 255.0) as u8
    };
    Dataset::from_arrays("noise", SHAPE, (0..n * len).map(pixel).collect(), labels, ["a", "b", "c"]).unwrap()
}

fn recipe(layers: Vec<Layer>, optimizer: Optimizer) -> Recipe {
    Recipe {
        network: Network::new(SHAPE, layers).unwrap(),
        optimizer,
        learning_rate: 0.01,
        loss: Loss::CrossEntropy { smoothing: 0.1 },
        batch: 16,
        epochs: 2,
        mean: vec![0.4, 0.5],
        deviation: vec![0.3, 0.25],
        ..Recipe::mnist()
    }
}

/// Networks with every kind of layer except dropout.
fn networks() -> Vec<Vec<Layer>> {
    vec![
        vec![conv2d(8, 3), relu(), conv2d(16, 3), relu(), max_pool(2), flatten(), linear(3)],
        vec![conv2d(4, 3).strides([2, 3]).paddings([1, 0]).without_bias(), gelu(), flatten(), linear(3)],
        vec![conv2d(4, 3), gelu(), avg_pool(2), flatten(), linear(5).without_bias(), relu(), linear(3)],
        vec![conv2d(3, 1).without_bias(), batch_norm(), gelu(), max_pool(3).stride(2).padding(1), flatten(), linear(3)],
        vec![batch_norm(), conv2d(3, 3), flatten(), batch_norm(), linear(3)],
        vec![conv2d(2, 1), residual([conv2d(2, 3).padding(1), gelu(), residual([gelu()])]), flatten(), linear(3)],
        vec![conv2d(2, 3), flatten(), residual([linear(40), gelu()]), linear(3)],
        vec![residual([conv2d(2, 3).padding(1), relu()]), relu(), flatten(), linear(3)],
        vec![flatten(), linear(24), relu(), residual([linear(24), relu()]), linear(3)],
    ]
}

fn run(place: &Place, recipe: &Recipe, data: &Dataset) -> (Vec<StepOutcome>, Trainer) {
    let mut trainer = Trainer::on(place, recipe.clone(), data, None).unwrap_or_else(|e| panic!("{e}"));
    let mut outcomes = Vec::new();
    let listener = &mut |event: Event| {
        if let Event::Step { outcome, .. } = event {
            outcomes.push(outcome);
        }
        Flow::Continue
    };
    trainer.train(data, data, 1, listener).unwrap_or_else(|e| panic!("{e}"));
    (outcomes, trainer)
}

fn cuda(device: &CudaDevice, options: CudaOptions) -> Place {
    Place::Cuda(device.clone(), options)
}

/// Largest difference of a parameter's values, relative to their norm.
fn difference(a: &Weights, b: &Weights) -> (f64, String) {
    let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|v| v * v).sum::<f64>().sqrt();
    let relative = |a: &[f32], b: &[f32]| {
        let apart = norm(&mut a.iter().zip(b).map(|(a, b)| f64::from(*a) - f64::from(*b)));
        apart / norm(&mut b.iter().map(|b| f64::from(*b))).max(1e-3)
    };
    let all = a.specs().iter().zip(a.values().iter().zip(b.values()));
    all.map(|(s, (a, b))| (relative(a, b), s.name.clone())).max_by(|a, b| a.0.total_cmp(&b.0)).unwrap()
}

/// All options in f32; they differ only in rounding.
fn ways() -> Vec<CudaOptions> {
    let best = CudaOptions::new(Precision::Fp32);
    vec![
        best,
        CudaOptions { graph: false, fused: false, ..best },
        CudaOptions { overlap: !best.overlap, ..best },
        CudaOptions { last_block: false, ..best },
        CudaOptions { last_block: false, graph: false, ..best },
        CudaOptions { graph: false, layout: Layout::Nchw, ..best },
        CudaOptions { layout: Layout::Nchw, ..best },
        CudaOptions { layout: Layout::Nchw, convolution: Method::Direct, fused: false, graph: false, ..best },
        CudaOptions { layout: Layout::Nchw, convolution: Method::Im2col, ..best },
        CudaOptions { convolution: Method::Im2col, fused: false, ..best },
        CudaOptions { convolution: Method::Direct, ..best },
    ]
}

#[test]
fn every_way_trains_every_network_as_the_cpu_does() {
    let Some(device) = testing::gpu("every_way_trains_every_network_as_the_cpu_does") else { return };
    // Three whole batches and one of 2 samples; batch normalisation would refuse a batch of one.
    let data = images(50);
    for (i, layers) in networks().into_iter().enumerate() {
        let momentum = Optimizer::Sgd { momentum: 0.9, nesterov: true, weight_decay: 1e-3 };
        let r = recipe(layers, if i % 2 == 0 { momentum } else { Optimizer::adam_w() });
        let (want, cpu) = run(&Place::Cpu, &r, &data);
        assert_eq!(want.len(), 8);
        for options in ways() {
            let (got, gpu) = run(&cuda(&device, options), &r, &data);
            for (step, (got, want)) in got.iter().zip(&want).enumerate() {
                let error = (got.loss - want.loss).abs() / want.loss;
                assert!(error < 1e-4, "network {i}, {options:?}, step {step}: {} and {}", got.loss, want.loss);
            }
            let (apart, name) = difference(&gpu.gradients().unwrap(), &cpu.gradients().unwrap());
            assert!(apart < 2e-3, "network {i}, {options:?}: gradients of {name} differ by {apart:.1e}");
            let (apart, name) = difference(&gpu.weights().unwrap(), &cpu.weights().unwrap());
            assert!(apart < 1e-3, "network {i}, {options:?}: {name} differs by {apart:.1e}");
        }
    }
}

#[test]
fn the_kernels_next_to_the_ladder_compile() {
    let compiler = Compiler::new(None).unwrap_or_else(|e| panic!("{e}"));
    for way in warpbook_nn::train::ways().into_iter().filter(|w| w.base.is_some()) {
        for recipe in [Recipe::mnist(), Recipe::amp_recipe()] {
            for spec in way.specs(&recipe) {
                let architecture = match &spec.requires {
                    Some(Requires::Exactly(name)) => &**name,
                    _ => "sm_90",
                };
                let built =
                    compiler.compile(&spec, &spec.tiles[0], architecture).unwrap_or_else(|e| panic!("{}: {e}", way.id));
                assert!(built.stats_of(&spec.entry).is_some(), "{} of {}", spec.entry, way.id);
            }
        }
    }
}

/// Removes options whose library is not installed, and reports them.
fn with_libraries(device: &CudaDevice, test: &str, options: Vec<CudaOptions>) -> Vec<CudaOptions> {
    let has = |o: &CudaOptions| {
        let cudnn = if o.convolution == Method::Stock { Cudnn::find(device).map(drop) } else { Ok(()) };
        let cublas = if o.product == ProductBy::Stock { CublasLt::find(device).map(drop) } else { Ok(()) };
        cudnn.and(cublas).map_err(|why| testing::skip(test, "needs cuDNN and cuBLAS", why)).is_ok()
    };
    options.into_iter().filter(has).collect()
}

/// Options with products and convolutions by a library or by a beginner's rung, launched one by one and as a graph of two streams, in
/// both layouts.
fn others(precision: Precision) -> Vec<CudaOptions> {
    // With fp16, cuDNN's weight gradients are in fp16; at the usual scale some would overflow, and their steps would be skipped.
    let scaler = GradScaler { init_scale: 256.0, ..GradScaler::default() };
    let best = CudaOptions { scaler, ..CudaOptions::new(precision) };
    let stock = CudaOptions { convolution: Method::Stock, product: ProductBy::Stock, ..best };
    let mut all = vec![
        CudaOptions { convolution: Method::Stock, ..best },
        CudaOptions { product: ProductBy::Stock, ..best },
        stock,
        CudaOptions { graph: false, fused: false, ..stock },
        CudaOptions { layout: Layout::Nchw, overlap: false, ..stock },
    ];
    if precision != Precision::Tf32 {
        let named = ProductBy::ALL.into_iter().filter(|by| by.names_a_rung());
        all.extend(named.map(|product| CudaOptions { product, ..best }));
    }
    all
}

#[test]
fn libraries_and_plain_products_train_as_the_cpu_does() {
    let test = "libraries_and_plain_products_train_as_the_cpu_does";
    let Some(device) = testing::gpu(test) else { return };
    let data = images(50);
    let mut wrong = Vec::new();
    for (i, layers) in networks().into_iter().enumerate() {
        let r = recipe(layers, Optimizer::Sgd { momentum: 0.9, nesterov: true, weight_decay: 1e-3 });
        let (want, cpu) = run(&Place::Cpu, &r, &data);
        for precision in Precision::ALL {
            for options in with_libraries(&device, test, others(precision)) {
                let what = format!(
                    "network {i}, {precision}, {:?} by {:?} and {}, graph {}",
                    options.layout, options.convolution, options.product, options.graph
                );
                let (got, gpu) = run(&cuda(&device, options), &r, &data);
                let bound = match precision {
                    Precision::Fp32 => 1e-4,
                    Precision::AmpBf16 => 0.05,
                    _ => 0.02,
                };
                for (step, (got, want)) in got.iter().zip(&want).enumerate() {
                    let error = (got.loss - want.loss).abs() / want.loss;
                    let is_close = error < bound;
                    if !is_close || got.skipped {
                        wrong.push(format!(
                            "{what}, step {step}: {} and {}, skipped {}",
                            got.loss, want.loss, got.skipped
                        ));
                    }
                }
                if precision == Precision::Fp32 {
                    let (apart, name) = difference(&gpu.gradients().unwrap(), &cpu.gradients().unwrap());
                    let is_close = apart < 2e-3;
                    if !is_close {
                        wrong.push(format!("{what}: gradients of {name} differ by {apart:.1e}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_layer_s_own_choice_is_what_computes_it() {
    let test = "a_layer_s_own_choice_is_what_computes_it";
    let Some(device) = testing::gpu(test) else { return };
    let data = images(50);
    let chosen = [conv2d(8, 3).stock(), relu(), conv2d(16, 3).method(Method::Im2col), relu(), max_pool(2), flatten()];
    let products = [linear(12).product(ProductBy::Tiled), relu(), linear(3).product(ProductBy::Naive)];
    let r = recipe(chosen.into_iter().chain(products).collect(), Optimizer::adam());
    let (want, _) = run(&Place::Cpu, &r, &data);
    let own = CudaOptions::new(Precision::Fp32);
    let stock = CudaOptions { convolution: Method::Stock, ..own };
    if with_libraries(&device, test, vec![stock]).is_empty() {
        return;
    }
    for options in [own, stock] {
        let (got, _) = run(&cuda(&device, options), &r, &data);
        for (got, want) in got.iter().zip(&want) {
            assert!((got.loss - want.loss).abs() / want.loss < 1e-4, "{} and {}", got.loss, want.loss);
        }
    }
    // The naive rung does not support tf32, so its layer is refused.
    let error = Trainer::on(&cuda(&device, CudaOptions::new(Precision::Tf32)), r, &data, None)
        .and_then(|mut t| t.train(&data, &data, 1, &mut |_| Flow::Continue))
        .unwrap_err()
        .to_string();
    assert!(error.contains("product takes fp32, fp16, bf16, not tf32"), "{error}");
}

#[test]
fn dropout_and_augmentation_are_those_of_the_cpu() {
    let Some(device) = testing::gpu("dropout_and_augmentation_are_those_of_the_cpu") else { return };
    let data = images(50);
    let layers = vec![conv2d(8, 3), relu(), dropout(0.3), flatten(), linear(12), relu(), dropout(0.5), linear(3)];
    let augmentation = Some(warpbook_nn::train::Augmentation::new(2, true));
    let r = Recipe { augmentation, ..recipe(layers, Optimizer::adam()) };
    let (want, _) = run(&Place::Cpu, &r, &data);
    for fused in [false, true] {
        let (got, _) = run(&cuda(&device, CudaOptions { fused, ..CudaOptions::new(Precision::Fp32) }), &r, &data);
        for (got, want) in got.iter().zip(&want) {
            assert!((got.loss - want.loss).abs() / want.loss < 1e-4, "{} and {}", got.loss, want.loss);
        }
    }
}

#[test]
fn a_dropout_between_a_relu_and_a_sum_leaves_the_relu_its_zeros() {
    let Some(device) = testing::gpu("a_dropout_between_a_relu_and_a_sum_leaves_the_relu_its_zeros") else { return };
    let data = images(50);
    let branch = residual([conv2d(8, 3).padding(1), relu(), dropout(0.2)]);
    let r = recipe(vec![conv2d(8, 3), relu(), branch, flatten(), linear(3)], Optimizer::sgd());
    let (want, cpu) = run(&Place::Cpu, &r, &data);
    for fused in [false, true] {
        let place = cuda(&device, CudaOptions { fused, ..CudaOptions::new(Precision::Fp32) });
        let (got, gpu) = run(&place, &r, &data);
        for (got, want) in got.iter().zip(&want) {
            assert!((got.loss - want.loss).abs() / want.loss < 1e-4, "{} and {}", got.loss, want.loss);
        }
        let (apart, name) = difference(&gpu.gradients().unwrap(), &cpu.gradients().unwrap());
        assert!(apart < 2e-3, "fused {fused}: gradients of {name} differ by {apart:.1e}");
    }
}

#[test]
fn half_precision_stays_close_and_repeats_to_the_bit() {
    let Some(device) = testing::gpu("half_precision_stays_close_and_repeats_to_the_bit") else { return };
    let data = images(50);
    for (i, layers) in networks().into_iter().enumerate() {
        let r = recipe(layers, Optimizer::Sgd { momentum: 0.9, nesterov: false, weight_decay: 0.0 });
        let (want, _) = run(&Place::Cpu, &r, &data);
        for precision in [Precision::Tf32, Precision::AmpFp16, Precision::AmpBf16] {
            // Small batches have large gradients, which would exceed fp16's range at the usual scale.
            let scaler = GradScaler { init_scale: 256.0, ..GradScaler::default() };
            let place = cuda(&device, CudaOptions { scaler, ..CudaOptions::new(precision) });
            let (got, first) = run(&place, &r, &data);
            let (again, second) = run(&place, &r, &data);
            let bound = if precision == Precision::AmpBf16 { 0.05 } else { 0.02 };
            for (step, (got, want)) in got.iter().zip(&want).enumerate() {
                let error = (got.loss - want.loss).abs() / want.loss;
                assert!(error < bound, "network {i}, {precision}, step {step}: {} and {}", got.loss, want.loss);
                assert!(!got.skipped, "network {i}, {precision}, step {step} was skipped");
            }
            assert_eq!(got, again, "network {i}, {precision}");
            assert!(first.weights().unwrap() == second.weights().unwrap(), "network {i}, {precision}: other bits");
        }
    }
}

/// First layers whose weight gradient expands the gradient of the pool after them: even and odd sides, with and without a ReLU, a
/// dropout and biases.
fn first_layers() -> Vec<Vec<Layer>> {
    let conv = || conv2d(8, 3).padding(1);
    vec![
        vec![conv(), relu(), max_pool(2)],
        vec![conv(), relu(), max_pool(2), dropout(0.3)],
        vec![conv(), max_pool(2)],
        vec![conv(), max_pool(2), dropout(0.3), relu()],
        vec![conv2d(40, 2).without_bias(), relu(), max_pool(2), conv2d(16, 3).padding(1), relu()],
        vec![conv2d(16, 4), relu(), max_pool(2), conv2d(16, 1), relu(), dropout(0.5)],
        vec![conv(), relu(), max_pool(2), residual([conv2d(8, 3).padding(1), relu()])],
    ]
}

/// Compares the same first layer with and without a gradient of its input, which keeps the unpooled gradient in memory.
#[test]
fn a_first_layer_that_expands_its_pool_s_gradient_has_the_same_bits() {
    let Some(device) = testing::gpu("a_first_layer_that_expands_its_pool_s_gradient_has_the_same_bits") else { return };
    let data = images(50);
    let scaler = GradScaler { init_scale: 256.0, ..GradScaler::default() };
    let mut wrong = Vec::new();
    for (i, layers) in first_layers().into_iter().enumerate() {
        let end = || [flatten(), linear(12), relu(), dropout(0.2), linear(3)];
        let optimizer = Optimizer::Sgd { momentum: 0.9, nesterov: false, weight_decay: 0.0 };
        let expanded = recipe(layers.iter().cloned().chain(end()).collect(), optimizer);
        // The mean of a window of one pixel is the pixel.
        let copied = [avg_pool(1)].into_iter().chain(layers).chain(end()).collect();
        let plain = recipe(copied, optimizer);
        for precision in [Precision::AmpFp16, Precision::AmpBf16] {
            let best = CudaOptions { scaler, ..CudaOptions::new(precision) };
            let ways = [
                best,
                CudaOptions { dependent: false, ..best },
                CudaOptions { overlap: false, ..best },
                CudaOptions { graph: false, overlap: false, dependent: false, ..best },
            ];
            for options in ways {
                let what = format!("network {i}, {precision}, graph {}, overlap {}", options.graph, options.overlap);
                let [(got, expanded), (want, plain)] =
                    [&expanded, &plain].map(|r| run(&cuda(&device, options), r, &data));
                if got != want {
                    let step = got.iter().zip(&want).position(|(a, b)| a != b);
                    wrong.push(format!("{what}: other losses from step {step:?} on"));
                }
                let (got, want) = (expanded.gradients().unwrap(), plain.gradients().unwrap());
                if got.values() != want.values() {
                    let (apart, name) = difference(&got, &want);
                    wrong.push(format!("{what}: gradients of the last step, of {name} by {apart:.1e}"));
                }
                if expanded.weights().unwrap().values() != plain.weights().unwrap().values() {
                    wrong.push(format!("{what}: other weights"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_gradient_that_is_expanded_is_no_operation() {
    let Some(device) = testing::gpu("a_gradient_that_is_expanded_is_no_operation") else { return };
    let data = images(50);
    let operations = |layers: Vec<Layer>, precision| {
        let place = cuda(&device, CudaOptions::new(precision));
        let mut trainer = Trainer::on(&place, recipe(layers, Optimizer::sgd()), &data, None).unwrap();
        trainer.prepare_steps(&data).unwrap();
        let mut names = Vec::new();
        trainer
            .step_by_operation(&mut |o| {
                names.push(o.name.clone());
                Ok(())
            })
            .unwrap();
        names
    };
    let layers = || vec![conv2d(8, 3).padding(1), relu(), max_pool(2), dropout(0.3), flatten(), linear(3)];
    let has = |names: &[String], name: &str| names.iter().any(|n| n == name);
    let names = operations(layers(), Precision::AmpBf16);
    assert!(has(&names, "conv1 weight gradient") && !has(&names, "pool1 backward"), "{names:?}");
    // The kernels for few channels are 16-bit, so tf32 does not use them.
    let names = operations(layers(), Precision::Tf32);
    assert!(has(&names, "conv1 weight gradient") && has(&names, "pool1 backward"), "{names:?}");
}

/// A GPU of compute capability 7.5 uses these kernels to train in fp16; here options and layers force them.
#[test]
fn fp16_by_turing_s_convolutions_stays_close_and_repeats_to_the_bit() {
    let Some(device) = testing::gpu("fp16_by_turing_s_convolutions_stays_close_and_repeats_to_the_bit") else { return };
    let data = images(50);
    let scaler = GradScaler { init_scale: 256.0, ..GradScaler::default() };
    let best = CudaOptions { scaler, ..CudaOptions::new(Precision::AmpFp16) };
    let forced = CudaOptions { convolution: Method::ImplicitGemmTuring, ..best };
    let options = [
        forced,
        CudaOptions { graph: false, fused: false, ..forced },
        CudaOptions { layout: Layout::Nchw, overlap: false, ..forced },
    ];
    let by_layer = vec![
        conv2d(8, 3).method(Method::ImplicitGemmTuring),
        relu(),
        conv2d(16, 3).method(Method::ImplicitGemmTuring),
        relu(),
        max_pool(2),
        flatten(),
        linear(3),
    ];
    let mut wrong = Vec::new();
    let mut check = |name: String, r: &Recipe, options: CudaOptions, want: &[StepOutcome]| {
        let place = cuda(&device, options);
        let ((got, first), (again, second)) = (run(&place, r, &data), run(&place, r, &data));
        for (step, (got, want)) in got.iter().zip(want).enumerate() {
            let is_close = (got.loss - want.loss).abs() / want.loss < 0.02;
            if !is_close || got.skipped {
                wrong.push(format!("{name}, step {step}: {} and {}, skipped {}", got.loss, want.loss, got.skipped));
            }
        }
        if got.len() != want.len() || got != again || first.weights().unwrap() != second.weights().unwrap() {
            wrong.push(format!("{name}: other bits on a second run"));
        }
        first.weights().unwrap()
    };
    for (i, layers) in networks().into_iter().enumerate() {
        let r = recipe(layers, Optimizer::Sgd { momentum: 0.9, nesterov: false, weight_decay: 0.0 });
        let (want, _) = run(&Place::Cpu, &r, &data);
        let weights = options.map(|options| {
            let what = format!("network {i}, {:?}, graph {}", options.layout, options.graph);
            check(what, &r, options, &want)
        });
        if i == 0 {
            let r = Recipe { network: Network::new(SHAPE, by_layer.clone()).unwrap(), ..r };
            let of_layers = check("by layers".into(), &r, best, &want);
            assert!(of_layers == weights[0], "layers that are told to use it have other bits than options that say so");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_gradient_scaler_follows_its_rules_and_a_resumed_training_has_the_same_bits() {
    let Some(device) = testing::gpu("the_gradient_scaler_follows_its_rules") else { return };
    let data = images(64);
    let scaler = GradScaler { init_scale: 1e9, growth_interval: 3, ..GradScaler::default() };
    let place = cuda(&device, CudaOptions { scaler, ..CudaOptions::new(Precision::AmpFp16) });
    let layers = vec![conv2d(8, 3), batch_norm(), relu(), flatten(), linear(3)];
    let r = Recipe { epochs: 8, ..recipe(layers, Optimizer::adam()) };
    let (outcomes, whole) = run(&place, &r, &data);
    let (mut state, mut skipped) = (scaler.start(), 0);
    for (step, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.loss_scale, Some(state.scale), "step {step}");
        state = scaler.update(state, outcome.skipped);
        skipped += usize::from(outcome.skipped);
    }
    assert!(skipped > 2 && skipped < outcomes.len() / 4 * 3, "{skipped} of {} steps were skipped", outcomes.len());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint.safetensors");
    let mut first = Trainer::on(&place, r.clone(), &data, None).unwrap();
    first.train_until(11, &data, &data, 1, &mut |_| Flow::Continue).unwrap();
    first.save(&path).unwrap();
    let mut second = Trainer::on(&place, r, &data, None).unwrap();
    second.resume(&path).unwrap();
    second.train(&data, &data, 1, &mut |_| Flow::Continue).unwrap();
    assert!(second.weights().unwrap() == whole.weights().unwrap(), "the weights differ");
}

#[test]
fn a_loss_that_is_no_number_names_step_and_layer_and_keeps_the_weights() {
    let Some(device) = testing::gpu("a_loss_that_is_no_number_names_step_and_layer") else { return };
    let data = images(64);
    let layers = vec![conv2d(4, 3), relu(), flatten(), linear(3)];
    let r = Recipe { learning_rate: 1e30, ..recipe(layers, Optimizer::sgd()) };
    for graph in [false, true] {
        let place = cuda(&device, CudaOptions { graph, ..CudaOptions::new(Precision::Fp32) });
        let mut trainer = Trainer::on(&place, r.clone(), &data, None).unwrap();
        let error = trainer.train(&data, &data, 1, &mut |_| Flow::Continue).unwrap_err();
        assert!(matches!(error, TrainError::NotFinite(_)));
        let sentence = error.to_string();
        assert!(sentence.starts_with("Step 2") || sentence.starts_with("Step 3"), "{sentence}");
        assert!(["conv1", "fc1"].iter().any(|layer| sentence.contains(layer)), "{sentence}");
        let weights = trainer.weights().unwrap();
        assert!(weights.values().iter().flatten().all(|w| w.is_finite()), "the broken step has changed the weights");
    }
}

#[test]
fn a_loss_that_is_no_number_leaves_the_running_statistics_of_the_step_before() {
    let Some(device) = testing::gpu("a_loss_that_is_no_number_leaves_the_running_statistics") else { return };
    let data = images(64);
    let layers = vec![conv2d(4, 3), batch_norm(), relu(), flatten(), linear(8), linear(3)];
    let r = Recipe { learning_rate: 1e25, ..recipe(layers, Optimizer::sgd()) };
    for graph in [false, true] {
        let place = cuda(&device, CudaOptions { graph, ..CudaOptions::new(Precision::Fp32) });
        let mut broken = Trainer::on(&place, r.clone(), &data, None).unwrap();
        let error = broken.train(&data, &data, 1, &mut |_| Flow::Continue).unwrap_err();
        assert!(matches!(error, TrainError::NotFinite(_)) && broken.step() == 1, "graph {graph}: {error}");
        // The steps after the broken step were queued together with it.
        let mut before = Trainer::on(&place, r.clone(), &data, None).unwrap();
        before.train_until(1, &data, &data, 1, &mut |_| Flow::Continue).unwrap();
        let (got, want) = (broken.weights().unwrap(), before.weights().unwrap());
        for (spec, (got, want)) in want.specs().iter().zip(got.values().iter().zip(want.values())) {
            assert!(want.iter().all(|v| v.is_finite()), "graph {graph}, {}: {want:?}", spec.name);
            assert_eq!(got, want, "graph {graph}, {}", spec.name);
        }
        assert!(want.get("bn1.running_var").unwrap().iter().all(|v| *v != 1.0), "graph {graph}: no step was made");
    }
}

#[test]
fn gradients_are_clipped_on_the_device() {
    let Some(device) = testing::gpu("gradients_are_clipped_on_the_device") else { return };
    let data = images(50);
    let layers = vec![conv2d(4, 3), relu(), flatten(), linear(3)];
    let r = Recipe { clip: Some(0.05), ..recipe(layers, Optimizer::sgd()) };
    let (want, cpu) = run(&Place::Cpu, &r, &data);
    let (got, gpu) = run(&cuda(&device, CudaOptions::new(Precision::Fp32)), &r, &data);
    for (got, want) in got.iter().zip(&want) {
        let (got, want) = (got.gradient_norm.unwrap(), want.gradient_norm.unwrap());
        assert!(want > 0.05 && (got - want).abs() < 1e-3 * want, "{got} and {want}");
    }
    let (apart, name) = difference(&gpu.weights().unwrap(), &cpu.weights().unwrap());
    assert!(apart < 1e-4, "{name} differs by {apart:.1e}");
}

#[test]
fn the_test_set_comes_out_as_on_the_cpu() {
    let Some(device) = testing::gpu("the_test_set_comes_out_as_on_the_cpu") else { return };
    let (data, test) = (images(50), images(41));
    let layers = vec![conv2d(8, 3), batch_norm(), relu(), dropout(0.5), flatten(), linear(3)];
    let r = recipe(layers, Optimizer::adam());
    let (_, mut cpu) = run(&Place::Cpu, &r, &data);
    let weights = cpu.weights().unwrap();
    let want = cpu.evaluate(&test).unwrap();
    for precision in Precision::ALL {
        let place = cuda(&device, CudaOptions::new(precision));
        let mut gpu = Trainer::on(&place, r.clone(), &data, Some(&weights)).unwrap();
        let got = gpu.evaluate(&test).unwrap();
        assert_eq!(got.of, want.of);
        assert!((got.loss - want.loss).abs() < 0.02 * want.loss, "{precision}: {got:?} and {want:?}");
        assert!(got.correct.abs_diff(want.correct) <= 1, "{precision}: {got:?} and {want:?}");
    }
}

#[test]
fn a_batch_that_does_not_fit_is_refused_with_the_largest_that_does() {
    let Some(device) = testing::gpu("a_batch_that_does_not_fit_is_refused") else { return };
    let data = images(50);
    let layers = vec![conv2d(100_000, 1).padding(60), relu(), avg_pool(100), flatten(), linear(3)];
    let r = Recipe { batch: 50, ..recipe(layers, Optimizer::sgd()) };
    let place = cuda(&device, CudaOptions::new(Precision::Fp32));
    let sentence = Trainer::on(&place, r, &data, None).unwrap_err().to_string();
    assert!(sentence.contains("A batch of 50 needs") && sentence.contains("fits"), "{sentence}");
}

#[test]
fn batches_that_are_copied_one_by_one_give_the_same_bits() {
    let Some(device) = testing::gpu("batches_that_are_copied_one_by_one_give_the_same_bits") else { return };
    let data = images(90);
    let layers = vec![conv2d(8, 3), relu(), dropout(0.2), flatten(), linear(3)];
    let r = Recipe { epochs: 3, ..recipe(layers, Optimizer::adam()) };
    let best = CudaOptions::new(Precision::AmpFp16);
    let (want, first) = run(&cuda(&device, best), &r, &data);
    for (workers, pinned) in [(0, false), (0, true), (3, true), (2, false)] {
        let loader = Loader { resident: Residency::Off, workers, pinned };
        let (got, second) = run(&cuda(&device, CudaOptions { loader, ..best }), &r, &data);
        assert_eq!(got, want, "{loader:?}");
        assert!(first.weights().unwrap() == second.weights().unwrap(), "{loader:?}: other bits");
        assert_eq!(first.stream().is_some(), second.stream().is_some());
    }
}

#[test]
fn prepared_steps_are_those_of_a_training() {
    let Some(device) = testing::gpu("prepared_steps_are_those_of_a_training") else { return };
    let data = images(64);
    let r = Recipe { epochs: 1, ..recipe(vec![conv2d(8, 3), relu(), flatten(), linear(3)], Optimizer::adam()) };
    for resident in [Residency::On, Residency::Off] {
        let loader = Loader { resident, ..Loader::default() };
        let place = cuda(&device, CudaOptions { loader, ..CudaOptions::new(Precision::AmpBf16) });
        let (want, _) = run(&place, &r, &data);
        let mut trainer = Trainer::on(&place, r.clone(), &data, None).unwrap();
        trainer.prepare_steps(&data).unwrap();
        for _ in 0..4 {
            trainer.queue_step().unwrap();
        }
        assert_eq!(trainer.step_outcomes(4).unwrap(), want, "{resident:?}");
        // 300 rounds go around the ring of batches many times.
        for _ in 0..300 {
            trainer.queue_step().unwrap();
        }
        let last = trainer.step_outcomes(8).unwrap();
        assert!(last.len() == 8 && last.iter().all(|o| o.loss < want[0].loss), "{last:?}");
    }
}

#[test]
fn rows_of_numbers_are_trained_on() {
    let Some(device) = testing::gpu("rows_of_numbers_are_trained_on") else { return };
    let rows = Rows::gaussian(70, [24, 24], 5);
    let r = Recipe { network: amp_recipe(24), batch: 16, learning_rate: 0.1, ..Recipe::amp_recipe() };
    let outcomes = |place: &Place| {
        let mut trainer = Trainer::on(place, r.clone(), &rows, None).unwrap();
        let mut losses = Vec::new();
        let listener = &mut |event: Event| {
            if let Event::Step { loss, .. } = event {
                losses.push(loss);
            }
            Flow::Continue
        };
        trainer.train(&rows, &rows, 100, listener).unwrap();
        losses.push(trainer.evaluate(&rows).unwrap().loss);
        losses
    };
    let want = outcomes(&Place::Cpu);
    for precision in Precision::ALL {
        let got = outcomes(&cuda(&device, CudaOptions::new(precision)));
        let bound = if precision == Precision::Fp32 { 1e-5 } else { 1e-2 };
        for (got, want) in got.iter().zip(&want) {
            assert!((got - want).abs() <= bound * want, "{precision}: {got} and {want}");
        }
    }
}

#[test]
fn a_data_set_is_copied_to_the_device_once() {
    let Some(device) = testing::gpu("a_data_set_is_copied_to_the_device_once") else { return };
    let data = images(64);
    let r = Recipe { epochs: 6, ..recipe(vec![conv2d(8, 3), relu(), flatten(), linear(3)], Optimizer::sgd()) };
    let mut trainer = Trainer::on(&cuda(&device, CudaOptions::new(Precision::AmpFp16)), r, &data, None).unwrap();
    trainer.train_until(4, &data, &data, 1, &mut |_| Flow::Continue).unwrap();
    let bytes = trainer.bytes();
    // A clone shares the images with the original.
    let clone = data.clone();
    trainer.train_until(12, &clone, &data, 1, &mut |_| Flow::Continue).unwrap();
    trainer.train(&data, &clone, 1, &mut |_| Flow::Continue).unwrap();
    assert_eq!(trainer.bytes(), bytes, "more was allocated");
}

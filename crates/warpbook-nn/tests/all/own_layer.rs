//! Custom layers: in networks, compiled, and trained in comparison with built-in layers.

use crate::custom_layers::{RELU, affine, mean, own_relu, softmax, swish, swish_on_both, swish_with};
use warpbook_data::Dataset;
use warpbook_data::philox;
use warpbook_device::{Compiler, CudaDevice, Error, testing};
use warpbook_nn::infer::Frozen;
use warpbook_nn::network::*;
use warpbook_nn::ops::Layout;
use warpbook_nn::ops::custom_layer::{OwnLayer, OwnSizes, compile};
use warpbook_nn::ops::optimizer::Optimizer;
use warpbook_nn::train::{CudaOptions, Event, Flow, Loss, Place, Precision, Recipe, StepOutcome, Trainer};
use warpbook_nn::weights::Weights;
use warpbook_record::Dtype;

const SHAPE: [usize; 3] = [2, 6, 7];

fn compiled(layer: &OwnLayer, dtype: Dtype, layout: Layout, architecture: &str) -> Result<[u32; 2], Error> {
    let sizes = OwnSizes::new(layer, SHAPE.into(), 1, layout);
    let stats = compile(layer, &sizes, dtype, &Compiler::new(None)?, architecture)?;
    Ok(stats.map(|s| s.registers))
}

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

fn recipe(layers: Vec<Layer>) -> Recipe {
    Recipe {
        network: Network::new(SHAPE, layers).unwrap(),
        optimizer: Optimizer::Sgd { momentum: 0.9, nesterov: false, weight_decay: 0.0 },
        learning_rate: 0.01,
        loss: Loss::CrossEntropy { smoothing: 0.0 },
        batch: 16,
        epochs: 2,
        mean: vec![0.4, 0.5],
        deviation: vec![0.3, 0.25],
        ..Recipe::mnist()
    }
}

fn run(place: &Place, recipe: &Recipe) -> (Vec<StepOutcome>, Trainer) {
    let data = images(50);
    let mut trainer = Trainer::on(place, recipe.clone(), &data, None).unwrap_or_else(|e| panic!("{e}"));
    let mut outcomes = Vec::new();
    let listener = &mut |event: Event| {
        if let Event::Step { outcome, .. } = event {
            outcomes.push(outcome);
        }
        Flow::Continue
    };
    trainer.train(&data, &data, 1, listener).unwrap_or_else(|e| panic!("{e}"));
    (outcomes, trainer)
}

fn cuda(device: &CudaDevice, options: CudaOptions) -> Place {
    Place::Cuda(device.clone(), options)
}

fn bits(outcomes: &[StepOutcome]) -> Vec<u64> {
    outcomes.iter().map(|o| o.loss.to_bits()).collect()
}

fn mean_loss(outcomes: &[StepOutcome]) -> f64 {
    outcomes.iter().map(|o| o.loss).sum::<f64>() / outcomes.len() as f64
}

#[test]
fn a_network_has_its_shapes_names_and_words() {
    let layers = || [conv2d(4, 3), own(&swish()), own(&swish()).named("second"), own(&mean(4)), linear(3)];
    let n = Network::new(SHAPE, layers()).unwrap();
    let names: Vec<String> = n.params().iter().map(|p| format!("{} {:?}", p.name, p.shape)).collect();
    assert_eq!(names[2..5], ["swish1.beta [1]", "second.beta [1]", "mean1.w [4]"]);
    assert_eq!((n.value(2), n.value(4)), (Shape::image(4, 4, 5), Shape::Vector(4)));
    assert_eq!(n.parameter_count(), 4 * 2 * 9 + 4 + 1 + 1 + 4 + 4 * 3 + 3);
    assert_eq!(n.summary(2).rows[1].layer, "own swish");
    assert_eq!(n, Network::new(SHAPE, layers()).unwrap());
    assert_eq!(n, Network::new(n.input(), n.layers()).unwrap(), "as layers again");
    let network_with = |swish: OwnLayer| Network::new(SHAPE, [own(&swish)]).unwrap();
    assert!(
        network_with(swish()) == network_with(swish()) && network_with(swish()) != network_with(swish().threads(64))
    );
    // Checks initial values, and weights in a file.
    let w = Weights::init(&n, 7);
    assert_eq!((w.get("swish1.beta"), w.get("mean1.w")), (Some(&[1.0][..]), Some(&[1.0; 4][..])));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    w.save(&path).unwrap();
    assert_eq!(Weights::load(&n, &path).unwrap(), w);
    let text = serde_json::to_string(&n.layers()).unwrap_err().to_string();
    assert!(text.contains("layer of your own, `swish`") && text.contains("Save the weights"), "{text}");
    let flaw = Network::new(SHAPE, [own(&swish().threads(33))]).unwrap_err().to_string();
    assert!(flaw.contains("swish1 (own swish) gets 2 x 6 x 7") && flaw.contains("33 threads"), "{flaw}");
}

#[test]
fn features_of_a_flattened_image_are_in_pytorch_s_order() {
    let after = Network::new(SHAPE, [flatten(), own(&swish()), linear(3)]).unwrap();
    assert!(Arrangement::new(&after).transposes(), "its author counts features as PyTorch does");
    let before = Network::new(SHAPE, [own(&swish()), flatten(), linear(3)]).unwrap();
    assert!(!Arrangement::new(&before).transposes());
}

#[test]
fn sources_compile_for_every_type_layout_and_architecture() {
    for layer in [own_relu(), swish(), softmax(), affine(2), mean(2)] {
        for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
            for layout in [Layout::Nhwc, Layout::Nchw] {
                for architecture in ["sm_75", "sm_80", "sm_90", "sm_120"] {
                    let registers = compiled(&layer, dtype, layout, architecture);
                    let registers =
                        registers.unwrap_or_else(|e| panic!("{} {dtype:?} {architecture}: {e}", layer.name()));
                    assert!(registers.iter().all(|r| (1..=64).contains(r)), "{} {registers:?}", layer.name());
                }
            }
        }
    }
}

#[test]
fn an_error_is_at_the_author_s_line() {
    let broken = swish_with("float v = x[i];", "float v = x[j];");
    let error = compiled(&broken, Dtype::F32, Layout::Nhwc, "sm_90").unwrap_err();
    let line = broken.source().lines().position(|l| l.contains("x[j]")).unwrap() + 1;
    let sentence = error.to_string();
    assert!(sentence.starts_with(&format!("live/swish.cu, line {line}: identifier \"j\" is undefined")), "{sentence}");
    assert!(sentence.contains(&format!("{line:5} |     float v = x[j];\n      |                 ^")), "{sentence}");
    let Error::Compile(compile) = error else { panic!("{sentence}") };
    assert_eq!((compile.path.as_str(), compile.first().unwrap().line as usize), ("live/swish.cu", line));
}

#[test]
fn other_parameters_and_missing_kernels_are_told_with_the_right_ones() {
    let check = |passage: &str, by: &str, expect: &[&str]| {
        let error = compiled(&swish_with(passage, by), Dtype::F16, Layout::Nhwc, "sm_90").unwrap_err();
        let sentence = error.to_string();
        assert!(expect.iter().all(|e| sentence.contains(e)), "{sentence}");
    };
    let forward = "write `__global__ void forward(const T* x, const float* beta, T* y, unsigned n)`";
    let backward = "T* dx, float* dbeta, unsigned n)`";
    check("void forward", "void forwards", &["live/swish.cu defines no kernel `forward`", forward]);
    check("void backward", "void gradient", &["defines no kernel `backward`", backward]);
    check(
        "float* dbeta, unsigned n",
        "unsigned n, float* dbeta",
        &["its kernel `backward` has the wrong parameters", backward],
    );
    check(
        "__global__ void forward(const T* x, const float* beta, T* y, unsigned n)",
        "extern \"C\" __global__ void forward(const T* x, const float* beta, T* y, int n)",
        &["live/swish.cu, line 2: `forward` is not declared as expected", forward],
    );
    check("__global__ void forward", "void forward", &["line 2: `forward` is not declared as expected", forward]);
    // The conditional mixes `T` and `int`, which is ambiguous only for some types of elements, so only the compiler finds the error.
    check("y[i] = v /", "y[i] = x[i] > 0 ? x[i] : 0; y[i] = v /", &["line 6", "ambiguous"]);
}

#[test]
fn names_of_the_engine_s_own_are_free() {
    let source = format!("__device__ float gelu(float v) {{ return v; }}\nstruct Epilogue {{}};\n#define IN 3\n{RELU}");
    for dtype in [Dtype::F32, Dtype::Bf16] {
        compiled(&OwnLayer::new("free", &*source), dtype, Layout::Nchw, "sm_90").unwrap_or_else(|e| panic!("{e}"));
    }
}

/// The first layer reads the network's input, whose gradient nothing needs; the output of the second is read twice.
fn swish_layers(s: &OwnLayer) -> Vec<Layer> {
    vec![own(s), conv2d(8, 3), own(s), residual([own(s), conv2d(8, 1)]), relu(), flatten(), linear(3)]
}

#[test]
fn a_cpu_body_trains_is_frozen_and_is_needed() {
    let layers = swish_layers;
    let sentence = |r: &Recipe| Trainer::new(r.clone(), &images(50), None).unwrap_err().to_string();
    let refused = sentence(&recipe(layers(&swish())));
    assert_eq!(refused, "swish1 has only a CUDA body: train it on a GPU, or give it a body for the CPU with `on_cpu`.");
    let r = recipe(layers(&swish_on_both()));
    let (outcomes, trainer) = run(&Place::Cpu, &r);
    let (longer, _) = run(&Place::Cpu, &Recipe { epochs: 10, ..r.clone() });
    let (first, last) = (mean_loss(&longer[..4]), mean_loss(&longer[36..]));
    assert!(last < 0.9 * first, "{first} to {last}");
    let weights = trainer.weights().unwrap();
    for name in ["swish1.beta", "swish2.beta", "swish3.beta"] {
        let beta = weights.get(name).unwrap()[0];
        assert!((beta - 1.0).abs() > 1e-6, "{name} is {beta}");
    }
    // A second run has the same bits, even with a checkpoint in between.
    let (again, _) = run(&Place::Cpu, &r);
    assert_eq!(bits(&outcomes), bits(&again));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.safetensors");
    trainer.save(&path).unwrap();
    let mut resumed = Trainer::new(r.clone(), &images(50), None).unwrap();
    resumed.resume(&path).unwrap();
    assert_eq!(resumed.weights().unwrap(), weights);
    // The frozen network predicts, but cannot be saved to a file.
    let classes: Vec<String> = ["a", "b", "c"].map(String::from).into();
    let frozen = Frozen::new(&r, &weights, &classes).unwrap();
    assert_eq!(frozen.predict(images(4).images()).unwrap().len(), 4);
    let why = frozen.save(folder.path().join("f.safetensors")).unwrap_err().to_string();
    assert!(why.contains("layer of your own, `swish`"), "{why}");
    let unfrozen = Frozen::new(&recipe(layers(&swish())), &weights, &classes).unwrap();
    assert!(unfrozen.predict(images(4).images()).unwrap_err().to_string().contains("only a CUDA body"));
}

/// Options that differ in type, layout and launch method.
fn options() -> Vec<CudaOptions> {
    let options_in = |precision| CudaOptions { fused: false, ..CudaOptions::new(precision) };
    let best = options_in(Precision::Fp32);
    vec![
        best,
        CudaOptions { layout: Layout::Nchw, ..best },
        CudaOptions { graph: false, overlap: false, ..best },
        options_in(Precision::AmpFp16),
        options_in(Precision::AmpBf16),
        CudaOptions { layout: Layout::Nchw, ..options_in(Precision::AmpBf16) },
    ]
}

#[test]
fn an_own_relu_trains_to_the_same_bits_as_the_built_in_one() {
    let Some(device) = testing::gpu("an_own_relu_trains_to_the_same_bits_as_the_built_in_one") else { return };
    let layers = |f: &dyn Fn() -> Layer| {
        let branch = residual([conv2d(8, 3).padding(1), f(), dropout(0.2)]);
        vec![conv2d(8, 3), f(), branch, relu(), f(), max_pool(2), flatten(), linear(12), f(), linear(3)]
    };
    for options in options() {
        let place = cuda(&device, options);
        let (want, built_in) = run(&place, &recipe(layers(&relu)));
        let (got, mine) = run(&place, &recipe(layers(&|| own(&own_relu()))));
        assert_eq!(want.len(), 8);
        assert_eq!(bits(&got), bits(&want), "{options:?}");
        assert_eq!(mine.weights().unwrap().values(), built_in.weights().unwrap().values(), "{options:?}");
        let data = images(50);
        let (mut mine, mut built_in) = (mine, built_in);
        assert_eq!(mine.evaluate(&data).unwrap(), built_in.evaluate(&data).unwrap(), "{options:?}");
    }
}

#[test]
fn layers_with_parameters_train_as_their_cpu_bodies_do() {
    let Some(device) = testing::gpu("layers_with_parameters_train_as_their_cpu_bodies_do") else { return };
    let r = recipe(swish_layers(&swish_on_both()));
    let (want, cpu) = run(&Place::Cpu, &r);
    for options in options() {
        let place = cuda(&device, options);
        let (got, gpu) = run(&place, &r);
        let bound = match options.precision {
            Precision::Fp32 => 1e-4,
            Precision::AmpBf16 => 0.05,
            _ => 0.02,
        };
        for (step, (got, want)) in got.iter().zip(&want).enumerate() {
            let error = (got.loss - want.loss).abs() / want.loss;
            assert!(error < bound, "{options:?}, step {step}: {} and {}", got.loss, want.loss);
        }
        let (weights, got_g, want_g) = (gpu.weights().unwrap(), gpu.gradients().unwrap(), cpu.gradients().unwrap());
        for name in ["swish1.beta", "swish2.beta", "swish3.beta"] {
            assert!(weights.get(name).unwrap()[0] != 1.0, "{options:?}: {name} has not moved");
            let [got, want] = [&got_g, &want_g].map(|g| g.get(name).unwrap()[0]);
            let is_near = (got - want).abs() <= 0.02 * want.abs() + 2e-5;
            assert!(is_near || options.precision != Precision::Fp32, "{options:?}: d{name} is {got} and {want}");
        }
        let (again, _) = run(&place, &r);
        assert_eq!(bits(&got), bits(&again), "{options:?}");
    }
}

#[test]
fn frozen_layers_give_the_outputs_of_their_cpu_bodies() {
    let Some(device) = testing::gpu("frozen_layers_give_the_outputs_of_their_cpu_bodies") else { return };
    let r = recipe(swish_layers(&swish_on_both()));
    let frozen = Frozen::new(&r, &Weights::init(&r.network, 7), &["a", "b", "c"].map(String::from)).unwrap();
    let images = images(21);
    let outputs = |frozen: &Frozen, batch| frozen.predictor(batch).unwrap().outputs(images.images()).unwrap();
    let want = outputs(&frozen, 21);
    let size = want.iter().fold(0.0f32, |most, v| most.max(v.abs()));
    let fused = |options: CudaOptions| CudaOptions { fused: true, ..options };
    for options in options().into_iter().flat_map(|o| [o, fused(o)]) {
        let bound = match options.precision {
            Precision::Fp32 => 1e-5,
            Precision::AmpBf16 => 4e-2,
            _ => 5e-3,
        };
        for batch in [1, 8, 21] {
            let got = outputs(&frozen.clone().to(cuda(&device, options)), batch);
            for (got, want) in got.iter().zip(&want) {
                assert!((got - want).abs() <= bound * size, "{options:?}, batch {batch}: {got} and {want}");
            }
        }
    }
}

#[test]
fn every_way_of_launching_learns() {
    let Some(device) = testing::gpu("every_way_of_launching_learns") else { return };
    for precision in [Precision::Fp32, Precision::Tf32, Precision::AmpFp16, Precision::AmpBf16] {
        let layers =
            vec![conv2d(8, 3), own(&affine(8)), relu(), own(&softmax()), own(&mean(8)), own(&swish()), linear(3)];
        let r = Recipe { epochs: 30, learning_rate: 0.1, ..recipe(layers) };
        let place = cuda(&device, CudaOptions::new(precision));
        let (outcomes, trainer) = run(&place, &r);
        let (first, last) = (mean_loss(&outcomes[..4]), mean_loss(&outcomes[outcomes.len() - 4..]));
        assert!(last < 0.9 * first, "{precision}: {first} to {last}");
        let weights = trainer.weights().unwrap();
        for name in ["affine1.scale", "mean1.w"] {
            let moved = weights.get(name).unwrap().iter().filter(|v| (**v - 1.0).abs() > 1e-4).count();
            assert!(moved >= 6, "{precision}: {name} is {:?}", weights.get(name));
        }
        let (again, _) = run(&place, &r);
        assert_eq!(bits(&outcomes), bits(&again), "{precision}");
    }
}

#[test]
fn a_value_that_is_no_number_names_the_layer() {
    let Some(device) = testing::gpu("a_value_that_is_no_number_names_the_layer") else { return };
    let source = RELU.replace("y[i] = v < 0 ? 0.0f : v;", "y[i] = v < 0 ? NAN : v;");
    let r = recipe(vec![conv2d(4, 3), own(&OwnLayer::new("broken", source)), flatten(), linear(3)]);
    let data = images(50);
    let place = cuda(&device, CudaOptions::new(Precision::Fp32));
    let mut trainer = Trainer::on(&place, r, &data, None).unwrap();
    let sentence = trainer.train(&data, &data, 1, &mut |_| Flow::Continue).unwrap_err().to_string();
    assert!(sentence.contains("is the output of broken1"), "{sentence}");
    // A source that does not compile is reported before the first step.
    let r = recipe(vec![own(&OwnLayer::new("wrong", RELU.replace("float v", "flot v"))), flatten(), linear(3)]);
    let sentence = Trainer::on(&place, r, &data, None).unwrap_err().to_string();
    assert!(sentence.starts_with("live/wrong.cu, line 5: identifier \"flot\" is undefined"), "{sentence}");
}

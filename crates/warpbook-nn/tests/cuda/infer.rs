//! Frozen networks on a GPU are compared with the CPU.

use warpbook_data::philox;
use warpbook_data::{self as data, Dataset};
use warpbook_device::{Bench, CudaDevice, Cudnn, Library, testing};
use warpbook_gemm::ProductBy;
use warpbook_nn::infer::Frozen;
use warpbook_nn::network::*;
use warpbook_nn::ops::Layout;
use warpbook_nn::ops::conv2d::cuda::Method;
use warpbook_nn::train::{CudaOptions, Loss, Place, Precision, Recipe, Trainer};
use warpbook_nn::weights::Weights;

const SHAPE: [usize; 3] = [2, 7, 9];
const CLASSES: usize = 5;

/// Random weights, none of them 0 or 1, so that every batch normalisation has an effect.
fn weights(network: &Network) -> Weights {
    let value = |(id, spec): (usize, &ParamSpec)| {
        let mut values = vec![0.0; spec.len()];
        philox::fill_uniforms(&mut values, 3, id as u32, 0);
        let spread = 3.0 / (spec.fan_in as f32).sqrt();
        let rescaled = |v: f32| match spec.role {
            Role::RunningVariance | Role::Scale => 0.5 + v,
            _ => (v - 0.5) * spread,
        };
        values.into_iter().map(rescaled).collect()
    };
    Weights::new(network, network.params().iter().enumerate().map(value).collect()).unwrap()
}

fn frozen(network: Network, recipe: Recipe) -> Frozen {
    let classes: Vec<String> = (0..network.output().elements()).map(|c| c.to_string()).collect();
    let recipe = Recipe { network, ..recipe };
    Frozen::new(&recipe, &weights(&recipe.network), &classes).unwrap()
}

/// Custom networks with batch normalisations that are folded, others that stay, residual sums, and all pools.
fn own() -> Vec<Frozen> {
    let conv = |filters| conv2d(filters, 3).padding(1).without_bias();
    let networks: Vec<Vec<Layer>> = vec![
        vec![conv2d(8, 3), batch_norm(), relu(), max_pool(2), dropout(0.3), flatten(), linear(CLASSES)],
        vec![batch_norm(), conv(6), batch_norm(), gelu(), avg_pool(3).stride(2).padding(1), flatten(), linear(CLASSES)],
        vec![
            conv(7),
            residual([conv(7), batch_norm(), relu(), conv(7), batch_norm()]),
            relu(),
            batch_norm(),
            flatten(),
            linear(CLASSES),
        ],
        vec![flatten(), residual([linear(126), gelu()]), batch_norm(), linear(CLASSES)],
        vec![conv2d(3, 1).strides([2, 3]), flatten(), residual([linear(36), relu()]), linear(CLASSES), batch_norm()],
        vec![residual([dropout(0.5)]), flatten(), linear(CLASSES)],
    ];
    let frozen_of = |layers| {
        let recipe = Recipe {
            mean: vec![0.4, 0.5],
            deviation: vec![0.3, 0.25],
            loss: Loss::CrossEntropy { smoothing: 0.1 },
            ..Recipe::mnist()
        };
        frozen(Network::new(SHAPE, layers).unwrap(), recipe)
    };
    networks.into_iter().map(frozen_of).collect()
}

fn pixels(frozen: &Frozen, n: usize) -> Vec<u8> {
    let len = n * frozen.shape().iter().product::<usize>();
    (0..len).map(|i| (128.0 + 70.0 * philox::gaussian(5, i as u64, 0)).clamp(0.0, 255.0) as u8).collect()
}

/// Permitted rounding error, relative to the largest output.
fn tolerance(precision: Precision) -> f32 {
    match precision {
        Precision::Fp32 => 1e-5,
        Precision::Tf32 | Precision::AmpFp16 => 5e-3,
        Precision::AmpBf16 => 4e-2,
    }
}

/// Largest difference, relative to the largest output of the CPU.
fn apart(got: &[f32], want: &[f32]) -> f32 {
    assert_eq!(got.len(), want.len());
    let size = want.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    got.iter().zip(want).fold(0.0, |m: f32, (g, w)| if g.is_finite() { m.max((g - w).abs() / size) } else { f32::NAN })
}

fn cuda(device: &CudaDevice, options: CudaOptions) -> Place {
    Place::Cuda(device.clone(), options)
}

/// Compares batches of one image and of odd sizes; the last batch is smaller.
fn check(name: &str, frozen: &Frozen, place: &Place, precision: Precision) {
    let images = pixels(frozen, 21);
    let want = frozen.predictor(21).unwrap().outputs(&images).unwrap();
    let there = frozen.clone().to(place.clone());
    for batch in [1, 8, 21] {
        let mut predictor = there.predictor(batch).unwrap_or_else(|e| panic!("{name}, {place}: {e}"));
        let got = predictor.outputs(&images).unwrap_or_else(|e| panic!("{name}, {place}, batch {batch}: {e}"));
        let apart = apart(&got, &want);
        assert!(apart <= tolerance(precision), "{name} on {place:?}, batch {batch}: outputs differ by {apart:.1e}");
        let again: Vec<u32> = predictor.outputs(&images).unwrap().iter().map(|v| v.to_bits()).collect();
        assert!(got.iter().map(|v| v.to_bits()).eq(again), "{name} on {place:?}, batch {batch}: other bits");
    }
}

#[test]
fn frozen_networks_of_a_learner_give_the_cpu_s_outputs() {
    let Some(device) = testing::gpu("frozen_networks_of_a_learner_give_the_cpu_s_outputs") else { return };
    for (i, frozen) in own().iter().enumerate() {
        for precision in Precision::ALL {
            check(&format!("network {i}"), frozen, &cuda(&device, CudaOptions::new(precision)), precision);
        }
    }
}

#[test]
fn frozen_presets_give_the_cpu_s_outputs() {
    let Some(device) = testing::gpu("frozen_presets_give_the_cpu_s_outputs") else { return };
    for recipe in [Recipe::mnist(), Recipe::cifar10()] {
        let frozen = frozen(recipe.network.clone(), recipe);
        for precision in Precision::ALL {
            check(frozen.recipe(), &frozen, &cuda(&device, CudaOptions::new(precision)), precision);
        }
    }
}

#[test]
fn every_way_of_computing_gives_the_cpu_s_outputs() {
    let Some(device) = testing::gpu("every_way_of_computing_gives_the_cpu_s_outputs") else { return };
    let best = CudaOptions::new(Precision::Fp32);
    let ways = [
        CudaOptions { graph: false, ..best },
        CudaOptions { fused: false, ..best },
        CudaOptions { layout: Layout::Nchw, ..best },
        CudaOptions { layout: Layout::Nchw, convolution: Method::Direct, ..best },
        CudaOptions { convolution: Method::Im2col, ..best },
    ];
    for (i, frozen) in own().iter().enumerate() {
        for options in ways {
            check(&format!("network {i}"), frozen, &cuda(&device, options), Precision::Fp32);
        }
    }
}

#[test]
fn frozen_networks_by_libraries_give_the_cpu_s_outputs() {
    let test = "frozen_networks_by_libraries_give_the_cpu_s_outputs";
    let Some(device) = testing::gpu(test) else { return };
    if let Err(why) = Cudnn::open(&device) {
        assert!(why.is_missing(Library::Cudnn), "{why}");
        return testing::skip(test, "needs cuDNN", why);
    }
    let recipe = Recipe::mnist();
    let frozen = frozen(recipe.network.clone(), recipe);
    for precision in Precision::ALL {
        let best = CudaOptions::new(precision);
        let stock = CudaOptions { convolution: Method::Stock, product: ProductBy::Stock, ..best };
        check(frozen.recipe(), &frozen, &cuda(&device, stock), precision);
    }
    let layers = [
        conv2d(8, 3).stock(),
        relu(),
        flatten(),
        linear(16).product(ProductBy::Naive),
        relu(),
        linear(CLASSES).stock(),
    ];
    let network = Network::new(SHAPE, layers).unwrap();
    let recipe = Recipe { mean: vec![0.4, 0.5], deviation: vec![0.3, 0.25], ..Recipe::mnist() };
    let precision = Precision::AmpFp16;
    check("layers' choices", &self::frozen(network, recipe), &cuda(&device, CudaOptions::new(precision)), precision);
}

fn test_set() -> (Recipe, Dataset, Weights) {
    let digits = data::synthetic_digits(512, 301, 7);
    let recipe = Recipe { batch: 64, steps: Some(60), epochs: 20, ..Recipe::mnist() };
    let mut trainer = Trainer::new(recipe.clone(), &digits.train, None).unwrap();
    trainer.train(&digits.train, &digits.test, 100, &mut |_| warpbook_nn::train::Flow::Continue).unwrap();
    (recipe, digits.test, trainer.weights().unwrap())
}

#[test]
fn a_frozen_network_is_judged_on_a_gpu_as_on_the_cpu() {
    let Some(device) = testing::gpu("a_frozen_network_is_judged_on_a_gpu_as_on_the_cpu") else { return };
    let (recipe, test, weights) = test_set();
    let frozen = Frozen::new(&recipe, &weights, test.classes()).unwrap();
    let want = frozen.evaluate(&test).unwrap();
    for precision in Precision::ALL {
        let place = cuda(&device, CudaOptions::new(precision));
        let got = frozen.clone().to(place.clone()).evaluate(&test).unwrap();
        // The training's kernels evaluate the network before it is frozen.
        let trainer = Trainer::on(&place, recipe.clone(), &test, Some(&weights)).unwrap().evaluate(&test).unwrap();
        for got in [got, trainer] {
            let allowed = f64::from(tolerance(precision)).max(1e-4);
            assert!((got.loss - want.loss).abs() <= allowed * want.loss.max(1.0), "{place}: {got:?} and {want:?}");
            assert!(got.of == 301 && got.correct.abs_diff(want.correct) <= 3, "{place}: {got:?} and {want:?}");
        }
    }
}

#[test]
fn a_frozen_network_takes_less_memory_than_its_training() {
    let Some(device) = testing::gpu("a_frozen_network_takes_less_memory_than_its_training") else { return };
    let recipe = Recipe::mnist();
    let frozen = frozen(recipe.network.clone(), recipe.clone());
    for precision in [Precision::Fp32, Precision::AmpFp16] {
        let options = CudaOptions::new(precision);
        let predictor = frozen.clone().to(cuda(&device, options)).predictor(recipe.batch).unwrap();
        let training = recipe.summary(&options).memory.total();
        assert!(predictor.bytes() < training * 3 / 4, "{precision}: {} of {training} bytes", predictor.bytes());
    }
    let there = frozen.to(cuda(&device, CudaOptions::new(Precision::Fp32)));
    let sentence = there.predictor(1 << 28).unwrap_err().to_string();
    assert!(sentence.contains("268435456"), "{sentence}");
    assert!(there.predictor(0).unwrap_err().to_string().contains("at least one image"));
}

#[test]
fn a_gpu_s_predictions_are_timed() {
    let Some(device) = testing::gpu("a_gpu_s_predictions_are_timed") else { return };
    let recipe = Recipe::mnist();
    let frozen = frozen(recipe.network.clone(), recipe);
    let place = cuda(&device, CudaOptions::new(Precision::AmpFp16));
    let bench = Bench { samples: 20, batch_below_us: 0.0, ..Bench::default() };
    for batch in [1, 256] {
        let images = pixels(&frozen, batch);
        let mut predictor = frozen.clone().to(place.clone()).predictor(batch).unwrap();
        let samples = predictor.time(&images, &bench).unwrap();
        let wall = samples.wall_us.iter().copied().fold(f64::INFINITY, f64::min);
        println!("batch {batch}: {:.1} us by events, at least {wall:.1} us with launch and wait", samples.median_us());
        assert!((1..=20).contains(&samples.us.len()) && samples.batch == 1);
        assert!(samples.us.iter().zip(&samples.wall_us).all(|(us, wall)| *us > 1.0 && us <= wall), "{samples:?}");
        let too_many = pixels(&frozen, batch + 1);
        assert!(predictor.time(&too_many, &bench).unwrap_err().to_string().contains(&format!("1 to {batch} images")));
    }
}

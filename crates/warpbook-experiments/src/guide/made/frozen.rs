//! Inference with a small network: one operation after another, or frozen, saved and loaded.

use super::{failure, in_region};
use crate::guide::pair::PairWork;
use crate::guide::prepared::Arrays;
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use warpbook_lab::experiment::{Candidate, Details, on_cpu, on_gpu};
use warpbook_lab::{Error, Result};
use warpbook_nn::infer::{Frozen, Predictor};
use warpbook_nn::network::{Network, flatten, linear, relu};
use warpbook_nn::train::{CudaOptions, Place, Precision, Recipe};
use warpbook_nn::weights::Weights;

/// Numbers of inputs, hidden neurons and outputs.
const WIDTHS: [usize; 3] = [100, 50, 10];

fn recipe() -> Result<Recipe> {
    let layers = [flatten(), linear(WIDTHS[1]), relu(), linear(WIDTHS[2])];
    let network = Network::new([1, 10, 10], layers).map_err(|e| Error::Setting(e.to_string()))?;
    Ok(Recipe { name: "small".into(), network, mean: vec![0.5], deviation: vec![0.5], ..Recipe::mnist() })
}

fn frozen() -> Result<Frozen> {
    let recipe = recipe()?;
    let classes: Vec<String> = (0..WIDTHS[2]).map(|c| c.to_string()).collect();
    Frozen::new(&recipe, &Weights::init(&recipe.network, 1), &classes).map_err(failure)
}

/// Saves the network to a file and returns the network that is loaded from it.
fn saved_and_loaded() -> Result<Frozen> {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("warpbook-{}-{number}.safetensors", std::process::id()));
    frozen()?.save(&path).map_err(failure)?;
    let loaded = Frozen::load(&path).map_err(failure);
    let _ = std::fs::remove_file(&path);
    loaded
}

/// Returns the work of `passes` forward passes with a batch.
pub(in crate::guide) fn work(batch: u64, passes: u64) -> PairWork {
    let [inputs, hidden, outputs] = WIDTHS.map(|w| w as u64);
    let weights = 4 * (inputs * hidden + hidden + hidden * outputs + outputs);
    // Each pixel is one byte.
    let bytes = batch * (inputs + 4 * outputs);
    PairWork {
        n: passes,
        inputs: batch * inputs,
        outputs: batch * outputs,
        flops: passes * 2 * batch * (inputs * hidden + hidden * outputs),
        bytes: passes * (bytes + weights),
        written_bytes: passes * batch * 4 * outputs,
        argument: 0,
        array_bytes: bytes + weights,
    }
}

/// Returns pixel values from 0 to 255, computed from their index.
pub(in crate::guide) fn pixels(work: &PairWork) -> Vec<f32> {
    (0..work.inputs).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as f32).collect()
}

/// Computes the expected outputs in f64.
pub(in crate::guide) fn want(x: &[f32], work: &PairWork, _: u64) -> Vec<f64> {
    let Ok(recipe) = recipe() else { return vec![f64::NAN; work.outputs as usize] };
    let weights = Weights::init(&recipe.network, 1);
    let [w1, b1, w2, b2] = [0, 1, 2, 3].map(|i| weights.values()[i].as_slice());
    let layer = |x: &[f64], w: &[f32], b: &[f32]| -> Vec<f64> {
        let sum = |w: &[f32]| x.iter().zip(w).map(|(x, w)| x * f64::from(*w)).sum::<f64>();
        w.chunks(x.len()).zip(b).map(|(w, b)| sum(w) + f64::from(*b)).collect()
    };
    let sample = |x: &[f32]| {
        let x: Vec<f64> = x.iter().map(|v| (f64::from(*v) / 255.0 - 0.5) / 0.5).collect();
        let hidden: Vec<f64> = layer(&x, w1, b1).into_iter().map(|v| v.max(0.0)).collect();
        layer(&hidden, w2, b2)
    };
    x.chunks(WIDTHS[0]).flat_map(sample).collect()
}

/// The way in which a half runs its passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::guide) enum Passes {
    /// Each operation is a separate launch, including biases and ReLUs.
    Operations,
    /// Each product is a launch, which includes bias and ReLU in its epilogue.
    Fused,
    /// The whole pass is replayed as one graph.
    Graph,
}

fn images(arrays: &Arrays) -> Vec<u8> {
    arrays.x.iter().map(|v| *v as u8).collect()
}

/// Runs all passes of the timed region; the outputs of the last pass are kept.
fn run(arrays: &Arrays, predictor: &mut Predictor, images: &[u8]) -> warpbook_device::Result<()> {
    for _ in 0..arrays.work.n {
        let outputs = predictor.outputs(images).map_err(in_region)?;
        arrays.out.borrow_mut().copy_from_slice(&outputs);
    }
    Ok(())
}

pub(in crate::guide) fn on_the_gpu(arrays: &Arrays, passes: Passes) -> Result<Box<dyn Candidate + '_>> {
    let on = arrays.on_gpu()?;
    let best = CudaOptions::new(Precision::Fp32);
    let options = match passes {
        Passes::Operations => CudaOptions { graph: false, fused: false, dependent: false, ..best },
        Passes::Fused => CudaOptions { graph: false, dependent: false, ..best },
        Passes::Graph => best,
    };
    // Only the graph variant uses the saved and loaded network; the others do not need it.
    let network = if passes == Passes::Graph { saved_and_loaded()? } else { frozen()? };
    let images = images(arrays);
    let batch = arrays.size as usize;
    let mut predictor = network.to(Place::Cuda(on.device.clone(), options)).predictor(batch).map_err(failure)?;
    // The first pass compiles the kernels and captures the graph.
    predictor.outputs(&images).map_err(failure)?;
    let details = Details { peak_bytes: Some(predictor.bytes()), ..Details::default() };
    let predictor = RefCell::new(predictor);
    let launch = move || run(arrays, &mut predictor.borrow_mut(), &images);
    let check = move || Ok(arrays.check(&arrays.out.borrow()));
    Ok(Box::new(on_gpu(&on.stream, launch, check).resetting(|| unwritten(arrays)).details(details).as_launched()))
}

fn unwritten(arrays: &Arrays) -> warpbook_device::Result<()> {
    arrays.out.borrow_mut().fill(f32::NAN);
    Ok(())
}

/// Creates a candidate that runs the passes on the CPU. If `kept`, memory and weights are prepared only once, else for
/// every pass.
pub(in crate::guide) fn on_the_cpu(arrays: &Arrays, kept: bool) -> Result<Box<dyn Candidate + '_>> {
    let network = saved_and_loaded()?;
    let (images, batch) = (images(arrays), arrays.size as usize);
    let kept = if kept { Some(network.predictor(batch).map_err(failure)?) } else { None };
    let kept = RefCell::new(kept);
    let launch = move || match &mut *kept.borrow_mut() {
        Some(predictor) => run(arrays, predictor, &images),
        None => (0..arrays.work.n).try_for_each(|_| {
            let outputs = network.predictor(batch).and_then(|mut p| p.outputs(&images)).map_err(in_region)?;
            arrays.out.borrow_mut().copy_from_slice(&outputs);
            Ok(())
        }),
    };
    Ok(Box::new(on_cpu(launch, move || Ok(arrays.check(&arrays.out.borrow())))))
}

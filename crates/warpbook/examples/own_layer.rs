//! A custom layer, checked and trained on the digits: Swish (Ramachandran et al., 2017) with a learned slope.
//! `cargo run --release -p warpbook --example own_layer`
//!
//! Training needs a GPU. Without a GPU the layer is only compiled, and compiler errors name their lines.

use warpbook::nn::train::{Event, Flow};
use warpbook::prelude::nn::*;
use warpbook::prelude::*;

const SWISH: &str = r"
__global__ void forward(const T* x, const float* beta, T* y, unsigned n) {
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    y[i] = v / (1 + expf(-*beta * v));
}

__global__ void backward(const T* x, const T* y, const T* dy, const float* beta, T* dx, float* dbeta, unsigned n) {
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    float share = 0;
    if (i < n) {
        float v = x[i], g = dy[i], s = 1 / (1 + expf(-*beta * v));
        dx[i] = g * s * (1 + *beta * v * (1 - s));
        share = g * v * v * s * (1 - s);
    }
    // Every block adds up its share of the gradient; the shares are added afterwards, in the same order on every run.
    share = block_sum(share);
    if (threadIdx.x == 0) dbeta[blockIdx.x] = share;
}
";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let swish = OwnLayer::new("swish", SWISH).parameter("beta", [1], 1.0);
    let lab = Lab::new()?;
    println!("{}\n", lab.check_layer(&swish, [32, 13, 13])?.text());
    let layers =
        [conv2d(32, 3), own(&swish), max_pool(2), conv2d(64, 3), own(&swish), max_pool(2), flatten(), linear(10)];
    let network = Network::new([1, 28, 28], layers)?;
    println!("{}\n", network.summary(512).text());
    if lab.device().cuda().is_none() {
        println!("Training needs a GPU.");
        return Ok(());
    }
    let digits = synthetic_digits(8192, 1024, 1);
    let place = Place::new(lab.device(), Precision::AmpFp16)?;
    let recipe = Recipe { network, epochs: 3, ..Recipe::mnist() };
    let mut trainer = Trainer::on(&place, recipe, &digits.train, None)?;
    trainer.train(&digits.train, &digits.test, 100, &mut |event| {
        if let Event::Epoch { epoch, test, .. } = event {
            println!("epoch {epoch}: {:.1} % of the test digits are right", 100.0 * test.accuracy());
        }
        Flow::Continue
    })?;
    let weights = trainer.weights()?;
    for name in ["swish1.beta", "swish2.beta"] {
        println!("{name} is {:.3}", weights.get(name).unwrap_or_default()[0]);
    }
    Ok(())
}

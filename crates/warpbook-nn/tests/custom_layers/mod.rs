//! Custom layers for the tests of training in this crate, and for the tests of the layer check in `crates/warpbook/tests/all/own_layer.rs`.

use warpbook_nn::ops::custom_layer::OwnLayer;

pub const RELU: &str = r"
__global__ void forward(const T* x, T* y, unsigned n) {
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    y[i] = v < 0 ? 0.0f : v;
}

__global__ void backward(const T* x, const T* y, const T* dy, T* dx, unsigned n) {
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    float g = dy[i];
    dx[i] = y[i] <= 0.0f ? 0.0f : g;
}
";

const SWISH: &str = include_str!("swish.cu");

/// Softmax over the channels of each pixel, one block per sample.
pub const SOFTMAX: &str = r"
__global__ void forward(const T* x, T* y, unsigned n) {
    for (unsigned p = threadIdx.x; p < HEIGHT * WIDTH; p += THREADS) {
        unsigned row = p / WIDTH, column = p % WIDTH;
        float most = -INFINITY, sum = 0;
        for (unsigned c = 0; c < CHANNELS; ++c) most = fmaxf(most, x[index(blockIdx.x, c, row, column)]);
        for (unsigned c = 0; c < CHANNELS; ++c) sum += expf(x[index(blockIdx.x, c, row, column)] - most);
        for (unsigned c = 0; c < CHANNELS; ++c) {
            unsigned i = index(blockIdx.x, c, row, column);
            y[i] = expf(x[i] - most) / sum;
        }
    }
}

__global__ void backward(const T* x, const T* y, const T* dy, T* dx, unsigned n) {
    for (unsigned p = threadIdx.x; p < HEIGHT * WIDTH; p += THREADS) {
        unsigned row = p / WIDTH, column = p % WIDTH;
        float sum = 0;
        for (unsigned c = 0; c < CHANNELS; ++c) {
            unsigned i = index(blockIdx.x, c, row, column);
            sum += float(y[i]) * float(dy[i]);
        }
        for (unsigned c = 0; c < CHANNELS; ++c) {
            unsigned i = index(blockIdx.x, c, row, column);
            dx[i] = float(y[i]) * (float(dy[i]) - sum);
        }
    }
}
";

/// y = scale[c] x + shift[c], one block per channel.
const AFFINE: &str = r"
__global__ void forward(const T* x, const float* scale, const float* shift, T* y, unsigned n) {
    unsigned c = blockIdx.x;
    for (unsigned k = threadIdx.x; k < n * HEIGHT * WIDTH; k += THREADS) {
        unsigned p = k % (HEIGHT * WIDTH), i = index(k / (HEIGHT * WIDTH), c, p / WIDTH, p % WIDTH);
        y[i] = scale[c] * float(x[i]) + shift[c];
    }
}

__global__ void backward(const T* x, const T* y, const T* dy, const float* scale, const float* shift, T* dx, float* dscale,
                         float* dshift, unsigned n) {
    unsigned c = blockIdx.x;
    float of_scale = 0, of_shift = 0;
    for (unsigned k = threadIdx.x; k < n * HEIGHT * WIDTH; k += THREADS) {
        unsigned p = k % (HEIGHT * WIDTH), i = index(k / (HEIGHT * WIDTH), c, p / WIDTH, p % WIDTH);
        float g = dy[i];
        dx[i] = scale[c] * g;
        of_scale += g * float(x[i]);
        of_shift += g;
    }
    of_scale = block_sum(of_scale);
    of_shift = block_sum(of_shift);
    if (threadIdx.x == 0) dscale[c] = of_scale, dshift[c] = of_shift;
}
";

/// The mean of each channel as a vector, one block per sample, with a factor for each channel.
const MEAN: &str = r"
__global__ void forward(const T* x, const float* w, T* y, unsigned n) {
    for (unsigned c = 0; c < CHANNELS; ++c) {
        float sum = 0;
        for (unsigned p = threadIdx.x; p < HEIGHT * WIDTH; p += THREADS) sum += x[index(blockIdx.x, c, p / WIDTH, p % WIDTH)];
        sum = block_sum(sum);
        if (threadIdx.x == 0) y[out_index(blockIdx.x, c)] = w[c] * sum / (HEIGHT * WIDTH);
    }
}

__global__ void backward(const T* x, const T* y, const T* dy, const float* w, T* dx, float* dw, unsigned n) {
    for (unsigned c = 0; c < CHANNELS; ++c) {
        float g = dy[out_index(blockIdx.x, c)], sum = 0;
        for (unsigned p = threadIdx.x; p < HEIGHT * WIDTH; p += THREADS) {
            unsigned i = index(blockIdx.x, c, p / WIDTH, p % WIDTH);
            sum += x[i];
            dx[i] = w[c] * g / (HEIGHT * WIDTH);
        }
        sum = block_sum(sum);
        if (threadIdx.x == 0) dw[blockIdx.x * CHANNELS + c] = g * sum / (HEIGHT * WIDTH);
    }
}
";

/// The ReLU as a custom layer.
pub fn own_relu() -> OwnLayer {
    OwnLayer::new("ramp", RELU)
}

pub fn swish() -> OwnLayer {
    OwnLayer::new("swish", SWISH).parameter("beta", [1], 1.0)
}

pub fn softmax() -> OwnLayer {
    OwnLayer::new("softmax", SOFTMAX).one_block_a_sample().threads(64)
}

pub fn affine(channels: usize) -> OwnLayer {
    OwnLayer::new("affine", AFFINE)
        .parameter("scale", [channels], 1.0)
        .parameter("shift", [channels], 0.0)
        .one_block_a_channel()
}

pub fn mean(channels: usize) -> OwnLayer {
    OwnLayer::new("mean", MEAN).parameter("w", [channels], 1.0).one_block_a_sample().output(channels)
}

/// Swish with CPU bodies in addition to its kernels.
pub fn swish_on_both() -> OwnLayer {
    let sigmoid = |v: f32| 1.0 / (1.0 + (-v).exp());
    swish().on_cpu(
        move |c| {
            let beta = c.parameters[0][0];
            c.y.iter_mut().zip(c.x).for_each(|(y, x)| *y = x * sigmoid(beta * x));
        },
        move |c| {
            let beta = c.parameters[0][0];
            let mut sum = 0f64;
            for (dx, (x, dy)) in c.dx.iter_mut().zip(c.x.iter().zip(c.dy)) {
                let s = sigmoid(beta * x);
                *dx = dy * s * (1.0 + beta * x * (1.0 - s));
                sum += f64::from(dy * x * x * s * (1.0 - s));
            }
            c.gradients[0][0] = sum as f32;
        },
    )
}

/// Swish with a passage of its source replaced.
pub fn swish_with(passage: &str, by: &str) -> OwnLayer {
    assert!(SWISH.contains(passage), "{passage}");
    OwnLayer::new("swish", SWISH.replacen(passage, by, 1)).parameter("beta", [1], 1.0)
}

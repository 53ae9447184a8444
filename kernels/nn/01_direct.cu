// Idea: a thread computes one output from the definition; every pass reads an input from memory as often as the formula uses it.
// Formula: y[n][p][q][o] = b[o] + sum over i, j, c of x[n][p sh + i - ph][q sw + j - pw][c] w[o][i][j][c]; dx, dw: the same terms; f32.
// Since the last rung: nothing; this is the first rung.
// Needs: fewer than 2^31 elements; images NHWC, or NCHW with CHANNELS_FIRST, weights [o][i][j][c] or [o][c][i][j].
// Expect: two loads per multiply-add, served by L1 and L2, so far below the arithmetic bound; dw uses one block per weight.
#include "launch.cuh"
#include "nn/conv.cuh"
#include "reduce.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
direct_forward(Conv g, const float* __restrict__ x /* images of h x w */, const float* __restrict__ weight,
               const float* __restrict__ bias /* [o], or null */, unsigned relu, float* __restrict__ y /* images of oh x ow */,
               unsigned count /* of y */) {
    wait_for_predecessor();
    let_successor_start();
    const unsigned long long at = blockIdx.x * (unsigned long long)THREADS + threadIdx.x;
    if (at >= count) return;
    const Place out = place((unsigned)at, g.filters, g.oh, g.ow);
    float sum = 0.0f;
    each_tap(g, out.row, out.column, [&](unsigned i, unsigned j, unsigned row, unsigned column) {
        for (unsigned c = 0; c < g.channels; ++c) {
            const float value = x[element({out.image, c, row, column}, g.channels, g.h, g.w)];
            sum = fmaf(value, weight[weight_at(g, out.channel, i, j, c)], sum);
        }
    });
    if (bias) sum += bias[out.channel];
    // fmaxf would turn a NaN into 0.
    y[at] = relu && sum < 0.0f ? 0.0f : sum;
}

extern "C" __global__ void __launch_bounds__(THREADS)
direct_input_gradient(Conv g, const float* __restrict__ dy /* images of oh x ow */, const float* __restrict__ weight,
                      const float* __restrict__ mask /* as dx, or null */, float* __restrict__ dx /* images of h x w */,
                      unsigned count /* of dx */) {
    wait_for_predecessor();
    let_successor_start();
    const unsigned long long at = blockIdx.x * (unsigned long long)THREADS + threadIdx.x;
    if (at >= count) return;
    const Place in = place((unsigned)at, g.channels, g.h, g.w);
    float sum = 0.0f;
    each_use(g, in.row, in.column, [&](unsigned i, unsigned j, unsigned oy, unsigned ox) {
        for (unsigned o = 0; o < g.filters; ++o) {
            const float value = dy[element({in.image, o, oy, ox}, g.filters, g.oh, g.ow)];
            sum = fmaf(value, weight[weight_at(g, o, i, j, in.channel)], sum);
        }
    });
    dx[at] = mask && mask[at] <= 0.0f ? 0.0f : sum;
}

// A block computes the gradient of one weight; its threads divide the positions among themselves.
extern "C" __global__ void __launch_bounds__(THREADS)
direct_weight_gradient(Conv g, const float* __restrict__ x /* images of h x w */, const float* __restrict__ dy /* images of oh x ow */,
                       float* __restrict__ dweight) {
    wait_for_predecessor();
    let_successor_start();
    // The position of the weight, found by treating its filter as an image of kh x kw.
    const Place of = place(blockIdx.x, g.channels, g.kh, g.kw);
    float sum[1] = {0.0f};
    for (unsigned k = threadIdx.x; k < g.positions; k += THREADS) {
        const unsigned ox = k % g.ow, oy = k / g.ow % g.oh, image = k / g.ow / g.oh;
        const unsigned row = oy * g.sh + of.row - g.ph, column = ox * g.sw + of.column - g.pw;
        if (row < g.h && column < g.w) {
            const float value = x[element({image, of.channel, row, column}, g.channels, g.h, g.w)];
            sum[0] = fmaf(value, dy[element({image, of.image, oy, ox}, g.filters, g.oh, g.ow)], sum[0]);
        }
    }
    block_sum<THREADS>(sum);
    if (threadIdx.x == 0) dweight[blockIdx.x] = sum[0];
}

// A block computes the bias gradient of one filter.
extern "C" __global__ void __launch_bounds__(THREADS)
direct_bias_gradient(Conv g, const float* __restrict__ dy /* images of oh x ow */, float* __restrict__ dbias /* [o] */) {
    wait_for_predecessor();
    let_successor_start();
    float sum[1] = {0.0f};
    for (unsigned k = threadIdx.x; k < g.positions; k += THREADS) {
        sum[0] += dy[element({k / g.ow / g.oh, blockIdx.x, k / g.ow % g.oh, k % g.ow}, g.filters, g.oh, g.ow)];
    }
    block_sum<THREADS>(sum);
    if (threadIdx.x == 0) dbias[blockIdx.x] = sum[0];
}

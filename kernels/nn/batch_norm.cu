// Idea: sums over a channel's rows in two levels; then y is linear in x for each channel, and dx is linear in dy and x.
// Formula: y = (x - mean) gamma / sqrt(var + eps) + beta; x [rows][channels], or [batch][channels][pixels] with CHANNELS_FIRST, IN.
// Since the last rung: not a rung; training, inference and backward pass of a layer.
// Needs: fewer than 2^32 elements; gamma, beta, means and variances f32 [channels]; partial f64 [chunks][2][channels].
// Expect: DRAM bandwidth, x read twice forwards, x and dy twice backwards; sums in f64, in one order on every run and device.
#include "launch.cuh"
#include "nn/elements.cuh"
#include "nn/sums.cuh"

struct Shape {
    unsigned rows, channels, pixels /* of a channel of an image; 1 unless CHANNELS_FIRST */, chunk /* rows of a block */;
};

__device__ __forceinline__ unsigned channel_of(unsigned i, const Shape& s) {
#if CHANNELS_FIRST
    return i / s.pixels % s.channels;
#else
    return i % s.channels;
#endif
}

// For each channel, adds up two values of each row of a chunk; pair(i, channel, a, b) sets them for element i of the array.
template <class Pair>
__device__ __forceinline__ void sum_chunk(const Shape& s, double* __restrict__ partial /* [chunks][2][channels] */, Pair pair) {
    double sums[2] = {};
#if CHANNELS_FIRST
    // A block sums one channel, along its pixels.
    const unsigned channel = blockIdx.x % s.channels, chunk = blockIdx.x / s.channels;
    const unsigned first = chunk * s.chunk, end = min(first + s.chunk, s.rows);
    for (unsigned r = first + threadIdx.x; r < end; r += THREADS) {
        float a, b;
        pair((r / s.pixels * s.channels + channel) * s.pixels + r % s.pixels, channel, a, b);
        sums[0] += (double)a;
        sums[1] += (double)a * (double)b;
    }
#pragma unroll
    for (int k = 0; k < 2; ++k) {
        const double sum = block_sum<THREADS>(sums[k]);
        if (threadIdx.x == 0) partial[((size_t)chunk * 2 + k) * s.channels + channel] = sum;
    }
#else
    // A block sums 32 channels, one in each lane; its warps take every WARPS-th row.
    constexpr int WARPS = THREADS / WARP;
    __shared__ double of_warps[2][WARPS][WARP];
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, tiles = (s.channels + WARP - 1) / WARP;
    const unsigned channel = blockIdx.x % tiles * WARP + lane, chunk = blockIdx.x / tiles;
    const unsigned first = chunk * s.chunk, end = min(first + s.chunk, s.rows);
    if (channel < s.channels) {
#pragma unroll 4
        for (unsigned r = first + warp; r < end; r += WARPS) {
            float a, b;
            pair(r * s.channels + channel, channel, a, b);
            sums[0] += (double)a;
            sums[1] += (double)a * (double)b;
        }
    }
    of_warps[0][warp][lane] = sums[0];
    of_warps[1][warp][lane] = sums[1];
    __syncthreads();
    if (warp < 2 && channel < s.channels) {
        double sum = of_warps[warp][0][lane];
#pragma unroll
        for (int w = 1; w < WARPS; ++w) sum += of_warps[warp][w][lane];
        partial[((size_t)chunk * 2 + warp) * s.channels + channel] = sum;
    }
#endif
}

// Sums a channel over all chunks, in their order.
__device__ __forceinline__ void sum_of_chunks(const double* __restrict__ partial /* [chunks][2][channels] */, const Shape& s,
                                              unsigned channel, double& a, double& b) {
    const unsigned chunks = (s.rows + s.chunk - 1) / s.chunk;
    a = b = 0.0;
    for (unsigned i = 0; i < chunks; ++i) {
        a += partial[(size_t)i * 2 * s.channels + channel];
        b += partial[((size_t)i * 2 + 1) * s.channels + channel];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
sums_forward(Shape s, const In* __restrict__ x /* [rows][channels] */, double* __restrict__ partial /* [chunks][2][channels] */) {
    wait_for_predecessor();
    let_successor_start();
    // The difference of two large sums loses digits of the variance; f64 has 29 more than x.
    sum_chunk(s, partial, [&](unsigned i, unsigned, float& a, float& b) { a = b = to_float(x[i]); });
}

// For statistics over the rows of several ranks, which add these totals up. `counts` is 0 where a rank has only stand-in rows.
extern "C" __global__ void __launch_bounds__(THREADS)
totals(Shape s, const double* __restrict__ partial /* [chunks][2][channels] */, unsigned counts,
       double* __restrict__ total /* [2][channels] */) {
    wait_for_predecessor();
    let_successor_start();
    const unsigned c = blockIdx.x * THREADS + threadIdx.x;
    if (c >= s.channels) return;
    double a, b;
    sum_of_chunks(partial, s, c, a, b);
    total[c] = counts ? a : 0.0;
    total[s.channels + c] = counts ? b : 0.0;
}

extern "C" __global__ void __launch_bounds__(THREADS)
statistics(Shape s, const double* __restrict__ partial /* [chunks][2][channels] */, float epsilon, float momentum,
           float* __restrict__ running_mean /* [channels] */, float* __restrict__ running_variance /* [channels] */,
           float* __restrict__ mean /* [channels] */, float* __restrict__ inverse /* [channels] */) {
    wait_for_predecessor();
    let_successor_start();
    const unsigned c = blockIdx.x * THREADS + threadIdx.x;
    if (c >= s.channels) return;
    double sum, squares;
    sum_of_chunks(partial, s, c, sum, squares);
    const double n = s.rows, middle = sum / n, deviations = squares - sum * middle;
    // Rounding can make the variance negative; a NaN stays NaN.
    const double around = deviations < 0.0 ? 0.0 : deviations, share = momentum;
    running_mean[c] = (float)((1.0 - share) * running_mean[c] + share * middle);
    running_variance[c] = (float)((1.0 - share) * running_variance[c] + share * (around / (n - 1.0)));
    mean[c] = (float)middle;
    inverse[c] = (float)(1.0 / sqrt(around / n + (double)epsilon));
}

extern "C" __global__ void __launch_bounds__(THREADS)
inverse_deviation(Shape s, const float* __restrict__ variance /* [channels] */, float epsilon,
                  float* __restrict__ inverse /* [channels] */) {
    wait_for_predecessor();
    let_successor_start();
    const unsigned c = blockIdx.x * THREADS + threadIdx.x;
    if (c < s.channels) inverse[c] = (float)(1.0 / sqrt((double)variance[c] + (double)epsilon));
}

extern "C" __global__ void __launch_bounds__(THREADS)
normalise(Shape s, const In* __restrict__ x /* [rows][channels] */, const float* __restrict__ gamma /* [channels] */,
          const float* __restrict__ beta /* [channels] */, const float* __restrict__ mean /* [channels] */,
          const float* __restrict__ inverse /* [channels] */, In* __restrict__ y /* [rows][channels] */) {
    wait_for_predecessor();
    let_successor_start();
    const size_t n = (size_t)s.rows * s.channels;
    const bool grouped = in_groups(x) && in_groups(y);
    each_group(n, [&](size_t first) {
        float v[GROUP];
        load_group(x, first, n, grouped, v);
#pragma unroll
        for (int k = 0; k < GROUP; ++k) {
            const unsigned c = channel_of((unsigned)first + k, s);
            v[k] = (v[k] - mean[c]) * (gamma[c] * inverse[c]) + beta[c];
        }
        store_group(y, first, n, grouped, v);
    });
}

extern "C" __global__ void __launch_bounds__(THREADS)
sums_backward(Shape s, const In* __restrict__ x /* [rows][channels] */, const In* __restrict__ dy /* [rows][channels] */,
              const float* __restrict__ mean /* [channels] */, const float* __restrict__ inverse /* [channels] */,
              double* __restrict__ partial /* [chunks][2][channels] */) {
    wait_for_predecessor();
    let_successor_start();
    sum_chunk(s, partial, [&](unsigned i, unsigned c, float& a, float& b) {
        a = to_float(dy[i]);
        b = (to_float(x[i]) - mean[c]) * inverse[c];
    });
}

extern "C" __global__ void __launch_bounds__(THREADS)
lines(Shape s, const double* __restrict__ partial /* [chunks][2][channels] */, const float* __restrict__ gamma /* [channels] */,
      const float* __restrict__ inverse /* [channels] */, float* __restrict__ dgamma /* [channels] or null */,
      float* __restrict__ dbeta /* [channels] or null */, float* __restrict__ line /* [3][channels] */) {
    wait_for_predecessor();
    let_successor_start();
    const unsigned c = blockIdx.x * THREADS + threadIdx.x;
    if (c >= s.channels) return;
    double of_dy, of_products;
    sum_of_chunks(partial, s, c, of_dy, of_products);
    if (dbeta) dbeta[c] = (float)of_dy;
    if (dgamma) dgamma[c] = (float)of_products;
    // dx = gamma / deviation (dy - mean(dy) - x^ mean(dy x^)), x^ being the normalised x.
    const double n = s.rows, deviation = inverse[c], factor = (double)gamma[c] * deviation;
    line[c] = (float)factor;
    line[s.channels + c] = (float)(-factor * deviation * of_products / n);
    line[2 * (size_t)s.channels + c] = (float)(-factor * of_dy / n);
}

extern "C" __global__ void __launch_bounds__(THREADS)
backward(Shape s, const In* __restrict__ x /* [rows][channels] */, const In* __restrict__ dy /* [rows][channels] */,
         const float* __restrict__ mean /* [channels] */, const float* __restrict__ line /* [3][channels] */,
         In* __restrict__ dx /* [rows][channels] */) {
    wait_for_predecessor();
    let_successor_start();
    const size_t n = (size_t)s.rows * s.channels;
    const bool grouped = in_groups(x) && in_groups(dy) && in_groups(dx);
    each_group(n, [&](size_t first) {
        float v[GROUP], g[GROUP];
        load_group(x, first, n, grouped, v);
        load_group(dy, first, n, grouped, g);
#pragma unroll
        for (int k = 0; k < GROUP; ++k) {
            const unsigned c = channel_of((unsigned)first + k, s);
            v[k] = line[c] * g[k] + (line[s.channels + c] * (v[k] - mean[c]) + line[2 * (size_t)s.channels + c]);
        }
        store_group(dx, first, n, grouped, v);
    });
}

// Idea: sums over a channel's rows in two levels; then y is linear in x for each channel, and dx is linear in dy and x.
// Formula: y = (x - mean) gamma / sqrt(var + eps) + beta; x [rows][channels], or [batch][channels][pixels] with CHANNELS_FIRST, IN.
// Since the last rung: not a rung; the training, inference and backward passes of a layer.
// Needs: fewer than 2^32 - 2^12 elements; gamma, beta, means and variances f32 [channels]; partial f64 [chunks][2][channels].
// Expect: DRAM bandwidth, with x read twice forwards, x and dy twice backwards; f64 totals, added in the same order on every run and device.
#include "launch.cuh"
#include "nn/elements.cuh"
#include "nn/sums.cuh"

struct Shape {
    unsigned rows, channels, pixels /* of a channel of an image; 1 unless CHANNELS_FIRST */, chunk /* rows of a block */;
};

#if CHANNELS_FIRST
__device__ __forceinline__ unsigned channel_of(unsigned i, const Shape& s) { return i / s.pixels % s.channels; }

// For each channel, sums two values of each row of a chunk; pair(i, channel, a, b) sets the values a and b of element i.
template <class Pair>
__device__ __forceinline__ void sum_chunk(const Shape& s, double* __restrict__ partial /* [chunks][2][channels] */, Pair pair) {
    // A block sums one channel, along its pixels.
    const unsigned channel = blockIdx.x % s.channels, chunk = blockIdx.x / s.channels;
    const unsigned first = chunk * s.chunk, end = min(first + s.chunk, s.rows);
    double sums[2] = {};
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
}
#else
// The type of a thread's loads: 16 bytes, or one element if the number of channels or the alignment does not allow 16 bytes.
template <int W> struct Words { using Type = uint4; };
template <> struct Words<1> { using Type = In; };
__device__ __forceinline__ void widen(const uint4& words, float (&v)[GROUP]) { unpack(words, v, In{}); }
__device__ __forceinline__ void widen(In element, float (&v)[1]) { v[0] = to_float(element); }
__device__ __forceinline__ uint4 narrowed(const float (&v)[GROUP]) { return packed(v, In{}); }
__device__ __forceinline__ In narrowed(const float (&v)[1]) { return from_float<In>(v[0]); }

// True if a thread can read 16 bytes of a row and of each vector of channels.
template <class... Pointers> __device__ __forceinline__ bool is_wide(const Shape& s, Pointers... arrays) {
    return s.channels % GROUP == 0 && (in_groups(arrays) && ...);
}

// A thread's work: the same W channels of every `lanes`-th row. A block has THREADS channels, or all channels if there are fewer.
template <int W> struct Place {
    unsigned tiles, columns, lanes, column, lane, channel;

    __device__ __forceinline__ explicit Place(const Shape& s) {
        tiles = (s.channels + THREADS - 1) / THREADS;
        columns = min(s.channels, (unsigned)THREADS) / W;
        lanes = THREADS / columns;
        column = threadIdx.x % columns;
        lane = threadIdx.x / columns;
        channel = first_channel() + column * W;
    }
    __device__ __forceinline__ unsigned first_channel() const { return blockIdx.x % tiles * THREADS; }
    __device__ __forceinline__ bool has_work(const Shape& s) const { return lane < lanes && channel < s.channels; }
};

template <int W> __device__ __forceinline__ void load_channels(const float* __restrict__ from /* [channels] */, unsigned channel, float (&v)[W]) {
    if constexpr (W == 1) {
        v[0] = from[channel];
    } else {
#pragma unroll
        for (int k = 0; k < W; k += 4) unpack(*reinterpret_cast<const uint4*>(from + channel + k), v + k, float{});
    }
}

// Loads ROWS rows of each array before any row is used. Rows past the end repeat the last row instead of being skipped, because the
// compiler issues predicated loads one after the other.
template <int W, int ARRAYS, int ROWS>
__device__ __forceinline__ void load_rows(const In* const (&from)[ARRAYS], const Shape& s, unsigned row, unsigned step, unsigned end,
                                          unsigned channel, typename Words<W>::Type (&words)[ROWS][ARRAYS]) {
#pragma unroll
    for (int u = 0; u < ROWS; ++u) {
        const unsigned at = min(row + u * step, end - 1) * s.channels + channel;
#pragma unroll
        for (int a = 0; a < ARRAYS; ++a) words[u][a] = *reinterpret_cast<const typename Words<W>::Type*>(from[a] + at);
    }
}

// The type that sums four rows: f32 for 16-bit elements, because four squares of similar size have an exact sum; f64 for f32 elements.
template <class T> struct Short { using Type = float; };
template <> struct Short<float> { using Type = double; };

// For each channel of a chunk of rows, sums x and x^2, or, with a second array, dy and dy (x - mean) / deviation.
template <int W, int ARRAYS>
__device__ __forceinline__ void sum_chunk(const Shape& s, const In* const (&from)[ARRAYS] /* x, or dy and x */, const float* __restrict__ mean,
                                          const float* __restrict__ inverse, double* __restrict__ partial /* [chunks][2][channels] */) {
    using Few = Short<In>::Type;
    constexpr int ROWS = 4;
    constexpr bool BACKWARD = ARRAYS == 2;
    __shared__ double of_threads[2][W][THREADS];
    const Place<W> at(s);
    const unsigned chunk = blockIdx.x / at.tiles, first = chunk * s.chunk, end = min(first + s.chunk, s.rows);
    double sums[2][W] = {};
    if (at.has_work(s)) {
        float middle[W] = {};
        if (BACKWARD) load_channels<W>(mean, at.channel, middle);
        for (unsigned row = first + at.lane; row < end; row += ROWS * at.lanes) {
            typename Words<W>::Type words[ROWS][ARRAYS];
            load_rows<W>(from, s, row, at.lanes, end, at.channel, words);
            Few few[2][W] = {};
#pragma unroll
            for (int u = 0; u < ROWS; ++u) {
                float a[W], b[W];
                widen(row + u * at.lanes < end ? words[u][0] : typename Words<W>::Type{}, a);
                widen(words[u][ARRAYS - 1], b);
#pragma unroll
                for (int k = 0; k < W; ++k) {
                    few[0][k] += (Few)a[k];
                    few[1][k] += (Few)a[k] * (Few)(BACKWARD ? b[k] - middle[k] : a[k]);
                }
            }
#pragma unroll
            for (int k = 0; k < W; ++k) sums[0][k] += (double)few[0][k], sums[1][k] += (double)few[1][k];
        }
    }
#pragma unroll
    for (int k = 0; k < W; ++k) of_threads[0][k][threadIdx.x] = sums[0][k], of_threads[1][k][threadIdx.x] = sums[1][k];
    __syncthreads();
    // Each thread completes one of the two sums of a channel, adding the lanes in order.
    for (unsigned i = threadIdx.x; i < 2 * W * at.columns; i += THREADS) {
        const unsigned column = i % at.columns, k = i / at.columns % W, which = i / at.columns / W;
        const unsigned channel = at.first_channel() + column * W + k;
        double sum = 0.0;
#pragma unroll 8
        for (unsigned l = 0; l < at.lanes; ++l) sum += of_threads[which][k][l * at.columns + column];
        if (channel < s.channels) partial[((size_t)chunk * 2 + which) * s.channels + channel] = BACKWARD && which ? sum * inverse[channel] : sum;
    }
}

// Sets to[row][channel] = f(k, v, w) for a thread's k-th channel, with v from the first array and w from the last. Blocks with the same
// channels interleave their rows.
template <int W, int ARRAYS, class F>
__device__ __forceinline__ void map_rows(const Shape& s, const Place<W>& at, const In* const (&from)[ARRAYS], In* to, F f) {
    // Each thread has 64 bytes in flight, with four blocks on an SM.
    constexpr int ROWS = 4 / ARRAYS;
    const unsigned parts = gridDim.x / at.tiles, pass = ROWS * at.lanes;
    for (size_t r = (size_t)(blockIdx.x / at.tiles) * pass + at.lane; r < s.rows; r += (size_t)parts * pass) {
        typename Words<W>::Type words[ROWS][ARRAYS];
        load_rows<W>(from, s, (unsigned)r, at.lanes, s.rows, at.channel, words);
#pragma unroll
        for (int u = 0; u < ROWS; ++u) {
            const unsigned row = (unsigned)r + u * at.lanes;
            float v[ARRAYS][W], out[W];
#pragma unroll
            for (int a = 0; a < ARRAYS; ++a) widen(words[u][a], v[a]);
#pragma unroll
            for (int k = 0; k < W; ++k) out[k] = f(k, v[0][k], v[ARRAYS - 1][k]);
            if (row < s.rows) *reinterpret_cast<typename Words<W>::Type*>(to + (row * s.channels + at.channel)) = narrowed(out);
        }
    }
}

template <int W>
__device__ __forceinline__ void normalise_rows(const Shape& s, const In* x, const float* gamma, const float* beta, const float* mean,
                                               const float* inverse, In* y) {
    const Place<W> at(s);
    if (!at.has_work(s)) return;
    float middle[W], scale[W], deviation[W], shift[W];
    load_channels<W>(mean, at.channel, middle);
    load_channels<W>(gamma, at.channel, scale);
    load_channels<W>(inverse, at.channel, deviation);
    load_channels<W>(beta, at.channel, shift);
#pragma unroll
    for (int k = 0; k < W; ++k) scale[k] *= deviation[k];
    const In* const from[] = {x};
    map_rows<W>(s, at, from, y, [&](int k, float x, float) { return (x - middle[k]) * scale[k] + shift[k]; });
}

template <int W>
__device__ __forceinline__ void backward_rows(const Shape& s, const In* x, const In* dy, const float* mean, const float* line, In* dx) {
    const Place<W> at(s);
    if (!at.has_work(s)) return;
    float middle[W], of_dy[W], of_x[W], shift[W];
    load_channels<W>(mean, at.channel, middle);
    load_channels<W>(line, at.channel, of_dy);
    load_channels<W>(line + s.channels, at.channel, of_x);
    load_channels<W>(line + 2 * (size_t)s.channels, at.channel, shift);
    const In* const from[] = {dy, x};
    map_rows<W>(s, at, from, dx, [&](int k, float dy, float x) { return of_dy[k] * dy + (of_x[k] * (x - middle[k]) + shift[k]); });
}
#endif

// The number of channels per block in the kernels that sum over chunks.
constexpr unsigned ACROSS = 8;

// Sums ACROSS channels over all chunks, with 32 threads per channel. Returns true in one thread per channel, which receives the sums.
__device__ __forceinline__ bool sum_of_chunks(const double* __restrict__ partial /* [chunks][2][channels] */, const Shape& s,
                                              unsigned& channel, double& a, double& b) {
    constexpr unsigned LANES = THREADS / ACROSS, WARPS = THREADS / WARP;
    __shared__ double of_warps[2][WARPS][ACROSS];
    const unsigned chunks = (s.rows - 1) / s.chunk + 1, column = threadIdx.x % ACROSS;
    channel = blockIdx.x * ACROSS + column;
    double sums[2] = {};
    if (channel < s.channels) {
#pragma unroll 4
        for (unsigned i = threadIdx.x / ACROSS; i < chunks; i += LANES) {
            sums[0] += partial[(size_t)i * 2 * s.channels + channel];
            sums[1] += partial[((size_t)i * 2 + 1) * s.channels + channel];
        }
    }
#pragma unroll
    for (int k = 0; k < 2; ++k) {
#pragma unroll
        for (unsigned offset = WARP / 2; offset >= ACROSS; offset /= 2) sums[k] += __shfl_xor_sync(ALL_LANES, sums[k], offset);
        if (threadIdx.x % WARP < ACROSS) of_warps[k][threadIdx.x / WARP][column] = sums[k];
    }
    __syncthreads();
    a = b = 0.0;
#pragma unroll
    for (unsigned w = 0; w < WARPS; ++w) a += of_warps[0][w][column], b += of_warps[1][w][column];
    return threadIdx.x < ACROSS && channel < s.channels;
}

// With three blocks on an SM, 80 registers let the compiler load four rows at once. Without this bound it uses 64 and loads one row late.
extern "C" __global__ void __launch_bounds__(THREADS, 3)
sums_forward(Shape s, const In* __restrict__ x /* [rows][channels] */, double* __restrict__ partial /* [chunks][2][channels] */) {
    wait_for_predecessor();
    let_successor_start();
    // The difference of two large sums loses digits of the variance; f64 has 29 more bits than f32.
#if CHANNELS_FIRST
    sum_chunk(s, partial, [&](unsigned i, unsigned, float& a, float& b) { a = b = to_float(x[i]); });
#else
    const In* const from[] = {x};
    if (is_wide(s, x)) sum_chunk<GROUP>(s, from, nullptr, nullptr, partial);
    else sum_chunk<1>(s, from, nullptr, nullptr, partial);
#endif
}

// Writes totals for statistics over the rows of several ranks, which add up the totals. `counts` is 0 if a rank has only placeholder rows.
extern "C" __global__ void __launch_bounds__(THREADS)
totals(Shape s, const double* __restrict__ partial /* [chunks][2][channels] */, unsigned counts,
       double* __restrict__ total /* [2][channels] */) {
    wait_for_predecessor();
    let_successor_start();
    unsigned c;
    double a, b;
    if (!sum_of_chunks(partial, s, c, a, b)) return;
    total[c] = counts ? a : 0.0;
    total[s.channels + c] = counts ? b : 0.0;
}

extern "C" __global__ void __launch_bounds__(THREADS)
statistics(Shape s, const double* __restrict__ partial /* [chunks][2][channels] */, float epsilon, float momentum,
           float* __restrict__ running_mean /* [channels] */, float* __restrict__ running_variance /* [channels] */,
           float* __restrict__ mean /* [channels] */, float* __restrict__ inverse /* [channels] */) {
    wait_for_predecessor();
    let_successor_start();
    unsigned c;
    double sum, squares;
    if (!sum_of_chunks(partial, s, c, sum, squares)) return;
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
#if CHANNELS_FIRST
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
#else
    if (is_wide(s, x, gamma, beta, mean, inverse, y)) normalise_rows<GROUP>(s, x, gamma, beta, mean, inverse, y);
    else normalise_rows<1>(s, x, gamma, beta, mean, inverse, y);
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
sums_backward(Shape s, const In* __restrict__ x /* [rows][channels] */, const In* __restrict__ dy /* [rows][channels] */,
              const float* __restrict__ mean /* [channels] */, const float* __restrict__ inverse /* [channels] */,
              double* __restrict__ partial /* [chunks][2][channels] */) {
    wait_for_predecessor();
    let_successor_start();
#if CHANNELS_FIRST
    sum_chunk(s, partial, [&](unsigned i, unsigned c, float& a, float& b) {
        a = to_float(dy[i]);
        b = (to_float(x[i]) - mean[c]) * inverse[c];
    });
#else
    const In* const from[] = {dy, x};
    if (is_wide(s, x, dy, mean)) sum_chunk<GROUP>(s, from, mean, inverse, partial);
    else sum_chunk<1>(s, from, mean, inverse, partial);
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS)
lines(Shape s, const double* __restrict__ partial /* [chunks][2][channels] */, const float* __restrict__ gamma /* [channels] */,
      const float* __restrict__ inverse /* [channels] */, float* __restrict__ dgamma /* [channels] or null */,
      float* __restrict__ dbeta /* [channels] or null */, float* __restrict__ line /* [3][channels] */) {
    wait_for_predecessor();
    let_successor_start();
    unsigned c;
    double of_dy, of_products;
    if (!sum_of_chunks(partial, s, c, of_dy, of_products)) return;
    if (dbeta) dbeta[c] = (float)of_dy;
    if (dgamma) dgamma[c] = (float)of_products;
    // dx = gamma / deviation (dy - mean(dy) - x^ mean(dy x^)), where x^ is the normalised x.
    const double n = s.rows, deviation = inverse[c], factor = (double)gamma[c] * deviation;
    line[c] = (float)factor;
    line[s.channels + c] = (float)(-factor * deviation * of_products / n);
    line[2 * (size_t)s.channels + c] = (float)(-factor * of_dy / n);
}

extern "C" __global__ void __launch_bounds__(THREADS)
backward(Shape s, const In* __restrict__ x /* [rows][channels] */, const In* dy /* [rows][channels] */,
         const float* __restrict__ mean /* [channels] */, const float* __restrict__ line /* [3][channels] */,
         In* dx /* [rows][channels]; may be dy */) {
    wait_for_predecessor();
    let_successor_start();
#if CHANNELS_FIRST
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
#else
    if (is_wide(s, x, dy, mean, line, dx)) backward_rows<GROUP>(s, x, dy, mean, line, dx);
    else backward_rows<1>(s, x, dy, mean, line, dx);
#endif
}

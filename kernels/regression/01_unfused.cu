// Idea: one kernel per operation, as in an eager framework; every intermediate goes to memory and comes back.
// Formula: pred = w x + b; err = pred - y; L = mean(err^2); dw = 2 mean(err x); db = 2 mean(err); (w, b) -= lr (dw, db); f32[n].
// Since the last rung: the loop over the points is spread over the GPU's threads.
// Needs: x, y, pred and err 16-byte aligned; any n.
// Expect: eight floats per point go to or from memory in each epoch, where two would do: at best a quarter of the fused speed.
#include "regression/descent.cuh"

static_assert(ITEMS % 4 == 0, "points are read four at a time");

// Calls body(i) for each group of four points, then tail(i) for each of the points after the last whole group.
template <typename Body, typename Tail>
__device__ __forceinline__ void for_each_point(unsigned long long n, Body body, Tail tail) {
    const unsigned long long first = blockIdx.x * (unsigned long long)THREADS + threadIdx.x;
    const unsigned long long stride = gridDim.x * (unsigned long long)THREADS, groups = n / 4;
#pragma unroll ITEMS / 4
    for (unsigned long long i = first; i < groups; i += stride) body(i);
    if (first < n % 4) tail(groups * 4 + first);
}

// Adds up the four components of each thread over the block and writes the block's sum to partial[row][block].
__device__ __forceinline__ void write_sum(float4 lanes, float* __restrict__ partial /* [3][blocks] */, int row) {
    float sum[1] = {(lanes.x + lanes.y) + (lanes.z + lanes.w)};
    block_sum<THREADS>(sum);
    if (threadIdx.x == 0) partial[row * (size_t)gridDim.x + blockIdx.x] = sum[0];
}

// Computes pred = w x + b.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
forward(const float* __restrict__ x /* [n] */, const float* __restrict__ weights /* [2] */, float* __restrict__ pred /* [n] */,
        unsigned long long n) {
    const float w = weights[0], b = weights[1];
    for_each_point(
        n,
        [&](unsigned long long i) {
            const float4 v = reinterpret_cast<const float4*>(x)[i];
            reinterpret_cast<float4*>(pred)[i] =
                make_float4(fmaf(w, v.x, b), fmaf(w, v.y, b), fmaf(w, v.z, b), fmaf(w, v.w, b));
        },
        [&](unsigned long long i) { pred[i] = fmaf(w, x[i], b); });
}

// Computes err = pred - y and the sum of err^2.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
loss(const float* __restrict__ pred /* [n] */, const float* __restrict__ y /* [n] */, float* __restrict__ err /* [n] */,
     float* __restrict__ partial /* [3][blocks] */, unsigned long long n) {
    float4 sum = make_float4(0, 0, 0, 0);
    for_each_point(
        n,
        [&](unsigned long long i) {
            const float4 p = reinterpret_cast<const float4*>(pred)[i], t = reinterpret_cast<const float4*>(y)[i];
            const float4 e = make_float4(p.x - t.x, p.y - t.y, p.z - t.z, p.w - t.w);
            reinterpret_cast<float4*>(err)[i] = e;
            sum.x = fmaf(e.x, e.x, sum.x), sum.y = fmaf(e.y, e.y, sum.y);
            sum.z = fmaf(e.z, e.z, sum.z), sum.w = fmaf(e.w, e.w, sum.w);
        },
        [&](unsigned long long i) {
            const float e = pred[i] - y[i];
            err[i] = e;
            sum.x = fmaf(e, e, sum.x);
        });
    write_sum(sum, partial, LOSS);
}

// Computes the sum of err x.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
gradient_w(const float* __restrict__ err /* [n] */, const float* __restrict__ x /* [n] */,
           float* __restrict__ partial /* [3][blocks] */, unsigned long long n) {
    float4 sum = make_float4(0, 0, 0, 0);
    for_each_point(
        n,
        [&](unsigned long long i) {
            const float4 e = reinterpret_cast<const float4*>(err)[i], v = reinterpret_cast<const float4*>(x)[i];
            sum.x = fmaf(e.x, v.x, sum.x), sum.y = fmaf(e.y, v.y, sum.y);
            sum.z = fmaf(e.z, v.z, sum.z), sum.w = fmaf(e.w, v.w, sum.w);
        },
        [&](unsigned long long i) { sum.x = fmaf(err[i], x[i], sum.x); });
    write_sum(sum, partial, GRAD_W);
}

// Computes the sum of err.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
gradient_b(const float* __restrict__ err /* [n] */, float* __restrict__ partial /* [3][blocks] */, unsigned long long n) {
    float4 sum = make_float4(0, 0, 0, 0);
    for_each_point(
        n,
        [&](unsigned long long i) {
            const float4 e = reinterpret_cast<const float4*>(err)[i];
            sum.x += e.x, sum.y += e.y, sum.z += e.z, sum.w += e.w;
        },
        [&](unsigned long long i) { sum.x += err[i]; });
    write_sum(sum, partial, GRAD_B);
}

// Adds up the blocks' sums and updates the weights.
extern "C" __global__ void __launch_bounds__(THREADS)
update(const float* __restrict__ partial /* [3][blocks] */, unsigned blocks, float inverse_n, float learning_rate,
       float* weights /* [2] */, float* loss /* [1], or null */) {
    end_epoch<THREADS>(partial, blocks, inverse_n, learning_rate, weights, loss);
}

// Idea: many a tutorial copies its inputs to shared memory first; this shows the cost in a pass that uses each value once.
// Formula: err = w x + b - y; partial[:, block] = sums of (err^2, err x, err); then (w, b) -= lr 2/n (sum err x, sum err); f32[n].
// Since the last rung: x and y go from memory to shared memory, wait at a barrier, and come to registers from there.
// Needs: x and y 16-byte aligned; any n; up to 33 KiB of shared memory per block.
// Expect: no gain, since no value is used twice; the barriers and the second trip only cost time.
#include "regression/descent.cuh"

static_assert(ITEMS % 4 == 0, "points are read four at a time");
constexpr int GROUPS = ITEMS / 4;
// At most 1024 groups of x and of y at a time, 32 KiB: static shared memory is limited to 48 KiB per block.
constexpr int STAGED = GROUPS * THREADS <= 1024 ? GROUPS : 1024 / THREADS;
static_assert(GROUPS % STAGED == 0, "a thread's points are staged in equal parts");

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
pass(const float* __restrict__ x /* [n] */, const float* __restrict__ y /* [n] */, const float* weights /* [2] */,
     float* __restrict__ partial /* [3][columns] */, unsigned long long n, unsigned columns, unsigned first_block) {
    __shared__ float4 tile_x[STAGED][THREADS], tile_y[STAGED][THREADS];
    const unsigned long long groups = n / 4, stride = gridDim.x * (unsigned long long)THREADS;
    const unsigned long long block_first = blockIdx.x * (unsigned long long)THREADS;
    const float4* x4 = reinterpret_cast<const float4*>(x);
    const float4* y4 = reinterpret_cast<const float4*>(y);
    PointSums<> points(weights[0], weights[1]);

    // All threads of a block run the same number of iterations, since all of them must reach the barriers.
    for (unsigned long long from = block_first; from < groups; from += STAGED * stride) {
#pragma unroll
        for (int g = 0; g < STAGED; ++g) {
            const unsigned long long i = from + g * stride + threadIdx.x;
            if (i < groups) tile_x[g][threadIdx.x] = x4[i], tile_y[g][threadIdx.x] = y4[i];
        }
        __syncthreads();
#pragma unroll
        for (int g = 0; g < STAGED; ++g) {
            if (from + g * stride + threadIdx.x < groups) {
                points.add(tile_x[g][threadIdx.x], tile_y[g][threadIdx.x]);
            }
        }
        __syncthreads();
    }
    const unsigned long long first = block_first + threadIdx.x;
    if (first < n % 4) points.add(0, x[groups * 4 + first], y[groups * 4 + first]);

    float sums[SUMS];
    points.total(sums);
    write_block_sums<THREADS>(sums, partial, columns, first_block);
}

// Adds up the blocks' sums and updates the weights.
extern "C" __global__ void __launch_bounds__(THREADS)
update(const float* __restrict__ partial /* [3][blocks] */, unsigned blocks, float inverse_n, float learning_rate,
       float* weights /* [2] */, float* loss /* [1], or null */) {
    end_epoch<THREADS>(partial, blocks, inverse_n, learning_rate, weights, loss);
}

// Sums over a block in f64, and sums of columns in f32, added in the same order on every run and every device.
#pragma once
#include "reduce.cuh"

__device__ __forceinline__ double warp_sum(double v) {
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) v += __shfl_xor_sync(ALL_LANES, v, offset);
    return v;
}

// Returns the sum of v over a block of BLOCK threads to every thread. The next call needs no barrier before it.
template <int BLOCK> __device__ __forceinline__ double block_sum(double v) {
    static_assert(BLOCK % WARP == 0, "whole warps");
    constexpr int WARPS = BLOCK / WARP;
    __shared__ double of_warps[WARPS];
    v = warp_sum(v);
    __syncthreads();
    if (threadIdx.x % WARP == 0) of_warps[threadIdx.x / WARP] = v;
    __syncthreads();
    double sum = of_warps[0];
#pragma unroll
    for (int w = 1; w < WARPS; ++w) sum += of_warps[w];
    return sum;
}

// Sums 32 columns of `from`, [rows][n], with the rows divided among the warps. The first warp calls result(column, sum), one column per lane.
template <int BLOCK, class Result>
__device__ __forceinline__ void column_total(const float* __restrict__ from, unsigned rows, unsigned n, Result result) {
    constexpr unsigned WARPS = BLOCK / WARP;
    __shared__ float of_warps[WARPS][WARP];
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, column = blockIdx.x * WARP + lane;
    float sum = 0.0f;
    if (column < n) {
#pragma unroll 8
        for (unsigned r = warp; r < rows; r += WARPS) sum += from[(size_t)r * n + column];
    }
    of_warps[warp][lane] = sum;
    __syncthreads();
    if (warp != 0 || column >= n) return;
    float total = 0.0f;
#pragma unroll
    for (unsigned w = 0; w < WARPS; ++w) total += of_warps[w][lane];
    result(column, total);
}

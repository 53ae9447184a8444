// Sums over a block in f64, added in the same order on every run and every device.
#pragma once
#include "reduce.cuh"

__device__ __forceinline__ double warp_sum(double v) {
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) v += __shfl_xor_sync(ALL_LANES, v, offset);
    return v;
}

// Adds up v over a block of BLOCK threads; every thread gets the sum. It may be called again.
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

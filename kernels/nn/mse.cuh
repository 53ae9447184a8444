// The first level of the sums of the mean squared error, and its gradient: THREADS * ITEMS elements per block.
#pragma once
#include "nn/elements.cuh"
#include "nn/sums.cuh"

// Computes errors and gradients of this block's elements, for mse.cu and mse_last_block.cu.
__device__ __forceinline__ void errors_of_block(const In* output /* [n] */, const float* target /* [n] */, size_t n, float factor,
                                                const float* loss_scale /* [1] or null */, In* doutput /* [n] or null */,
                                                double* partial /* [gridDim.x] */) {
    static_assert(ITEMS % GROUP == 0, "whole groups");
    const bool grouped = in_groups(output) && in_groups(doutput);
    const float slope = factor * (loss_scale ? *loss_scale : 1.0f);
    double sum = 0.0;
#pragma unroll
    for (int i = 0; i < ITEMS / GROUP; ++i) {
        const size_t first = (size_t)blockIdx.x * THREADS * ITEMS + ((size_t)i * THREADS + threadIdx.x) * GROUP;
        if (first < n) {
            float v[GROUP];
            load_group(output, first, n, grouped, v);
#pragma unroll
            for (int k = 0; k < GROUP; ++k) {
                if (first + k < n) {
                    const float t = target[first + k];
                    const double error = (double)v[k] - (double)t;
                    sum += error * error;
                    v[k] = slope * (v[k] - t);
                }
            }
            if (doutput) store_group(doutput, first, n, grouped, v);
        }
    }
    sum = block_sum<THREADS>(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// Idea: one pass gives the gradient and the block's sum of squares; the sums of the blocks are added by loss.cu.
// Formula: doutput[i] = factor scale (output[i] - target[i]), factor = 2 / n; partial[block] = sum of (output - target)^2, f64.
// Since the last rung: not a rung; loss and gradient of a regression.
// Needs: output and doutput (or null) [n] of type IN, target f32 [n]; any n from 1 and any alignment.
// Expect: DRAM bandwidth; a block's share of the elements follows from n alone, so the loss has the same bits on every device.
#include "launch.cuh"
#include "nn/elements.cuh"
#include "nn/sums.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
mse(const In* __restrict__ output /* [n] */, const float* __restrict__ target /* [n] */, unsigned long long n, float factor,
    const float* __restrict__ loss_scale /* [1] or null */, In* __restrict__ doutput /* [n] or null */,
    double* __restrict__ partial /* [gridDim.x] */) {
    wait_for_predecessor();
    let_successor_start();
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

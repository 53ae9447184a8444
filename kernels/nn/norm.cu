// Idea: squares of f32 do not overflow f64, so one sum of them gives the norm and says whether a gradient is infinite or NaN.
// Formula: norm = sqrt(sum of g^2) / scale, clip = min(1, most / (norm + 1e-6)), found = norm is not finite; g f32 [n], sums in f64.
// Since the last rung: not a rung; two levels of sums in a fixed order before the update of optimizer.cu.
// Needs: any n and alignment; partial f64 [ceil(n / (THREADS ITEMS))], whose blocks follow from n alone.
// Expect: one read of the gradients at DRAM bandwidth, where the GPU does f64 at a good rate; the second level is latency.
#include "launch.cuh"
#include "nn/elements.cuh"
#include "nn/sums.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
sum_squares(const In* __restrict__ gradients /* [n] */, unsigned long long n, double* __restrict__ partial /* [gridDim.x] */) {
    wait_for_predecessor();
    let_successor_start();
    static_assert(ITEMS % GROUP == 0, "whole groups");
    const bool grouped = in_groups(gradients);
    double sum = 0.0;
#pragma unroll 4
    for (int i = 0; i < ITEMS / GROUP; ++i) {
        const size_t first = (size_t)blockIdx.x * THREADS * ITEMS + ((size_t)i * THREADS + threadIdx.x) * GROUP;
        if (first < n) {
            float v[GROUP];
            load_group(gradients, first, n, grouped, v);
#pragma unroll
            for (int k = 0; k < GROUP; ++k) sum += (double)v[k] * (double)v[k];
        }
    }
    sum = block_sum<THREADS>(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(THREADS)
global_norm(const double* __restrict__ partial /* [m] */, unsigned m, double most,
            const float* __restrict__ loss_scale /* [1] or null */, double* __restrict__ norm /* [1] */,
            float* __restrict__ clip /* [1] */, unsigned* __restrict__ found /* [1] */) {
    wait_for_predecessor();
    let_successor_start();
    double sum = 0.0;
    for (unsigned i = threadIdx.x; i < m; i += THREADS) sum += partial[i];
    sum = block_sum<THREADS>(sum);
    if (threadIdx.x == 0) {
        const double value = sqrt(sum) / (loss_scale ? (double)*loss_scale : 1.0);
        const double factor = most / (value + 1e-6);
        *norm = value;
        // Not fmin, which would turn a NaN into 1.
        *clip = factor > 1.0 ? 1.0f : (float)factor;
        *found = !isfinite(value);
    }
}

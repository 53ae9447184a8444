// Idea: squares of f32 do not overflow f64, so one sum of squares gives the norm and shows whether a gradient is infinite or NaN.
// Formula: norm = sqrt(sum of g^2) / scale, clip = min(1, most / (norm + 1e-6)), found = norm is not finite; g f32 [n], sums in f64.
// Since the last rung: not a rung; two levels of sums in a fixed order before the update of optimizer.cu.
// Needs: any n and alignment; partial f64 [parts(n)], with one block per element.
// Expect: one read of the gradients at DRAM bandwidth if the GPU has a good f64 rate; the second level is bound by latency.
#include "launch.cuh"
#include "nn/norm.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
sum_squares(const In* __restrict__ gradients /* [n] */, unsigned long long n, double* __restrict__ partial /* [gridDim.x] */) {
    wait_for_predecessor();
    let_successor_start();
    squares_of_part(gradients, n, blockIdx.x, partial + blockIdx.x);
}

extern "C" __global__ void __launch_bounds__(THREADS)
global_norm(const double* __restrict__ partial /* [m] */, unsigned m, double most,
            const float* __restrict__ loss_scale /* [1] or null */, double* __restrict__ norm /* [1] */,
            float* __restrict__ clip /* [1] */, unsigned* __restrict__ found /* [1] */) {
    wait_for_predecessor();
    let_successor_start();
    norm_of_blocks(partial, m, most, loss_scale, norm, clip, found);
}

// Idea: the data set is drawn where it is used, in shuffled order, before any clock runs.
// Formula: i = permute(j), x[j] = low + i (high - low) / n below high, y[j] = w x[j] + b + sigma * gaussian(i); f32[n]. The first 80 % are the training set.
// Since the last rung: none; the CPU draws the same bits (crates/warpbook-experiments/src/regression/data.rs).
// Needs: any n from 1; one double-precision multiplication per point.
// Expect: bound by integer multiplication, a hundred and more Philox rounds per point for the permutation.
#include "nn/philox.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
points(float* __restrict__ x /* [n] */, float* __restrict__ y /* [n] */, unsigned long long n, double low, double step /* (high - low)/n */,
       float below_high, float w, float b, float sigma, unsigned long long seed) {
    const unsigned long long j = blockIdx.x * (unsigned long long)THREADS + threadIdx.x;
    if (j >= n) return;
    const unsigned long long i = permute(seed, j, n);
    // Limits x to the largest float below `high`, so that the interval stays half open after rounding.
    const float xi = fminf(__double2float_rn(__dadd_rn(low, __dmul_rn((double)i, step))), below_high);
    const float line = __fadd_rn(__fmul_rn(w, xi), b);
    x[j] = xi;
    y[j] = __fadd_rn(line, __fmul_rn(sigma, gaussian(seed, i, 0u)));
}

// Draws points with several features: standard Gaussian numbers x[j][i], and y = sum_j w_j x[j] + b + noise, w_j = w (-1)^j / (1 + j).
extern "C" __global__ void __launch_bounds__(THREADS)
featured_points(float* __restrict__ x /* [features][pitch] */, float* __restrict__ y /* [pitch] */, unsigned long long n,
                unsigned long long pitch, unsigned features, float w, float b, float sigma, unsigned long long seed) {
    const unsigned long long i = blockIdx.x * (unsigned long long)THREADS + threadIdx.x;
    if (i >= n) return;
    float line = b;
    for (unsigned j = 0; j < features; ++j) {
        const float xj = gaussian(seed, i, j + 1), wj = __fdiv_rn(j % 2 == 0 ? w : -w, (float)(j + 1));
        x[j * pitch + i] = xj;
        line = __fadd_rn(line, __fmul_rn(wj, xj));
    }
    y[i] = __fadd_rn(line, __fmul_rn(sigma, gaussian(seed, i, 0u)));
}

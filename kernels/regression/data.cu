// Idea: the data set is drawn where it is used, in shuffled order, before any clock runs.
// Formula: i = permute(j), x[j] = 10 i / n below 10, y[j] = 3 x[j] + 2 + sigma * gaussian(i); f32[n]. The first 80 % are trained on.
// Since the last rung: none; the CPU draws the same bits (crates/warpbook/src/regression/data.rs).
// Needs: any n from 1; a double-precision multiplication a point.
// Expect: bound by integer multiplication, a hundred and more Philox rounds a point for the permutation.
#include "nn/philox.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
points(float* __restrict__ x /* [n] */, float* __restrict__ y /* [n] */, unsigned long long n, double step /* 10/n */,
       float sigma, unsigned long long seed) {
    const unsigned long long j = blockIdx.x * (unsigned long long)THREADS + threadIdx.x;
    if (j >= n) return;
    const unsigned long long i = permute(seed, j, n);
    // The largest float below 10 keeps the interval half open after rounding.
    const float xi = fminf(__double2float_rn(__dmul_rn((double)i, step)), 9.999999f);
    const float line = __fadd_rn(__fmul_rn(3.0f, xi), 2.0f);
    x[j] = xi;
    y[j] = __fadd_rn(line, __fmul_rn(sigma, gaussian(seed, i, 0u)));
}

// The same with several features: standard Gaussian numbers x[j][i], and y = sum_j w_j x[j] + b + noise, w_j = 3 (-1)^j / (1 + j).
extern "C" __global__ void __launch_bounds__(THREADS)
featured_points(float* __restrict__ x /* [features][pitch] */, float* __restrict__ y /* [pitch] */, unsigned long long n,
                unsigned long long pitch, unsigned features, float sigma, unsigned long long seed) {
    const unsigned long long i = blockIdx.x * (unsigned long long)THREADS + threadIdx.x;
    if (i >= n) return;
    float line = 2.0f;
    for (unsigned j = 0; j < features; ++j) {
        const float xj = gaussian(seed, i, j + 1), w = __fdiv_rn(j % 2 == 0 ? 3.0f : -3.0f, (float)(j + 1));
        x[j * pitch + i] = xj;
        line = __fadd_rn(line, __fmul_rn(w, xj));
    }
    y[i] = __fadd_rn(line, __fmul_rn(sigma, gaussian(seed, i, 0u)));
}

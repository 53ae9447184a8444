// Idea: random numbers that depend on (seed, index) alone, so that any thread, block or processor draws the same ones.
// Formula: out[i] = gaussian(seed, i, stream), f32[n]; out[i] = permute(seed, i, n), u64[n].
// Since the last rung: none; this is a building block with a body on the CPU beside it.
// Needs: any shape; n below 2^62.
// Expect: bound by integer multiplication, ten rounds a number.
#include "nn/philox.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
gaussians(float* __restrict__ out /* [n] */, unsigned long long n, unsigned long long seed, unsigned stream) {
    const unsigned long long i = blockIdx.x * (unsigned long long)THREADS + threadIdx.x;
    if (i < n) out[i] = gaussian(seed, i, stream);
}

extern "C" __global__ void __launch_bounds__(THREADS)
permutation(unsigned long long* __restrict__ out /* [n] */, unsigned long long n, unsigned long long seed) {
    const unsigned long long i = blockIdx.x * (unsigned long long)THREADS + threadIdx.x;
    if (i < n) out[i] = permute(seed, i, n);
}

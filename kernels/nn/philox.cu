// Idea: random numbers that depend only on (seed, stream, index), so that any thread, any GPU and the CPU draw the same numbers.
// Formula: out[i] = gaussian(seed, first + i, stream) or uniform(...), f32[n]; out[i] = permute(seed, first + i, of), u64[n].
// Since the last rung: not a rung; a building block that the CPU implements too.
// Needs: any n; `of` at least first + n and at most 2^62.
// Expect: bound by integer multiplications, with ten rounds per number.
#include "nn/philox.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
gaussians(float* __restrict__ out /* [n] */, unsigned long long n, unsigned long long seed, unsigned stream,
          unsigned long long first) {
    const unsigned long long i = blockIdx.x * (unsigned long long)THREADS + threadIdx.x;
    if (i < n) out[i] = gaussian(seed, first + i, stream);
}

extern "C" __global__ void __launch_bounds__(THREADS)
uniforms(float* __restrict__ out /* [n] */, unsigned long long n, unsigned long long seed, unsigned stream,
         unsigned long long first) {
    const unsigned long long i = blockIdx.x * (unsigned long long)THREADS + threadIdx.x;
    if (i < n) out[i] = uniform(seed, first + i, stream);
}

extern "C" __global__ void __launch_bounds__(THREADS)
permutation(unsigned long long* __restrict__ out /* [n] */, unsigned long long n, unsigned long long seed,
            unsigned long long first, unsigned long long of) {
    const unsigned long long i = blockIdx.x * (unsigned long long)THREADS + threadIdx.x;
    if (i < n) out[i] = permute(seed, first + i, of);
}

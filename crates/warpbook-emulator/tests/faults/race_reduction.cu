// Fault: race, in line 11. Says: nothing orders the two
// Launch: 1 x 256, with x: f32[256]; y: f32[1]
// After: https://github.com/arrayfire/arrayfire/pull/633
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[256];
    unsigned t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
#pragma unroll 1
    for (unsigned half = 128; half > 0; half /= 2) {
        if (t < half) s[t] += s[t + half];
#if MENDED
        __syncthreads();
#endif
    }
    if (t == 0) y[0] = s[0];
}

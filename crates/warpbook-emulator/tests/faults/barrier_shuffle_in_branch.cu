// Fault: barrier, in line 10. Says: never come. Others wait in line 12
// Launch: 1 x 32, with x: f32[32]; y: f32[32]
// After: https://github.com/alpaka-group/mallocMC/pull/145
extern "C" __global__ void k(const float* x, float* y) {
    unsigned t = threadIdx.x;
    float v = x[t];
#if MENDED
    if (t < 16) v += __shfl_xor_sync(0xffffu, v, 1);
#else
    if (t < 16) v += __shfl_xor_sync(~0u, v, 1);
#endif
    __syncthreads();
    y[t] = v;
}

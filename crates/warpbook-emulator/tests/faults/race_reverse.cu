// Fault: race, in line 7 or 11. Says: nothing orders the two
// Launch: 1 x 64, with x: f32[64]
// After: https://developer.nvidia.com/blog/using-shared-memory-cuda-cc/
extern "C" __global__ void k(float* x) {
    __shared__ float s[64];
    unsigned t = threadIdx.x;
    s[t] = x[t];
#if MENDED
    __syncthreads();
#endif
    x[t] = s[63 - t];
}

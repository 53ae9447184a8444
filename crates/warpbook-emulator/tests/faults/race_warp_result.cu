// Fault: race, in line 9 or 13. Says: Put `__syncwarp()`
// Launch: 1 x 32, with x: f32[32]; y: f32[32]
// After: https://github.com/kokkos/kokkos/pull/6630
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float total;
    unsigned t = threadIdx.x;
    float v = x[t];
    for (int by = 16; by > 0; by /= 2) v += __shfl_down_sync(~0u, v, by);
    if (t == 0) total = v;
#if MENDED
    __syncwarp();
#endif
    y[t] = total;
}

// Fault: race, in line 6 or 10. Says: Put `__syncthreads()` between
// Launch: 1 x 64, with x: f32[64]; y: f32[2]
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float total;
    unsigned t = threadIdx.x;
    if (t == 63) total = x[t] * 3.0f;
#if MENDED
    __syncthreads();
#endif
    if (t < 2) y[t] = total;
}

// Fault: race, in line 7 or 11. Says: Put `__syncthreads()` between
// Launch: 1 x 128, with x: f32[128]; y: f32[128]
// After: NVIDIA, CUDA C/C++ Basics (SC11), "Data race!"
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[128];
    unsigned t = threadIdx.x;
    s[t] = x[t];
#if MENDED
    __syncthreads();
#endif
    y[t] = s[t] + (t > 0 ? s[t - 1] : 0.0f);
}

// Fault: out of bounds, in line 13 or 14. Says: 12 bytes before argument 1 (`x`)
// Launch: 2 x 64, with x: f32[128]; y: f32[128]; n: 128
// After: NVIDIA, CUDA C/C++ Basics (SC11), stencil_1d without its guards
extern "C" __global__ void k(const float* x, float* y, unsigned n) {
    __shared__ float s[64 + 6];
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x + 3;
    s[t] = x[i];
    if (threadIdx.x < 3) {
#if MENDED
        s[t - 3] = i >= 3 ? x[i - 3] : 0.0f;
        s[t + 64] = i + 64 < n ? x[i + 64] : 0.0f;
#else
        s[t - 3] = x[(int)i - 3];
        s[t + 64] = x[i + 64];
#endif
    }
    __syncthreads();
    float sum = 0.0f;
    for (int j = -3; j <= 3; ++j) sum += s[(int)t + j];
    y[i] = sum;
}

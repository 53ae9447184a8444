// Fault: race, in line 9 or 14. Says: nothing orders the two
// Launch: 1 x 64, with x: f32[256]; y: f32[4]
// After: https://github.com/NVIDIA/cuml/pull/6578
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[64];
    unsigned t = threadIdx.x;
#pragma unroll 1
    for (unsigned row = 0; row < 4; ++row) {
        s[t] = x[row * 64 + t];
        __syncthreads();
        if (t == 0) {
            float sum = 0.0f;
#pragma unroll 1
            for (unsigned i = 0; i < 64; ++i) sum += s[i];
            y[row] = sum;
        }
#if MENDED
        __syncthreads();
#endif
    }
}

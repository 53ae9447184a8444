// Fault: race, in line 19 or 20 or 21 or 22 or 23. Says: Put `__syncwarp()`
// Launch: 1 x 32, with x: f32[32]; y: f32[1]
// After: https://developer.nvidia.com/blog/using-cuda-warp-level-primitives/
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[64];
    unsigned t = threadIdx.x;
    s[t] = x[t];
    s[t + 32] = 0.0f;
    __syncwarp();
#if MENDED
    float v = s[t];
    for (unsigned by = 16; by > 0; by /= 2) {
        v += s[t + by];
        __syncwarp();
        s[t] = v;
        __syncwarp();
    }
#else
    s[t] += s[t + 16];
    s[t] += s[t + 8];
    s[t] += s[t + 4];
    s[t] += s[t + 2];
    s[t] += s[t + 1];
#endif
    if (t == 0) y[0] = s[0];
}

// Fault: out of bounds, in line 11. Says: element -1 of `s`, 4 bytes outside
// Launch: 1 x 64, with x: f32[64]; y: f32[64]
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
#if MENDED
    y[t] = s[t] - s[t == 0 ? 0 : t - 1];
#else
    y[t] = s[t] - s[t - 1];
#endif
}

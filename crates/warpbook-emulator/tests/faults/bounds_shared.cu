// Fault: out of bounds, in line 11. Says: shared memory, which has 256 bytes: element 64 of `s`, 4 bytes outside
// Launch: 1 x 64, with x: f32[64]; y: f32[64]
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[64];
    unsigned t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
#if MENDED
    y[t] = s[t] + s[(t + 1) % 64];
#else
    y[t] = s[t] + s[t + 1];
#endif
}

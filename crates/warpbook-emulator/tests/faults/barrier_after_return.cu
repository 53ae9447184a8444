// Fault: barrier, in line 14. Says: 40 of the block's 64 threads
// Launch: 1 x 64, with x: f32[64]; y: f32[64]; n: 40
// After: https://stackoverflow.com/questions/6666382/can-i-use-syncthreads-after-having-dropped-threads
extern "C" __global__ void k(const float* x, float* y, unsigned n) {
    __shared__ float s[64];
    unsigned t = threadIdx.x;
#if MENDED
    if (t < n) s[t] = x[t];
    __syncthreads();
    if (t < n) y[t] = s[n - 1 - t];
#else
    if (t >= n) return;
    s[t] = x[t];
    __syncthreads();
    y[t] = s[n - 1 - t];
#endif
}

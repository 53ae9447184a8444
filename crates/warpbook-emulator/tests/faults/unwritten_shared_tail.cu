// Fault: unwritten, in line 12. Says: argument 2 (`y`)
// Launch: 1 x 64, with x: f32[50]; y: new f32[64]; n: 50
extern "C" __global__ void k(const float* x, float* y, unsigned n) {
    __shared__ float s[64];
    unsigned t = threadIdx.x;
#if MENDED
    s[t] = t < n ? x[t] : 0.0f;
#else
    if (t < n) s[t] = x[t];
#endif
    __syncthreads();
    y[t] = s[63 - t] * 2.0f;
}

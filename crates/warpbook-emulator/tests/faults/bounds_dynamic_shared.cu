// Fault: out of bounds, in line 9. Says: shared memory, which has 128 bytes: element 32 of dynamic shared memory, 4 bytes outside
// Launch: 1 x 64 + 128, with x: f32[64]; y: f32[64]
extern "C" __global__ void k(const float* x, float* y) {
    extern __shared__ float s[];
    unsigned t = threadIdx.x;
#if MENDED
    if (t < 32) s[t] = x[t];
#else
    s[t] = x[t];
#endif
    __syncthreads();
    y[t] = s[t % 32];
}

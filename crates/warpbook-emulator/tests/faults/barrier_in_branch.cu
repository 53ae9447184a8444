// Fault: barrier, in line 10 or 15. Says: others at the one in line
// Launch: 1 x 64, with x: f32[64]; y: f32[64]
// After: the Stack Overflow question "CUDA: __syncthreads() inside if statements" (copy: https://codehunter.cc/a/c/cuda-syncthreads-inside-if-statements)
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[64];
    unsigned t = threadIdx.x;
    if (t % 2 == 0) {
        s[t] = x[t];
#if !MENDED
        __syncthreads();
#endif
    } else {
        s[t] = 2.0f * x[t];
#if !MENDED
        __syncthreads();
#endif
    }
#if MENDED
    __syncthreads();
#endif
    y[t] = t;
}

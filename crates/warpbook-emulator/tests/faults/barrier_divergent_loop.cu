// Fault: barrier, in line 14. Says: barrier
// Launch: 1 x 64, with x: u32[64]; y: u32[64]
// After: NVIDIA Compute Sanitizer, synccheck, divergent_threads
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    unsigned t = threadIdx.x, sum = 0;
#if MENDED
    unsigned rounds = 4;
#else
    unsigned rounds = t < 32 ? 3 : 4;
#endif
#pragma unroll 1
    for (unsigned i = 0; i < rounds; ++i) {
        sum += x[t];
        __syncthreads();
    }
    y[t] = sum;
}

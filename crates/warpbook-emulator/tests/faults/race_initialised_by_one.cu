// Fault: race, in line 7 or 11. Says: nothing orders the two
// Launch: 1 x 64, with x: u32[64]; y: u32[64]
// After: https://github.com/alicevision/popsift/pull/82
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    __shared__ unsigned bins[8];
    unsigned t = threadIdx.x;
    if (t < 8) bins[t] = 0;
#if MENDED
    __syncthreads();
#endif
    atomicAdd(bins + x[t] % 8, 1u);
    __syncthreads();
    if (t < 8) y[t] = bins[t];
}

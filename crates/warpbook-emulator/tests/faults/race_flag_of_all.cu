// Fault: race, in line 8 or 13. Says: of the shared variable `found`
// Launch: 1 x 64, with x: u32[64]; y: u32[64]
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    __shared__ unsigned found;
    unsigned t = threadIdx.x;
    if (t == 0) found = 0;
    __syncthreads();
    if (t > 50) found = 1;
    unsigned own = t < 32 ? 0 : x[t];
#if MENDED
    __syncthreads();
#endif
    y[t] = found + own;
}

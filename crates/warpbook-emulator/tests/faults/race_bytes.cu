// Fault: race, in line 6 or 10. Says: nothing orders the two
// Launch: 1 x 64, with x: u32[16]; y: u32[16]
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    __shared__ unsigned char s[64];
    unsigned t = threadIdx.x;
    s[t] = t;
#if MENDED
    __syncthreads();
#endif
    if (t < 16) y[t] = x[t] + s[t * 4 + 3];
}

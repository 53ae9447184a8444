// Fault: misaligned, in line 12. Says: reads 4 bytes
// Launch: 1 x 16, with y: u32[16]
// After: https://github.com/NVIDIA/Fuser/issues/4957
extern "C" __global__ void k(unsigned* y) {
    __shared__ __align__(16) unsigned short s[64];
    unsigned t = threadIdx.x;
    for (unsigned i = t; i < 64; i += 16) s[i] = i;
    __syncthreads();
#if MENDED
    y[t] = *(unsigned*)(s + 2 * t);
#else
    y[t] = *(unsigned*)(s + 3 * t);
#endif
}

// Fault: race, in line 8. Says: use atomic operations
// Launch: 8 x 1, with x: u32[8]; y: zero u32[2]
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    unsigned bin = x[blockIdx.x] % 2;
#if MENDED
    atomicAdd(y + bin, 1u);
#else
    y[bin] += 1u;
#endif
}

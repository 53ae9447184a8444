// Fault: race, in line 9. Says: use atomic operations
// Launch: 2 x 64, with x: u32[128]; y: zero u32[8]
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    unsigned i = blockIdx.x * 64 + threadIdx.x;
    if (threadIdx.x > 0) return;
#if MENDED
    atomicAdd(y + x[i] % 2, 1u);
#else
    y[x[i] % 2] += 1u;
#endif
}

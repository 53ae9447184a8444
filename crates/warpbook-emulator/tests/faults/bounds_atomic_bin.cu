// Fault: out of bounds, in line 8. Says: updates 4 bytes
// Launch: 1 x 64, with x: i32[64]; y: zero u32[8]
extern "C" __global__ void k(const int* x, unsigned* y) {
    int bin = x[threadIdx.x];
#if MENDED
    if (bin < 0 || bin >= 8) return;
#endif
    atomicAdd(y + bin, 1u);
}

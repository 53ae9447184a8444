// Fault: endless, in line 11. Says: It waits for a change of element
// Launch: 2 x 1, with l: zero u32[2]; y: zero u32[1]
extern "C" __global__ void k(unsigned* l, unsigned* y) {
#if MENDED
    unsigned first = 0;
#else
    unsigned first = blockIdx.x;
#endif
    while (atomicCAS(l + first, 0u, 1u) != 0u) {}
    for (int i = 0; i < 150; ++i) __nanosleep(1);
    while (atomicCAS(l + 1 - first, 0u, 1u) != 0u) {}
    atomicAdd(y, 1u);
    atomicExch(l + 1 - first, 0u);
    atomicExch(l + first, 0u);
}

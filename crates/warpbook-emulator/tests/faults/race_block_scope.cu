// Fault: race, in line 7. Says: nothing orders the two
// Launch: 3 x 32, with y: zero u32[1]
extern "C" __global__ void k(unsigned* y) {
#if MENDED
    atomicAdd(y, 1u);
#else
    atomicAdd_block(y, 1u);
#endif
}

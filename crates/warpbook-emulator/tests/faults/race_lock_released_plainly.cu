// Fault: race, in line 5 or 7 or 12. Says: nothing orders the two
// Launch: 4 x 1, with y: zero u32[1]; l: zero u32[1]
// After: https://taourl.com/read-2414105.html (Cuda atomic (CAS, Exch) loop hangs)
extern "C" __global__ void k(unsigned* y, unsigned* l) {
    while (atomicCAS(l, 0u, 1u) != 0u) {}
    __threadfence();
    *y += 1;
    __threadfence();
#if MENDED
    atomicExch(l, 0u);
#else
    *l = 0;
#endif
}

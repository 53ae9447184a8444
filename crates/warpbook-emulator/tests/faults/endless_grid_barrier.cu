// Fault: endless, in line 9. Says: It waits for a change of element 0 of argument 1 (`c`)
// Launch: 3 x 32, with c: zero u32[1]; y: u32[96]
extern "C" __global__ void k(volatile unsigned* c, unsigned* y) {
    if (threadIdx.x == 0) {
        atomicAdd((unsigned*)c, 1u);
#if MENDED
        while (*c < gridDim.x) {}
#else
        while (*c <= gridDim.x) {}
#endif
        __threadfence();
    }
    __syncthreads();
    y[blockIdx.x * 32 + threadIdx.x] = 1;
}

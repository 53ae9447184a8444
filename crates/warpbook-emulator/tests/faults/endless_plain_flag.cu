// Fault: endless, in line 11. Says: Its condition cannot change
// Launch: 2 x 32, with y: u32[32]; f: zero u32[1]
// After: https://blog.csdn.net/zenny_chen/article/details/6130109
extern "C" __global__ void k(unsigned* y, unsigned* f) {
    if (blockIdx.x == 0) {
        if (threadIdx.x == 0) atomicExch(f, 1u);
    } else {
#if MENDED
        while (atomicAdd(f, 0u) == 0) {}
#else
        while (*f == 0) {}
#endif
        y[threadIdx.x] = 1;
    }
}

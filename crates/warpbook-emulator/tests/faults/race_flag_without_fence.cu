// Fault: race, in line 6 or 19. Says: argument 1 (`x`)
// Launch: 2 x 32, with x: f32[32]; y: f32[32]; f: zero u32[1]
// After: NVIDIA, CUDA C++ Programming Guide, Memory Fence Functions: writeXY and readXY
extern "C" __global__ void k(float* x, float* y, volatile unsigned* f) {
    if (blockIdx.x == 0) {
        x[threadIdx.x] = threadIdx.x;
#if MENDED
        __threadfence();
        __syncthreads();
        __threadfence();
#else
        __syncthreads();
#endif
        if (threadIdx.x == 0) *f = 1;
    } else {
        if (threadIdx.x == 0) while (*f == 0) {}
        __threadfence();
        __syncthreads();
        y[threadIdx.x] = x[31 - threadIdx.x];
    }
}

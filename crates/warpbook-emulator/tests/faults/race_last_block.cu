// Fault: race, in line 9 or 22. Says: argument 2 (`y`)
// Launch: 4 x 64, with x: f32[256]; y: f32[4]; z: f32[1]; c: zero u32[1]
// After: NVIDIA, CUDA C++ Programming Guide, Memory Fence Functions: the sum of the last block without its fence
extern "C" __global__ void k(const float* x, float* y, float* z, unsigned* c) {
    __shared__ bool is_last;
    if (threadIdx.x == 0) {
        float sum = 0.0f;
        for (unsigned i = 0; i < 64; ++i) sum += x[blockIdx.x * 64 + i];
        y[blockIdx.x] = sum;
#if MENDED
        __threadfence();
#endif
        is_last = atomicInc(c, gridDim.x) == gridDim.x - 1;
#if MENDED
        __threadfence();
#endif
    }
    __syncthreads();
    if (is_last && threadIdx.x == 0) {
        float total = 0.0f;
#pragma unroll 1
        for (unsigned b = 0; b < gridDim.x; ++b) total += y[b];
        z[0] = total;
    }
}

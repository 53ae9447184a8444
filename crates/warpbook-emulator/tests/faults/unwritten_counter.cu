// Fault: unwritten, in line 8. Says: updates element
// Launch: 1 x 64, with x: f32[64]; y: new u32[4]
extern "C" __global__ void k(const float* x, unsigned* y) {
#if MENDED
    if (threadIdx.x < 4) y[threadIdx.x] = 0;
    __syncthreads();
#endif
    atomicAdd(y + threadIdx.x % 4, 1u);
}

// Fault: race, in line 8. Says: such as `atomicAdd`
// Launch: 2 x 64, with x: f32[128]; total: f32[1]
extern "C" __global__ void k(const float* x, float* total) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
#if MENDED
    atomicAdd(total, x[i]);
#else
    *total += x[i];
#endif
}

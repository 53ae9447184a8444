// Fault: endless, in line 6 or 11. Says: The loop in line
// Launch: 1 x 64, with x: f32[64]; n: 64
// After: https://taourl.com/read-2677868.html (Why Does this CUDA Code Loop Indefinitely?)
extern "C" __global__ void k(float* x, unsigned n) {
    unsigned i = threadIdx.x;
    while (i < n) {
        x[i] = 2.0f;
#if MENDED
        i += blockDim.x;
#else
        i += gridDim.x - 1;
#endif
    }
}

// Fault: race, in line 8 or 9. Says: Blocks run in any order
// Launch: 4 x 32, with x: f32[128]; y: f32[128]
extern "C" __global__ void k(const float* x, float* y) {
    unsigned i = blockIdx.x * 32 + threadIdx.x;
#if MENDED
    y[i] = x[i] + 2.0f * x[(i + 32) % 128];
#else
    y[i] = x[i];
    y[i] += 2.0f * y[(i + 32) % 128];
#endif
}

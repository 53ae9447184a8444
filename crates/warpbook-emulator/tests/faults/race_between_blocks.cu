// Fault: race, in line 8 or 9. Says: Blocks run in any order
// Launch: 4 x 32, with x: f32[128]; y: f32[129]
extern "C" __global__ void k(const float* x, float* y) {
    unsigned i = blockIdx.x * 32 + threadIdx.x;
#if MENDED
    y[i] = x[i] + (i > 0 ? x[i - 1] : 0.0f);
#else
    y[i + 1] = x[i];
    y[0] = y[i] + 1.0f;
#endif
}

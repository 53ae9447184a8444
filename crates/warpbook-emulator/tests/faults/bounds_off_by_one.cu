// Fault: out of bounds, in line 8. Says: argument 1 (`x`)
// Launch: 1 x 128, with x: f32[100]; y: f32[100]; n: 100
extern "C" __global__ void k(const float* x, float* y, unsigned n) {
    unsigned i = threadIdx.x;
#if MENDED
    if (i < n) y[i] = x[i];
#else
    if (i <= n) y[i] = x[i];
#endif
}

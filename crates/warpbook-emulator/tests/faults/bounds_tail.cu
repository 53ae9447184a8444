// Fault: out of bounds, in line 9. Says: argument 2 (`y`), which has 1200 bytes: element 300, 4 bytes outside
// Launch: 3 x 128, with x: f32[300]; y: f32[300]; n: 300
// After: https://github.com/brucefan1983/GPUMD/issues/1740
extern "C" __global__ void k(const float* x, float* y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
#if MENDED
    if (i >= n) return;
#endif
    y[i] = 2.0f;
}

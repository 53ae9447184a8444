// Fault: out of bounds, in line 10. Says: argument 1 (`x`)
// Launch: 2 x 64, with x: f32[96]; y: f32[96]; n: 8; m: 12
extern "C" __global__ void k(const float* x, float* y, unsigned n, unsigned m) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * m) return;
    unsigned row = i / m, column = i % m;
#if MENDED
    y[column * n + row] = x[row * m + column];
#else
    y[column * n + row] = x[column * m + row];
#endif
}

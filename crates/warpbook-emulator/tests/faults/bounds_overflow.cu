// Fault: out of bounds, in line 11. Says: bytes before argument 1 (`x`)
// Launch: 1 x 64, with x: f32[64]; y: f32[64]; n: 1073741824
// After: https://github.com/rapidsai/raft/issues/2683
extern "C" __global__ void k(const float* x, float* y, int n) {
    int i = threadIdx.x;
#if MENDED
    long long at = 2LL * n * (i % 2);
    if (at < blockDim.x) y[i] = x[at];
#else
    int at = 2 * n * (i % 2);
    if (at < (int)blockDim.x) y[i] = x[at];
#endif
}

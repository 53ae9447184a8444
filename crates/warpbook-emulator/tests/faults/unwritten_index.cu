// Fault: unwritten, in line 10. Says: An address depends on
// Launch: 1 x 32, with x: f32[32]; y: f32[32]
extern "C" __global__ void k(const float* x, float* y) {
    int best[2];
#if MENDED
    best[0] = best[1] = 0;
#endif
    for (int i = 0; i < 32; ++i)
        if (x[i] > 1e6f) best[i & 1] = i;
    y[threadIdx.x] = x[best[threadIdx.x & 1] & 31];
}

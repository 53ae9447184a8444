// Fault: unwritten, in line 10. Says: nobody has written, which was read
// Launch: 1 x 32, with x: f32[32]; y: new f32[2]
extern "C" __global__ void k(const float* x, float* y) {
    float sums[8];
#if MENDED
    for (unsigned i = 0; i < 8; ++i) sums[i] = 0.0f;
#endif
#pragma unroll 1
    for (unsigned i = 0; i < 32; ++i) sums[(i + threadIdx.x) % 8] += x[i];
    if (threadIdx.x < 2) y[threadIdx.x] = sums[threadIdx.x * 3];
}

// Fault: unwritten, in line 10. Says: never set
// Launch: 1 x 32, with x: f32[32]; y: new f32[1]
extern "C" __global__ void k(const float* x, float* y) {
#if MENDED
    float sum = 0.0f;
#else
    float sum;
#endif
    for (unsigned i = 0; i < 32; ++i) sum += x[i] * x[i];
    if (threadIdx.x == 0) y[0] = sum;
}

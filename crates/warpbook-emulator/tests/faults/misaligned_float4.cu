// Fault: misaligned, in line 9 or 11. Says: reads 16 bytes
// Launch: 1 x 8, with x: f32[40]; y: f32[40]
// After: https://github.com/PaddlePaddle/Paddle/pull/23090
extern "C" __global__ void k(const float* x, float* y) {
    unsigned i = threadIdx.x;
#if MENDED
    float4 v = ((const float4*)(x + 4))[i];
#else
    float4 v = ((const float4*)(x + 2))[i];
#endif
    ((float4*)y)[i] = v;
}

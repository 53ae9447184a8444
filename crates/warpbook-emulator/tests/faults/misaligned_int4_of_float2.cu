// Fault: misaligned, in line 9. Says: writes 16 bytes
// Launch: 1 x 3, with x: f32[16]; y: f32[16]
// After: https://github.com/ggml-org/llama.cpp/pull/18799
extern "C" __global__ void k(const float* x, float* y) {
    float2* to = (float2*)y + threadIdx.x;
#if MENDED
    to[0] = ((const float2*)x)[threadIdx.x];
#else
    *(int4*)to = *(const int4*)x;
#endif
}

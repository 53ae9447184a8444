// Fault: unwritten, in line 10. Says: argument 2 (`y`)
// Launch: 1 x 16, with x: f32[16]; y: new f32[16]
extern "C" __global__ void k(const float* x, float* y) {
    float v = x[threadIdx.x];
#if MENDED
    for (int by = 8; by > 0; by /= 2) v += __shfl_xor_sync(0xffff, v, by);
#else
    for (int by = 16; by > 0; by /= 2) v += __shfl_xor_sync(~0u, v, by);
#endif
    y[threadIdx.x] = v;
}

// Fault: unwritten, in line 11. Says: argument 2 (`y`)
// Launch: 1 x 64, with x: new f32[64]; y: new f32[64]
// After: NVIDIA Compute Sanitizer, initcheck, memset_error: only a part of the buffer is set
extern "C" __global__ void k(float* x, float* y) {
    unsigned i = threadIdx.x;
#if MENDED
    x[i] = i;
#else
    if (i < 16) x[i] = i;
#endif
    y[i] = x[i] + 1.0f;
}

// Fault: out of bounds, in line 8. Says: far from every buffer
// Launch: 1 x 32, with x: f32[32]; y: f32[32]
// After: NVIDIA Compute Sanitizer, memcheck_demo, out_of_bounds_kernel
extern "C" __global__ void k(const float* x, float* y) {
#if MENDED
    y[threadIdx.x] = 42;
#else
    *(int*)0x87654320 = 42;
#endif
}

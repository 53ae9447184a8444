// Fault: barrier, in line 11. Says: is not in the mask
// Launch: 1 x 32, with x: f32[32]; y: f32[32]
// After: NVIDIA Compute Sanitizer, synccheck, illegal_syncwarp
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[32];
    unsigned t = threadIdx.x;
    s[t] = x[t];
#if MENDED
    __syncwarp();
#else
    asm volatile("bar.warp.sync 0xffff;" ::: "memory");
#endif
    y[t] = s[31 - t];
}

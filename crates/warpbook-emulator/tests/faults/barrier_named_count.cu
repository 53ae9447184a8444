// Fault: barrier, in line 11. Says: arrived at barrier 1
// Launch: 1 x 96, with x: f32[96]; y: f32[96]
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[96];
    unsigned t = threadIdx.x;
    s[t] = x[t];
    if (t < 64) {
#if MENDED
        asm volatile("bar.sync 1, 64;" ::: "memory");
#else
        asm volatile("bar.sync 1, 96;" ::: "memory");
#endif
        y[t] = s[63 - t];
    }
}

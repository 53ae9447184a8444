// Fault: race, in line 5 or 15. Says: argument 1 (`x`)
// Launch: 2 x 1, with x: f32[2]; y: f32[2]; f: zero u32[1]
extern "C" __global__ void k(float* x, float* y, volatile unsigned* f) {
    if (blockIdx.x == 0) {
        x[0] = 3.0f;
#if MENDED
        __threadfence();
#else
        __threadfence_block();
#endif
        *f = 1;
    } else {
        while (*f == 0) {}
        __threadfence();
        y[0] = x[0];
    }
}

// Fault: unwritten, in line 12. Says: A branch depends on something that nobody has written, which was read in line 12: element 0 of the shared variable `is_last`
// Launch: 1 x 64, with x: f32[64]; y: f32[64]
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ int is_last;
    unsigned t = threadIdx.x;
#if MENDED
    if (t == 0) is_last = x[0] > 0.0f;
#else
    if (t == 0 && x[0] > 100.0f) is_last = (int)x[1];
#endif
    __syncthreads();
    if (is_last) {
        atomicAdd(y, 1.0f);
        __nanosleep(10);
    }
}

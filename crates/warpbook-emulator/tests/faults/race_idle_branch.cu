// Fault: race, in line 9 or 16. Says: nothing orders the two
// Launch: 1 x 64, with x: f32[32]; y: f32[2]
// After: https://github.com/NVIDIA/Fuser/issues/678
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float total[1];
    unsigned t = threadIdx.x;
    if (t == 0) {
        total[0] = x[0] + x[1];
        y[0] = total[0];
    }
#if MENDED
    __syncthreads();
    if (t == 40) total[0] = 0.0f;
    __syncthreads();
#else
    if (t == 40) total[0] = 0.0f;
#endif
    if (t == 40) y[1] = total[0];
}

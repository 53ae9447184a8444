// Fault: race, in line 9 or 11. Says: nothing orders the two
// Launch: 1 x 96, with x: u32[96]; y: u32[96]
// After: https://github.com/yelhousni/zprize-GPU-MSM-harness/pull/1
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    __shared__ unsigned values[96];
    unsigned t = threadIdx.x, same = 0;
#pragma unroll 1
    for (unsigned round = 0; round < 3; ++round) {
        values[t] = x[t] + round;
        __syncthreads();
        same += values[(t + 33) % 96];
#if MENDED
        __syncthreads();
#endif
    }
    y[t] = same;
}

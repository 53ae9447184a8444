// Idea: the walks of chase.cu, with the indices of the next lines in shared memory.
// Formula: y[j] = the line after 125,000 steps of p = next(p) from line j lines / 8, next(p) = x[32 p]; f32[8].
// Since the last rung: the walks read shared memory instead of global memory.
// Needs: one block; at most 4096 lines.
// Expect: a tenth of the latency of L2, whatever the number of lines.
extern "C" __global__ void __launch_bounds__(THREADS)
chase(const float* __restrict__ x /* [n] */, float* __restrict__ y /* [8] */, unsigned n, unsigned) {
    __shared__ unsigned next[4096];
    if (blockIdx.x != 0) return;
    const unsigned lines = n / 32;
    for (unsigned p = threadIdx.x; p < lines; p += THREADS) next[p] = __float_as_uint(x[32 * p]);
    __syncthreads();
    if (threadIdx.x != 0) return;
#pragma unroll 1
    for (unsigned j = 0; j < 8; ++j) {
        unsigned at = j * (lines / 8);
#pragma unroll 1
        for (int step = 0; step < 125000; ++step) at = next[at];
        y[j] = at;
    }
}

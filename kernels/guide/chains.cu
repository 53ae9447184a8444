// Idea: a thread has eight sums to compute and works on CHAINS of them at a time; each addition needs the one before it in its chain.
// Formula: y[i] = sum over j < 8 of 64 steps of v = a v + b from x[i] + j; f32[n].
// Since the last rung: only the order of the instructions; the result has the same bits.
// Needs: a grid of WARPS warps per SM.
// Expect: an addition takes about four cycles, so a scheduler needs four independent ones, from several warps or from one thread's chains.
extern "C" __global__ void __launch_bounds__(THREADS)
chains(const float* __restrict__ x /* [n] */, float* __restrict__ y /* [n] */, unsigned n, unsigned) {
    for (unsigned i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) {
        float sum = 0;
#pragma unroll 1
        for (int first = 0; first < 8; first += CHAINS) {
            float v[CHAINS];
#pragma unroll
            for (int j = 0; j < CHAINS; ++j) v[j] = x[i] + (first + j);
#pragma unroll 8
            for (int step = 0; step < 64; ++step) {
#pragma unroll
                for (int j = 0; j < CHAINS; ++j) v[j] = fmaf(0.99f, v[j], 0.01f);
            }
#pragma unroll
            for (int j = 0; j < CHAINS; ++j) sum += v[j];
        }
        y[i] = sum;
    }
}

// Idea: eight walks through a set of lines, each of which names the next one; CHAINS of them at a time.
// Formula: y[j] = the line after 125,000 steps of p = next(p) from line j lines / 8, next(p) = x[32 p]; f32[8].
// Since the last rung: how many of the walks wait for memory at the same time.
// Needs: one thread; n words in lines of 32, next a single cycle.
// Expect: a million loads one after another take as many nanoseconds each as they take milliseconds together.
extern "C" __global__ void __launch_bounds__(THREADS)
chase(const float* __restrict__ x /* [n] */, float* __restrict__ y /* [8] */, unsigned n, unsigned) {
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
    const unsigned lines = n / 32;
#pragma unroll 1
    for (unsigned first = 0; first < 8; first += CHAINS) {
        unsigned at[CHAINS];
#pragma unroll
        for (unsigned j = 0; j < CHAINS; ++j) at[j] = (first + j) * (lines / 8);
#pragma unroll 1
        for (int step = 0; step < 125000; ++step) {
#pragma unroll
            for (unsigned j = 0; j < CHAINS; ++j) at[j] = __float_as_uint(x[32 * at[j]]);
        }
#pragma unroll
        for (unsigned j = 0; j < CHAINS; ++j) y[first + j] = at[j];
    }
}

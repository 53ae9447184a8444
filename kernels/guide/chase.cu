// Idea: eight walks through a set of lines, each of which holds the index of the next; CHAINS of the walks run at a time.
// Formula: y[j] = the line after 125,000 steps of p = next(p) from line y[j], or j lines / 8 if y[j] is NaN, next(p) = x[32 p]; f32[8].
// Since the last rung: more walks wait for memory at the same time.
// Needs: one thread; n words in at most 2^24 lines of 32, `next` a single cycle through all lines; y NaN, or as the last launch left it.
// Expect: a million loads, one after another: the total in milliseconds is the latency of one load in nanoseconds.
extern "C" __global__ void __launch_bounds__(THREADS)
chase(const float* __restrict__ x /* [n] */, float* __restrict__ y /* [8] */, unsigned n, unsigned) {
    // A walk continues where the last launch ended. If it started over, it would find its million lines in L2, however large the set is.
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
    const unsigned lines = n / 32;
#pragma unroll 1
    for (unsigned first = 0; first < 8; first += CHAINS) {
        unsigned at[CHAINS];
#pragma unroll
        for (unsigned j = 0; j < CHAINS; ++j) at[j] = isnan(y[first + j]) ? (first + j) * (lines / 8) : (unsigned)y[first + j];
#pragma unroll 1
        for (int step = 0; step < 125000; ++step) {
#pragma unroll
            for (unsigned j = 0; j < CHAINS; ++j) at[j] = __float_as_uint(x[32 * at[j]]);
        }
#pragma unroll
        for (unsigned j = 0; j < CHAINS; ++j) y[first + j] = at[j];
    }
}

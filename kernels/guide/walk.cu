// Idea: a warp walks from line to line, each of which names the next, and keeps HELD values in registers before it adds them.
// Formula: y[i] = sum of x[32 p_s + i mod 32] over 128 steps s, p_0 = h(w 128), p_s = h(p_(s-1) + x[32 p_(s-1)] xor w 128 + s), w = i / 32; f32.
// Since the last rung: how many registers a thread uses, or may use under BLOCKS_PER_SM; loads, additions and result are the same.
// Needs: n words in lines of 32, with a power of two as the number of lines; small integers, so that every order of the additions gives the same bits.
// Expect: each warp waits for one line at a time, so the time is inversely proportional to the warps that fit on an SM, which registers limit.
__device__ unsigned place(unsigned h, unsigned lines) {
    h *= 0x9e3779b1u;
    h ^= h >> 15;
    return h * 0x85ebca6bu & (lines - 1);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
walk(const float* __restrict__ x /* [n] */, float* __restrict__ y /* [threads] */, unsigned n, unsigned threads) {
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= threads) return;
    const unsigned lane = i % 32, seed = i / 32 * 128;
    unsigned at = place(seed, n / 32);
    float sum = 0;
#pragma unroll 1
    for (unsigned first = 0; first < 128; first += HELD) {
        float held[HELD];
#pragma unroll
        for (unsigned j = 0; j < HELD; ++j) {
            held[j] = x[32 * at + lane];
            const unsigned named = (unsigned)__shfl_sync(0xffffffff, held[j], 0);
            at = place((at + named) ^ (seed + first + j + 1), n / 32);
        }
        // Adds the last value first, so that no addition can start before all values are loaded.
#pragma unroll
        for (unsigned j = HELD; j-- > 0;) sum += held[j];
    }
    y[i] = sum;
}

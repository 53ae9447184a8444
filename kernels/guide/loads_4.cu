// Idea: a thread moves one word.
// Formula: y[i] = 2 x[i]; f32[n].
// Since the last rung: nothing; this is the slow half of a pair.
// Needs: nothing.
// Expect: coalesced, but a quarter of the bytes in flight of 16-byte loads, with four times as many instructions.
extern "C" __global__ void __launch_bounds__(THREADS)
scale(const float* __restrict__ x /* [n] */, float* __restrict__ y /* [n] */, unsigned n, unsigned) {
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}

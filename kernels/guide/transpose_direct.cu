// Idea: a thread moves one element; a warp reads from one line and writes to 32.
// Formula: y[c][r] = x[r][c]; f32[edge][edge].
// Since the last rung: nothing; this is the slow half of a pair.
// Needs: any edge.
// Expect: a write of 4 bytes moves a sector of 32: an eighth of the bandwidth at worst, more if L2 combines the writes.
extern "C" __global__ void __launch_bounds__(THREADS)
transpose(const float* __restrict__ x /* [edge][edge] */, float* __restrict__ y /* [edge][edge] */, unsigned n, unsigned edge) {
    const unsigned t = blockIdx.x * THREADS + threadIdx.x;
    if (t < n) y[t % edge * edge + t / edge] = x[t];
}

// Idea: row r stores its element c at position c ^ r, so that rows and columns both lie in 32 different banks.
// Formula: y[c][r] = x[r][c]; f32[edge][edge].
// Since the last rung: an exclusive or instead of the padding; rows stay aligned, as TMA and 16-byte accesses require.
// Needs: an edge that is a multiple of 32.
// Expect: no conflicts and no wasted memory.
extern "C" __global__ void __launch_bounds__(THREADS)
transpose(const float* __restrict__ x /* [edge][edge] */, float* __restrict__ y /* [edge][edge] */, unsigned, unsigned edge) {
    __shared__ float tile[32][32];
    const unsigned tiles = edge / 32, row = blockIdx.x / tiles * 32, column = blockIdx.x % tiles * 32;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (unsigned r = warp; r < 32; r += THREADS / 32) tile[r][lane ^ r] = x[(row + r) * edge + column + lane];
    __syncthreads();
    for (unsigned r = warp; r < 32; r += THREADS / 32) y[(column + r) * edge + row + lane] = tile[lane][r ^ lane];
}

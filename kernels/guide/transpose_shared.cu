// Idea: a block reads a tile by rows and writes it by rows; it transposes the tile in shared memory, where any order should cost the same.
// Formula: y[c][r] = x[r][c]; f32[edge][edge].
// Since the last rung: reads and writes of global memory are both coalesced.
// Needs: an edge that is a multiple of 32.
// Expect: reading a column of the tile hits one of 32 banks with all lanes: 32 wavefronts instead of one.
extern "C" __global__ void __launch_bounds__(THREADS)
transpose(const float* __restrict__ x /* [edge][edge] */, float* __restrict__ y /* [edge][edge] */, unsigned, unsigned edge) {
    __shared__ float tile[32][32];
    const unsigned tiles = edge / 32, row = blockIdx.x / tiles * 32, column = blockIdx.x % tiles * 32;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (unsigned r = warp; r < 32; r += THREADS / 32) tile[r][lane] = x[(row + r) * edge + column + lane];
    __syncthreads();
    for (unsigned r = warp; r < 32; r += THREADS / 32) y[(column + r) * edge + row + lane] = tile[lane][r];
}
